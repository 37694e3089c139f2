//! The nodes of UBIFS on flash. All numbers are little-endian.
//!
//! Source of structures and constants: Linux `fs/ubifs/ubifs-media.h`; keys and hashes:
//! `fs/ubifs/key.h`. Description of the format: `docs/formats/ubifs.md`.

use std::fmt;

use nandkit_codec::checksum::crc32_linux;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First four bytes of a node.
pub const MAGIC: u32 = 0x0610_1831;
/// Bytes of the header of all nodes.
pub const HEADER_SIZE: usize = 24;
/// Nodes begin at multiples of this.
pub const ALIGNMENT: u32 = 8;
/// Bytes of file data per data node.
pub const BLOCK_SIZE: u32 = 4096;
/// Bytes of a key in an index node.
pub const KEY_SIZE: usize = 8;
/// Largest inode data: targets of links, values of attributes, device numbers.
pub const INLINE_MAX: usize = BLOCK_SIZE as usize;
/// The inode number of the root directory.
pub const ROOT: u32 = 1;
/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// The LEB of the superblock.
pub const SUPERBLOCK_LEB: u32 = 0;
/// The two LEBs of master nodes.
pub const MASTER_LEBS: [u32; 2] = [1, 2];
/// The first LEB of the log.
pub const LOG_LEB: u32 = 3;
/// The journal head to which the garbage collector moves nodes.
pub const COLLECTOR_HEAD: u32 = 0;
/// The newest format that is known.
pub const FORMAT_MAX: u32 = 5;
/// The newest format that is known for reading: a newer one may be read if this is enough for it
/// (`UBIFS_RO_COMPAT_VERSION`).
pub const READ_ONLY_FORMAT_MAX: u32 = 0;

/// Node types.
pub mod node_type {
    /// An inode.
    pub const INODE: u8 = 0;
    /// File data.
    pub const DATA: u8 = 1;
    /// A directory entry.
    pub const DENTRY: u8 = 2;
    /// An entry of an extended attribute.
    pub const XENTRY: u8 = 3;
    /// A truncation.
    pub const TRUNCATION: u8 = 4;
    /// Padding.
    pub const PADDING: u8 = 5;
    /// The superblock.
    pub const SUPERBLOCK: u8 = 6;
    /// A master node.
    pub const MASTER: u8 = 7;
    /// A reference to a bud, in the log.
    pub const REFERENCE: u8 = 8;
    /// An index node.
    pub const INDEX: u8 = 9;
    /// The start of a commit, in the log.
    pub const COMMIT_START: u8 = 10;
    /// Inodes without a name.
    pub const ORPHANS: u8 = 11;
}

/// The longest node of a type, in bytes, by its largest content; `None` for those that a LEB alone
/// bounds.
pub const fn length_max(node_type: u8) -> Option<u32> {
    match node_type {
        node_type::INODE => Some((HEADER_SIZE + size_of::<Inode>() + INLINE_MAX) as u32),
        node_type::DATA => Some((HEADER_SIZE + size_of::<Data>()) as u32 + BLOCK_SIZE),
        // A zero ends the name.
        node_type::DENTRY | node_type::XENTRY => Some((HEADER_SIZE + size_of::<Dentry>() + NAME_MAX + 1) as u32),
        _ => None,
    }
}

/// Compressions of data.
pub mod compression {
    /// Not compressed.
    pub const NONE: u16 = 0;
    /// LZO1X.
    pub const LZO: u16 = 1;
    /// Deflate, without the header and the checksum of zlib.
    pub const ZLIB: u16 = 2;
    /// Zstandard.
    pub const ZSTD: u16 = 3;
}

/// Flags of the superblock.
pub mod flag {
    /// The tree of LEB properties is written in parts.
    pub const BIG_LPT: u32 = 2;
    /// Free space is to be erased at the first mount, since it was written with pages of 0xFF.
    pub const SPACE_FIXUP: u32 = 4;
    /// Names have cookies.
    pub const DOUBLE_HASH: u32 = 8;
    /// Files may be encrypted.
    pub const ENCRYPTION: u32 = 0x10;
    /// Nodes are authenticated.
    pub const AUTHENTICATION: u32 = 0x20;
}

/// Marks of nodes of a group in their headers (`UBIFS_*_NODE_GROUP`).
pub mod group {
    /// The node takes effect alone.
    pub const NONE: u8 = 0;
    /// Another node of the group follows.
    pub const GOES_ON: u8 = 1;
    /// The last node of a group.
    pub const LAST: u8 = 2;
}

/// Bit of an inode's flags: its data are compressed (`UBIFS_COMPR_FL`).
pub const INODE_COMPRESSED: u32 = 1;
/// Mode of the inode with the value of an extended attribute (Linux `fs/ubifs/xattr.c`).
pub const XATTR_MODE: u32 = 0o100_777;
/// Bit of an inode's flags: it holds the value of an extended attribute (`UBIFS_XATTR_FL`).
pub const INODE_XATTR: u32 = 0x20;
/// Bit of an inode's flags: its content, or the names in it, are encrypted (`UBIFS_CRYPT_FL`).
pub const INODE_ENCRYPTED: u32 = 0x40;

/// The header of all nodes.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: U32,
    /// Checksum of everything behind it.
    pub checksum: U32,
    /// Increases with each node written.
    pub sequence: U64,
    /// Bytes of the node with this header.
    pub length: U32,
    /// One of [`node_type`].
    pub node_type: u8,
    /// Whether the node belongs to a group of nodes.
    pub group: u8,
    /// Unused.
    pub padding: [u8; 2],
}

/// A key as nodes store it: 8 bytes in use of 16.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawKey {
    /// The inode.
    pub inode: U32,
    /// The type of the key in the top three bits, then a block number or a hash.
    pub word: U32,
    /// Unused.
    pub padding: [u8; 8],
}

/// An inode node behind its header.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Inode {
    /// The key.
    pub key: RawKey,
    /// The sequence number at which the inode was created.
    pub created_sequence: U64,
    /// Bytes of a file.
    pub size: U64,
    /// Access time in seconds.
    pub accessed_s: U64,
    /// Time of the last change of attributes in seconds.
    pub changed_s: U64,
    /// Time of the last change of content in seconds.
    pub modified_s: U64,
    /// Nanoseconds of the access time.
    pub accessed_ns: U32,
    /// Nanoseconds of the change of attributes.
    pub changed_ns: U32,
    /// Nanoseconds of the change of content.
    pub modified_ns: U32,
    /// Number of names.
    pub links: U32,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Type and permissions.
    pub mode: U32,
    /// Flags of the inode.
    pub flags: U32,
    /// Bytes of inline data behind this structure.
    pub data_size: U32,
    /// Number of extended attributes.
    pub xattrs: U32,
    /// Bytes of extended attributes.
    pub xattr_bytes: U32,
    /// Unused.
    pub padding1: [u8; 4],
    /// Bytes of the names of extended attributes.
    pub xattr_name_bytes: U32,
    /// The compression of new data.
    pub compression: U16,
    /// Unused.
    pub padding2: [u8; 26],
}

/// A directory entry behind its header; the name follows.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Dentry {
    /// The key.
    pub key: RawKey,
    /// The inode; 0 if the entry removes the name.
    pub inode: U64,
    /// Unused.
    pub padding1: u8,
    /// The type of the inode.
    pub file_type: u8,
    /// Bytes of the name.
    pub name_size: U16,
    /// A random number that tells names with the same hash apart, with double hashes.
    pub cookie: U32,
}

/// A data node behind its header; the data follow.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Data {
    /// The key.
    pub key: RawKey,
    /// Bytes before compression.
    pub size: U32,
    /// The compression.
    pub compression: U16,
    /// Bytes after compression, of encrypted data.
    pub compressed_size: U16,
}

/// A truncation behind its header.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Truncation {
    /// The inode.
    pub inode: U32,
    /// Unused.
    pub padding: [u8; 12],
    /// The size before.
    pub old_size: U64,
    /// The size after.
    pub new_size: U64,
}

/// The superblock behind its header, as far as it is used.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// Unused.
    pub padding: [u8; 2],
    /// The hash of names: 0 R5, 1 the first four bytes.
    pub key_hash: u8,
    /// The format of keys; 0.
    pub key_format: u8,
    /// Bits of [`flag`].
    pub flags: U32,
    /// Smallest unit of input and output in bytes.
    pub min_io_size: U32,
    /// Bytes per LEB.
    pub leb_size: U32,
    /// Number of LEBs.
    pub leb_count: U32,
    /// Largest number of LEBs.
    pub leb_count_max: U32,
    /// Largest number of bytes in buds.
    pub bud_bytes_max: U64,
    /// LEBs of the log.
    pub log_lebs: U32,
    /// LEBs of the table of properties.
    pub lpt_lebs: U32,
    /// LEBs for orphans.
    pub orphan_lebs: U32,
    /// Journal heads.
    pub journal_heads: U32,
    /// Children per index node.
    pub fanout: U32,
    /// LEBs in the save table.
    pub lsave_count: U32,
    /// Version of the format.
    pub format: U32,
    /// Compression of new data.
    pub compression: U16,
    /// Unused.
    pub padding1: [u8; 2],
    /// Owner of the reserved space.
    pub reserved_uid: U32,
    /// Group of the reserved space.
    pub reserved_gid: U32,
    /// Reserved bytes.
    pub reserved_size: U64,
    /// Resolution of times in nanoseconds.
    pub time_step_ns: U32,
    /// Identifier of the volume.
    pub uuid: [u8; 16],
    /// The format for reading that must be known to read the volume.
    pub read_only_format: U32,
}

/// A master node behind its header, as far as it is used.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Master {
    /// Highest inode number.
    pub highest_inode: U64,
    /// Number of the commit.
    pub commit: U64,
    /// Flags: 1 the volume was not unmounted.
    pub flags: U32,
    /// The LEB where the log begins.
    pub log_leb: U32,
    /// LEB of the root of the index.
    pub root_leb: U32,
    /// Offset of the root of the index.
    pub root_offset: U32,
    /// Bytes of the root of the index.
    pub root_length: U32,
    /// The LEB reserved for garbage collection.
    pub gc_leb: U32,
    /// LEB of the head of the index.
    pub index_head_leb: U32,
    /// Offset of the head of the index.
    pub index_head_offset: U32,
    /// Bytes of the index.
    pub index_size: U64,
    /// Free bytes.
    pub free: U64,
    /// Dirty bytes.
    pub dirty: U64,
    /// Used bytes.
    pub used: U64,
    /// Bytes in pieces too small for any node.
    pub dead: U64,
    /// Bytes in pieces too small for some nodes.
    pub dark: U64,
    /// LEB of the root of the tree of properties.
    pub lpt_leb: U32,
    /// Its offset.
    pub lpt_offset: U32,
    /// LEB where the tree of properties is continued.
    pub lpt_head_leb: U32,
    /// Offset there.
    pub lpt_head_offset: U32,
    /// LEB of the table of the tree's own LEBs.
    pub lpt_table_leb: U32,
    /// Its offset.
    pub lpt_table_offset: U32,
    /// LEB of the saved LEB numbers, of a big tree.
    pub lpt_saved_leb: U32,
    /// Their offset.
    pub lpt_saved_offset: U32,
    /// LEB where the search for LEBs to collect continues.
    pub scan_leb: U32,
    /// Empty LEBs.
    pub empty_lebs: U32,
    /// LEBs of the index.
    pub index_lebs: U32,
    /// LEBs of the volume.
    pub leb_count: U32,
}

/// Bytes of a master node.
pub const MASTER_SIZE: usize = 512;

/// Bit of the master's flags: the volume was not unmounted.
pub const MASTER_DIRTY: u32 = 1;
/// Bit of the master's flags: there are no orphans.
pub const MASTER_NO_ORPHANS: u32 = 2;

/// A reference to a bud, behind its header.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Reference {
    /// The LEB.
    pub leb: U32,
    /// Where the bud begins in it.
    pub offset: U32,
    /// The journal head.
    pub head: U32,
}

/// The start of a commit behind its header.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CommitStart {
    /// The number of the commit.
    pub commit: U64,
}

/// The beginning of an orphan node, behind its header; inode numbers of 64 bits follow.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Orphans {
    /// The number of the commit, with [`ORPHANS_LAST`] in the last orphan node of a commit.
    pub commit: U64,
}

/// Mark of the last orphan node of a commit.
pub const ORPHANS_LAST: u64 = 1 << 63;

/// The beginning of an index node, behind its header; branches follow.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Index {
    /// Number of branches.
    pub children: U16,
    /// 0 for nodes whose branches are leaves.
    pub level: U16,
}

/// A branch of an index node before its key.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Branch {
    /// The LEB of the child.
    pub leb: U32,
    /// Its offset.
    pub offset: U32,
    /// Its bytes.
    pub length: U32,
    /// The inode of its first key.
    pub inode: U32,
    /// The second word of its first key.
    pub word: U32,
}

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// An inode.
    Inode,
    /// A block of data.
    Data,
    /// A directory entry.
    Dentry,
    /// An entry of an extended attribute.
    Xentry,
}

/// A key: the order of keys is that of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The inode.
    pub inode: u32,
    word: u32,
}

/// Bits of a block number or a hash in a key.
const LOW_BITS: u32 = 29;

impl Key {
    /// The key of these two words.
    pub const fn new(inode: u32, word: u32) -> Self {
        Self { inode, word }
    }

    /// The key of an inode.
    pub const fn inode(inode: u32) -> Self {
        Self { inode, word: 0 }
    }

    /// The key of a block of data; `None` for one that no key can have.
    pub const fn data(inode: u32, block: u64) -> Option<Self> {
        if block >> LOW_BITS != 0 {
            return None;
        }
        Some(Self { inode, word: 1 << LOW_BITS | block as u32 })
    }

    /// The key of a name with this hash: of a directory entry, or of an attribute.
    pub const fn name(inode: u32, hash: u32, is_xattr: bool) -> Self {
        let key_type = if is_xattr { 3 } else { 2 };
        Self { inode, word: key_type << LOW_BITS | hash & ((1 << LOW_BITS) - 1) }
    }

    /// Its type; `None` if it has none that is known.
    pub const fn key_type(self) -> Option<KeyType> {
        match self.word >> LOW_BITS {
            0 => Some(KeyType::Inode),
            1 => Some(KeyType::Data),
            2 => Some(KeyType::Dentry),
            3 => Some(KeyType::Xentry),
            _ => None,
        }
    }

    /// The second word: type, and block number or hash.
    pub const fn word(self) -> u32 {
        self.word
    }

    /// Whether another key is the next one of the same inode and type.
    pub fn is_before(self, next: Self) -> bool {
        self.inode == next.inode && self.word.checked_add(1) == Some(next.word)
    }

    /// The block number or the hash.
    pub const fn low(self) -> u32 {
        self.word & ((1 << LOW_BITS) - 1)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inode, .. } = self;
        match self.key_type() {
            Some(KeyType::Inode) => write!(f, "inode {inode}"),
            Some(KeyType::Data) => write!(f, "block {} of inode {inode}", self.low()),
            Some(KeyType::Dentry) => write!(f, "a name in inode {inode} with hash {:#x}", self.low()),
            Some(KeyType::Xentry) => write!(f, "an attribute of inode {inode} with hash {:#x}", self.low()),
            None => write!(f, "a key of no type of inode {inode}"),
        }
    }
}

impl RawKey {
    /// The key.
    pub const fn key(&self) -> Key {
        Key::new(self.inode.get(), self.word.get())
    }
}

/// The hash of a name: R5, or the first four bytes. The values 0 to 2 are reserved.
pub fn name_hash(key_hash: u8, name: &[u8]) -> u32 {
    let hash = match key_hash {
        0 => name.iter().fold(0_u32, |hash, byte| {
            // Characters are signed, as on the machines where the format began.
            let byte = *byte as i8;
            let mixed = hash.wrapping_add((i32::from(byte) << 4) as u32).wrapping_add((i32::from(byte) >> 4) as u32);
            mixed.wrapping_mul(11)
        }),
        _ => {
            let mut first = [0; 4];
            first.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
            u32::from_le_bytes(first)
        }
    };
    let hash = hash & ((1 << LOW_BITS) - 1);
    if hash <= 2 { hash + 3 } else { hash }
}

/// The checksum of a node: over everything behind the checksum.
pub fn checksum(node: &[u8]) -> u32 {
    crc32_linux(u32::MAX, node.get(8..).unwrap_or_default())
}
