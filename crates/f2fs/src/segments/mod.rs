//! Where blocks go: the logs, free, dirty and prefree segments, and the room that is left
//! (f2fs-writing.md, "Logs and classes", "Allocation", "Space").
//!
//! Everything that takes or gives back a block of the main area goes through [`Space`]. A block
//! that is in the last checkpoint's map, or was written since, is never handed out before the next
//! checkpoint has completed. Nothing here moves data or writes a checkpoint; the only device
//! operation is the reading of a summary block.

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

/// Where a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its address.
    pub at: BlockAddress,
    /// The next block of its log, for the footer of a node: in another segment, if this block was
    /// the last of its.
    pub next: BlockAddress,
}

/// Blocks of the main area: taken, given back, and whose they are.
pub trait Space {
    /// The next block of a log, valid from now on; `now` in seconds of the checkpoint's clock.
    /// Errors: `NoSpace` (the log would need a segment and none is free), `Device` and `Corrupt`
    /// (the summary of a segment that SSR takes); nothing has changed then. Cost: constant; at the
    /// end of a segment a search.
    fn allocate(&mut self, log: Log, owner: Summary, now: u64) -> Result<Placed>;

    /// A block for what the collector moves from an address: a gap of a segment about as old where
    /// the options say so and there is one, else the next block of the log of cold data. Errors:
    /// as [`Space::allocate`].
    fn allocate_moved(&mut self, from: BlockAddress, owner: Summary, now: u64) -> Result<BlockAddress>;

    /// Takes this block, which will be written, for data. Errors: `Corrupt` (outside the main area,
    /// in use, not to be written before the next checkpoint, in a segment of nodes), `Device`.
    fn claim(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()>;

    /// Takes this block, whose content is there already, for data: roll-forward, blocks that a
    /// device remapped. Errors: as [`Space::claim`], but a block of the last checkpoint may be
    /// taken.
    fn adopt(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()>;

    /// Gives a block back. It can be used again from the next checkpoint on. One that is not in use
    /// is counted as a fault ([`Segments::faults`]).
    fn free(&mut self, at: BlockAddress, now: u64);

    /// Whose a block is, as its segment's summary says. Errors: `Corrupt`, `Device`. Cost: a block
    /// read, where the segment is neither a log's nor changed.
    fn owner(&self, at: BlockAddress) -> Result<Summary>;

    /// Counts blocks that will be needed, `nodes` of them for nodes and `blocks` more. Errors:
    /// `NoSpace`; nothing has changed then.
    fn charge(&mut self, nodes: u32, blocks: u32) -> Result<Charge>;

    /// No log takes these blocks until the next checkpoint has completed. Addresses outside the
    /// main area are passed over.
    fn pin(&mut self, addresses: &[BlockAddress]);

    /// A checkpoint of everything as it is now has completed. Returns the addresses that can be
    /// discarded, ascending, without overlaps.
    fn checkpointed(&mut self) -> Vec<Range<u32>>;
}

/// Dirty pages in memory, from which the need for SSR and for collection is told; whoever caches
/// them keeps it true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyPages {
    /// Nodes.
    pub nodes: u64,
    /// Blocks of directories.
    pub dentries: u64,
    /// Inodes that are not yet in their node.
    pub inodes: u64,
    /// Data of files.
    pub data: u64,
}

/// How segments are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `mode=lfs`: gaps are never filled.
    pub lfs: bool,
    /// Logs fill gaps of segments of their own type alone while free sections are above the
    /// reserve, as the first F2FS did (Linux 3.8, segment.c, `get_ssr_segment`).
    pub own_gaps: bool,
    /// The log of cold data, to which collected blocks go, fills gaps whatever is free (hole
    /// plugging).
    pub plugs_holes: bool,
    /// Blocks that the collector moves fill gaps of segments about as old (`atgc`: age-threshold
    /// SSR), where there are some; `None`: they go to the log of cold data.
    pub aged_gaps: Option<AgedGaps>,
    /// `alloc_mode=reuse`: warm and cold data too look for free segments from the start of the
    /// volume.
    pub reuse: bool,
    /// Sections kept for cleaning: `rsvd_segment_count` in sections.
    pub reserved_sections: u32,
    /// SSR begins so many sections before the reserve; as many as reserved, unless set.
    pub min_ssr_sections: u32,
    /// Most candidates of a search.
    pub max_search: u32,
    /// Gaps are filled whatever is free (gc_urgent high).
    pub urgent: bool,
    /// The last checkpoint has CRC_RECOVERY; without it the warm node log may not fill gaps.
    pub crc_recovery: bool,
}

impl Options {
    /// What Linux takes without mount options (super.c, `f2fs_tuning_parameters`: volumes of up to
    /// 8192 main segments reuse; segment.c, `f2fs_build_segment_manager`).
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

/// A log: its segment, where it writes next, and whose the blocks of the segment are.
#[derive(Clone, Debug)]
struct OpenLog {
    segment: SegmentIndex,
    /// 512 where a pin or a claim left nothing of the segment: the next one is taken before the
    /// next block.
    next: u16,
    ssr: bool,
    entries: Entries,
}

/// The main area's segments.
#[derive(Clone, Debug)]
pub struct Segments {
    geometry: Geometry,
    /// How segments are allocated; may change between operations.
    pub options: Options,
    /// Dirty pages in memory.
    pub pages: DirtyPages,
    /// Counts of blocks and nodes.
    pub space: SpaceCounters,
    sit: Sit,
    free: FreeMap,
    dirty: DirtySegments,
    logs: [OpenLog; Log::COUNT],
    summaries: SummaryCache,
    held: Vec<Preparation>,
    emptied: prepared::Emptied,
    /// Where searches of SSR and of greedy collection go on.
    greedy_cursor: Cursor,
    /// The segment whose gaps what the collector moved filled last ([`Options::aged_gaps`]).
    aged_target: Option<SegmentIndex>,
    /// The section that is being collected in the foreground.
    collecting: Option<u32>,
    /// Warm and cold data look for free segments from here on, where a volume of several devices
    /// says so.
    data_hint: Option<SegmentIndex>,
    usage: Usage,
    faults: u64,
}

impl Segments {
    /// The shape of the volume.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The table of segments.
    pub fn sit(&self) -> &Sit {
        &self.sit
    }

    /// For `Sit::keep_truth`, and to say what was discarded.
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

    /// Blocks that were given back although they were not in use: the image contradicts itself.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// The segment where a log writes.
    pub fn current(&self, log: Log) -> SegmentIndex {
        self.logs[log.index()].segment
    }

    /// The log that has a segment.
    #[inline]
    pub fn log_of(&self, segment: SegmentIndex) -> Option<Log> {
        Log::ALL.into_iter().find(|log| self.logs[log.index()].segment == segment)
    }

    /// Whether a log stands in a section.
    pub fn has_log(&self, section: u32) -> bool {
        self.logs.iter().any(|log| self.free.section(log.segment) == section)
    }

    /// Whether neither SSR nor the collector may take a section: a log stands there, it is being
    /// collected, or a segment of it is prepared.
    pub fn is_busy(&self, section: u32) -> bool {
        self.has_log(section)
            || self.collecting == Some(section)
            || self.held.iter().any(|held| self.free.section(held.segment) == section)
    }

    /// A section is collected in the foreground, which keeps logs away from it; `None`: no longer.
    pub fn set_collecting(&mut self, section: Option<u32>) {
        self.collecting = section;
    }

    /// Background collection chose a section.
    pub fn choose_in_background(&mut self, section: u32) {
        self.dirty.choose(section);
    }

    /// The foreground takes a section, whether the background chose it or not.
    pub fn forget_choice(&mut self, section: u32) {
        self.dirty.forget_choice(section);
    }

    /// Where the next greedy search goes on.
    pub fn greedy_cursor(&self) -> Cursor {
        self.greedy_cursor
    }

    /// A greedy search has ended.
    pub fn set_greedy_cursor(&mut self, cursor: Cursor) {
        self.greedy_cursor = cursor;
    }

    /// Blocks of a section.
    pub fn section_blocks(&self) -> u32 {
        self.sit.per_section() * BLOCKS_PER_SEGMENT
    }

    /// So many pages in whole sections, rounded up.
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

    /// Puts a segment into the lists, unless a log or a preparation has it.
    #[inline]
    fn locate(&mut self, segment: SegmentIndex) {
        if self.log_of(segment).is_some() {
            return;
        }
        if self.held.iter().any(|held| held.segment == segment) {
            if self.sit.valid(segment) != 0 {
                return;
            }
            // Nothing is left to be spared there: the next checkpoint frees it.
            self.prepared_is_empty(segment);
        }
        self.dirty.locate(&self.sit, segment);
    }

    /// Blocks of a log's section that were not valid at the last checkpoint nor written since.
    pub fn room_of_log(&self, log: Log) -> u32 {
        let section = self.free.section(self.current(log));
        let start = section * self.sit.per_section();
        let taken: u32 = (start..start + self.sit.per_section())
            .map(|segment| u32::from(self.sit.valid_at_checkpoint(SegmentIndex(segment))))
            .sum();
        self.section_blocks().saturating_sub(taken)
    }
}

/// Segments with the device that holds their summaries: what allocates.
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

/// The end of a segment's blocks: a log's place where it has none.
const NO_BLOCK: u16 = BLOCKS;
