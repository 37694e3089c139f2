//! Cached metadata blocks: changed ones wait for the checkpoint, clean ones stay while there is
//! room.

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_cache::SharedCache;
use nandkit_units::{Cause, Payload};
use nandkit_vfs::Result;

use crate::blocks::Blocks;
use crate::device::{Submission, WritableBlocks};
use crate::ids::{Block, BlockAddress};

/// The most blocks per request.
const RUN: usize = 256;

/// NAT, SIT, SSA and checkpoint blocks by address.
#[derive(Debug)]
pub struct MetaBlocks {
    clean: SharedCache<BlockAddress>,
    dirty: BTreeMap<BlockAddress, Block>,
}

impl MetaBlocks {
    /// A cache for about `clean` unchanged blocks.
    pub fn new(clean: usize) -> Self {
        Self { clean: SharedCache::new(clean), dirty: BTreeMap::new() }
    }

    /// The current content of a block. Errors: those of the device's reads.
    pub fn get(&self, device: &dyn Blocks, at: BlockAddress) -> Result<Block> {
        if let Some(block) = self.dirty.get(&at).cloned().or_else(|| self.clean.get(at)) {
            return Ok(block);
        }
        let mut block = vec![0; device.geometry().block_size()];
        device.read(Cause::Metadata, at, &mut block)?;
        let block = Block::from(block);
        self.clean.put(at, block.clone());
        Ok(block)
    }

    /// Replaces the content of a block; the next [`MetaBlocks::write`] writes it.
    pub fn change(&mut self, at: BlockAddress, block: Block) {
        self.dirty.insert(at, block);
    }

    /// The number of changed blocks that wait to be written.
    pub fn waiting(&self) -> usize {
        self.dirty.len()
    }

    /// Hands all changed blocks to the device in ascending order, adjacent ones in one request,
    /// without waiting for them. Errors: `Device`; blocks not handed over still wait.
    pub fn write<D: BlockDevice>(&mut self, device: &mut WritableBlocks<D>, cause: Cause) -> Result<()> {
        while let Some((&start, _)) = self.dirty.first_key_value() {
            let blocks: Vec<Block> = (start.0..)
                .zip(self.dirty.range(start..).take(RUN))
                .take_while(|(expected, (at, _))| at.0 == *expected)
                .map(|(_, (_, block))| block.clone())
                .collect();
            let parts: Vec<Payload<'_>> = blocks.iter().map(|block| Payload::Bytes(block)).collect();
            device.write(Submission::metadata(cause), start, &parts)?;
            for (at, block) in (start.0..).zip(blocks) {
                self.dirty.remove(&BlockAddress(at));
                self.clean.put(BlockAddress(at), block);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nandkit_block::RamDevice;
    use nandkit_block::wrap::{RequestKind, StatsDevice};
    use nandkit_units::Clock;

    use super::*;
    use crate::device::{Atomicity, DeviceBlocks, Devices};
    use crate::layout::Geometry;

    #[test]
    fn neighbours_are_one_request_and_are_read_as_changed_before_and_after() {
        let geometry = Geometry::for_tests(4096);
        let device = StatsDevice::new(RamDevice::with_sectors(4096, 4096 + 100 * 512).unwrap());
        let mut devices = Devices::new(vec![device], Clock::default()).unwrap();
        devices.arrange(&geometry, &mut |_| {}).unwrap();
        let blocks = DeviceBlocks { devices, geometry };
        let mut device = WritableBlocks::new(blocks, Atomicity::Required, &mut |_| {}).unwrap();
        let mut meta = MetaBlocks::new(64);
        assert_eq!(meta.get(&device, BlockAddress(1600)).unwrap()[0], 0);
        for at in [1602, 1600, 1601, 2000] {
            meta.change(BlockAddress(at), vec![at as u8; 4096].into());
        }
        let expected = |meta: &MetaBlocks, device: &WritableBlocks<_>| {
            [1600, 1601, 1602, 2000].iter().all(|&at| meta.get(device, BlockAddress(at)).unwrap()[9] == at as u8)
        };
        assert!(expected(&meta, &device));
        meta.write(&mut device, Cause::Checkpoint).unwrap();
        assert!(expected(&MetaBlocks::new(64), &device) && expected(&meta, &device));
        assert_eq!(meta.waiting(), 0);
        let devices = device.into_inner().devices.into_inner();
        assert_eq!(devices[0].snapshot().total(RequestKind::Write).requests, 2);
    }
}
