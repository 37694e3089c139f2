//! A bounded cache whose blocks are shared with their readers.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::number_map::NumberMap;

/// The number of shards, each with its own lock, so that readers do not wait for each other.
const SHARDS: usize = 16;

/// Blocks by address or another number. When half of a shard's room is full, blocks that were not
/// read since the last time are evicted. This is cheaper than a list in order of use, and reading a
/// recent block again changes nothing.
#[derive(Debug)]
pub struct SharedCache<K> {
    shards: Vec<Mutex<Shard<K>>>,
    half: usize,
}

#[derive(Debug)]
struct Shard<K> {
    young: NumberMap<K, Arc<[u8]>>,
    old: NumberMap<K, Arc<[u8]>>,
}

impl<K: Copy + Eq + Hash + Into<u32>> SharedCache<K> {
    /// A cache for about `blocks` blocks.
    pub fn new(blocks: usize) -> Self {
        let shard = || Mutex::new(Shard { young: NumberMap::default(), old: NumberMap::default() });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), half: (blocks / SHARDS / 2).max(1) }
    }

    fn shard(&self, at: K) -> Option<&Mutex<Shard<K>>> {
        self.shards.get(at.into() as usize % SHARDS)
    }

    /// A block, if it is cached.
    pub fn get(&self, at: K) -> Option<Arc<[u8]>> {
        let mut shard = self.shard(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = shard.young.get(&at) {
            return Some(block.clone());
        }
        let block = shard.old.remove(&at)?;
        shard.put(at, block.clone(), self.half);
        Some(block)
    }

    /// Caches a block.
    pub fn put(&self, at: K, block: Arc<[u8]>) {
        if let Some(shard) = self.shard(at) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).put(at, block, self.half);
        }
    }

    /// Removes a block and returns it.
    pub fn take(&self, at: K) -> Option<Arc<[u8]>> {
        let mut shard = self.shard(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        let old = shard.old.remove(&at);
        shard.young.remove(&at).or(old)
    }
}

impl<K: Eq + Hash> Shard<K> {
    fn put(&mut self, at: K, block: Arc<[u8]>, half: usize) {
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
        let cache = SharedCache::new(64);
        let address = |number: u32| number * SHARDS as u32;
        for number in 0..100 {
            cache.put(address(number), Arc::from([number as u8]));
            assert_eq!(cache.get(address(0)).as_deref(), Some(&[0][..]));
        }
        let held = (0..100).filter(|&number| cache.get(address(number)).is_some()).count();
        assert!((2..=4).contains(&held), "{held}");
    }
}
