//! Counters of the page-mapped layer.

use nandkit_units::Nanos;

/// Counts since the device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMapCounters {
    /// Logical pages that the host wrote.
    pub host_page_writes: u64,
    /// Logical pages of the host that were programmed: fewer than written if the write buffer
    /// absorbed overwrites.
    pub programmed_pages: u64,
    /// Logical pages overwritten in the write buffer.
    pub absorbed_pages: u64,
    /// Time that host writes waited for room in the write buffer.
    pub buffer_wait: Nanos,
    /// Logical pages moved by cleaning.
    pub copied_pages: u64,
    /// Empty slots programmed because a chip page had to be written before it was full.
    pub filled_pages: u64,
    /// Superblocks cleaned.
    pub cleanings: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Map pages written, without those moved by cleaning.
    pub map_pages: u64,
    /// Journal pages written: lines and snapshots.
    pub journal_pages: u64,
    /// Snapshots written: for checkpoints, and when a half of the journal was full.
    pub snapshots: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Remap commands.
    pub remaps: u64,
    /// Time taken by remap commands, from start to journal line.
    pub remap_time: Nanos,
    /// The part of that time in which cleaning made room in the alias log.
    pub remap_fold_time: Nanos,
    /// Pages that a remap redirected.
    pub remapped_pages: u64,
    /// Pages that a trim removed from the map.
    pub trimmed_pages: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Blocks marked bad after a failure.
    pub retired_blocks: u64,
    /// Pages that were unreadable when they were to be moved: reads of them fail until they are
    /// written again.
    pub lost_pages: u64,
}

impl PageMapCounters {
    /// Write amplification: slots programmed in superblocks per logical page written by the host;
    /// `None` before the first write. Excludes journal pages.
    pub fn waf(&self) -> Option<f64> {
        let programmed = self.programmed_pages + self.copied_pages + self.filled_pages + self.map_pages;
        (self.host_page_writes > 0).then(|| programmed as f64 / self.host_page_writes as f64)
    }

    /// The difference from an earlier snapshot.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            host_page_writes: self.host_page_writes - earlier.host_page_writes,
            programmed_pages: self.programmed_pages - earlier.programmed_pages,
            absorbed_pages: self.absorbed_pages - earlier.absorbed_pages,
            buffer_wait: Nanos(self.buffer_wait.0 - earlier.buffer_wait.0),
            copied_pages: self.copied_pages - earlier.copied_pages,
            filled_pages: self.filled_pages - earlier.filled_pages,
            map_pages: self.map_pages - earlier.map_pages,
            journal_pages: self.journal_pages - earlier.journal_pages,
            snapshots: self.snapshots - earlier.snapshots,
            checkpoints: self.checkpoints - earlier.checkpoints,
            remaps: self.remaps - earlier.remaps,
            remap_time: Nanos(self.remap_time.0 - earlier.remap_time.0),
            remap_fold_time: Nanos(self.remap_fold_time.0 - earlier.remap_fold_time.0),
            remapped_pages: self.remapped_pages - earlier.remapped_pages,
            cleanings: self.cleanings - earlier.cleanings,
            erases: self.erases - earlier.erases,
            trimmed_pages: self.trimmed_pages - earlier.trimmed_pages,
            program_failures: self.program_failures - earlier.program_failures,
            erase_failures: self.erase_failures - earlier.erase_failures,
            retired_blocks: self.retired_blocks - earlier.retired_blocks,
            lost_pages: self.lost_pages - earlier.lost_pages,
        }
    }
}
