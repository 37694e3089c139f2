//! Options of a mount for writing.

use nandkit_cleaning::search::AgedGaps;

use crate::device::Atomicity;
use crate::names::new_inode::Making;
use crate::pages::PageLimits;
use crate::segments::classes::ActiveLogs;

/// Bits of `ipu_policy`: when an allocated block is overwritten in place (segment.h;
/// f2fs-writing.md, "In place or out of place").
pub mod ipu {
    /// Every time.
    pub const FORCE: u32 = 1;
    /// Overwrites in place when SSR is needed.
    pub const SSR: u32 = 1 << 1;
    /// Overwrites in place when utilisation exceeds [`super::WriteOptions::min_ipu_util`].
    pub const UTILIZATION: u32 = 1 << 2;
    /// When both of the last two conditions hold.
    pub const SSR_UTILIZATION: u32 = 1 << 3;
    /// Overwrites in place in an fdatasync, or in an fsync of few pages.
    pub const FSYNC: u32 = 1 << 4;
    /// Overwrites in place where the writer does not wait.
    pub const ASYNC: u32 = 1 << 5;
    /// A request to write out of place takes precedence.
    pub const HONOR_OUT_OF_PLACE: u32 = 1 << 7;
}

/// Options of a mount for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// `mode=lfs`: gaps are never filled and nothing is overwritten in place.
    pub lfs: bool,
    /// [`crate::segments::Options::own_gaps`].
    pub own_gaps: bool,
    /// [`crate::segments::Options::plugs_holes`].
    pub plugs_holes: bool,
    /// [`crate::segments::Options::aged_gaps`].
    pub aged_gaps: Option<AgedGaps>,
    /// Whether files with cold names are overwritten in place, as in current Linux; the first F2FS
    /// (3.8) did not.
    pub cold_in_place: bool,
    /// `active_logs`.
    pub logs: ActiveLogs,
    /// Bits of [`ipu`]; `None`: as Linux chooses by volume size.
    pub ipu_policy: Option<u32>,
    /// The threshold of [`ipu::UTILIZATION`], in percent.
    pub min_ipu_util: u64,
    /// The threshold of [`ipu::FSYNC`], in dirty pages.
    pub min_fsync_blocks: usize,
    /// Whether blocks freed by a checkpoint are discarded after it.
    pub discard: bool,
    /// `fsync_mode=strict`.
    pub strict_fsync: bool,
    /// Whether an fsync flushes data before it writes the nodes that refer to it. Linux does not: a
    /// power cut during an fsync may leave stale content in blocks of a file.
    pub ordered_fsync: bool,
    /// Whether a sync writes nodes before it updates the times of inodes, as Linux does; the
    /// checkpoint then writes the nodes of overwritten files again (f2fs-writing.md, "Sync").
    /// `false` writes less; recovery is the same.
    pub nodes_before_checkpoint: bool,
    /// Pages kept in memory.
    pub pages: PageLimits,
    /// The most clean nodes, and the most clean metadata blocks, kept in memory.
    pub cached_blocks: usize,
    /// How new inodes are made.
    pub making: Making,
    /// The most requests in flight.
    pub depth: usize,
    /// Whether the limits of quota files are enforced.
    pub limits: bool,
    /// Whether to refuse devices whose sectors are smaller than a block, so that a power cut may
    /// tear a block.
    pub atomicity: Atomicity,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            lfs: false,
            own_gaps: false,
            plugs_holes: false,
            aged_gaps: None,
            cold_in_place: true,
            logs: ActiveLogs::Six,
            ipu_policy: None,
            min_ipu_util: 70,
            min_fsync_blocks: 8,
            discard: true,
            strict_fsync: false,
            nodes_before_checkpoint: true,
            ordered_fsync: false,
            pages: PageLimits::default(),
            cached_blocks: 8192,
            making: Making::default(),
            depth: 32,
            limits: true,
            atomicity: Atomicity::Required,
        }
    }
}
