//! Every node type of JFFS2 as it stands on the flash, in both byte orders.
//!
//! Source of the structures and constants: `linux/jffs2.h` of the Linux UAPI headers; of what the
//! checksums cover: fs/jffs2/write.c, xattr.c, summary.c. All facts in words:
//! `docs/formats/jffs2.md`.

use crate::Ino;
use nandkit_codec::checksum::crc32_linux;
use zerocopy::byteorder::{BigEndian, LittleEndian, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First two bytes of each node.
pub const MAGIC: u16 = 0x1985;
/// JFFS2 of before 2001, which is read and never written.
pub const OLD_MAGIC: u16 = 0x1984;
/// Nodes begin on multiples of this many bytes.
pub const ALIGNMENT: u32 = 4;
/// The longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 254;
/// Data bytes of a node at the least where a node is split at a block's end.
pub const MIN_DATA: u32 = 128;
/// File data of one node never cross a multiple of this: Linux's page.
pub const PAGE_SIZE: u32 = 4096;
/// The inode number of the root directory.
pub const ROOT: Ino = Ino(1);

/// Bytes of the header that all nodes share.
pub const HEADER_SIZE: u32 = 12;
/// Bytes of an inode node before its data.
pub const INODE_SIZE: u32 = 68;
/// Bytes of a directory entry node before its name.
pub const DIRENT_SIZE: u32 = 40;
/// Bytes of an attribute node before its name and value.
pub const XATTR_SIZE: u32 = 32;
/// Bytes of an attribute reference node.
pub const XREF_SIZE: u32 = 28;
/// Bytes of a summary node before its entries.
pub const SUMMARY_SIZE: u32 = 32;
/// Last eight bytes of a block with a summary: offset of the summary node in the block, and
/// [`SUMMARY_MAGIC`].
pub const SUMMARY_MARKER_SIZE: u32 = 8;
/// Last four bytes of a block with a summary.
pub const SUMMARY_MAGIC: u32 = 0x0285_1885;

/// Bit of a node type: cleared on NOR when the node became obsolete.
pub const ACCURATE: u16 = 0x2000;
/// The bits of a node type that say what a reader does who does not know it.
pub const COMPATIBILITY: u16 = 0xC000;

/// Node types, with [`ACCURATE`] and the compatibility bits.
pub mod node_type {
    /// A directory entry.
    pub const DIRENT: u16 = 0xE001;
    /// An inode, and data of a file.
    pub const INODE: u16 = 0xE002;
    /// An erased block, ready for use.
    pub const CLEANMARKER: u16 = 0x2003;
    /// Nothing.
    pub const PADDING: u16 = 0x2004;
    /// What is in this block.
    pub const SUMMARY: u16 = 0x2006;
    /// Name and value of an extended attribute.
    pub const XATTR: u16 = 0xE008;
    /// An inode has an attribute.
    pub const XREF: u16 = 0xE009;
}

/// What a reader does with a node type that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// The image must not be mounted.
    Incompatible,
    /// The image may be mounted for reading only.
    ReadOnly,
    /// The collector copies the node.
    Copy,
    /// The collector drops the node.
    Delete,
}

impl Compatibility {
    /// From a node's type.
    pub const fn of(node_type: u16) -> Self {
        match node_type & COMPATIBILITY {
            0xC000 => Self::Incompatible,
            0x8000 => Self::ReadOnly,
            0x4000 => Self::Copy,
            _ => Self::Delete,
        }
    }
}

pub use nandkit_units::ByteOrder;

/// A length rounded up to where the next node begins; saturates.
#[inline]
pub const fn padded(length: u32) -> u32 {
    match length.checked_next_multiple_of(ALIGNMENT) {
        Some(length) => length,
        None => u32::MAX - 3,
    }
}

/// Makes, for one structure: the bytes on the flash in either order, the values in memory, and both
/// ways between them.
macro_rules! on_flash {
    ($(#[$outer:meta])* $name:ident, $raw:ident, $size:expr, { $($(#[$inner:meta])* $field:ident : $kind:ident),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$inner])* pub $field: on_flash!(@value $kind)),* }

        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        struct $raw<O: zerocopy::byteorder::ByteOrder> { $($field: on_flash!(@raw $kind O)),* }

        const _: () = assert!(size_of::<$raw<LittleEndian>>() == $size as usize);

        impl $name {
            /// From the first bytes; `None` where there are too few.
            pub fn decode(order: ByteOrder, bytes: &[u8]) -> Option<Self> {
                fn values<O: zerocopy::byteorder::ByteOrder>(bytes: &[u8]) -> Option<$name> {
                    let (raw, _) = $raw::<O>::ref_from_prefix(bytes).ok()?;
                    Some($name { $($field: on_flash!(@get $kind raw.$field)),* })
                }
                match order {
                    ByteOrder::Little => values::<LittleEndian>(bytes),
                    ByteOrder::Big => values::<BigEndian>(bytes),
                }
            }

            /// As on the flash.
            pub fn encode(&self, order: ByteOrder) -> [u8; $size as usize] {
                let mut bytes = [0; $size as usize];
                fn raw<O: zerocopy::byteorder::ByteOrder>(value: &$name) -> $raw<O> {
                    $raw { $($field: on_flash!(@set $kind value.$field)),* }
                }
                match order {
                    ByteOrder::Little => bytes.copy_from_slice(raw::<LittleEndian>(self).as_bytes()),
                    ByteOrder::Big => bytes.copy_from_slice(raw::<BigEndian>(self).as_bytes()),
                }
                bytes
            }
        }
    };
    (@value u8) => { u8 };
    (@value u16) => { u16 };
    (@value u32) => { u32 };
    (@value ino) => { Ino };
    (@value pair) => { [u8; 2] };
    (@raw u8 $o:ident) => { u8 };
    (@raw u16 $o:ident) => { U16<$o> };
    (@raw u32 $o:ident) => { U32<$o> };
    (@raw ino $o:ident) => { U32<$o> };
    (@raw pair $o:ident) => { [u8; 2] };
    (@get u8 $e:expr) => { $e };
    (@get pair $e:expr) => { $e };
    (@get ino $e:expr) => { Ino($e.get()) };
    (@get u16 $e:expr) => { $e.get() };
    (@get u32 $e:expr) => { $e.get() };
    (@set u8 $e:expr) => { $e };
    (@set pair $e:expr) => { $e };
    (@set ino $e:expr) => { U32::new($e.0) };
    (@set u16 $e:expr) => { U16::new($e) };
    (@set u32 $e:expr) => { U32::new($e) };
}

on_flash!(
    /// What all nodes begin with.
    Header, RawHeader, HEADER_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// See [`node_type`].
        node_type: u16,
        /// Bytes of the whole node, without the padding behind it.
        total_length: u32,
        /// CRC of the eight bytes before it, as they were when the node was written.
        header_crc: u32,
    }
);

on_flash!(
    /// An inode's attributes, and perhaps a piece of its content.
    Inode, RawInode, INODE_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::INODE`].
        node_type: u16,
        /// Bytes of the node with its data.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// Inode number.
        inode: ino,
        /// Counts up with each node of the inode: the highest wins.
        version: u32,
        /// Type and permissions as in `st_mode`.
        mode: u32,
        /// Owner.
        uid: u16,
        /// Group.
        gid: u16,
        /// Bytes of the file after this node: it makes files shorter, too.
        file_size: u32,
        /// Last access, seconds since 1970.
        accessed: u32,
        /// Last change of content, seconds since 1970.
        modified: u32,
        /// Last change of attributes, seconds since 1970.
        changed: u32,
        /// First byte of the file that the data are for.
        offset: u32,
        /// Bytes of data in the node.
        compressed_size: u32,
        /// Bytes of the file that they stand for.
        data_size: u32,
        /// How they are compressed: see [`compression`].
        compression: u8,
        /// The compression that the user asked for.
        user_compression: u8,
        /// Flags for readers; unused by Linux.
        flags: u16,
        /// CRC of the data as they stand in the node.
        data_crc: u32,
        /// CRC of everything before `data_crc`.
        node_crc: u32,
    }
);

impl Inode {
    /// Bytes of the file that the node stands for. Some old kernels wrote holes with both sizes
    /// swapped (fs/jffs2/readinode.c, `read_dnode`).
    pub const fn span(&self) -> u32 {
        if self.compression == compression::ZERO && self.data_size == 0 { self.compressed_size } else { self.data_size }
    }
}

on_flash!(
    /// A name in a directory. The name follows.
    Dirent, RawDirent, DIRENT_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::DIRENT`].
        node_type: u16,
        /// Bytes of the node with its name.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// The directory.
        parent: ino,
        /// Counts up with each node of the directory (its inode nodes included).
        version: u32,
        /// The inode that is so called; 0: none any more.
        inode: ino,
        /// When the name was made, seconds since 1970.
        made: u32,
        /// Bytes of the name.
        name_length: u8,
        /// Type of the inode: `st_mode >> 12`.
        kind: u8,
        /// Zero.
        unused: pair,
        /// CRC of everything before it.
        node_crc: u32,
        /// CRC of the name.
        name_crc: u32,
    }
);

on_flash!(
    /// Name and value of an extended attribute; name, NUL and value follow.
    Xattr, RawXattr, XATTR_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::XATTR`].
        node_type: u16,
        /// Bytes of the node with name and value.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// The attribute's number: several inodes may have it.
        id: u32,
        /// Counts up with each node of the attribute.
        version: u32,
        /// What the name begins with: see [`xattr_prefix`].
        prefix: u8,
        /// Bytes of the name behind the prefix.
        name_length: u8,
        /// Bytes of the value.
        value_length: u16,
        /// CRC of name, NUL and value.
        data_crc: u32,
        /// CRC of everything before it.
        node_crc: u32,
    }
);

on_flash!(
    /// An inode has an extended attribute.
    Xref, RawXref, XREF_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::XREF`].
        node_type: u16,
        /// [`XREF_SIZE`].
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// The inode.
        inode: ino,
        /// The attribute.
        id: u32,
        /// Counts up over the whole volume; odd: the inode has it no more.
        sequence: u32,
        /// CRC of everything before it.
        node_crc: u32,
    }
);

on_flash!(
    /// What is in a block. Its entries follow, then padding up to the marker at the block's end.
    Summary, RawSummary, SUMMARY_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::SUMMARY`].
        node_type: u16,
        /// Bytes up to the block's end.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// Number of entries.
        entries: u32,
        /// Bytes of the cleanmarker at the block's beginning; 0 for none.
        cleanmarker: u32,
        /// Bytes of padding nodes in the block.
        padded: u32,
        /// CRC of all that follows the node's fixed part.
        summary_crc: u32,
        /// CRC of everything before `summary_crc`.
        node_crc: u32,
    }
);

/// How a node's data are compressed.
pub mod compression {
    use nandkit_codec::compression::Compression;

    /// Not at all.
    pub const NONE: u8 = 0;
    /// All zeroes: no data stand in the node.
    pub const ZERO: u8 = 1;
    /// Runs by the position of each byte's last occurrence.
    pub const RTIME: u8 = 2;
    /// By its name arithmetic coding with fixed frequencies; Linux writes and reads it with
    /// frequencies in the node. Read only.
    pub const RUBIN_MIPS: u8 = 3;
    /// Never written.
    pub const COPY: u8 = 4;
    /// By its name arithmetic coding with frequencies in the node; Linux writes and reads it with
    /// fixed ones. Read only.
    pub const DYNAMIC_RUBIN: u8 = 5;
    /// RFC 1950.
    pub const ZLIB: u8 = 6;
    /// LZO1X.
    pub const LZO: u8 = 7;
    /// Raw LZMA, `lc = lp = pb = 0`, dictionary 0x2000, no header: OpenWrt's patch. Read only.
    pub const LZMA: u8 = 8;
    /// LZMA behind five bytes of header, properties and dictionary: other vendors. Read only.
    pub const LZMA_WITH_HEADER: u8 = 0x15;

    /// The number by which a node names a method. The two kinds of rubin have each other's: see
    /// [`RUBIN_MIPS`].
    pub const fn number_of(method: Compression) -> u8 {
        match method {
            Compression::Zero => ZERO,
            Compression::Rtime => RTIME,
            Compression::DynRubin => RUBIN_MIPS,
            Compression::RubinMips => DYNAMIC_RUBIN,
            Compression::Zlib => ZLIB,
            Compression::Lzo => LZO,
            _ => NONE,
        }
    }
}

/// Prefixes of the names of extended attributes.
pub mod xattr_prefix {
    /// `user.`
    pub const USER: u8 = 1;
    /// `security.`
    pub const SECURITY: u8 = 2;
    /// `system.posix_acl_access`
    pub const ACL_ACCESS: u8 = 3;
    /// `system.posix_acl_default`
    pub const ACL_DEFAULT: u8 = 4;
    /// `trusted.`
    pub const TRUSTED: u8 = 5;
}

/// CRC of bytes as JFFS2 takes it: register 0 at the start, not inverted at the end.
#[inline]
pub fn crc(bytes: &[u8]) -> u32 {
    crc32_linux(0, bytes)
}

/// What is wrong with a header, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// The magic number is another one.
    Magic(u16),
    /// The checksum does not fit.
    Crc,
    /// The node would be shorter than its header.
    Length(u32),
}

impl Header {
    /// A header with its checksum.
    pub fn new(order: ByteOrder, node_type: u16, total_length: u32) -> Self {
        let mut header = Self { magic: MAGIC, node_type, total_length, header_crc: 0 };
        header.header_crc = header.crc(order);
        header
    }

    /// The checksum as it was when the node was written: with [`ACCURATE`] set.
    fn crc(&self, order: ByteOrder) -> u32 {
        let written = Self { node_type: self.node_type | ACCURATE, ..*self };
        crc(&written.encode(order)[..8])
    }

    /// Checks magic number (either one), checksum and least length.
    pub fn check(&self, order: ByteOrder) -> Result<(), HeaderFault> {
        if !matches!(self.magic, MAGIC | OLD_MAGIC) {
            Err(HeaderFault::Magic(self.magic))
        } else if self.header_crc != self.crc(order) {
            Err(HeaderFault::Crc)
        } else if self.total_length < HEADER_SIZE {
            Err(HeaderFault::Length(self.total_length))
        } else {
            Ok(())
        }
    }

    /// Whether the node was marked obsolete in place, as NOR allows.
    pub const fn is_obsolete(&self) -> bool {
        self.node_type & ACCURATE == 0
    }
}

/// Where the checksum of the fixed part stops: the first byte that it does not cover.
pub mod covered {
    /// Of an inode node: before `data_crc`.
    pub const INODE: usize = 60;
    /// Of a directory entry: before `node_crc`.
    pub const DIRENT: usize = 32;
    /// Of an attribute: before `node_crc`.
    pub const XATTR: usize = 28;
    /// Of a reference: before `node_crc`.
    pub const XREF: usize = 24;
    /// Of a summary: before `summary_crc`.
    pub const SUMMARY: usize = 24;
}

/// Bytes of the largest file: Linux sets no limit of its own for JFFS2, which leaves that of system
/// calls without large files.
pub(crate) const FILE_SIZE_MAX: u32 = u32::MAX >> 1;

/// File types, the bits of a mode above the permissions.
pub(crate) mod format {
    /// The bits of a type.
    pub(crate) const MASK: u32 = 0o170_000;
    pub(crate) const CHARACTER: u32 = 0o020_000;
    pub(crate) const DIRECTORY: u32 = 0o040_000;
    pub(crate) const BLOCK: u32 = 0o060_000;
    pub(crate) const REGULAR: u32 = 0o100_000;
    pub(crate) const SYMLINK: u32 = 0o120_000;
}

/// Whether a name can stand in a directory of this format.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name != b"."
        && name != b".."
        && !name.contains(&b'/')
        && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleanmarker_is_what_every_tool_writes() {
        // The first twelve bytes of each block of any mkfs.jffs2 image for NOR flash.
        let little = Header::new(ByteOrder::Little, node_type::CLEANMARKER, 12).encode(ByteOrder::Little);
        assert_eq!(little, [0x85, 0x19, 0x03, 0x20, 0x0C, 0, 0, 0, 0xB1, 0xB0, 0x1E, 0xE4]);
        let big = Header::new(ByteOrder::Big, node_type::CLEANMARKER, 12);
        let bytes = big.encode(ByteOrder::Big);
        assert_eq!(&bytes[..8], [0x19, 0x85, 0x20, 0x03, 0, 0, 0, 0x0C]);
        assert_eq!(Header::decode(ByteOrder::Big, &bytes), Some(big));
        assert_eq!(big.check(ByteOrder::Big), Ok(()));
    }

    #[test]
    fn an_obsolete_node_keeps_its_checksum() {
        let header = Header::new(ByteOrder::Little, node_type::INODE, 68);
        let obsolete = Header { node_type: header.node_type & !ACCURATE, ..header };
        assert!(obsolete.is_obsolete() && !header.is_obsolete());
        assert_eq!(obsolete.check(ByteOrder::Little), Ok(()));
        assert_eq!(Header { total_length: 72, ..header }.check(ByteOrder::Little), Err(HeaderFault::Crc));
    }

    #[test]
    fn both_orders_hold_the_same() {
        for order in ByteOrder::ALL {
            let inode = Inode {
                inode: Ino(7),
                version: 3,
                mode: 0o100_644,
                uid: 1000,
                file_size: 9,
                data_crc: 5,
                ..Inode::default()
            };
            assert_eq!(Inode::decode(order, &inode.encode(order)), Some(inode));
            assert_eq!(Inode::decode(order, &inode.encode(order)[..67]), None);
            let dirent =
                Dirent { parent: Ino(1), inode: Ino(7), name_length: 3, kind: 8, unused: [1, 2], ..Dirent::default() };
            assert_eq!(Dirent::decode(order, &dirent.encode(order)), Some(dirent));
        }
    }

    #[test]
    fn lengths_are_rounded_up_to_the_next_node() {
        assert_eq!([0, 1, 4, 5, 68, 71, u32::MAX].map(padded), [0, 4, 4, 8, 68, 72, u32::MAX - 3]);
    }
}
