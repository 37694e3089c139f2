//! Between operations: reviews the segment that SSR would take next and treats it if that pays off.

use std::ops::Range;

use nandkit_vfs::Result;

use super::collect::carry;
use super::collected::{CollectableVolume, Liveness};
use super::mover::{BlockMover, LiveBlock};
use super::review::{self, HoleRun, Reuse, ReusePlan, ReuseReview, Treatment};
use super::unified;
use crate::ids::{BlockAddress, Log, SegmentIndex};
use crate::segments::Summary;

/// Asks a review about the segment whose gaps a data log fills next, and does what it says. Does
/// nothing while the log needs no gaps or a segment is reserved for it already. A treated segment
/// is reserved for the log, which gets it once a checkpoint completed; until then, allocation finds
/// another. Errors: those of the volume; blocks moved before an error stay moved, and the segment
/// stays reserved.
pub fn prepare<V: CollectableVolume>(
    volume: &mut V,
    log: Log,
    reviewer: &mut dyn ReuseReview,
    mover: &mut dyn BlockMover,
) -> Result<Reuse> {
    let segments = volume.segments();
    let most = reviewer.segments_per_checkpoint().max(1) as usize;
    let (waiting, is_ready) = segments.waiting_for(log);
    let waits = is_ready || waiting >= most;
    if log.is_node() || waits || !segments.needs_ssr() {
        return Ok(Reuse::default());
    }
    // The segment is only looked at: restore the cursor, so that the log's own search finds it
    // again.
    let cursor = segments.greedy_cursor();
    let found = segments.ssr_victim(log);
    segments.set_greedy_cursor(cursor);
    let Some(segment) = found else { return Ok(Reuse::default()) };
    let segments = volume.segments();
    let (holes, mut facts) = (review::holes(segments, segment), review::facts(segments, segment, log));
    if reviewer.wants_pages() {
        // The owners need a read of the summary block, and only matter if files are read.
        if volume.reads_any() {
            facts.pages = unified::live_pages(volume, segment, &facts)?;
        }
        facts.remaps = volume.remaps_seen();
    }
    let plan = reviewer.review(&holes, &facts, &mut || volume.checkpoint_requests());
    let ReusePlan::Treat(treated) = review::checked(plan, &facts) else {
        return Ok(Reuse::default());
    };
    if !volume.segments().prepare(segment, log, false) {
        return Ok(Reuse::default());
    }
    let mut result = Reuse { treated: Some(segment), ..Reuse::default() };
    let owners = volume.summaries(segment)?;
    treat(volume, segment, (&holes, &treated), &owners, mover, &mut result)?;
    Ok(result)
}

/// Holes for blocks that stay in their segment. Those away from the treated runs come first, so
/// that the hole made by the treatment stays whole.
struct Targets(Vec<u16>);

impl Targets {
    fn new(holes: &[HoleRun], treated: &[(Range<u16>, Treatment)]) -> Self {
        let beside = |hole: &HoleRun| {
            treated.iter().any(|(run, _)| run.end == hole.start || hole.start + hole.length == run.start)
        };
        let mut all: Vec<u16> = Vec::new();
        for wanted in [true, false] {
            let chosen = holes.iter().filter(|hole| beside(hole) == wanted);
            all.extend(chosen.flat_map(|hole| hole.start..hole.start + hole.length).rev());
        }
        // Taken from the end: the first block of the first hole away from the runs.
        Self(all)
    }
}

/// Moves the runs of a plan in one transfer, so that blocks with adjacent targets form one request.
fn treat<V: CollectableVolume>(
    volume: &mut V,
    segment: SegmentIndex,
    (holes, treated): (&[HoleRun], &[(Range<u16>, Treatment)]),
    owners: &[Summary],
    mover: &mut dyn BlockMover,
    result: &mut Reuse,
) -> Result<()> {
    let geometry = volume.segments().geometry().clone();
    let start = geometry.segment_start(segment);
    let address = |block: u16| BlockAddress(start.0 + u32::from(block));
    let mut live = Vec::new();
    for (block, treatment) in treated.iter().flat_map(|(run, treatment)| run.clone().map(|block| (block, *treatment))) {
        let Some(&owner) = owners.get(usize::from(block)) else { continue };
        if let Liveness::Live(inode, page) = volume.liveness(address(block), owner)? {
            live.push((LiveBlock { from: address(block), inode, page, owner }, treatment));
        }
    }
    let mut targets = Targets::new(holes, treated);
    let (remapped, live): (Vec<_>, Vec<_>) = live.into_iter().partition(|(_, treatment)| treatment.remaps());
    if !remapped.is_empty() {
        unified::remap_runs(volume, segment, remapped, &mut targets.0, result)?;
    }
    if live.is_empty() {
        return Ok(());
    }
    let now = volume.now();
    let mut pairs = Vec::with_capacity(live.len());
    for (block, treatment) in &live {
        let target = if *treatment == Treatment::Intra { targets.0.pop() } else { None };
        let to = volume.with_space(|space| match target {
            Some(target) => space.claim(address(target), block.owner, now).map(|()| address(target)),
            None => space.allocate(Log::ColdData, block.owner, now).map(|placed| placed.at),
        });
        match to {
            Ok(to) => pairs.push((block.from, to)),
            // Blocks that got an address move; the rest stay.
            Err(_) => break,
        }
    }
    let live: Vec<LiveBlock> = live.into_iter().map(|(block, _)| block).collect();
    carry(volume, mover, (&live, &pairs), &mut |to, mapped| {
        let inside = geometry.main(to).is_some_and(|(there, _)| there == segment);
        if inside {
            result.intra += 1
        } else {
            result.inter += 1
        }
        result.mapped.extend(mapped);
    })
}
