//! Directory entries (f2fs.md, "Directories").

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::NAME_MAX;
use crate::bits::lsb_first;
use crate::ids::NodeId;
use nandkit_vfs::FileKind;

/// Bytes of a name per slot.
pub const SLOT_BYTES: usize = 8;

/// An entry without its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Dentry {
    /// The hash of the name.
    pub hash: U32,
    /// The inode's number.
    pub ino: U32,
    /// Length of the name in bytes.
    pub name_length: U16,
    /// The type, see [`kind_of`].
    pub file_type: u8,
}

/// Kinds by entry type, starting with 1.
const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Symlink,
];

/// The kind for an entry's type; `None` for an invalid type.
pub fn kind_of(file_type: u8) -> Option<FileKind> {
    KINDS.get(usize::from(file_type).checked_sub(1)?).copied()
}

/// The entry type for a kind.
pub fn type_of(kind: FileKind) -> u8 {
    KINDS.iter().position(|&known| known == kind).map_or(0, |index| index as u8 + 1)
}

/// The number of slots that a name takes.
pub const fn slots_of(name_length: usize) -> usize {
    name_length.div_ceil(SLOT_BYTES)
}

/// The layout of an area of entries; the same rule holds for blocks and inodes (f2fs.h,
/// `make_dentry_ptr_inline`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DentryRoom {
    /// The number of slots.
    pub slots: usize,
    /// Size of the bitmap in bytes.
    pub bitmap: usize,
    /// The offset of the entries.
    pub entries: usize,
    /// The offset of the names.
    pub names: usize,
}

impl DentryRoom {
    /// The layout of an area of `bytes` bytes.
    pub const fn of(bytes: usize) -> Self {
        let entry = size_of::<Dentry>() + SLOT_BYTES;
        let slots = bytes * 8 / (entry * 8 + 1);
        let entries = bytes - slots * entry;
        Self { slots, bitmap: slots.div_ceil(8), entries, names: entries + slots * size_of::<Dentry>() }
    }
}

/// An area of entries: a directory block, or the inline part of an inode.
#[derive(Clone, Copy, Debug)]
pub struct DentryArea<'a> {
    bytes: &'a [u8],
    room: DentryRoom,
}

/// An entry in its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its first slot.
    pub slot: usize,
    /// Its fixed part.
    pub dentry: Dentry,
    /// Its name as stored.
    pub name: &'a [u8],
}

/// The content of a used slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot<'a> {
    /// An entry.
    Entry(Entry<'a>),
    /// An entry whose name is empty, too long, or extends past the area.
    BadName(usize, Dentry),
}

impl Entry<'_> {
    /// The inode's number.
    pub fn ino(&self) -> NodeId {
        NodeId(self.dentry.ino.get())
    }

    /// Whether it is `.` or `..`.
    pub fn is_dots(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

impl<'a> DentryArea<'a> {
    /// Views a directory block, or the inline part of an inode.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, room: DentryRoom::of(bytes.len()) }
    }

    /// The layout of the area.
    pub const fn room(&self) -> DentryRoom {
        self.room
    }

    /// Whether a slot is used.
    pub fn is_used(&self, slot: usize) -> bool {
        slot < self.room.slots && self.bytes.get(..self.room.bitmap).is_some_and(|map| lsb_first::get(map, slot))
    }

    /// The fixed part in a slot, used or not; `None` past the last slot.
    pub fn dentry(&self, slot: usize) -> Option<Dentry> {
        let at = self.room.entries + slot * size_of::<Dentry>();
        (slot < self.room.slots)
            .then(|| Dentry::read_from_prefix(self.bytes.get(at..)?).ok().map(|(entry, _)| entry))?
    }

    /// The content of a used slot; `None` if it is free.
    pub fn slot(&self, slot: usize) -> Option<Slot<'a>> {
        if !self.is_used(slot) {
            return None;
        }
        let dentry = self.dentry(slot)?;
        let length = usize::from(dentry.name_length.get());
        if length == 0 || length > NAME_MAX || slot + slots_of(length) > self.room.slots {
            return Some(Slot::BadName(slot, dentry));
        }
        let at = self.room.names + slot * SLOT_BYTES;
        Some(Slot::Entry(Entry { slot, dentry, name: self.bytes.get(at..at + length)? }))
    }

    /// The used slots from `from` on, each entry once. A used slot without a name counts as one
    /// slot, as in Linux, which skips it.
    pub fn slots_from(&self, from: usize) -> impl Iterator<Item = Slot<'a>> + use<'a> {
        let area = *self;
        let mut next = from;
        std::iter::from_fn(move || {
            while next < area.room.slots {
                let slot = next;
                match area.slot(slot) {
                    None => next += 1,
                    Some(Slot::Entry(entry)) => {
                        next += slots_of(entry.name.len());
                        return Some(Slot::Entry(entry));
                    }
                    Some(bad) => {
                        next += 1;
                        return Some(bad);
                    }
                }
            }
            None
        })
    }

    /// The slots, used or not, that hold this hash. Entries fill the first gap, so the search ends
    /// at the last used slot.
    pub fn slots_with_hash(&self, hash: u32) -> impl Iterator<Item = usize> + use<'a> {
        let entries = self.bytes.get(self.room.entries..self.room.names).unwrap_or_default();
        let (entries, _) = entries.as_chunks::<{ size_of::<Dentry>() }>();
        let entries = entries.get(..self.slots_in_use()).unwrap_or(entries);
        let is_it = move |entry: &[u8; size_of::<Dentry>()]| {
            let [a, b, c, d, ..] = *entry;
            u32::from_le_bytes([a, b, c, d]) == hash
        };
        // Compares eight hashes at once without a branch: nearly all differ.
        let eights = entries.chunks(8).enumerate();
        let with_it = eights.filter(move |(_, eight)| eight.iter().fold(false, |any, entry| any | is_it(entry)));
        with_it.flat_map(move |(number, eight)| {
            eight.iter().enumerate().filter(move |(_, entry)| is_it(entry)).map(move |(slot, _)| number * 8 + slot)
        })
    }

    /// The slots up to the last one in use.
    fn slots_in_use(&self) -> usize {
        let bitmap = self.bytes.get(..self.room.bitmap).unwrap_or_default();
        let last = bitmap.iter().rposition(|&byte| byte != 0);
        last.map_or(0, |last| (last + 1) * 8).min(self.room.slots)
    }

    /// Whether a used slot is not the first of its entry. A name spans at most 32 slots.
    pub fn is_continued(&self, slot: usize) -> bool {
        // Continued slots hold stale bytes that may look like an entry; only walking the entries
        // tells.
        let mut run = slot;
        while run > 0 && self.is_used(run - 1) {
            run -= 1;
        }
        let first = self.slots_from(run).map(|found| match found {
            Slot::Entry(entry) => entry.slot,
            Slot::BadName(slot, _) => slot,
        });
        !first.take_while(|&found| found <= slot).any(|found| found == slot)
    }

    /// The first of `slots` adjacent free slots.
    pub fn free_run(&self, slots: usize) -> Option<usize> {
        let mut run = 0;
        for slot in 0..self.room.slots {
            run = if self.is_used(slot) { 0 } else { run + 1 };
            if run == slots {
                return Some(slot + 1 - slots);
            }
        }
        None
    }
}

const _: () = {
    assert!(size_of::<Dentry>() == 11);
    let block = DentryRoom::of(4096);
    assert!(block.slots == 214 && block.bitmap == 27 && block.entries == 30 && block.names == 2384);
    let large = DentryRoom::of(16384);
    assert!(large.slots == 856 && large.bitmap == 107 && large.entries == 120);
    assert!(DentryRoom::of(3488).slots == 182 && DentryRoom::of(3688).slots == 192);
    assert!(DentryRoom::of(3452).slots == 180 && DentryRoom::of(3464).slots == 181);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_with_their_names() {
        let mut block = vec![0; 4096];
        let room = DentryRoom::of(4096);
        for slot in [0, 1, 3, 213] {
            lsb_first::set(&mut block, slot, true);
        }
        let mut put = |slot: usize, name: &[u8]| {
            let dentry = Dentry { ino: 9.into(), name_length: (name.len() as u16).into(), ..Dentry::default() };
            let at = room.entries + slot * 11;
            block[at..at + 11].copy_from_slice(dentry.as_bytes());
            let at = room.names + slot * 8;
            block[at..at + name.len().min(8)].copy_from_slice(&name[..name.len().min(8)]);
        };
        put(0, b"0123456789");
        put(3, b"a");
        put(213, b"longer than a slot");
        let area = DentryArea::new(&block);
        let found: Vec<_> = area.slots_from(0).collect();
        assert!(
            matches!(found[0], Slot::Entry(entry) if entry.name.starts_with(b"01234567") && entry.name.len() == 10)
        );
        assert!(matches!(found[1], Slot::Entry(entry) if entry.name == b"a" && entry.slot == 3));
        assert!(matches!(found[2], Slot::BadName(213, _)));
        assert_eq!((found.len(), area.free_run(1), area.free_run(2)), (3, Some(2), Some(4)));
    }
}
