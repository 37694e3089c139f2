//! Checksums.

/// CRC-32 as zip, Ethernet and PNG use it (ISO-HDLC: polynomial 0x04C11DB7 reflected, start and
/// final xor 0xFFFF_FFFF).
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC-32 as Linux's `crc32(seed, …)` computes it: the polynomial of [`crc32`], without its
/// inversions of the register before and after (source: Linux `lib/crc32.c`). JFFS2 computes all
/// its checksums with seed 0, UBI and UBIFS with seed 0xFFFF_FFFF. To continue a checksum, pass one
/// call's result as the next call's seed.
///
/// Cost: that of [`crc32`], which uses the processor's carry-less multiplication if available.
pub fn crc32_linux(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!seed);
    hasher.update(bytes);
    !hasher.finalize()
}

/// A CRC-16 in progress: polynomial 0x1021, not reflected, start 0xFFFF, no final xor (catalogued
/// as CRC-16/IBM-3740, commonly called "CCITT-FALSE"). Detects every burst of up to 16 bits, every
/// one- and two-bit error in up to 4 KiB.
///
/// To share a common prefix between messages, process it once and copy the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc16(u16);

impl Crc16 {
    /// The initial state.
    pub const START: Self = Self(0xFFFF);

    /// Processes more bytes. Cost: one table lookup (512 bytes of table) per byte.
    #[inline]
    #[must_use]
    pub const fn update(mut self, bytes: &[u8]) -> Self {
        let mut index = 0;
        while index < bytes.len() {
            let top = (self.0 >> 8) as u8 ^ bytes[index];
            self.0 = (self.0 << 8) ^ TABLE[top as usize];
            index += 1;
        }
        self
    }

    /// The checksum of the bytes processed so far.
    #[inline]
    pub const fn finish(self) -> u16 {
        self.0
    }
}

/// The CRC-16 of `bytes`.
pub const fn crc16(bytes: &[u8]) -> u16 {
    Crc16::START.update(bytes).finish()
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 0x8000 != 0;
            remainder <<= 1;
            if carry {
                remainder ^= 0x1021;
            }
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values of the catalogue of parametrised CRC algorithms (reveng.sourceforge.io) for the
    /// ASCII digits 1 to 9.
    #[test]
    fn catalogue_check_values() {
        assert_eq!(crc16(b"123456789"), 0x29B1);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    /// The first eight bytes and the checksum of every JFFS2 clean marker on NOR flash, and the two
    /// catalogued forms of the register: CRC-32/JAMCRC (seed all ones, no final inversion), and the
    /// raw form with seed 0.
    #[test]
    fn the_form_without_inversions() {
        let clean_marker = [0x85, 0x19, 0x03, 0x20, 0x0C, 0, 0, 0];
        assert_eq!(crc32_linux(0, &clean_marker), u32::from_le_bytes([0xB1, 0xB0, 0x1E, 0xE4]));
        assert_eq!(crc32_linux(u32::MAX, b"123456789"), 0x340B_C6D9);
        assert_eq!(crc32_linux(0, b"123456789"), 0x2DFD_2D88);
        assert_eq!(crc32_linux(crc32_linux(0, b"1234"), b"56789"), 0x2DFD_2D88);
        assert_eq!(crc32_linux(7, b""), 7);
    }

    #[test]
    fn a_shared_prefix_may_be_taken_in_once() {
        let prefix = Crc16::START.update(b"1234");
        assert_eq!(prefix.update(b"56789").finish(), crc16(b"123456789"));
    }

    #[test]
    fn every_error_of_one_or_two_bits_in_a_tag_is_seen() {
        let good = [0x5A_u8, 1, 2, 3, 0, 7, 0xFF, 0xFF, 0, 9, 1, 4];
        let expected = crc16(&good);
        for first in 0..good.len() * 8 {
            for second in first..good.len() * 8 {
                let mut bad = good;
                bad[first / 8] ^= 1 << (first % 8);
                if second != first {
                    bad[second / 8] ^= 1 << (second % 8);
                }
                assert_ne!(crc16(&bad), expected, "{first} {second}");
            }
        }
    }
}
