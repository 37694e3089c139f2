//! Each kind of recycling takes exactly the time that P4's cost functions give.

use crate::common::{chip, p4_spec};
use nandkit_block::BlockDevice;
use nandkit_cleaning::recycling::{Costs, RecyclingPolicy};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, LogicalCapacity, RecyclingKind};
use nandkit_nand_sim::{ContentChip, CopybackReach, ShadowChip};
use nandkit_units::{Context, Described, Description, Lba, Nanos, Payload};

const ERASE: u64 = 1_500_000;
const PROGRAM: u64 = 1_013_000;
const COPY: u64 = 1_128_000;
const NP: u64 = 128;

fn options(policy: RecyclingPolicy) -> BlockMapOptions {
    BlockMapOptions {
        capacity: LogicalCapacity::SpareBlocks(20),
        policy,
        costs: Some(Costs::P4),
        events: 100,
        ..BlockMapOptions::default()
    }
}

fn ftl(policy: RecyclingPolicy) -> BlockMapFtl<ContentChip> {
    BlockMapFtl::attach(chip(&p4_spec(40), 1), options(policy)).unwrap()
}

struct Writer {
    now: Nanos,
}

impl Writer {
    /// Writes one page and returns the nanoseconds that it took.
    fn write(&mut self, ftl: &mut impl BlockDevice, page: u64) -> u64 {
        let payload = Payload::Described(Described { description: Description::default(), length: 2048 });
        let done = ftl.write(&Context::at(self.now), Lba(page), payload).unwrap();
        assert_eq!(done.completed.since(self.now), done.busy, "a serial chip waits for nothing");
        let took = done.completed.since(self.now).0;
        self.now = done.completed;
        took
    }

    fn put(&mut self, ftl: &mut impl BlockDevice, page: u64) {
        self.write(ftl, page);
    }
}

fn writer(ftl: &BlockMapFtl<ContentChip>) -> Writer {
    Writer { now: ftl.attach_report().done.completed }
}

#[test]
fn a_swap_costs_its_map_page() {
    let mut ftl = ftl(RecyclingPolicy::Merge);
    let mut w = writer(&ftl);
    assert_eq!(w.write(&mut ftl, 0), ERASE + PROGRAM, "a new log block");
    for page in 1..NP - 1 {
        assert_eq!(w.write(&mut ftl, page), PROGRAM);
    }
    assert_eq!(w.write(&mut ftl, NP - 1), PROGRAM + PROGRAM, "page and map");
    assert_eq!(ftl.counters().swap_merges, 1);
}

#[test]
fn a_merge_costs_two_erases_and_a_copy_of_every_page() {
    let mut ftl = ftl(RecyclingPolicy::Merge);
    let mut w = writer(&ftl);
    (0..NP).for_each(|page| w.put(&mut ftl, page));
    (0..NP).for_each(|_| w.put(&mut ftl, 5));
    assert_eq!(ftl.counters().full_merges, 0);
    let merge = 2 * ERASE + NP * COPY + PROGRAM;
    assert_eq!(w.write(&mut ftl, 5), merge + PROGRAM);
    assert_eq!(ftl.counters().full_merges, 1);
    assert!((Costs::P4.merge() * 1e6 - (merge - PROGRAM) as f64).abs() < 1.0, "P4 leaves the map page out");
}

#[test]
fn a_migration_costs_one_erase_and_a_copy_of_its_pages() {
    for p in [1, 2, 7, 63] {
        let mut ftl = ftl(RecyclingPolicy::CostBased);
        let mut w = writer(&ftl);
        (0..NP).for_each(|page| w.put(&mut ftl, page));
        (0..NP).for_each(|n| w.put(&mut ftl, 40 + n % p));
        assert_eq!(w.write(&mut ftl, 40), ERASE + p * COPY + PROGRAM + PROGRAM, "p = {p}");
        let event = ftl.events().last().unwrap();
        assert_eq!((event.kind, event.p, event.migrations), (RecyclingKind::Migration, p as u32, 1));
        assert_eq!(event.alpha, p as f64);
        let costs = Costs { map: PROGRAM as f64 / 1e6, ..Costs::P4 };
        let expected = (ERASE + p * COPY + PROGRAM) as f64;
        assert!((costs.migration(p as f64) * 1e6 - expected).abs() < 1.0);
    }
}

#[test]
fn without_copyback_a_copy_is_a_read_and_a_program() {
    let mut spec = p4_spec(40);
    spec.rules.copyback = CopybackReach::None;
    let mut ftl = BlockMapFtl::attach(chip(&spec, 1), options(RecyclingPolicy::CostBased)).unwrap();
    let mut w = writer(&ftl);
    (0..NP).for_each(|page| w.put(&mut ftl, page));
    (0..NP).for_each(|_| w.put(&mut ftl, 3));
    assert_eq!(w.write(&mut ftl, 3), ERASE + (113_000 + PROGRAM) + PROGRAM + PROGRAM);
}

#[test]
fn p_of_repeated_migrations_is_counted_and_alpha_follows() {
    let mut ftl = ftl(RecyclingPolicy::Limit { max: Some(3) });
    let mut w = writer(&ftl);
    (0..NP).for_each(|page| w.put(&mut ftl, page));
    // Pages 0 and 1 over and over: three migrations, then a merge, and so on.
    (0..4 * NP).for_each(|n| w.put(&mut ftl, n % 2));
    let kinds: Vec<_> = ftl.events().iter().map(|event| event.kind).collect();
    use RecyclingKind::{Merge, Migration, Swap};
    assert_eq!(kinds, [Swap, Migration, Migration, Migration, Merge]);
    assert_eq!(ftl.recycling_histogram()[2], 4);
    assert_eq!(ftl.counters().migrations, 3);
}

#[test]
fn contention_forces_merges_and_counts_them_apart() {
    let mut ftl = ftl(RecyclingPolicy::CostBased);
    let mut w = writer(&ftl);
    (0..9).for_each(|block| w.put(&mut ftl, block * NP));
    let counters = ftl.counters();
    assert_eq!((counters.full_merges, counters.forced_merges), (1, 1));
    assert!(ftl.events()[0].forced);
    assert_eq!(ftl.events()[0].lbn, 0, "the log block that was written longest ago");
}

#[test]
fn shadow_and_content_chips_count_the_same() {
    use crate::common::model::{Mix, Op, Ops};
    let spec = crate::common::spec(2048, 64, 16, 16);
    let options = BlockMapOptions {
        sector_size: 512,
        policy: RecyclingPolicy::CostBased,
        log_blocks: 3,
        ..options(RecyclingPolicy::CostBased)
    };
    let options = BlockMapOptions { capacity: LogicalCapacity::SpareBlocks(8), ..options };
    let mut content = BlockMapFtl::attach(chip(&spec, 1), options.clone()).unwrap();
    let mut shadow = BlockMapFtl::attach(ShadowChip::new(&spec, 1).unwrap(), options).unwrap();
    let sectors = content.geometry().sectors;
    let bytes = vec![0x5A; 64 * 512];
    let mut now = Nanos::ZERO;
    for op in Ops::new(3, Mix::WRITES, sectors).take(20_000) {
        let context = Context::at(now);
        let (a, b) = match op {
            Op::Write { at, sectors } => {
                let data = Payload::Bytes(&bytes[..sectors as usize * 512]);
                (content.write(&context, Lba(at), data).unwrap(), shadow.write(&context, Lba(at), data).unwrap())
            }
            Op::Trim { at, sectors } => {
                let a = content.trim().unwrap().trim(&context, Lba(at), sectors).unwrap();
                (a, shadow.trim().unwrap().trim(&context, Lba(at), sectors).unwrap())
            }
            _ => continue,
        };
        assert_eq!(a, b, "{op:?}");
        now = a.completed;
    }
    assert_eq!(content.counters(), shadow.counters());
    assert_eq!(content.recycling_histogram(), shadow.recycling_histogram());
    assert!(content.counters().migrations > 100 && content.counters().read_modify_writes > 1000);
    let chips = (content.into_flash(), shadow.into_flash());
    assert!(chips.0.erase_counts().eq(chips.1.erase_counts()));
}
