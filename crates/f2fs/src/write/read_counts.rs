//! Counts of how much is read per file, for policies that weigh what later reads would save.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::ids::NodeId;

/// The most files counted.
const MOST: usize = 4096;

/// Bytes read per file; earlier reads count less.
#[derive(Debug, Default)]
pub(crate) struct ReadCounts(Mutex<BTreeMap<NodeId, u64>>);

impl ReadCounts {
    /// Counts bytes read from a file.
    pub fn note(&self, inode: NodeId, bytes: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST && !counts.contains_key(&inode) {
            fade(&mut counts);
        }
        if counts.len() < MOST || counts.contains_key(&inode) {
            let count = counts.entry(inode).or_default();
            *count = count.saturating_add(bytes as u64);
        }
    }

    /// Halves all counts, so that older reads count less.
    pub fn fade(&self) {
        fade(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether nothing was read recently.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The bytes counted for a file.
    pub fn of(&self, inode: NodeId) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&inode).copied().unwrap_or(0)
    }

    /// At most `files` files with the most bytes read, in descending order, with their counts.
    pub fn most_read(&self, files: usize) -> Vec<(NodeId, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(NodeId, u64)> = counts.iter().map(|(inode, bytes)| (*inode, *bytes)).collect();
        all.sort_unstable_by_key(|&(inode, bytes)| (std::cmp::Reverse(bytes), inode));
        all.truncate(files);
        all
    }
}

fn fade(counts: &mut BTreeMap<NodeId, u64>) {
    counts.retain(|_, bytes| {
        *bytes /= 2;
        *bytes >= 4096
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_reads_count_less_and_memory_is_bounded() {
        let counts = ReadCounts::default();
        assert!(counts.is_empty());
        counts.note(NodeId(5), 40_000);
        assert!(!counts.is_empty());
        counts.note(NodeId(6), 9_000);
        counts.note(NodeId(5), 1);
        assert_eq!(counts.most_read(9), [(NodeId(5), 40_001), (NodeId(6), 9_000)]);
        counts.fade();
        counts.fade();
        assert_eq!((counts.of(NodeId(5)), counts.of(NodeId(6))), (10_000, 0));
        (0..10_000).for_each(|inode| counts.note(NodeId(100 + inode), 4096));
        assert!(counts.most_read(20_000).len() <= MOST);
    }
}
