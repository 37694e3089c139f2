//! Loading a chip image.

use nandkit_block::BlockDevice;
use nandkit_units::{BlockIndex, Context};

use super::bytes::read_bytes;
use super::layout::{BLOCK_BYTES, BlockRecord, HEADER_BYTES, Header, Layout, PageRecord, RECORDED_PAGES};
use super::{BATCH_BYTES, ChipImage, ImageError};
use crate::chip::NandChip;
use crate::spec::ChipSpec;
use crate::store::{SlotPage, Store};

/// Block records per read.
const BATCH_BLOCKS: u32 = 32_768;

impl<S: Store, D: BlockDevice> ChipImage<S, D> {
    /// Opens a chip in its state at the last sync. It has just been powered on: every die is idle.
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
            recorded: Default::default(),
            last_instant: header.last_instant,
            number: header.chip,
        };
        image.chip.read_state_mut().read_number = header.read_number;
        image.load_blocks(context)?;
        image.check_blocks(&header)?;
        Ok(image)
    }

    /// Refuses an image whose block records do not match the counts in the header.
    fn check_blocks(&self, header: &Header) -> Result<(), ImageError> {
        let (found, expected) = (self.recorded.blocks(), header.recorded_blocks);
        if found == expected {
            return Ok(());
        }
        let one = u64::from(found.0) + 1 == u64::from(expected.0);
        let lost = expected.1.checked_sub(found.1).filter(|block| one && *block < u64::from(self.chip.geometry.blocks));
        let (what, offset) = match lost {
            Some(block) => (format!(" ({} has lost its record)", BlockIndex(block as u32)), block as u32),
            None => (String::new(), 0),
        };
        let what = format!("the number of blocks with a record{what}");
        Err(ImageError::damaged(what, found.0, expected.0).at(self.layout.block_at(offset)))
    }

    fn load_blocks(&mut self, context: &Context) -> Result<(), ImageError> {
        let blocks = self.chip.geometry.blocks;
        let mut first = 0;
        while first < blocks {
            let count = BATCH_BLOCKS.min(blocks - first);
            let mut records = vec![0; count as usize * BLOCK_BYTES];
            read_bytes(&self.device, context, self.layout.block_at(first), &mut records)?;
            for (block, bytes) in (first..).zip(records.as_chunks::<BLOCK_BYTES>().0) {
                let record = BlockRecord::decode(block, bytes, &self.chip.geometry, self.number)
                    .map_err(|error| error.at(self.layout.block_at(block)))?;
                if let Some(record) = record {
                    self.load_block(context, BlockIndex(block), &record)?;
                    self.check_pages(block, &record)?;
                }
            }
            first += count;
        }
        Ok(())
    }

    /// Refuses a block whose page records do not match the count in its own record.
    fn check_pages(&self, block: u32, record: &BlockRecord) -> Result<(), ImageError> {
        let found = self.recorded.pages(block, record.next_page);
        if found % RECORDED_PAGES == record.recorded_pages {
            return Ok(());
        }
        let first = self.recorded.first_missing(block);
        let (which, place) = if first < record.next_page {
            (format!(" (the first without one is page {first})"), self.layout.page_at(block, first))
        } else {
            (String::new(), self.layout.block_at(block))
        };
        let what = format!("the number of page records in block {block}{which}");
        Err(ImageError::damaged(what, found, record.recorded_pages).at(place))
    }

    fn load_block(&mut self, context: &Context, block: BlockIndex, record: &BlockRecord) -> Result<(), ImageError> {
        self.recorded.add_block(block.0);
        let chip = &mut self.chip;
        chip.blocks.restore(block, record.erases, record.next_page, record.flags);
        if let Some(instant) = chip.programmed_at.get_mut(block.index()) {
            *instant = record.programmed_at;
        }
        if let Some(reads) = chip.read_state_mut().reads_since_erase.get_mut(block.index()) {
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
                self.load_page(block, SlotPage { slot, page }, bytes, record.erases)?;
            }
            first += batch;
        }
        Ok(())
    }

    fn load_page(
        &mut self,
        block: BlockIndex,
        place: SlotPage,
        bytes: &[u8],
        generation: u32,
    ) -> Result<(), ImageError> {
        let at = block.page(place.page);
        let page_size = self.chip.geometry.page_size;
        let offset = self.layout.page_at(block.0, place.page);
        let record = PageRecord::decode(&at.to_string(), bytes, &self.layout, page_size, (self.number, generation));
        let Some(record) = record.map_err(|error| error.at(offset))? else { return Ok(()) };
        self.recorded.add_page(block.0, place.page);
        self.chip.store.bring_back(place, &record.kept).map_err(|_| {
            ImageError::damaged(format!("the content of {at}"), "a shadow's tag", "bytes or a description").at(offset)
        })?;
        self.chip.rules.set_page_word(place.slot, place.page, record.rules_word);
        if let Some(flaw) = record.flaw {
            self.chip.flaw(at, flaw);
        }
        Ok(())
    }
}
