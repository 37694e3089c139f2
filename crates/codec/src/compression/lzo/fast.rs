use super::super::Level;
use super::emit::Emitter;
use super::{Epoch, FARTHEST, common, word};

/// 8192 places: what fits into the first-level cache beside a page and its output.
const BITS: u32 = 13;

/// Takes the first match of 4 or more bytes that a table of last places knows of.
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
        // The longer nothing matches, the larger the steps; the sooner, the lower the level.
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
            // Steps may have gone over the start of the match.
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

    /// The last place with a word of this hash; `at` takes its place.
    #[inline(always)]
    fn exchange(&mut self, word: u32, at: usize) -> Option<usize> {
        let slot = (word.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize;
        let mark = self.epoch.mark(at);
        let last = self.places.get_mut(slot).map(|place| std::mem::replace(place, mark))?;
        self.epoch.position(last)
    }
}
