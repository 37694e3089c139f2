//! A block device in a file with atomic flushes: after a crash the file has the complete state of
//! the last flush.

mod extents;
mod layout;
mod replay;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::Path;

use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

use crate::check::{check_geometry, check_range, check_writable, sectors_of};
use crate::file::zero;
use crate::medium::{Access, Medium, corrupt, create_locked, io_error, open_locked};
use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result, Trim};
use extents::{Extent, ExtentMap, Source};
use layout::{FRAME_SIZE, Frame, FrameKind, HEADER_SIZE, PAYLOAD_MAX, journal_start};

/// A block device in one file (`layout.rs` describes the format). Changes wait in memory, and
/// beyond a limit in the journal, until [`BlockDevice::flush`]. A flush appends the changes and a
/// commit frame to the journal, makes that durable, and then writes the sectors in place. A flush
/// that was interrupted after its commit is completed when the file is opened; one interrupted
/// before is dropped. The file changes only with the first write, trim or flush, which also removes
/// what follows the sectors; opening alone changes nothing. Takes no simulated time.
///
/// A flush costs twice the changed bytes and two syncs. Memory: the limit and about 100 bytes per
/// changed extent. The journal grows by the amount written between two flushes. After an
/// operating-system error in a write or flush, all further changes are refused, because the file's
/// state is unknown: open it again.
#[derive(Debug)]
pub struct JournalledFile<M: Medium = File> {
    medium: M,
    geometry: BlockGeometry,
    access: Access,
    extents: ExtentMap,
    buffered: usize,
    buffer_limit: usize,
    journal: Journal,
    leftover: Leftover,
    poisoned: bool,
}

/// What followed the sectors when the file was opened; it stays until the first change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Leftover {
    #[default]
    Nothing,
    /// No complete journal: it does not count.
    Torn,
    /// A complete journal; its sectors are in the extents.
    Complete,
}

/// The position of the next flush's journal.
#[derive(Debug)]
struct Journal {
    end: u64,
    sequence: u64,
    frames: u64,
    chain: crc32fast::Hasher,
}

impl Journal {
    fn new(geometry: &BlockGeometry, sequence: u64) -> Self {
        Self { end: journal_start(geometry), sequence, frames: 0, chain: crc32fast::Hasher::new() }
    }

    fn append<M: Medium>(
        &mut self,
        medium: &mut M,
        kind: FrameKind,
        at: u64,
        sectors: u64,
        payload: &[u8],
    ) -> io::Result<u64> {
        let payload_crc = match kind {
            FrameKind::Commit => self.chain.clone().finalize(),
            _ => crc32fast::hash(payload),
        };
        let head = Frame { kind, sequence: self.sequence, at, sectors, payload_crc }.encode();
        let mut bytes = Vec::with_capacity(FRAME_SIZE + payload.len());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(payload);
        medium.write_at(self.end, &bytes)?;
        let payload_at = self.end + FRAME_SIZE as u64;
        self.end += bytes.len() as u64;
        self.chain.update(&head);
        self.frames += 1;
        Ok(payload_at)
    }
}

/// Default limit of changes kept in memory, in bytes.
const BUFFER_LIMIT: usize = 32 << 20;

impl JournalledFile<File> {
    /// Offset of the first sector in bytes, for messages about the file's content.
    pub const SECTORS_AT: u64 = HEADER_SIZE;

    /// Creates a file of zeroes; refuses an existing one. If the file cannot be completed (no
    /// space, larger than a file may be), it is removed.
    pub fn create(path: &Path, geometry: BlockGeometry) -> Result<Self> {
        check_geometry(&geometry)?;
        Self::create_on(create_locked(path)?, geometry).inspect_err(|_| {
            // Report the first error, not this one.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Opens an existing file, locked. Errors: `Io` (no such file, in use), `Corrupt` (no such
    /// format, another version, damaged).
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let file = open_locked(path, access)?;
        Self::open_on(file, access).map_err(|error| match error.kind {
            ErrorKind::Corrupt => corrupt(path, error.detail),
            _ => error,
        })
    }
}

impl<M: Medium> JournalledFile<M> {
    /// Creates a device on any medium, whose content is lost; see [`JournalledFile::create`].
    pub fn create_on(mut medium: M, geometry: BlockGeometry) -> Result<Self> {
        check_geometry(&geometry)?;
        let mut make = || {
            medium.set_len(0)?;
            medium.set_len(journal_start(&geometry))?;
            medium.write_at(0, &layout::encode_header(&geometry))?;
            medium.sync()
        };
        make().map_err(|error| io_error(Operation::Open, Lba(0), "cannot make the device file", error))?;
        Ok(Self::assemble(medium, geometry, Access::ReadWrite, 1))
    }

    /// Opens a device on any medium; see [`JournalledFile::open`].
    pub fn open_on(medium: M, access: Access) -> Result<Self> {
        let failed = |error| io_error(Operation::Open, Lba(0), "cannot read the device file", error);
        let damaged = |detail| BlockError::new(ErrorKind::Corrupt, Operation::Open, Lba(0), detail);
        let length = medium.len().map_err(failed)?;
        let mut header = vec![0; HEADER_SIZE.min(length) as usize];
        medium.read_at(0, &mut header).map_err(failed)?;
        let geometry = layout::decode_header(&header).map_err(damaged)?;
        let expected = journal_start(&geometry);
        if length < expected {
            return Err(damaged(format!("the device file has {length} bytes, expected at least {expected}")));
        }
        let found = replay::read_journal(&medium, &geometry, length).map_err(failed)?;
        let mut device = Self::assemble(medium, geometry, access, found.sequence.wrapping_add(1));
        let complete = found.extents.is_some();
        device.extents = found.extents.unwrap_or(device.extents);
        device.leftover = match (length > expected, complete) {
            (false, _) => Leftover::Nothing,
            (true, false) => Leftover::Torn,
            (true, true) => Leftover::Complete,
        };
        Ok(device)
    }

    fn assemble(medium: M, geometry: BlockGeometry, access: Access, sequence: u64) -> Self {
        Self {
            medium,
            geometry,
            access,
            extents: ExtentMap::new(geometry.sector_size),
            buffered: 0,
            buffer_limit: BUFFER_LIMIT,
            journal: Journal::new(&geometry, sequence),
            leftover: Leftover::Nothing,
            poisoned: false,
        }
    }

    /// Limits the changes kept in memory to about `bytes` bytes.
    pub fn with_buffer_limit(mut self, bytes: usize) -> Self {
        self.buffer_limit = bytes;
        self
    }

    /// Returns the medium; changes that were not flushed are lost.
    pub fn into_medium(self) -> M {
        self.medium
    }

    fn place_of(&self, sector: u64) -> u64 {
        HEADER_SIZE + sector * u64::from(self.geometry.sector_size)
    }

    /// Prepares a change: checks that it is allowed, and settles what followed the sectors in the
    /// file.
    fn begin_change(&mut self, operation: Operation, at: Lba) -> Result<()> {
        check_writable(self.access, operation, at)?;
        if self.poisoned {
            let detail = "an earlier write to the device file failed; open it again to get the state of a flush";
            return Err(BlockError::new(ErrorKind::Io, operation, at, detail));
        }
        let settled = match std::mem::take(&mut self.leftover) {
            Leftover::Nothing => return Ok(()),
            Leftover::Complete => self.apply(),
            Leftover::Torn => self.truncate().and_then(|()| self.medium.sync()),
        };
        settled.map_err(|error| {
            self.poisoned = true;
            io_error(operation, at, "cannot complete the last flush", error)
        })
    }

    /// Converts a failure of the medium to an error, and refuses all later changes.
    fn settle(&mut self, operation: Operation, at: Lba, result: io::Result<()>) -> Result<()> {
        result.map_err(|error| {
            self.poisoned = true;
            io_error(operation, at, "cannot write the device file", error)
        })
    }

    /// Appends all buffered extents to the journal. With `let_go` they are removed from memory.
    fn spill(&mut self, let_go: bool) -> io::Result<()> {
        let sector_size = self.geometry.sector_size as usize;
        let frame_sectors = (PAYLOAD_MAX / sector_size).max(1) as u64;
        let mut pieces = Vec::new();
        for (at, extent) in self.extents.iter() {
            let Source::Memory { bytes, start } = &extent.source else { continue };
            let mut done = 0;
            while done < extent.sectors {
                let sectors = frame_sectors.min(extent.sectors - done);
                let from = start + done as usize * sector_size;
                let payload = bytes.get(from..from + sectors as usize * sector_size).unwrap_or(&[]);
                let offset = self.journal.append(&mut self.medium, FrameKind::Data, at + done, sectors, payload)?;
                if let_go {
                    pieces.push((at + done, Extent { sectors, source: Source::Journal { offset } }));
                }
                done += sectors;
            }
        }
        for (at, piece) in pieces {
            self.extents.insert(at, piece);
        }
        if let_go {
            self.buffered = 0;
        }
        Ok(())
    }

    /// Does everything up to the point after which the flush will be completed in any case.
    fn commit(&mut self) -> io::Result<()> {
        self.spill(false)?;
        for (at, extent) in self.extents.iter() {
            if matches!(extent.source, Source::Zero) {
                self.journal.append(&mut self.medium, FrameKind::Zero, at, extent.sectors, &[])?;
            }
        }
        let frames = self.journal.frames;
        self.journal.append(&mut self.medium, FrameKind::Commit, frames, 0, &[])?;
        self.medium.sync()
    }

    /// Writes committed changes in place and drops the journal.
    fn apply(&mut self) -> io::Result<()> {
        let sector_size = u64::from(self.geometry.sector_size);
        let mut piece = Vec::new();
        for (at, extent) in self.extents.iter() {
            let (place, bytes) = (self.place_of(at), extent.sectors * sector_size);
            match &extent.source {
                Source::Zero => zero(&mut self.medium, place, bytes)?,
                Source::Memory { bytes: held, start } => {
                    self.medium.write_at(place, held.get(*start..*start + bytes as usize).unwrap_or(&[]))?;
                }
                Source::Journal { offset } => {
                    let mut done = 0;
                    while done < bytes {
                        let length = (bytes - done).min(PAYLOAD_MAX as u64);
                        piece.resize(length as usize, 0);
                        self.medium.read_at(offset + done, &mut piece)?;
                        self.medium.write_at(place + done, &piece)?;
                        done += length;
                    }
                }
            }
        }
        self.medium.sync()?;
        self.truncate()?;
        self.extents.clear();
        self.buffered = 0;
        Ok(())
    }

    /// Truncates the journal. This need not be durable: a journal that reappears is complete and
    /// repeats what is already in place, or is older than the next one.
    fn truncate(&mut self) -> io::Result<()> {
        self.medium.set_len(journal_start(&self.geometry))?;
        self.journal = Journal::new(&self.geometry, self.journal.sequence.wrapping_add(1));
        Ok(())
    }

    fn copy_to(&self, at: Lba, into: &mut [u8]) -> io::Result<()> {
        let sector_size = u64::from(self.geometry.sector_size);
        self.medium.read_at(self.place_of(at.0), into)?;
        for (first, extent) in self.extents.overlapping(at.0, into.len() as u64 / sector_size) {
            let from = ((first - at.0) * sector_size) as usize;
            let Some(into) = into.get_mut(from..from + (extent.sectors * sector_size) as usize) else { continue };
            match extent.source {
                Source::Zero => into.fill(0),
                Source::Journal { offset } => self.medium.read_at(offset, into)?,
                Source::Memory { bytes, start } => {
                    if let Some(bytes) = bytes.get(start..start + into.len()) {
                        into.copy_from_slice(bytes);
                    }
                }
            }
        }
        Ok(())
    }
}

impl<M: Medium> BlockDevice for JournalledFile<M> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Read, at, into.len())?;
        let bytes = match into {
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Content { content, length } => content.set_bytes(length as usize),
            ReadInto::Nothing { .. } => return Ok(Done::immediately(context)),
        };
        self.copy_to(at, bytes).map_err(|error| io_error(Operation::Read, at, "cannot read the device file", error))?;
        Ok(Done::immediately(context))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, data.len())?;
        self.begin_change(Operation::Write, at)?;
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let sectors = data.len() as u64 / u64::from(self.geometry.sector_size);
        let source = Source::Memory { bytes: bytes.into(), start: 0 };
        self.extents.insert(at.0, Extent { sectors, source });
        self.buffered = self.buffered.saturating_add(data.len());
        if self.buffered > self.buffer_limit {
            let spilled = self.spill(true);
            self.settle(Operation::Write, at, spilled)?;
        }
        Ok(Done::immediately(context))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        if self.access == Access::ReadOnly {
            return Ok(Done::immediately(context));
        }
        self.begin_change(Operation::Flush, Lba(0))?;
        if !self.extents.is_empty() {
            let flushed = self.commit().and_then(|()| self.apply());
            self.settle(Operation::Flush, Lba(0), flushed)?;
        }
        Ok(Done::immediately(context))
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        match self.access {
            Access::ReadWrite => Some(self),
            Access::ReadOnly => None,
        }
    }
}

impl<M: Medium> Trim for JournalledFile<M> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        sectors_of(&self.geometry, Operation::Trim, at, sectors)?;
        self.begin_change(Operation::Trim, at)?;
        self.extents.insert(at.0, Extent { sectors, source: Source::Zero });
        Ok(Done::immediately(context))
    }
}
