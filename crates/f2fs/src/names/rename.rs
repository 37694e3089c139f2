//! Rename and exchange (namei.c, `f2fs_rename`, `f2fs_cross_rename`).

use std::collections::BTreeSet;

use nandkit_vfs::{ErrorKind, FileKind, FsError, RenameFlags, Result};

use super::area::NewEntry;
use super::entries::{check_name, expect_plain, find_parent, hash_of_new, insert, make_room, remove, retarget};
use super::links::{
    add_links, expect_mutable, expect_project, expect_removable, fails, find, leave, open_directory, prepare_to_leave,
};
use super::store::{InodeStore, edit_head, set_changed};
use crate::encode::inode::set_name;
use crate::findings::{Defect, FindingKind};
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::InodeHead;
use crate::layout::inode::advise;

/// A directory and a name in it.
pub type NameInDirectory<'a> = (NodeId, &'a [u8]);

/// Renames or moves an inode, as in POSIX and renameat2(2).
///
/// Errors: `NotFound`, `Exists`, `NotEmpty`, `IsADirectory`, `NotADirectory`, `InvalidArgument` (a
/// directory into itself), `InvalidName`, `NameTooLong`, `NotSupported` (an encrypted directory),
/// `CrossDevice` (the directory passes on another project), `NoSpace`, `Corrupt`, `Device`.
pub fn rename<S: InodeStore + ?Sized>(
    store: &mut S,
    from: NameInDirectory<'_>,
    to: NameInDirectory<'_>,
    flags: RenameFlags,
) -> Result<()> {
    store.prepare()?;
    let (source, target) = (open_directory(store, from.0)?, open_directory(store, to.0)?);
    check_name(to.1)?;
    expect_plain(&source)?;
    expect_plain(&target)?;
    let moved = find(store, &source, from.1)?;
    let mut moved = store.inode_at(NodeId(moved.entry.ino.get()))?;
    expect_mutable(&moved)?;
    let other = store.find_entry(&target, to.1)?;
    let same = from.0 == to.0 && other.is_some_and(|other| find(store, &source, from.1).is_ok_and(|f| f == other));
    expect_no_circle(store, &moved, from.0, to.0)?;
    expect_dots(store, &moved, from.0, to.0)?;
    expect_project(store, &target, &moved)?;
    let Some(other) = other else {
        return match flags {
            RenameFlags::Exchange => Err(fails(ErrorKind::NotFound, to.1, &target)),
            _ => to_new_name(store, &moved, from, to),
        };
    };
    if flags == RenameFlags::NoReplace {
        return Err(fails(ErrorKind::Exists, to.1, &target));
    }
    if same || NodeId(other.entry.ino.get()) == moved.nid {
        return Ok(());
    }
    if flags == RenameFlags::Replace && moved.kind == FileKind::Regular {
        store.bring_content(moved.nid)?;
        moved = store.inode_at(moved.nid)?;
    }
    let other = store.inode_at(NodeId(other.entry.ino.get()))?;
    match flags {
        RenameFlags::Exchange => {
            expect_mutable(&other)?;
            expect_no_circle(store, &other, to.0, from.0)?;
            expect_dots(store, &other, to.0, from.0)?;
            expect_project(store, &source, &other)?;
            exchange(store, (&moved, from), (&other, to))
        }
        _ => over(store, &moved, &other, from, to),
    }
}

/// Checks that a directory does not move below itself. Errors: `InvalidArgument`, `Corrupt`. Cost:
/// the path up from the new directory.
fn expect_no_circle<S: InodeStore + ?Sized>(store: &S, moved: &Inode, from: NodeId, to: NodeId) -> Result<()> {
    if moved.kind != FileKind::Directory || from == to && moved.nid != to {
        return Ok(());
    }
    let (mut at, mut seen) = (to, BTreeSet::new());
    while at != NodeId::ROOT {
        if at == moved.nid {
            let detail = format!("directory {} cannot be moved into itself", moved.nid.0);
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        if !seen.insert(at) {
            let detail = format!("the path up from directory {} is a cycle", to.0);
            return Err(Defect::new(FindingKind::Directory, detail).of(to).into_error());
        }
        at = NodeId(find_parent(store, &store.inode_at(at)?)?.entry.ino.get());
    }
    Ok(())
}

/// Checks that a directory that moves has a `..` entry. Errors: `Corrupt`, before any change.
fn expect_dots<S: InodeStore + ?Sized>(store: &S, moved: &Inode, from: NodeId, to: NodeId) -> Result<()> {
    if moved.kind == FileKind::Directory && from != to {
        find_parent(store, moved)?;
    }
    Ok(())
}

/// Renames an inode to a free name in the same directory during recovery, ignoring the flags that
/// both had at the checkpoint. Errors: `NotFound`, `NoSpace`, `Corrupt`, `Device`.
pub fn rename_unasked<S: InodeStore + ?Sized>(
    store: &mut S,
    directory: NodeId,
    (from, to): (&[u8], &[u8]),
) -> Result<()> {
    store.prepare()?;
    let found = find(store, &store.inode_at(directory)?, from)?;
    let moved = store.inode_at(NodeId(found.entry.ino.get()))?;
    to_new_name(store, &moved, (directory, from), (directory, to))
}

/// Renames to a free name.
fn to_new_name<S: InodeStore + ?Sized>(
    store: &mut S,
    moved: &Inode,
    from: NameInDirectory<'_>,
    to: NameInDirectory<'_>,
) -> Result<()> {
    let hash = hash_of_new(store.geometry(), &store.inode_at(to.0)?, to.1)?;
    let room = make_room(store, to.0, hash, to.1)?;
    insert(store, to.0, room, &NewEntry { hash, name: to.1, ino: moved.nid, kind: moved.kind })?;
    // Making room may have moved the old entry.
    let old = find(store, &store.inode_at(from.0)?, from.1)?;
    remove(store, from.0, &old)?;
    if moved.kind == FileKind::Directory && from.0 != to.0 {
        add_links(store, from.0, -1)?;
        add_links(store, to.0, 1)?;
    }
    arrive(store, moved, from.0, to.0, &mut |head| {
        head.parent = to.0.0.into();
        set_name(head, to.1);
    })
}

/// Renames over the name of another inode, which loses it.
fn over<S: InodeStore + ?Sized>(
    store: &mut S,
    moved: &Inode,
    other: &Inode,
    from: NameInDirectory<'_>,
    to: NameInDirectory<'_>,
) -> Result<()> {
    let told = |kind| FsError::new(kind, String::from_utf8_lossy(to.1).into_owned());
    match (moved.kind == FileKind::Directory, other.kind == FileKind::Directory) {
        (true, false) => return Err(told(ErrorKind::NotADirectory)),
        (false, true) => return Err(told(ErrorKind::IsADirectory)),
        _ => {}
    }
    expect_removable(store, other)?;
    let leaving = prepare_to_leave(store, other)?;
    let entry = find(store, &store.inode_at(to.0)?, to.1)?;
    retarget(store, to.0, &entry, moved.nid, moved.kind)?;
    let old = find(store, &store.inode_at(from.0)?, from.1)?;
    remove(store, from.0, &old)?;
    if moved.kind == FileKind::Directory {
        add_links(store, from.0, -1)?;
    }
    // i_name and a file's parent stay as they were (f2fs.md, "What is easy to get wrong").
    let parent = to.0.0;
    arrive(store, moved, from.0, to.0, &mut |head| {
        if moved.kind == FileKind::Directory {
            head.parent = parent.into();
        }
    })?;
    leave(store, other, leaving)
}

/// Exchanges the names of two inodes.
fn exchange<S: InodeStore + ?Sized>(
    store: &mut S,
    (one, from): (&Inode, NameInDirectory<'_>),
    (other, to): (&Inode, NameInDirectory<'_>),
) -> Result<()> {
    let first = find(store, &store.inode_at(from.0)?, from.1)?;
    let second = find(store, &store.inode_at(to.0)?, to.1)?;
    retarget(store, from.0, &first, other.nid, other.kind)?;
    retarget(store, to.0, &second, one.nid, one.kind)?;
    // In the last checkpoint the name is a directory's: roll-forward of a file that is fsynced
    // there later must not meet it (`needs_checkpoint`).
    match (one.kind == FileKind::Directory, other.kind == FileKind::Directory) {
        (true, false) => store.lost_name(from.0, true),
        (false, true) => store.lost_name(to.0, true),
        _ => {}
    }
    if from.0 != to.0 {
        let directory = |inode: &Inode| i32::from(inode.kind == FileKind::Directory);
        let change = directory(one) - directory(other);
        if change != 0 {
            add_links(store, from.0, -change)?;
            add_links(store, to.0, change)?;
        }
    }
    for (inode, source, target) in [(one, from.0, to.0), (other, to.0, from.0)] {
        arrive(store, inode, source, target, &mut |head| {
            if inode.kind == FileKind::Directory {
                head.parent = target.0.into();
            }
        })?;
    }
    Ok(())
}

/// Updates the new directory and the moved inode: a directory gets a new `..`; for other inodes the
/// recorded name is marked as unreliable.
fn arrive<S: InodeStore + ?Sized>(
    store: &mut S,
    moved: &Inode,
    from: NodeId,
    to: NodeId,
    more: &mut dyn FnMut(&mut InodeHead),
) -> Result<()> {
    let now = store.now();
    store.lost_name(to, false);
    if moved.kind == FileKind::Directory && from != to {
        let parent = find_parent(store, &store.inode_at(moved.nid)?)?;
        let times = store.inode_at(moved.nid)?.head;
        retarget(store, moved.nid, &parent, to, FileKind::Directory)?;
        // The modification time of the moved directory is not to change.
        edit_head(store, moved.nid, &mut |head| {
            (head.modified, head.modified_ns) = (times.modified, times.modified_ns);
        })?;
    }
    edit_head(store, moved.nid, &mut |head| {
        if moved.kind != FileKind::Directory {
            head.advise |= advise::LOST_PARENT;
        }
        more(head);
        set_changed(head, now);
    })
}
