//! `postmark`: Katcher's benchmark (NetApp TR-3022, 1997) with the parameters, the generator and
//! the order of draws of version 1.53, so that the same seed makes the same files; and the two
//! settings of the study of recycling policies.
//!
//! The content is not PostMark's (a prefix of one random text in every file) but a record per
//! write, so that a lost or exchanged write shows. The draws for that text are made and thrown
//! away, which keeps the sequence.

mod generator;
mod settings;

pub use generator::Generator1999;
pub use settings::{ChurnFiles, PostmarkLarge, PostmarkSmall};

use nandkit_units::random::hash;

use crate::error::{Result, SpecError};
use crate::operation::{FileOperation, FileSlot, FileWorkload, Phase};
use crate::parameters::parameters;
use crate::script::{Script, check_length};

parameters! {
    /// Parameters of `postmark`; the defaults are PostMark 1.53's.
    pub struct Postmark as "postmark" {
        /// Least size of a file in bytes (PostMark: set size).
        size_low: u64 = 500, 1..=1 << 28;
        /// Bound of the sizes in bytes (PostMark: set size); new files stay below it, appends reach
        /// it.
        size_high: u64 = 10_000, 1..=1 << 28;
        /// Simultaneous files (PostMark: set number).
        number: u64 = 500, 1..=1_000_000;
        /// Transactions (PostMark: set transactions).
        transactions: u64 = 500, 1..=1 << 32;
        /// Subdirectories; used when more than 1 (PostMark: set subdirectories).
        subdirectories: u64 = 0, 0..=1_000_000;
        /// Bytes of each read (PostMark: set read).
        read: u64 = 512, 1..=1 << 20;
        /// Bytes of each write (PostMark: set write).
        write: u64 = 512, 1..=1 << 20;
        /// Tenths of the chance that a transaction reads rather than appends (PostMark: set bias
        /// read).
        bias_read: u64 = 5, 0..=10;
        /// Tenths of the chance that a transaction creates rather than deletes (PostMark: set bias
        /// create).
        bias_create: u64 = 5, 0..=10;
        /// Seed of PostMark's generator (PostMark: set seed); 0: the run's seed.
        seed: u64 = 42, 0..=u32::MAX as u64;
        /// Whether all files are deleted at the end, as PostMark does; else they are read back and
        /// compared.
        delete: bool = true, ();
    }
}

impl Postmark {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.size_high < self.size_low {
            let detail = format!("size_high ({}) must not be below size_low ({})", self.size_high, self.size_low);
            return Err(SpecError::Conflict { workload: "postmark", detail });
        }
        check_length("postmark", self.size_high / self.read.min(self.write).max(1))
    }
}

/// One of PostMark's file slots; a size of 0 is free, as in the original.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Directories,
    Create(u64),
    Transaction(u64),
    Delete(usize),
    RemoveDirectories,
    Over,
}

/// The stream of operations. PostMark's creation of its files is the fill, all the rest is
/// measured.
#[derive(Debug)]
pub struct PostmarkFiles {
    spec: Postmark,
    random: Generator1999,
    script: Script,
    slots: Vec<Slot>,
    allocated: usize,
    created: u64,
    deleted: u64,
    phase: Phase,
    stage: Stage,
}

impl PostmarkFiles {
    /// The stream of a checked spec.
    pub fn new(spec: Postmark, seed: u64) -> Result<Self> {
        spec.check()?;
        let start = if spec.seed == 0 { hash(seed, 0, 0) as u32 } else { spec.seed as u32 };
        let mut random = Generator1999::new(start);
        for _ in 0..spec.size_high * 2 {
            random.below(95);
        }
        let slots = vec![Slot::default(); spec.number as usize * 2];
        Ok(Self {
            spec,
            random,
            script: Script::default(),
            slots,
            allocated: 0,
            created: 0,
            deleted: 0,
            phase: Phase::Fill,
            stage: Stage::Directories,
        })
    }

    fn subdirectories(&self) -> u64 {
        if self.spec.subdirectories > 1 { self.spec.subdirectories } else { 0 }
    }

    /// The driver's slot of a subdirectory; the files come after them.
    const fn directory(number: u64) -> FileSlot {
        FileSlot(number as u32 + 1)
    }

    fn file(&self, slot: usize) -> FileSlot {
        FileSlot(self.subdirectories() as u32 + slot as u32 + 1)
    }

    fn find_free(&mut self) -> Option<usize> {
        if let Some(slot) = self.slots.get(self.allocated)
            && slot.size == 0
        {
            self.allocated += 1;
            return Some(self.allocated - 1);
        }
        let found = self.slots.iter().position(|slot| slot.size == 0)?;
        self.allocated = found + 1;
        Some(found)
    }

    /// A slot in use; the caller knows that there is one.
    fn find_used(&mut self) -> usize {
        loop {
            let slot = self.random.below(self.slots.len() as u32) as usize;
            if self.slots.get(slot).is_some_and(|slot| slot.size != 0) {
                return slot;
            }
        }
    }

    fn create(&mut self) {
        let Some(slot) = self.find_free() else { return };
        let subdirectories = self.subdirectories();
        let parent = match subdirectories {
            0 => FileSlot::ROOT,
            count => Self::directory(u64::from(self.random.below(count as u32))),
        };
        let range = (self.spec.size_high - self.spec.size_low) as u32;
        let size = self.spec.size_low + u64::from(self.random.below(range));
        self.created += 1;
        let file = self.file(slot);
        self.script.create(file, parent, self.created.to_string());
        self.script.write_in_pieces(file, 0, size, self.spec.write);
        self.slots[slot].size = size;
    }

    fn append(&mut self) {
        let slot = self.find_used();
        let size = self.slots[slot].size;
        if size >= self.spec.size_high {
            return;
        }
        let block = u64::from(self.random.below((self.spec.size_high - size) as u32)) + 1;
        let file = self.file(slot);
        self.script.open(file);
        self.script.write_in_pieces(file, size, block, self.spec.write);
        self.slots[slot].size += block;
    }

    fn read(&mut self) {
        let slot = self.find_used();
        let file = self.file(slot);
        self.script.open(file);
        self.script.read_in_pieces(file, self.slots[slot].size, self.spec.read);
    }

    fn delete(&mut self, slot: usize) {
        self.script.remove(self.file(slot));
        self.slots[slot].size = 0;
        self.deleted += 1;
    }

    /// One transaction; false where no file is left, on which the original stops.
    fn transaction(&mut self) -> bool {
        if self.created == self.deleted {
            return false;
        }
        if u64::from(self.random.below(10)) < self.spec.bias_read {
            self.read();
        } else {
            self.append();
        }
        if u64::from(self.random.below(10)) < self.spec.bias_create {
            self.create();
        } else {
            let slot = self.find_used();
            self.delete(slot);
        }
        true
    }

    /// Puts the next stage's operations into the script (perhaps none) and goes on to the stage
    /// after it.
    fn advance(&mut self) {
        let stage = self.stage;
        self.stage = match stage {
            Stage::Directories => {
                for number in 0..self.subdirectories() {
                    self.script.make_directory(Self::directory(number), FileSlot::ROOT, format!("s{number}"));
                }
                Stage::Create(0)
            }
            Stage::Create(done) if done < self.spec.number => {
                self.create();
                Stage::Create(done + 1)
            }
            Stage::Create(_) => Stage::Transaction(0),
            Stage::Transaction(done) if done < self.spec.transactions && self.transaction() => {
                Stage::Transaction(done + 1)
            }
            Stage::Transaction(_) if self.spec.delete => Stage::Delete(0),
            Stage::Transaction(_) => Stage::Over,
            Stage::Delete(slot) if slot < self.slots.len() => {
                if self.slots[slot].size != 0 {
                    self.delete(slot);
                }
                Stage::Delete(slot + 1)
            }
            Stage::Delete(_) => Stage::RemoveDirectories,
            Stage::RemoveDirectories => {
                for number in 0..self.subdirectories() {
                    self.script.remove_directory(Self::directory(number));
                }
                Stage::Over
            }
            Stage::Over => Stage::Over,
        };
    }

    fn phase_over(&self) -> bool {
        match self.phase {
            Phase::Fill => !matches!(self.stage, Stage::Directories | Stage::Create(_)),
            Phase::Age => true,
            Phase::Measure => self.stage == Stage::Over,
        }
    }
}

impl FileWorkload for PostmarkFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        None
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        loop {
            if let Some(operation) = self.script.next() {
                return Ok(Some(operation));
            }
            if self.phase_over() {
                return Ok(None);
            }
            self.advance();
        }
    }
}

/// The number of bytes of a described write, for tests and counts.
#[cfg(test)]
fn bytes_of(operation: &FileOperation) -> u64 {
    match operation {
        FileOperation::Write { length, .. } => u64::from(*length),
        FileOperation::Read { length, .. } => u64::from(*length),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Counts {
        created: u64,
        deleted: u64,
        opened: u64,
        read: u64,
        written: u64,
    }

    fn count(spec: Postmark) -> Counts {
        let mut workload = PostmarkFiles::new(spec, 0).unwrap();
        let mut counts = Counts::default();
        for phase in Phase::ALL {
            workload.begin(phase);
            while let Some(operation) = workload.next_operation().unwrap() {
                match &operation {
                    FileOperation::Create { .. } => counts.created += 1,
                    FileOperation::Remove { .. } => counts.deleted += 1,
                    FileOperation::Open { .. } => counts.opened += 1,
                    FileOperation::Read { .. } => counts.read += bytes_of(&operation),
                    FileOperation::Write { .. } => counts.written += bytes_of(&operation),
                    _ => {}
                }
            }
        }
        counts
    }

    // The expected counts are what the original program, PostMark 1.53 (Debian package 1.53-2),
    // reports for the same settings with `set buffering false`; it gives bytes in MB with two
    // decimals.
    fn megabytes(bytes: u64) -> String {
        format!("{:.2}", bytes as f64 / f64::from(1 << 20))
    }

    #[test]
    fn the_defaults_do_what_the_original_program_does() {
        let counts = count(Postmark::default());
        assert_eq!((counts.created, counts.deleted, counts.opened), (764, 764, 243 + 257));
        assert_eq!((megabytes(counts.read), megabytes(counts.written)), ("1.36".into(), "4.45".into()));
    }

    #[test]
    fn other_settings_too() {
        let spec = Postmark {
            size_low: 512,
            size_high: 10_000,
            number: 100,
            transactions: 1000,
            seed: 7,
            subdirectories: 10,
            bias_read: 7,
            bias_create: 6,
            ..Postmark::default()
        };
        let counts = count(spec);
        assert_eq!((counts.created, counts.deleted), (576, 576));
        assert_eq!((megabytes(counts.read), megabytes(counts.written)), ("4.09".into(), "3.55".into()));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(Postmark { size_low: 10, size_high: 9, ..Postmark::default() }.check().is_err());
    }
}
