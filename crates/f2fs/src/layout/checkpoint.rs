//! The checkpoint block and the orphan block (f2fs.md, "Checkpoint pack").

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{checksum, word};
use crate::ids::NodeId;
use nandkit_codec::checksum::crc32_linux;

/// Logs per kind that the checkpoint has room for; three are used.
pub const LOGS_PER_KIND: usize = 8;
/// The segment number of an unused log.
pub const NO_SEGMENT: u32 = 0xFFFF_FFFF;
/// The offset of the bitmaps, except with [`flag::LARGE_NAT_BITMAP`].
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
    /// An inconsistency was found.
    pub const FSCK: u32 = 0x10;
    /// Node summaries are in the pack, but not cleanly unmounted.
    pub const FASTBOOT: u32 = 0x20;
    /// Footers of nodes hold version and CRC.
    pub const CRC_RECOVERY: u32 = 0x40;
    /// nat_bits may be present.
    pub const NAT_BITS: u32 = 0x80;
    /// All free blocks were discarded.
    pub const TRIMMED: u32 = 0x100;
    /// Footers hold only the low 32 bits of the version.
    pub const NO_CRC_RECOVERY: u32 = 0x200;
    /// The checksum precedes the bitmaps.
    pub const LARGE_NAT_BITMAP: u32 = 0x400;
    /// Quota files are not to be trusted.
    pub const QUOTA_NEEDS_FSCK: u32 = 0x800;
    /// Checkpoints were disabled by a mount option.
    pub const DISABLED: u32 = 0x1000;
    /// Like [`DISABLED`], without collecting first.
    pub const DISABLED_QUICK: u32 = 0x2000;
    /// A resize is in progress.
    pub const RESIZING: u32 = 0x4000;
}

/// The start of a checkpoint block; bitmaps follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHead {
    /// Incremented by each checkpoint.
    pub version: U64,
    /// Blocks available to users.
    pub user_blocks: U64,
    /// Blocks in use: bits of the SIT and reserved addresses.
    pub valid_blocks: U64,
    /// Segments reserved for cleaning.
    pub reserved_segments: U32,
    /// Segments withheld from users, including the reserved ones.
    pub overprovision_segments: U32,
    /// Segments without valid blocks that no log uses.
    pub free_segments: U32,
    /// Segments of the node logs: hot, warm, cold, then [`NO_SEGMENT`].
    pub node_segments: [U32; LOGS_PER_KIND],
    /// The next block of each node log.
    pub node_offsets: [U16; LOGS_PER_KIND],
    /// Segments of the data logs.
    pub data_segments: [U32; LOGS_PER_KIND],
    /// The next block of each data log.
    pub data_offsets: [U16; LOGS_PER_KIND],
    /// Bits of [`flag`].
    pub flags: U32,
    /// Blocks of the pack without nat_bits.
    pub pack_blocks: U32,
    /// The block of the pack where data summaries start.
    pub summaries_start: U32,
    /// All nodes.
    pub valid_nodes: U32,
    /// All inodes.
    pub valid_inodes: U32,
    /// Where to start searching for a free nid.
    pub next_free_nid: U32,
    /// Size of the SIT's version bitmap in bytes.
    pub sit_bitmap_bytes: U32,
    /// Size of the NAT's version bitmap in bytes.
    pub nat_bitmap_bytes: U32,
    /// The offset of the checksum.
    pub checksum_offset: U32,
    /// Seconds mounted, over all mounts.
    pub elapsed_seconds: U64,
    /// Per log (order of [`crate::Log`]): 0 LFS, 1 SSR.
    pub allocation_types: [u8; 16],
}

impl CheckpointHead {
    /// Decodes the head of a block without checking it; `None` if the block is too short.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block).ok().map(|(head, _)| head)
    }

    /// Whether a bit of [`flag`] is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }

    /// The checksum stored in a checkpoint block, if the head gives a valid offset: the last word,
    /// or between head and bitmaps.
    pub fn stored_checksum(&self, block: &[u8]) -> Option<u32> {
        word(block, self.checksum_place(block.len())?)
    }

    /// The checksum computed over the bytes before it and, unless it is the last word, those after
    /// it.
    pub fn computed_checksum(&self, block: &[u8]) -> Option<u32> {
        let place = self.checksum_place(block.len())?;
        Some(crc32_linux(checksum(block.get(..place)?), block.get(place + 4..)?))
    }

    fn checksum_place(&self, block_size: usize) -> Option<usize> {
        let place = self.checksum_offset.get() as usize;
        (place + 4 == block_size || (place >= BITMAPS_OFFSET && place + 4 < block_size && place.is_multiple_of(4)))
            .then_some(place)
    }

    /// The offsets of the NAT and SIT bitmaps, from the start of the checkpoint block, which the
    /// payload blocks follow (f2fs.h, `__bitmap_ptr`).
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

/// The offsets of the version bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapPlaces {
    /// The NAT's bitmap.
    pub nat: usize,
    /// The SIT's bitmap.
    pub sit: usize,
}

/// An orphan block: inode numbers, then its index among all orphan blocks.
#[derive(Clone, Copy, Debug)]
pub struct OrphanBlock<'a>(pub &'a [u8]);

/// The last 16 bytes of an orphan block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OrphanTail {
    /// Reserved; kept as read.
    pub reserved: U32,
    /// The index of this block, from 1.
    pub index: U16,
    /// The number of orphan blocks.
    pub count: U16,
    /// Entries in this block.
    pub entries: U32,
    /// Written as 0 by Linux and never read.
    pub checksum: U32,
}

impl OrphanBlock<'_> {
    /// The number of entries that fit in a block.
    pub const fn room(block_size: usize) -> usize {
        (block_size - size_of::<OrphanTail>()) / 4
    }

    /// The tail; `None` if the block is too short.
    pub fn tail(&self) -> Option<OrphanTail> {
        OrphanTail::read_from_suffix(self.0).ok().map(|(_, tail)| tail)
    }

    /// The inodes; `None` if the count exceeds the block's capacity.
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
