//! Drives a workload through its phases on a stack, with the counters of all layers taken between
//! the phases.

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_flash::wrap::FlashCounters;
use nandkit_record::LayerValue;
use nandkit_stack::{DeviceHandle, Mounted, Stack};
use nandkit_units::{Clock, Context, Described, Description, Generator, Lba, Payload};
use nandkit_vfs::{ErrorKind, FileSystem, FsError};
use nandkit_workload::calls::CallReplay;
use nandkit_workload::{
    BlockDriver, BlockStream, DriverReport, FileDriver, FileWorkload, Inputs, Phase, PhaseReport, Progress,
    ProgressSink, Windows, WorkloadError,
};

use crate::job::Inside;
use crate::run_spec::RunSpec;
use crate::snapshot::{Snapshot, Watch};
use crate::steady::Settling;
use crate::timeline::Timeline;
use crate::used::use_up;
use crate::{LabError, Precondition};

/// One phase, between two snapshots.
pub(crate) struct PhaseOutcome {
    pub phase: Phase,
    pub before: Snapshot,
    pub after: Snapshot,
}

/// The outcome of driving a workload through all its phases.
#[derive(Default)]
pub(crate) struct Driven {
    pub phases: Vec<PhaseOutcome>,
    pub report: DriverReport,
    /// Snapshots before and after the device was filled or used; `None` if it was neither.
    pub filled: Option<(Snapshot, Snapshot)>,
    /// The windows of a device that has to settle before it is measured.
    pub settling: Option<Settling>,
    /// Series of the measured phase over time, for the record.
    pub timeline: BTreeMap<String, LayerValue>,
}

/// The share of the whole run that is done, with an assumed length for each phase and for reading
/// back; only for progress.
fn share_of(progress: &Progress) -> f64 {
    let (start, length) = match progress.phase {
        Some(Phase::Fill) => (0.0, 0.15),
        Some(Phase::Age) => (0.15, 0.15),
        Some(Phase::Measure) => (0.3, 0.6),
        None => (0.9, 0.1),
    };
    start + length * progress.fraction().unwrap_or(0.5)
}

pub(crate) fn drive(spec: &RunSpec, stack: &mut Stack, inside: Inside<'_>) -> Result<Driven, LabError> {
    let Stack { clock, mounted, watched, .. } = stack;
    let watch = Watch { clock, watched };
    match mounted {
        Mounted::Files(fs) => on_files(spec, &mut **fs, &watch, inside),
        Mounted::Blocks(blocks) => on_blocks(spec, blocks, &watch, inside),
    }
}

/// Checks that the workload can run on the stack, without running it.
pub(crate) fn fits(spec: &RunSpec, stack: &mut Stack, inputs: &dyn Inputs) -> Result<(), LabError> {
    match &mut stack.mounted {
        Mounted::Files(fs) => match spec.workload.calls(inputs).map_err(explain)? {
            Some(_) => Ok(()),
            None => files_workload(spec, &mut **fs, inputs).map(|_| ()),
        },
        Mounted::Blocks(blocks) => {
            spec.workload.block_workload(blocks.geometry(), spec.seed, inputs).map(|_| ()).map_err(explain)
        }
    }
}

fn files_workload(
    spec: &RunSpec,
    fs: &mut dyn FileSystem,
    inputs: &dyn Inputs,
) -> Result<Box<dyn FileWorkload>, LabError> {
    let volume = fs.volume().map_err(|error| LabError::Failed(error.to_string()))?;
    let free_bytes = volume.blocks_free.saturating_mul(u64::from(volume.block_size));
    spec.workload.file_workload(free_bytes, spec.seed, inputs).map_err(explain)
}

fn on_files(
    spec: &RunSpec,
    fs: &mut dyn FileSystem,
    watch: &Watch<'_>,
    inside: Inside<'_>,
) -> Result<Driven, LabError> {
    let filled = match &spec.precondition {
        Precondition::Used(rule) => {
            let before = watch.snapshot();
            let mut progress = |progress: Progress| (inside.progress)(share_of(&progress));
            use_up(fs, watch.clock, rule, spec.seed, &mut progress)?;
            Some((before, watch.snapshot()))
        }
        _ => None,
    };
    if let Some(calls) = spec.workload.calls(inside.inputs).map_err(explain)? {
        return Ok(Driven { filled, ..on_calls(calls, fs, watch, inside)? });
    }
    let mut workload = files_workload(spec, fs, inside.inputs)?;
    let sync_after = spec.stack.host.and_then(|host| host.sync_after());
    let mut driver = FileDriver::new(watch.clock.clone(), spec.verify).syncing_after(sync_after);
    let mut phases = Vec::with_capacity(Phase::ALL.len());
    let mut measured = BTreeMap::new();
    for phase in Phase::ALL {
        let before = watch.snapshot();
        let mut timeline = Timeline::start(watch);
        let mut progress = |progress: Progress| {
            timeline.saw(&progress);
            (inside.progress)(share_of(&progress))
        };
        driver.run_phase(phase, &mut *workload, fs, &mut progress).map_err(explain)?;
        if driver.report().phase(phase).is_some() {
            // Dirty data in a cache belong to the phase that wrote them.
            let synced = fs.changes().map_or(Ok(()), |changes| changes.sync(None));
            synced.map_err(|error| unsynced(phase, &error))?;
            driver.settled();
        }
        measured = timeline.values();
        phases.push(PhaseOutcome { phase, before, after: watch.snapshot() });
    }
    if spec.verify {
        let mut progress = |progress: Progress| (inside.progress)(share_of(&progress));
        driver.verify_all(&mut *workload, fs, &mut progress).map_err(explain)?;
    }
    Ok(Driven { phases, report: driver.report().clone(), filled, timeline: measured, ..Driven::default() })
}

/// Replays recorded calls, all of them in the measured phase.
fn on_calls(
    mut calls: CallReplay,
    fs: &mut dyn FileSystem,
    watch: &Watch<'_>,
    inside: Inside<'_>,
) -> Result<Driven, LabError> {
    let mut timeline = Timeline::start(watch);
    let mut progress = |progress: Progress| {
        timeline.saw(&progress);
        (inside.progress)(share_of(&progress))
    };
    let before = watch.snapshot();
    let phase = calls.run(fs, watch.clock, &mut progress).map_err(explain)?;
    if !calls.is_synced() {
        let synced = fs.changes().map_or(Ok(()), |changes| changes.sync(None));
        synced.map_err(|error| unsynced(Phase::Measure, &error))?;
    }
    let outcome = PhaseOutcome { phase: Phase::Measure, before, after: watch.snapshot() };
    let skipped_calls = Some(calls.skipped());
    let report = DriverReport { phases: vec![phase], skipped_calls, ..DriverReport::default() };
    Ok(Driven { phases: vec![outcome], report, timeline: timeline.values(), ..Driven::default() })
}

fn on_blocks(spec: &RunSpec, blocks: &DeviceHandle, watch: &Watch<'_>, inside: Inside<'_>) -> Result<Driven, LabError> {
    let geometry = *blocks.geometry();
    let endless = spec.precondition.workload(&spec.workload).map_err(LabError::Input)?;
    let mut workload = endless.block_workload(&geometry, spec.seed, inside.inputs).map_err(explain)?;
    let mut driver = BlockDriver::new(geometry, watch.clock.clone(), spec.verify);
    let mut progress = |progress: Progress| (inside.progress)(share_of(&progress));
    let filled = match spec.precondition {
        Precondition::None | Precondition::Used(_) => None,
        Precondition::Fill | Precondition::Steady(_) => {
            let before = watch.snapshot();
            blocks.locked(|device| fill(device, watch.clock, &mut progress))?;
            Some((before, watch.snapshot()))
        }
    };
    let mut settling = match spec.precondition {
        Precondition::Steady(rule) => Some(Settling::new(rule, geometry.capacity())),
        _ => None,
    };
    let mut phases = Vec::with_capacity(Phase::ALL.len());
    let mut measured = BTreeMap::new();
    for phase in Phase::ALL {
        let before = watch.snapshot();
        let mut timeline = Timeline::start(watch);
        let mut progress = |step: Progress| {
            timeline.saw(&step);
            progress(step)
        };
        let (workload, driver, progress) = (&mut workload, &mut driver, &mut progress);
        let windows = settling.as_mut().filter(|_| phase != Phase::Fill).zip(watch.watched.flash.as_deref());
        let run = PhaseRun { phase, workload, driver, clock: watch.clock, windows, progress };
        blocks.locked(|device| run.on(device))?;
        measured = timeline.values();
        phases.push(PhaseOutcome { phase, before, after: watch.snapshot() });
    }
    if spec.verify {
        blocks.locked(|device| driver.verify_all(device, &mut progress)).map_err(explain)?;
    }
    Ok(Driven { phases, report: driver.report().clone(), filled, settling, timeline: measured })
}

/// One phase of a workload on blocks.
struct PhaseRun<'a> {
    phase: Phase,
    workload: &'a mut BlockStream,
    driver: &'a mut BlockDriver,
    clock: &'a Clock,
    /// The windows of the phase, and the counters from which their figures are taken.
    windows: Option<(&'a mut Settling, &'a FlashCounters)>,
    progress: ProgressSink<'a>,
}

impl PhaseRun<'_> {
    /// Runs it, and makes durable what it wrote.
    fn on(self, device: &mut dyn BlockDevice) -> Result<(), LabError> {
        match self.windows {
            None => self.workload.run_phase(self.driver, self.phase, device, self.progress).map_err(explain)?,
            Some((settling, counters)) => {
                let programmed = || counters.snapshot().total().bytes_programmed;
                let bytes = settling.window_bytes;
                let mut windows = settling.windows_of(self.phase, programmed());
                let ended = &mut |report: &PhaseReport| windows.add(report.user_bytes_written, programmed());
                let windows = Windows { bytes, ended };
                self.workload.run_windows(self.driver, self.phase, device, windows, self.progress).map_err(explain)?;
            }
        }
        if self.driver.report().phase(self.phase).is_some() {
            let name = self.phase.name();
            let done = device.flush(&Context::at(self.clock.now()));
            let done = done.map_err(|error| LabError::Failed(format!("flush at the end of phase {name}: {error}")))?;
            self.clock.advance_to(done.completed);
        }
        Ok(())
    }
}

/// Bytes of a request of the fill: as much as operating systems send at once.
const FILL_BYTES: u32 = 64 << 10;
/// Requests between two calls of the progress sink.
const FILL_BATCH: u64 = 4096;

/// Writes every sector once, in order.
fn fill(device: &mut dyn BlockDevice, clock: &Clock, progress: ProgressSink<'_>) -> Result<(), LabError> {
    let failed = |error: nandkit_block::BlockError| LabError::Failed(format!("while the device is filled: {error}"));
    let (sectors, sector_size) = (device.geometry().sectors, device.geometry().sector_size);
    let most = u64::from((FILL_BYTES / sector_size.max(1)).max(1));
    for (request, at) in (0..sectors).step_by(most as usize).enumerate() {
        let length = most.min(sectors - at) as u32 * sector_size;
        let description = Description { record: at, version: 0, offset: 0, generator: Generator::Record };
        let data = Payload::Described(Described { description, length });
        let done = device.write(&Context::at(clock.now()), Lba(at), data).map_err(failed)?;
        clock.advance_to(done.completed);
        if (request as u64).is_multiple_of(FILL_BATCH) {
            let step = Progress::apart(Some(Phase::Fill), at, 2 * sectors, clock.now());
            if progress(step).is_break() {
                return Err(LabError::Stopped { finished: 0, total: 1 });
            }
        }
    }
    let done = device.flush(&Context::at(clock.now())).map_err(failed)?;
    clock.advance_to(done.completed);
    Ok(())
}

/// The error of a sync that ends a phase; it counts as the error of an operation would.
fn unsynced(phase: Phase, error: &FsError) -> LabError {
    let told = format!("sync at the end of phase {}: {error}", phase.name());
    if is_limit(error.kind) { LabError::Input(told) } else { LabError::Failed(told) }
}

/// Whether an error says that the file system cannot hold what the workload writes: too much data,
/// or something that its format does not have.
const fn is_limit(kind: ErrorKind) -> bool {
    use ErrorKind::{Exists, FileTooBig, InvalidName, NameTooLong, NoSpace, NotSupported, TooManyLinks};
    matches!(kind, NoSpace | FileTooBig | NameTooLong | InvalidName | Exists | NotSupported | TooManyLinks)
}

/// Advice for a message, for names that a file system refuses: only trees bring names of their own,
/// and two of them may be the same name to a file system that ignores case.
const fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidName | ErrorKind::NameTooLong | ErrorKind::Exists => {
            "; expected names that the file system can hold: give the tree names=portable"
        }
        _ => "",
    }
}

/// Tells errors of the input from failures. A full file system counts as an error of the input: it
/// is too small for the workload.
fn explain(error: WorkloadError) -> LabError {
    if let WorkloadError::File { source, .. } = &error
        && is_limit(source.kind)
    {
        return LabError::Input(format!("{error}{}", advice(source.kind)));
    }
    match error {
        WorkloadError::Cancelled { .. } => LabError::Stopped { finished: 0, total: 1 },
        error if error.is_input() => LabError::Input(error.to_string()),
        error => LabError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_the_inputs_fault_in_an_operation_and_in_the_sync_behind_the_last() {
        use ErrorKind::{Corrupt, Device, InvalidName, NoSpace, NotFound};
        for (kind, is_input) in
            [(NoSpace, true), (InvalidName, true), (Device, false), (Corrupt, false), (NotFound, false)]
        {
            let error = || FsError::new(kind, "told");
            let in_operation = WorkloadError::File { index: 0, operation: "write".to_string(), source: error() };
            assert_eq!(explain(in_operation).is_input(), is_input, "{kind:?}");
            assert_eq!(unsynced(Phase::Fill, &error()).is_input(), is_input, "{kind:?}");
        }
    }
}
