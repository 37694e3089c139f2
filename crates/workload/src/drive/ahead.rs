//! Operations that are known before their turn, so that a device can be told of writes to come.

use nandkit_block::BlockDevice;

use crate::error::{Result, WorkloadError};
use crate::operation::{BlockOperation, BlockOperationKind, BlockWorkload};

/// Operations known ahead. A device needs some 200 ns to have its tables at hand, in which it takes
/// one or two writes; twice what its own two steps need (`ftl/page_map/expected.rs`).
const AHEAD: usize = 16;

/// The next operations of a batch, in order. None is taken from the workload beyond the batch, so
/// that a caller who stops after a batch leaves the rest to the next one.
#[derive(Debug)]
pub(crate) struct Ahead {
    operations: [Option<BlockOperation>; AHEAD],
    first: usize,
    known: usize,
    /// How many operations the workload may still be asked for.
    left: u32,
    /// The workload's error, returned after the operations before it.
    failed: Option<WorkloadError>,
}

impl Ahead {
    /// Makes the queue for a batch of at most `most` operations.
    pub fn new(most: u32) -> Self {
        Self { operations: [None; AHEAD], first: 0, known: 0, left: most, failed: None }
    }

    /// The next operation; `None` after the last operation of the batch or of the phase. Errors:
    /// the workload's error, returned in place of the operation that the workload failed to give.
    #[inline(always)]
    pub fn next<W: BlockWorkload + ?Sized, D: BlockDevice + ?Sized>(
        &mut self,
        workload: &mut W,
        device: &mut D,
    ) -> Result<Option<BlockOperation>> {
        while self.known < AHEAD && self.left > 0 {
            match workload.next_operation() {
                Ok(Some(operation)) => {
                    if operation.kind == BlockOperationKind::Write {
                        device.expect_write(operation.at);
                    }
                    self.left -= 1;
                    self.operations[(self.first + self.known) % AHEAD] = Some(operation);
                    self.known += 1;
                }
                Ok(None) => self.left = 0,
                Err(error) => (self.left, self.failed) = (0, Some(error)),
            }
        }
        if self.known == 0 {
            return self.failed.take().map_or(Ok(None), Err);
        }
        let next = self.operations[self.first].take();
        self.first = (self.first + 1) % AHEAD;
        self.known -= 1;
        Ok(next)
    }
}
