//! Block allocation: the logs, free, dirty and prefree segments, and the remaining space
//! (f2fs-writing.md, "Logs and classes", "Allocation", "Space").
//!
//! Everything that allocates or frees a block of the main area goes through [`Space`]. A block in
//! the last checkpoint's map, or written since, is never allocated before the next checkpoint
//! completed. This module moves no data and writes no checkpoint; the only device operation is
//! reading a summary block.

mod aged;
mod allocate;
pub mod bitmap;
mod checkpoint;
pub mod classes;
pub mod dirty;
pub mod free;
mod open;
mod prepared;
mod records;
pub(crate) mod sit;
pub(crate) mod sit_table;
pub mod space;
pub mod ssa;
#[cfg(test)]
pub(crate) mod tests;

use std::ops::Range;

use nandkit_cleaning::search::{AgedGaps, Cursor, MOST_LOOKED_AT};
use nandkit_vfs::Result;

use crate::blocks::Blocks;
use crate::ids::{BlockAddress, Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, Geometry};
use dirty::DirtySegments;
use free::FreeMap;
use sit::{BLOCKS, Sit};
use ssa::{Entries, SummaryCache};

pub use prepared::Preparation;
pub use records::{SegmentStates, Usage, Way};
pub use space::{Charge, SpaceCounters};
pub use ssa::Summary;

/// An allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its address.
    pub at: BlockAddress,
    /// The next block of its log, for the footer of a node; in another segment if this block was
    /// the last of its own.
    pub next: BlockAddress,
}

/// Allocates and frees blocks of the main area, and knows their owners.
pub trait Space {
    /// Allocates the next block of a log, valid from now on; `now` is in seconds of the
    /// checkpoint's clock. Errors: `NoSpace` (the log needs a segment and none is free), `Device`
    /// and `Corrupt` (the summary of a segment that SSR takes); then nothing has changed. Cost:
    /// constant; at the end of a segment a search.
    fn allocate(&mut self, log: Log, owner: Summary, now: u64) -> Result<Placed>;

    /// Allocates a block for content that the collector moves away from an address: a gap in a
    /// segment of similar age, if the options ask for it and there is one, else the next block of
    /// the cold data log. Errors: as [`Space::allocate`].
    fn allocate_moved(&mut self, from: BlockAddress, owner: Summary, now: u64) -> Result<BlockAddress>;

    /// Allocates this block, which will be written, for data. Errors: `Corrupt` (outside the main
    /// area, in use, not writable before the next checkpoint, in a node segment), `Device`.
    fn claim(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()>;

    /// Allocates this block, which already has its content, for data, as in roll-forward or for
    /// blocks that a device remapped. Errors: as [`Space::claim`], but a block of the last
    /// checkpoint is allowed.
    fn adopt(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()>;

    /// Frees a block, which can be used again after the next checkpoint. Freeing an unused block
    /// counts as a fault ([`Segments::faults`]).
    fn free(&mut self, at: BlockAddress, now: u64);

    /// The owner of a block, from its segment's summary. Errors: `Corrupt`, `Device`. Cost: a block
    /// read, unless the segment is a log's or was changed.
    fn owner(&self, at: BlockAddress) -> Result<Summary>;

    /// Reserves `nodes` blocks for nodes and `blocks` other blocks. Errors: `NoSpace`; then nothing
    /// has changed.
    fn charge(&mut self, nodes: u32, blocks: u32) -> Result<Charge>;

    /// Keeps logs from taking these blocks until the next checkpoint completed. Ignores addresses
    /// outside the main area.
    fn pin(&mut self, addresses: &[BlockAddress]);

    /// Notes that a checkpoint of the current state completed. Returns the addresses that can be
    /// discarded, ascending and disjoint.
    fn checkpointed(&mut self) -> Vec<Range<u32>>;
}

/// Dirty pages in memory, from which the need for SSR and collection is computed; their owner keeps
/// the counts up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyPages {
    /// Nodes.
    pub nodes: u64,
    /// Directory blocks.
    pub dentries: u64,
    /// Inodes whose node is not up to date.
    pub inodes: u64,
    /// File data.
    pub data: u64,
}

/// How segments are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `mode=lfs`: gaps are never filled.
    pub lfs: bool,
    /// Logs fill gaps only in segments of their own type while free sections are above the reserve,
    /// as in the first F2FS (Linux 3.8, segment.c, `get_ssr_segment`).
    pub own_gaps: bool,
    /// The cold data log, which receives collected blocks, fills gaps regardless of free sections
    /// (hole plugging).
    pub plugs_holes: bool,
    /// Blocks moved by the collector fill gaps in segments of similar age (`atgc`: age-threshold
    /// SSR), if there are any; `None`: they go to the cold data log.
    pub aged_gaps: Option<AgedGaps>,
    /// `alloc_mode=reuse`: warm and cold data also search for free segments from the start of the
    /// volume.
    pub reuse: bool,
    /// Sections reserved for cleaning: `rsvd_segment_count` in sections.
    pub reserved_sections: u32,
    /// SSR starts this many sections above the reserve; by default as many as are reserved.
    pub min_ssr_sections: u32,
    /// The most candidates of a search.
    pub max_search: u32,
    /// Gaps are filled regardless of free sections (gc_urgent high).
    pub urgent: bool,
    /// Whether the last checkpoint has CRC_RECOVERY; without it the warm node log may not fill
    /// gaps.
    pub crc_recovery: bool,
}

impl Options {
    /// Linux's choices without mount options (super.c, `f2fs_tuning_parameters`: volumes of up to
    /// 8192 main segments use reuse mode; segment.c, `f2fs_build_segment_manager`).
    pub fn of(geometry: &Geometry, reserved_segments: u32, crc_recovery: bool) -> Self {
        let reserved_sections = reserved_segments / geometry.segments_per_section.max(1);
        Self {
            lfs: false,
            own_gaps: false,
            plugs_holes: false,
            aged_gaps: None,
            reuse: geometry.main_segments <= 8192,
            reserved_sections,
            min_ssr_sections: reserved_sections,
            max_search: MOST_LOOKED_AT,
            urgent: false,
            crc_recovery,
        }
    }
}

/// A log: its segment, its write position, and the owners of the segment's blocks.
#[derive(Clone, Debug)]
struct OpenLog {
    segment: SegmentIndex,
    /// 512 if pins or claims left nothing of the segment: then the next segment is taken before the
    /// next block.
    next: u16,
    ssr: bool,
    entries: Entries,
}

/// The segments of the main area.
#[derive(Clone, Debug)]
pub struct Segments {
    geometry: Geometry,
    /// How segments are allocated; may change between operations.
    pub options: Options,
    /// Dirty pages in memory.
    pub pages: DirtyPages,
    /// Block and node counts.
    pub space: SpaceCounters,
    sit: Sit,
    free: FreeMap,
    dirty: DirtySegments,
    logs: [OpenLog; Log::COUNT],
    summaries: SummaryCache,
    held: Vec<Preparation>,
    emptied: prepared::Emptied,
    /// Where searches for SSR and greedy collection continue.
    greedy_cursor: Cursor,
    /// The segment whose gaps were last filled with moved blocks ([`Options::aged_gaps`]).
    aged_target: Option<SegmentIndex>,
    /// The section being collected in the foreground.
    collecting: Option<u32>,
    /// The first segment in which warm and cold data search for free segments, on a volume of
    /// several devices.
    data_hint: Option<SegmentIndex>,
    usage: Usage,
    faults: u64,
}

impl Segments {
    /// The volume's geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The table of segments.
    pub fn sit(&self) -> &Sit {
        &self.sit
    }

    /// The table, for `Sit::keep_truth` and for noting discards.
    pub fn sit_mut(&mut self) -> &mut Sit {
        &mut self.sit
    }

    /// Free segments and sections.
    pub fn free_map(&self) -> &FreeMap {
        &self.free
    }

    /// Dirty and prefree segments.
    pub fn dirty(&self) -> &DirtySegments {
        &self.dirty
    }

    /// Blocks by log and way, segments taken.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Blocks that were freed although they were not in use: the image is inconsistent.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// The segment that a log writes.
    pub fn current(&self, log: Log) -> SegmentIndex {
        self.logs[log.index()].segment
    }

    /// The log that writes a segment.
    #[inline]
    pub fn log_of(&self, segment: SegmentIndex) -> Option<Log> {
        Log::ALL.into_iter().find(|log| self.logs[log.index()].segment == segment)
    }

    /// Whether a log writes in a section.
    pub fn has_log(&self, section: u32) -> bool {
        self.logs.iter().any(|log| self.free.section(log.segment) == section)
    }

    /// Whether neither SSR nor the collector may take a section: a log writes there, it is being
    /// collected, or one of its segments is prepared.
    pub fn is_busy(&self, section: u32) -> bool {
        self.has_log(section)
            || self.collecting == Some(section)
            || self.held.iter().any(|held| self.free.section(held.segment) == section)
    }

    /// Sets the section being collected in the foreground, which logs then avoid; `None` when that
    /// ends.
    pub fn set_collecting(&mut self, section: Option<u32>) {
        self.collecting = section;
    }

    /// Notes that background collection chose a section.
    pub fn choose_in_background(&mut self, section: u32) {
        self.dirty.choose(section);
    }

    /// Forgets that background collection chose a section, because the foreground takes it.
    pub fn forget_choice(&mut self, section: u32) {
        self.dirty.forget_choice(section);
    }

    /// Where the next greedy search continues.
    pub fn greedy_cursor(&self) -> Cursor {
        self.greedy_cursor
    }

    /// Notes where a greedy search ended.
    pub fn set_greedy_cursor(&mut self, cursor: Cursor) {
        self.greedy_cursor = cursor;
    }

    /// Blocks per section.
    pub fn section_blocks(&self) -> u32 {
        self.sit.per_section() * BLOCKS_PER_SEGMENT
    }

    /// The number of sections for this many pages, rounded up.
    fn sections_of(&self, pages: u64) -> u64 {
        pages.div_ceil(u64::from(self.section_blocks()))
    }

    /// Whether logs fill gaps (segment.h, `f2fs_need_SSR`).
    pub fn needs_ssr(&self) -> bool {
        if self.options.lfs {
            return false;
        }
        let pages = &self.pages;
        let wanted =
            self.sections_of(pages.nodes) + 2 * self.sections_of(pages.dentries) + self.sections_of(pages.inodes);
        let reserve = u64::from(self.options.min_ssr_sections) + u64::from(self.options.reserved_sections);
        self.options.urgent || u64::from(self.free.sections()) <= wanted + reserve
    }

    /// The address of a block of a segment.
    #[inline]
    fn address(&self, segment: SegmentIndex, block: u16) -> BlockAddress {
        BlockAddress(self.geometry.segment_start(segment).0.wrapping_add(u32::from(block)))
    }

    /// Puts a segment into the lists, unless it belongs to a log or is prepared.
    #[inline]
    fn locate(&mut self, segment: SegmentIndex) {
        if self.log_of(segment).is_some() {
            return;
        }
        if self.held.iter().any(|held| held.segment == segment) {
            if self.sit.valid(segment) != 0 {
                return;
            }
            // It needs no preparation any more: the next checkpoint frees it.
            self.prepared_is_empty(segment);
        }
        self.dirty.locate(&self.sit, segment);
    }

    /// Blocks of a log's section that were neither valid at the last checkpoint nor written since.
    pub fn room_of_log(&self, log: Log) -> u32 {
        let section = self.free.section(self.current(log));
        let start = section * self.sit.per_section();
        let taken: u32 = (start..start + self.sit.per_section())
            .map(|segment| u32::from(self.sit.valid_at_checkpoint(SegmentIndex(segment))))
            .sum();
        self.section_blocks().saturating_sub(taken)
    }
}

/// The segments with the device that holds their summaries, for allocating.
pub struct SpaceOn<'a> {
    /// The segments.
    pub segments: &'a mut Segments,
    /// The device.
    pub device: &'a dyn Blocks,
}

impl Space for SpaceOn<'_> {
    #[inline]
    fn allocate(&mut self, log: Log, owner: Summary, now: u64) -> Result<Placed> {
        self.segments.allocate(self.device, log, owner, now)
    }

    fn allocate_moved(&mut self, from: BlockAddress, owner: Summary, now: u64) -> Result<BlockAddress> {
        self.segments.allocate_moved(self.device, from, owner, now)
    }

    fn claim(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()> {
        self.segments.claim(self.device, at, owner, now)
    }

    fn adopt(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()> {
        self.segments.adopt(self.device, at, owner, now)
    }

    #[inline]
    fn free(&mut self, at: BlockAddress, now: u64) {
        self.segments.free(at, now);
    }

    fn owner(&self, at: BlockAddress) -> Result<Summary> {
        self.segments.owner(self.device, at)
    }

    fn charge(&mut self, nodes: u32, blocks: u32) -> Result<Charge> {
        self.segments.space.charge(nodes, blocks)
    }

    fn pin(&mut self, addresses: &[BlockAddress]) {
        self.segments.pin(addresses);
    }

    fn checkpointed(&mut self) -> Vec<Range<u32>> {
        self.segments.checkpointed()
    }
}

/// The block after the last of a segment: a log's position when it has no next block.
const NO_BLOCK: u16 = BLOCKS;
