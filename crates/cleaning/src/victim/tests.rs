//! Checks the policies against their published formulas.

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A block of the table: number, valid, invalid, free, erases, times of the last and first write in
/// seconds.
fn view(figures: (u32, u64, u64, u64, u32, u64, u64)) -> BlockView {
    let (block, valid, invalid, free, erases, written, first_written) = figures;
    BlockView {
        block,
        valid,
        invalid,
        free,
        erases,
        written: Nanos(written * SECOND),
        first_written: Nanos(first_written * SECOND),
        queue: Queue::of(valid, invalid, free),
        ..BlockView::default()
    }
}

/// Blocks of 100 bytes. At 100 s the ages are, last write / first write: 40/80, 10/12, 100/100,
/// 100/100, 10/90.
fn table() -> Vec<BlockView> {
    let figures = [
        (2, 50, 50, 0, 4, 60, 20),
        (5, 10, 90, 0, 1, 90, 88),
        (7, 80, 20, 0, 3, 0, 0),
        (9, 100, 0, 0, 0, 0, 0),
        (11, 40, 50, 10, 9, 90, 10),
    ];
    figures.map(view).to_vec()
}

fn choose(policy: &str, blocks: &[BlockView], now: u64) -> Option<u32> {
    let policy: VictimPolicy = policy.parse().unwrap();
    policy.choose(blocks.iter().copied(), Nanos(now * SECOND), &mut |_| 1).map(|choice| choice.block)
}

#[test]
fn each_rule_takes_the_block_that_its_formula_says() {
    for (policy, now, block) in [
        ("greedy", 100, 5),
        // Block 9 is as old, but clean.
        ("fifo", 100, 7),
        ("fifo:open-clean=yes", 100, 7),
        // (1-u)*age/(1+u): .5*40/1.5 = 13.3, .9*10/1.1 = 8.2, .2*100/1.8 = 11.1, .6*10/1.4 = 4.3.
        ("cost-benefit", 100, 2),
        // .5*80/1.5 = 26.7, .9*12/1.1 = 9.8, 11.1, .6*90/1.4 = 38.6.
        ("cost-benefit:age=created", 100, 11),
        // Ages 940, 910, 1000, 910: 313, 745, 111, 390.
        ("cost-benefit", 1000, 5),
        // age*(1-u)/(2u): 40*.5/1 = 20, 10*.9/.2 = 45, 100*.2/1.6 = 12.5, 10*.6/.8 = 7.5.
        ("cost-benefit-p1", 100, 5),
        // 40, 54, 12.5, 67.5.
        ("cost-benefit-p1:age=created", 100, 11),
        // Ages in the range 0 to 90 s: 100 - 66 = 34, 0, 100, 0: 100*50*34/150 = 1133, 0,
        // 100*20*100/180 = 1111, 0; independent of the current time.
        ("f2fs-cost-benefit", 1000, 2),
        // valid/invalid * 1/age * (erases + 1): 1/80*5 = .063, .111/12*2 = .019, 4/100*4 = .16,
        // .8/90*10 = .089.
        ("cat", 100, 5),
        // Oldest first: 7 and 11, of which 11 has less valid data.
        ("windowed-greedy:window=2", 100, 11),
        ("windowed-greedy:window=1", 100, 7),
        // 60*age + 40*(1-u), age in the range 0 to 90 s: 20+20, 0+36, 60+8, 0+24.
        ("age-threshold:threshold=0s,percent=100", 100, 7),
        ("age-threshold:threshold=0s,percent=100,weight=0", 100, 5),
        // The oldest two of four: 7 and 2.
        ("age-threshold:threshold=0s,percent=50,least=1,weight=0", 100, 2),
        // Only 7 was last written 80 s before the newest; none 91 s before.
        ("age-threshold:threshold=80s,weight=0", 100, 7),
        ("age-threshold:threshold=91s,weight=0", 100, 5),
        ("wear-aware", 100, 5),
        ("d-choices:d=64", 100, 5),
    ] {
        assert_eq!(choose(policy, &table(), now), Some(block), "{policy} at {now} s");
    }
    for name in names() {
        assert_eq!(choose(name, &[], 100), None, "{name}");
        let clean_alone = choose(name, &[table()[3]], 100);
        assert_eq!(clean_alone, (name == "jffs2-lists").then_some(9), "{name}");
        assert_eq!(choose(&format!("{name}:open-clean=yes"), &[table()[3]], 100), Some(9), "{name}");
    }
}

#[test]
fn an_empty_block_wins_cost_benefit_at_once() {
    let blocks = [(1, 1, 99, 0, 0, 0, 0), (2, 0, 1, 99, 0, 100, 100)].map(view);
    assert_eq!(choose("cost-benefit-p1", &blocks, 100), Some(2));
}

#[test]
fn cost_benefit_counts_the_read_of_the_block() {
    // .5*10/1.5 = 3.3 and .9*5/1.1 = 4.1, whereas .5*10 > .9*5.
    let blocks = [(1, 50, 50, 0, 0, 90, 90), (2, 10, 90, 0, 0, 95, 95)].map(view);
    assert_eq!(choose("cost-benefit", &blocks, 100), Some(2));
}

#[test]
fn what_p2_leaves_open_in_cat_decides() {
    // Without an offset, a block that was never erased is the best victim, however full.
    let never_erased = [(1, 1, 99, 0, 1, 0, 0), (2, 99, 1, 0, 0, 0, 0)].map(view);
    assert_eq!(choose("cat:erase-offset=0", &never_erased, 100), Some(2));
    assert_eq!(choose("cat", &never_erased, 100), Some(1));
    // Free bytes are not invalid, but Chiang's segments gain them: 4 and 1.5 against 2/3 and 1.5.
    let free = [(1, 40, 10, 50, 0, 0, 0), (2, 60, 40, 0, 0, 0, 0)].map(view);
    assert_eq!((choose("cat", &free, 100), choose("cat-chiang", &free, 100)), (Some(2), Some(1)));
    // Ages of 1024 and 2 units: 1.5/1024 and .11/2; with logarithms 1.5/11 and .11/2.
    let old = [(1, 60, 40, 0, 0, 0, 0), (2, 10, 90, 0, 0, 1022, 1022)].map(view);
    assert_eq!(choose("cat-chiang:age-unit=1s", &old, 1024), Some(1));
    assert_eq!(choose("cat-chiang:age-unit=1s,log-age=yes", &old, 1024), Some(2));
    // A clean block counts as 1 % invalid: 100/10000 against 1/50.
    let clean = [(1, 50, 50, 0, 0, 9_950, 9_950), (2, 100, 0, 0, 0, 0, 0)].map(view);
    let found = ["cat", "cat:open-clean=yes", "cat:open-clean=yes,invalid-floor=0"];
    assert_eq!(found.map(|policy| choose(policy, &clean, 10_000)), [Some(1), Some(2), Some(1)]);
    // Age 0 counts as one unit: 1/.001 against .25/1.
    let young = [(1, 50, 50, 0, 0, 100, 100), (2, 20, 80, 0, 0, 99, 99)].map(view);
    assert_eq!(choose("cat", &young, 100), Some(2));
}

#[test]
fn wear_counts_by_the_gap() {
    let mut blocks = table();
    blocks[1].erases = 20;
    // Half and half: .25+.5*1/17, .05+.5, .4+0, .2+.5*6/17.
    assert_eq!(choose("wear-aware:balance=17", &blocks, 100), Some(2));
    assert_eq!(choose("wear-aware:balance=1000000", &blocks, 100), Some(5));
    assert_eq!(choose("wear-aware:balance=0", &blocks, 100), Some(7));
}

/// One block per list; its number is that of the list.
fn lists(present: &[Queue]) -> Vec<BlockView> {
    present.iter().map(|&queue| BlockView { block: queue as u32, queue, ..BlockView::default() }).collect()
}

#[test]
fn linux_draws_the_list_and_takes_its_head() {
    use Queue::{BadUsed, Clean, Dirty, Erasable, VeryDirty};
    let policy = VictimPolicy::of(&rules::jffs2_lists::Jffs2Lists);
    let choose = |blocks: &[BlockView], n: u32| {
        let mut draw = |bound: u32| {
            assert_eq!(bound, 128);
            n
        };
        policy.choose(blocks.iter().copied(), Nanos::ZERO, &mut draw).unwrap()
    };
    // fs/jffs2/gc.c of Linux 6.1: at which draws the list changes, by the lists that are not empty.
    type Case<'a> = (&'a [Queue], &'a [(u32, Queue)]);
    let cases: [Case<'_>; 8] = [
        (&[Erasable, VeryDirty, Dirty, Clean], &[(0, Erasable), (50, VeryDirty), (110, Dirty), (126, Clean)]),
        (&[Erasable, Dirty, Clean], &[(0, Erasable), (50, Dirty), (126, Clean)]),
        (&[VeryDirty, Clean], &[(0, VeryDirty), (110, Clean)]),
        (&[Erasable, VeryDirty, Dirty], &[(0, Erasable), (50, VeryDirty), (110, Dirty)]),
        (&[Erasable, VeryDirty], &[(0, Erasable), (50, VeryDirty)]),
        (&[VeryDirty, Dirty], &[(0, VeryDirty), (110, Dirty)]),
        (&[Erasable], &[(0, Erasable)]),
        (&[BadUsed, Erasable, VeryDirty, Dirty, Clean], &[(0, BadUsed)]),
    ];
    for (present, changes) in cases {
        for n in 0..128 {
            let queue = changes.iter().rev().find(|(from, _)| n >= *from).unwrap().1;
            let choice = choose(&lists(present), n);
            assert_eq!(choice, Choice { block: queue as u32, reason: Reason::Head(queue), evaluated: 1 }, "{n}");
        }
    }
    let mut dirty = table();
    for (view, place) in dirty.iter_mut().zip([3, -2, 8, 0, -2]) {
        (view.queue, view.place) = (Dirty, place);
    }
    assert_eq!(choose(&dirty, 0).block, 5);
}

#[test]
fn the_baseline_of_p2_reads_one_dirty_list_in_order() {
    let mut blocks = table();
    for (view, dirtied) in blocks.iter_mut().zip([30, 10, 20, -1, 40]) {
        (view.dirtied, view.place) = (dirtied, -dirtied);
    }
    let mut order = Vec::new();
    while let Some(block) = choose("p2-baseline:open-clean=yes", &blocks, 0) {
        order.push(block);
        blocks.retain(|view| view.block != block);
    }
    assert_eq!(order, [5, 7, 2, 11, 9]);
}

#[test]
fn drawn_blocks_are_drawn_evenly() {
    let blocks: Vec<_> = (0..10).map(|block| view((block, u64::from(block) + 1, 20, 0, 0, 0, 0))).collect();
    // Greedy among two of ten: block b is the best of 9 - b of 45 pairs.
    let expect_two = |block: usize| 45_000 * (9 - block) / 45;
    let tests: [(&str, &dyn Fn(usize) -> usize); 3] =
        [("random", &|_| 4_500), ("d-choices:d=1", &|_| 4_500), ("d-choices:d=2", &expect_two)];
    for (policy, expected) in tests {
        let parsed: VictimPolicy = policy.parse().unwrap();
        let mut random = nandkit_units::random::Random::new(5, policy);
        let mut hits = [0_usize; 10];
        for _ in 0..45_000 {
            let mut draw = |bound: u32| random.below(u64::from(bound)) as u32;
            hits[parsed.choose(blocks.iter().copied(), Nanos::ZERO, &mut draw).unwrap().block as usize] += 1;
        }
        for (block, &hits) in hits.iter().enumerate() {
            // Five standard deviations of a count are at most 480.
            assert!(hits.abs_diff(expected(block)) < 480, "{policy}: block {block}, {hits} times");
        }
    }
}

#[test]
fn the_best_of_drawn_blocks_is_drawn_among_equals() {
    let blocks: Vec<_> = (0..10).map(|block| view((block, 30, 20, u64::from(block), 0, 0, 0))).collect();
    let policy: VictimPolicy = "d-choices:d=10".parse().unwrap();
    let mut random = nandkit_units::random::Random::new(5, "ties");
    let mut hits = [0_usize; 10];
    for _ in 0..45_000 {
        let mut draw = |bound: u32| random.below(u64::from(bound)) as u32;
        hits[policy.choose(blocks.iter().copied(), Nanos::ZERO, &mut draw).unwrap().block as usize] += 1;
    }
    // Five standard deviations of a count are at most 320.
    assert!(hits.iter().all(|hits| hits.abs_diff(4_500) < 320), "{hits:?}");
}

#[test]
fn static_wear_levelling_takes_the_coldest_now_and_then() {
    let mut blocks = table();
    blocks[2].erases = 0;
    blocks[0].written = Nanos::ZERO;
    let choose = |policy: &str, drawn: u32| {
        let policy: VictimPolicy = policy.parse().unwrap();
        let choice = policy.choose(blocks.iter().copied(), Nanos(100 * SECOND), &mut |_| drawn).unwrap();
        (choice.block, choice.reason)
    };
    assert_eq!(choose("greedy:level-one-in=100", 0), (7, Reason::Leveling));
    assert_eq!(choose("greedy:level-one-in=100,level-coldest=least-erased", 0), (7, Reason::Leveling));
    assert_eq!(choose("greedy:level-one-in=100", 1), (5, Reason::Best));
    assert_eq!(choose("greedy:level-one-in=0", 0), (5, Reason::Best));
    // Erase counts range from 0 to 9.
    assert_eq!(choose("greedy:level-gap=8", 0), (7, Reason::Leveling));
    assert_eq!(choose("greedy:level-gap=9", 0), (5, Reason::Best));
}

#[test]
fn names_and_options_are_read_as_they_are_written() {
    for name in names() {
        let policy: VictimPolicy = name.parse().unwrap();
        assert_eq!((policy.name(), policy.to_string().as_str()), (name, name));
    }
    for (old, now) in
        [("linux", "jffs2-lists"), ("cost-benefit-linux:open-clean=no", "f2fs-cost-benefit:open-clean=no")]
    {
        assert_eq!(old.parse::<VictimPolicy>().unwrap().to_string(), now);
    }
    for text in [
        "jffs2-lists:open-clean=no,level-one-in=100",
        "cat:erase-offset=0,age=written,age-unit=1s,invalid-floor=0,open-clean=yes",
        "cat-chiang:log-age=yes,level-gap=4096",
        "d-choices:d=3,level-one-in=7,level-coldest=least-erased",
        "age-threshold:threshold=1500us,percent=5,least=1,weight=0",
        "cost-benefit:age=created",
    ] {
        assert_eq!(text.parse::<VictimPolicy>().unwrap().to_string(), text);
    }
    for (text, error) in [
        ("gready", "no victim policy `gready`; there are jffs2-lists, "),
        ("greedy:d=2", "victim policy `greedy` has no option `d`; it has open-clean, "),
        ("d-choices:d=65", "`65` is no value for `d` of victim policy `d-choices`, which takes 1 to 64"),
        ("cat:age-unit=7", "`7` is no value for `age-unit` of victim policy `cat`, which takes time"),
    ] {
        let found = text.parse::<VictimPolicy>().unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }
}
