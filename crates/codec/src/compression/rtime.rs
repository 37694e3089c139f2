//! rtime, JFFS2's own method (facts: Linux `fs/jffs2/compr_rtime.c`, with its bounds checks of
//! 2024).
//!
//! A stream consists of pairs of bytes: a literal, and the number of bytes to copy (0 to 255). The
//! source is the output position after the literal's previous occurrence as a literal, or the start
//! of the output if there was none. Source and destination may overlap, which repeats the bytes
//! between them. Linux keeps these positions in 16 bits, so they wrap beyond 64 KiB; this
//! implementation does the same.

use super::error::{Fault, Stop};
use super::repeat;

/// The output position after each byte value's last occurrence as a literal.
struct Places([u16; 256]);

impl Places {
    const fn new() -> Self {
        Self([0; 256])
    }

    /// Returns the recorded position of `literal`, and records `now` instead.
    fn exchange(&mut self, literal: u8, now: usize) -> usize {
        // The index is a byte, so it is below 256. The wrap is the format's.
        usize::from(std::mem::replace(&mut self.0[usize::from(literal)], now as u16))
    }
}

/// Compresses pair by pair until the input ends or the space is too small for a pair; returns the
/// bytes consumed and produced.
pub(super) fn compress(input: &[u8], output: &mut [u8]) -> (usize, usize) {
    let mut places = Places::new();
    let (mut consumed, mut produced) = (0, 0);
    for pair in output.chunks_exact_mut(2) {
        let Some(&literal) = input.get(consumed) else { break };
        consumed += 1;
        let source = places.exchange(literal, consumed);
        let ahead = input.get(consumed..).unwrap_or_default();
        let behind = input.get(source..).unwrap_or_default();
        // Both iterators read the input, so overlapping source and destination need no care. Even
        // for a new literal at the start they differ: the destination is after the literal.
        let run = ahead.iter().zip(behind).take(255).take_while(|(a, b)| a == b).count();
        // `run` is at most 255.
        pair.copy_from_slice(&[literal, run as u8]);
        consumed += run;
        produced += 2;
    }
    (consumed, produced)
}

/// Fills `output`. The rest of the input is ignored, as in Linux.
pub(super) fn decompress(input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    let mut places = Places::new();
    let mut made = 0;
    let mut pairs = input.chunks_exact(2);
    while made < output.len() {
        let read = input.len() / 2 * 2 - pairs.len() * 2;
        let Some(&[literal, run]) = pairs.next() else { return Err(Stop::new(Fault::InputEnds, read, made)) };
        let stop = Stop::new(Fault::OutputFull, read, made);
        if let Some(next) = output.get_mut(made) {
            *next = literal;
        }
        made += 1;
        let run = usize::from(run);
        let source = places.exchange(literal, made);
        let end = made + run;
        if end > output.len() {
            return Err(stop);
        }
        repeat(output, source, made, end);
        made = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by hand. A first literal may copy from the start, which is itself.
    #[test]
    fn golden_streams() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"a", &[b'a', 0]),
            (b"aaaaa", &[b'a', 4]),
            (b"abcabcabc", &[b'a', 0, b'b', 0, b'c', 6]),
            (b"xyzxyq", &[b'x', 0, b'y', 0, b'z', 2, b'q', 0]),
        ];
        for (plain, packed) in cases {
            let mut room = [0; 32];
            assert_eq!(compress(plain, &mut room), (plain.len(), packed.len()), "{plain:?}");
            assert_eq!(room[..packed.len()], *packed);
            let mut back = vec![0; plain.len()];
            decompress(packed, &mut back).unwrap();
            assert_eq!(back, plain);
        }
    }
}
