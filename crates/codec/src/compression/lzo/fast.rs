use super::super::Level;
use super::emit::Emitter;
use super::{Epoch, FARTHEST, common, word};

/// 8192 entries: what fits into the first-level cache next to a page and its output.
const BITS: u32 = 13;

/// Takes the first match of 4 or more bytes found through a table of last positions.
#[derive(Default)]
pub(super) struct Matcher {
    places: Vec<u32>,
    epoch: Epoch,
}

impl Matcher {
    pub(super) fn compress(&mut self, level: Level, input: &[u8], emitter: &mut Emitter<'_>) -> Option<()> {
        if self.epoch.begin(input.len())? {
            self.places.clear();
            self.places.resize(1 << BITS, 0);
        }
        // The longer nothing matches, the larger the steps, and the more so the lower the level.
        let patience = 4 + u32::from(level.get()).min(6);
        let (mut done, mut at) = (0, 0);
        while at + 4 <= input.len() {
            let here = word(input, at);
            let Some(place) =
                self.exchange(here, at).filter(|&place| at - place <= FARTHEST && word(input, place) == here)
            else {
                at += 1 + ((at - done) >> patience);
                continue;
            };
            let length = 4 + common(input, place + 4, at + 4);
            // Steps may have skipped the start of the match.
            let before = input.get(done..at)?.iter().rev().zip(input.get(..place)?.iter().rev());
            let earlier = before.take_while(|(a, b)| a == b).count();
            emitter.literals(input.get(done..at - earlier)?)?;
            emitter.copy(length + earlier, at - place)?;
            done = at + length;
            at = done;
            if at + 2 <= input.len() {
                self.exchange(word(input, at - 2), at - 2);
            }
        }
        emitter.literals(input.get(done..)?)
    }

    /// Returns the last position of a word with this hash, and replaces it by `at`.
    #[inline(always)]
    fn exchange(&mut self, word: u32, at: usize) -> Option<usize> {
        let slot = (word.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize;
        let mark = self.epoch.mark(at);
        let last = self.places.get_mut(slot).map(|place| std::mem::replace(place, mark))?;
        self.epoch.position(last)
    }
}
