//! Uses a file system before it is measured: fills it with files and overwrites them at random.

use std::fmt::Display;

use nandkit_units::random::Random;
use nandkit_units::{Clock, Described, Description, Generator, Payload};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};
use nandkit_workload::{Phase, Progress, ProgressSink};

use crate::LabError;
use crate::precondition::UsedRule;

/// Bytes of a file, and of a request that makes one.
const FILE_BYTES: u64 = 256 << 10;
const REQUEST: u64 = 64 << 10;
/// Bytes of an overwrite.
const PAGE: u64 = 4096;
/// Overwrites between two syncs: no host has more of them in memory.
const SYNC_EVERY: u64 = 256;
/// The directory that holds all the files; its name is valid in every format.
const DIRECTORY: &[u8] = b"USED";

/// Uses a volume by the rule. The seed draws which pages are overwritten. Errors: `Input` where the
/// volume is too small, `Failed`, `Stopped`.
pub(crate) fn use_up(
    fs: &mut dyn FileSystem,
    clock: &Clock,
    rule: &UsedRule,
    seed: u64,
    progress: ProgressSink<'_>,
) -> Result<(), LabError> {
    let volume = fs.volume().map_err(failed)?;
    let room = volume.blocks_free.saturating_mul(u64::from(volume.block_size));
    let count = (room as f64 * rule.fill) as u64 / FILE_BYTES;
    if count == 0 {
        return Err(LabError::Input(format!("precondition: {room} bytes are free; used wants files of {FILE_BYTES}")));
    }
    let overwrites = (room as f64 * rule.overwritten) as u64 / PAGE;
    let total = count * FILE_BYTES / PAGE + overwrites;
    let mut told = |done: u64| {
        let step = Progress::apart(Some(Phase::Fill), done, total, clock.now());
        if progress(step).is_break() { Err(LabError::Stopped { finished: 0, total: 1 }) } else { Ok(()) }
    };
    let root = fs.root();
    let changes = changes(fs)?;
    let directory = changes.create(root, DIRECTORY, &NewNode::DIRECTORY).map_err(failed)?;
    let mut files = Vec::new();
    for file in 0..count {
        let inode = changes.create(directory, format!("F{file:07}").as_bytes(), &NewNode::FILE).map_err(failed)?;
        for offset in (0..FILE_BYTES).step_by(REQUEST as usize) {
            write(changes, inode, offset, REQUEST, 0)?;
        }
        files.push(inode);
        told(file * FILE_BYTES / PAGE)?;
    }
    changes.sync(None).map_err(failed)?;
    let mut random = Random::new(seed, "used");
    for overwrite in 1..=overwrites {
        let (file, page) = (random.below(count), random.below(FILE_BYTES / PAGE));
        let Some(inode) = files.get(file as usize) else { continue };
        write(changes, *inode, page * PAGE, PAGE, overwrite)?;
        if overwrite.is_multiple_of(SYNC_EVERY) {
            changes.sync(None).map_err(failed)?;
            told(count * FILE_BYTES / PAGE + overwrite)?;
        }
    }
    changes.sync(None).map_err(failed)
}

fn changes(fs: &mut dyn FileSystem) -> Result<&mut dyn Changes, LabError> {
    fs.changes().ok_or_else(|| failed("it takes no changes"))
}

/// Writes described content; which version of the page it is tells one overwrite from another.
fn write(
    changes: &mut dyn Changes,
    inode: InodeNumber,
    offset: u64,
    length: u64,
    version: u64,
) -> Result<(), LabError> {
    let record = (inode.0 << 32) | (offset / PAGE);
    let description = Description { record, version: version as u32, offset: 0, generator: Generator::Record };
    let data = Payload::Described(Described { description, length: length as u32 });
    match changes.write(inode, offset, data).map_err(failed)? as u64 {
        written if written == length => Ok(()),
        written => Err(failed(format!("{written} of {length} bytes were written"))),
    }
}

fn failed(error: impl Display) -> LabError {
    LabError::Failed(format!("while the volume is used before it is measured: {error}"))
}
