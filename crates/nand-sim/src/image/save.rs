//! Saving a chip image: the whole header, and changed blocks and pages.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use nandkit_block::BlockDevice;
use nandkit_units::{BlockIndex, Context, PageAddress};

use super::bytes::{read_bytes, write_bytes};
use super::layout::{BlockRecord, HEADER_BYTES, Header, Layout, PageRecord, RECORDED_PAGES};
use super::{BATCH_BYTES, ChipImage, ImageError};
use crate::blocks::{BlockState, flag};
use crate::chip::NandChip;
use crate::spec::ChipSpec;
use crate::store::{SlotPage, Store};

impl<S: Store, D: BlockDevice> ChipImage<S, D> {
    /// Makes a new chip on a device, and flushes it. The device must hold zeroes or an older chip,
    /// which is lost.
    pub fn create(device: D, spec: &ChipSpec, seed: u64, context: &Context) -> Result<Self, ImageError> {
        spec.check()?;
        let layout = Layout::new(&spec.geometry.build(), S::KIND);
        let capacity = device.geometry().capacity();
        if capacity < layout.bytes() {
            return Err(ImageError::TooSmall { found: capacity, expected: layout.bytes() });
        }
        let chip = NandChip::<S>::new(spec, seed)?;
        let mut header = vec![0; HEADER_BYTES];
        read_bytes(&device, context, 0, &mut header)?;
        let number = Header::next_chip(&header);
        let mut image = Self {
            chip,
            device,
            layout,
            dirty: Default::default(),
            read: Default::default(),
            recorded: Default::default(),
            last_instant: 0,
            number,
        };
        image.save(context)?;
        Ok(image)
    }

    /// Writes all changes and flushes the device. After an error, everything still counts as
    /// changed.
    pub(super) fn save(&mut self, context: &Context) -> Result<(), ImageError> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let blocks: BTreeSet<u32> = self.dirty.keys().copied().chain(read).collect();
        // If the device fails, these blocks stay in the set to be written, and their records follow
        // later.
        blocks.iter().for_each(|block| self.recorded.add_block(*block));
        let header = Header {
            spec: self.chip.spec.to_toml()?,
            seed: self.chip.seed,
            kind: S::KIND,
            last_instant: self.last_instant,
            read_number: self.chip.lock().read_number,
            chip: self.number,
            recorded_blocks: self.recorded.blocks(),
        };
        write_bytes(&mut self.device, context, 0, &header.encode()?)?;
        for block in blocks {
            self.save_block(context, BlockIndex(block))?;
        }
        self.device.flush(context)?;
        self.dirty.clear();
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    fn save_block(&mut self, context: &Context, block: BlockIndex) -> Result<(), ImageError> {
        let state = self.chip.blocks.get(block);
        let reads = self.chip.lock().reads_since_erase.get(block.index()).copied().unwrap_or(0);
        let dirty = self.dirty.get(&block.0).into_iter().flatten().copied();
        let pages: Vec<u32> = dirty.filter(|page| state.slot().is_some() && *page < state.next_page).collect();
        pages.iter().for_each(|page| self.recorded.add_page(block.0, *page));
        let record = BlockRecord {
            erases: state.erases,
            next_page: state.next_page,
            flags: state.flags,
            recorded_pages: self.recorded.pages(block.0, state.next_page) % RECORDED_PAGES,
            reads,
            programmed_at: self.chip.programmed_at.get(block.index()).copied().unwrap_or(0),
            chip: self.number,
        };
        write_bytes(&mut self.device, context, self.layout.block_at(block.0), &record.encode())?;
        let Some(slot) = state.slot() else { return Ok(()) };
        let page_bytes = self.layout.page_bytes();
        let mut batch: Vec<u8> = Vec::new();
        let mut first = 0;
        for (index, page) in pages.iter().enumerate() {
            if batch.is_empty() {
                first = *page;
            }
            let start = batch.len();
            batch.resize(start + page_bytes, 0);
            if let Some(into) = batch.get_mut(start..) {
                self.page_record(block.page(*page), &state, slot).encode(&self.layout, into);
            }
            let run_ends = pages.get(index + 1) != Some(&(page + 1));
            if run_ends || batch.len() + page_bytes > BATCH_BYTES {
                write_bytes(&mut self.device, context, self.layout.page_at(block.0, first), &batch)?;
                batch.clear();
            }
        }
        Ok(())
    }

    fn page_record(&self, at: PageAddress, state: &BlockState, slot: usize) -> PageRecord {
        PageRecord {
            chip: self.number,
            generation: state.erases,
            rules_word: self.chip.rules.page_word(slot, at.page),
            flaw: if state.has(flag::FLAWED) { self.chip.flaws.get(at) } else { None },
            kept: self.chip.store.keep(SlotPage { slot, page: at.page }),
        }
    }
}
