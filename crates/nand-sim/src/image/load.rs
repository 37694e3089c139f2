//! Reading a chip's image.

use nandkit_block::BlockDevice;
use nandkit_units::{BlockIndex, Context};

use super::bytes::read_bytes;
use super::layout::{BLOCK_BYTES, BlockRecord, HEADER_BYTES, Header, Layout, PageRecord};
use super::{BATCH_BYTES, ChipImage, ImageError};
use crate::chip::NandChip;
use crate::spec::ChipSpec;
use crate::store::{Place, Store};

/// Block records are read together by so many.
const BATCH_BLOCKS: u32 = 32_768;

impl<S: Store, D: BlockDevice> ChipImage<S, D> {
    /// Opens a chip as it was at the last sync. Its power has just come on: every die is idle.
    pub fn open(device: D, context: &Context) -> Result<Self, ImageError> {
        let capacity = device.geometry().capacity();
        if capacity < HEADER_BYTES as u64 {
            return Err(ImageError::TooSmall { found: capacity, expected: HEADER_BYTES as u64 });
        }
        let mut bytes = vec![0; HEADER_BYTES];
        read_bytes(&device, context, 0, &mut bytes)?;
        let header = Header::decode(&bytes)?;
        if header.kind != S::KIND {
            let (found, expected) = (format!("{:?}", header.kind), format!("{:?}", S::KIND));
            return Err(ImageError::StoreKind { found, expected });
        }
        let spec = ChipSpec::from_toml(&header.spec)?;
        let layout = Layout::new(&spec.geometry.build(), S::KIND);
        if capacity < layout.bytes() {
            return Err(ImageError::TooSmall { found: capacity, expected: layout.bytes() });
        }
        let mut image = Self {
            chip: NandChip::<S>::new(&spec, header.seed)?,
            device,
            layout,
            dirty: Default::default(),
            read: Default::default(),
            last_instant: header.last_instant,
            number: header.chip,
        };
        image.chip.shared_mut().read_number = header.read_number;
        image.load_blocks(context)?;
        Ok(image)
    }

    fn load_blocks(&mut self, context: &Context) -> Result<(), ImageError> {
        let blocks = self.chip.geometry.blocks;
        let mut first = 0;
        while first < blocks {
            let count = BATCH_BLOCKS.min(blocks - first);
            let mut records = vec![0; count as usize * BLOCK_BYTES];
            read_bytes(&self.device, context, self.layout.block_at(first), &mut records)?;
            for (block, bytes) in (first..).zip(records.as_chunks::<BLOCK_BYTES>().0) {
                if let Some(record) = BlockRecord::decode(block, bytes, &self.chip.geometry, self.number)? {
                    self.load_block(context, BlockIndex(block), &record)?;
                }
            }
            first += count;
        }
        Ok(())
    }

    fn load_block(&mut self, context: &Context, block: BlockIndex, record: &BlockRecord) -> Result<(), ImageError> {
        let chip = &mut self.chip;
        chip.blocks.restore(block, record.erases, record.next_page, record.flags);
        if let Some(instant) = chip.programmed_at.get_mut(block.index()) {
            *instant = record.programmed_at;
        }
        if let Some(reads) = chip.shared_mut().reads_since_erase.get_mut(block.index()) {
            *reads = record.reads;
        }
        if record.next_page == 0 {
            return Ok(());
        }
        let slot = chip.slot_of(block, &chip.blocks.get(block));
        let page_bytes = self.layout.page_bytes();
        let batch = (BATCH_BYTES / page_bytes).max(1) as u32;
        let mut first = 0;
        while first < record.next_page {
            let mut bytes = vec![0; page_bytes * batch.min(record.next_page - first) as usize];
            read_bytes(&self.device, context, self.layout.page_at(block.0, first), &mut bytes)?;
            for (page, bytes) in (first..).zip(bytes.chunks_exact(page_bytes)) {
                self.load_page(block, Place { slot, page }, bytes, record.erases)?;
            }
            first += batch;
        }
        Ok(())
    }

    fn load_page(&mut self, block: BlockIndex, place: Place, bytes: &[u8], generation: u32) -> Result<(), ImageError> {
        let at = block.page(place.page);
        let page_size = self.chip.geometry.page_size;
        let Some(record) =
            PageRecord::decode(&at.to_string(), bytes, &self.layout, page_size, (self.number, generation))?
        else {
            return Ok(());
        };
        self.chip.store.bring_back(place, &record.kept).map_err(|_| {
            ImageError::damaged(format!("the content of {at}"), "a shadow's tag", "bytes or a description")
        })?;
        self.chip.rules.set_page_word(place.slot, place.page, record.rules_word);
        if let Some(flaw) = record.flaw {
            self.chip.flaw(at, flaw);
        }
        Ok(())
    }
}
