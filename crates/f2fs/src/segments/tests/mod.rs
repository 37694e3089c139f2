//! Compares the segments with a naive model, and tests single rules.

mod naive;
mod random;

use std::collections::BTreeMap;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, Result};

use super::*;
use crate::ids::NodeId;
use crate::layout::SummaryEntry;

/// The SSA, in memory.
pub(crate) struct SummaryArea {
    geometry: Geometry,
    blocks: BTreeMap<u32, Vec<u8>>,
}

impl Blocks for SummaryArea {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, _: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        for (number, into) in (at.0..).zip(into.chunks_mut(self.geometry.block_size())) {
            match self.blocks.get(&number) {
                Some(block) => into.copy_from_slice(block),
                None => into.fill(0),
            }
        }
        Ok(())
    }
}

/// Segments with an SSA in memory.
pub(crate) struct Bench {
    pub segments: Segments,
    pub area: SummaryArea,
}

impl Bench {
    pub fn new(geometry: &Geometry, options: Options) -> Self {
        let zone = geometry.segments_per_section * geometry.sections_per_zone;
        let at = std::array::from_fn(|log| SegmentIndex(log as u32 * zone));
        let blocks = u64::from(geometry.main_segments) * 512;
        let space = SpaceCounters::new(blocks, 0, 0, 0, geometry.nid_end());
        let mut segments = Segments::empty(geometry, at, options, space).unwrap();
        segments.sit_mut().keep_truth();
        Self { segments, area: SummaryArea { geometry: geometry.clone(), blocks: BTreeMap::new() } }
    }

    pub fn allocate(&mut self, log: Log, owner: u32) -> Result<Placed> {
        self.segments.allocate(&self.area, log, summary(owner), 0)
    }

    pub fn owner(&self, at: BlockAddress) -> Summary {
        self.segments.owner(&self.area, at).unwrap()
    }

    pub fn checkpoint(&mut self) -> Vec<Range<u32>> {
        self.segments.settle_logs(&self.area).unwrap();
        let geometry = self.segments.geometry().clone();
        for (segment, entries, node) in self.segments.dirty_summaries() {
            let block = ssa::encode(entries, node, geometry.block_size());
            self.area.blocks.insert(geometry.ssa(segment).0, block);
        }
        self.segments.summaries_written();
        self.segments.checkpointed()
    }
}

pub(crate) fn summary(owner: u32) -> Summary {
    Summary { nid: NodeId(owner), version: owner as u8, offset: (owner >> 8) as u16 & 1023 }
}

fn options(lfs: bool, reserved: u32) -> Options {
    Options {
        lfs,
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

pub(crate) fn shape(main_segments: u32, segments_per_section: u32, sections_per_zone: u32) -> Geometry {
    let mut geometry = Geometry::for_tests(4096);
    (geometry.main_segments, geometry.segments_per_section) = (main_segments, segments_per_section);
    geometry.sections_per_zone = sections_per_zone;
    geometry
}

fn geometry() -> Geometry {
    shape(20, 1, 1)
}

fn fill(bench: &mut Bench, log: Log, blocks: u32) -> Vec<BlockAddress> {
    (0..blocks).map(|block| bench.allocate(log, block + 1).unwrap().at).collect()
}

#[test]
fn the_next_block_of_a_full_segment_is_in_the_next_one() {
    let mut bench = Bench::new(&geometry(), options(true, 0));
    let first = fill(&mut bench, Log::WarmNode, 511);
    let last = bench.allocate(Log::WarmNode, 9).unwrap();
    assert_eq!(last.at.0, first[0].0 + 511);
    assert_eq!(bench.segments.geometry().main(last.next), Some((SegmentIndex(6), 0)));
    assert_eq!(bench.allocate(Log::WarmNode, 10).unwrap().at, last.next);
    assert_eq!(bench.owner(last.at), summary(9));
}

#[test]
fn a_freed_block_is_used_again_after_the_checkpoint_and_not_before() {
    let mut bench = Bench::new(&geometry(), options(false, 100));
    let blocks = fill(&mut bench, Log::WarmData, 512);
    bench.checkpoint();
    for &at in &blocks[10..20] {
        bench.segments.free(at, 0);
    }
    // The log is at the start of a new segment; at its end no segment with gaps is left.
    let more = fill(&mut bench, Log::WarmData, 512);
    assert!(more.iter().all(|at| !blocks.contains(at)));
    assert_eq!(bench.segments.states().dirty[Log::WarmData.index()], 1);
    let freed = bench.checkpoint();
    assert_eq!(freed, [Range { start: blocks[10].0, end: blocks[20].0 }]);
    fill(&mut bench, Log::WarmData, 512);
    let gaps = fill(&mut bench, Log::WarmData, 10);
    assert_eq!(gaps, blocks[10..20]);
    assert_eq!(bench.segments.usage().blocks(Log::WarmData, Way::Gaps), 10);
    // Neighbours in the segment kept their owners.
    assert_eq!((bench.owner(blocks[9]), bench.owner(blocks[10])), (summary(10), summary(1)));
}

#[test]
fn an_emptied_segment_is_prefree_until_the_checkpoint() {
    let mut bench = Bench::new(&geometry(), options(true, 0));
    let blocks = fill(&mut bench, Log::HotData, 512);
    bench.checkpoint();
    blocks.iter().for_each(|&at| bench.segments.free(at, 0));
    let states = bench.segments.states();
    assert_eq!((states.prefree, states.free, bench.segments.free_segments_after()), (1, 13, 14));
    let freed = bench.checkpoint();
    assert_eq!(freed, [Range { start: blocks[0].0, end: blocks[0].0 + 512 }]);
    assert_eq!(bench.segments.states().free, 14);
    bench.segments.free(blocks[0], 0);
    assert_eq!(bench.segments.faults(), 1);
}

#[test]
fn without_a_free_section_nothing_changes() {
    let mut bench = Bench::new(&shape(7, 1, 1), options(true, 0));
    fill(&mut bench, Log::ColdData, 1023);
    let before = bench.segments.clone();
    let error = bench.allocate(Log::ColdData, 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
    assert_eq!(format!("{:?}", bench.segments), format!("{before:?}"));
}

#[test]
fn pinned_blocks_are_stepped_over_and_free_segments_with_them_are_not_taken() {
    let mut bench = Bench::new(&geometry(), options(true, 0));
    let first = fill(&mut bench, Log::WarmNode, 3);
    let chain = [first[2].0 + 1, first[2].0 + 2, first[2].0 + 4].map(BlockAddress);
    let named = bench.segments.geometry().segment_start(SegmentIndex(6));
    bench.segments.pin(&[chain[0], chain[1], chain[2], named, BlockAddress(0)]);
    let after = fill(&mut bench, Log::WarmNode, 2);
    assert_eq!(after, [BlockAddress(first[2].0 + 3), BlockAddress(first[2].0 + 5)]);
    bench.segments.move_log(Log::WarmNode).unwrap();
    assert_eq!(bench.segments.current(Log::WarmNode), SegmentIndex(7));
    bench.checkpoint();
    bench.segments.move_log(Log::HotNode).unwrap();
    // It is free again, and so is the old segment of the hot node log, which is empty.
    assert_eq!(bench.segments.current(Log::HotNode), SegmentIndex(6));
}

#[test]
fn a_prepared_segment_is_kept_for_its_log_until_the_checkpoint_and_then_taken_first() {
    let mut bench = Bench::new(&geometry(), options(false, 100));
    let blocks = fill(&mut bench, Log::WarmData, 1024);
    blocks.iter().step_by(2).take(256).for_each(|&at| bench.segments.free(at, 0));
    blocks.iter().skip(512).take(400).for_each(|&at| bench.segments.free(at, 0));
    bench.checkpoint();
    let (first, second) = (SegmentIndex(1), SegmentIndex(6));
    assert_eq!(bench.segments.ssr_victim(Log::WarmData), Some(second));
    assert!(bench.segments.prepare(first, Log::WarmData, false));
    assert!(!bench.segments.prepare(first, Log::WarmData, false));
    bench.checkpoint();
    fill(&mut bench, Log::WarmData, 512);
    assert_eq!(bench.segments.current(Log::WarmData), first);
    assert_eq!(bench.segments.states().prepared, 0);
}

#[test]
fn a_claimed_block_keeps_the_owners_that_the_last_checkpoint_knows() {
    let mut bench = Bench::new(&geometry(), options(false, 0));
    let blocks = fill(&mut bench, Log::ColdData, 512);
    bench.checkpoint();
    bench.segments.free(blocks[7], 0);
    let claim = |bench: &mut Bench, at| bench.segments.claim(&bench.area, at, summary(77), 0);
    assert_eq!(claim(&mut bench, blocks[7]).unwrap_err().kind, ErrorKind::Corrupt);
    bench.checkpoint();
    claim(&mut bench, blocks[7]).unwrap();
    assert_eq!((bench.owner(blocks[7]), bench.owner(blocks[8])), (summary(77), summary(9)));
    assert!(claim(&mut bench, blocks[7]).is_err() && claim(&mut bench, BlockAddress(5)).is_err());
    let node = bench.segments.geometry().segment_start(bench.segments.current(Log::HotNode));
    assert!(claim(&mut bench, node).is_err());
    // A free segment becomes one of warm data; a log skips what was claimed before it got there.
    let free = bench.segments.geometry().segment_start(SegmentIndex(12));
    claim(&mut bench, free).unwrap();
    assert_eq!(bench.segments.states().dirty[Log::WarmData.index()], 1);
    let next = bench.segments.geometry().segment_start(bench.segments.current(Log::HotData));
    claim(&mut bench, next).unwrap();
    assert_eq!(bench.allocate(Log::HotData, 5).unwrap().at.0, next.0 + 1);
}

#[test]
fn logs_on_used_blocks_or_in_one_segment_are_refused() {
    let bench = Bench::new(&geometry(), options(false, 0));
    let state = state_of(&bench.segments);
    let sit = Sit::empty(&geometry(), true);
    assert!(Segments::open(&bench.area, &state, sit.clone()).is_ok());
    let mut twice = state.clone();
    twice.logs[2].segment = twice.logs[1].segment;
    let mut outside = state.clone();
    outside.logs[4].segment = SegmentIndex(20);
    let mut cut = state.clone();
    cut.summaries[0].entries.pop();
    for state in [twice, outside, cut] {
        assert_eq!(Segments::open(&bench.area, &state, sit.clone()).unwrap_err().kind, ErrorKind::Corrupt);
    }
    let mut used = sit;
    used.take(state.logs[0].segment, 9, 1);
    assert!(Segments::open(&bench.area, &state, used).is_err());
}

fn state_of(segments: &Segments) -> crate::checkpoint_state::CheckpointState {
    use crate::checkpoint_state::{CheckpointState, SummaryBlock};
    use zerocopy::FromZeros;
    CheckpointState {
        head: crate::layout::CheckpointHead::new_zeroed(),
        nat_map: Vec::new(),
        sit_map: Vec::new(),
        orphans: Vec::new(),
        logs: Log::ALL.map(|log| segments.log_state(log)),
        summaries: Log::ALL.map(|log| SummaryBlock { entries: segments.log_summary(log).to_vec() }),
        nat_journal: Vec::new(),
        sit_journal: Vec::new(),
        lifetime_kib: 0,
        nat_bits: None,
    }
}

#[test]
fn a_volume_opened_from_its_checkpoint_goes_on_alike() {
    let mut bench = Bench::new(&geometry(), options(false, 8));
    let blocks = fill(&mut bench, Log::WarmData, 2000);
    fill(&mut bench, Log::ColdNode, 700);
    blocks.iter().step_by(3).for_each(|&at| bench.segments.free(at, 0));
    bench.checkpoint();
    let state = state_of(&bench.segments);
    let mut sit = Sit::empty(&geometry(), true);
    for segment in (0..20).map(SegmentIndex) {
        sit.load(segment, &bench.segments.sit().entry(segment), &mut |finding| panic!("{finding}"));
    }
    sit.settle_load();
    let mut again = Segments::open(&bench.area, &state, sit).unwrap();
    again.options = bench.segments.options;
    again.greedy_cursor = bench.segments.greedy_cursor;
    assert_eq!(again.states(), bench.segments.states());
    for number in 0..1500 {
        let log = Log::ALL[number % 3];
        let placed = again.allocate(&bench.area, log, summary(5), 0).unwrap();
        assert_eq!(bench.allocate(log, 5).unwrap(), placed);
    }
}

#[test]
fn summaries_of_node_logs_are_made_again_from_footers() {
    let mut bench = Bench::new(&geometry(), options(false, 0));
    let mut state = state_of(&bench.segments);
    state.summaries[Log::WarmNode.index()].entries.clear();
    let start = geometry().segment_start(state.logs[Log::WarmNode.index()].segment);
    let mut node = vec![0; 4096];
    node[4096 - 24] = 99;
    bench.area.blocks.insert(start.0 + 130, node);
    let segments = Segments::open(&bench.area, &state, Sit::empty(&geometry(), true)).unwrap();
    assert_eq!(Summary::from(segments.log_summary(Log::WarmNode)[130]), Summary::of_node(NodeId(99)));
    assert_eq!(segments.log_summary(Log::WarmNode)[131], SummaryEntry::default());
}
