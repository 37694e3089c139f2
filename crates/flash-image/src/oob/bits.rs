//! Bit ranges in bytes. Bit n is bit n % 8 of byte n / 8, counted from the least significant.

/// Copies bits between buffers. Bits outside the source read as 0; bits outside the target are not
/// written.
pub(super) fn copy(from: &[u8], from_bit: usize, to: &mut [u8], to_bit: usize, bits: usize) {
    if from_bit.is_multiple_of(8) && to_bit.is_multiple_of(8) && bits.is_multiple_of(8) {
        let source = from.get(from_bit / 8..(from_bit + bits) / 8);
        if let (Some(source), Some(into)) = (source, to.get_mut(to_bit / 8..(to_bit + bits) / 8)) {
            into.copy_from_slice(source);
            return;
        }
    }
    let mut done = 0;
    while done < bits {
        let count = (bits - done).min(8);
        put(to, to_bit + done, take(from, from_bit + done), count);
        done += count;
    }
}

/// Eight bits.
fn take(from: &[u8], bit: usize) -> u8 {
    let byte = |index| u16::from(from.get(index).copied().unwrap_or(0));
    ((byte(bit / 8) | byte(bit / 8 + 1) << 8) >> (bit % 8)) as u8
}

/// Writes the lowest `count` bits of a value.
fn put(to: &mut [u8], bit: usize, value: u8, count: usize) {
    let mask = (u16::from(u8::MAX) >> (8 - count)) << (bit % 8);
    let value = u16::from(value) << (bit % 8);
    for (index, shift) in [(bit / 8, 0), (bit / 8 + 1, 8)] {
        let mask = (mask >> shift) as u8;
        if let Some(byte) = to.get_mut(index).filter(|_| mask != 0) {
            *byte = *byte & !mask | (value >> shift) as u8 & mask;
        }
    }
}

/// Reverses the bits of each byte.
pub(super) fn reverse(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
}

/// The number of zero bits.
pub(super) fn zeroes(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| byte.count_zeros()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_copied_wherever_they_stand() {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (at % 8) & 1;
        let from: Vec<u8> = (0..40_u8).map(|index| index.wrapping_mul(73) ^ 0x5A).collect();
        for (from_bit, to_bit, bits) in [(0, 0, 64), (3, 0, 77), (0, 5, 1), (7, 1, 200), (9, 9, 16), (8, 16, 13)] {
            let mut to = vec![0xC3; 40];
            let before = to.clone();
            copy(&from, from_bit, &mut to, to_bit, bits);
            for at in 0..320_usize {
                let expected = match at.checked_sub(to_bit).filter(|offset| *offset < bits) {
                    Some(offset) => bit(&from, from_bit + offset),
                    None => bit(&before, at),
                };
                assert_eq!(bit(&to, at), expected, "bit {at} of {bits} from {from_bit} to {to_bit}");
            }
        }
        let mut short = [0; 2];
        copy(&from, 310, &mut short, 10, 100);
        assert_eq!(zeroes(&[0x0F, 0xFF]), 4);
    }
}
