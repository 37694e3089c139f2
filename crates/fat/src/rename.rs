//! Rename: rewrites an existing target entry in place, or adds a new entry; then removes the old
//! one.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, RenameFlags, Result};
use zerocopy::FromBytes;

use crate::inode::ROOT;
use crate::layout::{SLOT_END, SLOT_FREE, SLOT_SIZE, ShortEntry, case};
use crate::names::Name;
use crate::patch::{Patch, Phase};
use crate::volume::MountedVolume;

/// The first byte of a slot that a mark may change: `attributes`.
const MARKED_FROM: u32 = 11;

/// The mark on the old entry of a file that moves between two sectors.
///
/// A file with clusters is marked only when it moves over an existing entry: the clusters shared by
/// both entries show that they are one file, and the bit shows which one to remove. An empty file
/// has nothing to share: its old entry holds, in the fields for cluster and size, the position of
/// the new entry and a digest of the previous content there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveMark {
    /// Sector of the new entry.
    pub lba: u64,
    /// Byte offset of the new entry in that sector.
    pub offset: u32,
    /// Digest of the 32 bytes that were there before.
    pub digest: u32,
}

impl MoveMark {
    /// Bits for the slot's number in its sector (sectors have up to 65,536 bytes); the digest takes
    /// further bits. 35 bits are left for the sector: FAT addresses 2^32 sectors of up to eight
    /// device sectors.
    const SLOT_BITS: u32 = 11;
    const DIGEST_BITS: u32 = 18;

    /// An 18-bit digest that most likely changes when the slot changes.
    pub fn digest(slot: &[u8; SLOT_SIZE as usize]) -> u32 {
        let mixed = slot.chunks_exact(8).fold(0, |sum, part| {
            let word = part.iter().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
            nandkit_units::random::hash(sum, word, 0)
        });
        (mixed >> (64 - Self::DIGEST_BITS)) as u32
    }

    /// The mark of an entry, if it is that of an empty file. A marked file with clusters keeps its
    /// size and first cluster, and has another bit set.
    pub fn of(raw: &ShortEntry, sector_size: u32) -> Option<Self> {
        if raw.case_flags & case::MOVING_EMPTY != case::MOVING_EMPTY || raw.is_directory() {
            return None;
        }
        let packed = u64::from(raw.cluster()) << 32 | u64::from(raw.size.get());
        let digest = (packed & ((1 << Self::DIGEST_BITS) - 1)) as u32;
        let slot = (packed >> Self::DIGEST_BITS & ((1 << Self::SLOT_BITS) - 1)) as u32;
        let lba = packed >> (Self::DIGEST_BITS + Self::SLOT_BITS);
        (slot < sector_size / SLOT_SIZE).then_some(Self { lba, offset: slot * SLOT_SIZE, digest })
    }

    fn put(self, raw: &mut ShortEntry) {
        let slot = u64::from(self.offset / SLOT_SIZE);
        let packed = (self.lba << Self::SLOT_BITS | slot) << Self::DIGEST_BITS | u64::from(self.digest);
        raw.case_flags |= case::MOVING_EMPTY;
        raw.set_cluster((packed >> 32) as u32);
        raw.size = (packed as u32).into();
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Gives an inode another name or directory.
    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), flags: RenameFlags) -> Result<()> {
        if flags == RenameFlags::Exchange {
            return Err(FsError::new(ErrorKind::NotSupported, "FAT cannot exchange two names"));
        }
        let (slot, number) = self.lookup(from.0, from.1)?;
        self.live_directory(to.0)?;
        self.settle(number, false)?;
        let name = Name::new(to.1)?;
        self.check_not_below(number, to.0)?;
        let target = match self.lookup(to.0, to.1) {
            Ok(target) => Some(target),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if target.is_some() && flags == RenameFlags::NoReplace && target != Some((slot, number)) {
            return Err(FsError::new(ErrorKind::Exists, format!("{:?} exists", name.text)));
        }
        match target {
            Some((_, same)) if same == number && from.1 == to.1 => match flags {
                RenameFlags::NoReplace => Err(FsError::new(ErrorKind::Exists, format!("{:?} exists", name.text))),
                _ => Ok(()),
            },
            Some((_, same)) if same == number => self.rename_case(from.0, slot, number, &name),
            Some((target_slot, old)) => {
                self.rename_over((from.0, slot), number, (to.0, target_slot), old)?;
                self.names_changed(from.0)?;
                self.names_changed(to.0)
            }
            None => self.rename_new((from.0, slot), number, to.0, &name),
        }
    }

    /// Ensures that a batch moves a file at most once, and does not both move it and change its
    /// first cluster, by which a repair recognizes it: writes the batch if necessary. `changing`:
    /// the file is about to get another first cluster; otherwise it is about to move.
    pub fn settle(&mut self, number: u64, changing: bool) -> Result<()> {
        let inode = self.inode(number)?;
        let Some(origin) = inode.durable.filter(|_| inode.linked) else { return Ok(()) };
        let cluster = inode.raw.cluster();
        let moved = self.slot_position(inode.parent, inode.slot)? != origin;
        let mut base = [0; SLOT_SIZE as usize];
        self.sectors.read_base(origin.0, origin.1, &mut base)?;
        let changed = ShortEntry::read_from_bytes(&base).is_ok_and(|raw| raw.cluster() != cluster);
        if moved || (changed && !changing) { self.commit() } else { Ok(()) }
    }

    /// Checks that a directory does not become its own descendant.
    fn check_not_below(&self, number: u64, directory: u64) -> Result<()> {
        let mut at = directory;
        // No volume has more directories than clusters.
        for _ in 0..=self.geometry.clusters {
            if at == number {
                return Err(FsError::new(ErrorKind::InvalidArgument, "a directory cannot be moved into itself"));
            }
            if at == ROOT {
                return Ok(());
            }
            at = self.inode(at)?.parent;
        }
        Err(FsError::new(ErrorKind::Corrupt, format!("directory {directory} is its own ancestor")))
    }

    /// Renames a file to a name that differs only in case.
    fn rename_case(&mut self, directory: u64, slot: u32, number: u64, name: &Name) -> Result<()> {
        let shown = self.directory(directory)?.entries.get(&slot).map(|entry| entry.name.clone());
        if shown.as_deref() == Some(name.text.as_str()) {
            return Ok(());
        }
        self.rename_new((directory, slot), number, directory, name)
    }

    fn rename_new(&mut self, from: (u64, u32), number: u64, directory: u64, name: &Name) -> Result<()> {
        let going = (from.0 == directory).then_some(self.inode(number)?.raw.name);
        let slots = self.find_entry_slots(directory, name, 0, going)?;
        let old = self.inode(number)?.raw;
        let slot = slots.first + slots.long;
        let new = self.slot_position(directory, slot)?;
        self.leave(from, number, &old, new)?;
        let inode = self.inode_mut(number)?;
        inode.raw.name = slots.short;
        inode.raw.case_flags = 0;
        (inode.parent, inode.slot) = (directory, slot);
        self.put_entry(directory, slots, name, number)?;
        self.arrive(number, from.0 != directory)?;
        self.names_changed(from.0)?;
        self.names_changed(directory)
    }

    fn rename_over(&mut self, from: (u64, u32), number: u64, to: (u64, u32), over: u64) -> Result<()> {
        let (raw, target) = (self.inode(number)?.raw, self.inode(over)?.raw);
        match (raw.is_directory(), target.is_directory()) {
            (true, false) => return Err(FsError::new(ErrorKind::NotADirectory, "a directory over a file")),
            (false, true) => return Err(FsError::new(ErrorKind::IsADirectory, "a file over a directory")),
            (true, true) => self.check_empty(over)?,
            (false, false) => {}
        }
        self.ensure_chain(over)?;
        let new = self.slot_position(to.0, to.1)?;
        self.leave(from, number, &raw, new)?;
        let inode = self.inode_mut(number)?;
        (inode.raw.name, inode.raw.case_flags) = (target.name, target.case_flags);
        (inode.parent, inode.slot) = to;
        let bytes = inode.raw.bytes();
        self.sectors.patch(new.0, Patch::new(new.1, &bytes, Phase::Publish))?;
        if let Some(entry) = self.directory(to.0)?.entries.get_mut(&to.1) {
            entry.inode = number;
        }
        self.arrive(number, from.0 != to.0)?;
        self.unlink(over)
    }

    /// Marks the medium's entry of a file that moves to another sector, if a repair could not
    /// otherwise tell which of the two entries to remove.
    fn mark(&mut self, origin: (u64, u32), new: (u64, u32)) -> Result<()> {
        let mut old = [0; SLOT_SIZE as usize];
        self.sectors.read_base(origin.0, origin.1, &mut old)?;
        let Ok(mut raw) = ShortEntry::read_from_bytes(&old) else { return Ok(()) };
        let mut before = [0; SLOT_SIZE as usize];
        self.sectors.read_base(new.0, new.1, &mut before)?;
        if raw.cluster() == 0 {
            MoveMark { lba: new.0, offset: new.1, digest: MoveMark::digest(&before) }.put(&mut raw);
        } else if !matches!(before[0], SLOT_END | SLOT_FREE) {
            raw.case_flags |= case::MOVING;
        } else {
            return Ok(());
        }
        // From the attributes on: the slot's first bytes belong to the patch that erases it.
        let bytes = raw.bytes();
        let from = MARKED_FROM as usize;
        let patch = Patch::new(origin.1 + MARKED_FROM, bytes.get(from..).unwrap_or_default(), Phase::Mark);
        self.sectors.patch(origin.0, patch)
    }

    /// Erases the entry that an inode leaves for one at `new`: together with the new one if in the
    /// same sector, else after it.
    fn leave(&mut self, from: (u64, u32), number: u64, raw: &ShortEntry, new: (u64, u32)) -> Result<()> {
        let phase = match self.inode(number)?.durable {
            Some(origin) if origin.0 == new.0 => Phase::Publish,
            Some(origin) => {
                self.mark(origin, new)?;
                Phase::Unpublish
            }
            // The medium does not have this file; its content in the slot was removed or replaced.
            None if raw.is_directory() => Phase::Unpublish,
            None => Phase::Publish,
        };
        self.erase_entry(from.0, from.1, raw, phase).map(|_| ())
    }

    /// Updates an inode that has a new entry.
    fn arrive(&mut self, number: u64, other_directory: bool) -> Result<()> {
        self.moved.push(number);
        let inode = self.inode(number)?;
        if other_directory && inode.raw.is_directory() {
            let parent = self.parent_cluster(inode.parent)?;
            self.set_dot_dot(number, parent)?;
        }
        Ok(())
    }

    fn set_dot_dot(&mut self, number: u64, parent: u32) -> Result<()> {
        let Some(slot) = self.directory(number)?.dot_dot else { return Ok(()) };
        let (lba, offset) = self.slot_position(number, slot)?;
        let mut bytes = [0; SLOT_SIZE as usize];
        self.sectors.read(lba, offset, &mut bytes)?;
        if let Ok(mut raw) = ShortEntry::read_from_bytes(&bytes) {
            raw.set_cluster(parent);
            self.sectors.patch(lba, Patch::new(offset, &raw.bytes(), Phase::Publish))?;
        }
        Ok(())
    }
}
