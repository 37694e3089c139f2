//! Inodes (f2fs.md, "Inode").

use std::mem::offset_of;
use std::ops::Range;

use nandkit_codec::checksum::crc32_linux;
use nandkit_vfs::FileKind;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::node::FOOTER_BYTES;
use super::{Features, Geometry, NAME_MAX};
use crate::findings::{Defect, FindingKind};

/// The offset of an inode's address words (`i_addr`); extra attributes use the first of them.
pub const WORDS_OFFSET: usize = 360;
/// Nids of an inode: two direct nodes, two indirect, one double indirect.
pub const NIDS: usize = 5;
/// Words of inline attributes, unless the inode gives its own number.
pub const DEFAULT_XATTR_WORDS: u16 = 50;
/// Size of all extra attributes in bytes.
pub const EXTRA_BYTES_MAX: u16 = size_of::<ExtraAttributes>() as u16;

/// Bits of `inline`.
pub mod inline {
    /// Attributes are in the inode.
    pub const XATTR: u8 = 0x01;
    /// Content is in the inode.
    pub const DATA: u8 = 0x02;
    /// Entries are in the inode.
    pub const DENTRY: u8 = 0x04;
    /// With [`DATA`]: there is content.
    pub const DATA_EXISTS: u8 = 0x08;
    /// `.` and `..` are missing.
    pub const DOTS: u8 = 0x10;
    /// The inode has extra attributes.
    pub const EXTRA: u8 = 0x20;
    /// Pinned: never moved, written in place.
    pub const PINNED: u8 = 0x40;
    /// Reserved blocks of clusters were released.
    pub const COMPRESS_RELEASED: u8 = 0x80;
}

/// Bits of `advise`.
pub mod advise {
    /// Cold by extension.
    pub const COLD: u8 = 0x01;
    /// `parent` and name may be wrong.
    pub const LOST_PARENT: u8 = 0x02;
    /// Encrypted.
    pub const ENCRYPTED: u8 = 0x04;
    /// The name is encrypted.
    pub const ENCRYPTED_NAME: u8 = 0x08;
    /// Blocks were allocated past the size by fallocate.
    pub const KEEP_SIZE: u8 = 0x10;
    /// Hot by extension.
    pub const HOT: u8 = 0x20;
    /// Verity.
    pub const VERITY: u8 = 0x40;
    /// Truncate to the size at the next open.
    pub const TRUNCATE: u8 = 0x80;
}

/// Bits of `flags`: those of chattr(1) that affect a reader.
pub mod flag {
    /// A compressed file, or a directory whose new files are compressed.
    pub const COMPRESSED: u32 = 0x4;
    /// Writes are synchronous.
    pub const SYNC: u32 = 0x8;
    /// Immutable.
    pub const IMMUTABLE: u32 = 0x10;
    /// Excluded from dump(8).
    pub const NO_DUMP: u32 = 0x40;
    /// Access times are not updated.
    pub const NO_ACCESS_TIME: u32 = 0x80;
    /// Set by Linux on every new directory.
    pub const INDEX: u32 = 0x1000;
    /// Changes of the directory are synchronous.
    pub const DIRECTORY_SYNC: u32 = 0x1_0000;
    /// New files in the directory inherit its project.
    pub const PROJECT_INHERIT: u32 = 0x2000_0000;
    /// Names are compared case-insensitively.
    pub const CASEFOLD: u32 = 0x4000_0000;
    /// An alias of a device: only the extent, no addresses.
    pub const DEVICE_ALIAS: u32 = 0x8000_0000;
}

/// The largest extent of a file: an optional hint that must be correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Extent {
    /// First page.
    pub page: U32,
    /// Address of the first page.
    pub address: U32,
    /// Number of pages; 0 for none.
    pub length: U32,
}

/// The first 360 bytes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InodeHead {
    /// Kind and permissions.
    pub mode: U16,
    /// Bits of [`advise`].
    pub advise: u8,
    /// Bits of [`inline`].
    pub inline: u8,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Link count; for a directory, 2 plus its subdirectories.
    pub links: U32,
    /// Size in bytes.
    pub size: U64,
    /// Blocks including all nodes and reserved ones; at least 1.
    pub blocks: U64,
    /// Access time, seconds.
    pub accessed: U64,
    /// Change time (content or attributes), seconds.
    pub changed: U64,
    /// Modification time (content), seconds.
    pub modified: U64,
    /// Access time, nanoseconds.
    pub accessed_ns: U32,
    /// Change time, nanoseconds.
    pub changed_ns: U32,
    /// Modification time, nanoseconds.
    pub modified_ns: U32,
    /// A random number that is part of the checksum.
    pub generation: U32,
    /// For a directory, its number of levels; for a file, failures of the collector in the low
    /// half.
    pub depth: U32,
    /// The nid of the attribute node.
    pub xattr_nid: U32,
    /// Bits of [`flag`].
    pub flags: U32,
    /// The directory of the last creation, link, or rename to a new name.
    pub parent: U32,
    /// Length of the name in bytes.
    pub name_length: U32,
    /// The name at that time.
    pub name: [u8; NAME_MAX],
    /// For a directory, the base-2 logarithm of the number of buckets in level 0.
    pub directory_level: u8,
    /// The largest extent.
    pub extent: Extent,
}

/// Extra attributes: the first words of `i_addr`, as many bytes as the first field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExtraAttributes {
    /// Size in bytes including this field, a multiple of 4.
    pub bytes: U16,
    /// Words of inline attributes; valid only with FLEXIBLE_INLINE_XATTR.
    pub xattr_words: U16,
    /// The project ID.
    pub project_id: U32,
    /// The checksum of the inode's block, computed with this field as zero.
    pub checksum: U32,
    /// Creation time, seconds.
    pub created: U64,
    /// Creation time, nanoseconds.
    pub created_ns: U32,
    /// Blocks saved by compression.
    pub compressed_blocks: U64,
    /// 0 LZO, 1 LZ4, 2 zstd, 3 LZO-RLE.
    pub compression: u8,
    /// The base-2 logarithm of the pages per cluster.
    pub log_cluster_pages: u8,
    /// Bit 0: clusters have checksums; bits 8 to 15: level.
    pub compression_flags: U16,
}

impl InodeHead {
    /// Decodes the head from an inode's block; `None` if the block is too short.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block).ok().map(|(head, _)| head)
    }

    /// The head in place in an inode's block; `None` if the block is too short.
    pub fn in_block(block: &[u8]) -> Option<&Self> {
        Self::ref_from_prefix(block).ok().map(|(head, _)| head)
    }

    /// Whether a bit of [`inline`] is set.
    pub fn has_inline(&self, bit: u8) -> bool {
        self.inline & bit != 0
    }

    /// Whether a bit of [`advise`] is set.
    pub fn has_advise(&self, bit: u8) -> bool {
        self.advise & bit != 0
    }

    /// Whether a bit of [`flag`] is set.
    pub fn has_flag(&self, bit: u32) -> bool {
        self.flags.get() & bit != 0
    }

    /// The kind of file in the mode; `None` if it is invalid.
    pub fn file_kind(&self) -> Option<FileKind> {
        FileKind::of_mode(self.mode.get().into())
    }

    /// Whether content is compressed in clusters: true only for files; directories merely pass the
    /// flag on.
    pub fn is_compressed(&self, extra: &ExtraAttributes, features: Features) -> bool {
        self.has_flag(flag::COMPRESSED)
            && self.file_kind() == Some(FileKind::Regular)
            && extra.has_compression(features)
    }

    /// The name of the last creation; `None` if its length is invalid.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.get(..usize::try_from(self.name_length.get()).ok()?)
    }
}

impl ExtraAttributes {
    /// Decodes the extra attributes of an inode's block as far as their size covers; the rest is
    /// zero. `None` if the inode has none or the block is too short.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        if !InodeHead::in_block(block)?.has_inline(inline::EXTRA) {
            return None;
        }
        let bytes = block.get(WORDS_OFFSET..)?.get(..size_of::<Self>())?;
        let whole = Self::read_from_bytes(bytes).ok()?;
        let length = usize::from(whole.bytes.get()).clamp(4, size_of::<Self>());
        let mut attributes = Self::new_zeroed();
        attributes.as_mut_bytes().get_mut(..length)?.copy_from_slice(bytes.get(..length)?);
        Some(attributes)
    }

    /// Whether a field that ends at byte `end` is within the extra attributes.
    fn holds(&self, end: usize) -> bool {
        usize::from(self.bytes.get()) >= end
    }

    /// The project ID, if the feature is on and the field exists.
    pub fn project_id(&self, features: Features) -> Option<u32> {
        (features.has(Features::PROJECT_QUOTA) && self.holds(8)).then(|| self.project_id.get())
    }

    /// The checksum, if the feature is on and the field exists.
    pub fn checksum(&self, features: Features) -> Option<u32> {
        (features.has(Features::INODE_CHECKSUM) && self.holds(12)).then(|| self.checksum.get())
    }

    /// The creation time in seconds and nanoseconds, if the feature is on and the field exists.
    pub fn created(&self, features: Features) -> Option<(u64, u32)> {
        (features.has(Features::CREATION_TIME) && self.holds(24)).then(|| (self.created.get(), self.created_ns.get()))
    }

    /// Whether the compression fields exist.
    pub fn has_compression(&self, features: Features) -> bool {
        features.has(Features::COMPRESSION) && self.holds(36)
    }
}

/// The byte ranges of an inode's parts within its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeShape {
    /// Addresses, starting with the first page's.
    pub addresses: Range<usize>,
    /// Inline data or inline entries.
    pub inline: Range<usize>,
    /// Inline attributes; empty if there are none.
    pub xattrs: Range<usize>,
    /// The number of usable addresses; in compressed files whole clusters only.
    pub count: u16,
}

/// The end of the address words, which include extra and inline attributes.
const fn words_end(block_size: usize) -> usize {
    block_size - FOOTER_BYTES - NIDS * 4
}

/// The offset of an inode's nids in its block.
pub const fn nids_offset(block_size: usize) -> usize {
    words_end(block_size)
}

/// The shape of an inode, for every combination of extra attributes, inline attributes and
/// compression.
///
/// Errors: an [`FindingKind::Inode`] for extra or inline attributes that do not fit, or an invalid
/// cluster size.
pub fn inode_shape(geometry: &Geometry, features: Features, inode: &[u8]) -> Result<InodeShape, Defect> {
    let wrong = |detail: String| Defect::new(FindingKind::Inode, detail);
    let end = words_end(geometry.block_size());
    let head = InodeHead::in_block(inode).filter(|_| inode.len() >= geometry.block_size());
    let head = head.ok_or_else(|| wrong(format!("an inode of {} bytes; expected a block", inode.len())))?;
    let extra = ExtraAttributes::of_block(inode);
    let extra_bytes = extra.map_or(0, |extra| extra.bytes.get());
    if let Some(extra) = &extra
        && !(features.has(Features::EXTRA_ATTRIBUTES)
            && (4..=EXTRA_BYTES_MAX).contains(&extra_bytes)
            && extra_bytes.is_multiple_of(4))
    {
        let have = extra.bytes.get();
        return Err(wrong(format!(
            "{have} bytes of extra attributes; expected a multiple of 4 up to {EXTRA_BYTES_MAX}, on a volume with extra_attr"
        )));
    }
    let xattr_words = match extra {
        Some(extra) if features.has(Features::FLEXIBLE_INLINE_XATTR) => extra.xattr_words.get(),
        None if features.has(Features::FLEXIBLE_INLINE_XATTR) => {
            return Err(wrong("no extra attributes, which flexible_inline_xattr requires in every inode".into()));
        }
        _ if head.has_inline(inline::XATTR) || head.has_inline(inline::DENTRY) => DEFAULT_XATTR_WORDS,
        _ => 0,
    };
    let start = WORDS_OFFSET + usize::from(extra_bytes);
    let xattrs_start = end.checked_sub(usize::from(xattr_words) * 4).filter(|&xattrs| xattrs >= start + 4);
    let Some(xattrs_start) = xattrs_start else {
        let room = (end - start) / 4 - 1;
        return Err(wrong(format!("{xattr_words} words of inline attributes; the inode has room for {room}")));
    };
    let words = (xattrs_start - start) / 4;
    let cluster = match extra {
        Some(extra) if head.is_compressed(&extra, features) => cluster_pages(&extra)?,
        _ => 1,
    };
    Ok(InodeShape {
        addresses: start..xattrs_start,
        inline: start + 4..xattrs_start,
        xattrs: xattrs_start..end,
        count: (words - words % usize::from(cluster)) as u16,
    })
}

/// Pages per cluster: 4 to 256 (compress.c; f2fs.md, "Compressed files"). A file that is not
/// compressed has 0 in the field.
pub fn cluster_pages(extra: &ExtraAttributes) -> Result<u16, Defect> {
    match extra.log_cluster_pages {
        log @ 2..=8 => Ok(1 << log),
        log => Err(Defect::new(
            FindingKind::Inode,
            format!("clusters of 2^{log} pages in a compressed file; expected 2^2 to 2^8"),
        )),
    }
}

/// The seed of a volume's inode checksums (inode.c, `f2fs_inode_chksum`).
pub fn checksum_seed(uuid: &[u8; 16]) -> u32 {
    crc32_linux(u32::MAX, uuid)
}

/// The checksum computed over an inode's block, with its own field as zero. `None` if the block is
/// too short.
pub fn computed_checksum(seed: u32, block: &[u8]) -> Option<u32> {
    let field = WORDS_OFFSET + offset_of!(ExtraAttributes, checksum);
    let ino = super::Footer::of_block(block)?.ino;
    let generation = InodeHead::of_block(block)?.generation;
    let seed = crc32_linux(crc32_linux(seed, ino.as_bytes()), generation.as_bytes());
    let head = crc32_linux(seed, block.get(..field)?);
    Some(crc32_linux(crc32_linux(head, &[0; 4]), block.get(field + 4..)?))
}

const _: () = {
    assert!(size_of::<InodeHead>() == WORDS_OFFSET);
    assert!(offset_of!(InodeHead, size) == 16);
    assert!(offset_of!(InodeHead, accessed) == 32);
    assert!(offset_of!(InodeHead, generation) == 68);
    assert!(offset_of!(InodeHead, flags) == 80);
    assert!(offset_of!(InodeHead, name) == 92);
    assert!(offset_of!(InodeHead, directory_level) == 347);
    assert!(offset_of!(InodeHead, extent) == 348);
    assert!(size_of::<ExtraAttributes>() == 36);
    assert!(offset_of!(ExtraAttributes, checksum) == 8);
    assert!(offset_of!(ExtraAttributes, created) == 12);
    assert!(offset_of!(ExtraAttributes, compressed_blocks) == 24);
    assert!(offset_of!(ExtraAttributes, compression_flags) == 34);
    assert!(words_end(4096) == 4052 && (words_end(4096) - WORDS_OFFSET) / 4 == 923);
    assert!((words_end(16384) - WORDS_OFFSET) / 4 == 3995);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(inline_bits: u8, flags: u32, extra: Option<(u16, u16)>) -> Vec<u8> {
        let mut block = vec![0; 4096];
        let (mut head, _) = InodeHead::read_from_prefix(&block).unwrap();
        head.inline = inline_bits | if extra.is_some() { inline::EXTRA } else { 0 };
        (head.flags, head.mode) = (flags.into(), 0o100_644.into());
        block[..WORDS_OFFSET].copy_from_slice(head.as_bytes());
        if let Some((bytes, words)) = extra {
            let mut attributes = ExtraAttributes::new_zeroed();
            (attributes.bytes, attributes.xattr_words, attributes.log_cluster_pages) = (bytes.into(), words.into(), 2);
            block[WORDS_OFFSET..WORDS_OFFSET + 36].copy_from_slice(attributes.as_bytes());
        }
        block
    }

    /// The table in f2fs.md, "Inode".
    #[test]
    fn shapes_are_those_of_the_table() {
        let geometry = Geometry::for_tests(4096);
        let extra = Features::EXTRA_ATTRIBUTES;
        for (features, block, addresses, inline_bytes) in [
            (Features(0), inode(inline::XATTR, 0, None), 873, 3488),
            (Features(0), inode(inline::DENTRY, 0, None), 873, 3488),
            (Features(0), inode(0, 0, None), 923, 3688),
            (extra, inode(inline::XATTR, 0, Some((36, 0))), 864, 3452),
            (extra, inode(inline::XATTR, 0, Some((24, 9))), 867, 3464),
            (extra.with(Features::FLEXIBLE_INLINE_XATTR), inode(0, 0, Some((36, 10))), 904, 3612),
            (extra.with(Features::COMPRESSION), inode(0, flag::COMPRESSED, Some((36, 0))), 912, 3652),
        ] {
            let shape = inode_shape(&geometry, features, &block).unwrap();
            assert_eq!((shape.count, shape.inline.len()), (addresses, inline_bytes), "{features}");
            assert_eq!(shape.xattrs.end, 4052);
            assert_eq!(shape.inline.start, shape.addresses.start + 4);
        }
    }

    #[test]
    fn impossible_shapes_are_told() {
        let geometry = Geometry::for_tests(4096);
        let all = Features::EXTRA_ATTRIBUTES.with(Features::FLEXIBLE_INLINE_XATTR).with(Features::COMPRESSION);
        for (features, block) in [
            (Features(0), inode(0, 0, Some((36, 0)))),
            (all, inode(0, 0, Some((38, 0)))),
            (all, inode(0, 0, Some((40, 0)))),
            (all, inode(0, 0, Some((0, 0)))),
            (all, inode(0, 0, Some((36, 914)))),
            (all, inode(0, 0, Some((36, 65535)))),
            (all, inode(0, 0, None)),
            (Features(0), vec![0; 4095]),
        ] {
            let told = inode_shape(&geometry, features, &block).unwrap_err();
            assert_eq!(told.kind, FindingKind::Inode, "{told}");
        }
        assert!(inode_shape(&geometry, all, &inode(0, 0, Some((36, 913)))).is_ok());
    }
}
