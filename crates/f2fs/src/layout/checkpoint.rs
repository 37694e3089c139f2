//! The checkpoint block and the orphan block (f2fs.md, "Checkpoint pack").

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{checksum, word};
use crate::ids::NodeId;
use nandkit_codec::checksum::crc32_linux;

/// Logs of a kind that the checkpoint has room for; three are used.
pub const LOGS_PER_KIND: usize = 8;
/// A segment number of a log that is not used.
pub const NO_SEGMENT: u32 = 0xFFFF_FFFF;
/// Where the bitmaps begin, except with [`flag::LARGE_NAT_BITMAP`].
pub const BITMAPS_OFFSET: usize = 192;

/// Bits of `flags`.
pub mod flag {
    /// Cleanly unmounted: node summaries are in the pack.
    pub const UNMOUNTED: u32 = 0x1;
    /// Orphan blocks are in the pack.
    pub const ORPHANS: u32 = 0x2;
    /// Data summaries are in the compact form.
    pub const COMPACT_SUMMARIES: u32 = 0x4;
    /// Checkpoints were stopped by an error.
    pub const ERROR: u32 = 0x8;
    /// Somebody found an inconsistency.
    pub const FSCK: u32 = 0x10;
    /// Node summaries are in the pack, but not cleanly unmounted.
    pub const FASTBOOT: u32 = 0x20;
    /// Footers of nodes hold version and CRC.
    pub const CRC_RECOVERY: u32 = 0x40;
    /// nat_bits may be there.
    pub const NAT_BITS: u32 = 0x80;
    /// All free blocks were discarded.
    pub const TRIMMED: u32 = 0x100;
    /// Footers hold the version's low 32 bits only.
    pub const NO_CRC_RECOVERY: u32 = 0x200;
    /// The checksum stands before the bitmaps.
    pub const LARGE_NAT_BITMAP: u32 = 0x400;
    /// Quota files are not to be trusted.
    pub const QUOTA_NEEDS_FSCK: u32 = 0x800;
    /// Checkpoints were disabled by a mount option.
    pub const DISABLED: u32 = 0x1000;
    /// The same, without collecting first.
    pub const DISABLED_QUICK: u32 = 0x2000;
    /// A resize is under way.
    pub const RESIZING: u32 = 0x4000;
}

/// The beginning of a checkpoint block; bitmaps follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHead {
    /// One more with each checkpoint.
    pub version: U64,
    /// Blocks that users may have.
    pub user_blocks: U64,
    /// Blocks in use: bits of the SIT and reserved addresses.
    pub valid_blocks: U64,
    /// Segments kept for cleaning.
    pub reserved_segments: U32,
    /// Segments that users do not get, the reserved ones included.
    pub overprovision_segments: U32,
    /// Segments without valid blocks that no log has.
    pub free_segments: U32,
    /// Segments of the node logs: hot, warm, cold; [`NO_SEGMENT`] behind.
    pub node_segments: [U32; LOGS_PER_KIND],
    /// Next blocks of the node logs.
    pub node_offsets: [U16; LOGS_PER_KIND],
    /// Segments of the data logs.
    pub data_segments: [U32; LOGS_PER_KIND],
    /// Next blocks of the data logs.
    pub data_offsets: [U16; LOGS_PER_KIND],
    /// Bits of [`flag`].
    pub flags: U32,
    /// Blocks of the pack without nat_bits.
    pub pack_blocks: U32,
    /// Block of the pack where data summaries begin.
    pub summaries_start: U32,
    /// Nodes in all.
    pub valid_nodes: U32,
    /// Inodes in all.
    pub valid_inodes: U32,
    /// Where to look for a free nid.
    pub next_free_nid: U32,
    /// Bytes of the SIT's version bitmap.
    pub sit_bitmap_bytes: U32,
    /// Bytes of the NAT's version bitmap.
    pub nat_bitmap_bytes: U32,
    /// Where the checksum stands.
    pub checksum_offset: U32,
    /// Seconds mounted, all mounts together.
    pub elapsed_seconds: U64,
    /// Per log (order of [`crate::Log`]): 0 LFS, 1 SSR.
    pub allocation_types: [u8; 16],
}

impl CheckpointHead {
    /// Reads one from its block; `None` where the block is too short. Nothing is checked.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block).ok().map(|(head, _)| head)
    }

    /// Whether a bit of [`flag`] is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }

    /// The checksum that stands in a checkpoint block, if the place that the head names is
    /// possible; it must be the last word, or stand between head and bitmaps.
    pub fn stored_checksum(&self, block: &[u8]) -> Option<u32> {
        word(block, self.checksum_place(block.len())?)
    }

    /// The checksum that the block should have: over what is before it, and what is behind it where
    /// it is not the last word.
    pub fn computed_checksum(&self, block: &[u8]) -> Option<u32> {
        let place = self.checksum_place(block.len())?;
        Some(crc32_linux(checksum(block.get(..place)?), block.get(place + 4..)?))
    }

    fn checksum_place(&self, block_size: usize) -> Option<usize> {
        let place = self.checksum_offset.get() as usize;
        (place + 4 == block_size || (place >= BITMAPS_OFFSET && place + 4 < block_size && place.is_multiple_of(4)))
            .then_some(place)
    }

    /// Where NAT and SIT bitmaps begin, counted from the start of the checkpoint block with the
    /// payload blocks behind it (f2fs.h, `__bitmap_ptr`).
    pub fn bitmap_places(&self, payload_blocks: u32, block_size: usize) -> BitmapPlaces {
        let (sit, nat) = (self.sit_bitmap_bytes.get() as usize, self.nat_bitmap_bytes.get() as usize);
        if self.has(flag::LARGE_NAT_BITMAP) {
            let start = BITMAPS_OFFSET + 4;
            return BitmapPlaces { nat: start, sit: start.saturating_add(nat) };
        }
        match payload_blocks {
            0 => BitmapPlaces { nat: BITMAPS_OFFSET.saturating_add(sit), sit: BITMAPS_OFFSET },
            _ => BitmapPlaces { nat: BITMAPS_OFFSET, sit: block_size },
        }
    }
}

/// First bytes of the version bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapPlaces {
    /// Of the NAT's.
    pub nat: usize,
    /// Of the SIT's.
    pub sit: usize,
}

/// An orphan block: inos, and at its end which of how many blocks it is.
#[derive(Clone, Copy, Debug)]
pub struct OrphanBlock<'a>(pub &'a [u8]);

/// The last 16 bytes of an orphan block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OrphanTail {
    /// Kept.
    pub reserved: U32,
    /// This block, from 1.
    pub index: U16,
    /// Blocks in all.
    pub count: U16,
    /// Entries in this block.
    pub entries: U32,
    /// Linux writes 0 and reads it never.
    pub checksum: U32,
}

impl OrphanBlock<'_> {
    /// How many entries a block has room for.
    pub const fn room(block_size: usize) -> usize {
        (block_size - size_of::<OrphanTail>()) / 4
    }

    /// The tail; `None` where the block is too short.
    pub fn tail(&self) -> Option<OrphanTail> {
        OrphanTail::read_from_suffix(self.0).ok().map(|(_, tail)| tail)
    }

    /// The inodes; `None` where the block says more than it has room for.
    pub fn inodes(&self) -> Option<impl Iterator<Item = NodeId>> {
        let bytes = (self.tail()?.entries.get() as usize).checked_mul(4)?;
        let room = self.0.len().checked_sub(size_of::<OrphanTail>())?;
        let (words, _) = self.0.get(..room)?.get(..bytes)?.as_chunks::<4>();
        Some(words.iter().map(|bytes| NodeId(u32::from_le_bytes(*bytes))))
    }
}

const _: () = {
    assert!(size_of::<CheckpointHead>() == BITMAPS_OFFSET);
    assert!(offset_of!(CheckpointHead, node_segments) == 36);
    assert!(offset_of!(CheckpointHead, data_segments) == 84);
    assert!(offset_of!(CheckpointHead, flags) == 132);
    assert!(offset_of!(CheckpointHead, valid_nodes) == 144);
    assert!(offset_of!(CheckpointHead, sit_bitmap_bytes) == 156);
    assert!(offset_of!(CheckpointHead, checksum_offset) == 164);
    assert!(offset_of!(CheckpointHead, elapsed_seconds) == 168);
    assert!(offset_of!(CheckpointHead, allocation_types) == 176);
    assert!(size_of::<OrphanTail>() == 16);
    assert!(OrphanBlock::room(4096) == 1020 && OrphanBlock::room(16384) == 4092);
};
