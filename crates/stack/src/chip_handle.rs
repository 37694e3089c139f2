//! Handles on one emulated chip, shared by the layer above and the owner of the chip. They do not
//! offer optional capabilities (copies inside the chip, several planes).

use std::sync::{Arc, Mutex};

use nandkit_flash::{Flash, PageProgram, PageRead, Result};
use nandkit_nand_sim::QueueStatistics;
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress};

use crate::chip_file::EmulatedChip;
use crate::device_handle::lock;

/// A handle on a chip whose stack saves it to a file at the end. Until then syncs of the file
/// system stay in memory, so that an aborted run leaves the file unchanged.
#[derive(Clone)]
pub(crate) struct ChipHandle {
    geometry: FlashGeometry,
    chip: Arc<Mutex<Box<dyn EmulatedChip>>>,
}

impl ChipHandle {
    pub(crate) fn new(chip: Box<dyn EmulatedChip>) -> Self {
        Self { geometry: *chip.geometry(), chip: Arc::new(Mutex::new(chip)) }
    }
}

impl Flash for ChipHandle {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        lock(&self.chip).read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        lock(&self.chip).program(context, at, program)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        lock(&self.chip).erase(context, block)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        lock(&self.chip).is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        lock(&self.chip).mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        lock(&self.chip).sync(context)
    }
}

impl EmulatedChip for ChipHandle {
    fn save(&mut self) -> Result<Done> {
        lock(&self.chip).save()
    }

    fn last_instant(&self) -> Nanos {
        lock(&self.chip).last_instant()
    }

    fn seed(&self) -> u64 {
        lock(&self.chip).seed()
    }

    fn erase_counts(&self) -> Vec<u32> {
        lock(&self.chip).erase_counts()
    }

    fn bad_blocks(&self) -> u32 {
        lock(&self.chip).bad_blocks()
    }

    fn programmed_pages(&self) -> u64 {
        lock(&self.chip).programmed_pages()
    }

    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        lock(&self.chip).queue_statistics()
    }
}
