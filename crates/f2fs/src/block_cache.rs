//! A bounded cache of blocks that are shared with their readers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::ids::{Block, BlockAddress};

/// Parts with a lock of their own, so that readers do not wait for each other.
const SHARDS: usize = 16;

/// Blocks by address. When half of a part's room is full, what was not asked for since the last time goes.
#[derive(Debug)]
pub(crate) struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    half: usize,
}

#[derive(Debug, Default)]
struct Shard {
    young: HashMap<BlockAddress, Block>,
    old: HashMap<BlockAddress, Block>,
}

impl BlockCache {
    /// A cache of about `blocks` blocks.
    pub fn new(blocks: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), half: (blocks / SHARDS / 2).max(1) }
    }

    fn shard(&self, at: BlockAddress) -> Option<&Mutex<Shard>> {
        self.shards.get(at.0 as usize % SHARDS)
    }

    /// A block, if it is here.
    pub fn get(&self, at: BlockAddress) -> Option<Block> {
        let mut shard = self.shard(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = shard.young.get(&at) {
            return Some(block.clone());
        }
        let block = shard.old.remove(&at)?;
        shard.put(at, block.clone(), self.half);
        Some(block)
    }

    /// Keeps a block.
    pub fn put(&self, at: BlockAddress, block: Block) {
        if let Some(shard) = self.shard(at) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).put(at, block, self.half);
        }
    }
}

impl Shard {
    fn put(&mut self, at: BlockAddress, block: Block, half: usize) {
        if self.young.len() >= half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(at, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let cache = BlockCache::new(64);
        let address = |number: u32| BlockAddress(number * SHARDS as u32);
        for number in 0..100 {
            cache.put(address(number), Block::from([number as u8]));
            assert_eq!(cache.get(address(0)).as_deref(), Some(&[0][..]));
        }
        let held = (0..100).filter(|&number| cache.get(address(number)).is_some()).count();
        assert!((2..=4).contains(&held), "{held}");
    }
}
