//! The node types of JFFS2 on flash, in both byte orders.
//!
//! Source of the structures and constants: `linux/jffs2.h` of the Linux UAPI headers; for the
//! ranges of checksums: fs/jffs2/write.c, xattr.c, summary.c. Description of the format:
//! `docs/formats/jffs2.md`.

use crate::Ino;
use nandkit_codec::checksum::crc32_linux;
use zerocopy::byteorder::{BigEndian, LittleEndian, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First two bytes of each node.
pub const MAGIC: u16 = 0x1985;
/// The magic number of JFFS2 before 2001, which is read but never written.
pub const OLD_MAGIC: u16 = 0x1984;
/// Alignment of nodes in bytes.
pub const ALIGNMENT: u32 = 4;
/// The longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 254;
/// Least data bytes of a node when a node is split at a block's end.
pub const MIN_DATA: u32 = 128;
/// File data of one node never cross a multiple of this: Linux's page size.
pub const PAGE_SIZE: u32 = 4096;
/// The inode number of the root directory.
pub const ROOT: Ino = Ino(1);

/// Size of the common header of all nodes, in bytes.
pub const HEADER_SIZE: u32 = 12;
/// Size of an inode node before its data, in bytes.
pub const INODE_SIZE: u32 = 68;
/// Size of a directory entry node before its name, in bytes.
pub const DIRENT_SIZE: u32 = 40;
/// Size of an attribute node before its name and value, in bytes.
pub const XATTR_SIZE: u32 = 32;
/// Size of an attribute reference node, in bytes.
pub const XREF_SIZE: u32 = 28;
/// Size of a summary node before its entries, in bytes.
pub const SUMMARY_SIZE: u32 = 32;
/// Size of the marker at the end of a block with a summary: the offset of the summary node in the
/// block, followed by [`SUMMARY_MAGIC`].
pub const SUMMARY_MARKER_SIZE: u32 = 8;
/// Last four bytes of a block with a summary.
pub const SUMMARY_MAGIC: u32 = 0x0285_1885;

/// Bit of a node type that is cleared on NOR when the node becomes obsolete.
pub const ACCURATE: u16 = 0x2000;
/// The bits of a node type that tell readers how to handle an unknown type.
pub const COMPATIBILITY: u16 = 0xC000;

/// Node types, with [`ACCURATE`] and the compatibility bits.
pub mod node_type {
    /// A directory entry.
    pub const DIRENT: u16 = 0xE001;
    /// An inode, possibly with file data.
    pub const INODE: u16 = 0xE002;
    /// Marks an erased block that is ready for use.
    pub const CLEANMARKER: u16 = 0x2003;
    /// Padding without content.
    pub const PADDING: u16 = 0x2004;
    /// The list of nodes in this block.
    pub const SUMMARY: u16 = 0x2006;
    /// Name and value of an extended attribute.
    pub const XATTR: u16 = 0xE008;
    /// A reference of an inode to an attribute.
    pub const XREF: u16 = 0xE009;
}

/// How a reader handles an unknown node type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// The image must not be mounted.
    Incompatible,
    /// The image may only be mounted read-only.
    ReadOnly,
    /// The collector copies the node.
    Copy,
    /// The collector drops the node.
    Delete,
}

impl Compatibility {
    /// Decodes the compatibility bits of a node type.
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

/// Rounds a length up to the start of the next node; saturates.
#[inline]
pub const fn padded(length: u32) -> u32 {
    match length.checked_next_multiple_of(ALIGNMENT) {
        Some(length) => length,
        None => u32::MAX - 3,
    }
}

/// Defines a structure: its bytes on flash in either order, its values in memory, and the
/// conversions.
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
            /// Decodes the structure from its first bytes; `None` if there are too few.
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

            /// Encodes the structure as on flash.
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
    /// The header of all nodes.
    Header, RawHeader, HEADER_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// See [`node_type`].
        node_type: u16,
        /// Length of the whole node in bytes, without padding.
        total_length: u32,
        /// CRC of the eight bytes before it, as they were when the node was written.
        header_crc: u32,
    }
);

on_flash!(
    /// An inode's attributes, possibly with a piece of its content.
    Inode, RawInode, INODE_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::INODE`].
        node_type: u16,
        /// Length of the node with its data, in bytes.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// Inode number.
        inode: ino,
        /// Increases with each node of the inode: the highest one counts.
        version: u32,
        /// Type and permissions as in `st_mode`.
        mode: u32,
        /// Owner.
        uid: u16,
        /// Group.
        gid: u16,
        /// Size of the file after this node, which may also truncate it.
        file_size: u32,
        /// Last access, seconds since 1970.
        accessed: u32,
        /// Last change of content, seconds since 1970.
        modified: u32,
        /// Last change of attributes, seconds since 1970.
        changed: u32,
        /// File offset of the data.
        offset: u32,
        /// Bytes of data in the node.
        compressed_size: u32,
        /// Length of the uncompressed data in bytes.
        data_size: u32,
        /// The compression method: see [`compression`].
        compression: u8,
        /// The compression that the user asked for.
        user_compression: u8,
        /// Flags for readers; unused by Linux.
        flags: u16,
        /// CRC of the data as stored in the node.
        data_crc: u32,
        /// CRC of everything before `data_crc`.
        node_crc: u32,
    }
);

impl Inode {
    /// Number of file bytes in the node. Some old kernels wrote holes with the two sizes swapped
    /// (fs/jffs2/readinode.c, `read_dnode`).
    pub const fn span(&self) -> u32 {
        if self.compression == compression::ZERO && self.data_size == 0 { self.compressed_size } else { self.data_size }
    }
}

on_flash!(
    /// A name in a directory; the name follows.
    Dirent, RawDirent, DIRENT_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::DIRENT`].
        node_type: u16,
        /// Length of the node with its name, in bytes.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// The directory.
        parent: ino,
        /// Increases with each node of the directory (including its inode nodes).
        version: u32,
        /// The inode with this name; 0 for a deletion.
        inode: ino,
        /// When the name was created, in seconds since 1970.
        made: u32,
        /// Length of the name in bytes.
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
    /// Name and value of an extended attribute, which follow, separated by a NUL.
    Xattr, RawXattr, XATTR_SIZE, {
        /// [`MAGIC`].
        magic: u16,
        /// [`node_type::XATTR`].
        node_type: u16,
        /// Length of the node with name and value, in bytes.
        total_length: u32,
        /// As in [`Header`].
        header_crc: u32,
        /// The attribute's number, which several inodes may share.
        id: u32,
        /// Increases with each node of the attribute.
        version: u32,
        /// The prefix of the name: see [`xattr_prefix`].
        prefix: u8,
        /// Length of the name after the prefix, in bytes.
        name_length: u8,
        /// Length of the value in bytes.
        value_length: u16,
        /// CRC of name, NUL and value.
        data_crc: u32,
        /// CRC of everything before it.
        node_crc: u32,
    }
);

on_flash!(
    /// A reference of an inode to an extended attribute.
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
        /// Increases over the whole volume; an odd number deletes the reference.
        sequence: u32,
        /// CRC of everything before it.
        node_crc: u32,
    }
);

on_flash!(
    /// The summary of a block. Its entries follow, then padding up to the marker at the block's
    /// end.
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
        /// Length of the cleanmarker at the block's beginning; 0 for none.
        cleanmarker: u32,
        /// Length of padding nodes in the block, in bytes.
        padded: u32,
        /// CRC of everything after the node's fixed part.
        summary_crc: u32,
        /// CRC of everything before `summary_crc`.
        node_crc: u32,
    }
);

/// Compression methods of a node's data.
pub mod compression {
    use nandkit_codec::compression::Compression;

    /// Uncompressed.
    pub const NONE: u8 = 0;
    /// All zeroes: the node contains no data.
    pub const ZERO: u8 = 1;
    /// Copies from the position after each byte's last occurrence.
    pub const RTIME: u8 = 2;
    /// Named after arithmetic coding with fixed frequencies, but Linux writes and reads it with
    /// frequencies in the node. Read only.
    pub const RUBIN_MIPS: u8 = 3;
    /// Never written.
    pub const COPY: u8 = 4;
    /// Named after arithmetic coding with frequencies in the node, but Linux writes and reads it
    /// with fixed ones. Read only.
    pub const DYNAMIC_RUBIN: u8 = 5;
    /// A zlib stream (RFC 1950).
    pub const ZLIB: u8 = 6;
    /// LZO1X.
    pub const LZO: u8 = 7;
    /// Raw LZMA with `lc = lp = pb = 0`, dictionary 0x2000, no header, as in OpenWrt's patch. Read
    /// only.
    pub const LZMA: u8 = 8;
    /// LZMA after a five-byte header with properties and dictionary, as other vendors use it. Read
    /// only.
    pub const LZMA_WITH_HEADER: u8 = 0x15;

    /// The number of a method in nodes. The two kinds of rubin are swapped: see [`RUBIN_MIPS`].
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

/// Prefixes of extended attribute names.
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

/// The CRC of JFFS2: register 0 at the start, not inverted at the end.
#[inline]
pub fn crc(bytes: &[u8]) -> u32 {
    crc32_linux(0, bytes)
}

/// The fault of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// The magic number is wrong.
    Magic(u16),
    /// The checksum is wrong.
    Crc,
    /// The length is less than that of a header.
    Length(u32),
}

impl Header {
    /// Makes a header with its checksum.
    pub fn new(order: ByteOrder, node_type: u16, total_length: u32) -> Self {
        let mut header = Self { magic: MAGIC, node_type, total_length, header_crc: 0 };
        header.header_crc = header.crc(order);
        header
    }

    /// The checksum as of writing, when [`ACCURATE`] was set.
    fn crc(&self, order: ByteOrder) -> u32 {
        let written = Self { node_type: self.node_type | ACCURATE, ..*self };
        crc(&written.encode(order)[..8])
    }

    /// Checks the magic number (either one), the checksum, and the least length.
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

    /// Whether the node was marked obsolete in place, which NOR allows.
    pub const fn is_obsolete(&self) -> bool {
        self.node_type & ACCURATE == 0
    }
}

/// The length covered by the checksum of each node's fixed part.
pub mod covered {
    /// In an inode node: up to `data_crc`.
    pub const INODE: usize = 60;
    /// In a directory entry: up to `node_crc`.
    pub const DIRENT: usize = 32;
    /// In an attribute: up to `node_crc`.
    pub const XATTR: usize = 28;
    /// In a reference: up to `node_crc`.
    pub const XREF: usize = 24;
    /// In a summary: up to `summary_crc`.
    pub const SUMMARY: usize = 24;
}

/// Largest file in bytes: Linux sets no limit of its own for JFFS2, which leaves that of system
/// calls without large files.
pub(crate) const FILE_SIZE_MAX: u32 = u32::MAX >> 1;

/// File types: the bits of a mode above the permissions.
pub(crate) mod format {
    /// The mask of the type bits.
    pub(crate) const MASK: u32 = 0o170_000;
    pub(crate) const CHARACTER: u32 = 0o020_000;
    pub(crate) const DIRECTORY: u32 = 0o040_000;
    pub(crate) const BLOCK: u32 = 0o060_000;
    pub(crate) const REGULAR: u32 = 0o100_000;
    pub(crate) const SYMLINK: u32 = 0o120_000;
}

/// Whether a directory of this format can contain a name.
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
        // The first twelve bytes of each block in mkfs.jffs2 images for NOR flash.
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
