//! Replays the recorded calls of one file system on another, at the same instants.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;

use nandkit_units::{Clock, Nanos, Payload, ReadInto};
use nandkit_vfs::wrap::{CallOutput, Listed};
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, InodeNumber, NewNode};

use super::request::{CameTo, Entries, Header, Recorded, Request, VERSION};
use crate::error::{Result, SpecError, WorkloadError};
use crate::inputs::Inputs;
use crate::operation::Phase;
use crate::report::{PhaseReport, ProgressSink};
use crate::trace::{Format, LATEST, Timing, Trace, decompressed, shortened, unreadable};

/// The beginning of a recording's first line.
pub(crate) const MAGIC: &[u8] = b"{\"nandkit_calls\"";
/// Longest first line.
const HEADER_MAX: u64 = 4096;
/// Longest line: the kernel hands over a mebibyte at most, and each byte takes three at most.
const LINE_MAX: u64 = 16 << 20;
/// Longest read.
const READ_MAX: u64 = 16 << 20;
/// How many calls pass between two calls of the progress sink.
const PROGRESS_STEP: u64 = 256;

/// A recording that is replayed.
pub struct CallReplay {
    file: String,
    input: Box<dyn BufRead + Send>,
    line: u64,
    /// Calls that are still wanted.
    left: u64,
    /// Whether calls are made at the recorded instants; otherwise as soon as the one before has
    /// ended.
    timed: bool,
    /// The inode on this file system, by the recorded inode.
    inodes: BTreeMap<u64, InodeNumber>,
    /// The cookie on this file system, by directory and recorded cookie.
    cookies: BTreeMap<(u64, u64), u64>,
    /// Number of calls that this file system does not support.
    skipped: u64,
    /// Whether the last call was a sync of the volume.
    synced: bool,
    buffer: Vec<u8>,
}

/// The result of a replayed call.
enum Came {
    To(CallOutput),
    Error(FsError),
    /// The call was not made: its inode is not known on this file system.
    Nothing(u64),
}

impl CallReplay {
    /// Opens a recording of calls; `None` if the trace is not a recording. Errors: a file that
    /// cannot be read, another version, parameters that recordings do not have.
    pub fn open(spec: &Trace, inputs: &dyn Inputs) -> Result<Option<Self>> {
        spec.check()?;
        if !matches!(spec.format, Format::Auto | Format::Calls) {
            return Ok(None);
        }
        let opened = inputs.open(&spec.file).and_then(decompressed);
        let mut input = opened.map_err(|source| unreadable(&spec.file, source))?;
        let mut first = Vec::new();
        let read = (&mut input).take(HEADER_MAX).read_until(b'\n', &mut first);
        read.map_err(|source| unreadable(&spec.file, source))?;
        if spec.format == Format::Auto && !first.starts_with(MAGIC) {
            return Ok(None);
        }
        let left = if spec.operations == 0 { u64::MAX } else { spec.operations };
        let (file, timed) = (spec.file.clone(), spec.timing != Timing::Asap);
        let (inodes, cookies) = (BTreeMap::new(), BTreeMap::new());
        let mut replay =
            Self { file, input, line: 1, left, timed, inodes, cookies, skipped: 0, synced: true, buffer: first };
        let header: Header = replay.parsed("the first line of a recording by nandkit exec --record")?;
        if header.nandkit_calls != VERSION {
            let found = format!("version {}", header.nandkit_calls);
            return Err(replay.malformed(&found, &format!("version {VERSION}")));
        }
        if spec.queue_depth > 1 {
            let detail = "queue_depth above 1 is possible on a block device only: file systems answer one by one";
            return Err(SpecError::Conflict { workload: "trace", detail: detail.to_string() }.into());
        }
        if !spec.only.is_all() {
            let detail = "only picks a name of a trace of blocks; a recording of calls is replayed as a whole";
            return Err(SpecError::Conflict { workload: "trace", detail: detail.to_string() }.into());
        }
        // Its inode here is known once there is a file system.
        replay.inodes.insert(header.root, InodeNumber(0));
        Ok(Some(replay))
    }

    /// Number of calls that were left out, since the file system does not support them.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether the last call made everything durable, as the last call of a complete recording
    /// does.
    pub const fn is_synced(&self) -> bool {
        self.synced
    }

    fn malformed(&self, found: &str, expected: &str) -> WorkloadError {
        let (file, found, expected) = (self.file.clone(), found.to_string(), expected.to_string());
        WorkloadError::Trace { file, line: self.line, found, expected }
    }

    /// Parses the line in the buffer. Errors: it is malformed; `expected` says what belongs there.
    fn parsed<T: serde::de::DeserializeOwned>(&self, expected: &str) -> Result<T> {
        serde_json::from_slice(&self.buffer).map_err(|error| {
            let text = shortened(&String::from_utf8_lossy(&self.buffer));
            self.malformed(&format!("\"{text}\" ({error})"), expected)
        })
    }

    fn next(&mut self) -> Result<Option<Recorded>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.buffer.clear();
        let mut limited = (&mut self.input).take(LINE_MAX);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(|source| unreadable(&self.file, source))?;
        if read == 0 {
            return Ok(None);
        }
        (self.line, self.left) = (self.line + 1, self.left - 1);
        if read as u64 == LINE_MAX {
            return Err(self.malformed("a line that goes on", "lines of less than 16 MiB"));
        }
        let recorded: Recorded = self.parsed("a recorded call")?;
        if Nanos(recorded.at) > LATEST {
            return Err(
                self.malformed("an instant more than a century after the first", "nanoseconds since the beginning")
            );
        }
        Ok(Some(recorded))
    }

    /// Replays all calls as the phase that is measured.
    ///
    /// Errors: a malformed line; a call that fails here with another error than that it cannot be
    /// done, where it did not when it was recorded, or the other way round; another count of bytes.
    pub fn run(&mut self, fs: &mut dyn FileSystem, clock: &Clock, progress: ProgressSink<'_>) -> Result<PhaseReport> {
        let start = clock.now();
        self.inodes.values_mut().for_each(|root| *root = fs.root());
        let mut report = PhaseReport::new(Phase::Measure, start);
        let mut done = 0;
        while let Some(Recorded { at, unix, request, came_to }) = self.next()? {
            if self.timed {
                clock.advance_to(start + Nanos(at));
            }
            clock.set_unix_ns(unix);
            let issued = clock.now();
            let came = self.ask(fs, &request, &came_to)?;
            let took = clock.now().since(issued);
            self.synced = request == Request::Sync { inode: None };
            self.compare(&request, came_to, came, &mut report)?;
            if let Some(kind) = request.kind() {
                report.record(kind, took);
            }
            done += 1;
            if done % PROGRESS_STEP == 0 {
                let step = report.progress(done, None, clock.now());
                if progress(step) == ControlFlow::Break(()) {
                    return Err(WorkloadError::Cancelled { operations: done });
                }
            }
        }
        report.ended = clock.now();
        Ok(report)
    }

    /// Compares the result with the recorded one.
    fn compare(&mut self, request: &Request, then: CameTo, now: Came, report: &mut PhaseReport) -> Result<()> {
        let differs = |replay: &Self, detail: String| {
            let place = format!("{}, line {}", replay.file, replay.line);
            Err(WorkloadError::Mismatch { place, detail })
        };
        match now {
            Came::Nothing(_) if self.skipped > 0 => self.skipped += 1,
            Came::Nothing(inode) => {
                return Err(self.malformed(&format!("inode {inode}"), "an inode that a call before it has made"));
            }
            Came::Error(_) if then.error.is_some() => {}
            Came::Error(error) if error.kind == ErrorKind::NotSupported => self.skipped += 1,
            // The name does not exist here because the call that made it was left out.
            Came::Error(error) if error.kind == ErrorKind::NotFound && self.skipped > 0 => self.skipped += 1,
            Came::Error(source) => {
                let operation = format!("{} of {}, line {}", request.name(), self.file, self.line);
                return Err(WorkloadError::File { index: self.line.saturating_sub(2), operation, source });
            }
            Came::To(_) if then.error.is_some() && request.is_change() => {
                let errno = then.error.unwrap_or_default();
                return differs(self, format!("{} succeeds, expected error {errno} as recorded", request.name()));
            }
            Came::To(outcome) => {
                if let (Some(then), Some(now)) = (then.inode, outcome.inode) {
                    self.inodes.insert(then, now);
                }
                let bytes = outcome.bytes;
                if let Some(expected) = then.bytes
                    && expected != bytes
                {
                    return differs(self, format!("{} of {bytes} bytes, expected {expected}", request.name()));
                }
                match request {
                    Request::Write { .. } => report.user_bytes_written += bytes,
                    Request::Read { .. } => report.user_bytes_read += bytes,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Makes the call. Errors: the line has a call that no file system can be asked for.
    fn ask(&mut self, fs: &mut dyn FileSystem, request: &Request, then: &CameTo) -> Result<Came> {
        if let Request::Read { length, .. } = request {
            if *length > READ_MAX {
                return Err(self.malformed(&format!("a read of {length} bytes"), &format!("at most {READ_MAX}")));
            }
            self.buffer.resize(*length as usize, 0);
        }
        let unknown = std::cell::Cell::new(None);
        let inode = |number: &u64| {
            let known = self.inodes.get(number).copied();
            if known.is_none() {
                unknown.set(Some(*number));
            }
            known.ok_or_else(|| FsError::new(ErrorKind::NotFound, "an inode that was not made"))
        };
        let outcome = match request {
            Request::ReadDir { directory, cookie } => inode(directory)
                .and_then(|found| list(fs, found, (*directory, *cookie), then.listed, &mut self.cookies)),
            request => ask(fs, request, &inode, &mut self.buffer),
        };
        Ok(match (unknown.get(), outcome) {
            (Some(number), _) => Came::Nothing(number),
            (None, Ok(outcome)) => Came::To(outcome),
            (None, Err(error)) => Came::Error(error),
        })
    }
}

type Known<'a> = dyn Fn(&u64) -> nandkit_vfs::Result<InodeNumber> + 'a;

/// Lists as many entries as were listed then, or all.
fn list(
    fs: &dyn FileSystem,
    directory: InodeNumber,
    (number, cookie): (u64, u64),
    then: Option<Entries>,
    cookies: &mut BTreeMap<(u64, u64), u64>,
) -> nandkit_vfs::Result<CallOutput> {
    // A program may seek to a cookie at which no listing has ended; then the listing starts at the
    // beginning.
    let from = if cookie == 0 { 0 } else { cookies.get(&(number, cookie)).copied().unwrap_or(0) };
    let wanted = then.filter(|then| then.stopped).map(|then| then.entries);
    let mut listed = Listed::default();
    fs.read_dir(directory, from, &mut |entry| {
        let stopped = wanted.is_some_and(|wanted| listed.entries + 1 >= wanted);
        listed.add(entry.cookie, stopped);
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(then) = then {
        for (then, now) in then.cookies.into_iter().zip(listed.cookies).filter(|(then, now)| *then != 0 && *now != 0) {
            cookies.insert((number, then), now);
        }
    }
    Ok(CallOutput { listed: Some(listed), ..CallOutput::default() })
}

/// A call that only asks. `buffer` is as long as what is read.
fn ask(
    fs: &mut dyn FileSystem,
    request: &Request,
    inode: &Known<'_>,
    buffer: &mut [u8],
) -> nandkit_vfs::Result<CallOutput> {
    let lacks = || FsError::new(ErrorKind::NotSupported, "the file system has no such thing");
    let nothing = CallOutput::default();
    Ok(match request {
        Request::Volume => fs.volume().map(|_| nothing)?,
        Request::Lookup { directory, name } => {
            CallOutput { inode: Some(fs.lookup(inode(directory)?, &name.0)?), ..nothing }
        }
        Request::Stat { inode: number } => fs.stat(inode(number)?).map(|_| nothing)?,
        Request::Read { inode: number, offset, .. } => {
            CallOutput { bytes: fs.read(inode(number)?, *offset, ReadInto::Bytes(buffer))? as u64, ..nothing }
        }
        Request::DataAfter { inode: number, offset } => fs.data_after(inode(number)?, *offset).map(|_| nothing)?,
        Request::ReadLink { inode: number } => {
            fs.symlinks().ok_or_else(lacks)?.read_link(inode(number)?).map(|_| nothing)?
        }
        Request::Xattr { inode: number, name } => {
            fs.xattrs().ok_or_else(lacks)?.xattr(inode(number)?, &name.0).map(|_| nothing)?
        }
        Request::XattrNames { inode: number } => {
            fs.xattrs().ok_or_else(lacks)?.xattr_names(inode(number)?).map(|_| nothing)?
        }
        request => change(fs.changes().ok_or_else(lacks)?, request, inode)?,
    })
}

/// A call that changes something.
fn change(fs: &mut dyn Changes, request: &Request, inode: &Known<'_>) -> nandkit_vfs::Result<CallOutput> {
    let lacks = || FsError::new(ErrorKind::NotSupported, "the file system has no such thing");
    let mut outcome = CallOutput::default();
    match request {
        Request::Create { directory, name, kind, mode, uid, gid, device, target } => {
            let (kind, target) = (kind.in_vfs(), &target.0[..]);
            let node = NewNode { kind, mode: *mode, uid: *uid, gid: *gid, device: *device, target };
            outcome.inode = Some(fs.create(inode(directory)?, &name.0, &node)?);
        }
        Request::Write { inode: number, offset, data } => {
            outcome.bytes = fs.write(inode(number)?, *offset, Payload::Bytes(&data.0))? as u64;
        }
        Request::SetAttributes { inode: number, change } => {
            fs.set_attributes(inode(number)?, &change.in_vfs())?;
        }
        Request::Remove { directory, name } => fs.remove(inode(directory)?, &name.0)?,
        Request::Rename { directory, name, into, new_name, flags } => {
            fs.rename((inode(directory)?, &name.0), (inode(into)?, &new_name.0), flags.in_vfs())?;
        }
        Request::Sync { inode: number } => fs.sync(number.as_ref().map(inode).transpose()?)?,
        Request::Retain { inode: number } => fs.open_files().ok_or_else(lacks)?.retain(inode(number)?)?,
        Request::Release { inode: number } => fs.open_files().ok_or_else(lacks)?.release(inode(number)?)?,
        Request::Link { inode: number, into, new_name } => {
            fs.links().ok_or_else(lacks)?.link(inode(number)?, inode(into)?, &new_name.0)?;
        }
        Request::SetXattr { inode: number, name, value } => {
            fs.xattr_changes().ok_or_else(lacks)?.set_xattr(inode(number)?, &name.0, &value.0)?;
        }
        Request::RemoveXattr { inode: number, name } => {
            fs.xattr_changes().ok_or_else(lacks)?.remove_xattr(inode(number)?, &name.0)?;
        }
        Request::Allocate { inode: number, offset, length, keep_size } => {
            fs.allocation().ok_or_else(lacks)?.allocate(inode(number)?, *offset, *length, *keep_size)?;
        }
        Request::PunchHole { inode: number, offset, length } => {
            fs.holes().ok_or_else(lacks)?.punch_hole(inode(number)?, *offset, *length)?;
        }
        _ => return Err(lacks()),
    }
    Ok(outcome)
}
