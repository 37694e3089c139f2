//! The device's sectors as the file system sees them: a bounded cache of clean sectors, and the
//! running batch of changes.
//!
//! A metadata sector in the running batch has two images: `base`, as on the medium, and `current`,
//! which the file system reads. They differ by *patches*, each with the [`Phase`] in which it may
//! reach the medium. A commit writes phase after phase. Whatever the order of operations in the
//! batch, the medium then never has a reference to something missing, or a free cluster that is
//! still in use.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_cache::PageCache;
use nandkit_units::{Area, Cause, Clock, Context, Described, Lba, Payload, ReadInto};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::patch::{Patch, Phase};

#[derive(Debug)]
struct Pending {
    base: Box<[u8]>,
    current: Box<[u8]>,
    patches: Vec<Patch>,
    /// A sector of a new directory cluster, which belongs entirely to the first phase.
    fresh: bool,
}

impl Pending {
    fn phases(&self) -> u8 {
        let fresh = if self.fresh { Phase::Prepare.bit() } else { 0 };
        self.patches.iter().fold(fresh, |phases, patch| phases | patch.phase.bit())
    }

    fn set(&mut self, patch: Patch) {
        patch.apply(&mut self.current);
        if self.fresh {
            patch.apply(&mut self.base);
            return;
        }
        match self.patches.binary_search_by_key(&patch.key(), Patch::key) {
            Ok(at) => {
                if let Some(old) = self.patches.get_mut(at) {
                    *old = patch;
                }
            }
            Err(at) => self.patches.insert(at, patch),
        }
    }

    fn unset(&mut self, key: (u32, bool)) {
        if let Ok(at) = self.patches.binary_search_by_key(&key, Patch::key) {
            self.patches.remove(at).restore(&self.base, &mut self.current);
        }
    }
}

/// A data sector waiting in the cache.
#[derive(Clone, Debug)]
enum Data {
    Bytes(Box<[u8]>),
    Described(Described),
}

/// The positions of the FAT copies, in device sectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mirrors {
    /// The first sector of the FAT that is used.
    pub first: u64,
    /// Sectors per FAT.
    pub sectors: u64,
    /// The number of further copies that are also written.
    pub copies: u64,
    /// The first sector of the data area.
    pub data: u64,
}

impl Mirrors {
    /// The number of further sectors with the same content as this one.
    const fn copies_of(self, lba: u64) -> u64 {
        if lba >= self.first && lba - self.first < self.sectors { self.copies } else { 0 }
    }
}

/// The device, the clean cache and the running batch.
#[derive(Debug)]
pub struct Sectors<D> {
    device: D,
    clock: Clock,
    size: u32,
    mirrors: Mirrors,
    clean: PageCache,
    pending: BTreeMap<u64, Pending>,
    data: BTreeMap<u64, Data>,
    keep_data: bool,
    barriers: bool,
    /// Replaces `Metadata` and `UserData` as the cause while a mount repairs.
    cause: Option<Cause>,
    /// Data were written to the device on which this batch's metadata depends.
    data_first: bool,
    /// The number of changes to the batch so far.
    changes_made: u64,
}

impl<D: BlockDevice> Sectors<D> {
    /// Wraps a device with a cache of `capacity` clean sectors (at least the last used one).
    pub fn new(device: D, clock: Clock, capacity: usize, keep_data: bool, barriers: bool) -> Self {
        let size = device.geometry().sector_size;
        Self {
            device,
            clock,
            size,
            mirrors: Mirrors::default(),
            clean: PageCache::new(size as usize, capacity),
            pending: BTreeMap::new(),
            data: BTreeMap::new(),
            keep_data,
            barriers,
            cause: None,
            data_first: false,
            changes_made: 0,
        }
    }

    /// Sets the positions of the FATs.
    pub fn set_mirrors(&mut self, mirrors: Mirrors) {
        self.mirrors = mirrors;
    }

    /// Sets the cause of all further operations.
    pub fn set_cause(&mut self, cause: Option<Cause>) {
        self.cause = cause;
    }

    /// Size of a device sector in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device below, for changes that bypass the cache.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Returns the device; pending changes are lost.
    pub fn into_device(self) -> D {
        self.device
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The number of sectors waiting for a commit.
    pub fn dirty(&self) -> usize {
        self.pending.len() + self.data.len()
    }

    /// Records that this batch's metadata depends on data written to the device.
    pub fn note_data_first(&mut self) {
        self.data_first = true;
    }

    fn context(&self, lba: u64, data: bool) -> Context {
        let cause = self.cause.unwrap_or(if data { Cause::UserData } else { Cause::Metadata });
        let area = if lba < self.mirrors.data { Area::Metadata } else { Area::Main };
        Context::at(self.clock.now()).for_cause(cause).in_area(area)
    }

    /// Reads sectors directly from the device.
    pub fn read_device(&self, lba: u64, data: bool, into: ReadInto<'_>) -> Result<()> {
        let context = self.context(lba, data);
        let done = self
            .device
            .read(&context, Lba(lba), into)
            .map_err(|error| FsError::device(format!("reading sector {lba}"), error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    /// Writes sectors directly to the device.
    pub fn write_device(&mut self, lba: u64, data: bool, payload: Payload<'_>) -> Result<()> {
        let context = self.context(lba, data);
        let done = self
            .device
            .write(&context, Lba(lba), payload)
            .map_err(|error| FsError::device(format!("writing sector {lba}"), error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    /// Sets or clears bits of a byte near the beginning of the FAT at byte `start`: on the device,
    /// in every copy, and in memory.
    pub fn set_bit_everywhere(&mut self, start: u64, offset: u32, bits: u8, on: bool) -> Result<()> {
        let lba = start / u64::from(self.size);
        let mut sector = vec![0; self.size as usize];
        self.read_device(lba, false, ReadInto::Bytes(&mut sector))?;
        let set = |sector: &mut [u8]| {
            if let Some(byte) = sector.get_mut(offset as usize) {
                *byte = if on { *byte | bits } else { *byte & !bits };
            }
        };
        set(&mut sector);
        for copy in 0..=self.mirrors.copies_of(lba) {
            self.write_device(lba + copy * self.mirrors.sectors, false, Payload::Bytes(&sector))?;
        }
        if let Some(pending) = self.pending.get_mut(&lba) {
            set(&mut pending.base);
            set(&mut pending.current);
        }
        self.clean.remove_range(lba, 1);
        Ok(())
    }

    /// Makes what was written durable.
    pub fn flush(&mut self) -> Result<()> {
        let context = self.context(0, false);
        let done = self.device.flush(&context).map_err(|error| FsError::device("flush", error))?;
        self.clock.advance_to(done.completed);
        Ok(())
    }

    fn fetch(&mut self, lba: u64, data: bool) -> Result<Box<[u8]>> {
        if let Some(sector) = self.clean.read(lba) {
            return Ok(sector.into());
        }
        let mut sector = vec![0; self.size as usize].into_boxed_slice();
        self.read_device(lba, data, ReadInto::Bytes(&mut sector))?;
        self.clean.put(lba, &sector);
        Ok(sector)
    }

    /// Reads bytes of a metadata sector with the running batch applied; they must lie within the
    /// sector.
    pub fn read(&mut self, lba: u64, offset: u32, into: &mut [u8]) -> Result<()> {
        if !self.pending.contains_key(&lba) {
            if let Some(sector) = self.clean.read(lba) {
                return copy_out(sector, lba, offset, into);
            }
            let sector = self.fetch(lba, false)?;
            return copy_out(&sector, lba, offset, into);
        }
        match self.pending.get(&lba) {
            Some(pending) => copy_out(&pending.current, lba, offset, into),
            None => Ok(()),
        }
    }

    /// Reads bytes of a metadata sector as on the medium, without the running batch.
    pub fn read_base(&mut self, lba: u64, offset: u32, into: &mut [u8]) -> Result<()> {
        match self.pending.get(&lba) {
            Some(pending) if pending.fresh => copy_out(&vec![0; self.size as usize], lba, offset, into),
            Some(pending) => copy_out(&pending.base, lba, offset, into),
            None => self.read(lba, offset, into),
        }
    }

    fn pending(&mut self, lba: u64) -> Result<&mut Pending> {
        if !self.pending.contains_key(&lba) {
            let base = self.fetch(lba, false)?;
            let current = base.clone();
            self.pending.insert(lba, Pending { base, current, patches: Vec::new(), fresh: false });
        }
        match self.pending.entry(lba) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let empty = || Vec::new().into_boxed_slice();
                Ok(entry.insert(Pending { base: empty(), current: empty(), patches: Vec::new(), fresh: false }))
            }
        }
    }

    /// Adds a change to the batch, replacing one at the same position.
    pub fn patch(&mut self, lba: u64, patch: Patch) -> Result<()> {
        self.pending(lba)?.set(patch);
        self.changes_made += 1;
        Ok(())
    }

    /// Reverts a change: the bytes are again those of the medium. `high_half`: the change begins
    /// with the high half of its first byte.
    pub fn unpatch(&mut self, lba: u64, offset: u32, high_half: bool) {
        let Some(pending) = self.pending.get_mut(&lba) else { return };
        self.changes_made += 1;
        pending.unset((offset, high_half));
        if pending.phases() == 0
            && let Some(pending) = self.pending.remove(&lba)
        {
            self.clean.put(lba, &pending.base);
        }
    }

    /// Adds a sector of zeroes that nothing on the medium refers to.
    pub fn fresh(&mut self, lba: u64) {
        let zeroes = || vec![0; self.size as usize].into_boxed_slice();
        let pending = Pending { base: zeroes(), current: zeroes(), patches: Vec::new(), fresh: true };
        self.pending.insert(lba, pending);
        self.changes_made += 1;
        self.clean.remove_range(lba, 1);
    }

    /// Drops pending changes of sectors that become free. Marks stay, because they show which of a
    /// moved file's two entries to remove.
    pub fn discard(&mut self, lba: u64, count: u64) {
        self.changes_made += 1;
        let end = lba.saturating_add(count);
        let waiting: Vec<u64> = self.data.range(lba..end).map(|(&at, _)| at).collect();
        for at in waiting {
            self.data.remove(&at);
        }
        let waiting: Vec<u64> = self.pending.range(lba..end).map(|(&at, _)| at).collect();
        for at in waiting {
            let Some(pending) = self.pending.get_mut(&at) else { continue };
            pending.patches.retain(|patch| patch.phase <= Phase::Mark);
            if pending.fresh || pending.patches.is_empty() {
                self.pending.remove(&at);
            }
        }
        self.clean.remove_range(lba, count);
    }

    /// Writes data sectors: to the device, or to the cache if it holds data.
    pub fn write_data(&mut self, lba: u64, payload: Payload<'_>) -> Result<()> {
        self.clean.remove_range(lba, payload.len() as u64 / u64::from(self.size));
        if !self.keep_data {
            return self.write_device(lba, true, payload);
        }
        let size = self.size as usize;
        for (at, start) in (lba..).zip((0..payload.len()).step_by(size)) {
            let data = match payload.part(start, size) {
                Some(Payload::Described(described)) => Data::Described(described),
                Some(Payload::Bytes(bytes)) => Data::Bytes(bytes.into()),
                Some(payload @ Payload::Assembled(_)) => {
                    let mut bytes = vec![0; payload.len()].into_boxed_slice();
                    payload.copy_to(&mut bytes);
                    Data::Bytes(bytes)
                }
                None => continue,
            };
            self.data.insert(at, data);
        }
        Ok(())
    }

    /// The bytes of one data sector, for changing a part of it.
    pub fn read_data_sector(&mut self, lba: u64) -> Result<Box<[u8]>> {
        match self.data.get(&lba) {
            Some(Data::Bytes(bytes)) => Ok(bytes.clone()),
            Some(Data::Described(described)) => {
                let mut bytes = vec![0; self.size as usize].into_boxed_slice();
                described.description.generate(&mut bytes);
                Ok(bytes)
            }
            None if self.keep_data => self.fetch(lba, true),
            None => {
                let mut bytes = vec![0; self.size as usize].into_boxed_slice();
                self.read_device(lba, true, ReadInto::Bytes(&mut bytes))?;
                Ok(bytes)
            }
        }
    }

    /// The number of sectors from `lba` on that can be read at once: up to the next one that waits
    /// in the cache (or a single one that does).
    pub fn data_run(&self, lba: u64, count: u64) -> u64 {
        match self.data.range(lba..lba.saturating_add(count)).next() {
            Some((&at, _)) if at == lba => 1,
            Some((&at, _)) => at - lba,
            None => count,
        }
    }

    /// The first of `count` sectors from `lba` on that waits in the cache.
    pub fn waits_after(&self, lba: u64, count: u64) -> Option<u64> {
        self.data.range(lba..lba.saturating_add(count)).next().map(|(&at, _)| at)
    }

    /// Reads data sectors; the caller must stay within one [`Sectors::data_run`].
    pub fn read_data(&mut self, lba: u64, into: ReadInto<'_>) -> Result<()> {
        match (self.data.get(&lba), into) {
            (None, into) => self.read_device(lba, true, into),
            (Some(_), ReadInto::Nothing { .. }) => Ok(()),
            (Some(Data::Described(described)), ReadInto::Content { content, .. }) => {
                content.set_described(*described);
                Ok(())
            }
            (Some(Data::Described(described)), ReadInto::Bytes(bytes)) => {
                described.description.generate(bytes);
                Ok(())
            }
            (Some(Data::Bytes(bytes)), ReadInto::Content { content, .. }) => {
                content.set_bytes(bytes.len()).copy_from_slice(bytes);
                Ok(())
            }
            (Some(Data::Bytes(bytes)), ReadInto::Bytes(into)) => copy_out(bytes, lba, 0, into),
        }
    }

    /// The number of changes to the batch's metadata so far: an operation that leaves it the same
    /// has changed nothing.
    pub fn changes_made(&self) -> u64 {
        self.changes_made
    }

    /// Whether a commit would write anything.
    pub fn has_changes(&self) -> bool {
        !self.data.is_empty() || self.has_metadata()
    }

    /// Whether metadata changes are pending.
    pub fn has_metadata(&self) -> bool {
        self.pending.values().any(|pending| pending.phases() != 0)
    }

    /// Writes the batch, except data outside of these sectors (in ascending order), which stay
    /// pending: the metadata referring to them reach the medium first.
    pub fn commit_with_data_of(&mut self, own: &[Range<u64>]) -> Result<()> {
        let is_own = |lba: u64| {
            let behind = own.partition_point(|range| range.start <= lba);
            behind.checked_sub(1).and_then(|at| own.get(at)).is_some_and(|range| range.contains(&lba))
        };
        let (due, others) = std::mem::take(&mut self.data).into_iter().partition(|(lba, _)| is_own(*lba));
        self.data = due;
        let done = self.commit();
        self.data.extend(others);
        done
    }

    /// Writes the batch phase by phase, with a flush between phases that have something to write.
    /// Afterwards the batch is empty.
    pub fn commit(&mut self) -> Result<()> {
        let mut before = self.data_first || !self.data.is_empty();
        self.write_back_data()?;
        for phase in Phase::ALL {
            let due: Vec<u64> = self
                .pending
                .iter()
                .filter(|(_, pending)| pending.phases() & phase.bit() != 0)
                .map(|(&lba, _)| lba)
                .collect();
            if due.is_empty() {
                continue;
            }
            if before && phase != Phase::Prepare && self.barriers {
                self.flush()?;
            }
            before = true;
            for run in due.chunk_by(|left, right| left + 1 == *right) {
                self.write_phase(run, phase)?;
            }
        }
        self.data_first = false;
        for (lba, pending) in std::mem::take(&mut self.pending) {
            self.clean.put(lba, &pending.current);
        }
        Ok(())
    }

    fn write_phase(&mut self, run: &[u64], phase: Phase) -> Result<()> {
        let mut bytes = Vec::with_capacity(run.len() * self.size as usize);
        for lba in run {
            let Some(pending) = self.pending.get_mut(lba) else { continue };
            for patch in pending.patches.iter().filter(|patch| patch.phase == phase) {
                patch.apply(&mut pending.base);
            }
            bytes.extend_from_slice(&pending.base);
        }
        let Some(&first) = run.first() else { return Ok(()) };
        let mut at = 0;
        let mirrors = self.mirrors;
        // A run may cross from one area into the next: FAT sectors go to every copy, others once.
        for part in run.chunk_by(|&left, &right| mirrors.copies_of(left) == mirrors.copies_of(right)) {
            let length = part.len() * self.size as usize;
            let Some(content) = bytes.get(at..at + length) else { break };
            let lba = first + (at / self.size as usize) as u64;
            at += length;
            for copy in 0..=mirrors.copies_of(lba) {
                self.write_device(lba + copy * mirrors.sectors, false, Payload::Bytes(content))?;
            }
        }
        Ok(())
    }

    /// Writes pending data, joining neighbours.
    fn write_back_data(&mut self) -> Result<()> {
        let data = std::mem::take(&mut self.data);
        let mut sectors = data.into_iter().peekable();
        while let Some((first, data)) = sectors.next() {
            let mut end = first + 1;
            match data {
                Data::Bytes(bytes) => {
                    let mut run = bytes.to_vec();
                    self.clean.put(first, &bytes);
                    while let Some((lba, Data::Bytes(bytes))) =
                        sectors.next_if(|(lba, data)| *lba == end && matches!(data, Data::Bytes(_)))
                    {
                        run.extend_from_slice(&bytes);
                        self.clean.put(lba, &bytes);
                        end += 1;
                    }
                    self.write_device(first, true, Payload::Bytes(&run))?;
                }
                Data::Described(mut run) => {
                    while let Some((_, Data::Described(next))) = sectors.next_if(|(lba, data)| {
                        *lba == end && matches!(data, Data::Described(next) if follows(&run, next))
                    }) {
                        run.length = run.length.saturating_add(next.length);
                        end += 1;
                    }
                    self.write_device(first, true, Payload::Described(run))?;
                }
            }
        }
        Ok(())
    }
}

/// Whether `next` continues `run`.
pub fn follows(run: &Described, next: &Described) -> bool {
    run.length.checked_add(next.length).is_some() && run.description.advanced(run.length) == Some(next.description)
}

fn copy_out(sector: &[u8], lba: u64, offset: u32, into: &mut [u8]) -> Result<()> {
    let from = offset as usize..(offset as usize).saturating_add(into.len());
    match sector.get(from) {
        Some(bytes) => {
            into.copy_from_slice(bytes);
            Ok(())
        }
        None => Err(FsError::new(
            ErrorKind::Corrupt,
            format!("{} bytes at byte {offset} of sector {lba} reach outside it", into.len()),
        )),
    }
}
