//! Recognition of a volume by its superblock.

use nandkit_vfs::probe::{Fit, Layout, Likeness};
use zerocopy::FromBytes;

use crate::layout::{Header, MAGIC, Superblock, node_type};
use crate::node;

/// Bytes that a probe needs: the superblock node.
pub const PROBE_BYTES: usize = 4096;
/// Points for a superblock with a right checksum.
const POINTS: u32 = 900;
/// LEBs have at least this many bytes (`UBIFS_MIN_LEB_SZ`).
const LEB_SIZE_MIN: u32 = 15 * 1024;
/// LEBs have at most this many bytes (`UBIFS_MAX_LEB_SZ`).
const LEB_SIZE_MAX: u32 = 2 << 20;

/// Whether bytes begin with a superblock with a right checksum.
pub fn begins_with_superblock(bytes: &[u8]) -> bool {
    superblock(bytes).is_some()
}

/// Whether bytes begin with the header of a superblock, but not with a whole one.
pub fn is_superblock_damaged(bytes: &[u8]) -> bool {
    let header = Header::read_from_prefix(bytes).map(|(header, _)| header);
    let is_superblock = |header: Header| header.magic.get() == MAGIC && header.node_type == node_type::SUPERBLOCK;
    header.is_ok_and(is_superblock) && !begins_with_superblock(bytes)
}

fn superblock(bytes: &[u8]) -> Option<Superblock> {
    let (_, found) = node::verified(bytes.get(..PROBE_BYTES)?)?;
    let node = node::decode(found.to_vec()).filter(|node| node.node_type == node_type::SUPERBLOCK)?;
    let (superblock, _) = node.body::<Superblock>()?;
    (LEB_SIZE_MIN..=LEB_SIZE_MAX).contains(&superblock.leb_size.get()).then_some(superblock)
}

/// How likely these bytes of a part of `length` bytes are a volume in a file of its own.
pub fn probe(bytes: &[u8], length: u64) -> Option<Likeness> {
    let superblock = superblock(bytes)?;
    let (leb_size, leb_count) = (superblock.leb_size.get(), superblock.leb_count.get());
    let layout = Layout {
        block_size: superblock.min_io_size.get(),
        erase_size: leb_size,
        erase_sizes: vec![leb_size],
        erase_size_fit: Fit::Proven,
        byte_order: None,
    };
    let end = (u64::from(leb_size) * u64::from(leb_count)).min(length);
    let evidence =
        vec![format!("it begins with a superblock with a valid checksum: {leb_count} LEBs of {leb_size} bytes")];
    Some(Likeness { points: POINTS, evidence, layout, extent: Some(0..end) })
}
