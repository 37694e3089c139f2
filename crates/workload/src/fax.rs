//! `fax`: a fax machine that stores each page as a file of its own and keeps a history of faxes
//! sent and received.

use std::collections::VecDeque;

use nandkit_units::random::Random;

use crate::embedded::{TransactionFiles, Transactions, fits};
use crate::error::{Result, SpecError};
use crate::operation::FileSlot;
use crate::parameters::parameters;
use crate::script::{CyclicFile, Script, check_length};

parameters! {
    /// Parameters of `fax`.
    pub struct Fax as "fax" {
        /// Faxes sent or received, alternating at random; assumption.
        faxes: u64 = 500, 1..=1 << 32;
        /// Fewest pages of a fax; assumption: 4, the mean of 1 to 7.
        pages_min: u64 = 4, 1..=1000;
        /// Most pages of a fax; assumption.
        pages_max: u64 = 4, 1..=1000;
        /// Bytes of a page's file (Gal and Toledo, as remembered: 51,300).
        page_size: u64 = 51_300, 1..=1 << 24;
        /// Bytes of each write of a page; assumption: a modem's buffer.
        write: u64 = 1024, 1..=1 << 16;
        /// Faxes that are kept; the oldest is deleted for the next. 0: as many as fill 75 % of the
        /// free space; assumption: ten that may be printed again.
        kept: u64 = 10, 0..=100_000;
        /// Bytes of a record of the history (Gal and Toledo, as remembered: 200).
        history_record: u64 = 200, 1..=1 << 16;
        /// Records of each of the two histories; when one is full, its oldest record is
        /// overwritten; assumption.
        history_records: u64 = 200, 1..=1 << 20;
        /// Bytes of the file of parameters; assumption.
        parameters_size: u64 = 256, 1..=1 << 20;
        /// Faxes between two changes of the parameters; assumption.
        parameters_every: u64 = 100, 1..=1 << 32;
        /// Whether each page and each history record is made durable at once; assumption: a fax is
        /// acknowledged to its sender.
        sync: bool = true, ();
    }
}

impl Fax {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.pages_max < self.pages_min {
            let detail = format!("pages_max ({}) must not be below pages_min ({})", self.pages_max, self.pages_min);
            return Err(SpecError::Conflict { workload: "fax", detail });
        }
        check_length("fax", self.pages_max.saturating_mul(self.page_size / self.write.max(1) + 2))
    }

    /// The stream of operations.
    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<TransactionFiles<FaxMachine>> {
        self.check()?;
        let fixed = 2 * self.history_record * self.history_records + self.parameters_size;
        let fax = self.pages_max * self.page_size;
        let kept = if self.kept > 0 {
            self.kept
        } else {
            ((free_bytes as f64 * 0.75) as u64).saturating_sub(fixed).checked_div(fax).unwrap_or(0).min(100_000)
        };
        // One more than kept: the oldest is deleted after the new one was written.
        let needed = fixed.saturating_add((kept.max(1) + 1).saturating_mul(fax));
        fits("fax", needed, free_bytes, "use a smaller page_size or kept")?;
        let machine = FaxMachine {
            spec: self.clone(),
            random: Random::new(seed, "fax"),
            kept: kept.max(1) as usize,
            faxes: VecDeque::new(),
            free_slots: Vec::new(),
            next_slot: FIRST_PAGE,
            histories: [0, 1]
                .map(|i| CyclicFile::new(FileSlot(HISTORY + i), self.history_record, self.history_records)),
        };
        Ok(TransactionFiles::new(machine, self.faxes))
    }
}

const PARAMETERS: FileSlot = FileSlot(1);
const HISTORY: u32 = 2;
const FIRST_PAGE: u32 = 4;

/// The machine's state.
#[derive(Debug)]
pub(crate) struct FaxMachine {
    spec: Fax,
    random: Random,
    kept: usize,
    faxes: VecDeque<Vec<FileSlot>>,
    free_slots: Vec<FileSlot>,
    next_slot: u32,
    histories: [CyclicFile; 2],
}

impl FaxMachine {
    fn take_slot(&mut self) -> FileSlot {
        self.free_slots.pop().unwrap_or_else(|| {
            self.next_slot += 1;
            FileSlot(self.next_slot - 1)
        })
    }

    fn sync(&self, slot: FileSlot, script: &mut Script) {
        if self.spec.sync {
            script.sync(Some(slot));
        }
    }
}

impl Transactions for FaxMachine {
    fn set_up(&mut self, script: &mut Script) {
        script.create(PARAMETERS, FileSlot::ROOT, "params");
        script.write(PARAMETERS, 0, self.spec.parameters_size);
        for (history, name) in self.histories.iter().zip(["received", "sent"]) {
            script.create(history.slot, FileSlot::ROOT, name);
        }
        script.sync(None);
    }

    fn transaction(&mut self, number: u64, script: &mut Script) {
        let pages = self.random.between(self.spec.pages_min, self.spec.pages_max);
        let mut fax = Vec::new();
        for page in 0..pages {
            let slot = self.take_slot();
            script.create(slot, FileSlot::ROOT, format!("{number:05}_{page}"));
            script.write_in_pieces(slot, 0, self.spec.page_size, self.spec.write);
            self.sync(slot, script);
            fax.push(slot);
        }
        self.faxes.push_back(fax);
        let which = self.random.below(2) as usize;
        if let Some(history) = self.histories.get_mut(which) {
            script.open(history.slot);
            history.append(script);
            let slot = history.slot;
            self.sync(slot, script);
        }
        if self.faxes.len() > self.kept
            && let Some(oldest) = self.faxes.pop_front()
        {
            oldest.iter().for_each(|slot| script.remove(*slot));
            self.free_slots.extend(oldest);
        }
        if (number + 1).is_multiple_of(self.spec.parameters_every) {
            script.open(PARAMETERS);
            script.write(PARAMETERS, 0, self.spec.parameters_size);
            self.sync(PARAMETERS, script);
        }
    }
}
