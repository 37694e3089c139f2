use std::ops::Range;

use super::{Epoch, FARTHEST, common};

/// Bits of the hash over three bytes.
const BITS: u32 = 14;

/// Positions in a chain: a power of two, not less than the farthest copy.
const WINDOW: usize = 1 << 16;

/// Earlier bytes that equal those at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) length: usize,
    pub(super) distance: usize,
}

/// Finds matches of two bytes in a table of pairs, longer ones in chains of positions with the same
/// hash.
#[derive(Default)]
pub(super) struct Finder {
    pairs: Vec<u32>,
    heads: Vec<u32>,
    /// For each position of the window, its predecessor with the same hash.
    chain: Vec<u32>,
    epoch: Epoch,
}

impl Finder {
    pub(super) fn begin(&mut self, input: &[u8]) -> Option<()> {
        if self.epoch.begin(input.len())? {
            for (table, length) in [(&mut self.pairs, 1 << 16), (&mut self.heads, 1 << BITS), (&mut self.chain, WINDOW)]
            {
                table.clear();
                table.resize(length, 0);
            }
        }
        Some(())
    }

    /// The matches for position `at`, each longer and farther back than the previous one, so that
    /// the first one that is long enough is the nearest. Checks at most `depth` positions and stops
    /// at a match of `enough` bytes. Also records the position; every position must be recorded
    /// once, in order.
    pub(super) fn find(&mut self, input: &[u8], at: usize, depth: usize, enough: usize, found: &mut Vec<Match>) {
        found.clear();
        let (pair, mut candidate) = self.note(input, at);
        let mut longest = 1;
        if let Some(place) = pair.filter(|place| at - place <= 1024) {
            longest = common(input, place, at);
            found.push(Match { length: longest, distance: at - place });
        }
        for _ in 0..depth {
            let Some(place) = candidate.filter(|place| at - place <= FARTHEST) else { break };
            // Only a candidate that agrees in the next byte can be longer.
            if longest >= enough || at + longest >= input.len() {
                break;
            }
            if input.get(place + longest) == input.get(at + longest) {
                let length = common(input, place, at);
                if length > longest.max(2) {
                    longest = length;
                    found.push(Match { length, distance: at - place });
                }
            }
            let mark = self.chain.get(place % WINDOW).copied().unwrap_or(0);
            // Chain entries are overwritten after a window: an entry that is not farther back is
            // not from this chain.
            candidate = self.epoch.position(mark).filter(|&next| next < place);
        }
    }

    /// Records positions that need no matches.
    pub(super) fn skip(&mut self, input: &[u8], positions: Range<usize>) {
        for at in positions {
            self.note(input, at);
        }
    }

    /// The previous positions with the same pair, and with the same hash of three bytes.
    fn note(&mut self, input: &[u8], at: usize) -> (Option<usize>, Option<usize>) {
        let mark = self.epoch.mark(at);
        let exchange = |table: &mut [u32], slot: usize| {
            let last = std::mem::replace(table.get_mut(slot)?, mark);
            Some((last, self.epoch.position(last)))
        };
        let Some(&[a, b]) = input.get(at..at + 2) else { return (None, None) };
        let pair = exchange(&mut self.pairs, usize::from(u16::from_le_bytes([a, b]))).and_then(|(_, place)| place);
        let Some(&c) = input.get(at + 2) else { return (pair, None) };
        let three = u32::from_le_bytes([a, b, c, 0]);
        let slot = (three.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize;
        let Some((last, place)) = exchange(&mut self.heads, slot) else { return (pair, None) };
        if let Some(link) = self.chain.get_mut(at % WINDOW) {
            *link = last;
        }
        (pair, place)
    }
}
