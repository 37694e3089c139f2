//! Encodes directory entries (f2fs.md, "Directories").

use std::mem::offset_of;

use nandkit_vfs::FileKind;
use zerocopy::IntoBytes;

use super::put;
use crate::bits::lsb_first;
use crate::ids::NodeId;
use crate::layout::DentryRoom;
use crate::layout::dentry::{Dentry, SLOT_BYTES, slots_of, type_of};

/// Writes an entry into the free slots from `slot` on. The area is a block or the inline part of an
/// inode. Parts that do not fit are dropped; callers look for room first.
pub fn put_entry(area: &mut [u8], slot: usize, hash: u32, name: &[u8], ino: NodeId, kind: FileKind) {
    let room = DentryRoom::of(area.len());
    let slots = slot..slot + slots_of(name.len());
    if slots.end > room.slots {
        return;
    }
    let dentry = Dentry {
        hash: hash.into(),
        ino: ino.0.into(),
        name_length: (name.len() as u16).into(),
        file_type: type_of(kind),
    };
    put(area, room.entries + slot * size_of::<Dentry>(), dentry.as_bytes());
    put(area, room.names + slot * SLOT_BYTES, name);
    // An older entry's remains in the further slots must not look like an entry (dir.c,
    // `f2fs_update_dentry`).
    for further in slots.clone().skip(1) {
        let length = room.entries + further * size_of::<Dentry>() + offset_of!(Dentry, name_length);
        put(area, length, &[0; 2]);
    }
    if let Some(bitmap) = area.get_mut(..room.bitmap) {
        slots.for_each(|slot| lsb_first::set(bitmap, slot, true));
    }
}

/// Writes `.` and `..` into the first two slots.
pub fn put_dots(area: &mut [u8], ino: NodeId, parent: NodeId) {
    put_entry(area, 0, 0, b".", ino, FileKind::Directory);
    put_entry(area, 1, 0, b"..", parent, FileKind::Directory);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DentryArea;
    use crate::layout::dentry::Slot;

    #[test]
    fn what_is_put_is_read() {
        for bytes in [4096, 3488] {
            let mut area = vec![0; bytes];
            put_dots(&mut area, NodeId(9), NodeId(3));
            put_entry(&mut area, 2, 0xABCD, b"seventeen letters", NodeId(10), FileKind::Fifo);
            put_entry(&mut area, DentryRoom::of(bytes).slots - 1, 1, b"too long to fit", NodeId(11), FileKind::Regular);
            let found: Vec<_> = DentryArea::new(&area).slots_from(0).collect();
            let [Slot::Entry(dot), Slot::Entry(dots), Slot::Entry(entry)] = found[..] else { panic!("{found:?}") };
            assert_eq!((dot.name, dot.ino(), dots.name, dots.ino()), (&b"."[..], NodeId(9), &b".."[..], NodeId(3)));
            assert_eq!((entry.name, entry.dentry.hash.get()), (&b"seventeen letters"[..], 0xABCD));
        }
    }
}
