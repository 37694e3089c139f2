//! A tap on the chip of a stack: it hears of every operation.

use std::sync::Arc;

use nandkit_flash::Flash;
use nandkit_flash::Result;
use nandkit_flash::wrap::{FlashEvent, TraceFlash};
use nandkit_nand_sim::QueueStatistics;
use nandkit_units::{Done, Nanos};

use crate::chip_file::EmulatedChip;

/// Hears of every operation of a stack's chip, in the order in which the layers above ask.
pub type FlashTap = Arc<dyn Fn(FlashEvent) + Send + Sync>;

type Sink = Box<dyn FnMut(FlashEvent) + Send>;

/// The chip with the tap, where there is one.
pub(crate) fn tapped(chip: Box<dyn EmulatedChip>, tap: Option<&FlashTap>) -> Box<dyn EmulatedChip> {
    let Some(tap) = tap.cloned() else { return chip };
    let sink: Sink = Box::new(move |event| tap(event));
    Box::new(TraceFlash::new(chip, sink))
}

impl EmulatedChip for TraceFlash<Box<dyn EmulatedChip>, Sink>
where
    Box<dyn EmulatedChip>: Flash,
{
    fn save(&mut self) -> Result<Done> {
        self.inner_mut().save()
    }

    fn last_instant(&self) -> Nanos {
        self.inner().last_instant()
    }

    fn seed(&self) -> u64 {
        self.inner().seed()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.inner().erase_counts()
    }

    fn bad_blocks(&self) -> u32 {
        self.inner().bad_blocks()
    }

    fn programmed_pages(&self) -> u64 {
        self.inner().programmed_pages()
    }

    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        self.inner().queue_statistics()
    }
}
