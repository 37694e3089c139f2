//! Attributes of inodes, directory entries and volumes.

use std::fmt;

/// An inode's number within its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(pub u64);

/// The type of an inode.
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
    /// The kind for the type bits of a mode (`<sys/stat.h>`); `None` if the bits name no type.
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

    /// The type bits of a mode for this kind (`<sys/stat.h>`).
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

    /// The kind for a directory entry's `d_type` (`<dirent.h>`); `None` if the number names no
    /// kind.
    pub const fn of_dirent(kind: u8) -> Option<Self> {
        if kind < 16 { Self::of_mode((kind as u32) << 12) } else { None }
    }

    /// The `d_type` of this kind (`<dirent.h>`).
    pub const fn dirent(self) -> u8 {
        (self.mode() >> 12) as u8
    }

    /// The kind's name in JSON.
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

/// The kind as find(1)'s manual names it: `regular file`, `symbolic link`.
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
/// down to their own resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// An inode's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode's number.
    pub inode: InodeNumber,
    /// The inode's type.
    pub kind: FileKind,
    /// Permission bits, with set-user-id, set-group-id and sticky: the low 12 bits of a mode.
    pub mode: u16,
    /// The number of names; for directories, the format's own count, at least 1.
    pub links: u32,
    /// Numeric id of the owner.
    pub uid: u32,
    /// Numeric id of the group.
    pub gid: u32,
    /// Device number (major << 32 | minor) of a device inode, else 0.
    pub device: u64,
    /// Size in bytes.
    pub size: u64,
    /// Bytes that the inode occupies on the volume.
    pub allocated: u64,
    /// Time of the last read.
    pub accessed: Timestamp,
    /// Time of the last change of content.
    pub modified: Timestamp,
    /// Time of the last change of content or attributes.
    pub changed: Timestamp,
    /// Time of creation, if the format stores it.
    pub created: Option<Timestamp>,
}

/// The attributes to change, with their new values; `None` leaves an attribute as it is.
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

/// The inode that [`crate::Changes::create`] makes.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// The type of the new inode.
    pub kind: FileKind,
    /// Permission bits; a symbolic link always gets 0777, as on Linux.
    pub mode: u16,
    /// Numeric id of the owner.
    pub uid: u32,
    /// Numeric id of the group.
    pub gid: u32,
    /// Device number (major << 32 | minor) of a device inode. Linux uses 12 and 20 bits, which
    /// every format can store.
    pub device: u64,
    /// Target of a symbolic link: not empty, no NUL. Every format can store 254 bytes.
    pub target: &'a [u8],
}

impl NewNode<'_> {
    /// A regular file of root, mode 0644.
    pub const FILE: NewNode<'static> =
        NewNode { kind: FileKind::Regular, mode: 0o644, uid: 0, gid: 0, device: 0, target: &[] };
    /// A directory of root, mode 0755.
    pub const DIRECTORY: NewNode<'static> =
        NewNode { kind: FileKind::Directory, mode: 0o755, uid: 0, gid: 0, device: 0, target: &[] };
}

/// How a rename treats an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameFlags {
    /// The target is replaced, as POSIX says.
    #[default]
    Replace,
    /// The rename is refused with `Exists`.
    NoReplace,
    /// Source and target exchange their names, if [`Features::exchange`] is set.
    Exchange,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// The entry's name.
    pub name: &'a [u8],
    /// The inode that the name refers to.
    pub inode: InodeNumber,
    /// The inode's type.
    pub kind: FileKind,
    /// The cookie that continues the listing after this entry.
    pub cookie: u64,
}

/// Space and limits of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Bytes of the allocation unit.
    pub block_size: u32,
    /// Allocation units that files can use, in total.
    pub blocks: u64,
    /// Free allocation units, of [`Self::blocks`].
    pub blocks_free: u64,
    /// Inodes in total; 0 if the format has no fixed number.
    pub inodes: u64,
    /// Free inodes, of [`Self::inodes`].
    pub inodes_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// What the format can store.
    pub features: Features,
}

/// What a format can store: conformance suites and front ends ask this instead of trying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Features {
    pub case_sensitive: bool,
    pub permissions: bool,
    pub owners: bool,
    /// The highest number of an owner or group: all bits set. Higher numbers lose their upper bits.
    pub owner_max: u32,
    pub hard_links: bool,
    pub symlinks: bool,
    pub device_nodes: bool,
    /// Parts of a file that were never written take no space.
    pub holes: bool,
    /// Extended attributes with the prefixes `user.`, `trusted.` and `security.`.
    pub xattrs: bool,
    /// Access control lists as extended attributes (see [`crate::acl`]).
    pub posix_acls: bool,
    /// Renames can exchange two names.
    pub exchange: bool,
    /// Files can be written through drafts that take effect as a whole (see
    /// [`crate::AtomicWrites`]).
    pub atomic_writes: bool,
    /// The time of the last read can be set and is stored, with the resolution of modification
    /// times.
    pub accessed_times: bool,
    /// The resolution of modification times in nanoseconds.
    pub modified_step_ns: u64,
}

impl Features {
    /// All of POSIX, with Linux' additions.
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
