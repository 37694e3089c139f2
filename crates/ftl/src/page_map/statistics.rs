//! What the layer counts.

use nandkit_units::Nanos;

/// Counts since the device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMapCounters {
    /// Logical pages that the host wrote.
    pub host_page_writes: u64,
    /// Logical pages of the host that were programmed: fewer, where the write buffer took a later
    /// version before.
    pub programmed_pages: u64,
    /// Logical pages that were overwritten in the write buffer.
    pub absorbed_pages: u64,
    /// Time that host writes waited for room in the write buffer.
    pub buffer_wait: Nanos,
    /// Logical pages that cleaning moved.
    pub copied_pages: u64,
    /// Slots that were programmed with nothing, because a page of the chip had to be written before
    /// it was full.
    pub filled_pages: u64,
    /// Superblocks that were cleaned.
    pub cleanings: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Map pages that were written, without those that cleaning moved.
    pub map_pages: u64,
    /// Pages of the journal: lines and snapshots.
    pub journal_pages: u64,
    /// Snapshots: of checkpoints, and where a half of the journal was full.
    pub snapshots: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Commands of remap.
    pub remaps: u64,
    /// Time that they took, from their beginning to the line in the journal.
    pub remap_time: Nanos,
    /// Of it, what cleaning took that made room in the log for them.
    pub remap_fold_time: Nanos,
    /// Pages that a remap pointed elsewhere.
    pub remapped_pages: u64,
    /// Pages that a trim took out of the map.
    pub trimmed_pages: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Blocks that were marked bad after that.
    pub retired_blocks: u64,
    /// Pages whose content could not be read when they were to be moved: reads of them fail until
    /// they are written again.
    pub lost_pages: u64,
}

impl PageMapCounters {
    /// Slots of superblocks programmed for each logical page that the host wrote; `None` before the
    /// first. The journal's pages are not in it.
    pub fn waf(&self) -> Option<f64> {
        let programmed = self.programmed_pages + self.copied_pages + self.filled_pages + self.map_pages;
        (self.host_page_writes > 0).then(|| programmed as f64 / self.host_page_writes as f64)
    }

    /// What was counted since an earlier look.
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
