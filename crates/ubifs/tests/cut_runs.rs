//! Runs of operations until the power goes, and what must be there then.

use std::collections::VecDeque;

use nandkit_testkit::clock;
use nandkit_testkit::durability::{History, Promise, State, observe, step};
use nandkit_ubifs::{Ubifs, WriteOptions};
use nandkit_units::random::Random;
use nandkit_vfs::{Changes as _, ErrorKind, FileSystem as _, InodeNumber, Result};

use crate::strict_lebs::{Cut, StrictLebs, strict};

/// Operations of a run.
const OPERATIONS: usize = 700;

/// Mounts LEBs for writing.
fn mount_with(lebs: StrictLebs, options: WriteOptions) -> Result<Ubifs> {
    Ubifs::mount_for_writing(Box::new(lebs), clock(), options)
}

/// Mounts LEBs for writing.
pub fn mount(lebs: StrictLebs) -> Result<Ubifs> {
    mount_with(lebs, WriteOptions::default())
}

/// Operations on a volume until the power goes; its history then, if it went.
pub fn run(lebs: StrictLebs, mut history: History, seed: u64) -> (StrictLebs, Option<History>) {
    let left = lebs.clone();
    // A cut in the mount leaves what was there.
    // Pages of each third run wait in memory.
    let dirty_max = if seed.is_multiple_of(3) { 10 * 4096 } else { 0 };
    let Ok(mut volume) = mount_with(lebs, WriteOptions { dirty_max, ..WriteOptions::default() }) else {
        history.idle();
        return (left, Some(history));
    };
    let mut random = Random::new(seed, "what to do");
    let (mut kept, mut keeping) = (VecDeque::new(), Random::new(seed, "what stays open"));
    for _ in 0..OPERATIONS {
        if keep_open(&mut volume, &mut kept, &mut keeping).is_err() {
            history.idle();
            return (left, Some(history));
        }
        match step(&mut volume, &mut history, &mut random) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::ReadOnly), "{error}");
                return (left, Some(history));
            }
        }
    }
    drop(volume);
    (left, None)
}

/// Opens a file, or closes one, now and then: one that is removed meanwhile is an orphan. Errors:
/// the power went.
fn keep_open(volume: &mut Ubifs, kept: &mut VecDeque<InodeNumber>, random: &mut Random) -> Result<()> {
    if random.below(4) > 0 {
        return Ok(());
    }
    let name = format!("file-{}", random.below(7));
    let found = volume.lookup(volume.root(), name.as_bytes());
    let closed = if kept.len() > 3 { kept.pop_front() } else { None };
    if let Some(open) = volume.open_files() {
        if let Ok(inode) = found
            && open.retain(inode).is_ok()
        {
            kept.push_back(inode);
        }
        closed.into_iter().try_for_each(|inode| open.release(inode))?;
    }
    Ok(())
}

/// The state in which a cut left a volume, which keeps the promise, mounted again for reading and
/// for writing; and the volume after that.
pub fn judged(left: &StrictLebs, history: &History, what: &str) -> (State, StrictLebs) {
    let reader = Ubifs::mount(Box::new(left.copy(Cut::default()))).unwrap_or_else(|error| panic!("{what}: {error}"));
    let seen = observe(&reader);
    let state = history.judge(&seen, history.under_way(), Promise::SyncedOnly);
    let state = state.unwrap_or_else(|wrong| panic!("{what}: {wrong}\n{:?}", reader.damage()));
    let writer = mount(left.copy(Cut::default())).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(observe(&writer) == seen, "{what}: another tree for writing");
    let after = strict(writer.into_lebs());
    let reader = Ubifs::mount(Box::new(after.clone())).unwrap_or_else(|error| panic!("{what}, recovered: {error}"));
    assert!(observe(&reader) == seen, "{what}: another tree after the recovery");
    let report = reader.check().unwrap();
    assert!(report.findings.is_empty(), "{what}: {:#?}", report.findings);
    (state, after)
}
