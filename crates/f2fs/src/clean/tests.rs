//! Checks searches against figures worked out by hand, and collections on a small volume whose map
//! is kept in the test.

use std::collections::BTreeMap;

use nandkit_cleaning::search::AgedGaps;
use nandkit_units::Nanos;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::balance::{Background, Foreground, Need, is_short};
use super::collect::collect;
use super::collected::{CollectableVolume, Liveness};
use super::mover::{BlockMover, CopyMover, LiveBlock, Mover, RemapMover};
use super::policy::{PolicySearch, SearchByKind};
use super::review::{HoleRun, ReusePlan, Treatment, checked, facts, holes};
use super::section_search::SectionSearch;
use super::{Collection, VictimSearch};
use crate::device::{Pair, RemapUnits};
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::segments::tests::{Bench, shape};
use crate::segments::{DirtyPages, Options, Segments, Space, SpaceOn, Summary, Way};

fn options(reserved: u32) -> Options {
    Options {
        lfs: true,
        own_gaps: false,
        plugs_holes: false,
        aged_gaps: None,
        reuse: true,
        reserved_sections: reserved,
        min_ssr_sections: reserved,
        max_search: 4096,
        urgent: false,
        crc_recovery: true,
    }
}

/// A volume of pages in memory; the content of a block is a number.
struct Small {
    bench: Bench,
    /// Page to address, by (inode, page); the summary's nid is the inode, its offset the page.
    map: BTreeMap<(u32, u32), BlockAddress>,
    content: BTreeMap<BlockAddress, u32>,
    now: u64,
    unit: Option<u32>,
    copied: u32,
    shared: u32,
    /// The most pairs that fit into the device's remap log.
    most_shared: usize,
    fails: bool,
}

impl Small {
    fn new(segments: u32, per_section: u32) -> Self {
        let bench = Bench::new(&shape(segments, per_section, 1), options(2));
        let (map, content) = (BTreeMap::new(), BTreeMap::new());
        Self { bench, map, content, now: 1, unit: None, copied: 0, shared: 0, most_shared: usize::MAX, fails: false }
    }

    fn write(&mut self, log: Log, inode: u32, page: u32) {
        let owner = Summary { nid: NodeId(inode), version: 0, offset: page as u16 };
        let placed = self.bench.segments.allocate(&self.bench.area, log, owner, self.now).unwrap();
        self.content.insert(placed.at, inode * 1000 + page);
        if let Some(old) = self.map.insert((inode, page), placed.at) {
            self.bench.segments.free(old, self.now);
        }
    }

    fn check(&self) {
        for (&(inode, page), at) in &self.map {
            assert_eq!(self.content[at], inode * 1000 + page);
            assert_eq!(self.bench.owner(*at).offset, page as u16);
            let (segment, block) = self.bench.segments.geometry().main(*at).unwrap();
            assert!(self.bench.segments.sit().is_valid(segment, block));
        }
        assert_eq!(self.bench.segments.sit().total_valid(), self.map.len() as u64);
        assert_eq!(self.bench.segments.faults(), 0);
    }
}

impl Mover for Small {
    fn copy(&mut self, pairs: &[(BlockAddress, BlockAddress)]) -> Result<()> {
        if self.fails {
            return Err(FsError::new(ErrorKind::Device, "planted"));
        }
        self.copied += pairs.len() as u32;
        for (from, to) in pairs {
            self.content.insert(*to, self.content[from]);
        }
        Ok(())
    }

    fn remap_units(&mut self) -> Option<RemapUnits> {
        self.unit.map(|blocks| RemapUnits { blocks, pairs_max: 16 })
    }

    fn share(&mut self, pairs: &[Pair]) -> Result<Vec<Pair>> {
        let unit = self.unit.unwrap();
        let (pairs, refused) = pairs.split_at(pairs.len().min(self.most_shared));
        self.most_shared -= pairs.len();
        self.shared += pairs.len() as u32 * unit;
        for (from, to) in pairs {
            assert!(from.0.is_multiple_of(unit) && to.0.is_multiple_of(unit));
            for n in 0..unit {
                self.content.insert(BlockAddress(to.0 + n), self.content[&BlockAddress(from.0 + n)]);
            }
        }
        Ok(refused.to_vec())
    }
}

impl CollectableVolume for Small {
    fn segments(&mut self) -> &mut Segments {
        &mut self.bench.segments
    }

    fn with_space<R>(&mut self, work: impl FnOnce(&mut dyn Space) -> Result<R>) -> Result<R> {
        work(&mut SpaceOn { segments: &mut self.bench.segments, device: &self.bench.area })
    }

    fn summaries(&mut self, segment: SegmentIndex) -> Result<Vec<Summary>> {
        let entries = self.bench.segments.summaries(&self.bench.area, segment)?;
        Ok(entries.iter().copied().map(Summary::from).collect())
    }

    fn liveness(&mut self, at: BlockAddress, owner: Summary) -> Result<Liveness> {
        let (inode, page) = (owner.nid.0, u32::from(owner.offset));
        let is_there = self.map.get(&(inode, page)) == Some(&at);
        Ok(if is_there { Liveness::Live(owner.nid, page) } else { Liveness::Dead })
    }

    fn move_node(&mut self, _at: BlockAddress, _nid: NodeId) -> Result<bool> {
        Ok(false)
    }

    fn moved(&mut self, block: &LiveBlock, to: BlockAddress) -> Result<()> {
        self.map.insert((block.inode.0, block.page), to);
        Ok(())
    }

    fn checkpoint_requests(&mut self) -> Vec<u32> {
        vec![1, 3]
    }

    fn mover(&mut self) -> &mut dyn Mover {
        self
    }

    fn now(&self) -> u64 {
        self.now
    }
}

/// Fills segments 1 (warm data) and following with two files in turn, then rewrites some of their
/// pages.
fn interleaved(small: &mut Small) {
    for page in 0..512 {
        small.write(Log::WarmData, 10, page);
        small.write(Log::WarmData, 11, page);
    }
    for page in (0..512).filter(|page| page % 8 < 2) {
        small.write(Log::HotData, 10, page);
    }
}

#[test]
fn collected_sections_are_empty_and_nothing_is_lost() {
    for per_section in [1, 2] {
        let mut small = Small::new(40, per_section);
        interleaved(&mut small);
        small.check();
        let mut search = SectionSearch::new(&small.bench.segments, 1);
        let section = search.choose(&mut small.bench.segments, Collection::Foreground, Nanos::ZERO).unwrap();
        let outcome = collect(&mut small, section, &mut CopyMover).unwrap();
        assert!(outcome.emptied && outcome.left == 0 && outcome.mapped.is_empty());
        assert_eq!(outcome.data, small.copied);
        small.check();
        let free = small.bench.segments.free_map().sections();
        small.bench.checkpoint();
        assert_eq!(small.bench.segments.free_map().sections(), free + 1);
        small.check();
    }
}

#[test]
fn a_failed_transfer_changes_nothing_that_counts() {
    let mut small = Small::new(40, 1);
    interleaved(&mut small);
    let map = small.map.clone();
    small.fails = true;
    assert_eq!(collect(&mut small, 1, &mut CopyMover).unwrap_err().kind, ErrorKind::Device);
    assert_eq!(small.map, map);
    small.check();
    assert!(collect(&mut small, 40, &mut CopyMover).is_err());
}

#[test]
fn a_remapping_cleaner_puts_files_in_order_and_shares_whole_units() {
    for unit in [None, Some(1), Some(4)] {
        let mut small = Small::new(40, 1);
        interleaved(&mut small);
        small.unit = unit;
        let outcome = collect(&mut small, 1, &mut RemapMover::sorted()).unwrap();
        small.check();
        let places = |inode| -> Vec<u32> {
            let pages = small.map.range((inode, 0)..(inode, 256)).map(|(_, at)| at.0);
            pages.collect()
        };
        if unit != Some(4) {
            // The file that was not rewritten lies in one run.
            assert!(places(11).windows(2).all(|pair| pair[1] == pair[0] + 1));
        }
        match unit {
            None => assert_eq!((small.shared, outcome.mapped.len()), (0, 0)),
            // Three of four units are live throughout and move whole, with blocks of both files;
            // two blocks of the fourth are copied.
            Some(4) => assert_eq!((small.shared, small.copied, outcome.mapped.len()), (384, 64, 384)),
            Some(_) => assert_eq!((small.copied, outcome.mapped.len()), (0, outcome.data as usize)),
        }
    }
}

#[test]
fn units_of_four_are_shared_where_they_lie_alike() {
    let mut small = Small::new(40, 1);
    (0..512).for_each(|page| small.write(Log::WarmData, 10, page));
    small.unit = Some(4);
    let outcome = collect(&mut small, 1, &mut RemapMover::sorted()).unwrap();
    assert_eq!((outcome.data, small.shared, small.copied), (512, 512, 0));
    small.check();
}

#[test]
fn a_mover_that_drops_blocks_is_not_heeded() {
    struct Doubling;
    impl BlockMover for Doubling {
        fn arrange(&mut self, live: &mut [LiveBlock]) {
            if let [first, second, ..] = live {
                *second = *first;
            }
        }
        fn transfer(
            &mut self,
            device: &mut dyn Mover,
            pairs: &[(BlockAddress, BlockAddress)],
        ) -> Result<Vec<BlockAddress>> {
            device.copy(pairs)?;
            Ok(Vec::new())
        }
    }
    let mut small = Small::new(40, 1);
    interleaved(&mut small);
    assert!(collect(&mut small, 1, &mut Doubling).unwrap().emptied);
    small.check();
}

/// Warm data segments with these numbers of valid blocks, written at these times.
fn filled(segments: &[(u32, u64)]) -> Small {
    let mut small = Small::new(40.max(segments.len() as u32 + 20), 1);
    for (number, &(_, time)) in (0..).zip(segments) {
        small.now = time;
        (0..512).for_each(|page| small.write(Log::WarmData, 10 + number, page));
    }
    for (number, &(valid, time)) in (0..).zip(segments) {
        small.now = time;
        for page in valid..512 {
            let at = small.map.remove(&(10 + number, page)).unwrap();
            small.bench.segments.free(at, time);
        }
    }
    small
}

#[test]
fn the_foreground_takes_what_the_background_chose_and_else_the_emptiest() {
    let mut small = filled(&[(300, 100), (200, 900), (200, 1000), (400, 200)]);
    let segments = &mut small.bench.segments;
    let mut search = SectionSearch::new(segments, 1000);
    // The warm data log began in segment 1 and continued in the free ones from 6 on.
    assert_eq!(search.choose(segments, Collection::Foreground, Nanos::ZERO), Some(6));
    // u = 58, age = 100 - 100 * 100 / 1000 = 90: benefit 2392; of the second: u = 39, age 10: 438;
    // of the last: u = 78, age 80: 988.
    assert_eq!(search.choose(segments, Collection::Background, Nanos::ZERO), Some(1));
    assert_eq!(search.choose(segments, Collection::Background, Nanos::ZERO), Some(8));
    assert_eq!(search.choose(segments, Collection::Foreground, Nanos::ZERO), Some(1));
}

#[test]
fn policies_of_cleaning_choose_sections() {
    let mut small = filled(&[(300, 100), (200, 900), (100, 1000), (400, 200)]);
    let segments = &mut small.bench.segments;
    let choose = |rule: &str, segments: &mut Segments| {
        PolicySearch::new(rule.parse().unwrap(), 1).choose(segments, Collection::Foreground, Nanos::from_secs(1000))
    };
    assert_eq!(choose("greedy", segments), Some(7));
    assert_eq!(choose("fifo", segments), Some(1));
    assert_eq!(choose("f2fs-cost-benefit", segments), Some(1));
}

#[test]
fn each_kind_of_collection_has_its_own_policy() {
    let mut small = filled(&[(300, 100), (200, 900), (100, 1000), (400, 200)]);
    let segments = &mut small.bench.segments;
    let search = |rule: &str| Box::new(PolicySearch::new(rule.parse().unwrap(), 1));
    let mut both = SearchByKind { foreground: search("greedy"), background: search("fifo") };
    let mut choose = |why| both.choose(segments, why, Nanos::from_secs(1000));
    assert_eq!((choose(Collection::Foreground), choose(Collection::Background)), (Some(7), Some(1)));
}

#[test]
fn an_operation_waits_for_a_checkpoint_then_for_sections() {
    let mut small = Small::new(16, 1);
    for page in 0..512 * 8 {
        small.write(Log::WarmData, 10 + page / 512, page % 512);
    }
    // 16 segments: 6 of logs, 8 more used by warm data; the 2 free ones are the reserve.
    assert_eq!(small.bench.segments.free_map().sections(), 2);
    assert!(is_short(&small.bench.segments, 0) && !is_short(&small.bench.segments, 1));
    small.bench.segments.pages = DirtyPages { nodes: 512, ..DirtyPages::default() };
    assert!(is_short(&small.bench.segments, 1) && !is_short(&small.bench.segments, 2));
    small.bench.segments.pages = DirtyPages { nodes: 5, ..DirtyPages::default() };
    // In between: the rest fits into the node logs' segments.
    assert!(is_short(&small.bench.segments, 0) && !is_short(&small.bench.segments, 1));
    small.bench.segments.pages = DirtyPages::default();
    let free_page = |small: &mut Small, inode: u32, page: u32| {
        let at = small.map.remove(&(inode, page)).unwrap();
        small.bench.segments.free(at, 1);
    };
    (0..512).for_each(|page| free_page(&mut small, 10, page));
    (0..500).for_each(|page| free_page(&mut small, 11, page));
    let mut course = Foreground::default();
    assert_eq!(course.need(&small.bench.segments), Need::Checkpoint);
    small.bench.checkpoint();
    course.checkpointed();
    assert_eq!(course.need(&small.bench.segments), Need::Nothing);
    small.bench.segments.options.reserved_sections = 3;
    assert_eq!(course.need(&small.bench.segments), Need::Collect);
    let mut search = SectionSearch::new(&small.bench.segments, 1);
    let section = search.choose(&mut small.bench.segments, Collection::Foreground, Nanos::ZERO).unwrap();
    let outcome = collect(&mut small, section, &mut CopyMover).unwrap();
    assert_eq!(outcome.data, 12);
    course.collected(outcome.emptied);
    assert_eq!(course.need(&small.bench.segments), Need::Checkpoint);
    small.bench.checkpoint();
    course.checkpointed();
    assert_eq!(course.need(&small.bench.segments), Need::Nothing);
    small.check();
}

#[test]
fn the_background_sleeps_longer_when_others_work_and_when_there_is_nothing() {
    let small = Small::new(16, 1);
    let mut pace = Background::new();
    assert_eq!(pace.sleep_ms(), 30_000);
    pace.was_busy();
    pace.was_busy();
    assert_eq!(pace.sleep_ms(), 60_000);
    pace.found_nothing();
    pace.was_busy();
    assert_eq!(pace.sleep_ms(), 300_000);
    // An empty volume has nothing invalid and everything free.
    pace.will_work(&small.bench.segments);
    assert_eq!(pace.sleep_ms(), 300_000);
}

#[test]
fn a_review_sees_the_holes_and_only_sound_plans_are_followed() {
    let mut small = filled(&[(10, 100), (200, 900)]);
    small.bench.checkpoint();
    let segment = SegmentIndex(1);
    small.bench.segments.free(small.map[&(10, 3)], 100);
    let segments = &small.bench.segments;
    assert_eq!(holes(segments, segment), [HoleRun { start: 10, length: 502 }]);
    let facts = facts(segments, segment, Log::WarmData);
    assert_eq!(facts.valid, [0..3, 4..10]);
    let plan = |runs: &[(u16, u16)]| {
        ReusePlan::Treat(runs.iter().map(|&(start, end)| (start..end, Treatment::Inter)).collect())
    };
    assert_eq!(checked(plan(&[(0, 3), (5, 7)]), &facts), plan(&[(0, 3), (5, 7)]));
    // Over a hole, reversed, overlapping, out of range.
    assert_eq!(checked(plan(&[(2, 5), (9, 6), (4, 6), (5, 7), (500, 600)]), &facts), plan(&[(4, 6)]));
    assert_eq!(checked(plan(&[(20, 30)]), &facts), ReusePlan::AsIs);
}

struct Plan(Vec<(std::ops::Range<u16>, Treatment)>);

impl super::review::ReuseReview for Plan {
    fn review(
        &mut self,
        _: &[HoleRun],
        _: &super::review::ReuseFacts,
        _: super::review::CheckpointRequests<'_>,
    ) -> ReusePlan {
        ReusePlan::Treat(self.0.clone())
    }
}

/// One warm segment in which blocks 100 to 103 and 300 to 309 are valid; the log is elsewhere and
/// needs gaps.
fn with_gaps() -> Small {
    let mut small = filled(&[(512, 100)]);
    for page in (0..512).filter(|page| !(100..104).contains(page) && !(300..310).contains(page)) {
        let at = small.map.remove(&(10, page)).unwrap();
        small.bench.segments.free(at, 100);
    }
    small.bench.checkpoint();
    small.bench.segments.options.lfs = false;
    small.bench.segments.options.min_ssr_sections = 100;
    small
}

#[test]
fn a_treated_segment_is_taken_after_the_checkpoint_with_its_holes_joined() {
    let mut small = with_gaps();
    let segment = SegmentIndex(1);
    let cursor = small.bench.segments.greedy_cursor();
    let mut plan = Plan(vec![(100..104, Treatment::Intra), (300..310, Treatment::Inter)]);
    let reuse = super::reuse::prepare(&mut small, Log::WarmData, &mut plan, &mut CopyMover).unwrap();
    assert_eq!((reuse.treated, reuse.inter, reuse.intra), (Some(segment), 10, 4));
    assert_eq!(small.bench.segments.greedy_cursor(), cursor);
    small.check();
    // Not before the checkpoint: until then, writes go elsewhere.
    (0..600).for_each(|page| small.write(Log::WarmData, 20 + page / 512, page % 512));
    assert_ne!(small.bench.segments.current(Log::WarmData), segment);
    small.bench.checkpoint();
    // A second review finds the segment waiting.
    let again = super::reuse::prepare(&mut small, Log::WarmData, &mut plan, &mut CopyMover).unwrap();
    assert_eq!(again.treated, None);
    (0..512).for_each(|page| small.write(Log::WarmData, 30, page));
    assert_eq!(small.bench.segments.current(Log::WarmData), segment);
    small.check();
    let valid = small.bench.segments.sit().map(segment);
    // The four blocks are at its start; the run of ten is gone, so the log's gap extends to the
    // end.
    assert!(crate::segments::sit::runs(&valid).count() == 1 && small.bench.segments.log_state(Log::WarmData).ssr);
}

#[test]
fn without_a_plan_or_without_need_nothing_is_done() {
    let mut small = with_gaps();
    let nothing = super::review::Reuse::default();
    let mut none = super::review::NoReview;
    assert_eq!(super::reuse::prepare(&mut small, Log::WarmData, &mut none, &mut CopyMover).unwrap(), nothing);
    small.bench.segments.options.lfs = true;
    let mut plan = Plan(vec![(100..104, Treatment::Intra)]);
    assert_eq!(super::reuse::prepare(&mut small, Log::WarmData, &mut plan, &mut CopyMover).unwrap(), nothing);
    assert_eq!(super::reuse::prepare(&mut small, Log::WarmNode, &mut plan, &mut CopyMover).unwrap(), nothing);
    assert!(small.bench.segments.preparations().is_empty());
}

#[test]
fn a_failed_treatment_loses_nothing() {
    let mut small = with_gaps();
    small.fails = true;
    let mut plan = Plan(vec![(100..104, Treatment::Intra)]);
    assert!(super::reuse::prepare(&mut small, Log::WarmData, &mut plan, &mut CopyMover).is_err());
    small.check();
}

/// Collects everything dirty in idle time, with a checkpoint after each section. Returns sections
/// collected, blocks moved, and how many of these filled gaps.
fn collect_all(small: &mut Small, search: &mut dyn VictimSearch) -> [u64; 3] {
    let mut sections = 0;
    small.bench.checkpoint();
    while let Some(section) = search.choose(&mut small.bench.segments, Collection::Background, Nanos::from_secs(9000)) {
        assert!(collect(small, section, &mut CopyMover).unwrap().emptied);
        sections += 1;
        small.bench.checkpoint();
        assert!(sections < 1000);
    }
    small.check();
    let gaps = Log::ALL.map(|log| small.bench.segments.usage().blocks(log, Way::Claim)).iter().sum();
    [sections, small.copied.into(), gaps]
}

/// The test of Linux's commit "f2fs: support age threshold based garbage collection": 160 dirty
/// segments, half with 128 and half with 384 valid blocks. Without it, 160 segments were collected
/// and 40,960 blocks moved; with it, 74 and 12,544, of which 12,032 filled gaps.
#[test]
fn going_by_age_moves_a_third_of_the_blocks_as_linux_says() {
    let segments: Vec<(u32, u64)> = (0..160).map(|n: u32| ([128, 384][n as usize % 2], 1000 + u64::from(n))).collect();
    let mut small = filled(&segments);
    let mut search = SectionSearch::new(&small.bench.segments, 9000);
    let before = collect_all(&mut small, &mut search);
    assert_eq!(before, [160, 40_960, 0]);
    let mut small = filled(&segments);
    small.bench.segments.options.lfs = false;
    small.bench.segments.options.aged_gaps = Some(AgedGaps::LINUX);
    let after = collect_all(&mut small, &mut PolicySearch::new("age-threshold".parse().unwrap(), 1));
    println!("before {before:?}, after {after:?}");
    assert!(after[0] <= 80 && after[1] <= 12_544 && after[2] * 25 >= after[1] * 24, "{after:?}");
}

/// Units of four in a segment, with the log at any position: units that can be aligned alike are,
/// the rest is copied.
#[test]
fn units_get_places_that_align_and_the_rest_is_copied() {
    for ahead in 0..6 {
        let mut small = Small::new(40, 1);
        (0..512).for_each(|page| small.write(Log::WarmData, 10, page));
        (0..ahead).for_each(|page| small.write(Log::ColdData, 11, page));
        // One block of every fourth unit is rewritten, which leaves three single blocks of it.
        (0..512).filter(|page| page % 16 == 5).for_each(|page| small.write(Log::HotData, 10, page));
        small.unit = Some(4);
        let outcome = collect(&mut small, 1, &mut RemapMover::sorted()).unwrap();
        small.check();
        assert_eq!((outcome.data, small.copied, small.shared), (480, 96, 384), "{ahead} ahead");
        assert_eq!(outcome.mapped.len(), 384);
    }
}

/// Without single blocks to fill up to the next aligned address, a unit is broken up.
#[test]
fn a_unit_is_broken_up_where_nothing_else_brings_the_log_to_an_aligned_place() {
    let mut small = Small::new(40, 1);
    (0..512).for_each(|page| small.write(Log::WarmData, 10, page));
    small.write(Log::ColdData, 11, 0);
    small.unit = Some(4);
    let outcome = collect(&mut small, 1, &mut RemapMover::as_they_lie()).unwrap();
    small.check();
    assert_eq!((outcome.data, small.copied, small.shared), (512, 4, 508));
}

#[test]
fn what_the_log_of_remaps_has_no_room_for_is_copied() {
    for unit in [1, 4] {
        let mut small = Small::new(40, 1);
        (0..512).for_each(|page| small.write(Log::WarmData, 10, page));
        (small.unit, small.most_shared) = (Some(unit), 30);
        let outcome = collect(&mut small, 1, &mut RemapMover::sorted()).unwrap();
        small.check();
        let shared = 30 * unit;
        assert_eq!((small.shared, small.copied, outcome.mapped.len() as u32), (shared, 512 - shared, shared));
        assert!(
            outcome.mapped.iter().all(|at| small.bench.segments.geometry().main(*at).unwrap().0 == SegmentIndex(1))
        );
    }
}

/// A plan of remaps: runs move out and within, the last one in page order.
#[test]
fn runs_of_a_plan_are_remapped_and_the_segment_waits_for_the_checkpoint() {
    let mut small = with_gaps();
    small.unit = Some(1);
    let mut plan = Plan(vec![(100..104, Treatment::RemapWithin), (300..310, Treatment::RemapSorted)]);
    let reuse = super::reuse::prepare(&mut small, Log::WarmData, &mut plan, &mut CopyMover).unwrap();
    assert_eq!((reuse.treated, reuse.inter, reuse.intra), (Some(SegmentIndex(1)), 10, 4));
    assert_eq!((small.copied, small.shared, reuse.mapped.len()), (0, 14, 14));
    small.check();
    // A device that cannot remap: the same by copies.
    let mut small = with_gaps();
    let reuse = super::reuse::prepare(&mut small, Log::WarmData, &mut plan, &mut CopyMover).unwrap();
    assert_eq!((reuse.inter, reuse.intra, small.copied, reuse.mapped.len()), (10, 4, 14, 0));
    small.check();
}
