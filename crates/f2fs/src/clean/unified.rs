//! The unified cleaner in F2FS: the plans of `cleaning::unified` for segments that a log fills
//! next, and the cheaper transport for collected ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_cleaning::gather::{GatherCosts, Window};
use nandkit_cleaning::partial::MeanHoles;
use nandkit_cleaning::unified::{Costs, Plan, RemapCost, Way};
use nandkit_units::{Better, StatisticDefinition, StatisticValue, Statistics};
use nandkit_vfs::Result;

use super::collect::carry;
use super::collected::{CollectableVolume, Liveness};
use super::mover::{BlockMover, LiveBlock, Mover, RemapMover};
use super::partial::{mean, valid_runs};
use super::review::{
    CheckpointRequests, HoleRun, LivePage, Measured, Reuse, ReuseFacts, ReusePlan, ReuseReview, Treatment,
};
use super::units;
use crate::device::{Pair, RemapsSeen};
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::segments::sit::BLOCKS;

/// Commands seen before their mean time is used.
const COMMANDS_LEAST: u64 = 16;

/// Reviews a segment before its holes are filled and weighs all options.
#[derive(Debug)]
pub struct UnifiedCollection {
    costs: GatherCosts,
    segments_per_checkpoint: u32,
    checkpoints: SeenCheckpoints,
    published: Arc<UnifiedCounters>,
}

/// The measured time of checkpoints after treated segments, relative to that of their requests: a
/// drive also flushes its write buffer and writes its own map.
#[derive(Clone, Copy, Debug, Default)]
struct SeenCheckpoints {
    /// The predicted time of the next one's requests.
    next_ns: f64,
    expected_ns: f64,
    took_ns: f64,
}

impl SeenCheckpoints {
    /// The predicted time of the next checkpoint, given the time of its requests: that time
    /// multiplied by the mean ratio since the mount, at least 1.
    fn next(&mut self, by_requests_ns: f64) -> f64 {
        self.next_ns = by_requests_ns;
        let seen = if self.expected_ns > 0.0 { self.took_ns / self.expected_ns } else { 1.0 };
        by_requests_ns * seen.max(1.0)
    }

    fn took(&mut self, time_ns: u64) {
        self.expected_ns += self.next_ns;
        self.took_ns += time_ns as f64;
    }
}

impl UnifiedCollection {
    /// A review based on the device's costs of requests, remaps and reads.
    /// `segments_per_checkpoint` segments are treated before a checkpoint.
    pub fn new(costs: GatherCosts, segments_per_checkpoint: u32) -> Self {
        Self {
            costs,
            segments_per_checkpoint: segments_per_checkpoint.max(1),
            checkpoints: SeenCheckpoints::default(),
            published: Arc::default(),
        }
    }

    /// The decisions, for concurrent readers.
    pub fn statistics(&self) -> Arc<UnifiedCounters> {
        Arc::clone(&self.published)
    }
}

impl ReuseReview for UnifiedCollection {
    fn segments_per_checkpoint(&self) -> u32 {
        self.segments_per_checkpoint
    }

    fn wants_pages(&self) -> bool {
        true
    }

    fn measured(&mut self, what: Measured) {
        if let Measured::Checkpoint(time) = what {
            self.checkpoints.took(time.0);
        }
    }

    fn review(&mut self, holes: &[HoleRun], facts: &ReuseFacts, checkpoint: CheckpointRequests<'_>) -> ReusePlan {
        // Moved blocks go to the cold log, so treating a segment for the cold log would only cause
        // more of them.
        if facts.log == Log::ColdData {
            return ReusePlan::AsIs;
        }
        let runs = valid_runs(holes, &facts.valid);
        let times = &self.costs.reads.times;
        let means =
            MeanHoles { inter: mean(&facts.cold_holes).unwrap_or(BLOCKS.into()), intra: mean(holes).unwrap_or(1.0) };
        let by_requests: f64 = checkpoint().iter().map(|blocks| times.write(*blocks)).sum();
        let check_ns = self.checkpoints.next(by_requests + self.costs.flush_ns);
        let costs = Costs {
            times,
            means,
            remap: self.costs.remap.map(|remap| as_seen(remap, facts.remaps)),
            checkpoint_ns: check_ns / f64::from(self.segments_per_checkpoint),
            sorted_gain_ns: gain_of_order(&facts.pages, &self.costs),
        };
        let plan = Plan::of(&runs, &costs);
        self.published.count(&plan);
        let treated = runs.iter().zip(&plan.ways).filter_map(|(run, way)| {
            let treatment = match way {
                Way::Leave => return None,
                Way::CopyOut => Treatment::Inter,
                Way::CopyWithin => Treatment::Intra,
                Way::RemapOut if plan.sorted => Treatment::RemapSorted,
                Way::RemapOut => Treatment::RemapOut,
                Way::RemapWithin => Treatment::RemapWithin,
            };
            Some((run.start..run.start + run.length, treatment))
        });
        let treated: Vec<_> = treated.collect();
        if treated.is_empty() { ReusePlan::AsIs } else { ReusePlan::Treat(treated) }
    }
}

/// The measured cost of a remap command since the mount, including cleaning of the device's log;
/// the configured figures until enough commands were seen.
fn as_seen(remap: RemapCost, seen: RemapsSeen) -> RemapCost {
    if seen.commands < COMMANDS_LEAST {
        return remap;
    }
    RemapCost { command_ns: seen.time.0 as f64 / seen.commands as f64, ..remap }
}

/// The read time saved if the pages of each file were adjacent, weighted by how often each file was
/// read.
fn gain_of_order(pages: &[LivePage], costs: &GatherCosts) -> f64 {
    let mut files: BTreeMap<NodeId, Vec<&LivePage>> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.reads > 0.0) {
        files.entry(page.inode).or_default().push(page);
    }
    let gain = |mut pages: Vec<&LivePage>| {
        pages.sort_unstable_by_key(|page| page.page);
        let dies: Vec<Option<u32>> = pages.iter().map(|page| page.placement.map(|place| place.die)).collect();
        let of_dies = pages.iter().find_map(|page| page.placement).map_or(0, |place| place.dies);
        let runs_where = |joined: &dyn Fn(&LivePage, &LivePage) -> bool| {
            let mut runs: Vec<u32> = Vec::new();
            for (number, page) in pages.iter().enumerate() {
                let before = number.checked_sub(1).and_then(|before| pages.get(before));
                match runs.last_mut() {
                    Some(run) if before.is_some_and(|before| joined(before, page)) => *run += 1,
                    _ => runs.push(1),
                }
            }
            runs
        };
        let follows = |before: &LivePage, page: &LivePage| before.page.checked_add(1) == Some(page.page);
        let now = runs_where(&|before, page| follows(before, page) && before.from.0 + 1 == page.from.0);
        let then = runs_where(&follows);
        let read = |runs: &[u32]| costs.reads.read_ns(&Window { runs, dies: &dies, of_dies });
        pages.first().map_or(0.0, |page| page.reads) * (read(&now) - read(&then))
    };
    files.into_values().map(gain).sum::<f64>().max(0.0)
}

/// The pages of a segment that a review may consider. Errors: `Device`.
pub(super) fn live_pages<V: CollectableVolume>(
    volume: &mut V,
    segment: SegmentIndex,
    facts: &ReuseFacts,
) -> Result<Vec<LivePage>> {
    let owners = volume.summaries(segment)?;
    let start = volume.segments().geometry().segment_start(segment);
    let (mut pages, mut reads_of) = (Vec::new(), BTreeMap::new());
    for block in facts.valid.iter().cloned().flatten() {
        let Some(&owner) = owners.get(usize::from(block)) else { continue };
        let from = BlockAddress(start.0 + u32::from(block));
        if let Liveness::Live(inode, page) = volume.liveness(from, owner)? {
            // A look at the inode, and a segment has many pages of a file.
            let reads = *reads_of.entry(inode).or_insert_with(|| volume.reads_of(inode));
            let placement = volume.placement(from);
            pages.push(LivePage { from, inode, page, reads, placement });
        }
    }
    Ok(pages)
}

/// Remaps the runs of a segment as planned: within it to `targets` (taken from the end) or to the
/// cold log, in file order if so planned. Errors: as for a collection.
pub(super) fn remap_runs<V: CollectableVolume>(
    volume: &mut V,
    segment: SegmentIndex,
    live: Vec<(LiveBlock, Treatment)>,
    targets: &mut Vec<u16>,
    result: &mut Reuse,
) -> Result<()> {
    let mut mover = RemapMover { sorts: live.iter().any(|(_, treatment)| *treatment == Treatment::RemapSorted) };
    let start = volume.segments().geometry().segment_start(segment);
    let now = volume.now();
    let (mut within, mut pairs, mut out) = (Vec::new(), Vec::<Pair>::new(), Vec::new());
    for (block, treatment) in live {
        let target = if treatment == Treatment::RemapWithin { targets.pop() } else { None };
        let Some(to) = target.map(|target| BlockAddress(start.0 + u32::from(target))) else {
            out.push(block);
            continue;
        };
        if volume.with_space(|space| space.claim(to, block.owner, now)).is_ok() {
            within.push(block);
            pairs.push((block.from, to));
        }
    }
    let inside = within.len() as u32;
    if inside > 0 {
        carry(volume, &mut mover, (&within, &pairs), &mut |_, mapped| result.mapped.extend(mapped))?;
        result.intra += inside;
    }
    if out.is_empty() {
        return Ok(());
    }
    mover.arrange(&mut out);
    let unit = mover.unit(volume.mover());
    let (out, pairs) = units::place(volume, out, unit)?;
    carry(volume, &mut mover, (&out, &pairs), &mut |_, mapped| result.mapped.extend(mapped))?;
    result.inter += out.len() as u32;
    Ok(())
}

/// Transports a collected victim: remaps all of it in file order or copies it as it lies, whichever
/// is predicted to be faster.
#[derive(Clone, Debug)]
pub struct UnifiedMover {
    costs: GatherCosts,
    remaps: bool,
}

impl UnifiedMover {
    /// A mover based on the device's costs of requests and remaps.
    pub const fn new(costs: GatherCosts) -> Self {
        Self { costs, remaps: false }
    }
}

impl BlockMover for UnifiedMover {
    fn unit(&mut self, device: &mut dyn Mover) -> u32 {
        if self.remaps { RemapMover::sorted().unit(device) } else { 1 }
    }

    fn arrange(&mut self, live: &mut [LiveBlock]) {
        live.sort_unstable_by_key(|block| block.from);
        let (times, count) = (&self.costs.reads.times, live.len() as u32);
        let (mut copy_ns, mut run) = (times.write(count), 0);
        for (number, block) in live.iter().enumerate() {
            run += 1;
            let goes_on = live.get(number + 1).is_some_and(|next| next.from.0 == block.from.0 + 1);
            if !goes_on {
                copy_ns += times.read(std::mem::take(&mut run));
            }
        }
        let remap = self.costs.remap;
        self.remaps = remap.is_some_and(|remap| remap.of_pairs(count.div_ceil(remap.unit.max(1))) < copy_ns);
        if self.remaps {
            RemapMover::sorted().arrange(live);
        }
    }

    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[Pair]) -> Result<Vec<BlockAddress>> {
        // Blocks that were not arranged before are copies of a plan.
        if std::mem::take(&mut self.remaps) {
            return RemapMover::sorted().transfer(device, pairs);
        }
        device.copy(pairs)?;
        Ok(Vec::new())
    }
}

/// Decisions about segments: reviewed, treated, ordered by file; runs by [`Way::ALL`]; predicted
/// times untreated and as planned.
#[derive(Debug, Default)]
pub struct UnifiedCounters(Mutex<([u64; 3], [u64; 5], [f64; 2])>);

impl UnifiedCounters {
    fn count(&self, plan: &Plan) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (segments, runs, times) = &mut *counters;
        let moves = plan.ways.iter().any(|way| *way != Way::Leave);
        for (count, is) in segments.iter_mut().zip([true, moves, plan.sorted]) {
            *count += u64::from(is);
        }
        for way in &plan.ways {
            let places = runs.iter_mut().zip(Way::ALL).filter(|(_, known)| known == way);
            places.for_each(|(count, _)| *count += 1);
        }
        times[0] += plan.left_ns;
        times[1] += plan.predicted_ns;
    }

    /// Segments treated.
    pub fn treated(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0[1]
    }
}

/// Name, unit, text.
const ROWS: [(&str, &str, &str); 10] = [
    ("reviewed_segments", "", "used segments reviewed before their gaps were filled"),
    ("treated_segments", "", "of these, those from which runs were moved first"),
    ("sorted_segments", "", "of these, those remapped away as a whole in file order"),
    ("left_runs", "", "runs of valid blocks that stayed"),
    ("copied_out_runs", "", "runs copied to the cold data log"),
    ("copied_within_runs", "", "runs copied within their segment"),
    ("remapped_out_runs", "", "runs remapped to the cold data log"),
    ("remapped_within_runs", "", "runs remapped within their segment"),
    ("left_expected_ns", "ns", "expected time of filling the segments' gaps without treatment"),
    ("planned_expected_ns", "ns", "expected time of the plans, minus what reads save"),
];

impl Statistics for UnifiedCounters {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let (segments, runs, times) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = times.map(|time_ns| time_ns.max(0.0).round() as u64);
        for (&(name, ..), value) in ROWS.iter().zip(segments.into_iter().chain(runs).chain(times)) {
            sink(name, StatisticValue::Count(value));
        }
    }

    fn definitions() -> Vec<StatisticDefinition> {
        let definition = |&(name, unit, text): &(&str, &'static str, &str)| StatisticDefinition {
            name: name.to_owned(),
            unit,
            better: Better::Neither,
            text: text.to_owned(),
        };
        ROWS.iter().map(definition).collect()
    }
}

#[cfg(test)]
mod tests {
    use nandkit_block::Placement;
    use nandkit_cleaning::gather::ReadCosts;
    use nandkit_cleaning::partial::RequestTimes;

    use super::*;

    #[test]
    fn order_gains_what_reads_save_and_nothing_where_one_die_has_all() {
        let times = RequestTimes::new(64, |blocks| 50 + u64::from(blocks), |_| 0);
        let reads = ReadCosts { times, page_ns: 40.0, request_ns: 10.0, request_max: 64 };
        let costs = GatherCosts { reads, remap: None, flush_ns: 0.0 };
        let page = |number: u32, die: u32, reads: f64| LivePage {
            from: BlockAddress(1000 + 2 * number),
            inode: NodeId(7),
            page: number,
            reads,
            placement: Some(Placement { die, dies: 4 }),
        };
        let in_turn: Vec<LivePage> = (0..8).map(|number| page(number, number % 4, 3.0)).collect();
        // Eight requests become one, and wait for two pages of a die, or for eight, as before.
        assert_eq!(gain_of_order(&in_turn, &costs), 3.0 * 7.0 * 10.0);
        let on_one: Vec<LivePage> = (0..8).map(|number| page(number, 1, 3.0)).collect();
        assert_eq!(gain_of_order(&on_one, &costs), 3.0 * 7.0 * 10.0);
        let unread: Vec<LivePage> = (0..8).map(|number| page(number, 1, 0.0)).collect();
        assert_eq!(gain_of_order(&unread, &costs), 0.0);
    }
}
