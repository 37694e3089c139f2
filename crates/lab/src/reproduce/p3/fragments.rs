//! Files whose pieces were written in turns, cleaned in idle times and read again and again: their
//! fragments and the speed of reading them, from round to round.

use std::collections::BTreeMap;

use nandkit_record::{LayerValue, RunRecord, run_key};
use nandkit_stack::{Stack, StackSpec};
use nandkit_units::ReadInto;
use nandkit_vfs::{FileSystem, InodeNumber, NewNode, all_extents};
use serde::Serialize;
use serde_json::Value;

use super::archive::{changes, failed, top, write};
use super::{empty_record, spec_of};
use crate::LabError;
use crate::job::{Inside, Job};
use crate::run_spec::VERSION;
use crate::snapshot::{Snapshot, layers};

/// The kind of these runs in records.
const KIND: &str = "fragments";
/// Bytes of each read: what Linux reads ahead.
const READ: u64 = 128 << 10;
const PAGE: u64 = 4096;
/// Dirty pages at which a volume with the least host writes back.
const DIRTY_PAGES: u64 = 64;
/// Number of times that idle work is looked for between two readings.
const WORKS: u32 = 12;

/// How the files were written, and what is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Files that are written in turns.
    pub writers: u64,
    /// Bytes of a piece.
    pub piece: u64,
    /// Bytes of each file.
    pub size: u64,
    /// Number of files removed before cleaning starts.
    pub removed: u64,
    /// Number of the remaining files that are read.
    pub read: u64,
    /// Rounds of idle work at most.
    pub rounds: u32,
}

/// A volume with files that were written in turns.
#[derive(Clone, Debug)]
pub struct Fragments {
    /// The volume with its cleaners.
    pub stack: StackSpec,
    /// The files.
    pub shape: Shape,
    /// Seed of faults.
    pub seed: u64,
}

impl Fragments {
    pub(super) fn spec(&self) -> Value {
        spec_of(KIND, &self.shape, &self.stack, false)
    }

    /// Writes the files and returns those that are read.
    fn fill(&self, fs: &mut dyn FileSystem) -> Result<Vec<InodeNumber>, LabError> {
        let Shape { writers, piece, size, removed, read, .. } = self.shape;
        let (root, name) = (fs.root(), |file: u64| format!("file-{file:06}"));
        let mut files = Vec::new();
        for file in 0..writers {
            files.push(changes(fs)?.create(root, name(file).as_bytes(), &NewNode::FILE).map_err(failed)?);
        }
        for offset in (0..size).step_by(piece.max(1) as usize) {
            for inode in &files {
                write(fs, *inode, offset, piece.min(size - offset))?;
            }
            // Else pieces of a file would meet in memory and be written together.
            if writers * piece.div_ceil(PAGE) < DIRTY_PAGES {
                changes(fs)?.sync(None).map_err(failed)?;
            }
        }
        for file in 0..removed {
            // Spread over all of them.
            let file = file * writers / removed;
            changes(fs)?.remove(root, name(file).as_bytes()).map_err(failed)?;
            if let Some(place) = files.get_mut(file as usize) {
                *place = root;
            }
        }
        files.retain(|inode| *inode != root);
        files.truncate(read as usize);
        changes(fs)?.sync(None).map_err(failed)?;
        Ok(files)
    }
}

/// Fragments of the files.
fn count(fs: &dyn FileSystem, files: &[InodeNumber]) -> Result<f64, LabError> {
    let extents = fs.extents().ok_or_else(|| failed("the volume does not tell where files lie"))?;
    let each = files.iter().map(|inode| all_extents(extents, *inode).map(|all| all.len() as f64).map_err(failed));
    each.sum()
}

/// Reads the files through, one behind the other.
fn read_through(fs: &dyn FileSystem, files: &[InodeNumber], size: u64) -> Result<(), LabError> {
    for inode in files {
        for offset in (0..size).step_by(READ as usize) {
            let length = READ.min(size - offset) as u32;
            fs.read(*inode, offset, ReadInto::Nothing { length }).map_err(failed)?;
        }
    }
    Ok(())
}

/// Lets time pass until idle work was due [`WORKS`] times. Returns whether any work was done.
fn idle(stack: &mut Stack) -> Result<bool, LabError> {
    let (clock, mut did) = (stack.clock.clone(), false);
    for _ in 0..WORKS {
        let Some(keeping) = changes(top(stack)?)?.housekeeping() else { return Ok(false) };
        clock.advance_to(keeping.next_due().max(clock.now()));
        did |= keeping.work().map_err(failed)?;
    }
    Ok(did)
}

impl Job for Fragments {
    fn key(&self) -> String {
        run_key(VERSION, self.seed, &self.spec())
    }

    fn title(&self) -> String {
        format!("{:?} on {}, seed {}", self.shape, self.stack.title(), self.seed)
    }

    fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError> {
        let mut stack = Stack::build(&self.stack, self.seed).map_err(failed)?;
        let files = self.fill(top(&mut stack)?)?;
        let before = Snapshot::take(&stack);
        let (mut fragments, mut speeds) = (Vec::new(), Vec::new());
        let bytes = (files.len() as u64 * self.shape.size) as f64;
        for round in 0..=self.shape.rounds {
            let fs = top(&mut stack)?;
            fragments.push(count(fs, &files)?);
            let began = stack.clock.now();
            read_through(top(&mut stack)?, &files, self.shape.size)?;
            speeds.push(bytes * 1e3 / (stack.clock.now().since(began).0 as f64).max(1.0));
            if (inside.progress)(f64::from(round) / f64::from(self.shape.rounds.max(1))).is_break() {
                return Err(LabError::Stopped { finished: 0, total: 1 });
            }
            if round < self.shape.rounds && !idle(&mut stack)? {
                break;
            }
        }
        let after = Snapshot::take(&stack);
        let mut counted = layers(&before, &after);
        let series = BTreeMap::from([
            ("fragments".to_string(), LayerValue::series(fragments)),
            ("read_mb_per_s".to_string(), LayerValue::series(speeds)),
        ]);
        counted.insert(KIND.to_string(), series);
        let figures = after.since(&before);
        Ok(RunRecord { figures, layers: counted, ..empty_record(KIND, self.spec(), &self.stack, self.seed) })
    }
}
