//! The tag that translation layers write into the OOB of programmed pages: 48 bits for the layer,
//! an increasing sequence number, and a check value.
//!
//! | bits | field |
//! | --- | --- |
//! | 0..48 | the layer's own |
//! | 48..96 | sequence number |
//! | 96..120 | check value over the rest |
//!
//! The 15 bytes occupy 16 OOB bytes around the bad-block marker, which stays 0xFF: byte 0 on chips
//! with large pages, byte 5 on chips with 512-byte pages (Samsung and Toshiba data sheets; Linux
//! `bbm` conventions). The chip's own ECC bytes lie outside the OOB of the flash contract. The ECC
//! result is the first test for a torn page, the check value the second.
//!
//! It is in this crate because the emulated store for large devices keeps tags instead of bytes,
//! and must know how to rebuild them.

/// Bytes of a tag's image.
pub const TAG_BYTES: usize = 16;
/// The largest payload and the largest sequence number.
pub const WORD_MAX: u64 = (1 << 48) - 1;

const RAW_BITS: u32 = 120;
const RAW_MASK: u128 = (1 << RAW_BITS) - 1;
const CHECK_SHIFT: u32 = 96;
const SEQUENCE_SHIFT: u32 = 48;

/// The content of 16 OOB bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagRead {
    /// Nothing was programmed.
    Blank,
    /// No valid tag: the page is torn or lost.
    Bad,
    /// A valid tag.
    Valid {
        /// The 48 bits of the layer.
        payload: u64,
        /// The sequence number.
        sequence: u64,
    },
}

/// The position of the bad-block marker, which depends on the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagFormat {
    small_page: bool,
}

/// A 24-bit check value over all other bits; a multiplicative hash suffices, because ECC is checked
/// first and this runs for each page.
#[inline]
const fn check(payload: u64, sequence: u64) -> u64 {
    let mixed = (payload ^ 0x5EED).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ sequence.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_left(29);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed >> 40
}

#[cold]
const fn small_page_head(first: u64) -> u64 {
    first & 0xFF_FFFF_FFFF | 0xFF << 40 | first >> 40 << 48
}

impl TagFormat {
    /// The format for pages of this many data bytes.
    pub const fn new(page_size: u32) -> Self {
        Self { small_page: page_size <= 512 }
    }

    /// The index of the bad-block marker's byte, which no tag uses and whose value damages no tag.
    #[inline]
    pub const fn marker(self) -> usize {
        if self.small_page { 5 } else { 0 }
    }

    /// The OOB image of a tag. `payload` must be at most [`WORD_MAX`]; only the low 48 bits of the
    /// sequence number are stored. Called for each page.
    #[inline(always)]
    pub fn image(self, payload: u64, sequence: u64) -> [u8; TAG_BYTES] {
        let sequence = sequence & WORD_MAX;
        let check = check(payload, sequence);
        // The 120 bits as two words, shifted around the marker.
        let (first, second) = (payload | sequence << SEQUENCE_SHIFT, sequence >> 16 | check << 32);
        let tail = first >> 56 | second << 8;
        let mut head = first << 8 | 0xFF;
        if self.small_page {
            head = small_page_head(first);
        }
        let mut image = [0; TAG_BYTES];
        let (low_half, high_half) = image.split_at_mut(8);
        low_half.copy_from_slice(&head.to_le_bytes());
        high_half.copy_from_slice(&tail.to_le_bytes());
        image
    }

    /// Decodes an OOB image. Called for each page.
    #[inline(always)]
    pub fn decode(self, image: &[u8; TAG_BYTES]) -> TagRead {
        let image = u128::from_le_bytes(*image);
        let raw = if self.small_page { (image & 0xFF_FFFF_FFFF) | (image >> 48) << 40 } else { image >> 8 };
        if raw == RAW_MASK {
            return TagRead::Blank;
        }
        let payload = (raw as u64) & WORD_MAX;
        let sequence = ((raw >> SEQUENCE_SHIFT) as u64) & WORD_MAX;
        if (raw >> CHECK_SHIFT) as u64 != check(payload, sequence) {
            return TagRead::Bad;
        }
        TagRead::Valid { payload, sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: u64 = 0xABCD_1234_5678;
    const SEQUENCE: u64 = 0x1234_5678_9ABC;

    #[test]
    fn tags_come_back_and_leave_the_marker_alone() {
        for (page_size, marker) in [(512, 5), (2048, 0), (16_384, 0)] {
            let format = TagFormat::new(page_size);
            for (payload, sequence) in [(PAYLOAD, SEQUENCE), (0, 0), (WORD_MAX, 0), (0, WORD_MAX), (1 << 47, 1 << 47)] {
                let image = format.image(payload, sequence);
                assert_eq!((image[marker], format.marker()), (0xFF, marker));
                assert_eq!(format.decode(&image), TagRead::Valid { payload, sequence });
            }
            assert_eq!(format.decode(&[0xFF; TAG_BYTES]), TagRead::Blank);
        }
    }

    #[test]
    fn damage_is_noticed() {
        let format = TagFormat::new(2048);
        let image = format.image(PAYLOAD, SEQUENCE);
        for bit in 8..128 {
            let mut damaged = image;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(format.decode(&damaged), TagRead::Bad, "bit {bit}");
        }
        for length in 1..TAG_BYTES {
            let mut torn = [0xFF; TAG_BYTES];
            torn[..length].copy_from_slice(&image[..length]);
            assert!(length == 1 || format.decode(&torn) == TagRead::Bad, "{length} bytes");
        }
        assert_eq!(format.decode(&[0; TAG_BYTES]), TagRead::Bad);
    }
}
