//! Tests for uniform bytes, as scans and writers need them for whole images.

/// Whether all bytes are 0xFF, as erased flash reads. Cost: a compare at memory speed.
#[inline]
pub fn is_erased(bytes: &[u8]) -> bool {
    is_filled(bytes, 0xFF)
}

/// Whether all bytes are 0, as holes read. Cost: a compare at memory speed.
#[inline]
pub fn is_zeroed(bytes: &[u8]) -> bool {
    is_filled(bytes, 0)
}

/// Compares each byte with its predecessor in one memory comparison: a byte-by-byte loop cannot be
/// vectorised, because it exits early.
fn is_filled(bytes: &[u8], with: u8) -> bool {
    match bytes {
        [] => true,
        [first, behind @ ..] => *first == with && bytes.starts_with(behind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_other_byte_anywhere_is_seen() {
        for length in [0, 1, 63, 64, 65, 200] {
            let (zeroed, erased) = (vec![0_u8; length], vec![0xFF_u8; length]);
            assert!(is_zeroed(&zeroed) && is_erased(&erased), "{length}");
            for at in 0..length {
                for (mut bytes, fill) in [(zeroed.clone(), 0), (erased.clone(), 0xFF)] {
                    bytes[at] ^= 0x10;
                    assert!(!is_filled(&bytes, fill), "{at} of {length}");
                }
            }
        }
    }
}
