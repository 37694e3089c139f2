//! `tiobench`: threads that write, each in a file of its own (M. Kuoppala's tiotest; P1, P3).
//!
//! With order=random the files are the fill, and records at random places are overwritten. With
//! order=sequential new files are written from the first byte to the last. At the end each file is
//! made durable, as tiotest does.

use nandkit_units::random::Random;

use crate::embedded::fits;
use crate::error::{Result, SpecError};
use crate::operation::FileSlot;
use crate::parameters::{choices, parameters};
use crate::script::{Script, check_length};
use crate::streams::{StreamFiles, Streams};

choices! {
    /// Where a thread writes.
    pub enum Places {
        /// At random places of existing files.
        Random = "random",
        /// New files, in order.
        Sequential = "sequential",
    }
}

parameters! {
    /// Parameters of `tiobench`. Threads, file_size, operations: tiotest's and tiobench.pl's;
    /// records: P3's 4 to 16 KiB.
    pub struct Tiobench as "tiobench" {
        /// Threads, each with a file of its own.
        threads: u64 = 4, 1..=1024;
        /// Bytes of each file; a multiple of record_min.
        file_size: u64 = 10 << 20, 512..=1 << 40;
        /// random: at random places of existing files; sequential: new files in order.
        order: Places = Places::Random, ();
        /// Least bytes of a write; lengths and places are multiples of it.
        record_min: u64 = 4096, 512..=1 << 20;
        /// Most bytes of a write; a multiple of record_min.
        record_max: u64 = 16 << 10, 512..=16 << 20;
        /// With order=random: writes of all threads together.
        operations: u64 = 4000, 1..=1 << 40;
        /// Reads at random places after the writes, of all threads together.
        reads: u64 = 0, 0..=1 << 40;
        /// Writes of a thread between two syncs of its file; 0: none.
        sync_every: u64 = 0, 0..=1 << 40;
    }
}

/// Bytes of a write of the fill.
const FILL_PIECE: u64 = 64 << 10;

impl Tiobench {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        let conflict = |detail: String| Err(SpecError::Conflict { workload: "tiobench", detail });
        if self.record_max < self.record_min || !self.record_max.is_multiple_of(self.record_min) {
            return conflict(format!(
                "record_max is {}; expected a multiple of record_min, {}",
                self.record_max, self.record_min
            ));
        }
        if self.file_size < self.record_max || !self.file_size.is_multiple_of(self.record_min) {
            return conflict(format!(
                "file_size is {}; expected a multiple of record_min, {}, and no less than record_max, {}",
                self.file_size, self.record_min, self.record_max
            ));
        }
        check_length("tiobench", self.file_size / FILL_PIECE)
    }

    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<StreamFiles<Threads>> {
        self.check()?;
        let needed = self.file_size.saturating_mul(self.threads);
        fits("tiobench", needed, free_bytes, "use a smaller file_size or fewer threads")?;
        let thread = |number| Thread { random: Random::new(seed, &format!("tiobench {number}")), ..Thread::default() };
        let threads = (0..self.threads).map(thread).collect();
        Ok(StreamFiles::new(Threads { spec: self.clone(), threads }, self.threads, seed))
    }
}

#[derive(Debug)]
struct Thread {
    random: Random,
    writes: u64,
    reads: u64,
    /// With order=sequential, bytes written.
    written: u64,
}

impl Default for Thread {
    fn default() -> Self {
        Self { random: Random::new(0, ""), writes: 0, reads: 0, written: 0 }
    }
}

impl Thread {
    /// Draws the length of a write, and an offset at which it stays within the file.
    fn draw(&mut self, spec: &Tiobench) -> (u64, u64) {
        let unit = spec.record_min;
        let length = self.random.between(1, spec.record_max / unit);
        let place = self.random.below(spec.file_size / unit - length + 1);
        (place * unit, length * unit)
    }
}

/// The threads and their files.
#[derive(Debug)]
pub(crate) struct Threads {
    spec: Tiobench,
    threads: Vec<Thread>,
}

/// The share of `all` that part `number` of `parts` gets.
const fn share_of(all: u64, number: u64, parts: u64) -> u64 {
    all / parts + (number < all % parts) as u64
}

fn slot_of(thread: u64) -> FileSlot {
    FileSlot(thread as u32 + 1)
}

fn create(thread: u64, script: &mut Script) {
    script.create(slot_of(thread), FileSlot::ROOT, format!("tio{thread:04}.dat"));
}

impl Streams for Threads {
    fn fill(&mut self, step: u64, script: &mut Script) -> bool {
        if self.spec.order == Places::Sequential || step > self.spec.threads {
            return false;
        }
        if step == self.spec.threads {
            script.sync(None);
            return false;
        }
        create(step, script);
        script.write_in_pieces(slot_of(step), 0, self.spec.file_size, FILL_PIECE);
        true
    }

    fn turn(&mut self, stream: usize, script: &mut Script) -> bool {
        let (spec, number) = (&self.spec, stream as u64);
        let Some(thread) = self.threads.get_mut(stream) else { return false };
        let slot = slot_of(number);
        let next = match spec.order {
            Places::Random if thread.writes < share_of(spec.operations, number, spec.threads) => {
                Some(thread.draw(spec))
            }
            Places::Sequential if thread.written < spec.file_size => {
                let (_, length) = thread.draw(spec);
                Some((thread.written, length.min(spec.file_size - thread.written)))
            }
            _ => None,
        };
        if let Some((offset, length)) = next {
            if spec.order == Places::Sequential && thread.written == 0 {
                create(number, script);
            }
            script.write(slot, offset, length);
            thread.written += length;
            thread.writes += 1;
            if spec.sync_every > 0 && thread.writes.is_multiple_of(spec.sync_every) {
                script.sync(Some(slot));
            }
            return true;
        }
        if thread.reads < share_of(spec.reads, number, spec.threads) {
            let (offset, length) = thread.draw(spec);
            script.read(slot, offset, length);
            thread.reads += 1;
            return true;
        }
        script.sync(Some(slot));
        false
    }
}
