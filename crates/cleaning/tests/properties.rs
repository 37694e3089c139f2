//! Properties that hold for every policy and every separation, on any input.

use nandkit_cleaning::separation::{self, Datum, DatumKey, Event, Separation, Separator, Stamp};
use nandkit_cleaning::victim::{self, BlockView, Choice, Queue, VictimPolicy};
use nandkit_units::Nanos;
use nandkit_units::random::hash;
use proptest::prelude::*;

/// Small numbers, so that blocks are often equal, and the largest.
fn figure() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..4_u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn view() -> impl Strategy<Value = BlockView> {
    let queue = (0..5_usize)
        .prop_map(|index| [Queue::BadUsed, Queue::Erasable, Queue::VeryDirty, Queue::Dirty, Queue::Clean][index]);
    let numbers = (0..1000_u32, figure(), figure(), figure(), figure(), figure(), figure());
    (numbers, queue, -2..2_i64, -2..2_i64).prop_map(|(numbers, queue, place, dirtied)| {
        let (block, valid, invalid, free, erases, written, first_written) = numbers;
        let (written, first_written) = (Nanos(written), Nanos(first_written));
        let erases = erases.min(u64::from(u32::MAX)) as u32;
        BlockView {
            block,
            valid,
            invalid,
            free,
            erases,
            written,
            first_written,
            queue,
            place,
            dirtied,
            mean_written: None,
            region: 0,
        }
    })
}

fn policies() -> Vec<VictimPolicy> {
    let extras = ["", "open-clean=yes", "open-clean=no", "level-one-in=2", "level-gap=2"];
    victim::names().flat_map(|name| extras.map(|extra| format!("{name}:{extra}").parse().unwrap())).collect()
}

fn choose(policy: &VictimPolicy, blocks: &[BlockView], now: u64, seed: u64) -> Option<Choice> {
    let mut turn = 0;
    let mut draw = |bound: u32| {
        turn += 1;
        (hash(seed, turn, 0) % u64::from(bound)) as u32
    };
    policy.choose(blocks.iter().copied(), Nanos(now), &mut draw)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_choice_is_offered_lowest_among_equals_and_independent_of_order(
        mut blocks in prop::collection::vec(view(), 0..40),
        now in figure(),
        seed in any::<u64>(),
    ) {
        blocks.sort_by_key(|view| view.block);
        blocks.dedup_by_key(|view| view.block);
        let mut shuffled = blocks.clone();
        shuffled.sort_by_key(|view| hash(seed, 0, u64::from(view.block)));
        for policy in policies() {
            let choice = choose(&policy, &blocks, now, seed);
            prop_assert_eq!(choice, choose(&policy, &shuffled, now, seed), "{}", policy);
            let Some(choice) = choice else {
                // Only clean blocks may be refused.
                prop_assert!(blocks.iter().all(|view| view.queue == Queue::Clean), "{}", policy);
                continue;
            };
            let victim = blocks.iter().find(|view| view.block == choice.block);
            prop_assert!(victim.is_some(), "{}", policy);
            prop_assert!((1..=blocks.len() as u32).contains(&choice.evaluated), "{}", policy);
            let drawn = ["random", "d-choices"].contains(&policy.name()) && choice.reason != victim::Reason::Leveling;
            let same = |view: &&BlockView| BlockView { block: choice.block, ..**view } == *victim.unwrap();
            prop_assert!(drawn || blocks.iter().find(same) == victim, "{}", policy);
        }
    }

    #[test]
    fn data_stay_within_the_regions_and_every_move_is_counted(
        regions in 1..=16_u8,
        steps in prop::collection::vec((0..3_u8, 0..8_u64, any::<u8>(), figure(), figure()), 0..100),
    ) {
        let sized = [("dac", regions), ("interval", regions), ("frequency", regions.min(8))];
        let sized = sized.map(|(name, regions)| format!("{name}:regions={regions}"));
        let by_writes = ["dac", "interval"].map(|name| format!("{name}:regions={regions},base=writes"));
        let chain = format!("chain:groups={regions}");
        let names = separation::names().map(str::to_owned).chain(sized).chain(by_writes).chain([chain]);
        for scheme in names.map(|name| name.parse::<Separation>().unwrap()) {
            let mut separator = Separator::new(scheme);
            let mut moves = [0, 0];
            for &(step, key, region, stamp, now) in &steps {
                let (key, now, before) = (DatumKey(key), Nanos(now), Datum { region, stamp: Stamp(stamp) });
                let after = match step {
                    0 => separator.on_write(key, region.is_multiple_of(2).then_some(before), now),
                    1 => separator.on_clean(key, before, now),
                    _ => {
                        separator.on_victim(region, Stamp(stamp), now);
                        continue;
                    }
                };
                moves[usize::from(step)] += 1;
                prop_assert!(after.region < scheme.regions(), "{}", scheme);
                prop_assert!(step == 0 || after.stamp == before.stamp, "{}", scheme);
            }
            let counted = |event| separator.flows().iter().filter(|flow| flow.0 == event).map(|flow| flow.3).sum::<u64>();
            prop_assert_eq!([Event::Write, Event::Clean].map(counted), moves, "{}", scheme);
        }
    }
}
