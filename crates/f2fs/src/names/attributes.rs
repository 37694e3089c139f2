//! Changes owners, permissions, times and extended attributes.

use nandkit_vfs::{AttributeChange, ErrorKind, FsError, Result};

use super::links::expect_mutable;
use super::store::{InodeStore, edit_head, set_changed};
use super::xattrs;
use crate::encode::inode::seconds;
use crate::encode::xattr;
use crate::ids::NodeId;
use crate::inode::Inode;

/// The permission bits of a mode.
const PERMISSIONS: u16 = 0o7777;

/// Applies all changes except that of the size. Errors: `ReadOnly` (the inode is immutable),
/// `QuotaExceeded`, `NoSpace` (no room for a new owner in a quota file), `Corrupt`, `Device`.
pub fn change<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, change: &AttributeChange) -> Result<()> {
    store.prepare()?;
    let inode = store.inode_at(ino)?;
    expect_mutable(&inode)?;
    admit(store, &inode, change)?;
    let now = store.now();
    edit_head(store, ino, &mut |head| {
        if let Some(mode) = change.mode {
            head.mode = (head.mode.get() & !PERMISSIONS | mode & PERMISSIONS).into();
        }
        head.uid = change.uid.map_or(head.uid, Into::into);
        head.gid = change.gid.map_or(head.gid, Into::into);
        if let Some(time) = change.accessed {
            let (whole, ns) = seconds(time);
            (head.accessed, head.accessed_ns) = (whole.into(), ns.into());
        }
        if let Some(time) = change.modified {
            let (whole, ns) = seconds(time);
            (head.modified, head.modified_ns) = (whole.into(), ns.into());
        }
        set_changed(head, now);
    })
}

/// Checks whether quotas allow the owners that a change gives an inode. Errors: `QuotaExceeded`,
/// `NoSpace`, `Corrupt`, `Device`; then nothing has changed.
pub fn admit<S: InodeStore + ?Sized>(store: &mut S, inode: &Inode, change: &AttributeChange) -> Result<()> {
    if change.uid.is_none() && change.gid.is_none() {
        return Ok(());
    }
    let project = inode.extra.and_then(|extra| extra.project_id(store.geometry().features)).unwrap_or(0);
    let (uid, gid) = (inode.head.uid.get(), inode.head.gid.get());
    store.admit(Some(inode.nid), [change.uid.unwrap_or(uid), change.gid.unwrap_or(gid), project])
}

/// Sets an extended attribute. Errors: `NameTooLong`, `NotSupported`, `InvalidArgument`,
/// `AttributesTooBig`, `NoSpace`, `ReadOnly` (the inode is immutable), `Corrupt`, `Device`.
pub fn set_xattr<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, name: &[u8], value: &[u8]) -> Result<()> {
    store.prepare()?;
    let inode = store.inode_at(ino)?;
    expect_mutable(&inode)?;
    let key = xattrs::key(name)?;
    let value = xattrs::stored_value(inode.kind, key.0, value)?;
    let area = store.xattr_area(&inode)?;
    let words = (inode.inline_xattrs().len() / 4) as u16;
    let room = xattr::room(words, store.geometry().block_size());
    match xattrs::set(&area, room, ino, key, &value)? {
        Some(new) => write_area(store, &inode, &new),
        None => Ok(()),
    }
}

/// Removes an extended attribute. Errors: `NoAttribute`, and as [`set_xattr`].
pub fn remove_xattr<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, name: &[u8]) -> Result<()> {
    store.prepare()?;
    let inode = store.inode_at(ino)?;
    expect_mutable(&inode)?;
    let area = store.xattr_area(&inode)?;
    match xattrs::remove(&area, ino, xattrs::key(name)?)? {
        Some(new) => write_area(store, &inode, &new),
        None => {
            let shown = String::from_utf8_lossy(name);
            Err(FsError::new(ErrorKind::NoAttribute, format!("inode {} has no attribute {shown}", ino.0)))
        }
    }
}

fn write_area<S: InodeStore + ?Sized>(store: &mut S, inode: &Inode, area: &[u8]) -> Result<()> {
    store.set_xattr_area(inode.nid, area)?;
    let now = store.now();
    edit_head(store, inode.nid, &mut |head| set_changed(head, now))
}
