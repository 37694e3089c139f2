//! The moment when SSR is about to be handed a segment: it is looked at between operations, and may
//! be treated first. What comes of it waits as a [`crate::segments::Preparation`].

use std::ops::Range;

use nandkit_block::Placement;
use nandkit_units::Nanos;

use crate::device::{RemapsSeen, SeenRequest};
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::segments::Segments;
use crate::segments::sit::{BLOCKS, runs};

/// Blocks of a segment that may be written, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HoleRun {
    /// The first one.
    pub start: u16,
    /// How many.
    pub length: u16,
}

/// A live block of a segment, for who [`ReuseReview::wants_pages`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LivePage {
    /// Where it is.
    pub from: BlockAddress,
    /// Whose.
    pub inode: NodeId,
    /// The page of the file.
    pub page: u32,
    /// How often the file was read of late, from its first page to its last.
    pub reads: f64,
    /// The die that holds it, where the device tells.
    pub placement: Option<Placement>,
}

/// What a review may know besides the holes.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseFacts {
    /// The segment.
    pub segment: SegmentIndex,
    /// The log that it is for.
    pub log: Log,
    /// Runs of valid blocks between the holes: the others are valid at the last checkpoint only,
    /// and become holes with the next.
    pub valid: Vec<Range<u16>>,
    /// The holes of the segment where the cold log stands; empty where it appends.
    pub cold_holes: Vec<HoleRun>,
    /// Where the log stands now.
    pub current: SegmentIndex,
    /// The live blocks, for who [`ReuseReview::wants_pages`], where a file was read of late; else
    /// empty.
    pub pages: Vec<LivePage>,
    /// The remap commands since the mount, for the same.
    pub remaps: RemapsSeen,
}

/// The sizes in blocks of the requests that a checkpoint now would make. Cost of a call: a pass
/// over what has changed since the last one, so that only who wants to move something asks.
pub type CheckpointRequests<'a> = &'a mut dyn FnMut() -> Vec<u32>;

/// Where a run of live blocks goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// To the cold data log.
    Inter,
    /// To holes of its own segment.
    Intra,
    /// To the cold data log, remapped where the device can.
    RemapOut,
    /// To holes of its own segment, remapped where the device can.
    RemapWithin,
    /// As [`Treatment::RemapOut`], in the order of files and their pages.
    RemapSorted,
}

impl Treatment {
    /// Whether it is the device that moves it.
    pub const fn remaps(self) -> bool {
        matches!(self, Self::RemapOut | Self::RemapWithin | Self::RemapSorted)
    }
}

/// What is done before a segment's holes are filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReusePlan {
    /// Nothing.
    #[default]
    AsIs,
    /// These runs are moved first, and the segment is used from the next checkpoint on.
    Treat(Vec<(Range<u16>, Treatment)>),
}

/// How long something took on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Moving the runs of a segment, as its plan said.
    Treated(SegmentIndex, Nanos),
    /// The checkpoint behind it.
    Checkpoint(Nanos),
    /// Writing so many blocks into a segment.
    Filled(SegmentIndex, u32, Nanos),
    /// A request, for who [`ReuseReview::learns`].
    Request(SeenRequest),
}

/// Looks at a segment before SSR fills its holes.
pub trait ReuseReview: Send {
    /// Whether it wants to be asked at all: looking for the segment costs a search.
    fn wants(&self) -> bool {
        true
    }

    /// Whether it hears of each request.
    fn learns(&self) -> bool {
        false
    }

    /// Whether it weighs whose the live blocks are and how often they are read
    /// ([`ReuseFacts::pages`]): costs a look at their nodes.
    fn wants_pages(&self) -> bool {
        false
    }

    /// How many segments of a log are treated before the checkpoint that makes them usable, which
    /// comes at once. 0: one is treated, and waits for a checkpoint that others ask for.
    fn segments_per_checkpoint(&self) -> u32 {
        0
    }

    /// Hears how long things took.
    fn measured(&mut self, what: Measured) {
        let _ = what;
    }

    /// What is to be done with a segment, from the facts and the next checkpoint alone. It is asked
    /// for each segment that a log writes in about the one that comes next, and again behind each
    /// checkpoint.
    fn review(&mut self, holes: &[HoleRun], facts: &ReuseFacts, checkpoint: CheckpointRequests<'_>) -> ReusePlan;
}

/// What came of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// The segment that was treated; the log gets it after the next checkpoint. `None`: nothing was
    /// done.
    pub treated: Option<SegmentIndex>,
    /// Blocks that went to the cold log.
    pub inter: u32,
    /// Blocks that went elsewhere in the segment.
    pub intra: u32,
    /// Sources that the device still maps, to be discarded after the next checkpoint.
    pub mapped: Vec<BlockAddress>,
}

/// Linux: every segment as it is.
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

/// Runs of blocks of a segment that may be written.
pub fn holes(segments: &Segments, segment: SegmentIndex) -> Vec<HoleRun> {
    let unusable = segments.sit().unusable(segment);
    runs(&unusable.map(|word| !word)).map(|(start, length)| HoleRun { start, length }).collect()
}

/// The facts of a segment that a log would get.
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

/// What a review decided, checked: runs that lie in the segment, are valid throughout, and do not
/// overlap. The rest of the plan is dropped, as if it had not been made.
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
