//! Checks the best plan against all choices, and what decides between options.

use nandkit_units::random::Random;

use super::*;

/// A random segment of up to `most` runs, with and without shared holes.
fn segment(random: &mut Random, most: u64) -> Vec<ValidRun> {
    let count = 1 + random.below(most) as usize;
    let (mut runs, mut start): (Vec<ValidRun>, u16) = (Vec::new(), 0);
    for number in 0..count {
        let mut draw = |below: u64| random.below(below) as u16;
        let shares_left = number > 0 && draw(5) > 0;
        let left = if shares_left { runs[number - 1].right } else { draw(20) };
        let run = ValidRun { start: start + left, length: 1 + draw(15), left, right: draw(20), shares_left };
        start = run.start + run.length;
        runs.push(run);
    }
    runs
}

fn device(random: &mut Random) -> RequestTimes {
    let (fixed, byte) = (random.below(100_000), 1 + random.below(2_000));
    RequestTimes::new(
        512,
        move |blocks| fixed / 10 + 3 * u64::from(blocks),
        move |blocks| fixed + byte * u64::from(blocks),
    )
}

fn costs<'a>(random: &mut Random, times: &'a RequestTimes) -> Costs<'a> {
    let mut draw = |below: u64| random.below(below) as f64;
    let means = MeanHoles { inter: 1.0 + draw(5_120) / 10.0, intra: 1.0 + draw(5_120) / 10.0 };
    let (command_ns, pair_ns) = (draw(200_000), draw(4_000));
    let (checkpoint_ns, sorted_gain_ns) = (draw(300_000), draw(400_000));
    let [can, most, unit] = [5, 32, 3].map(|below| random.below(below) as u32);
    let remap = RemapCost { command_ns, pair_ns, pairs_max: 1 + most, unit: 1 << unit };
    Costs { times, means, remap: (can > 0).then_some(remap), checkpoint_ns, sorted_gain_ns }
}

/// The least time of all `5^runs` choices, and of all runs in order.
fn least(runs: &[ValidRun], costs: &Costs<'_>) -> f64 {
    let mut least = predict(runs, &vec![Way::RemapOut; runs.len()], true, costs);
    for number in 0..5_usize.pow(runs.len() as u32) {
        let digit = |place: usize| Way::ALL[number / 5_usize.pow(place as u32) % 5];
        let ways: Vec<Way> = (0..runs.len()).map(digit).collect();
        least = least.min(predict(runs, &ways, false, costs));
    }
    least
}

/// Victims of up to 5 runs, occasionally up to 8; always up to 8 if rounds are requested.
#[test]
fn the_plan_is_the_best_of_all_choices() {
    let rounds = std::env::var("NANDKIT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let mut random = Random::new(1, "victims by all ways");
    let (mut seen, mut sorted) = ([0; 5], 0);
    for round in 0..rounds {
        let most = if rounds > 150 || round % 75 == 74 { 8 } else { 5 };
        let (runs, times) = (segment(&mut random, most), device(&mut random));
        let costs = costs(&mut random, &times);
        let plan = Plan::of(&runs, &costs);
        let least = least(&runs, &costs);
        let close = 1e-9 * least.abs().max(1.0);
        assert!((plan.predicted_ns - least).abs() <= close, "round {round}: {plan:?}, least {least}");
        assert_eq!(plan.predicted_ns, predict(&runs, &plan.ways, plan.sorted, &costs));
        sorted += usize::from(plan.sorted);
        for way in &plan.ways {
            seen[Way::ALL.iter().position(|known| known == way).unwrap()] += 1;
        }
    }
    println!("{rounds} victims: {seen:?} runs by way, {sorted} in order");
    assert!(seen[0] > 0 && seen[1] + seen[2] > 0 && seen[3] + seen[4] > 0 && sorted > 0, "{seen:?}, {sorted}");
}

/// Three holes of 4 blocks with two runs of 2 between them; a request costs 1,000 ns plus 10 per
/// block.
#[test]
fn what_a_command_costs_decides_between_copies_and_remaps() {
    let times = RequestTimes::new(512, |blocks| 100 + u64::from(blocks), |blocks| 1_000 + 10 * u64::from(blocks));
    let run = |start, shares_left| ValidRun { start, length: 2, left: 4, right: 4, shares_left };
    let runs = [run(4, false), run(10, true)];
    let means = MeanHoles { inter: 512.0, intra: 4.0 };
    let with = |command_ns, unit, checkpoint_ns, sorted_gain_ns| {
        let remap = Some(RemapCost { command_ns, pair_ns: 1.0, pairs_max: 16, unit });
        Plan::of(&runs, &Costs { times: &times, means, remap, checkpoint_ns, sorted_gain_ns })
    };
    assert_eq!(with(100.0, 1, 0.0, 0.0).ways, [Way::RemapOut; 2]);
    assert_eq!(with(10_000.0, 1, 0.0, 0.0).ways, [Way::CopyOut; 2]);
    // 1,040 for each of three holes is less than one request and the checkpoint.
    assert_eq!(with(100.0, 1, 5_000.0, 0.0).ways, [Way::Leave; 2]);
    let credited = with(100.0, 1, 5_000.0, 4_000.0);
    assert!(credited.sorted && credited.predicted_ns < credited.left_ns, "{credited:?}");
    // Units of 4 blocks: no run contains one.
    assert_eq!(with(100.0, 4, 0.0, 0.0).ways, [Way::CopyOut; 2]);
    // By hand: a command of two pairs each, and all holes in one request of 16 blocks, of which 12
    // count.
    let plan = with(160.0, 1, 0.0, 0.0);
    let expected = 160.0 * 15.0 / 16.0 + 4.0 * (1.0 + 10.0) + 12.0 / 16.0 * 1_160.0;
    assert!((plan.predicted_ns - expected).abs() < 1e-9, "{plan:?}, expected {expected}");
    assert_eq!(
        Plan::of(&[], &Costs { times: &times, means, remap: None, checkpoint_ns: 1.0, sorted_gain_ns: 1.0 }).left_ns,
        0.0
    );
}
