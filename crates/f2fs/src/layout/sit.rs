//! Entries of the segment information table (f2fs.md, "SIT").

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bits;
use crate::ids::Log;

/// Size of a segment's map of valid blocks.
pub const VALID_MAP_BYTES: usize = 64;

/// The SIT entry of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SitEntry {
    /// Bits 0 to 9: valid blocks; bits 10 to 15: type.
    pub count_and_type: U16,
    /// Valid blocks, MSB first.
    pub valid_map: [u8; VALID_MAP_BYTES],
    /// The mean time of its blocks, in seconds of the checkpoint's `elapsed_seconds`.
    pub modified_seconds: U64,
}

impl SitEntry {
    const TYPE_SHIFT: u32 = 10;
    const COUNT_MASK: u16 = (1 << Self::TYPE_SHIFT) - 1;

    /// An entry whose count matches its map.
    pub fn new(log: Log, valid_map: [u8; VALID_MAP_BYTES], modified_seconds: u64) -> Self {
        let count = bits::count(&valid_map) as u16;
        Self {
            count_and_type: (count | (log as u16) << Self::TYPE_SHIFT).into(),
            valid_map,
            modified_seconds: modified_seconds.into(),
        }
    }

    /// The entry at an index of a SIT block; `None` past its end.
    pub fn in_block(block: &[u8], index: usize) -> Option<Self> {
        Self::read_from_prefix(block.get(index.checked_mul(size_of::<Self>())?..)?).ok().map(|(entry, _)| entry)
    }

    /// The number of valid blocks in the count field: up to 1023, at most 512 if the entry is
    /// sound.
    pub fn valid_blocks(&self) -> u16 {
        self.count_and_type.get() & Self::COUNT_MASK
    }

    /// The number of valid blocks in the map.
    pub fn counted_blocks(&self) -> u32 {
        bits::count(&self.valid_map)
    }

    /// Whether a block of the segment is valid.
    pub fn is_valid(&self, block: u16) -> bool {
        bits::msb_first::get(&self.valid_map, usize::from(block))
    }

    /// The type; `None` for a number above 5.
    pub fn log(&self) -> Option<Log> {
        Log::of(self.raw_type())
    }

    /// The type as stored.
    pub fn raw_type(&self) -> u8 {
        (self.count_and_type.get() >> Self::TYPE_SHIFT) as u8
    }
}

const _: () = assert!(size_of::<SitEntry>() == 74 && 4096 / size_of::<SitEntry>() == 55);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_and_type_share_a_field() {
        let mut map = [0; VALID_MAP_BYTES];
        map[0] = 0x81;
        let entry = SitEntry::new(Log::WarmNode, map, 9);
        assert_eq!((entry.valid_blocks(), entry.counted_blocks(), entry.log()), (2, 2, Some(Log::WarmNode)));
        assert!(entry.is_valid(0) && entry.is_valid(7) && !entry.is_valid(1));
        let full = SitEntry::new(Log::ColdNode, [0xFF; 64], 0);
        assert_eq!((full.valid_blocks(), full.raw_type()), (512, 5));
    }
}
