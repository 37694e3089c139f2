//! `event-recorder`: a security or automotive recorder that logs small events without end.

use nandkit_units::random::Random;

use crate::embedded::{TransactionFiles, Transactions, fits};
use crate::error::Result;
use crate::operation::FileSlot;
use crate::parameters::parameters;
use crate::script::{CyclicFile, Script};

parameters! {
    /// Parameters of `event-recorder`.
    pub struct EventRecorder as "event-recorder" {
        /// Events; assumption.
        events: u64 = 20_000, 1..=1 << 40;
        /// Bytes of an event record (Gal and Toledo, as remembered: 32).
        record: u64 = 32, 1..=1 << 16;
        /// Records of the log; when it is full, the oldest is overwritten. 0: as many as fill 75 %
        /// of the free space, at least 1000; assumption.
        log_records: u64 = 1000, 0..=1 << 40;
        /// Kinds of events; assumption.
        types: u64 = 3, 0..=1000;
        /// Records of the file of latest events that each kind has; assumption.
        latest: u64 = 10, 1..=1 << 20;
        /// Bytes of the configuration; assumption.
        configuration_size: u64 = 512, 1..=1 << 20;
        /// Events between two changes of the configuration; assumption.
        configuration_every: u64 = 10_000, 1..=1 << 40;
        /// Events between two syncs of the log; 0: none; assumption: each event is durable.
        sync_every: u64 = 1, 0..=1 << 32;
    }
}

impl EventRecorder {
    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<TransactionFiles<Recorder>> {
        let fixed = self.types * self.latest * self.record + self.configuration_size;
        let log_records = if self.log_records > 0 {
            self.log_records
        } else {
            (((free_bytes as f64 * 0.75) as u64).saturating_sub(fixed) / self.record.max(1)).max(1000)
        };
        let needed = fixed.saturating_add(log_records.min(self.events).saturating_mul(self.record));
        fits("event-recorder", needed, free_bytes, "use fewer log_records")?;
        let latest = |kind: u64| CyclicFile::new(FileSlot(FIRST_TYPE + kind as u32), self.record, self.latest);
        let recorder = Recorder {
            spec: self.clone(),
            random: Random::new(seed, "event-recorder"),
            log: CyclicFile::new(LOG, self.record, log_records),
            latest: (0..self.types).map(latest).collect(),
        };
        Ok(TransactionFiles::new(recorder, self.events))
    }
}

const LOG: FileSlot = FileSlot(1);
const CONFIGURATION: FileSlot = FileSlot(2);
const FIRST_TYPE: u32 = 3;

/// The recorder's state.
#[derive(Debug)]
pub(crate) struct Recorder {
    spec: EventRecorder,
    random: Random,
    log: CyclicFile,
    latest: Vec<CyclicFile>,
}

impl Transactions for Recorder {
    fn set_up(&mut self, script: &mut Script) {
        script.create(LOG, FileSlot::ROOT, "log");
        script.create(CONFIGURATION, FileSlot::ROOT, "config");
        script.write(CONFIGURATION, 0, self.spec.configuration_size);
        for (kind, file) in self.latest.iter().enumerate() {
            script.create(file.slot, FileSlot::ROOT, format!("last{kind}"));
        }
        script.sync(None);
    }

    fn transaction(&mut self, number: u64, script: &mut Script) {
        self.log.append(script);
        let kind = self.random.below(self.spec.types) as usize;
        if let Some(file) = self.latest.get_mut(kind) {
            file.append(script);
            if self.spec.sync_every == 1 {
                script.sync(Some(file.slot));
            }
        }
        if self.spec.sync_every > 0 && (number + 1).is_multiple_of(self.spec.sync_every) {
            script.sync(Some(LOG));
        }
        if (number + 1).is_multiple_of(self.spec.configuration_every) {
            script.open(CONFIGURATION);
            script.write(CONFIGURATION, 0, self.spec.configuration_size);
            script.sync(Some(CONFIGURATION));
        }
    }
}
