//! The files of a volume read as tar reads them, one by one, and as qtar does, through the remap
//! library, on the same chip with cold caches. What the archive's own writing takes is left out:
//! it is the same for both, and goes elsewhere.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_block::wrap::RequestKind;
use nandkit_record::{Figures, LayerValue, RunRecord, run_key};
use nandkit_remap::{Limits, remap_create};
use nandkit_stack::crash::{CrashChip, Existing};
use nandkit_stack::{HostSpec, Mounted, Stack, StackSpec};
use nandkit_units::{Described, Description, Generator, Payload, ReadInto};
use nandkit_vfs::{Changes, FileKind, FileSystem, InodeNumber, NewNode};
use serde_json::Value;

use super::files::Files;
use super::{empty_record, spec_of};
use crate::LabError;
use crate::job::{Inside, Job};
use crate::run_spec::VERSION;
use crate::snapshot::{Snapshot, layers};

/// The kind of these runs in records.
const KIND: &str = "archive";
/// What a request costs the host: a read of 512 bytes through system call, ext4 and block layer on
/// Linux 5.12 (Zhong et al., XRP, OSDI 2022, table 1; docs/design/11-host-model.md).
pub const REQUEST_NS: u64 = 3_048;
/// Bytes that tar reads at a time: what Linux reads ahead for it (`read_ahead_kb`).
const READ_AHEAD: usize = 128 << 10;
/// Bytes that qtar shares at a time, half of what the drive's log of remaps has room for: if the
/// device refuses a group for lack of room, the work on that group was in vain.
const SHARED: u64 = 64 << 20;
/// Bytes of a write of the fill.
const PIECE: u64 = 1 << 20;
/// How files are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Tar,
    Qtar,
}

/// Files that are read both ways, with the host's cost of requests and without.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The volume; its host is set by each reading.
    pub stack: StackSpec,
    /// The files on the volume.
    pub files: Files,
    /// Seed of sizes and faults.
    pub seed: u64,
}

pub(super) fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Failed(error.to_string())
}

/// The file system on top.
pub(super) fn top(stack: &mut Stack) -> Result<&mut dyn FileSystem, LabError> {
    match &mut stack.mounted {
        Mounted::Files(fs) => Ok(&mut **fs),
        Mounted::Blocks(_) => Err(failed("no file system")),
    }
}

pub(super) fn changes(fs: &mut dyn FileSystem) -> Result<&mut dyn Changes, LabError> {
    fs.changes().ok_or_else(|| failed("the volume is read-only"))
}

/// A write of bytes that are of this file and place.
pub(super) fn write(fs: &mut dyn FileSystem, inode: InodeNumber, offset: u64, length: u64) -> Result<(), LabError> {
    let description =
        Description { record: inode.0 << 32 | offset >> 12, version: 1, offset: 0, generator: Generator::Record };
    let data = Payload::Described(Described { description, length: length as u32 });
    match changes(fs)?.write(inode, offset, data).map_err(failed)? as u64 {
        written if written == length => Ok(()),
        written => Err(failed(format!("{written} of {length} bytes were written"))),
    }
}

/// The regular files below a directory, in the order of its entries.
fn files_below(fs: &dyn FileSystem, directory: InodeNumber, files: &mut Vec<InodeNumber>) -> nandkit_vfs::Result<()> {
    let mut below = Vec::new();
    fs.read_dir(directory, 0, &mut |entry| {
        match entry.kind {
            FileKind::Directory => below.push(entry.inode),
            FileKind::Regular => files.push(entry.inode),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    below.into_iter().try_for_each(|directory| files_below(fs, directory, files))
}

/// Reads each file through, and returns bytes and checksum of all.
fn read_all(
    files: &[InodeNumber],
    mut begin: impl FnMut(usize) -> nandkit_vfs::Result<u64>,
    mut read: impl FnMut(usize, u64, &mut [u8]) -> nandkit_vfs::Result<usize>,
) -> nandkit_vfs::Result<(u64, u32)> {
    let (mut bytes, mut sum, mut buffer) = (0, crc32fast::Hasher::new(), vec![0; READ_AHEAD]);
    for place in 0..files.len() {
        let (size, mut offset) = (begin(place)?, 0);
        while offset < size {
            let count = read(place, offset, &mut buffer)?.clamp(1, READ_AHEAD);
            sum.update(buffer.get(..count).unwrap_or_default());
            offset += count as u64;
        }
        bytes += size;
    }
    Ok((bytes, sum.finalize()))
}

impl Archive {
    pub(super) fn spec(&self) -> Value {
        spec_of(KIND, &self.files, &self.stack, true)
    }

    fn fill(&self, fs: &mut dyn FileSystem, inside: &mut Inside<'_>) -> Result<(), LabError> {
        let entries = self.files.entries(self.seed);
        let mut inodes: Vec<InodeNumber> = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let parent = entry.parent.and_then(|parent| inodes.get(parent).copied()).unwrap_or_else(|| fs.root());
            let node = if entry.size.is_some() { &NewNode::FILE } else { &NewNode::DIRECTORY };
            let inode = changes(fs)?.create(parent, &entry.name, node).map_err(failed)?;
            inodes.push(inode);
            let size = entry.size.unwrap_or(0);
            for offset in (0..size).step_by(PIECE as usize) {
                write(fs, inode, offset, PIECE.min(size - offset))?;
            }
            if number.is_multiple_of(1024) && (inside.progress)(0.5 * number as f64 / entries.len() as f64).is_break() {
                return Err(LabError::Stopped { finished: 0, total: 1 });
            }
        }
        changes(fs)?.sync(None).map_err(failed)
    }

    /// Reads the files of a chip one way, with caches as behind a mount.
    fn read(&self, chip: &CrashChip, request_ns: u64, way: Way) -> Result<Reading, LabError> {
        let spec =
            StackSpec { host: Some(HostSpec { request_ns, sync_ms: 0, ..HostSpec::default() }), ..self.stack.clone() };
        let mut stack = Stack::build_on(&spec, self.seed, chip.snapshot(), Existing::Volume).map_err(failed)?;
        let counters = stack.watched.block.clone();
        let requests = || counters.as_ref().map_or(0, |all| all.snapshot().total(RequestKind::Read).requests);
        let (before, requested) = (Snapshot::take(&stack), requests());
        let fs = top(&mut stack)?;
        let mut files = Vec::new();
        files_below(fs, fs.root(), &mut files).map_err(failed)?;
        let (bytes, sum) = match way {
            Way::Tar => {
                let begin = |place: usize| fs.stat(files[place]).map(|attributes| attributes.size);
                let read = |place: usize, offset, into: &mut [u8]| fs.read(files[place], offset, ReadInto::Bytes(into));
                read_all(&files, begin, read).map_err(failed)?
            }
            Way::Qtar => {
                let limits = Limits { shared: SHARED, ..Limits::default() };
                let remapped = remap_create(fs, &files, limits).map_err(failed)?;
                let (fs, remapped) = (std::cell::RefCell::new(fs), std::cell::RefCell::new(remapped));
                let begin = |place| Ok(remapped.borrow_mut().begin(*fs.borrow_mut(), place)?.size);
                let read = |place, offset, into: &mut [u8]| {
                    remapped.borrow_mut().remap_read(*fs.borrow_mut(), place, offset, into)
                };
                let read = read_all(&files, begin, read).map_err(failed)?;
                remapped.into_inner().remap_delete(fs.into_inner()).map_err(failed)?;
                read
            }
        };
        let after = Snapshot::take(&stack);
        let mut figures = after.since(&before);
        figures.user_bytes_read = bytes;
        figures.derive();
        let layer = layers(&before, &after).remove("ftl").unwrap_or_default();
        Ok(Reading { figures, requests: requests() - requested, sum, files: files.len() as u64, layer })
    }
}

/// The outcome of reading all files one way.
struct Reading {
    figures: Figures,
    requests: u64,
    sum: u32,
    files: u64,
    layer: BTreeMap<String, LayerValue>,
}

/// Values of the layer that the record keeps for qtar on the device alone: their names in the
/// record and in the layer.
const REMAPS: [(&str, &str); 5] = [
    ("checkpoint_ns", "ftl_checkpoint_stalls_ns"),
    ("remaps", "ftl_remaps"),
    ("remapped_pages", "ftl_remapped_pages"),
    ("remap_ns", "ftl_remap_ns"),
    ("remap_fold_ns", "ftl_remap_fold_ns"),
];

/// The name of the phase in records: `tar`, `qtar`, or with the host's cost `tar-host`.
pub fn phase(way: &str, with_host: bool) -> String {
    format!("{way}{}", if with_host { "-host" } else { "" })
}

impl Job for Archive {
    fn key(&self) -> String {
        run_key(VERSION, self.seed, &self.spec())
    }

    fn title(&self) -> String {
        format!("tar and qtar of {}, seed {}", self.files, self.seed)
    }

    fn run(&self, mut inside: Inside<'_>) -> Result<RunRecord, LabError> {
        let chip = CrashChip::new(&self.stack, self.seed).map_err(failed)?;
        let mut stack = Stack::build_on(&self.stack, self.seed, chip.clone(), Existing::Nothing).map_err(failed)?;
        self.files.must_fit(top(&mut stack)?.volume().map_err(failed)?)?;
        self.fill(top(&mut stack)?, &mut inside)?;
        stack.close().map_err(failed)?;
        let (mut phases, mut counted, mut sums) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (number, request_ns) in [0, REQUEST_NS].into_iter().enumerate() {
            for (name, way) in [("tar", Way::Tar), ("qtar", Way::Qtar)] {
                let reading = self.read(&chip, request_ns, way)?;
                let name = phase(name, request_ns > 0);
                counted.insert(format!("{name}_requests"), LayerValue::Count(reading.requests));
                counted.insert("files".to_string(), LayerValue::Count(reading.files));
                if way == Way::Qtar && request_ns == 0 {
                    let each = REMAPS
                        .iter()
                        .filter_map(|(name, key)| Some((name.to_string(), reading.layer.get(*key)?.clone())));
                    counted.extend(each);
                }
                phases.insert(name, reading.figures);
                sums.push(reading.sum);
            }
            let _ = (inside.progress)(0.75 + 0.25 * number as f64);
        }
        if sums.iter().any(|sum| Some(sum) != sums.first()) {
            return Err(failed("the two ways read other bytes"));
        }
        let layers = BTreeMap::from([(KIND.to_string(), counted)]);
        Ok(RunRecord { layers, phases, ..empty_record(KIND, self.spec(), &self.stack, self.seed) })
    }
}
