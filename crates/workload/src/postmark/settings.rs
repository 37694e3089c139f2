//! PostMark as the study of recycling policies for block-mapped translation layers sets it:
//! transactions that create and delete many small files in a directory, or large files. Its numbers
//! of transactions are not given.

use nandkit_units::random::Random;

use crate::error::{Result, SpecError, WorkloadError};
use crate::operation::{FileOperation, FileSlot, FileWorkload, Phase};
use crate::parameters::parameters;
use crate::script::{Script, check_length};

parameters! {
    /// Parameters of `postmark-small`: each transaction creates and deletes a directory and 50
    /// files of 512 bytes.
    pub struct PostmarkSmall as "postmark-small" {
        /// Transactions; assumption.
        transactions: u64 = 500, 1..=1 << 32;
        /// Files per transaction (the study: 50).
        files: u64 = 50, 1..=100_000;
        /// Bytes of each file (the study: 512).
        file_size: u64 = 512, 0..=1 << 30;
        /// Bytes of each write (PostMark: 512).
        write: u64 = 512, 1..=1 << 20;
        /// Whether files are deleted in random order, as PostMark picks them, or in the order of
        /// their creation; assumption.
        shuffle: bool = true, ();
        /// Whether the last transaction's files stay, to be read back and compared.
        keep_last: bool = true, ();
    }
}

parameters! {
    /// Parameters of `postmark-large`: each transaction creates and deletes a file of 1 MB.
    pub struct PostmarkLarge as "postmark-large" {
        /// Transactions; assumption.
        transactions: u64 = 500, 1..=1 << 32;
        /// Files per transaction; assumption.
        files: u64 = 1, 1..=100_000;
        /// Bytes of each file (the study: 1 MB).
        file_size: u64 = 1 << 20, 0..=1 << 30;
        /// Bytes of each write; assumption.
        write: u64 = 4096, 1..=1 << 20;
        /// Whether the last transaction's files stay, to be read back and compared.
        keep_last: bool = true, ();
    }
}

/// Transactions that create and delete files.
#[derive(Debug)]
pub struct ChurnFiles {
    transactions: u64,
    files: u64,
    file_size: u64,
    write: u64,
    keep_last: bool,
    /// Picks the order of deletion; `None` keeps the order of creation.
    shuffle: Option<Random>,
    directories: bool,
    script: Script,
    done: u64,
    phase: Phase,
}

impl ChurnFiles {
    /// The stream of `postmark-small`.
    pub fn small(spec: &PostmarkSmall, seed: u64, free_bytes: u64) -> Result<Self> {
        fits("postmark-small", spec.files, spec.file_size, free_bytes)?;
        Ok(Self {
            transactions: spec.transactions,
            files: spec.files,
            file_size: spec.file_size,
            write: spec.write,
            keep_last: spec.keep_last,
            shuffle: spec.shuffle.then(|| Random::new(seed, "postmark-small")),
            directories: true,
            script: Script::default(),
            done: 0,
            phase: Phase::Fill,
        })
    }

    /// The stream of `postmark-large`.
    pub fn large(spec: &PostmarkLarge, free_bytes: u64) -> Result<Self> {
        fits("postmark-large", spec.files, spec.file_size, free_bytes)?;
        Ok(Self {
            transactions: spec.transactions,
            files: spec.files,
            file_size: spec.file_size,
            write: spec.write,
            keep_last: spec.keep_last,
            shuffle: None,
            directories: false,
            script: Script::default(),
            done: 0,
            phase: Phase::Fill,
        })
    }

    fn transaction(&mut self) {
        const DIRECTORY: FileSlot = FileSlot(1);
        let parent = if self.directories { DIRECTORY } else { FileSlot::ROOT };
        if self.directories {
            self.script.make_directory(DIRECTORY, FileSlot::ROOT, format!("d{}", self.done));
        }
        let slots = (0..self.files).map(|file| FileSlot(file as u32 + 2));
        for (number, slot) in slots.clone().enumerate() {
            // One counter over the run, as PostMark numbers its files.
            let name = self.done * self.files + number as u64 + 1;
            self.script.create(slot, parent, name.to_string());
            self.script.write_in_pieces(slot, 0, self.file_size, self.write);
        }
        self.done += 1;
        if self.keep_last && self.done == self.transactions {
            return;
        }
        let mut leaving: Vec<FileSlot> = slots.collect();
        if let Some(random) = &mut self.shuffle {
            random.shuffle(&mut leaving);
        }
        leaving.into_iter().for_each(|slot| self.script.remove(slot));
        if self.directories {
            self.script.remove_directory(DIRECTORY);
        }
    }
}

impl PostmarkSmall {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        check_length("postmark-small", self.files.saturating_mul(self.file_size / self.write.max(1) + 2))
    }
}

impl PostmarkLarge {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        check_length("postmark-large", self.files.saturating_mul(self.file_size / self.write.max(1) + 2))
    }
}

fn fits(workload: &'static str, files: u64, file_size: u64, available: u64) -> Result<()> {
    let needed = files.saturating_mul(file_size);
    if needed <= available {
        return Ok(());
    }
    let advice = "use fewer files or a smaller file_size".to_string();
    Err(WorkloadError::DoesNotFit { workload, needed, available, advice })
}

impl FileWorkload for ChurnFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        let pieces = self.file_size.div_ceil(self.write.max(1));
        let per_transaction = self.files * (pieces + 2) + if self.directories { 2 } else { 0 };
        (phase == Phase::Measure).then(|| self.transactions.saturating_mul(per_transaction))
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        if self.phase != Phase::Measure {
            return Ok(None);
        }
        loop {
            if let Some(operation) = self.script.next() {
                return Ok(Some(operation));
            }
            if self.done >= self.transactions {
                return Ok(None);
            }
            self.transaction();
        }
    }
}
