//! Reviews a segment between operations, before SSR fills its gaps, and may treat it first. A
//! treated segment waits as a [`crate::segments::Preparation`].

use std::ops::Range;

use nandkit_block::Placement;
use nandkit_units::Nanos;

use crate::device::{RemapsSeen, SeenRequest};
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::segments::Segments;
use crate::segments::sit::{BLOCKS, runs};

/// A run of writable blocks in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HoleRun {
    /// The first block.
    pub start: u16,
    /// Blocks in the run.
    pub length: u16,
}

/// A live block of a segment, for a review that [`ReuseReview::wants_pages`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LivePage {
    /// Its address.
    pub from: BlockAddress,
    /// The inode that owns the page.
    pub inode: NodeId,
    /// Its page in the file.
    pub page: u32,
    /// How often the file was read recently, in whole passes.
    pub reads: f64,
    /// The die that holds it, if the device tells.
    pub placement: Option<Placement>,
}

/// What a review knows besides the holes.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseFacts {
    /// The segment.
    pub segment: SegmentIndex,
    /// The log that will fill it.
    pub log: Log,
    /// Runs of valid blocks between the holes; all other blocks are valid only in the last
    /// checkpoint and become holes with the next.
    pub valid: Vec<Range<u16>>,
    /// The holes of the cold log's segment; empty if that log appends.
    pub cold_holes: Vec<HoleRun>,
    /// The segment that the log writes now.
    pub current: SegmentIndex,
    /// The live blocks, for a review that [`ReuseReview::wants_pages`] if any file was read
    /// recently; else empty.
    pub pages: Vec<LivePage>,
    /// The remap commands since the mount, for the same reviews.
    pub remaps: RemapsSeen,
}

/// Gives the sizes, in blocks, of the requests that a checkpoint would issue now. Cost of a call: a
/// pass over everything changed since the last checkpoint, so a review only asks if it wants to
/// move something.
pub type CheckpointRequests<'a> = &'a mut dyn FnMut() -> Vec<u32>;

/// Where a run of live blocks moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// To the cold data log.
    Inter,
    /// To holes of its own segment.
    Intra,
    /// To the cold data log, remapped if the device can.
    RemapOut,
    /// To holes of its own segment, remapped if the device can.
    RemapWithin,
    /// Like [`Treatment::RemapOut`], in the order of files and their pages.
    RemapSorted,
}

impl Treatment {
    /// Whether the device moves the run by remapping.
    pub const fn remaps(self) -> bool {
        matches!(self, Self::RemapOut | Self::RemapWithin | Self::RemapSorted)
    }
}

/// What to do before a segment's holes are filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReusePlan {
    /// Nothing.
    #[default]
    AsIs,
    /// Move these runs first, and use the segment from the next checkpoint on.
    Treat(Vec<(Range<u16>, Treatment)>),
}

/// A measured time on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Moving the runs of a segment as planned.
    Treated(SegmentIndex, Nanos),
    /// The checkpoint after it.
    Checkpoint(Nanos),
    /// Writing this many blocks into a segment.
    Filled(SegmentIndex, u32, Nanos),
    /// One request, for a review that [`ReuseReview::learns`].
    Request(SeenRequest),
}

/// Reviews a segment before SSR fills its holes.
pub trait ReuseReview: Send {
    /// Whether it is to be asked at all; finding the segment costs a search.
    fn wants(&self) -> bool {
        true
    }

    /// Whether it wants the time of each request.
    fn learns(&self) -> bool {
        false
    }

    /// Whether it considers the owners of live blocks and how often they are read
    /// ([`ReuseFacts::pages`]); this costs a look at their nodes.
    fn wants_pages(&self) -> bool {
        false
    }

    /// How many segments of a log are treated before a checkpoint is forced to make them usable. 0:
    /// one segment is treated and waits for a checkpoint made for other reasons.
    fn segments_per_checkpoint(&self) -> u32 {
        0
    }

    /// Receives a measured time.
    fn measured(&mut self, what: Measured) {
        let _ = what;
    }

    /// Decides about a segment, from the facts and the next checkpoint alone. It is asked once per
    /// segment that a log writes, about the next one, and again after each checkpoint.
    fn review(&mut self, holes: &[HoleRun], facts: &ReuseFacts, checkpoint: CheckpointRequests<'_>) -> ReusePlan;
}

/// The result of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// The treated segment, which the log gets after the next checkpoint; `None` if nothing was
    /// done.
    pub treated: Option<SegmentIndex>,
    /// Blocks moved to the cold log.
    pub inter: u32,
    /// Blocks moved within the segment.
    pub intra: u32,
    /// Sources that the device still maps, to be discarded after the next checkpoint.
    pub mapped: Vec<BlockAddress>,
}

/// Linux's behaviour: uses every segment as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReview;

impl ReuseReview for NoReview {
    fn wants(&self) -> bool {
        false
    }

    fn review(&mut self, _: &[HoleRun], _: &ReuseFacts, _: CheckpointRequests<'_>) -> ReusePlan {
        ReusePlan::AsIs
    }
}

/// The runs of writable blocks of a segment.
pub fn holes(segments: &Segments, segment: SegmentIndex) -> Vec<HoleRun> {
    let unusable = segments.sit().unusable(segment);
    runs(&unusable.map(|word| !word)).map(|(start, length)| HoleRun { start, length }).collect()
}

/// The facts about a segment for the log that would fill it.
pub fn facts(segments: &Segments, segment: SegmentIndex, log: Log) -> ReuseFacts {
    let cold = segments.log_state(Log::ColdData);
    let cold_holes = if cold.ssr { holes(segments, cold.segment) } else { Vec::new() };
    ReuseFacts {
        segment,
        log,
        valid: runs(&segments.sit().map(segment)).map(|(start, length)| start..start + length).collect(),
        cold_holes: cold_holes.into_iter().filter(|hole| hole.start + hole.length > cold.next).collect(),
        current: segments.current(log),
        pages: Vec::new(),
        remaps: RemapsSeen::default(),
    }
}

/// Validates a plan: keeps runs that are inside the segment, valid throughout and disjoint, and
/// drops the others.
pub fn checked(plan: ReusePlan, facts: &ReuseFacts) -> ReusePlan {
    let ReusePlan::Treat(mut treated) = plan else { return ReusePlan::AsIs };
    treated.sort_by_key(|(run, _)| (run.start, run.end));
    let mut end = 0;
    treated.retain(|(run, _)| {
        let sound = run.start < run.end
            && run.end <= BLOCKS
            && run.start >= end
            && facts.valid.iter().any(|valid| valid.start <= run.start && run.end <= valid.end);
        end = if sound { run.end } else { end };
        sound
    });
    if treated.is_empty() { ReusePlan::AsIs } else { ReusePlan::Treat(treated) }
}
