//! What is known of inodes, directory entries and volumes.

use std::fmt;

/// An inode's number within its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(pub u64);

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    BlockDevice,
    CharacterDevice,
    Fifo,
    Socket,
}

impl FileKind {
    /// The kind that the type bits of a mode tell, as `<sys/stat.h>` has them; `None` for bits of
    /// no type.
    pub const fn of_mode(mode: u32) -> Option<Self> {
        match mode & 0o170_000 {
            0o100_000 => Some(Self::Regular),
            0o040_000 => Some(Self::Directory),
            0o120_000 => Some(Self::Symlink),
            0o060_000 => Some(Self::BlockDevice),
            0o020_000 => Some(Self::CharacterDevice),
            0o010_000 => Some(Self::Fifo),
            0o140_000 => Some(Self::Socket),
            _ => None,
        }
    }

    /// The type bits of a mode.
    pub const fn mode(self) -> u32 {
        match self {
            Self::Regular => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
            Self::BlockDevice => 0o060_000,
            Self::CharacterDevice => 0o020_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The kind that a directory entry tells by `d_type`, as `<dirent.h>` has it; `None` for a
    /// number of no kind.
    pub const fn of_dirent(kind: u8) -> Option<Self> {
        if kind < 16 { Self::of_mode((kind as u32) << 12) } else { None }
    }

    /// Its `d_type`.
    pub const fn dirent(self) -> u8 {
        (self.mode() >> 12) as u8
    }

    /// The word for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regular => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::BlockDevice => "block_device",
            Self::CharacterDevice => "character_device",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
        }
    }
}

/// As in find(1)'s manual: `regular file`, `symbolic link`.
impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular file",
            Self::Directory => "directory",
            Self::Symlink => "symbolic link",
            Self::BlockDevice => "block device",
            Self::CharacterDevice => "character device",
            Self::Fifo => "named pipe",
            Self::Socket => "socket",
        })
    }
}

/// A point in calendar time: nanoseconds since 1970-01-01T00:00:00Z, negative before. Formats round
/// it down to what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// An inode's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub inode: InodeNumber,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, with set-user-id, set-group-id and sticky: the low 12 bits of a mode.
    pub mode: u16,
    /// How many names it has; directories as the format counts them, at least 1.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number (major << 32 | minor) of a device inode, else 0.
    pub device: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes that it takes on the volume.
    pub allocated: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of content.
    pub modified: Timestamp,
    /// Last change of content or attributes.
    pub changed: Timestamp,
    /// Made, where the format knows.
    pub created: Option<Timestamp>,
}

/// Which attributes to change, and to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Attributes")]
pub struct AttributeChange {
    pub size: Option<u64>,
    pub mode: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub accessed: Option<Timestamp>,
    pub modified: Option<Timestamp>,
}

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// What it is to be.
    pub kind: FileKind,
    /// Permission bits; a symbolic link has 0777 whatever this says, as on Linux.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number (major << 32 | minor) of a device inode. Linux' own have 12 and 20 bits, and
    /// every format has room for those.
    pub device: u64,
    /// Target of a symbolic link: not empty, no NUL. Every format has room for 254 bytes.
    pub target: &'a [u8],
}

impl NewNode<'_> {
    /// A regular file, mode 0644, of root.
    pub const FILE: NewNode<'static> =
        NewNode { kind: FileKind::Regular, mode: 0o644, uid: 0, gid: 0, device: 0, target: &[] };
    /// A directory, mode 0755, of root.
    pub const DIRECTORY: NewNode<'static> =
        NewNode { kind: FileKind::Directory, mode: 0o755, uid: 0, gid: 0, device: 0, target: &[] };
}

/// How a rename treats an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameFlags {
    /// Replaced, as POSIX says.
    #[default]
    Replace,
    /// Refused with `Exists`.
    NoReplace,
    /// Both change places, where [`Features::exchange`] says so.
    Exchange,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The inode.
    pub inode: InodeNumber,
    /// What it is.
    pub kind: FileKind,
    /// Continues the listing after this entry.
    pub cookie: u64,
}

/// Space and limits of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Bytes of the allocation unit.
    pub block_size: u32,
    /// Allocation units that files can use, in all.
    pub blocks: u64,
    /// Of these, free.
    pub blocks_free: u64,
    /// Inodes in all; 0 where the format has no fixed number.
    pub inodes: u64,
    /// Of these, free.
    pub inodes_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// What the format can hold.
    pub features: Features,
}

/// What a format can hold: conformance suites and doors ask this instead of trying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Features {
    pub case_sensitive: bool,
    pub permissions: bool,
    pub owners: bool,
    /// The highest number of an owner or a group, all bits set; of higher ones the upper bits are
    /// lost.
    pub owner_max: u32,
    pub hard_links: bool,
    pub symlinks: bool,
    pub device_nodes: bool,
    /// Parts that were never written take no space.
    pub holes: bool,
    /// Extended attributes with the prefixes `user.`, `trusted.` and `security.`.
    pub xattrs: bool,
    /// Access control lists as extended attributes (see [`crate::acl`]).
    pub posix_acls: bool,
    /// Renames can exchange two names.
    pub exchange: bool,
    /// Files can be written in drafts that become theirs as a whole (see [`crate::AtomicWrites`]).
    pub atomic_writes: bool,
    /// The time of the last read can be set and is kept, with the step of that of modification.
    pub accessed_times: bool,
    /// The step of the time of modification, in nanoseconds.
    pub modified_step_ns: u64,
}

impl Features {
    /// All of POSIX, and what Linux has beside it.
    pub const POSIX: Self = Self {
        case_sensitive: true,
        permissions: true,
        owners: true,
        owner_max: u32::MAX,
        hard_links: true,
        symlinks: true,
        device_nodes: true,
        holes: true,
        xattrs: true,
        posix_acls: true,
        exchange: true,
        atomic_writes: true,
        accessed_times: true,
        modified_step_ns: 1,
    };
}
