//! Assigns directory slots to names as Linux would (f2fs.md, "Directories", "Levels"), without
//! building blocks.

use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::directory::levels::{LEVELS_MAX, bucket_blocks, buckets};

/// 64-bit words for the 214 slots of a 4 KiB block.
const WORDS: usize = 4;
/// Slots of a 4 KiB block.
const SLOTS: u32 = 214;

/// The location of an entry in its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryAddress {
    /// The page of the directory; 0 for inline entries.
    pub page: u32,
    /// The first slot in the page, or in the inode for inline entries.
    pub slot: u16,
}

/// The used slots of one directory block.
#[derive(Clone, Copy, Debug)]
struct BlockMap {
    used: [u64; WORDS],
    /// An upper bound of the longest free run, so that full blocks are skipped quickly.
    longest: u8,
}

/// The used slots of one directory while names are added.
#[derive(Debug, Default)]
pub struct NamePlaces {
    /// Levels in use, each with its first page and its blocks.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    start: u64,
    blocks: Vec<BlockMap>,
}

impl BlockMap {
    const EMPTY: Self = Self { used: [0; WORDS], longest: SLOTS as u8 };

    const fn is_used(&self, slot: u32) -> bool {
        self.used[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Takes `slots` adjacent free slots; returns the first.
    fn take(&mut self, slots: u32) -> Option<u16> {
        if slots > u32::from(self.longest) {
            return None;
        }
        let (mut run, mut longest) = (0, 0);
        for slot in 0..SLOTS {
            run = if self.is_used(slot) { 0 } else { run + 1 };
            longest = longest.max(run);
            if run == slots {
                let first = slot + 1 - slots;
                (first..=slot).for_each(|slot| self.used[(slot / 64) as usize] |= 1 << (slot % 64));
                return Some(first as u16);
            }
        }
        self.longest = longest as u8;
        None
    }
}

impl NamePlaces {
    /// A directory of one block whose first two slots hold `.` and `..`.
    pub fn new() -> Result<Self> {
        let mut places = Self::default();
        places.put(0, 2)?;
        Ok(places)
    }

    /// Assigns slots to a name with this hash. Errors: `NoSpace` (63 levels are full).
    pub fn put(&mut self, hash: u32, slots: u32) -> Result<EntryAddress> {
        for number in 0..LEVELS_MAX {
            if self.levels.len() == number as usize {
                self.add_level(number);
            }
            let Some(level) = self.levels.get_mut(number as usize) else { break };
            let per_bucket = bucket_blocks(number);
            let first = u64::from(hash) % buckets(number, 0) * per_bucket;
            for block in first..first + per_bucket {
                let index = block as usize;
                if level.blocks.len() <= index {
                    level.blocks.resize(index + 1, BlockMap::EMPTY);
                }
                let taken = level.blocks.get_mut(index).and_then(|block| block.take(slots));
                if let (Some(slot), Ok(page)) = (taken, u32::try_from(level.start + block)) {
                    return Ok(EntryAddress { page, slot });
                }
            }
        }
        Err(FsError::new(ErrorKind::NoSpace, format!("every bucket of hash {hash:#x} is full in all levels")))
    }

    fn add_level(&mut self, number: u32) {
        let start = match number.checked_sub(1).and_then(|last| self.levels.get(last as usize).map(|l| (last, l))) {
            Some((last, level)) => level.start + buckets(last, 0) * bucket_blocks(last),
            None => 0,
        };
        self.levels.push(Level { start, blocks: Vec::new() });
    }

    /// The number of levels.
    pub fn depth(&self) -> u32 {
        self.levels.len() as u32
    }

    /// The pages that hold names, ascending; all others are holes.
    pub fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        let used = |block: &BlockMap| block.used != BlockMap::EMPTY.used;
        let of_level = move |level: &Level| {
            let start = level.start;
            let pages = level.blocks.iter().enumerate().filter(move |(_, block)| used(block));
            pages.map(|(index, _)| start as u32 + index as u32).collect::<Vec<_>>()
        };
        self.levels.iter().flat_map(of_level)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::directory::{DirectoryPages, hash, place};
    use crate::encode::directory::{put_dots, put_entry};
    use crate::ids::{Block, NodeId};
    use crate::layout::DentryRoom;
    use crate::layout::dentry::slots_of;
    use nandkit_vfs::FileKind;

    #[derive(Default)]
    struct Pages(RefCell<BTreeMap<u32, Vec<u8>>>);

    impl DirectoryPages for Pages {
        fn page(&self, page: u32) -> Result<Option<Block>> {
            Ok(self.0.borrow().get(&page).map(|bytes| Arc::from(&bytes[..])))
        }
    }

    #[test]
    fn names_go_where_the_directory_itself_would_put_them() {
        assert_eq!(SLOTS as usize, DentryRoom::of(4096).slots);
        let pages = Pages::default();
        let mut first = vec![0; 4096];
        put_dots(&mut first, NodeId(3), NodeId(3));
        pages.0.borrow_mut().insert(0, first);
        let mut ours = NamePlaces::new().unwrap();
        let mut depth = 1;
        for number in 0..6000_usize {
            let name = format!("{number}{}", "x".repeat(number * 7 % 250));
            let (hash, slots) = (hash(name.as_bytes()), slots_of(name.len()));
            let expected = place(&pages, hash, slots as u8, depth, 0).unwrap();
            depth = expected.depth;
            let found = ours.put(hash, slots as u32).unwrap();
            assert_eq!((found.page, found.slot, ours.depth()), (expected.page, expected.slot, depth), "{name}");
            let mut pages = pages.0.borrow_mut();
            let block = pages.entry(found.page).or_insert_with(|| vec![0; 4096]);
            put_entry(block, usize::from(found.slot), hash, name.as_bytes(), NodeId(9), FileKind::Regular);
        }
        assert!(ours.pages().eq(pages.0.borrow().keys().copied()));
        assert!(depth > 4);
    }
}
