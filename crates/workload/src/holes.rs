//! `holes`: a volume of segments full of holes, then new files (P1, section 5.1).
//!
//! Warm and cold files are written in order. Then blocks of each, chosen at random and each once,
//! are overwritten until the wanted share of what was written first is valid: a log-structured file
//! system puts the new versions elsewhere. What is measured are new files written by several
//! threads in turn, as tiobench does. Cold data are a file whose name ends as F2FS takes for cold.

use nandkit_units::random::Random;
use nandkit_units::{Description, Generator};

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
        /// Share of the cold data that is.
        cold_valid: f64 = 0.7, 0.0..=1.0;
        /// Share of cold data in all that is written before; 0: none.
        cold_share: f64 = 0.0, 0.0..=0.9;
        /// What is written before, overwritten blocks twice, by the bytes that are free at first.
        written: f64 = 0.9, 0.0..=8.0;
        /// Bytes of each write; blocks of the file system.
        record: u64 = 4096, 512..=64 << 10;
        /// Bytes of the measured files together.
        bytes: u64 = 64 << 20, 4096..=1 << 40;
        /// Files that are written in turn.
        threads: u64 = 4, 1..=1024;
        /// The order in which each of them is written.
        order: Order = Order::Sequential, ();
    }
}

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

    /// The stream of operations on a volume with so much free space.
    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<HolesFiles> {
        self.check()?;
        let records = self.records(free_bytes);
        let needed = records.iter().sum::<u64>().saturating_mul(self.record).saturating_add(self.bytes);
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
        let per_thread = self.bytes / self.record / self.threads;
        let order = match self.order {
            Order::Sequential => (0..per_thread as u32).collect(),
            Order::Random => shuffled(per_thread, &mut random),
        };
        Ok(HolesFiles { spec: self.clone(), records, chosen, order, phase: Phase::Fill, done: 0 })
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
#[derive(Debug)]
pub struct HolesFiles {
    spec: Holes,
    records: [u64; 2],
    chosen: Vec<(usize, u32)>,
    order: Vec<u32>,
    phase: Phase,
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

    fn next_measured(&self, step: u64) -> Option<FileOperation> {
        let (threads, first) = (self.spec.threads, FILES.len() as u64);
        if step < threads {
            return Some(self.create(first + step, format!("new{step:04}.dat").into_bytes()));
        }
        let step = step - threads;
        match self.order.get(usize::try_from(step / threads).ok()?) {
            Some(record) => Some(self.write(first + step % threads, (*record).into(), 0)),
            None => (step == threads * self.order.len() as u64).then_some(FileOperation::Sync { slot: None }),
        }
    }
}

impl FileWorkload for HolesFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        (self.phase, self.done) = (phase, 0);
        Some(match phase {
            Phase::Fill => self.records.iter().map(|count| count + 1).sum::<u64>() + 1,
            Phase::Age => self.chosen.len() as u64 + 1,
            Phase::Measure => self.spec.threads * (self.order.len() as u64 + 1) + 1,
        })
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        let step = self.done;
        self.done += 1;
        Ok(match self.phase {
            Phase::Fill => self.next_fill(step),
            Phase::Age => self.next_age(step),
            Phase::Measure => self.next_measured(step),
        })
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
        let mut workload = spec.files(1, 64 << 20).expect("fits");
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
        assert!(Holes { written: 2.0, ..Holes::default() }.files(1, 64 << 20).is_err());
        assert!(Holes { bytes: 4096, ..Holes::default() }.check().is_err());
    }
}
