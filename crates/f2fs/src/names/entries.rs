//! Entries of a directory, in its inode or in its pages (f2fs.md, "Directories").

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::area::{self, NewEntry};
use super::store::{InodeStore, edit_head, set_modified};
use crate::directory::{DirectoryPages, Placement, Position, casefold, find_hashed, find_in, hash, place};
use crate::encode::put;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::{Slot, kind_of, slots_of, type_of};
use crate::layout::inode::inline;
use crate::layout::{DentryArea, Geometry, NAME_MAX};

/// The pages of a directory in a store.
struct Pages<'a, S: ?Sized> {
    store: &'a S,
    directory: &'a Inode,
}

impl<S: InodeStore + ?Sized> DirectoryPages for Pages<'_, S> {
    fn page(&self, page: u32) -> Result<Option<Block>> {
        self.store.directory_page(self.directory, page)
    }
}

/// Room for one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// In the inode.
    Inline,
    /// In a page.
    Page {
        /// Placement of the new entry.
        at: Placement,
        /// Whether the page was a hole and got a block for the entry.
        new: bool,
    },
}

/// Checks the name of a new entry. Errors: `InvalidName`, `NameTooLong`.
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        let detail = "names must not be empty, . or .., and must not contain / or NUL";
        return Err(FsError::new(ErrorKind::InvalidName, detail));
    }
    if name.len() > NAME_MAX {
        let detail = format!("a name of {} bytes; at most {NAME_MAX}", name.len());
        return Err(FsError::new(ErrorKind::NameTooLong, detail));
    }
    Ok(())
}

/// The hash of a new name in a directory. Errors: `NotSupported` (an encrypted directory; in a
/// casefolded one, a name that Linux and fsck.f2fs hash differently), `InvalidName` (in a
/// casefolded directory, if the volume refuses names that cannot be folded).
pub fn hash_of_new(geometry: &Geometry, directory: &Inode, name: &[u8]) -> Result<u32> {
    expect_plain(directory)?;
    if !directory.is_casefolded() {
        return Ok(hash(name));
    }
    match casefold::fold(name) {
        Some(folded) => Ok(hash(&folded)),
        None if geometry.strict_names => {
            let detail = format!(
                "directory {} compares names without case, and the volume's encoding is strict: names are UTF-8 of Unicode 12.1, at most 254 bytes when folded",
                directory.nid.0
            );
            Err(FsError::new(ErrorKind::InvalidName, detail))
        }
        // Linux hashes such a name by its bytes; fsck.f2fs folds it nevertheless and reports
        // Linux's hash as wrong.
        None if std::str::from_utf8(name).is_ok() => {
            let detail = format!(
                "a name that Linux does not fold (a character later than Unicode 12.1, or over 254 bytes when folded) in directory {}, which compares names without case",
                directory.nid.0
            );
            Err(FsError::new(ErrorKind::NotSupported, detail))
        }
        None => Ok(hash(name)),
    }
}

/// Refuses an encrypted directory: its names cannot be made without its key. Errors:
/// `NotSupported`.
pub fn expect_plain(directory: &Inode) -> Result<()> {
    if directory.is_encrypted() {
        let detail = format!("directory {} is encrypted; its names cannot be changed without the key", directory.nid.0);
        return Err(FsError::new(ErrorKind::NotSupported, detail));
    }
    Ok(())
}

/// Finds the entry `..`. Errors: `Corrupt` (there is none), `Device`.
pub fn find_parent<S: InodeStore + ?Sized>(store: &S, directory: &Inode) -> Result<Position> {
    find_by(store, directory, 0, &|found| found == b"..")?.ok_or_else(|| {
        let what = format!("directory {} has no entry ..", directory.nid.0);
        Defect::new(FindingKind::Directory, what).of(directory.nid).into_error()
    })
}

/// Finds the entry with this hash whose name matches. Errors: `Corrupt`, `Device`. Cost: two pages
/// per level.
pub fn find_by<S: InodeStore + ?Sized>(
    store: &S,
    directory: &Inode,
    hash: u32,
    is_it: &dyn Fn(&[u8]) -> bool,
) -> Result<Option<Position>> {
    match directory.inline_entries() {
        Some(area) => Ok(find_in(DentryArea::new(area), 0, hash, is_it)),
        None => {
            let head = &directory.head;
            find_hashed(&Pages { store, directory }, hash, is_it, head.depth.get(), head.directory_level)
        }
    }
}

/// Reserves room for an entry where Linux would put it, so that inserting it cannot fail for lack
/// of room. Errors: `NoSpace`, `FileTooBig`, `Corrupt`, `Device`.
pub fn make_room<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, hash: u32, name: &[u8]) -> Result<Room> {
    let slots = slots_of(name.len());
    let mut directory = store.inode_at(ino)?;
    if let Some(area) = directory.inline_entries() {
        if DentryArea::new(area).free_run(slots).is_some() {
            return Ok(Room::Inline);
        }
        move_to_pages(store, &directory)?;
        directory = store.inode_at(ino)?;
    }
    let head = &directory.head;
    let pages = Pages { store: &*store, directory: &directory };
    // At most 32 slots.
    let at = place(&pages, hash, slots as u8, head.depth.get(), head.directory_level)?;
    let new = pages.page(at.page)?.is_none();
    if new {
        store.edit_page(ino, at.page, &mut |_| {})?;
    }
    Ok(Room::Page { at, new })
}

/// Returns unneeded room. Errors: `Corrupt`, `Device`.
pub fn give_back<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, room: Room) -> Result<()> {
    match room {
        Room::Page { at, new: true } => store.drop_page(ino, at.page),
        _ => Ok(()),
    }
}

/// Puts an entry into the reserved room and updates the directory's times. Errors: `Corrupt`,
/// `Device`.
pub fn insert<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, room: Room, entry: &NewEntry<'_>) -> Result<()> {
    let mut done = false;
    let depth = match room {
        Room::Inline => {
            let place = store.inode_at(ino)?.shape.inline;
            store.edit_inode(ino, &mut |block| {
                done = block.get_mut(place.clone()).and_then(|area| area::insert(area, entry)).is_some();
            })?;
            // As in Linux; it means nothing while the entries are inline (inline.c,
            // `f2fs_add_inline_entry`).
            0
        }
        Room::Page { at, .. } => {
            store.edit_page(ino, at.page, &mut |page| done = area::insert(page, entry).is_some())?;
            at.depth
        }
    };
    if !done {
        let detail = format!("room for an entry of directory {} is gone", ino.0);
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    }
    let now = store.now();
    edit_head(store, ino, &mut |head| {
        head.depth = depth.into();
        set_modified(head, now);
    })
}

/// Removes an entry, frees a page without entries, and updates the directory's times. Errors:
/// `Corrupt`, `Device`.
pub fn remove<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId, position: &Position) -> Result<()> {
    let mut unused = false;
    let slot = usize::from(position.slot);
    edit_area(store, ino, position.page, &mut |area| {
        area::remove(area, slot);
        unused = area::is_unused(area);
    })?;
    store.lost_name(ino, position.entry.file_type == type_of(FileKind::Directory));
    if unused && store.inode_at(ino)?.inline_entries().is_none() {
        store.drop_page(ino, position.page)?;
    }
    touch(store, ino)
}

/// Makes an entry refer to another inode and updates the directory's times. Errors: `Corrupt`,
/// `Device`.
pub fn retarget<S: InodeStore + ?Sized>(
    store: &mut S,
    ino: NodeId,
    position: &Position,
    to: NodeId,
    kind: FileKind,
) -> Result<()> {
    let slot = usize::from(position.slot);
    edit_area(store, ino, position.page, &mut |area| {
        area::retarget(area, slot, to, kind);
    })?;
    touch(store, ino)
}

/// Updates the times of a directory whose entries changed.
fn touch<S: InodeStore + ?Sized>(store: &mut S, ino: NodeId) -> Result<()> {
    let now = store.now();
    edit_head(store, ino, &mut |head| set_modified(head, now))
}

fn edit_area<S: InodeStore + ?Sized>(
    store: &mut S,
    ino: NodeId,
    page: u32,
    change: &mut dyn FnMut(&mut [u8]),
) -> Result<()> {
    let directory = store.inode_at(ino)?;
    if directory.inline_entries().is_none() {
        return store.edit_page(ino, page, change);
    }
    let place = directory.shape.inline;
    store.edit_inode(ino, &mut |block| {
        if let Some(area) = block.get_mut(place.clone()) {
            change(area);
        }
    })
}

/// Moves entries from the inode into pages (inline.c, `f2fs_convert_inline_dir`). If level 0 has
/// one bucket, each entry keeps its slot, and a listing in progress its position; with more
/// (`dir_level`) entries are rehashed, as in Linux, and such a listing may show an entry twice or
/// not at all. Errors: `NoSpace` (nothing has changed), `Corrupt`, `Device`.
fn move_to_pages<S: InodeStore + ?Sized>(store: &mut S, directory: &Inode) -> Result<()> {
    let ino = directory.nid;
    let size = store.geometry().block_size();
    let entries = directory.inline_entries().unwrap_or_default();
    let (pages, depth) = match directory.head.directory_level {
        0 => (BTreeMap::from([(0, area::first_block(entries, size))]), 1),
        _ => rehashed(entries, directory.head.directory_level, size)?,
    };
    let place = directory.shape.inline.clone();
    // The inline area becomes the addresses of further pages.
    edit_head(store, ino, &mut |head| {
        head.inline &= !inline::DENTRY;
        head.depth = depth.into();
    })?;
    store.edit_inode(ino, &mut |block| block.get_mut(place.clone()).unwrap_or_default().fill(0))?;
    for (number, content) in &pages {
        let copied = store.edit_page(ino, *number, &mut |page| put(page, 0, content));
        if let Err(error) = copied {
            // Pages past those in the inode have allocated nodes.
            store.drop_all_pages(ino)?;
            let saved = directory.head;
            edit_head(store, ino, &mut |head| {
                (head.inline, head.depth, head.size) = (saved.inline, saved.depth, saved.size);
            })?;
            store.edit_inode(ino, &mut |block| {
                put(block, place.start, entries);
            })?;
            return Err(error);
        }
    }
    Ok(())
}

/// Rehashes inline entries of a directory whose level 0 has several buckets; returns the pages and
/// the number of levels (inline.c, `f2fs_add_inline_entries`).
fn rehashed(entries: &[u8], directory_level: u8, block_size: usize) -> Result<(BTreeMap<u32, Vec<u8>>, u32)> {
    #[derive(Default)]
    struct New(RefCell<BTreeMap<u32, Vec<u8>>>);
    impl DirectoryPages for New {
        fn page(&self, page: u32) -> Result<Option<Block>> {
            Ok(self.0.borrow().get(&page).map(|bytes| Arc::from(&bytes[..])))
        }
    }
    let (pages, mut depth) = (New::default(), 1);
    for slot in DentryArea::new(entries).slots_from(0) {
        let Slot::Entry(entry) = slot else { continue };
        let stored = entry.dentry.hash.get();
        let at = place(&pages, stored, slots_of(entry.name.len()) as u8, depth, directory_level)?;
        depth = at.depth;
        let kind = kind_of(entry.dentry.file_type).unwrap_or(FileKind::Regular);
        let entry = NewEntry { hash: stored, name: entry.name, ino: entry.ino(), kind };
        area::insert(pages.0.borrow_mut().entry(at.page).or_insert_with(|| vec![0; block_size]), &entry);
    }
    Ok((pages.0.into_inner(), depth))
}
