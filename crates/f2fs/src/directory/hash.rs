//! The hash of a name (f2fs.md, "Directories", "Hash"; hash.c, `TEA_hash_name`).

const DELTA: u32 = 0x9E37_79B9;
const ROUNDS: u32 = 16;
/// Bytes of a name hashed at once.
const PIECE: usize = 16;

/// The hash under which a name is stored; in a casefolded directory, of the folded name. `.` and
/// `..` have 0.
pub fn hash(name: &[u8]) -> u32 {
    if name == b"." || name == b".." {
        return 0;
    }
    let mut state = [0x6745_2301_u32, 0xEFCD_AB89];
    let mut rest = name;
    loop {
        mix(&mut state, words(rest));
        match rest.get(PIECE..) {
            Some(behind) if !behind.is_empty() => rest = behind,
            _ => return state[0],
        }
    }
}

/// Four words from the first 16 bytes, big-endian. Each missing byte is replaced by the number of
/// bytes left.
fn words(rest: &[u8]) -> [u32; 4] {
    let pad = u32::from(rest.len() as u8).wrapping_mul(0x0101_0101);
    let mut words = [pad; 4];
    let piece = rest.get(..PIECE).unwrap_or(rest);
    for (word, bytes) in words.iter_mut().zip(piece.chunks(4)) {
        *word = bytes.iter().fold(pad, |word, &byte| word << 8 | u32::from(byte));
    }
    words
}

fn mix(state: &mut [u32; 2], input: [u32; 4]) {
    let [a, b, c, d] = input;
    let [mut first, mut second] = *state;
    let mut sum = 0_u32;
    for _ in 0..ROUNDS {
        sum = sum.wrapping_add(DELTA);
        first = first.wrapping_add(step(second, sum, a, b));
        second = second.wrapping_add(step(first, sum, c, d));
    }
    state[0] = state[0].wrapping_add(first);
    state[1] = state[1].wrapping_add(second);
}

const fn step(half: u32, sum: u32, left: u32, right: u32) -> u32 {
    (half << 4).wrapping_add(left) ^ half.wrapping_add(sum) ^ (half >> 5).wrapping_add(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes written by Linux (f2fs.md, "Directories").
    #[test]
    fn hashes_are_those_of_linux() {
        for (name, expected) in [
            ("a", 0x6D0E_A4C1),
            ("hello", 0x6F5B_B1A8),
            ("lost+found", 0x2DBF_9E80),
            ("0123456789abcdef", 0x5A07_88B2),
            ("file_with_a_somewhat_longer_name_0", 0x3FC8_7BF9),
            (".", 0),
            ("..", 0),
        ] {
            assert_eq!(hash(name.as_bytes()), expected, "{name}");
        }
    }
}
