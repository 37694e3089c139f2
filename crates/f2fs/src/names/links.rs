//! Adds and removes names, with the inodes that they create and free (namei.c, dir.c).

use nandkit_vfs::{ErrorKind, FileKind, FsError, NewNode, Result};

use super::area::NewEntry;
use super::entries::{check_name, give_back, hash_of_new, insert, make_room, remove};
use super::new_inode::{NewBlocks, NewInode, blocks, project};
use super::store::{InodeStore, edit_head, set_changed};
use crate::directory::Position;
use crate::encode::inode::set_name;
use crate::encode::put;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::Features;
use crate::layout::inode::{advise, flag};

/// The inode of a directory whose entries may be changed. Errors: `NotADirectory`, `NotFound` (it
/// was removed), `ReadOnly` (it is immutable).
pub fn open_directory<S: InodeStore + ?Sized>(store: &S, ino: NodeId) -> Result<Inode> {
    let directory = store.inode_at(ino)?;
    if directory.kind != FileKind::Directory {
        return Err(FsError::new(ErrorKind::NotADirectory, format!("inode {} is a {}", ino.0, directory.kind)));
    }
    if directory.head.links.get() == 0 {
        return Err(FsError::new(ErrorKind::NotFound, format!("directory {} was removed", ino.0)));
    }
    expect_mutable(&directory)?;
    Ok(directory)
}

/// Refuses to change an inode that is immutable (chattr(1)). Errors: `ReadOnly`.
pub fn expect_mutable(inode: &Inode) -> Result<()> {
    if inode.head.has_flag(flag::IMMUTABLE) {
        return Err(FsError::new(ErrorKind::ReadOnly, format!("inode {} is immutable", inode.nid.0)));
    }
    Ok(())
}

/// Checks that an inode has the project of a directory that passes its project on (namei.c,
/// `f2fs_link`, `f2fs_rename`). Errors: `CrossDevice`, on which mv(1) copies.
pub(super) fn expect_project<S: InodeStore + ?Sized>(store: &S, directory: &Inode, inode: &Inode) -> Result<()> {
    let features = store.geometry().features;
    let of = |inode: &Inode| inode.extra.and_then(|extra| extra.project_id(features)).unwrap_or(0);
    let (here, there) = (of(directory), of(inode));
    if !directory.head.has_flag(flag::PROJECT_INHERIT) || here == there || !features.has(Features::PROJECT_QUOTA) {
        return Ok(());
    }
    let detail = format!(
        "inode {} of project {there} cannot be linked into directory {}, whose entries belong to project {here}; copy it instead",
        inode.nid.0, directory.nid.0
    );
    Err(FsError::new(ErrorKind::CrossDevice, detail))
}

pub(super) fn fails(kind: ErrorKind, name: &[u8], directory: &Inode) -> FsError {
    FsError::new(kind, format!("{} in directory {}", String::from_utf8_lossy(name), directory.nid.0))
}

/// Finds the entry with a name. Errors: `NotFound`, `Corrupt`, `Device`.
pub fn find<S: InodeStore + ?Sized>(store: &S, directory: &Inode, name: &[u8]) -> Result<Position> {
    let is_dots = name == b"." || name == b"..";
    let found = if is_dots { None } else { store.find_entry(directory, name)? };
    found.ok_or_else(|| fails(ErrorKind::NotFound, name, directory))
}

/// Makes an inode and its first name.
///
/// Errors: `NotADirectory`, `NotFound` (the directory was removed), `Exists`, `InvalidName`,
/// `NameTooLong`, `InvalidArgument`, `NotSupported` (an encrypted directory), `NoSpace`,
/// `QuotaExceeded`, `Corrupt`, `Device`.
pub fn create<S: InodeStore + ?Sized>(
    store: &mut S,
    directory: NodeId,
    name: &[u8],
    node: &NewNode<'_>,
) -> Result<NodeId> {
    store.prepare()?;
    let parent = open_directory(store, directory)?;
    check_name(name)?;
    if store.find_entry(&parent, name)?.is_some() {
        return Err(fails(ErrorKind::Exists, name, &parent));
    }
    let hash = hash_of_new(store.geometry(), &parent, name)?;
    if node.kind == FileKind::Directory {
        expect_link_room(&parent)?;
    }
    let room = make_room(store, directory, hash, name)?;
    let ino = match make(store, directory, name, node) {
        Ok(ino) => ino,
        Err(error) => {
            give_back(store, directory, room)?;
            return Err(error);
        }
    };
    insert(store, directory, room, &NewEntry { hash, name, ino, kind: node.kind })?;
    if node.kind == FileKind::Directory {
        add_links(store, directory, 1)?;
    }
    Ok(ino)
}

/// Makes an inode and its first page, in no directory yet.
fn make<S: InodeStore + ?Sized>(store: &mut S, directory: NodeId, name: &[u8], node: &NewNode<'_>) -> Result<NodeId> {
    // Making room may have moved the parent's entries.
    let parent = store.inode_at(directory)?;
    let (size, features, now) = (store.geometry().block_size(), store.geometry().features, store.now());
    store.admit(None, [node.uid, node.gid, project(&parent, features)])?;
    let state = store.state();
    let (making, generation) = (state.making, state.generation());
    let (cold, hot) = state.extensions.clone();
    let mut page = None;
    let ino = store.make_inode(&mut |ino| {
        let extensions = (&cold[..], &hot[..]);
        let new = NewInode { node, name, ino, parent: &parent, now, generation, extensions };
        let NewBlocks { inode, page: first } = blocks(size, features, &making, &new)?;
        page = first;
        Ok(inode)
    })?;
    if let Some(content) = page
        && let Err(error) = store.edit_page(ino, 0, &mut |page| put(page, 0, &content))
    {
        store.free_inode(ino)?;
        return Err(error);
    }
    Ok(ino)
}

fn expect_link_room(inode: &Inode) -> Result<()> {
    match inode.head.links.get() {
        u32::MAX => Err(FsError::new(ErrorKind::TooManyLinks, format!("inode {} has {} links", inode.nid.0, u32::MAX))),
        _ => Ok(()),
    }
}

/// Changes an inode's link count, without updating times.
pub(super) fn add_links<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, change: i32) -> Result<()> {
    edit_head(store, ino, &mut |head| head.links = head.links.get().saturating_add_signed(change).into())
}

/// Gives an inode one more name. Roll-forward must not rely on the recorded name after that (dir.c,
/// `f2fs_init_inode_metadata`).
///
/// Errors: as [`create`]; `IsADirectory`, `TooManyLinks`, `CrossDevice` (the directory passes on
/// another project), `NotFound` (the inode has no name any more).
pub fn link<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, directory: NodeId, name: &[u8]) -> Result<()> {
    store.prepare()?;
    let inode = store.inode_at(ino)?;
    if inode.kind == FileKind::Directory {
        return Err(FsError::new(ErrorKind::IsADirectory, format!("directory {} has one name", ino.0)));
    }
    if inode.head.links.get() == 0 {
        return Err(FsError::new(ErrorKind::NotFound, format!("inode {} has no name any more", ino.0)));
    }
    expect_mutable(&inode)?;
    expect_link_room(&inode)?;
    let parent = open_directory(store, directory)?;
    check_name(name)?;
    if store.find_entry(&parent, name)?.is_some() {
        return Err(fails(ErrorKind::Exists, name, &parent));
    }
    expect_project(store, &parent, &inode)?;
    let hash = hash_of_new(store.geometry(), &parent, name)?;
    let room = make_room(store, directory, hash, name)?;
    insert(store, directory, room, &NewEntry { hash, name, ino, kind: inode.kind })?;
    let now = store.now();
    edit_head(store, ino, &mut |head| {
        head.links = head.links.get().saturating_add(1).into();
        head.advise |= advise::LOST_PARENT;
        head.parent = directory.0.into();
        set_name(head, name);
        set_changed(head, now);
    })
}

/// Removes a name; with its last name the inode is freed, unless it is retained. Errors:
/// `NotADirectory`, `NotFound`, `NotEmpty`, `Corrupt`, `Device`.
pub fn unlink<S: InodeStore + ?Sized>(store: &mut S, directory: NodeId, name: &[u8]) -> Result<()> {
    store.prepare()?;
    let parent = open_directory(store, directory)?;
    let found = find(store, &parent, name)?;
    let inode = store.inode_at(NodeId(found.entry.ino.get()))?;
    expect_removable(store, &inode)?;
    take_name(store, directory, &inode, &found)
}

/// Removes a name during recovery, ignoring the flags that inode and directory had at the
/// checkpoint; a directory must be empty. Errors: `NotFound`, `Corrupt`, `Device`.
pub fn unlink_unasked<S: InodeStore + ?Sized>(store: &mut S, directory: NodeId, name: &[u8]) -> Result<()> {
    store.prepare()?;
    let found = find(store, &store.inode_at(directory)?, name)?;
    let inode = store.inode_at(NodeId(found.entry.ino.get()))?;
    take_name(store, directory, &inode, &found)
}

fn take_name<S: InodeStore + ?Sized>(store: &mut S, directory: NodeId, inode: &Inode, found: &Position) -> Result<()> {
    let leaving = prepare_to_leave(store, inode)?;
    remove(store, directory, found)?;
    if inode.kind == FileKind::Directory {
        add_links(store, directory, -1)?;
    }
    leave(store, inode, leaving)
}

/// Checks that an inode may lose its name. Errors: `NotEmpty`, `ReadOnly` (it is immutable).
pub(super) fn expect_removable<S: InodeStore + ?Sized>(store: &S, inode: &Inode) -> Result<()> {
    expect_mutable(inode)?;
    if inode.kind == FileKind::Directory && !store.is_empty_directory(inode)? {
        return Err(FsError::new(ErrorKind::NotEmpty, format!("directory {} has entries", inode.nid.0)));
    }
    Ok(())
}

/// What happens to an inode that loses a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It has other names.
    Stays,
    /// It stays alive without a name.
    Orphan,
    /// It is freed.
    Goes,
}

/// Decides what losing a name means, and records an orphan first, since that may fail. Errors:
/// `NoSpace`.
pub(super) fn prepare_to_leave<S: InodeStore + ?Sized>(store: &mut S, inode: &Inode) -> Result<Leaving> {
    if inode.kind != FileKind::Directory && inode.head.links.get() > 1 {
        return Ok(Leaving::Stays);
    }
    if !store.state().is_retained(inode.nid) {
        return Ok(Leaving::Goes);
    }
    store.set_orphan(inode.nid, true)?;
    Ok(Leaving::Orphan)
}

/// Applies the loss of a name to an inode. Errors: `Corrupt`, `Device`.
pub(super) fn leave<S: InodeStore + ?Sized>(store: &mut S, inode: &Inode, leaving: Leaving) -> Result<()> {
    if leaving == Leaving::Goes {
        return store.free_inode(inode.nid);
    }
    let now = store.now();
    edit_head(store, inode.nid, &mut |head| {
        let left = if leaving == Leaving::Stays { head.links.get().saturating_sub(1) } else { 0 };
        head.links = left.into();
        if inode.kind == FileKind::Directory {
            // As in dir.c, `f2fs_drop_nlink`.
            head.size = 0.into();
        }
        set_changed(head, now);
    })
}

/// Keeps an inode alive when it loses its names. Errors: `NotFound` (it has none and is not
/// retained), `Corrupt`, `Device`.
pub fn retain<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId) -> Result<()> {
    store.inode_at(ino)?;
    store.state().retain(ino);
    Ok(())
}

/// Undoes one [`retain`]; the last one frees an inode without a name. Errors: `InvalidArgument` (it
/// is not retained), `Corrupt`, `Device`.
pub fn release<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId) -> Result<()> {
    let inode = store.inode_at(ino)?;
    if store.state().release(ino)? && inode.head.links.get() == 0 {
        store.set_orphan(ino, false)?;
        return store.free_inode(ino);
    }
    Ok(())
}
