//! Changes of an attached device: LEBs are mapped, written and changed, PEBs erased and levelled.
//!
//! An unmapped LEB's PEB is erased at once, where Linux's background thread does it a moment later:
//! until then a power cut brings the old content back there, and never here.

mod pebs;
mod recover;
mod table;
mod wear_tree;

use std::collections::BTreeSet;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::attach::Ubi;
use crate::copies::Claim;
use crate::layout::{Decoded, ERASE_COUNTER_MAX, EcHeader, VidHeader, VolumeType, checksum};
use crate::medium::Health;
use crate::scan::{self, Geometry, PebHeaders};
use crate::volume::Volume;
use crate::{Leb, Peb};
use pebs::Pebs;

pub use table::{MOVING_PEBS, NewVolume};

/// How a writer treats the flash.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Difference of erase counters at which content that seldom changes moves to a worn PEB
    /// (Linux: 4096).
    pub wear_threshold: u32,
    /// PEBs in 1024 that are kept for blocks that go bad, on NAND (Linux: 20).
    pub bad_per_1024: u32,
    /// Whether blank PEBs get their header when they are needed, so that a file grows no more than
    /// its content. Linux gives it to all at once, and levels wear over them too.
    pub keeps_blank: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { wear_threshold: 4096, bad_per_1024: 20, keeps_blank: false }
    }
}

/// What a writer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// PEBs erased.
    pub erases: u64,
    /// LEBs copied to level wear.
    pub levelled: u64,
    /// PEBs that failed and were marked bad.
    pub failed: u64,
}

/// An attached device, for changes. Changes are durable when the flash says so; each LEB change,
/// and each change of the volume table, happens as a whole or not at all.
#[derive(Debug)]
pub struct UbiWriter<F> {
    ubi: Ubi<F>,
    pebs: Pebs,
    /// The sequence number of the next volume identifier header.
    sequence: u64,
    options: WriteOptions,
    counters: WriteCounters,
    /// Why the user of the volumes writes what comes next.
    cause: Cause,
}

impl<F: Flash> UbiWriter<F> {
    /// Makes an attached device writable: erases the PEBs whose content no longer counts, as Linux
    /// does after attaching, and gives blank ones their header. Content of PEBs that are marked bad
    /// does not count, as with Linux: it was moved before, or is out of date.
    ///
    /// Errors: `ReadOnly` if the device cannot be written without a loss: its volume table is
    /// damaged, or an internal volume is not known; `Device`. Cost: reads all headers again.
    pub fn new(ubi: Ubi<F>, options: WriteOptions) -> Result<Self> {
        if let Some(why) = &ubi.obstacle {
            return Err(FsError::new(ErrorKind::ReadOnly, format!("the device cannot be written: {why}")));
        }
        let headers = scan::scan(&ubi.medium)?.headers;
        let mean = ubi.counts.erases_sum.checked_div(ubi.counts.counted.into()).unwrap_or(0) as u32;
        let mut writer = Self {
            pebs: Pebs::new(ubi.medium.pebs(), mean),
            sequence: 0,
            options,
            counters: WriteCounters::default(),
            cause: Cause::default(),
            ubi,
        };
        for volume in &mut writer.ubi.volumes {
            volume.lebs.retain(|_, claim| !writer.ubi.medium.is_bad(claim.peb));
        }
        let stale = writer.sort_pebs(&headers);
        for peb in stale {
            writer.erase(peb)?;
        }
        while !options.keeps_blank
            && let Some(peb) = writer.pebs.take_blank()
        {
            writer.erase(peb)?;
        }
        Ok(writer)
    }

    /// Puts each PEB in its list; returns those to erase.
    fn sort_pebs(&mut self, headers: &[PebHeaders]) -> Vec<Peb> {
        let claims = self.ubi.volumes.iter().flat_map(|volume| volume.lebs.values());
        let claims = claims.chain(self.ubi.table_copies.iter().flatten());
        let used: BTreeSet<Peb> = claims.map(|claim| claim.peb).collect();
        let mut stale = Vec::new();
        let mut known = headers.iter().peekable();
        for peb in (0..self.ubi.medium.pebs()).map(Peb) {
            let headers = known.next_if(|headers| headers.peb == peb);
            // Marked-bad ones with intact headers come last in the list: they are only read.
            if self.ubi.medium.is_bad(peb) {
                continue;
            }
            let Some(headers) = headers else {
                self.pebs.add_blank(peb);
                continue;
            };
            if let Some(erases) = headers.ec.header().and_then(|ec| ec.erases()) {
                self.pebs.set_erases(peb, erases as u32);
            }
            if let Some(vid) = headers.vid.header() {
                self.sequence = self.sequence.max(vid.sequence.saturating_add(1));
            }
            match (headers.ec, headers.vid) {
                _ if used.contains(&peb) => self.pebs.add_used(peb),
                _ if self.ubi.aside.contains(&peb) => {}
                (Decoded::Header(_), Decoded::Erased) => self.pebs.add_free(peb),
                _ => stale.push(peb),
            }
        }
        stale
    }

    /// Says why what comes next is written to LEBs. Headers and erases are UBI's own map, whatever
    /// it is.
    pub const fn set_cause(&mut self, cause: Cause) {
        self.cause = cause;
    }

    /// The device as readers see it.
    pub const fn ubi(&self) -> &Ubi<F> {
        &self.ubi
    }

    /// What was done so far.
    pub const fn counters(&self) -> WriteCounters {
        self.counters
    }

    /// Makes all changes durable. Errors: `Device`.
    pub fn sync(&mut self) -> Result<()> {
        self.ubi.medium.sync()
    }

    /// Ends the changes and returns the flash. Errors: as [`UbiWriter::sync`].
    pub fn finish(mut self) -> Result<F> {
        self.sync()?;
        Ok(self.ubi.into_flash())
    }

    /// Writes bytes of a LEB of a dynamic volume, behind those that were written before; an
    /// unmapped LEB is mapped first. `offset` and the length are multiples of the flash's write
    /// unit.
    ///
    /// Errors: `NotFound`, `InvalidArgument` (a static volume, range, unit), `NoSpace`, `Device`.
    pub fn write_leb(&mut self, volume: u32, leb: Leb, offset: u32, data: &[u8]) -> Result<()> {
        let claim = self.writable(volume, leb, u64::from(offset) + data.len() as u64)?;
        let unit = self.ubi.medium.write_unit();
        if !offset.is_multiple_of(unit) || !data.len().is_multiple_of(unit as usize) {
            let detail = format!("{} bytes at {offset}; expected multiples of {unit}, the write unit", data.len());
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let claim = match claim {
            Some(claim) => claim,
            None => self.map(volume, leb, &[], Copying::No)?,
        };
        if data.is_empty() {
            return Ok(());
        }
        self.program_or_move(claim, offset, data)
    }

    /// Maps a LEB of a dynamic volume, so that it reads as erased and is known to be. Errors: as
    /// [`UbiWriter::write_leb`].
    pub fn map_leb(&mut self, volume: u32, leb: Leb) -> Result<()> {
        self.write_leb(volume, leb, 0, &[])
    }

    /// Replaces the content of a LEB of a dynamic volume: after a power cut it is the old one or
    /// the new one. Errors: as [`UbiWriter::write_leb`].
    pub fn change_leb(&mut self, volume: u32, leb: Leb, data: &[u8]) -> Result<()> {
        let old = self.writable(volume, leb, data.len() as u64)?;
        self.map(volume, leb, data, if data.is_empty() { Copying::No } else { Copying::Yes })?;
        old.map_or(Ok(()), |old| self.give_back(old.peb))
    }

    /// Unmaps a LEB of a dynamic volume: it reads as erased. Errors: as [`UbiWriter::write_leb`].
    pub fn unmap_leb(&mut self, volume: u32, leb: Leb) -> Result<()> {
        self.writable(volume, leb, 0)?;
        self.unmap(volume, leb)
    }

    fn unmap(&mut self, volume: u32, leb: Leb) -> Result<()> {
        match self.ubi.volume_mut(volume).and_then(|volume| volume.lebs.remove(&leb)) {
            Some(claim) => self.give_back(claim.peb),
            None => Ok(()),
        }
    }

    /// The PEB of a LEB that may be written up to `end`.
    fn writable(&self, number: u32, leb: Leb, end: u64) -> Result<Option<Claim>> {
        let wrong = |detail: String| Err(FsError::new(ErrorKind::InvalidArgument, detail));
        let volume = self.volume(number)?;
        if volume.record.volume_type != VolumeType::Dynamic {
            return wrong(format!("the volume '{}' is static; its content changes as a whole", volume.file_name));
        }
        if leb.0 >= volume.record.reserved_pebs {
            return wrong(format!("LEB {}; expected one below {}", leb.0, volume.record.reserved_pebs));
        }
        if end > u64::from(volume.leb_size) {
            return wrong(format!("bytes up to {end} of a LEB of {}", volume.leb_size));
        }
        Ok(volume.lebs.get(&leb).copied())
    }

    fn volume(&self, number: u32) -> Result<&Volume> {
        let found = self.ubi.volumes.iter().find(|volume| volume.number == number);
        found.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("no volume has number {number}")))
    }

    /// Puts data in a new PEB for a LEB, which then counts.
    fn map(&mut self, number: u32, leb: Leb, data: &[u8], copying: Copying) -> Result<Claim> {
        let volume = self.volume(number)?;
        let vid = VidHeader {
            volume: number,
            leb: leb.0,
            data_pad: volume.record.data_pad,
            ..VidHeader::new(volume.record.volume_type)
        };
        let vid = match copying {
            Copying::No => vid,
            Copying::Yes => VidHeader { is_copy: true, ..vid }.with_data(data),
            Copying::Static { used_lebs } => VidHeader { used_lebs, ..vid }.with_data(data),
        };
        let claim = self.put(vid, data)?;
        if let Some(volume) = self.ubi.volume_mut(number) {
            volume.lebs.insert(leb, claim);
        }
        Ok(claim)
    }

    /// Writes a header with the next sequence number, and data, to a free PEB; those that fail are
    /// marked bad on the way.
    fn put(&mut self, vid: VidHeader, data: &[u8]) -> Result<Claim> {
        loop {
            let peb = self.take()?;
            if let Some(claim) = self.put_at(peb, vid, data, self.cause)? {
                return Ok(claim);
            }
            self.retire(peb)?;
        }
    }

    /// Writes a header and data to a free PEB, which is in no list; `None` if it fails.
    fn put_at(&mut self, peb: Peb, vid: VidHeader, data: &[u8], cause: Cause) -> Result<Option<Claim>> {
        let vid = VidHeader { sequence: self.next_sequence(), ..vid };
        let Geometry { vid_offset, data_offset, .. } = self.ubi.geometry;
        let medium = &mut self.ubi.medium;
        let is_written = medium.program(peb, vid_offset, &vid.encode(), Cause::Mapping)? == Health::Good
            && medium.program(peb, data_offset, data, cause)? == Health::Good;
        if !is_written {
            return Ok(None);
        }
        self.pebs.add_used(peb);
        Ok(Some(Claim { peb, vid }))
    }

    fn next_sequence(&mut self) -> u64 {
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        sequence
    }

    /// A free PEB with a header; it is in no list then. Errors: `NoSpace`, `Device`.
    fn take(&mut self) -> Result<Peb> {
        loop {
            if let Some(peb) = self.pebs.take_free(self.options.wear_threshold) {
                return Ok(peb);
            }
            let Some(peb) = self.pebs.take_blank() else {
                return Err(FsError::new(ErrorKind::NoSpace, "no physical erase block is free"));
            };
            self.erase(peb)?;
        }
    }

    /// Erases the PEB of a LEB that no longer counts.
    fn give_back(&mut self, peb: Peb) -> Result<()> {
        self.pebs.remove_used(peb);
        if self.ubi.medium.is_bad(peb) {
            return Ok(());
        }
        self.erase(peb)?;
        self.level_wear()
    }

    /// Erases a PEB in no list, writes its header, and puts it among the free ones; one that fails
    /// is marked bad. Errors: `Device`, but for a failed erase or program.
    fn erase(&mut self, peb: Peb) -> Result<()> {
        let erases = u64::from(self.pebs.erases(peb)) + 1;
        let erases = erases.min(ERASE_COUNTER_MAX);
        self.pebs.set_erases(peb, erases as u32);
        self.ubi.forget_verified(peb);
        let geometry = self.ubi.geometry;
        let header = EcHeader {
            erase_counter: erases,
            vid_offset: geometry.vid_offset,
            data_offset: geometry.data_offset,
            image_sequence: self.ubi.image_sequence,
        };
        let medium = &mut self.ubi.medium;
        let is_good = medium.erase(peb)? == Health::Good
            && medium.program(peb, 0, &header.encode(), Cause::Mapping)? == Health::Good;
        if !is_good {
            return self.retire(peb);
        }
        self.counters.erases += 1;
        self.pebs.add_free(peb);
        Ok(())
    }

    /// Moves content that seldom changes to a worn PEB, if wear differs enough.
    fn level_wear(&mut self) -> Result<()> {
        let Some((from, to)) = self.pebs.cold(self.options.wear_threshold) else { return Ok(()) };
        let Some(claim) = self.claim_at(from) else {
            self.pebs.add_free(to);
            return Ok(());
        };
        self.counters.levelled += 1;
        self.move_leb(claim, to)
    }
}

/// What a header says of the data behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copying {
    /// Nothing: data will follow.
    No,
    /// Their checksum, by which attaching knows a whole copy.
    Yes,
    /// Their checksum and the length of the volume.
    Static { used_lebs: u32 },
}

impl VidHeader {
    fn with_data(self, data: &[u8]) -> Self {
        Self { data_size: data.len() as u32, data_checksum: checksum(data), ..self }
    }

    fn without_data(self) -> Self {
        Self { data_size: 0, data_checksum: 0, ..self }
    }
}
