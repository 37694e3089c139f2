//! Drives a file system with a stream of file operations.

use std::ops::ControlFlow;

use nandkit_units::{Clock, Described, Nanos, Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, FsError, InodeNumber, NewNode, RenameFlags};

use super::PIECE_BYTES_MAX;
use super::expected::ExpectedContent;
use super::flusher::Flusher;
use crate::error::{Result, WorkloadError};
use crate::operation::{FileData, FileOperation, FileSlot, FileWorkload, OperationKind, Phase};
use crate::report::{DriverReport, PhaseReport, ProgressSink};

/// How many operations pass between two calls of the progress sink.
const PROGRESS_STEP: u64 = 256;

/// What the driver knows of a file or directory that the workload made.
#[derive(Debug)]
pub(super) struct Entry {
    pub inode: InodeNumber,
    pub parent: FileSlot,
    pub name: Vec<u8>,
    pub size: u64,
    pub is_directory: bool,
    /// Kept for regular files when the run is verified.
    pub expected: ExpectedContent,
}

/// Applies file operations to a file system, measures them in simulated time, and compares what it
/// reads with what was written.
///
/// Latencies are differences of the injected clock, which the file system advances. For an
/// operation that arrives at a stated instant (open loop) the latency counts from its arrival, so
/// that the waiting for the operations before it is in it.
///
/// A read or write of more than [`PIECE_BYTES_MAX`] goes to the file system in pieces of that size,
/// one after the other, each with a content of its own.
#[derive(Debug)]
pub struct FileDriver {
    pub(super) clock: Clock,
    pub(super) verify: bool,
    pub(super) entries: Vec<Option<Entry>>,
    /// Names in the root directory before the run, sorted; `None` until it begins.
    pub(super) names_before: Option<Vec<Vec<u8>>>,
    pub(super) report: DriverReport,
    pub(super) buffer: Vec<u8>,
    pub(super) wanted: Vec<u8>,
    flusher: Flusher,
    operations: u64,
}

fn slot_index(slot: FileSlot) -> usize {
    slot.0 as usize
}

impl FileDriver {
    /// A driver on the clock that the file system advances. With `verify` reads are compared as
    /// they happen, and [`FileDriver::verify_all`] compares everything at the end.
    pub fn new(clock: Clock, verify: bool) -> Self {
        Self {
            clock,
            verify,
            entries: Vec::new(),
            names_before: None,
            report: DriverReport::default(),
            buffer: Vec::new(),
            wanted: Vec::new(),
            flusher: Flusher::default(),
            operations: 0,
        }
    }

    /// Syncs the volume this long after a change, as a host does that wants to lose no more than
    /// that. The time of the sync counts in the phase and in the latency of the operation before
    /// it, but the sync is no operation of the workload.
    #[must_use]
    pub const fn syncing_after(mut self, after: Option<Nanos>) -> Self {
        self.flusher.after = after;
        self
    }

    /// The counts so far.
    pub const fn report(&self) -> &DriverReport {
        &self.report
    }

    /// Applies one phase of the workload. Phases without operations leave no report.
    pub fn run_phase(
        &mut self,
        phase: Phase,
        workload: &mut dyn FileWorkload,
        fs: &mut dyn FileSystem,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        self.begin(fs)?;
        let total = workload.begin(phase);
        let start = self.clock.now();
        let mut report = PhaseReport::new(phase, start);
        let mut done = 0;
        let mut arrival: Option<Nanos> = None;
        while let Some(operation) = workload.next_operation()? {
            let Some(kind) = operation.kind() else {
                if let FileOperation::Arrive { at } = operation {
                    self.idle(start + at, fs, &mut report)?;
                    self.clock.advance_to(start + at);
                    arrival = Some(start + at);
                }
                continue;
            };
            let issued = arrival.take().unwrap_or_else(|| self.clock.now());
            self.apply(&operation, workload, fs, &mut report)?;
            self.flusher.saw(&operation, self.clock.now());
            self.flush(self.clock.now(), fs, &mut report)?;
            report.record(kind, self.clock.now().since(issued));
            self.operations += 1;
            done += 1;
            if done % PROGRESS_STEP == 0 {
                let step = report.progress(done, total, self.clock.now());
                if progress(step) == ControlFlow::Break(()) {
                    return Err(WorkloadError::Cancelled { operations: self.operations });
                }
            }
        }
        report.ended = self.clock.now();
        if done > 0 {
            let _ = progress(report.progress(done, Some(done), report.ended));
            self.report.phases.push(report);
        }
        Ok(())
    }

    /// Lets idle time pass: the file system may work by itself, and the host's sync may fall due.
    fn idle(&mut self, until: Nanos, fs: &mut dyn FileSystem, report: &mut PhaseReport) -> Result<()> {
        while self.clock.now() < until {
            let keeping = fs.changes().and_then(|changes| changes.housekeeping());
            let due = keeping.map(|keeping| keeping.next_due().max(self.clock.now())).filter(|due| *due <= until);
            let sync = self.flusher.due().filter(|sync| *sync <= until);
            match (due, sync) {
                (None, None) => return Ok(()),
                (Some(due), sync) if sync.is_none_or(|sync| due < sync) => {
                    self.clock.advance_to(due);
                    if let Some(keeping) = fs.changes().and_then(|changes| changes.housekeeping()) {
                        let did = keeping.work().map_err(|source| self.failed("housekeeping", source))?;
                        if !did && keeping.next_due() <= self.clock.now() {
                            // What is due cannot be done.
                            return self.flush(until, fs, report);
                        }
                    }
                }
                _ => self.flush(until, fs, report)?,
            }
        }
        self.flush(until, fs, report)
    }

    fn flush(&mut self, until: Nanos, fs: &mut dyn FileSystem, report: &mut PhaseReport) -> Result<()> {
        let synced = self.flusher.flush(until, &self.clock, fs);
        report.host_syncs += u64::from(synced.map_err(|source| self.failed("the host's sync", source))?);
        Ok(())
    }

    /// Somebody made everything durable.
    pub const fn settled(&mut self) {
        self.flusher.settle();
    }

    /// Notes the root directory and the names in it.
    fn begin(&mut self, fs: &mut dyn FileSystem) -> Result<()> {
        if self.names_before.is_some() {
            return Ok(());
        }
        let inode = fs.root();
        let root = Entry {
            inode,
            parent: FileSlot::ROOT,
            name: Vec::new(),
            size: 0,
            is_directory: true,
            expected: ExpectedContent::default(),
        };
        self.entries = vec![Some(root)];
        let names = self.list(fs, inode).map_err(|source| self.failed("listing the root directory", source))?;
        self.names_before = Some(names);
        Ok(())
    }

    pub(super) fn list(&self, fs: &dyn FileSystem, directory: InodeNumber) -> nandkit_vfs::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        fs.read_dir(directory, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        })?;
        names.sort();
        Ok(names)
    }

    pub(super) fn entry(&self, slot: FileSlot) -> Result<&Entry> {
        match self.entries.get(slot_index(slot)) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(WorkloadError::inconsistent(format!("it uses file number {} before making it", slot.0))),
        }
    }

    fn entry_mut(&mut self, slot: FileSlot) -> Result<&mut Entry> {
        match self.entries.get_mut(slot_index(slot)) {
            Some(Some(entry)) => Ok(entry),
            _ => Err(WorkloadError::inconsistent(format!("it uses file number {} before making it", slot.0))),
        }
    }

    /// The path of a slot, for messages.
    pub(super) fn path(&self, slot: FileSlot) -> String {
        let mut parts = Vec::new();
        let mut at = slot;
        // Directories nest no deeper than there are entries, so a cycle (a wrong workload) ends.
        while at != FileSlot::ROOT && parts.len() <= self.entries.len() {
            let Ok(entry) = self.entry(at) else { break };
            parts.push(String::from_utf8_lossy(&entry.name).into_owned());
            at = entry.parent;
        }
        parts.reverse();
        format!("/{}", parts.join("/"))
    }

    pub(super) fn failed(&self, operation: impl Into<String>, source: FsError) -> WorkloadError {
        WorkloadError::File { index: self.operations, operation: operation.into(), source }
    }

    fn apply(
        &mut self,
        operation: &FileOperation,
        workload: &mut dyn FileWorkload,
        fs: &mut dyn FileSystem,
        report: &mut PhaseReport,
    ) -> Result<()> {
        match operation {
            FileOperation::Write { slot, offset, length, data } => {
                self.write(*slot, *offset, *length, *data, workload, fs)?;
                report.user_bytes_written += u64::from(*length);
            }
            FileOperation::Read { slot, offset, length } => {
                let read = self.read(*slot, *offset, *length, workload, fs)?;
                report.user_bytes_read += read;
            }
            FileOperation::Open { slot } => self.open(*slot, fs)?,
            FileOperation::MakeDirectory { slot, parent, name } => self.create(*slot, *parent, name, true, fs)?,
            FileOperation::Create { slot, parent, name } => self.create(*slot, *parent, name, false, fs)?,
            FileOperation::Rename { slot, parent, name } => self.rename(*slot, *parent, name, fs)?,
            FileOperation::Remove { slot } | FileOperation::RemoveDirectory { slot } => self.remove(*slot, fs)?,
            FileOperation::Truncate { slot, size } => self.truncate(*slot, *size, fs)?,
            FileOperation::Sync { slot } => {
                let inode = slot.map(|slot| self.entry(slot).map(|entry| entry.inode)).transpose()?;
                changes(fs).and_then(|fs| fs.sync(inode)).map_err(|source| self.failed("sync", source))?;
            }
            FileOperation::Arrive { .. } => {}
        }
        Ok(())
    }

    fn create(
        &mut self,
        slot: FileSlot,
        parent: FileSlot,
        name: &[u8],
        is_directory: bool,
        fs: &mut dyn FileSystem,
    ) -> Result<()> {
        let directory = self.entry(parent)?.inode;
        let node = if is_directory { &NewNode::DIRECTORY } else { &NewNode::FILE };
        let inode = changes(fs).and_then(|fs| fs.create(directory, name, node)).map_err(|source| {
            let what = if is_directory { "make directory" } else { "create" };
            let (parent, name) = (self.path(parent), String::from_utf8_lossy(name));
            self.failed(format!("{what} {}/{name}", parent.trim_end_matches('/')), source)
        })?;
        let index = slot_index(slot);
        if self.entries.len() <= index {
            // Gaps in a workload's numbers would make this table large without use.
            if index > self.entries.len() + 1_000_000 {
                return Err(WorkloadError::inconsistent(format!("file number {index} leaves a gap")));
            }
            self.entries.resize_with(index + 1, || None);
        }
        let entry =
            Entry { inode, parent, name: name.to_vec(), size: 0, is_directory, expected: ExpectedContent::default() };
        match self.entries.get_mut(index) {
            Some(place @ None) => *place = Some(entry),
            _ => return Err(WorkloadError::inconsistent(format!("it makes file number {index} twice"))),
        }
        Ok(())
    }

    fn open(&mut self, slot: FileSlot, fs: &dyn FileSystem) -> Result<()> {
        let mut steps = Vec::new();
        let mut at = slot;
        while at != FileSlot::ROOT {
            steps.push(at);
            at = self.entry(at)?.parent;
        }
        let mut inode = fs.root();
        for step in steps.into_iter().rev() {
            let entry = self.entry(step)?;
            inode = fs
                .lookup(inode, &entry.name)
                .map_err(|source| self.failed(format!("open {}", self.path(step)), source))?;
            if inode != entry.inode {
                return Err(WorkloadError::Mismatch {
                    place: self.path(step),
                    detail: format!("the name leads to inode {}, expected {}", inode.0, entry.inode.0),
                });
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        slot: FileSlot,
        offset: u64,
        length: u32,
        data: FileData,
        workload: &mut dyn FileWorkload,
        fs: &mut dyn FileSystem,
    ) -> Result<()> {
        let inode = self.entry(slot)?.inode;
        let what = |driver: &Self| format!("write {length} bytes to {} at {offset}", driver.path(slot));
        let mut done = 0;
        // A write of 0 bytes goes to the file system, too.
        for piece in 0.. {
            let size = (length - done).min(PIECE_BYTES_MAX);
            let data = data.piece(piece);
            let at = offset.saturating_add(u64::from(done));
            let payload = match data {
                FileData::Described(description) => Payload::Described(Described { description, length: size }),
                FileData::Original { number, offset } => {
                    self.buffer.resize(size as usize, 0);
                    workload.original(number, offset, &mut self.buffer)?;
                    Payload::Bytes(&self.buffer)
                }
            };
            let written = changes(fs)
                .and_then(|fs| fs.write(inode, at, payload))
                .map_err(|source| self.failed(what(self), source))?;
            if written != size as usize {
                let taken = done as usize + written;
                let detail = format!("took {taken} of {length} bytes; use a smaller workload or a larger device");
                return Err(self.failed(what(self), FsError::new(ErrorKind::NoSpace, detail)));
            }
            let verify = self.verify;
            let entry = self.entry_mut(slot)?;
            entry.size = entry.size.max(at.saturating_add(u64::from(size)));
            if verify {
                entry.expected.write(at, u64::from(size), data);
            }
            done += size;
            if done == length {
                break;
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        slot: FileSlot,
        offset: u64,
        length: u32,
        workload: &mut dyn FileWorkload,
        fs: &dyn FileSystem,
    ) -> Result<u64> {
        let entry = self.entry(slot)?;
        let (inode, there) = (entry.inode, entry.size.saturating_sub(offset).min(u64::from(length)));
        let what = |driver: &Self| format!("read {length} bytes of {} at {offset}", driver.path(slot));
        let mut done = 0;
        // The first short piece is the end of the file.
        loop {
            let size = (length - done).min(PIECE_BYTES_MAX);
            let at = offset.saturating_add(u64::from(done));
            if self.verify {
                self.buffer.resize(size as usize, 0);
            }
            let into = if self.verify { ReadInto::Bytes(&mut self.buffer) } else { ReadInto::Nothing { length: size } };
            let read = fs.read(inode, at, into).map_err(|source| self.failed(what(self), source))?;
            let expected = there.saturating_sub(u64::from(done)).min(u64::from(size));
            if read as u64 != expected {
                return Err(WorkloadError::Mismatch {
                    place: self.path(slot),
                    detail: format!("{}: got {} bytes, expected {there}", what(self), u64::from(done) + read as u64),
                });
            }
            if self.verify {
                self.compare_buffer(slot, at, read, workload)?;
            }
            done += size;
            if expected < u64::from(size) || done == length {
                return Ok(there);
            }
        }
    }

    fn truncate(&mut self, slot: FileSlot, size: u64, fs: &mut dyn FileSystem) -> Result<()> {
        let inode = self.entry(slot)?.inode;
        let change = AttributeChange { size: Some(size), ..AttributeChange::default() };
        changes(fs)
            .and_then(|fs| fs.set_attributes(inode, &change))
            .map_err(|source| self.failed(format!("truncate {} to {size}", self.path(slot)), source))?;
        let entry = self.entry_mut(slot)?;
        entry.size = size;
        entry.expected.truncate(size);
        Ok(())
    }

    fn rename(&mut self, slot: FileSlot, parent: FileSlot, name: &[u8], fs: &mut dyn FileSystem) -> Result<()> {
        let to = self.entry(parent)?.inode;
        let entry = self.entry(slot)?;
        let from = self.entry(entry.parent)?.inode;
        changes(fs).and_then(|fs| fs.rename((from, &entry.name), (to, name), RenameFlags::Replace)).map_err(
            |source| {
                let name = String::from_utf8_lossy(name);
                self.failed(format!("rename {} to {name}", self.path(slot)), source)
            },
        )?;
        let entry = self.entry_mut(slot)?;
        entry.parent = parent;
        entry.name = name.to_vec();
        Ok(())
    }

    fn remove(&mut self, slot: FileSlot, fs: &mut dyn FileSystem) -> Result<()> {
        let entry = self.entry(slot)?;
        let directory = self.entry(entry.parent)?.inode;
        changes(fs)
            .and_then(|fs| fs.remove(directory, &entry.name))
            .map_err(|source| self.failed(format!("remove {}", self.path(slot)), source))?;
        if let Some(place) = self.entries.get_mut(slot_index(slot)) {
            *place = None;
        }
        Ok(())
    }

    /// Counts of one kind over all phases.
    pub fn operations(&self, kind: OperationKind) -> u64 {
        self.report.phases.iter().map(|phase| phase.operations(kind)).sum()
    }
}

/// The file system's changes. Errors: it is mounted read-only.
fn changes(fs: &mut dyn FileSystem) -> nandkit_vfs::Result<&mut dyn Changes> {
    fs.changes().ok_or_else(|| FsError::new(ErrorKind::ReadOnly, "the file system is mounted read-only"))
}
