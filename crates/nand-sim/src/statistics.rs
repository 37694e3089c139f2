//! What the chip counts.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, StatisticValue, Statistics};

use crate::chip::NandChip;
use crate::store::Store;

/// Counts of what changes the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Page programs, failed ones included; each page of a multi-plane command is one.
    pub programs: u64,
    /// Copybacks, failed programs of the target included.
    pub copies: u64,
    /// Block erases, failed ones included.
    pub erases: u64,
    /// Programs and copies that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
}

/// Counts of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Page reads, failed ones included.
    pub reads: u64,
    /// Reads in which ECC corrected something.
    pub corrected: u64,
    /// Reads, and sources of copies, in which it could not.
    pub uncorrectable: u64,
}

impl<S: Store> NandChip<S> {
    /// Counts of programs, copies, erases and their failures.
    pub const fn write_counters(&self) -> WriteCounters {
        self.counters
    }

    /// Counts of reads.
    pub fn read_counters(&self) -> ReadCounters {
        self.lock().counters
    }
}

impl<S: Store> Statistics for NandChip<S> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let (writes, reads) = (self.write_counters(), self.read_counters());
        for (name, count) in [
            ("nand_page_reads", reads.reads),
            ("nand_page_programs", writes.programs),
            ("nand_page_copies", writes.copies),
            ("nand_block_erases", writes.erases),
            ("nand_corrected_reads", reads.corrected),
            ("nand_uncorrectable_reads", reads.uncorrectable),
            ("nand_program_failures", writes.program_failures),
            ("nand_erase_failures", writes.erase_failures),
        ] {
            sink(name, StatisticValue::Count(count));
        }
        let bad = (0..self.geometry.blocks).filter(|block| self.is_bad(BlockIndex(*block))).count();
        sink("nand_bad_blocks", StatisticValue::Level(bad as f64));
        sink("nand_erases_per_block", StatisticValue::Series(self.erase_counts().map(f64::from).collect()));
    }
}
