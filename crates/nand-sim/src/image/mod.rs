//! A chip stored on a block device, usually in a journalled file.
//!
//! [`ChipImage`] is a chip whose `sync` writes all changes since the last one and flushes the
//! device. If the device's flush is atomic, a crash leaves the chip in its state at the last sync.
//! [`layout`] describes the format.

mod bytes;
mod error;
pub mod layout;
mod load;
mod recorded;
mod save;

pub use error::ImageError;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use nandkit_block::BlockDevice;
use nandkit_flash::{
    Copyback, ErrorKind, Flash, FlashError, Interrupt, Operation, PageProgram, PageRead, Result, TornErase, TornPage,
};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress};

use crate::chip::NandChip;
use crate::spec::ChipSpec;
use crate::store::Store;
use layout::Layout;
use recorded::Recorded;

/// Most bytes of records per read or write.
const BATCH_BYTES: usize = 1 << 20;

/// A chip stored on a block device.
#[derive(Debug)]
pub struct ChipImage<S, D> {
    chip: NandChip<S>,
    device: D,
    layout: Layout,
    /// The blocks that the next sync writes, and the pages of each.
    dirty: BTreeMap<u32, BTreeSet<u32>>,
    /// Blocks with a changed read count; only used if bit errors are simulated.
    read: Mutex<BTreeSet<u32>>,
    /// The records on the device after the next sync.
    recorded: Recorded,
    last_instant: u64,
    number: u32,
}

impl<S: Store, D: BlockDevice> ChipImage<S, D> {
    /// The least size in bytes of a device for this chip.
    pub fn required_bytes(spec: &ChipSpec) -> std::result::Result<u64, ImageError> {
        spec.check()?;
        Ok(Layout::new(&spec.geometry.build(), S::KIND).bytes())
    }

    /// The chip, for inspection.
    pub const fn chip(&self) -> &NandChip<S> {
        &self.chip
    }

    /// Sets a script of failures, which changes nothing that is saved.
    pub fn script_failures(&mut self, script: crate::FailureScript) {
        self.chip.script_failures(script);
    }

    /// Returns the device; changes since the last sync are lost.
    pub fn into_device(self) -> D {
        self.device
    }

    /// The end of the last operation; after opening, of the last one before the saved sync. A clock
    /// that starts here keeps the ages of data correct.
    pub const fn last_instant(&self) -> Nanos {
        Nanos(self.last_instant)
    }

    /// The number of pages that the next sync would write.
    pub fn dirty_pages(&self) -> usize {
        self.dirty.values().map(BTreeSet::len).sum()
    }

    fn touch(&mut self, at: PageAddress) {
        if self.chip.geometry.contains(at) {
            self.dirty.entry(at.block.0).or_default().insert(at.page);
        }
    }

    fn touch_block(&mut self, block: BlockIndex) {
        if block.0 < self.chip.geometry.blocks {
            self.dirty.entry(block.0).or_default();
        }
    }

    /// Marks pages of the block as dirty, because their generation may have changed.
    fn touch_pages(&mut self, block: BlockIndex, pages: u32) {
        if block.0 < self.chip.geometry.blocks {
            self.dirty.entry(block.0).or_default().extend(0..pages);
        }
    }

    fn ended(&mut self, result: Result<Done>) -> Result<Done> {
        let end = match &result {
            Ok(done) => done.completed,
            Err(error) => error.completed,
        };
        self.last_instant = self.last_instant.max(end.0);
        result
    }

    /// Handles an erase: only the block's record needs saving, unless a failed or interrupted erase
    /// left pages of a new generation.
    fn erased(&mut self, block: BlockIndex) {
        let state = self.chip.blocks.get(block);
        self.recorded.erase(block.0);
        self.dirty.remove(&block.0);
        self.touch_pages(block, state.next_page);
    }
}

impl<S: Store, D: BlockDevice> Flash for ChipImage<S, D> {
    fn geometry(&self) -> &FlashGeometry {
        self.chip.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        if self.chip.bit_errors.enabled() && self.chip.geometry.contains(at) {
            self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(at.block.0);
        }
        self.chip.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.touch(at);
        let result = self.chip.program(context, at, program);
        self.ended(result)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let erases = self.chip.erase_count(block);
        let result = self.chip.erase(context, block);
        if self.chip.erase_count(block) != erases {
            self.erased(block);
        }
        self.touch_block(block);
        self.ended(result)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.touch_block(block);
        let result = self.chip.mark_bad(context, block);
        self.ended(result)
    }

    /// Writes all changes since the last sync, then flushes the device. Takes no simulated time:
    /// the file is not part of the chip.
    fn sync(&mut self, context: &Context) -> Result<Done> {
        match self.save(context) {
            Ok(()) => Ok(Done::immediately(context)),
            Err(error) => {
                let kind = match &error {
                    ImageError::Device(error) if error.kind == nandkit_block::ErrorKind::PowerLost => {
                        ErrorKind::PowerLost
                    }
                    ImageError::Device(error) if error.kind == nandkit_block::ErrorKind::ReadOnly => {
                        ErrorKind::ReadOnly
                    }
                    _ => ErrorKind::Io,
                };
                let source = Some(std::io::Error::other(error));
                let what = "the device that holds the chip refused";
                let error = FlashError::new(kind, Operation::Sync, PageAddress::default(), what);
                Err(FlashError { source, ..error })
            }
        }
    }

    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        if self.chip.rules.has_copyback() { Some(self) } else { None }
    }

    fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
        self.chip.pacing()
    }
}

impl<S: Store, D: BlockDevice> Copyback for ChipImage<S, D> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.chip.rules.can_copy(from, to)
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        self.touch(to);
        if self.chip.bit_errors.enabled() {
            self.touch_block(from.block);
        }
        let result = self.chip.copy(context, from, to, oob);
        self.ended(result)
    }
}

impl<S: Store, D: BlockDevice> Interrupt for ChipImage<S, D> {
    fn interrupt_program(
        &mut self,
        context: &Context,
        at: PageAddress,
        program: PageProgram<'_>,
        torn: TornPage,
    ) -> Result<()> {
        self.touch(at);
        self.chip.interrupt_program(context, at, program, torn)
    }

    fn interrupt_copy(
        &mut self,
        context: &Context,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
        torn: TornPage,
    ) -> Result<()> {
        self.touch(to);
        self.chip.interrupt_copy(context, from, to, oob, torn)
    }

    fn interrupt_erase(&mut self, context: &Context, block: BlockIndex, torn: TornErase) -> Result<()> {
        let erases = self.chip.erase_count(block);
        self.chip.interrupt_erase(context, block, torn)?;
        if self.chip.erase_count(block) != erases {
            self.erased(block);
        }
        Ok(())
    }

    fn power_on(&mut self) {
        self.chip.power_on();
    }
}
