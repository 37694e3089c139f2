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

/// Where an inode's words of addresses begin (`i_addr`); extra attributes take the first of them.
pub const WORDS_OFFSET: usize = 360;
/// Nids of an inode: two direct nodes, two indirect, one double indirect.
pub const NIDS: usize = 5;
/// Words of inline attributes, unless the inode says its own number.
pub const DEFAULT_XATTR_WORDS: u16 = 50;
/// Bytes of all extra attributes.
pub const EXTRA_BYTES_MAX: u16 = size_of::<ExtraAttributes>() as u16;

/// Bits of `inline`.
pub mod inline {
    /// Attributes in the inode.
    pub const XATTR: u8 = 0x01;
    /// Content in the inode.
    pub const DATA: u8 = 0x02;
    /// Entries in the inode.
    pub const DENTRY: u8 = 0x04;
    /// With [`DATA`]: there is content.
    pub const DATA_EXISTS: u8 = 0x08;
    /// `.` and `..` are missing.
    pub const DOTS: u8 = 0x10;
    /// Extra attributes.
    pub const EXTRA: u8 = 0x20;
    /// Never moved, written in place.
    pub const PINNED: u8 = 0x40;
    /// Reserved blocks of clusters were given back.
    pub const COMPRESS_RELEASED: u8 = 0x80;
}

/// Bits of `advise`.
pub mod advise {
    /// Cold by extension.
    pub const COLD: u8 = 0x01;
    /// `parent` and the name may be wrong.
    pub const LOST_PARENT: u8 = 0x02;
    /// Encrypted.
    pub const ENCRYPTED: u8 = 0x04;
    /// The name is encrypted.
    pub const ENCRYPTED_NAME: u8 = 0x08;
    /// Blocks behind the size, by fallocate.
    pub const KEEP_SIZE: u8 = 0x10;
    /// Hot by extension.
    pub const HOT: u8 = 0x20;
    /// Verity.
    pub const VERITY: u8 = 0x40;
    /// Truncate to the size at the next open.
    pub const TRUNCATE: u8 = 0x80;
}

/// Bits of `flags`: those of chattr(1) that change what a reader does.
pub mod flag {
    /// Compressed file, or directory whose new files are.
    pub const COMPRESSED: u32 = 0x4;
    /// Writes reach the device at once.
    pub const SYNC: u32 = 0x8;
    /// Immutable.
    pub const IMMUTABLE: u32 = 0x10;
    /// Not for dump(8).
    pub const NO_DUMP: u32 = 0x40;
    /// Times of reading stay.
    pub const NO_ACCESS_TIME: u32 = 0x80;
    /// Linux sets it on every directory that it makes.
    pub const INDEX: u32 = 0x1000;
    /// Changes of the directory reach the device at once.
    pub const DIRECTORY_SYNC: u32 = 0x1_0000;
    /// What is made in the directory gets its project.
    pub const PROJECT_INHERIT: u32 = 0x2000_0000;
    /// Names are compared without case.
    pub const CASEFOLD: u32 = 0x4000_0000;
    /// Stands for a device: only the extent, no addresses.
    pub const DEVICE_ALIAS: u32 = 0x8000_0000;
}

/// The largest extent of a file: a hint that must be right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Extent {
    /// First page of the file.
    pub page: U32,
    /// Its address.
    pub address: U32,
    /// Pages; 0: none.
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
    /// Names; of a directory 2 and its directories.
    pub links: U32,
    /// Bytes.
    pub size: U64,
    /// Blocks with all its nodes and reserved ones; at least 1.
    pub blocks: U64,
    /// Last read, seconds.
    pub accessed: U64,
    /// Last change of content or attributes, seconds.
    pub changed: U64,
    /// Last change of content, seconds.
    pub modified: U64,
    /// Nanoseconds of the last read.
    pub accessed_ns: U32,
    /// Nanoseconds of the last change of content or attributes.
    pub changed_ns: U32,
    /// Nanoseconds of the last change of content.
    pub modified_ns: U32,
    /// A random number; part of the checksum.
    pub generation: U32,
    /// Of a directory: its levels. Of a file: failures of the collector in the low half.
    pub depth: U32,
    /// Node of extended attributes.
    pub xattr_nid: U32,
    /// Bits of [`flag`].
    pub flags: U32,
    /// The directory at the last create, link or rename to a new name.
    pub parent: U32,
    /// Bytes of the name.
    pub name_length: U32,
    /// The name then.
    pub name: [u8; NAME_MAX],
    /// Of a directory: levels begin with so many buckets, as a power of two.
    pub directory_level: u8,
    /// Largest extent.
    pub extent: Extent,
}

/// Extra attributes: the first words of `i_addr`, as many bytes as the first field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExtraAttributes {
    /// Bytes of the extra attributes, this field included: a multiple of 4.
    pub bytes: U16,
    /// Words of inline attributes; counts with FLEXIBLE_INLINE_XATTR only.
    pub xattr_words: U16,
    /// Project.
    pub project_id: U32,
    /// Of the inode's block, with these bytes as zero.
    pub checksum: U32,
    /// Time of creation, seconds.
    pub created: U64,
    /// Its nanoseconds.
    pub created_ns: U32,
    /// Blocks that compression saved.
    pub compressed_blocks: U64,
    /// 0 LZO, 1 LZ4, 2 zstd, 3 LZO-RLE.
    pub compression: u8,
    /// Pages of a cluster as a power of two.
    pub log_cluster_pages: u8,
    /// Bit 0: clusters have checksums; bits 8 to 15: level.
    pub compression_flags: U16,
}

impl InodeHead {
    /// Of an inode's block; `None` where it is too short.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block).ok().map(|(head, _)| head)
    }

    /// Where it stands in an inode's block; `None` where that is too short.
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

    /// The kind that the mode tells; `None` for bits of no kind.
    pub fn file_kind(&self) -> Option<FileKind> {
        FileKind::of_mode(self.mode.get().into())
    }

    /// Whether content is in clusters: of files only, directories merely hand the flag on.
    pub fn is_compressed(&self, extra: &ExtraAttributes, features: Features) -> bool {
        self.has_flag(flag::COMPRESSED)
            && self.file_kind() == Some(FileKind::Regular)
            && extra.has_compression(features)
    }

    /// The name of its last creation; `None` where the length is impossible.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.get(..usize::try_from(self.name_length.get()).ok()?)
    }
}

impl ExtraAttributes {
    /// Those of an inode's block that fit into what it says; the rest zero. `None` where the inode
    /// has none, or the block is too short.
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

    /// Whether a field that ends at byte `end` of the extra attributes is there, as far as room
    /// tells.
    fn holds(&self, end: usize) -> bool {
        usize::from(self.bytes.get()) >= end
    }

    /// The project, where feature and room are there.
    pub fn project_id(&self, features: Features) -> Option<u32> {
        (features.has(Features::PROJECT_QUOTA) && self.holds(8)).then(|| self.project_id.get())
    }

    /// The checksum, where feature and room are there.
    pub fn checksum(&self, features: Features) -> Option<u32> {
        (features.has(Features::INODE_CHECKSUM) && self.holds(12)).then(|| self.checksum.get())
    }

    /// Seconds and nanoseconds of the time of creation, where feature and room are there.
    pub fn created(&self, features: Features) -> Option<(u64, u32)> {
        (features.has(Features::CREATION_TIME) && self.holds(24)).then(|| (self.created.get(), self.created_ns.get()))
    }

    /// Whether the fields of compression are there.
    pub fn has_compression(&self, features: Features) -> bool {
        features.has(Features::COMPRESSION) && self.holds(36)
    }
}

/// Where the parts of one inode lie within its block, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeShape {
    /// Addresses, from that of the first page on.
    pub addresses: Range<usize>,
    /// Inline data or inline entries.
    pub inline: Range<usize>,
    /// Inline attributes; empty where there are none.
    pub xattrs: Range<usize>,
    /// Addresses in use: in compressed files whole clusters only.
    pub count: u16,
}

/// Bytes of the words of addresses, extra and inline attributes.
const fn words_end(block_size: usize) -> usize {
    block_size - FOOTER_BYTES - NIDS * 4
}

/// Where an inode's nids stand within its block.
pub const fn nids_offset(block_size: usize) -> usize {
    words_end(block_size)
}

/// The shape of an inode: one answer for every combination of extra attributes, inline attributes
/// and compression.
///
/// Errors: extra or inline attributes that do not fit, or a cluster size that is impossible: an
/// [`FindingKind::Inode`].
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
            return Err(wrong("no extra attributes, which flexible_inline_xattr asks of every inode".into()));
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

/// Pages of a cluster: 4 to 256 (compress.c; f2fs.md, "Compressed files"). A file that is not
/// compressed has none, and 0 in the field.
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

/// The checksum that an inode's block should have, its own field counted as zero. `None` where the
/// block is too short.
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

    /// The table of f2fs.md, "Inode".
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
