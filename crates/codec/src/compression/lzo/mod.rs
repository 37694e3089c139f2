//! LZO1X, the LZO stream that Linux uses (`docs/formats/compression.md` lists the instructions and
//! the sources).

mod best;
mod copy;
mod decode;
mod emit;
mod fast;
mod matches;

pub(super) use decode::decompress;

use super::Level;

/// The largest copy distance that the stream can encode, in bytes.
const FARTHEST: usize = 0xBFFF;

/// From this level on, the optimal parser is used; below, the first match is taken.
const SEARCHES: u8 = 7;

/// Both matchers with their tables.
#[derive(Default)]
pub(super) struct Compressor {
    fast: fast::Matcher,
    best: best::Matcher,
}

impl Compressor {
    /// Compresses all of `input`; `None` if the result does not fit.
    pub(super) fn compress(&mut self, level: Level, input: &[u8], output: &mut [u8]) -> Option<usize> {
        let mut emitter = emit::Emitter::new(output);
        if level.get() < SEARCHES {
            self.fast.compress(level, input, &mut emitter)?;
        } else {
            self.best.compress(level, input, &mut emitter)?;
        }
        emitter.finish()
    }
}

/// The four bytes at `at`; 0 if they are not there.
#[inline(always)]
fn word(input: &[u8], at: usize) -> u32 {
    input.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The number of equal bytes at `early` and at `late`, `early < late`. The ranges may overlap.
#[inline]
fn common(input: &[u8], early: usize, late: usize) -> usize {
    let (Some(old), Some(new)) = (input.get(early..), input.get(late..)) else { return 0 };
    let mut length = 0;
    for (a, b) in old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0) {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return length + (difference.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let rest = old.iter().skip(length).zip(new.iter().skip(length));
    length + rest.take_while(|(a, b)| a == b).count()
}

/// Positions in tables that are reused between inputs: each input's positions start where the
/// previous input's ended, so old entries are recognized without wiping the table.
#[derive(Default)]
struct Epoch {
    base: u32,
    next: u32,
}

impl Epoch {
    /// Starts an input of `length` bytes. Returns `true` if the tables must be wiped first: at the
    /// first use, and when 32 bits are exhausted. Refuses inputs of 2 GiB and more.
    fn begin(&mut self, length: usize) -> Option<bool> {
        let length = u32::try_from(length).ok().filter(|&length| length < 1 << 31)?;
        let wipe = self.next == 0 || self.next.checked_add(length).is_none();
        self.base = if wipe { 1 } else { self.next };
        self.next = self.base + length;
        Some(wipe)
    }

    /// The table entry for position `at` of this input.
    #[inline(always)]
    fn mark(&self, at: usize) -> u32 {
        self.base + at as u32
    }

    /// The position of an entry, if it belongs to this input.
    #[inline(always)]
    fn position(&self, mark: u32) -> Option<usize> {
        mark.checked_sub(self.base).map(|at| at as usize)
    }
}
