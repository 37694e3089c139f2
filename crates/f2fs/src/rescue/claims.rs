//! Tracks which blocks several files use.

use std::collections::BTreeMap;

use crate::ids::BlockAddress;

const BITS: u32 = u64::BITS;
const WORDS: usize = 8;

/// A set of blocks. Memory: 64 bytes per group of 512 blocks that has any.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockSet(BTreeMap<u32, [u64; WORDS]>);

impl BlockSet {
    /// Adds a block; returns whether it was in the set.
    pub fn put(&mut self, at: BlockAddress) -> bool {
        let (piece, word, bit) = place(at);
        let words = self.0.entry(piece).or_insert([0; WORDS]);
        let Some(held) = words.get_mut(word) else { return false };
        let was_there = *held & bit != 0;
        *held |= bit;
        was_there
    }

    /// Whether a block is in the set.
    pub fn has(&self, at: BlockAddress) -> bool {
        let (piece, word, bit) = place(at);
        self.0.get(&piece).and_then(|words| words.get(word)).is_some_and(|held| held & bit != 0)
    }
}

const fn place(at: BlockAddress) -> (u32, usize, u64) {
    let per_piece = BITS * WORDS as u32;
    (at.0 / per_piece, (at.0 % per_piece / BITS) as usize, 1 << (at.0 % BITS))
}

/// The blocks that are used, and those used more than once. An uncertain claim does not cast doubt
/// on a certain one.
#[derive(Debug, Default)]
pub(super) struct Claims {
    nodes: BlockSet,
    sure: [BlockSet; 2],
    unsure: [BlockSet; 2],
}

impl Claims {
    /// Marks a block as a node in use.
    pub fn node(&mut self, at: BlockAddress) {
        self.nodes.put(at);
    }

    /// Marks a block as a file's.
    pub fn claim(&mut self, at: BlockAddress, is_sure: bool) {
        let [once, twice] = if is_sure { &mut self.sure } else { &mut self.unsure };
        if once.put(at) {
            twice.put(at);
        }
    }

    /// Whether anything other than the file that claimed a block uses it too.
    pub fn is_shared(&self, at: BlockAddress, is_sure: bool) -> bool {
        let [sure, sure_twice] = &self.sure;
        let [_, unsure_twice] = &self.unsure;
        self.nodes.has(at) || if is_sure { sure_twice.has(at) } else { sure.has(at) || unsure_twice.has(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sure_loses_nothing_to_what_is_not() {
        let mut claims = Claims::default();
        let [one, two, three, node] = [1, 2, 511, 512].map(BlockAddress);
        claims.node(node);
        claims.claim(one, true);
        claims.claim(one, false);
        claims.claim(two, false);
        claims.claim(three, true);
        claims.claim(three, true);
        assert!(!claims.is_shared(one, true) && claims.is_shared(one, false));
        assert!(!claims.is_shared(two, false) && claims.is_shared(three, true));
        assert!(claims.is_shared(node, true) && !claims.is_shared(BlockAddress(513), false));
    }
}
