//! Encodes inodes (f2fs.md, "Inode").

use std::mem::offset_of;

use nandkit_vfs::{ErrorKind, FsError, Result, Timestamp};
use zerocopy::{FromZeros, IntoBytes};

use super::put;
use crate::ids::NodeId;
use crate::layout::inode::{
    DEFAULT_XATTR_WORDS, EXTRA_BYTES_MAX, Extent, NIDS, WORDS_OFFSET, computed_checksum, inline, nids_offset,
};
use crate::layout::{ExtraAttributes, Features, InodeHead};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Bits of a device's major and minor numbers (include/linux/kdev_t.h).
const DEVICE_BITS: (u32, u32) = (12, 20);

/// Splits a time into seconds (negative ones in two's complement) and nanoseconds.
pub const fn seconds(time: Timestamp) -> (u64, u32) {
    (time.0.div_euclid(NANOS_PER_SECOND) as u64, time.0.rem_euclid(NANOS_PER_SECOND) as u32)
}

/// Sets the three times of an inode.
pub fn set_times(head: &mut InodeHead, accessed: Timestamp, modified: Timestamp, changed: Timestamp) {
    let [(a, a_ns), (m, m_ns), (c, c_ns)] = [accessed, modified, changed].map(seconds);
    (head.accessed, head.modified, head.changed) = (a.into(), m.into(), c.into());
    (head.accessed_ns, head.modified_ns, head.changed_ns) = (a_ns.into(), m_ns.into(), c_ns.into());
}

/// Sets the name under which an inode was last created, and its length.
pub fn set_name(head: &mut InodeHead, name: &[u8]) {
    head.name_length = (name.len().min(head.name.len()) as u32).into();
    head.name.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
}

/// Bytes of extra attributes that the features need; 0 without the feature (libf2fs.c,
/// `calc_extra_isize`). Every kernel that knows the features accepts this size.
pub const fn extra_bytes(features: Features) -> u16 {
    if !features.has(Features::EXTRA_ATTRIBUTES) {
        return 0;
    }
    if features.has(Features::COMPRESSION) {
        EXTRA_BYTES_MAX
    } else if features.has(Features::CREATION_TIME) {
        offset_of!(ExtraAttributes, compressed_blocks) as u16
    } else if features.has(Features::INODE_CHECKSUM) {
        offset_of!(ExtraAttributes, created) as u16
    } else if features.has(Features::PROJECT_QUOTA) {
        offset_of!(ExtraAttributes, checksum) as u16
    } else {
        offset_of!(ExtraAttributes, project_id) as u16
    }
}

/// The parts of an inode beside its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeRest<'a> {
    /// Size of the extra attributes in bytes: 0, or a multiple of 4 with room for all fields of the
    /// features.
    pub extra_bytes: u16,
    /// The project ID.
    pub project_id: u32,
    /// Compression: algorithm, log2 of the pages per cluster, flags.
    pub compression: (u8, u8, u16),
    /// Words of inline attributes, if the volume has FLEXIBLE_INLINE_XATTR.
    pub xattr_words: u16,
    /// The creation time.
    pub created: Timestamp,
    /// Inline content or entries.
    pub inline: &'a [u8],
    /// Addresses starting with the first page's, or the words of a device inode.
    pub words: &'a [u32],
    /// The start of the attribute area.
    pub xattrs: &'a [u8],
    /// The nids of its nodes.
    pub nids: [NodeId; NIDS],
    /// The largest extent.
    pub extent: Extent,
}

/// Words that an inode with these features reserves for inline attributes, as Linux derives it from
/// the inode's flags (inode.c, `do_read_inode`).
pub const fn xattr_words(features: Features, inline_flags: u8, own: u16) -> u16 {
    if features.has(Features::FLEXIBLE_INLINE_XATTR) {
        own
    } else if inline_flags & (inline::XATTR | inline::DENTRY) != 0 {
        DEFAULT_XATTR_WORDS
    } else {
        0
    }
}

/// The number of addresses that fit into an inode; its inline area is one address smaller, at four
/// bytes each.
pub const fn address_words(block_size: usize, features: Features, inline_flags: u8, own: u16) -> u16 {
    let words = (nids_offset(block_size) - WORDS_OFFSET) as u16 / 4;
    words - extra_bytes(features) / 4 - xattr_words(features, inline_flags, own)
}

/// The block of an inode without its footer. Extra attributes and their flag are set if they have
/// bytes.
pub fn inode_block(block_size: usize, features: Features, head: &InodeHead, rest: &InodeRest<'_>) -> Vec<u8> {
    let mut block = vec![0; block_size];
    let extra_length = rest.extra_bytes;
    let mut head = *head;
    head.extent = rest.extent;
    if extra_length > 0 {
        head.inline |= inline::EXTRA;
        let mut extra = ExtraAttributes::new_zeroed();
        extra.bytes = extra_length.into();
        if features.has(Features::FLEXIBLE_INLINE_XATTR) {
            extra.xattr_words = rest.xattr_words.into();
        }
        extra.project_id = rest.project_id.into();
        let (algorithm, log_cluster_pages, flags) = rest.compression;
        (extra.compression, extra.log_cluster_pages) = (algorithm, log_cluster_pages);
        extra.compression_flags = flags.into();
        if features.has(Features::CREATION_TIME) {
            let (created, nanoseconds) = seconds(rest.created);
            (extra.created, extra.created_ns) = (created.into(), nanoseconds.into());
        }
        let bytes = extra.as_bytes();
        put(&mut block, WORDS_OFFSET, bytes.get(..usize::from(extra_length)).unwrap_or(bytes));
    }
    put(&mut block, 0, head.as_bytes());
    let start = WORDS_OFFSET + usize::from(extra_length);
    for (index, word) in rest.words.iter().enumerate() {
        put(&mut block, start + index * 4, &word.to_le_bytes());
    }
    put(&mut block, start + 4 * usize::from(!rest.inline.is_empty()), rest.inline);
    let end = nids_offset(block_size);
    let own_words = xattr_words(features, head.inline, rest.xattr_words);
    let room = usize::from(own_words) * 4;
    put(&mut block, end - room.min(end), rest.xattrs.get(..room).unwrap_or(rest.xattrs));
    for (index, nid) in rest.nids.iter().enumerate() {
        put(&mut block, end + index * 4, &nid.0.to_le_bytes());
    }
    block
}

/// Sets the checksum of a complete inode block, including its footer; does nothing if the inode has
/// no room for one.
pub fn seal(block: &mut [u8], features: Features, seed: u32) {
    if ExtraAttributes::of_block(block).and_then(|extra| extra.checksum(features)).is_none() {
        return;
    }
    let checksum = computed_checksum(seed, block).unwrap_or(0);
    put(block, WORDS_OFFSET + offset_of!(ExtraAttributes, checksum), &checksum.to_le_bytes());
}

/// Checks that an inode can store a device number; the major number is in the upper 32 bits.
/// Errors: `InvalidArgument`.
pub fn check_device(device: u64) -> Result<()> {
    let (major, minor) = ((device >> 32) as u32, device as u32);
    if major >> DEVICE_BITS.0 == 0 && minor >> DEVICE_BITS.1 == 0 {
        return Ok(());
    }
    let detail = format!("device {major}:{minor}; numbers have 12 bits (major) and 20 bits (minor)");
    Err(FsError::new(ErrorKind::InvalidArgument, detail))
}

/// The words of a device inode (f2fs.md, "Devices"; include/linux/kdev_t.h).
pub const fn device_words(major: u32, minor: u32) -> [u32; 2] {
    if major < 256 && minor < 256 {
        [major << 8 | minor, 0]
    } else {
        [0, minor & 0xFF | major << 8 | (minor & !0xFF) << 12]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_attributes_are_as_long_as_mkfs_makes_them() {
        let extra = Features::EXTRA_ATTRIBUTES;
        for (features, bytes) in [
            (Features(0), 0),
            (extra, 4),
            (extra.with(Features::FLEXIBLE_INLINE_XATTR), 4),
            (extra.with(Features::PROJECT_QUOTA), 8),
            (extra.with(Features::INODE_CHECKSUM), 12),
            (extra.with(Features::CREATION_TIME), 24),
            (extra.with(Features::COMPRESSION), 36),
        ] {
            assert_eq!(extra_bytes(features), bytes, "{features}");
        }
        assert_eq!(address_words(4096, Features(0), 0, 0), 923);
        assert_eq!(address_words(4096, Features(0), inline::XATTR, 0), 873);
        assert_eq!(address_words(4096, extra.with(Features::CREATION_TIME), inline::DENTRY, 0), 867);
    }

    #[test]
    fn times_before_1970_are_twos_complement() {
        assert_eq!(seconds(Timestamp(1_500_000_000)), (1, 500_000_000));
        assert_eq!(seconds(Timestamp(-1)), (u64::MAX, 999_999_999));
    }

    #[test]
    fn device_numbers_have_two_forms() {
        assert_eq!(device_words(8, 1), [0x801, 0]);
        assert_eq!(device_words(259, 0x12345), [0, 0x45 | 259 << 8 | 0x12300 << 12]);
    }
}
