//! The form of a recorded call, a line of JSON:
//!
//! ```json
//! {"at":1200340,"unix":1790000000000000000,"call":"write","inode":5,"offset":0,"data":"hello%0A","came_to":{"bytes":6}}
//! ```
//!
//! `at`: nanoseconds since the beginning, at which the call arrived; `unix`: calendar time. Inode
//! numbers are those of the recorded file system; on another one the same files have other numbers.
//! The first line of a file is `{"nandkit_calls":1,"root":1}`: the version, and the inode of the
//! root.

use nandkit_vfs::wrap::{Arguments, Call, CallOutput, Listed, Method};
use nandkit_vfs::{AttributeChange, ErrorKind, FileKind, InodeNumber, NewNode, RenameFlags, Timestamp};
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use crate::operation::OperationKind;

/// The version of the form.
pub const VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the form.
    pub nandkit_calls: u32,
    /// The root's inode.
    pub root: u64,
}

/// A line of a recording: a call with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// When the call arrived, in nanoseconds since the beginning.
    pub at: u64,
    /// Calendar time in nanoseconds since 1970.
    pub unix: u64,
    /// The call that was made.
    #[serde(flatten)]
    pub request: Request,
    /// The result of the call.
    pub came_to: CameTo,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameTo {
    /// The number of the error (errno).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<i32>,
    /// Bytes that were read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The inode that was found or made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// The entries that were listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Entries>,
}

/// Entries that were listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entries {
    /// Number of entries.
    pub entries: u64,
    /// Whether the caller stopped the listing before its end.
    pub stopped: bool,
    /// The cookies of the last entry but one and of the last entry; a listing goes on at one of
    /// them.
    pub cookies: [u64; 2],
}

impl From<Listed> for Entries {
    fn from(Listed { entries, stopped, cookies }: Listed) -> Self {
        Self { entries, stopped, cookies }
    }
}

impl CameTo {
    /// The result of a call, from what hooks are told of it.
    pub fn of(method: Method, outcome: Result<CallOutput, ErrorKind>) -> Self {
        match outcome {
            Err(kind) => Self { error: Some(kind.errno()), ..Self::default() },
            Ok(done) => Self {
                error: None,
                bytes: matches!(method, Method::Read | Method::Write).then_some(done.bytes),
                inode: done.inode.map(|inode| inode.0),
                listed: done.listed.map(Entries::from),
            },
        }
    }
}

/// The kind of a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as in vfs")]
pub enum Kind {
    Regular,
    Directory,
    Symlink,
    BlockDevice,
    CharacterDevice,
    Fifo,
    Socket,
}

const KINDS: [(Kind, FileKind); 7] = [
    (Kind::Regular, FileKind::Regular),
    (Kind::Directory, FileKind::Directory),
    (Kind::Symlink, FileKind::Symlink),
    (Kind::BlockDevice, FileKind::BlockDevice),
    (Kind::CharacterDevice, FileKind::CharacterDevice),
    (Kind::Fifo, FileKind::Fifo),
    (Kind::Socket, FileKind::Socket),
];

impl Kind {
    fn of(kind: FileKind) -> Self {
        KINDS.into_iter().find(|(_, theirs)| *theirs == kind).map_or(Self::Regular, |(ours, _)| ours)
    }

    /// This kind as file systems name it.
    pub fn in_vfs(self) -> FileKind {
        KINDS.into_iter().find(|(ours, _)| *ours == self).map_or(FileKind::Regular, |(_, theirs)| theirs)
    }
}

/// How a rename treats a target that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as in vfs")]
pub enum Flags {
    Replace,
    NoReplace,
    Exchange,
}

const FLAGS: [(Flags, RenameFlags); 3] = [
    (Flags::Replace, RenameFlags::Replace),
    (Flags::NoReplace, RenameFlags::NoReplace),
    (Flags::Exchange, RenameFlags::Exchange),
];

impl Flags {
    fn of(flags: RenameFlags) -> Self {
        FLAGS.into_iter().find(|(_, theirs)| *theirs == flags).map_or(Self::Replace, |(ours, _)| ours)
    }

    /// These flags as file systems name them.
    pub fn in_vfs(self) -> RenameFlags {
        FLAGS.into_iter().find(|(ours, _)| *ours == self).map_or(RenameFlags::Replace, |(_, theirs)| theirs)
    }
}

/// Attributes that are changed; the others are left as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in vfs")]
pub struct Change {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accessed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
}

impl Change {
    fn of(change: &AttributeChange) -> Self {
        let AttributeChange { size, mode, uid, gid, accessed, modified } = *change;
        let time = |time: Option<Timestamp>| time.map(|time| time.0);
        Self { size, mode, uid, gid, accessed: time(accessed), modified: time(modified) }
    }

    /// This change as file systems take it.
    pub fn in_vfs(self) -> AttributeChange {
        let Self { size, mode, uid, gid, accessed, modified } = self;
        let time = |time: Option<i64>| time.map(Timestamp);
        AttributeChange { size, mode, uid, gid, accessed: time(accessed), modified: time(modified) }
    }
}

/// What a file system was asked: a method with its arguments. `directory` and `name` are those of a
/// name, `into` and `new_name` those of a second one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
#[allow(missing_docs, reason = "as in vfs")]
pub enum Request {
    Volume,
    Lookup {
        directory: u64,
        name: Bytes,
    },
    Stat {
        inode: u64,
    },
    ReadDir {
        directory: u64,
        cookie: u64,
    },
    Read {
        inode: u64,
        offset: u64,
        length: u64,
    },
    DataAfter {
        inode: u64,
        offset: u64,
    },
    ReadLink {
        inode: u64,
    },
    Create {
        directory: u64,
        name: Bytes,
        kind: Kind,
        mode: u16,
        uid: u32,
        gid: u32,
        device: u64,
        target: Bytes,
    },
    Write {
        inode: u64,
        offset: u64,
        data: Bytes,
    },
    SetAttributes {
        inode: u64,
        change: Change,
    },
    Remove {
        directory: u64,
        name: Bytes,
    },
    Rename {
        directory: u64,
        name: Bytes,
        into: u64,
        new_name: Bytes,
        flags: Flags,
    },
    /// Makes an inode durable, or everything without one.
    Sync {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inode: Option<u64>,
    },
    Retain {
        inode: u64,
    },
    Release {
        inode: u64,
    },
    Link {
        inode: u64,
        into: u64,
        new_name: Bytes,
    },
    Xattr {
        inode: u64,
        name: Bytes,
    },
    XattrNames {
        inode: u64,
    },
    SetXattr {
        inode: u64,
        name: Bytes,
        value: Bytes,
    },
    RemoveXattr {
        inode: u64,
        name: Bytes,
    },
    Allocate {
        inode: u64,
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    PunchHole {
        inode: u64,
        offset: u64,
        length: u64,
    },
}

impl Request {
    /// The request of a call that hooks see; `None` if the call's arguments do not fit its method.
    pub fn of(call: &Call<'_>) -> Option<Self> {
        let Call { method, inode: InodeNumber(inode), name, offset, length, arguments } = *call;
        let (directory, name) = (inode, Bytes::from(name));
        Some(match (method, arguments) {
            (Method::Volume, _) => Self::Volume,
            (Method::Lookup, _) => Self::Lookup { directory, name },
            (Method::Stat, _) => Self::Stat { inode },
            (Method::ReadDir, _) => Self::ReadDir { directory, cookie: offset },
            (Method::Read, _) => Self::Read { inode, offset, length },
            (Method::DataAfter, _) => Self::DataAfter { inode, offset },
            (Method::ReadLink, _) => Self::ReadLink { inode },
            (Method::Create, Arguments::Create(node)) => {
                let NewNode { kind, mode, uid, gid, device, target } = *node;
                let (kind, target) = (Kind::of(kind), target.into());
                Self::Create { directory, name, kind, mode, uid, gid, device, target }
            }
            (Method::Write, Arguments::Write(data)) => {
                let mut bytes = vec![0; data.len()];
                data.copy_to(&mut bytes);
                Self::Write { inode, offset, data: Bytes(bytes) }
            }
            (Method::SetAttributes, Arguments::SetAttributes(change)) => {
                Self::SetAttributes { inode, change: Change::of(change) }
            }
            (Method::Remove, _) => Self::Remove { directory, name },
            (Method::Rename, Arguments::Rename { directory: into, name: new_name, flags }) => {
                Self::Rename { directory, name, into: into.0, new_name: new_name.into(), flags: Flags::of(flags) }
            }
            (Method::Sync, Arguments::SyncAll) => Self::Sync { inode: None },
            (Method::Sync, _) => Self::Sync { inode: Some(inode) },
            (Method::Retain, _) => Self::Retain { inode },
            (Method::Release, _) => Self::Release { inode },
            (Method::Link, Arguments::Link(into)) => Self::Link { inode, into: into.0, new_name: name },
            (Method::Xattr, _) => Self::Xattr { inode, name },
            (Method::XattrNames, _) => Self::XattrNames { inode },
            (Method::SetXattr, Arguments::SetXattr(value)) => Self::SetXattr { inode, name, value: value.into() },
            (Method::RemoveXattr, _) => Self::RemoveXattr { inode, name },
            (Method::Allocate, Arguments::Allocate { keep_size }) => {
                Self::Allocate { inode, offset, length, keep_size }
            }
            (Method::PunchHole, _) => Self::PunchHole { inode, offset, length },
            _ => return None,
        })
    }

    /// The method, for messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Lookup { .. } => "lookup",
            Self::Stat { .. } => "stat",
            Self::ReadDir { .. } => "read_dir",
            Self::Read { .. } => "read",
            Self::DataAfter { .. } => "data_after",
            Self::ReadLink { .. } => "read_link",
            Self::Create { .. } => "create",
            Self::Write { .. } => "write",
            Self::SetAttributes { .. } => "set_attributes",
            Self::Remove { .. } => "remove",
            Self::Rename { .. } => "rename",
            Self::Sync { .. } => "sync",
            Self::Retain { .. } => "retain",
            Self::Release { .. } => "release",
            Self::Link { .. } => "link",
            Self::Xattr { .. } => "xattr",
            Self::XattrNames { .. } => "xattr_names",
            Self::SetXattr { .. } => "set_xattr",
            Self::RemoveXattr { .. } => "remove_xattr",
            Self::Allocate { .. } => "allocate",
            Self::PunchHole { .. } => "punch_hole",
        }
    }

    /// Whether the call changes the volume.
    pub const fn is_change(&self) -> bool {
        !matches!(
            self,
            Self::Volume
                | Self::Lookup { .. }
                | Self::Stat { .. }
                | Self::ReadDir { .. }
                | Self::Read { .. }
                | Self::DataAfter { .. }
                | Self::ReadLink { .. }
                | Self::Xattr { .. }
                | Self::XattrNames { .. }
        )
    }

    /// The kind under which the call's latency is counted; `None` if records have no kind for it.
    pub const fn kind(&self) -> Option<OperationKind> {
        Some(match self {
            Self::Lookup { .. } => OperationKind::Open,
            Self::Read { .. } => OperationKind::Read,
            Self::Write { .. } => OperationKind::Write,
            Self::Create { kind: Kind::Directory, .. } => OperationKind::MakeDirectory,
            Self::Create { .. } => OperationKind::Create,
            Self::SetAttributes { change: Change { size: Some(_), .. }, .. } => OperationKind::Truncate,
            Self::Remove { .. } => OperationKind::Remove,
            Self::Rename { .. } => OperationKind::Rename,
            Self::Sync { .. } => OperationKind::Sync,
            _ => return None,
        })
    }
}
