//! Changes an area of entries: a directory block, or the inline part of an inode (f2fs.md,
//! "Directories").

use std::mem::offset_of;

use nandkit_vfs::FileKind;

use crate::bits::lsb_first;
use crate::encode::directory::put_entry;
use crate::encode::put;
use crate::ids::NodeId;
use crate::layout::dentry::{Dentry, SLOT_BYTES, Slot, slots_of, type_of};
use crate::layout::{DentryArea, DentryRoom};

/// A new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// The hash of the name, by the directory's rule.
    pub hash: u32,
    /// The name as stored, 1 to 255 bytes.
    pub name: &'a [u8],
    /// The inode's number.
    pub ino: NodeId,
    /// The kind of file.
    pub kind: FileKind,
}

/// Puts an entry into the first long enough run of free slots, as Linux does (dir.c,
/// `f2fs_room_for_filename`). Returns its first slot, or `None`, with nothing changed, if there is
/// no room.
pub fn insert(area: &mut [u8], entry: &NewEntry<'_>) -> Option<usize> {
    let slot = DentryArea::new(area).free_run(slots_of(entry.name.len()))?;
    put_entry(area, slot, entry.hash, entry.name, entry.ino, entry.kind);
    Some(slot)
}

/// Removes the entry that starts in a slot: clears its bits and leaves its bytes (dir.c,
/// `f2fs_delete_entry`). Returns whether there was one.
pub fn remove(area: &mut [u8], slot: usize) -> bool {
    let view = DentryArea::new(area);
    let Some(Slot::Entry(entry)) = view.slot(slot) else { return false };
    let (slots, bitmap) = (slot..slot + slots_of(entry.name.len()), view.room().bitmap);
    if let Some(bitmap) = area.get_mut(..bitmap) {
        slots.for_each(|slot| lsb_first::set(bitmap, slot, false));
    }
    true
}

/// Makes the entry that starts in a slot refer to another inode; name and hash stay (dir.c,
/// `f2fs_set_link`). Returns whether there was one.
pub fn retarget(area: &mut [u8], slot: usize, ino: NodeId, kind: FileKind) -> bool {
    let view = DentryArea::new(area);
    if !matches!(view.slot(slot), Some(Slot::Entry(_))) {
        return false;
    }
    let at = view.room().entries + slot * size_of::<Dentry>();
    put(area, at + offset_of!(Dentry, ino), &ino.0.to_le_bytes());
    put(area, at + offset_of!(Dentry, file_type), &[type_of(kind)]);
    true
}

/// Whether no slot is in use; such a block is freed (dir.c, `f2fs_delete_entry`).
pub fn is_unused(area: &[u8]) -> bool {
    let room = DentryRoom::of(area.len());
    !area.get(..room.bitmap).is_some_and(|bitmap| (0..room.slots).any(|slot| lsb_first::get(bitmap, slot)))
}

/// Whether there are no entries except `.` and `..`.
#[cfg(test)]
fn is_empty(area: &[u8]) -> bool {
    DentryArea::new(area).slots_from(0).all(|slot| matches!(slot, Slot::Entry(entry) if entry.is_dots()))
}

/// The first block of a directory whose entries were inline: each keeps its slot (inline.c,
/// `f2fs_move_inline_dirents`). Only for directories with one bucket in level 0.
pub fn first_block(inline: &[u8], block_size: usize) -> Vec<u8> {
    let (from, to) = (DentryRoom::of(inline.len()), DentryRoom::of(block_size));
    let mut block = vec![0; block_size];
    let part = |start: usize, length: usize| inline.get(start..start + length).unwrap_or_default();
    put(&mut block, 0, part(0, from.bitmap));
    put(&mut block, to.entries, part(from.entries, from.slots * size_of::<Dentry>()));
    put(&mut block, to.names, part(from.names, from.slots * SLOT_BYTES));
    block
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nandkit_units::random::Random;

    use super::*;
    use crate::directory::{find_in, hash};
    use crate::encode::directory::put_dots;

    type Model = BTreeMap<Vec<u8>, (u32, FileKind)>;

    const KINDS: [FileKind; 3] = [FileKind::Regular, FileKind::Directory, FileKind::Symlink];

    fn find(area: &[u8], name: &[u8]) -> Option<usize> {
        find_in(DentryArea::new(area), 0, hash(name), &|found| found == name).map(|found| found.slot.into())
    }

    fn assert_reads(area: &[u8], model: &Model) {
        let mut found = Model::new();
        for slot in DentryArea::new(area).slots_from(0) {
            let Slot::Entry(entry) = slot else { panic!("{slot:?}") };
            if entry.is_dots() {
                continue;
            }
            assert_eq!(entry.dentry.hash.get(), hash(entry.name));
            let kind = crate::layout::dentry::kind_of(entry.dentry.file_type).unwrap();
            assert!(found.insert(entry.name.to_vec(), (entry.ino().0, kind)).is_none());
            assert_eq!(find(area, entry.name), Some(entry.slot));
        }
        assert_eq!(&found, model);
        let used = (0..DentryRoom::of(area.len()).slots).filter(|&slot| DentryArea::new(area).is_used(slot)).count();
        assert_eq!(used, 2 + model.keys().map(|name| slots_of(name.len())).sum::<usize>());
        assert_eq!(is_empty(area), model.is_empty());
    }

    #[test]
    fn changes_are_those_of_a_map() {
        for (bytes, seed) in [(4096, 1), (3452, 2), (3488, 3), (16_384, 4)] {
            let mut random = Random::new(seed, "names");
            let (mut area, mut model) = (vec![0; bytes], Model::new());
            put_dots(&mut area, NodeId(9), NodeId(3));
            let mut full = 0;
            for step in 0..3000_u32 {
                let number = random.below(200);
                let name = format!("{number}{}", "n".repeat(number as usize * 13 % 253)).into_bytes();
                let kind = KINDS[random.below(3) as usize];
                let grows = step / 500 % 2 == 0;
                match (find(&area, &name), random.below(4)) {
                    (None, choice) if grows || choice == 0 => {
                        let before = area.clone();
                        let entry = NewEntry { hash: hash(&name), name: &name, ino: NodeId(step), kind };
                        match insert(&mut area, &entry) {
                            Some(_) => assert!(model.insert(name, (step, kind)).is_none()),
                            None => {
                                full += 1;
                                assert_eq!(before, area);
                            }
                        }
                    }
                    (None, _) => assert!(!model.contains_key(&name)),
                    (Some(slot), choice) if grows && choice > 0 => {
                        assert!(retarget(&mut area, slot, NodeId(step), kind));
                        model.insert(name, (step, kind));
                    }
                    (Some(slot), _) => {
                        assert!(remove(&mut area, slot));
                        assert!(model.remove(&name).is_some());
                    }
                }
                assert_reads(&area, &model);
            }
            assert!(full > 20 && !is_unused(&area), "{full}");
            while let Some(name) = model.keys().next().cloned() {
                let slot = find(&area, &name).unwrap();
                assert!(remove(&mut area, slot));
                model.remove(&name);
            }
            assert!(is_empty(&area) && remove(&mut area, 0) && remove(&mut area, 1) && is_unused(&area));
            assert!(!remove(&mut area, 0) && !retarget(&mut area, 1, NodeId(4), FileKind::Fifo));
        }
    }

    #[test]
    fn further_slots_of_a_name_hold_no_entry_of_before() {
        let mut area = vec![0; 4096];
        for slot in 0..4 {
            put_entry(&mut area, slot, 5, b"short", NodeId(9), FileKind::Regular);
        }
        (0..4).for_each(|slot| assert!(remove(&mut area, slot)));
        let entry = NewEntry { hash: 7, name: b"a name of four slots in all", ino: NodeId(4), kind: FileKind::Regular };
        assert_eq!(insert(&mut area, &entry), Some(0));
        for slot in 1..4 {
            assert_eq!(DentryArea::new(&area).dentry(slot).unwrap().name_length.get(), 0);
        }
    }

    #[test]
    fn inline_entries_keep_their_slots_in_the_first_block() {
        for bytes in [3452, 3488, 3688] {
            let mut inline = vec![0; bytes];
            put_dots(&mut inline, NodeId(9), NodeId(3));
            let mut number = 0;
            loop {
                let name = format!("{number}{}", "n".repeat(number * 5 % 40)).into_bytes();
                let entry =
                    NewEntry { hash: hash(&name), name: &name, ino: NodeId(number as u32), kind: FileKind::Regular };
                if insert(&mut inline, &entry).is_none() {
                    break;
                }
                number += 1;
            }
            let block = first_block(&inline, 4096);
            let all = |area| DentryArea::new(area).slots_from(0).map(|slot| format!("{slot:?}")).collect::<Vec<_>>();
            assert_eq!(all(&inline), all(&block));
            assert!(number > 20);
        }
    }
}
