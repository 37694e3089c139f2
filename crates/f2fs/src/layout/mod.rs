//! The on-disk structures, field by field, each in its own file.
//!
//! Facts and sources: `docs/formats/f2fs.md`; each file cites its headings. All numbers are
//! little-endian and unaligned. Entries are structures; blocks, whose entry counts depend on the
//! block size, are views over bytes.

pub mod checkpoint;
pub mod dentry;
mod geometry;
pub mod inode;
pub mod nat;
pub mod node;
pub mod sit;
pub mod summary;
pub mod superblock;
mod tree_shape;
pub mod xattr;

pub use checkpoint::{CheckpointHead, OrphanBlock};
pub use dentry::{DentryArea, DentryRoom};
pub use geometry::Geometry;
pub use inode::{ExtraAttributes, InodeHead, InodeShape, inode_shape};
pub use nat::NatEntry;
pub use node::{Footer, NodeOffset};
pub use sit::SitEntry;
pub use summary::SummaryEntry;
pub use superblock::{Features, Superblock};
pub use tree_shape::{NodePath, TreeShape};

use nandkit_codec::checksum::crc32_linux;

/// The magic number of a superblock, and the start value of most checksums.
pub const MAGIC: u32 = 0xF2F5_2010;

/// Blocks per segment, always 512 (`log_blocks_per_seg` is 9).
pub const BLOCKS_PER_SEGMENT: u32 = 512;

/// The longest name of an entry, in bytes.
pub const NAME_MAX: usize = 255;

/// The checksum of superblocks, checkpoints and compressed clusters (f2fs.md, "Words"): CRC-32
/// without inversions, seeded with [`MAGIC`].
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32_linux(MAGIC, bytes)
}

/// Reads the little-endian word at a byte; `None` past the end.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Writes a little-endian word at a byte; returns false past the end.
pub fn set_word(bytes: &mut [u8], at: usize, value: u32) -> bool {
    match bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        Some(place) => {
            *place = value.to_le_bytes();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_format() {
        assert_eq!(checksum(b"123456789"), 0x1657_A0C3);
    }

    #[test]
    fn words_are_little_endian_and_bounded() {
        let mut bytes = [0; 6];
        assert!(set_word(&mut bytes, 2, 0x0102_0304) && !set_word(&mut bytes, 3, 1));
        assert_eq!((bytes, word(&bytes, 2), word(&bytes, 3)), ([0, 0, 4, 3, 2, 1], Some(0x0102_0304), None));
    }
}
