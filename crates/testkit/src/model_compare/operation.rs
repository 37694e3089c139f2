//! One operation, as data.

use std::fmt;

use nandkit_vfs::{FileKind, RenameFlags, acl};

/// Names from the root down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Vec<u8>>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.0 {
            let shown = name.get(..16).unwrap_or(name);
            write!(f, "/{}", shown.escape_ascii())?;
            if shown.len() < name.len() {
                write!(f, "...[{}]", name.len())?;
            }
        }
        if self.0.is_empty() { f.write_str("/") } else { Ok(()) }
    }
}

/// An operation on the file system and the model.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it; a tag chooses the bytes, a slot one of the retained inodes")]
pub enum Operation {
    Create {
        path: Path,
        kind: FileKind,
        tag: u64,
    },
    Write {
        path: Path,
        offset: u64,
        length: u32,
        tag: u64,
    },
    Read {
        path: Path,
        offset: u64,
        length: u32,
    },
    ReadLink {
        path: Path,
    },
    Resize {
        path: Path,
        size: u64,
    },
    Remove {
        path: Path,
    },
    Rename {
        from: Path,
        to: Path,
        flags: RenameFlags,
    },
    Link {
        from: Path,
        to: Path,
    },
    SetMode {
        path: Path,
        mode: u16,
    },
    SetOwner {
        path: Path,
        uid: u32,
        gid: u32,
    },
    SetModified {
        path: Path,
        seconds: i64,
    },
    Stat {
        path: Path,
    },
    List {
        path: Path,
    },
    SetXattr {
        path: Path,
        name: u8,
        length: u16,
        tag: u64,
    },
    RemoveXattr {
        path: Path,
        name: u8,
    },
    Xattr {
        path: Path,
        name: u8,
    },
    Allocate {
        path: Path,
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    Punch {
        path: Path,
        offset: u64,
        length: u64,
    },
    Retain {
        path: Path,
    },
    Release {
        slot: usize,
    },
    WriteRetained {
        slot: usize,
        offset: u64,
        length: u32,
        tag: u64,
    },
    ReadRetained {
        slot: usize,
    },
    Sync {
        path: Option<Path>,
    },
    /// Sync, mount again, compare the trees.
    Remount,
    /// Compare the trees.
    Compare,
}

/// The names of extended attributes that operations use; the last two are for access control lists.
pub(super) const XATTR_NAMES: [&[u8]; 6] =
    [b"user.0", b"user.1", b"security.0", b"trusted.some longer name of an attribute", acl::ACCESS, acl::DEFAULT];

fn shown_xattr(name: u8) -> String {
    String::from_utf8_lossy(XATTR_NAMES.get(usize::from(name)).copied().unwrap_or_default()).into_owned()
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path, kind, .. } => write!(f, "create {kind:?} {path}"),
            Self::Write { path, offset, length, .. } => write!(f, "write {path} {offset}+{length}"),
            Self::Read { path, offset, length } => write!(f, "read {path} {offset}+{length}"),
            Self::ReadLink { path } => write!(f, "read link {path}"),
            Self::Resize { path, size } => write!(f, "resize {path} to {size}"),
            Self::Remove { path } => write!(f, "remove {path}"),
            Self::Rename { from, to, flags } => write!(f, "rename {from} to {to} ({flags:?})"),
            Self::Link { from, to } => write!(f, "link {from} as {to}"),
            Self::SetMode { path, mode } => write!(f, "mode {path} {mode:04o}"),
            Self::SetOwner { path, uid, gid } => write!(f, "owner {path} {uid}:{gid}"),
            Self::SetModified { path, seconds } => write!(f, "modified {path} {seconds} s"),
            Self::Stat { path } => write!(f, "stat {path}"),
            Self::List { path } => write!(f, "list {path}"),
            Self::SetXattr { path, name, length, .. } => {
                write!(f, "set attribute {path} {} {length} bytes", shown_xattr(*name))
            }
            Self::RemoveXattr { path, name } => write!(f, "remove attribute {path} {}", shown_xattr(*name)),
            Self::Xattr { path, name } => write!(f, "attribute {path} {}", shown_xattr(*name)),
            Self::Allocate { path, offset, length, keep_size } => {
                write!(f, "allocate {path} {offset}+{length}{}", if *keep_size { " keep size" } else { "" })
            }
            Self::Punch { path, offset, length } => write!(f, "punch {path} {offset}+{length}"),
            Self::Retain { path } => write!(f, "retain {path}"),
            Self::Release { slot } => write!(f, "release {slot}"),
            Self::WriteRetained { slot, offset, length, .. } => write!(f, "write retained {slot} {offset}+{length}"),
            Self::ReadRetained { slot } => write!(f, "read retained {slot}"),
            Self::Sync { path: Some(path) } => write!(f, "sync {path}"),
            Self::Sync { path: None } => f.write_str("sync"),
            Self::Remount => f.write_str("remount"),
            Self::Compare => f.write_str("compare"),
        }
    }
}

/// The kinds of operations, for the weights of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Operation")]
pub enum Kind {
    Create,
    Write,
    Read,
    Resize,
    Remove,
    Rename,
    Link,
    Attributes,
    Look,
    Xattr,
    Allocation,
    Retain,
    Retained,
    Sync,
    Remount,
}

impl Kind {
    /// How often each kind comes in the usual plan.
    pub const USUAL: &'static [(Self, u32)] = &[
        (Self::Create, 18),
        (Self::Write, 22),
        (Self::Read, 8),
        (Self::Resize, 8),
        (Self::Remove, 9),
        (Self::Rename, 10),
        (Self::Link, 4),
        (Self::Attributes, 5),
        (Self::Look, 8),
        (Self::Xattr, 5),
        (Self::Allocation, 4),
        (Self::Retain, 2),
        (Self::Retained, 4),
        (Self::Sync, 2),
        (Self::Remount, 1),
    ];
}
