//! The map of free clusters: a bitmap in memory with a summary above it, so that a search skips
//! 4,096 used clusters per word.

/// The clusters that the running batch may allocate.
#[derive(Clone, Debug)]
pub struct FreeMap {
    words: Vec<u64>,
    summary: Vec<u64>,
    free: u32,
    clusters: u32,
    /// Where the next search starts (Nxt_Free in the specification).
    hint: u32,
}

impl FreeMap {
    /// A map of `clusters` clusters (numbered from 2), all in use.
    pub fn new(clusters: u32) -> Self {
        let words = (clusters as usize + 2).div_ceil(64);
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(64)], free: 0, clusters, hint: 2 }
    }

    /// The number of free clusters.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The cluster at which the next search starts.
    pub fn hint(&self) -> u32 {
        self.hint
    }

    /// Sets the cluster at which the next search starts; ignores a number outside the volume.
    pub fn set_hint(&mut self, hint: u32) {
        if hint >= 2 && hint - 2 < self.clusters {
            self.hint = hint;
        }
    }

    /// Whether a cluster is free.
    pub fn is_free(&self, cluster: u32) -> bool {
        self.words.get(cluster as usize / 64).is_some_and(|word| word >> (cluster % 64) & 1 == 1)
    }

    /// Frees a cluster.
    pub fn give(&mut self, cluster: u32) {
        let at = cluster as usize / 64;
        if cluster < 2 || cluster - 2 >= self.clusters || self.is_free(cluster) {
            return;
        }
        if let (Some(word), Some(above)) = (self.words.get_mut(at), self.summary.get_mut(at / 64)) {
            *word |= 1 << (cluster % 64);
            *above |= 1 << (at % 64);
            self.free += 1;
        }
    }

    /// Allocates a given cluster.
    pub fn take(&mut self, cluster: u32) {
        let at = cluster as usize / 64;
        if !self.is_free(cluster) {
            return;
        }
        if let (Some(word), Some(above)) = (self.words.get_mut(at), self.summary.get_mut(at / 64)) {
            *word &= !(1 << (cluster % 64));
            if *word == 0 {
                *above &= !(1 << (at % 64));
            }
            self.free -= 1;
        }
    }

    /// The first free cluster from `from` on.
    fn next_from(&self, from: u32) -> Option<u32> {
        let at = from as usize / 64;
        let first = self.words.get(at)? & (u64::MAX << (from % 64));
        if first != 0 {
            return Some(at as u32 * 64 + first.trailing_zeros());
        }
        let next = at + 1;
        let mut mask = u64::MAX << (next % 64);
        for group in next / 64..self.summary.len() {
            let above = self.summary.get(group)? & mask;
            mask = u64::MAX;
            if above != 0 {
                let word = group * 64 + above.trailing_zeros() as usize;
                return Some(word as u32 * 64 + self.words.get(word)?.trailing_zeros());
            }
        }
        None
    }

    /// Allocates the first free cluster at or after `goal` (default: the hint), wrapping around at
    /// the end.
    pub fn allocate(&mut self, goal: Option<u32>) -> Option<u32> {
        let start = goal.filter(|&goal| self.is_free(goal)).unwrap_or(self.hint);
        let found = self.next_from(start).or_else(|| self.next_from(2))?;
        self.take(found);
        self.hint = if found - 1 < self.clusters { found + 1 } else { 2 };
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_goes_round_and_finds_every_free_cluster() {
        let mut map = FreeMap::new(10_000);
        for cluster in 2..10_002 {
            map.give(cluster);
        }
        assert_eq!(map.free(), 10_000);
        map.set_hint(9_000);
        let taken: Vec<u32> = std::iter::from_fn(|| map.allocate(None)).collect();
        assert_eq!(taken, (9_000..10_002).chain(2..9_000).collect::<Vec<_>>());
        assert_eq!((map.free(), map.allocate(None)), (0, None));
        map.give(4_097);
        map.give(4_097);
        map.give(10_002);
        map.give(1);
        assert_eq!(map.free(), 1);
        assert_eq!(map.allocate(Some(17)), Some(4_097));
    }
}
