//! Directories: an in-memory index of each directory in use, and the slots on the medium.

use std::collections::{BTreeMap, HashMap};

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::{FromBytes, IntoBytes};

use crate::inode::{Inode, ROOT};
use crate::layout::{LongEntry, SLOT_END, SLOT_FREE, SLOT_SIZE, SLOTS_MAX, ShortEntry};
use crate::names::{self, Basis, LongNameReader, Name};
use crate::patch::{Patch, Phase};
use crate::table::Link;
use crate::volume::MountedVolume;

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The displayed name.
    pub name: String,
    /// The first of its slots; the short entry is the last one.
    pub first: u32,
    /// The inode's number.
    pub inode: u64,
}

/// The index of a directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// The entries by the slot of their short entry, so that a listing can continue where it
    /// stopped.
    pub entries: BTreeMap<u32, Entry>,
    keys: HashMap<String, u32>,
    shorts: HashMap<[u8; 11], u32>,
    /// One bit per used slot.
    used: Vec<u64>,
    /// No slot before this one is free.
    lowest_free: u32,
    /// The first slot that is marked as the end on the medium (or the number of slots).
    pub end: u32,
    /// Total number of slots.
    pub capacity: u32,
    /// Slot of "..": the second by the specification; the fourth if the fatfs crate gave the dot
    /// entries long names.
    pub dot_dot: Option<u32>,
    /// Where to start the search for the next number of a short name.
    numbers: HashMap<Basis, u32>,
}

impl Directory {
    /// The slot of the short entry with this name.
    pub fn find(&self, key: &str) -> Option<u32> {
        self.keys.get(key).copied()
    }

    fn is_used(&self, slot: u32) -> bool {
        self.used.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    fn occupy(&mut self, slot: u32) {
        let at = slot as usize / 64;
        if self.used.len() <= at {
            self.used.resize(at + 1, 0);
        }
        if let Some(word) = self.used.get_mut(at) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Makes a slot available for new entries.
    pub fn release(&mut self, slot: u32) {
        if let Some(word) = self.used.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
            self.lowest_free = self.lowest_free.min(slot);
        }
    }

    /// The first `count` consecutive free slots, or where they would start if the directory were
    /// larger.
    fn free_slots(&mut self, count: u32) -> u32 {
        while self.lowest_free < self.capacity && self.is_used(self.lowest_free) {
            self.lowest_free += 1;
        }
        let (mut first, mut slot) = (self.lowest_free, self.lowest_free);
        while slot < self.capacity && slot - first < count {
            if slot % 64 == 0 && self.used.get(slot as usize / 64) == Some(&u64::MAX) {
                slot += 64;
                first = slot;
                continue;
            }
            if self.is_used(slot) {
                first = slot + 1;
            }
            slot += 1;
        }
        first.min(self.capacity)
    }

    fn insert(&mut self, slot: u32, short: [u8; 11], entry: Entry, short_name: &str) {
        for used in entry.first..=slot {
            self.occupy(used);
        }
        self.end = self.end.max(slot + 1);
        self.keys.entry(names::fold(short_name)).or_insert(slot);
        self.keys.insert(names::fold(&entry.name), slot);
        *self.shorts.entry(short).or_default() += 1;
        self.entries.insert(slot, entry);
    }

    /// Removes an entry from the index; its slots stay in use.
    fn remove(&mut self, slot: u32, short: &ShortEntry, short_name: &str) -> Option<Entry> {
        let entry = self.entries.remove(&slot)?;
        for key in [names::fold(&entry.name), names::fold(short_name)] {
            if self.keys.get(&key) == Some(&slot) {
                self.keys.remove(&key);
            }
        }
        if let Some(count) = self.shorts.get_mut(&short.name) {
            *count -= 1;
            if *count == 0 {
                self.shorts.remove(&short.name);
            }
        }
        // The lowest number that may be free again.
        let tail =
            short.name.iter().take(8).rev().skip_while(|&&byte| byte == b' ').take_while(|byte| byte.is_ascii_digit());
        let number = tail.fold((0u32, 1u32), |(sum, unit), &byte| (sum + u32::from(byte - b'0') * unit, unit * 10)).0;
        if let Some(next) = self.numbers.get_mut(&Basis::of(&entry.name)) {
            *next = (*next).min(number.max(1));
        }
        Some(entry)
    }

    /// A short name for a long name, unused in this directory, except by the optional entry that is
    /// about to go.
    fn short_name(&mut self, long: &str, going: Option<[u8; 11]>) -> Result<[u8; 11]> {
        let taken = |name: &[u8; 11]| match self.shorts.get(name) {
            Some(1) => going != Some(*name),
            Some(_) => true,
            None => false,
        };
        let basis = Basis::of(long);
        if let Some(plain) = basis.plain().filter(|plain| !taken(plain)) {
            return Ok(plain);
        }
        let start = self.numbers.get(&basis).copied().unwrap_or(1);
        let free = (start..1_000_000).chain(1..start).find(|&number| !taken(&basis.numbered(number)));
        let number =
            free.ok_or_else(|| FsError::new(ErrorKind::NoSpace, format!("no short name is left for {long:?}")))?;
        self.numbers.insert(basis, number);
        Ok(basis.numbered(number))
    }
}

/// The slots and the short name of a new entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntrySlots {
    pub first: u32,
    pub short: [u8; 11],
    /// Number of long-name slots before the short entry.
    pub long: u32,
}

impl<D: BlockDevice> MountedVolume<D> {
    /// The device sector of a directory's slot, and its byte offset there.
    pub fn slot_position(&self, directory: u64, slot: u32) -> Result<(u64, u32)> {
        let byte = u64::from(slot) * u64::from(SLOT_SIZE);
        let size = u64::from(self.sectors.size());
        let start = if directory == ROOT && self.geometry.root_entries > 0 {
            self.geometry.root_start() + byte
        } else {
            let cluster_size = u64::from(self.geometry.cluster_size());
            let chain = self.inode(directory)?.chain.as_ref();
            let (cluster, _) = chain.and_then(|chain| chain.get((byte / cluster_size) as u32)).ok_or_else(|| {
                FsError::new(ErrorKind::Corrupt, format!("slot {slot} lies behind the end of directory {directory}"))
            })?;
            self.geometry.cluster_start(cluster) + byte % cluster_size
        };
        Ok((start / size, (start % size) as u32))
    }

    /// The index of a directory, read from the medium when first needed.
    pub fn directory(&mut self, number: u64) -> Result<&mut Directory> {
        if !self.directories.contains_key(&number) {
            let inode = self.inode(number)?;
            if !inode.raw.is_directory() {
                return Err(FsError::new(ErrorKind::NotADirectory, format!("inode {number} is no directory")));
            }
            let directory = self.load_directory(number)?;
            self.directories.insert(number, directory);
        }
        self.directories
            .get_mut(&number)
            .ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("there is no directory {number}")))
    }

    /// The number of slots in a directory's clusters.
    fn slots_of(&mut self, number: u64) -> Result<u32> {
        if number == ROOT && self.geometry.root_entries > 0 {
            return Ok(self.geometry.root_entries);
        }
        let clusters = u64::from(self.ensure_chain(number)?.len());
        let slots = clusters * u64::from(self.geometry.cluster_size() / SLOT_SIZE);
        if clusters == 0 {
            return Err(FsError::new(ErrorKind::Corrupt, format!("directory {number} has no cluster")));
        }
        Ok(slots.min(u64::from(SLOTS_MAX)) as u32)
    }

    fn load_directory(&mut self, number: u64) -> Result<Directory> {
        let capacity = self.slots_of(number)?;
        let start = self.inode(number)?.raw.cluster();
        if start != 0 && *self.directory_starts.entry(start).or_insert(number) != number {
            let detail = format!("two entries refer to the directory at cluster {start}");
            return Err(FsError::new(ErrorKind::Corrupt, detail));
        }
        let mut directory = Directory { capacity, end: capacity, ..Directory::default() };
        let mut long = LongNameReader::default();
        for slot in 0..capacity {
            let (lba, offset) = self.slot_position(number, slot)?;
            let mut bytes = [0; SLOT_SIZE as usize];
            self.sectors.read(lba, offset, &mut bytes)?;
            let Ok(raw) = ShortEntry::read_from_bytes(&bytes) else { continue };
            match raw.name[0] {
                SLOT_END => {
                    directory.end = slot;
                    break;
                }
                SLOT_FREE => {
                    long.clear();
                    continue;
                }
                _ => directory.occupy(slot),
            }
            if raw.is_long_name() {
                if let Ok(entry) = LongEntry::read_from_bytes(&bytes) {
                    long.take(slot, &entry);
                }
                continue;
            }
            let name = long.finish(&raw.name);
            if raw.name == *b"..         " {
                directory.dot_dot = Some(slot);
            }
            if raw.is_label() || raw.name == *b".          " || raw.name == *b"..         " {
                continue;
            }
            let short_name = names::show_short(&raw, self.options.code_page);
            let (name, first) = name
                .and_then(|(units, first)| names::show_long(&units).map(|name| (name, first)))
                .unwrap_or_else(|| (short_name.clone(), slot));
            let inode = self.add_inode(Inode::new(number, slot, raw, Some((lba, offset))));
            directory.insert(slot, raw.name, Entry { name, first, inode }, &short_name);
        }
        Ok(directory)
    }

    /// Finds slots and a short name for a new entry, and allocates clusters if the directory must
    /// grow. `extra` is the number of further clusters that the caller needs: either all are
    /// available, or nothing was done. May write the running batch.
    pub fn find_entry_slots(
        &mut self,
        directory: u64,
        name: &Name,
        extra: u32,
        going: Option<[u8; 11]>,
    ) -> Result<NewEntrySlots> {
        let short = self.directory(directory)?.short_name(&name.text, going)?;
        let long = if names::is_plain(&name.text, &short) { 0 } else { names::long_slots(&name.units) };
        let count = long + 1;
        let mut index = self.directory(directory)?;
        let mut first = index.free_slots(count);
        let full = first + count > index.capacity;
        if full && self.freed_slots.iter().any(|&(of, _)| of == directory) {
            self.commit()?;
            index = self.directory(directory)?;
            first = index.free_slots(count);
        } else {
            index = self.directory(directory)?;
        }
        let missing = (first + count).saturating_sub(index.capacity);
        let per_cluster = self.geometry.cluster_size() / SLOT_SIZE;
        let growth = missing.div_ceil(per_cluster);
        if growth > 0 {
            self.check_growth(directory, growth)?;
        }
        self.reserve(growth + extra, None)?;
        if growth > 0 {
            self.grow_directory(directory, growth)?;
        }
        Ok(NewEntrySlots { first, short, long })
    }

    fn check_growth(&mut self, directory: u64, growth: u32) -> Result<()> {
        let full = |detail: String| Err(FsError::new(ErrorKind::NoSpace, detail));
        let capacity = self.directory(directory)?.capacity;
        if directory == ROOT && self.geometry.root_entries > 0 {
            return full(format!("the root directory is full: it has {capacity} slots of fixed place"));
        }
        if capacity + growth * (self.geometry.cluster_size() / SLOT_SIZE) > SLOTS_MAX {
            return full(format!("the directory is full: {capacity} of at most {SLOTS_MAX} slots"));
        }
        Ok(())
    }

    fn grow_directory(&mut self, directory: u64, growth: u32) -> Result<()> {
        let last = self.ensure_chain(directory)?.last();
        let clusters = self.allocate(growth, last.map(|last| last + 1))?;
        for &cluster in &clusters {
            self.fresh_cluster(cluster);
        }
        if let (Some(last), Some(&first)) = (last, clusters.first()) {
            self.set_link(last, Link::Next(first))?;
        }
        let inode = self.inode_mut(directory)?;
        let chain = inode.chain.get_or_insert_default();
        clusters.iter().for_each(|&cluster| chain.push(cluster));
        let slots = self.geometry.cluster_size() / SLOT_SIZE * growth;
        self.directory(directory)?.capacity += slots;
        Ok(())
    }

    /// Adds a zeroed cluster of a directory to the running batch.
    pub fn fresh_cluster(&mut self, cluster: u32) {
        let (first, count) = self.cluster_sectors(cluster);
        (first..first + count).for_each(|lba| self.sectors.fresh(lba));
    }

    /// Writes a new entry to its slots.
    pub fn put_entry(&mut self, directory: u64, slots: NewEntrySlots, name: &Name, inode: u64) -> Result<()> {
        let slot = slots.first + slots.long;
        let raw = self.inode(inode)?.raw;
        let (lba, offset) = self.slot_position(directory, slot)?;
        self.end_after(directory, slot, lba)?;
        if slots.long > 0 {
            for (at, entry) in (slots.first..).zip(names::long_entries(&name.units, &raw.name)) {
                let (long_lba, long_offset) = self.slot_position(directory, at)?;
                let phase = if long_lba == lba { Phase::Publish } else { Phase::Prepare };
                self.sectors.patch(long_lba, Patch::new(long_offset, entry.as_bytes(), phase))?;
            }
        }
        self.sectors.patch(lba, Patch::new(offset, &raw.bytes(), Phase::Publish))?;
        let entry = Entry { name: name.text.clone(), first: slots.first, inode };
        let short_name = names::show_short(&raw, self.options.code_page);
        self.directory(directory)?.insert(slot, raw.name, entry, &short_name);
        Ok(())
    }

    /// When the directory grows, ensures that the slot after the new entry marks the end. It
    /// already does, unless a power cut or another system left something there.
    fn end_after(&mut self, directory: u64, slot: u32, short_lba: u64) -> Result<()> {
        let index = self.directory(directory)?;
        let next = slot + 1;
        if next <= index.end || next >= index.capacity {
            return Ok(());
        }
        let (lba, offset) = self.slot_position(directory, next)?;
        let mut first = [0];
        self.sectors.read(lba, offset, &mut first)?;
        if first == [SLOT_END] {
            return Ok(());
        }
        let phase = if lba == short_lba { Phase::Publish } else { Phase::Prepare };
        self.sectors.patch(lba, Patch::new(offset, &[0; SLOT_SIZE as usize], phase))
    }

    /// Removes an entry from the index and erases its slots; the short one in `phase`.
    pub fn erase_entry(&mut self, directory: u64, slot: u32, raw: &ShortEntry, phase: Phase) -> Result<Option<Entry>> {
        let short_name = names::show_short(raw, self.options.code_page);
        let Some(entry) = self.directory(directory)?.remove(slot, raw, &short_name) else { return Ok(None) };
        let (short_lba, _) = self.slot_position(directory, slot)?;
        for at in (entry.first..=slot).rev() {
            let (lba, _) = self.slot_position(directory, at)?;
            let phase = if lba == short_lba { phase } else { Phase::Free };
            self.erase_slot(directory, at, phase)?;
        }
        Ok(Some(entry))
    }

    fn erase_slot(&mut self, directory: u64, slot: u32, phase: Phase) -> Result<()> {
        let (lba, offset) = self.slot_position(directory, slot)?;
        let mut base = [0; SLOT_SIZE as usize];
        self.sectors.read_base(lba, offset, &mut base)?;
        match base[0] {
            // The medium does not have the entry. A free slot before others must not look like the
            // end.
            SLOT_END => {
                self.sectors.unpatch(lba, offset, false);
                base[0] = SLOT_FREE;
                self.sectors.patch(lba, Patch::new(offset, &base, Phase::Prepare))?;
                self.directory(directory)?.release(slot);
            }
            SLOT_FREE => {
                self.sectors.unpatch(lba, offset, false);
                self.directory(directory)?.release(slot);
            }
            _ => {
                base[0] = SLOT_FREE;
                self.sectors.patch(lba, Patch::new(offset, &base, phase))?;
                self.freed_slots.push((directory, slot));
            }
        }
        Ok(())
    }
}
