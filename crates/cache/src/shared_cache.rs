//! A bounded cache of blocks that are shared with their readers.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::number_map::NumberMap;

/// Parts with a lock of their own, so that readers do not wait for each other.
const SHARDS: usize = 16;

/// Blocks by address, or by another number. When half of a part's room is full, what was not asked
/// for since the last time goes: that is cheaper than a list in order of use, and needs no change
/// where a recent block is read again.
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
    /// A cache of about `blocks` blocks.
    pub fn new(blocks: usize) -> Self {
        let shard = || Mutex::new(Shard { young: NumberMap::default(), old: NumberMap::default() });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), half: (blocks / SHARDS / 2).max(1) }
    }

    fn shard(&self, at: K) -> Option<&Mutex<Shard<K>>> {
        self.shards.get(at.into() as usize % SHARDS)
    }

    /// A block, if it is here.
    pub fn get(&self, at: K) -> Option<Arc<[u8]>> {
        let mut shard = self.shard(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = shard.young.get(&at) {
            return Some(block.clone());
        }
        let block = shard.old.remove(&at)?;
        shard.put(at, block.clone(), self.half);
        Some(block)
    }

    /// Keeps a block.
    pub fn put(&self, at: K, block: Arc<[u8]>) {
        if let Some(shard) = self.shard(at) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).put(at, block, self.half);
        }
    }

    /// Takes a block out.
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
