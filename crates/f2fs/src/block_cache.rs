//! A bounded cache of blocks that are shared with their readers.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use crate::ids::{Block, BlockAddress, NodeId};
use crate::number_map::NumberMap;

/// Parts with a lock of their own, so that readers do not wait for each other.
const SHARDS: usize = 16;

/// What blocks are found by.
pub(crate) trait Key: Copy + Eq + Hash {
    /// A number that spreads keys over the parts.
    fn number(self) -> u32;
}

impl Key for BlockAddress {
    fn number(self) -> u32 {
        self.0
    }
}

impl Key for NodeId {
    fn number(self) -> u32 {
        self.0
    }
}

/// Blocks by address, or by another key. When half of a part's room is full, what was not asked for since the last time goes.
#[derive(Debug)]
pub(crate) struct BlockCache<K = BlockAddress> {
    shards: Vec<Mutex<Shard<K>>>,
    half: usize,
}

#[derive(Debug)]
struct Shard<K> {
    young: NumberMap<K, Block>,
    old: NumberMap<K, Block>,
}

impl<K: Key> BlockCache<K> {
    /// A cache of about `blocks` blocks.
    pub fn new(blocks: usize) -> Self {
        let shard = || Mutex::new(Shard { young: NumberMap::default(), old: NumberMap::default() });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), half: (blocks / SHARDS / 2).max(1) }
    }

    fn shard(&self, at: K) -> Option<&Mutex<Shard<K>>> {
        self.shards.get(at.number() as usize % SHARDS)
    }

    /// A block, if it is here.
    pub fn get(&self, at: K) -> Option<Block> {
        let mut shard = self.shard(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = shard.young.get(&at) {
            return Some(block.clone());
        }
        let block = shard.old.remove(&at)?;
        shard.put(at, block.clone(), self.half);
        Some(block)
    }

    /// Keeps a block.
    pub fn put(&self, at: K, block: Block) {
        if let Some(shard) = self.shard(at) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).put(at, block, self.half);
        }
    }

    /// Takes a block out.
    pub fn take(&self, at: K) -> Option<Block> {
        let mut shard = self.shard(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        let old = shard.old.remove(&at);
        shard.young.remove(&at).or(old)
    }
}

impl<K: Key> Shard<K> {
    fn put(&mut self, at: K, block: Block, half: usize) {
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
