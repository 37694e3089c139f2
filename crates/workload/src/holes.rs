//! `holes`: a volume of segments full of holes, then new files (P1, section 5.1).
//!
//! Warm and cold files are written in order. Then blocks of each, chosen at random and each once,
//! are overwritten until the wanted share of what was written first is valid: a log-structured file
//! system puts the new versions elsewhere. The measured part writes new files by several threads in
//! turn, as tiobench does, or runs another workload on the volume (`then`). The cold data are a
//! file with an extension that F2FS treats as cold.

use nandkit_units::random::Random;
use nandkit_units::{Description, Generator, Nanos};

use crate::error::{Result, SpecError, WorkloadError};
use crate::operation::{FileData, FileOperation, FileSlot, FileWorkload, Phase};
use crate::parameters::{choices, parameters};

choices! {
    /// The order in which threads write their files.
    pub enum Order {
        /// From the first byte to the last.
        Sequential = "sequential",
        /// Each record once, at random places.
        Random = "random",
    }
}

parameters! {
    /// Parameters of `holes`. Records, threads: tiobench's defaults; the shares are those of P1.
    pub struct Holes as "holes" {
        /// Share of the warm data written first that is valid when the measured part begins.
        warm_valid: f64 = 0.5, 0.0..=1.0;
        /// Share of the cold data written first that is valid when the measured part begins.
        cold_valid: f64 = 0.7, 0.0..=1.0;
        /// Share of cold data in the data written before the measured part; 0: none.
        cold_share: f64 = 0.0, 0.0..=0.9;
        /// Bytes written before the measured part (an overwritten block counts twice), divided by
        /// the bytes free at the start.
        written: f64 = 0.9, 0.0..=8.0;
        /// Bytes of each write; use a multiple of the file system's block size.
        record: u64 = 4096, 512..=64 << 10;
        /// Total bytes of the measured files.
        bytes: u64 = 64 << 20, 4096..=1 << 40;
        /// Number of measured files, one for each thread; the threads write in turn.
        threads: u64 = 4, 1..=1024;
        /// The order in which each thread writes its file.
        order: Order = Order::Sequential, ();
        /// Measured bytes, as a multiple of the bytes of holes in the warm data; 0: use the
        /// parameter bytes.
        of_holes: f64 = 0.0, 0.0..=4.0;
        /// How often the measured files are written; from the second time on they are removed
        /// first.
        rounds: u64 = 1, 1..=1 << 20;
        /// Seconds between the starts of two rounds, and before the first; the time that a round
        /// does not need is idle.
        every: u64 = 0, 0..=1 << 30;
        /// Workload that is measured instead of new files, with ; for each comma; none: new files.
        then: String = NONE.to_string(), "a workload, or none";
    }
}

/// The workload that is measured instead of new files, if any.
pub type Behind = Option<Box<dyn FileWorkload>>;

/// The value of `then` that measures new files.
pub const NONE: &str = "none";

/// Names of the files that make the holes.
const FILES: [&[u8]; 2] = [b"warm.dat", b"cold.avi"];

impl Holes {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        let needed = self.record.saturating_mul(self.threads);
        if self.bytes < needed {
            let detail = format!("bytes is {}; expected at least a record for each thread, {needed}", self.bytes);
            return Err(SpecError::Conflict { workload: "holes", detail });
        }
        Ok(())
    }

    /// Records of the warm and of the cold file.
    fn records(&self, free_bytes: u64) -> [u64; 2] {
        let all = free_bytes as f64 * self.written / self.record as f64;
        let of = |share: f64, valid: f64| (all * share / (2.0 - valid)) as u64;
        [of(1.0 - self.cold_share, self.warm_valid), of(self.cold_share, self.cold_valid)]
    }

    /// The stream of operations on a volume with `free_bytes` bytes of free space. `behind` makes
    /// the workload that `then` names, if any, from the number of bytes that the holes leave free.
    pub(crate) fn files(
        &self,
        seed: u64,
        free_bytes: u64,
        behind: impl FnOnce(u64) -> Result<Behind>,
    ) -> Result<HolesFiles> {
        self.check()?;
        let records = self.records(free_bytes);
        let filled = records.iter().sum::<u64>().saturating_mul(self.record);
        let then = behind(free_bytes.saturating_sub(filled))?;
        let bytes = match self.of_holes {
            0.0 => self.bytes,
            share => (records[0] as f64 * (1.0 - self.warm_valid) * share) as u64 * self.record,
        };
        let needed = filled.saturating_add(if then.is_some() { 0 } else { bytes });
        if needed > free_bytes || records.iter().any(|count| *count > u64::from(u32::MAX)) {
            let advice = "use a smaller written or smaller bytes".to_string();
            return Err(WorkloadError::DoesNotFit { workload: "holes", needed, available: free_bytes, advice });
        }
        let mut random = Random::new(seed, "records of holes");
        let mut chosen = Vec::new();
        for (file, (count, valid)) in records.iter().zip([self.warm_valid, self.cold_valid]).enumerate() {
            let mut order = shuffled(*count, &mut random);
            order.truncate(((1.0 - valid) * *count as f64).round() as usize);
            chosen.extend(order.into_iter().map(|record| (file, record)));
        }
        // Warm and cold data are overwritten by turns.
        shuffle(&mut chosen, &mut random);
        let per_thread = bytes / self.record / self.threads;
        let order = match self.order {
            Order::Sequential => (0..per_thread as u32).collect(),
            Order::Random => shuffled(per_thread, &mut random),
        };
        Ok(HolesFiles {
            spec: self.clone(),
            records,
            chosen,
            order,
            then,
            phase: Phase::Fill,
            round: 0,
            done: 0,
            then_phase: None,
        })
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

fn shuffled(count: u64, random: &mut Random) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    shuffle(&mut all, random);
    all
}

/// `holes` on files.
pub struct HolesFiles {
    spec: Holes,
    records: [u64; 2],
    chosen: Vec<(usize, u32)>,
    order: Vec<u32>,
    /// The workload that is measured instead of new files, if any, and the phase that it is in.
    then: Behind,
    then_phase: Option<Phase>,
    phase: Phase,
    round: u64,
    done: u64,
}

impl HolesFiles {
    fn write(&self, file: u64, record: u64, version: u32) -> FileOperation {
        let number = file << 40 | record;
        FileOperation::Write {
            slot: FileSlot(file as u32 + 1),
            offset: record * self.spec.record,
            length: self.spec.record as u32,
            data: FileData::Described(Description { record: number, version, offset: 0, generator: Generator::Record }),
        }
    }

    fn create(&self, file: u64, name: Vec<u8>) -> FileOperation {
        FileOperation::Create { slot: FileSlot(file as u32 + 1), parent: FileSlot::ROOT, name }
    }

    /// Per file a create and its records in order, at last a sync.
    fn next_fill(&self, mut step: u64) -> Option<FileOperation> {
        for (file, (count, name)) in self.records.iter().zip(FILES).enumerate() {
            match step {
                0 => return Some(self.create(file as u64, name.to_vec())),
                _ if step <= *count => return Some(self.write(file as u64, step - 1, 0)),
                _ => step -= count + 1,
            }
        }
        (step == 0).then_some(FileOperation::Sync { slot: None })
    }

    fn next_age(&self, step: u64) -> Option<FileOperation> {
        match self.chosen.get(usize::try_from(step).ok()?) {
            Some((file, record)) => Some(self.write(*file as u64, (*record).into(), 1)),
            None => (step == self.chosen.len() as u64).then_some(FileOperation::Sync { slot: None }),
        }
    }

    /// Steps of a round by their kind: its instant, files removed, created, records by turns, a
    /// sync.
    fn round_steps(&self, round: u64) -> [u64; 5] {
        let threads = self.spec.threads;
        let removed = if round > 0 { threads } else { 0 };
        [u64::from(self.spec.every > 0), removed, threads, threads * self.order.len() as u64, 1]
    }

    fn next_measured(&self, round: u64, mut step: u64) -> Option<FileOperation> {
        let (threads, first) = (self.spec.threads, FILES.len() as u64);
        let steps = self.round_steps(round);
        let kind = steps.iter().position(|count| match step.checked_sub(*count) {
            Some(rest) => {
                step = rest;
                false
            }
            None => true,
        });
        Some(match kind? {
            0 => FileOperation::Arrive { at: Nanos::from_secs(self.spec.every.saturating_mul(round + 1)) },
            1 => FileOperation::Remove { slot: FileSlot((first + step) as u32 + 1) },
            2 => self.create(first + step, format!("new{step:04}.dat").into_bytes()),
            3 => {
                let record = *self.order.get(usize::try_from(step / threads).ok()?)?;
                self.write(first + step % threads, record.into(), round as u32)
            }
            _ => FileOperation::Sync { slot: None },
        })
    }

    /// The workload `then` in a phase of its own, its slots behind those of the holes.
    fn next_then(&mut self, phase: Phase) -> Result<Option<FileOperation>> {
        let Some(then) = self.then.as_mut() else { return Ok(None) };
        // Phases follow each other; one that is over is not begun again.
        if self.then_phase < Some(phase) {
            self.then_phase = Some(phase);
            then.begin(phase);
        } else if self.then_phase > Some(phase) {
            return Ok(None);
        }
        Ok(then.next_operation()?.map(behind))
    }
}

/// An operation on slots behind those of the holes.
fn behind(operation: FileOperation) -> FileOperation {
    use FileOperation as Of;
    let moved = |slot: FileSlot| match slot {
        FileSlot::ROOT => slot,
        FileSlot(number) => FileSlot(number.saturating_add(FILES.len() as u32)),
    };
    match operation {
        Of::MakeDirectory { slot, parent, name } => {
            Of::MakeDirectory { slot: moved(slot), parent: moved(parent), name }
        }
        Of::Create { slot, parent, name } => Of::Create { slot: moved(slot), parent: moved(parent), name },
        Of::Open { slot } => Of::Open { slot: moved(slot) },
        Of::Write { slot, offset, length, data } => Of::Write { slot: moved(slot), offset, length, data },
        Of::Read { slot, offset, length } => Of::Read { slot: moved(slot), offset, length },
        Of::Truncate { slot, size } => Of::Truncate { slot: moved(slot), size },
        Of::Rename { slot, parent, name } => Of::Rename { slot: moved(slot), parent: moved(parent), name },
        Of::Remove { slot } => Of::Remove { slot: moved(slot) },
        Of::RemoveDirectory { slot } => Of::RemoveDirectory { slot: moved(slot) },
        Of::Sync { slot } => Of::Sync { slot: slot.map(moved) },
        Of::Arrive { at } => Of::Arrive { at },
    }
}

impl FileWorkload for HolesFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        (self.phase, self.round, self.done) = (phase, 0, 0);
        let holes = match phase {
            Phase::Fill => self.records.iter().map(|count| count + 1).sum::<u64>() + 1,
            Phase::Age => self.chosen.len() as u64 + 1,
            Phase::Measure => (0..self.spec.rounds).map(|round| self.round_steps(round)[1..].iter().sum::<u64>()).sum(),
        };
        match phase {
            Phase::Fill => Some(holes),
            _ if self.then.is_none() => Some(holes),
            // The fill of the measured workload is part of the aging.
            Phase::Age => None,
            Phase::Measure => {
                self.then_phase = Some(phase);
                self.then.as_mut().and_then(|then| then.begin(phase))
            }
        }
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        let step = self.done;
        self.done += 1;
        match self.phase {
            Phase::Fill => Ok(self.next_fill(step)),
            Phase::Age => match self.next_age(step) {
                Some(operation) => Ok(Some(operation)),
                None => match self.next_then(Phase::Fill)? {
                    Some(operation) => Ok(Some(operation)),
                    None => self.next_then(Phase::Age),
                },
            },
            Phase::Measure if self.then.is_some() => self.next_then(Phase::Measure),
            Phase::Measure => {
                let next = self.next_measured(self.round, step);
                if next.is_some() || self.round + 1 >= self.spec.rounds {
                    return Ok(next);
                }
                (self.round, self.done) = (self.round + 1, 1);
                Ok(self.next_measured(self.round, 0))
            }
        }
    }

    fn original(&mut self, number: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.then.as_mut() {
            Some(then) => then.original(number, offset, into),
            None => Err(WorkloadError::inconsistent(format!("it has no original {number}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(workload: &mut HolesFiles, phase: Phase) -> Vec<FileOperation> {
        let count = workload.begin(phase).expect("known");
        let all: Vec<FileOperation> = std::iter::from_fn(|| workload.next_operation().expect("a step")).collect();
        assert_eq!(all.len() as u64, count, "{phase:?}");
        all
    }

    #[test]
    fn so_much_is_left_as_was_asked_for() {
        let spec = Holes { cold_share: 0.4, bytes: 1 << 20, order: Order::Random, ..Holes::default() };
        let mut workload = spec.files(1, 64 << 20, |_| Ok(None)).expect("fits");
        let filled = operations(&mut workload, Phase::Fill);
        let aged = operations(&mut workload, Phase::Age);
        let of = |all: &[FileOperation], file: u32| {
            let writes = all.iter().filter(|operation| match operation {
                FileOperation::Write { slot, .. } => slot.0 == file,
                _ => false,
            });
            writes.count() as f64
        };
        for (file, valid) in [(1, 0.5), (2, 0.7)] {
            let share = 1.0 - of(&aged, file) / of(&filled, file);
            assert!((share - valid).abs() < 0.001, "{file}: {share}");
        }
        let mut written: Vec<(u32, u64)> = Vec::new();
        for operation in operations(&mut workload, Phase::Measure) {
            if let FileOperation::Write { slot, offset, .. } = operation {
                written.push((slot.0, offset));
            }
        }
        assert!(!written.is_sorted_by_key(|(_, offset)| *offset));
        written.sort_unstable();
        written.dedup();
        assert_eq!(written.len(), 256);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Holes { written: 2.0, ..Holes::default() }.files(1, 64 << 20, |_| Ok(None)).is_err());
        assert!(Holes { bytes: 4096, ..Holes::default() }.check().is_err());
    }

    #[test]
    fn rounds_write_the_same_files_anew_at_their_time() {
        let spec = Holes { bytes: 1 << 20, rounds: 3, every: 60, ..Holes::default() };
        let mut workload = spec.files(1, 64 << 20, |_| Ok(None)).expect("fits");
        let count = workload.begin(Phase::Measure).expect("known");
        let all: Vec<FileOperation> = std::iter::from_fn(|| workload.next_operation().expect("a step")).collect();
        let of = |matches: fn(&FileOperation) -> bool| all.iter().filter(|operation| matches(operation)).count();
        assert_eq!(all.len() as u64, count + 3);
        assert_eq!(of(|operation| matches!(operation, FileOperation::Write { .. })), 3 * 256);
        assert_eq!(of(|operation| matches!(operation, FileOperation::Create { .. })), 3 * 4);
        assert_eq!(of(|operation| matches!(operation, FileOperation::Remove { .. })), 2 * 4);
        let at = |operation: &FileOperation| match operation {
            FileOperation::Arrive { at } => Some(at.0 / 1_000_000_000),
            _ => None,
        };
        assert_eq!(all.iter().filter_map(at).collect::<Vec<_>>(), [60, 120, 180]);
    }

    #[test]
    fn so_much_is_written_as_there_are_holes() {
        let spec = Holes { of_holes: 0.5, ..Holes::default() };
        let mut workload = spec.files(1, 64 << 20, |_| Ok(None)).expect("fits");
        let records = workload.records[0];
        let all = operations(&mut workload, Phase::Measure);
        let written = all.iter().filter(|operation| matches!(operation, FileOperation::Write { .. })).count() as u64;
        assert!(written.abs_diff(records / 4) <= 4, "{written} of {records}");
    }
}
