//! A block workload of whichever kind; its loop is compiled for each kind.

use nandkit_block::BlockDevice;

use crate::access::AccessBlocks;
use crate::drive::BlockDriver;
use crate::error::Result;
use crate::operation::{BlockOperation, BlockWorkload, Phase};
use crate::overwrite::OverwriteBlocks;
use crate::report::{ProgressSink, Windows};
use crate::trace::TraceBlocks;

/// A block workload.
#[allow(missing_docs, reason = "named as their workloads")]
pub enum BlockStream {
    Access(AccessBlocks),
    Overwrite(OverwriteBlocks),
    Trace(Box<TraceBlocks>),
}

impl BlockStream {
    /// Runs [`BlockDriver::run_phase`] with the workload's own type, so that the choice of the
    /// workload is outside the loop.
    pub fn run_phase<D: BlockDevice + ?Sized>(
        &mut self,
        driver: &mut BlockDriver,
        phase: Phase,
        device: &mut D,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        match self {
            Self::Access(workload) => driver.run_phase(phase, workload, device, progress),
            Self::Overwrite(workload) => driver.run_phase(phase, workload, device, progress),
            Self::Trace(workload) => driver.run_phase(phase, &mut **workload, device, progress),
        }
    }

    /// Runs [`BlockDriver::run_windows`] with the workload's own type.
    pub fn run_windows<D: BlockDevice + ?Sized>(
        &mut self,
        driver: &mut BlockDriver,
        phase: Phase,
        device: &mut D,
        windows: Windows<'_>,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        match self {
            Self::Access(workload) => driver.run_windows(phase, workload, device, windows, progress),
            Self::Overwrite(workload) => driver.run_windows(phase, workload, device, windows, progress),
            Self::Trace(workload) => driver.run_windows(phase, &mut **workload, device, windows, progress),
        }
    }
}

impl BlockWorkload for BlockStream {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        match self {
            Self::Access(workload) => workload.begin(phase),
            Self::Overwrite(workload) => workload.begin(phase),
            Self::Trace(workload) => workload.begin(phase),
        }
    }

    fn next_operation(&mut self) -> Result<Option<BlockOperation>> {
        match self {
            Self::Access(workload) => workload.next_operation(),
            Self::Overwrite(workload) => workload.next_operation(),
            Self::Trace(workload) => workload.next_operation(),
        }
    }

    fn queue_depth(&self) -> u32 {
        match self {
            Self::Access(workload) => workload.queue_depth(),
            Self::Overwrite(workload) => workload.queue_depth(),
            Self::Trace(workload) => workload.queue_depth(),
        }
    }

    fn unit_sectors(&self) -> Option<u32> {
        match self {
            Self::Access(workload) => workload.unit_sectors(),
            Self::Overwrite(workload) => workload.unit_sectors(),
            Self::Trace(workload) => workload.unit_sectors(),
        }
    }
}
