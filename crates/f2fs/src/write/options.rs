//! How a volume is mounted for writing.

use nandkit_cleaning::search::AgedGaps;

use crate::device::Atomicity;
use crate::names::new_inode::Making;
use crate::pages::PageLimits;
use crate::segments::classes::ActiveLogs;

/// Bits of `ipu_policy`: when a block that has an address is overwritten where it stands
/// (segment.h; f2fs-writing.md, "In place or out of place").
pub mod ipu {
    /// Always.
    pub const FORCE: u32 = 1;
    /// When SSR is needed.
    pub const SSR: u32 = 1 << 1;
    /// When the volume is used over [`super::WriteOptions::min_ipu_util`].
    pub const UTILIZATION: u32 = 1 << 2;
    /// Both.
    pub const SSR_UTILIZATION: u32 = 1 << 3;
    /// In an fdatasync, or an fsync of few pages.
    pub const FSYNC: u32 = 1 << 4;
    /// Where the writer does not wait.
    pub const ASYNC: u32 = 1 << 5;
    /// Out of place wins where it was asked for.
    pub const HONOR_OUT_OF_PLACE: u32 = 1 << 7;
}

/// Choices of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// `mode=lfs`: gaps are never filled and nothing is overwritten where it stands.
    pub lfs: bool,
    /// [`crate::segments::Options::own_gaps`].
    pub own_gaps: bool,
    /// [`crate::segments::Options::plugs_holes`].
    pub plugs_holes: bool,
    /// [`crate::segments::Options::aged_gaps`].
    pub aged_gaps: Option<AgedGaps>,
    /// Whether files that are cold by their names are overwritten where they stand, as today's
    /// Linux does and the first F2FS (3.8) did not.
    pub cold_in_place: bool,
    /// `active_logs`.
    pub logs: ActiveLogs,
    /// Bits of [`ipu`]; `None`: as Linux chooses by the volume's size.
    pub ipu_policy: Option<u32>,
    /// For [`ipu::UTILIZATION`], in percent.
    pub min_ipu_util: u64,
    /// For [`ipu::FSYNC`], in dirty pages.
    pub min_fsync_blocks: usize,
    /// Blocks that the last checkpoint gave up are discarded after it.
    pub discard: bool,
    /// `fsync_mode=strict`.
    pub strict_fsync: bool,
    /// An fsync flushes the data before it writes the nodes that name them. Linux does not: a power
    /// cut before the end of an fsync may leave blocks of a file with whatever stood there before.
    pub ordered_fsync: bool,
    /// Whether a sync writes nodes before it writes the times of inodes, as Linux's does, so that
    /// nodes of files that were overwritten are written again with the checkpoint (f2fs-writing.md,
    /// "Sync"). Fewer writes without; recovery is the same.
    pub nodes_before_checkpoint: bool,
    /// Pages kept in memory.
    pub pages: PageLimits,
    /// Clean nodes and blocks of metadata kept in memory, each.
    pub cached_blocks: usize,
    /// How new inodes are made.
    pub making: Making,
    /// Requests under way at most.
    pub depth: usize,
    /// Whether limits of quota files are kept: what would go beyond one is refused.
    pub limits: bool,
    /// Whether devices with sectors that a power cut may leave half a block are refused.
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
