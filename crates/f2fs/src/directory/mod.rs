//! Directories: maps names to inodes by hash and level.

pub mod casefold;
pub mod hash;
pub mod levels;
pub mod no_key;
mod reader;
mod unicode;

pub use hash::hash;
pub(crate) use reader::Directory;

use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::ids::Block;
use crate::layout::DentryArea;
use crate::layout::dentry::{Dentry, Slot};
use levels::{LEVELS_MAX, bucket_pages};

/// The pages of one directory.
pub trait DirectoryPages {
    /// A page; `None` for a hole. Errors: `Corrupt`, `Device`.
    fn page(&self, page: u32) -> Result<Option<Block>>;
}

/// The location of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Page of the directory; 0 for inline entries.
    pub page: u32,
    /// Its first slot.
    pub slot: u16,
    /// The entry without its name.
    pub entry: Dentry,
}

/// A free location for a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Page of the directory, which may be a hole.
    pub page: u32,
    /// The first free slot.
    pub slot: u16,
    /// The number of levels of the directory with the entry: unchanged or one more.
    pub depth: u32,
}

/// The first entry with this hash whose name matches, from level 0 on. Cost: two pages per level.
pub fn find_hashed(
    pages: &dyn DirectoryPages,
    hash: u32,
    is_it: &dyn Fn(&[u8]) -> bool,
    depth: u32,
    directory_level: u8,
) -> Result<Option<Position>> {
    for level in 0..depth.min(LEVELS_MAX) {
        let Some(bucket) = bucket_pages(level, directory_level, hash) else { break };
        for page in bucket {
            let Some(block) = pages.page(page)? else { continue };
            if let Some(position) = find_in(DentryArea::new(&block), page, hash, is_it) {
                return Ok(Some(position));
            }
        }
    }
    Ok(None)
}

/// Like [`find_hashed`], in one area. Compares hashes first, since nearly all differ.
pub fn find_in(area: DentryArea<'_>, page: u32, hash: u32, is_it: &dyn Fn(&[u8]) -> bool) -> Option<Position> {
    for slot in area.slots_with_hash(hash) {
        if let Some(Slot::Entry(entry)) = area.slot(slot)
            && is_it(entry.name)
            && !area.is_continued(slot)
        {
            return Some(Position { page, slot: slot as u16, entry: entry.dentry });
        }
    }
    None
}

/// Where Linux puts a new entry of `slots` slots: in the first bucket of its hash, from level 0 on,
/// that has a long enough run; else in a new level. Errors: `NoSpace` (63 levels are full).
pub fn place(pages: &dyn DirectoryPages, hash: u32, slots: u8, depth: u32, directory_level: u8) -> Result<Placement> {
    for level in 0..LEVELS_MAX {
        let Some(bucket) = bucket_pages(level, directory_level, hash) else { break };
        let depth = depth.max(level + 1);
        for page in bucket {
            let slot = match pages.page(page)? {
                None => Some(0),
                Some(block) => DentryArea::new(&block).free_run(usize::from(slots)),
            };
            if let Some(slot) = slot {
                return Ok(Placement { page, slot: slot as u16, depth });
            }
        }
    }
    Err(FsError::new(ErrorKind::NoSpace, format!("every bucket of hash {hash:#x} is full in all {LEVELS_MAX} levels")))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::bits::lsb_first;
    use crate::layout::DentryRoom;
    use crate::layout::dentry::{SLOT_BYTES, slots_of};
    use zerocopy::IntoBytes;

    #[derive(Default)]
    struct Pages(RefCell<BTreeMap<u32, Vec<u8>>>);

    impl DirectoryPages for Pages {
        fn page(&self, page: u32) -> Result<Option<Block>> {
            Ok(self.0.borrow().get(&page).map(|bytes| Arc::from(&bytes[..])))
        }
    }

    impl Pages {
        fn put(&self, at: Placement, name: &[u8], ino: u32) {
            let mut pages = self.0.borrow_mut();
            let block = pages.entry(at.page).or_insert_with(|| vec![0; 4096]);
            let (room, slot) = (DentryRoom::of(4096), usize::from(at.slot));
            let length = (name.len() as u16).into();
            let dentry = Dentry { hash: hash(name).into(), ino: ino.into(), name_length: length, file_type: 1 };
            let start = room.entries + slot * 11;
            block[start..start + 11].copy_from_slice(dentry.as_bytes());
            let start = room.names + slot * SLOT_BYTES;
            block[start..start + name.len()].copy_from_slice(name);
            (slot..slot + slots_of(name.len())).for_each(|slot| lsb_first::set(block, slot, true));
        }
    }

    #[test]
    fn what_is_placed_is_found() {
        let pages = Pages::default();
        let mut depth = 1;
        let names: Vec<String> =
            (0..5000).map(|number| format!("a name of number {number:->width$}", width = number % 40)).collect();
        for (ino, name) in names.iter().enumerate() {
            let at = place(&pages, hash(name.as_bytes()), slots_of(name.len()) as u8, depth, 0).unwrap();
            depth = at.depth;
            pages.put(at, name.as_bytes(), ino as u32);
        }
        assert!((4..8).contains(&depth), "{depth}");
        let find =
            |name: &[u8], depth, level| find_hashed(&pages, hash(name), &|found| found == name, depth, level).unwrap();
        for (ino, name) in names.iter().enumerate() {
            let found = find(name.as_bytes(), depth, 0).unwrap();
            assert_eq!(found.entry.ino.get(), ino as u32);
        }
        assert_eq!(find(b"another", depth, 0), None);
        assert_eq!(find(b"another", u32::MAX, 255), None);
    }
}
