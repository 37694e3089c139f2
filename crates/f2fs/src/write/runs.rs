//! Batches of blocks on their way to the device: adjacent blocks of a log become one request.

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Payload};
use nandkit_vfs::Result;

use super::WritableVolume;
use crate::device::Submission;
use crate::ids::{BlockAddress, Log};
use crate::pages::Page;

/// The most blocks per request: a segment.
const MOST: usize = 512;

/// Adjacent blocks, each with what its writer needs to know once it is written.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    /// The log that the blocks belong to.
    pub log: Log,
    /// The address of the first block.
    pub start: BlockAddress,
    /// The blocks to write.
    pub items: Vec<(T, Page)>,
}

/// One open batch per log.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    open: [Option<Batch<T>>; Log::COUNT],
}

impl<T> Runs<T> {
    pub fn new() -> Self {
        Self { open: [const { None }; Log::COUNT] }
    }

    /// Adds a block. Returns the open batch, to be written, if it is full or the block does not
    /// follow it.
    pub fn push(&mut self, log: Log, at: BlockAddress, item: T, page: Page) -> Option<Batch<T>> {
        let open = &mut self.open[log.index()];
        let follows = |batch: &Batch<T>| batch.start.0.checked_add(batch.items.len() as u32) == Some(at.0);
        if let Some(batch) = open
            && batch.items.len() < MOST
            && follows(batch)
        {
            batch.items.push((item, page));
            return None;
        }
        open.replace(Batch { log, start: at, items: vec![(item, page)] })
    }

    /// Returns the batches that are still open.
    pub fn finish(&mut self) -> Vec<Batch<T>> {
        self.open.iter_mut().filter_map(Option::take).collect()
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Hands a batch to the device, as one request. Errors: `Device`.
    pub(super) fn write_batch<T>(&mut self, cause: Cause, batch: &Batch<T>) -> Result<()> {
        let parts: Vec<Payload<'_>> = batch.items.iter().map(|(_, page)| page.payload()).collect();
        self.writer.written_blocks += parts.len() as u64;
        let (before, blocks) = (self.device.busy(), parts.len() as u32);
        self.device.write(Submission::of(cause, batch.log), batch.start, &parts)?;
        if self.writer.cleaners.reviews {
            self.tell_filled(batch.start, blocks, self.device.busy().since(before));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Block;

    #[test]
    fn neighbours_of_a_log_are_one_request() {
        let page = || Page::Bytes(Block::from([0; 8]));
        let mut runs = Runs::new();
        for at in [5, 6, 100, 7] {
            let log = if at == 100 { Log::WarmNode } else { Log::WarmData };
            assert!(runs.push(log, BlockAddress(at), at, page()).is_none());
        }
        let batch = runs.push(Log::WarmData, BlockAddress(9), 9, page()).unwrap();
        assert_eq!((batch.start.0, batch.items.len()), (5, 3));
        assert_eq!(runs.finish().len(), 2);
        assert!((0..MOST as u32).all(|at| runs.push(Log::HotData, BlockAddress(at), at, page()).is_none()));
        assert_eq!(runs.push(Log::HotData, BlockAddress(512), 0, page()).unwrap().items.len(), MOST);
    }
}
