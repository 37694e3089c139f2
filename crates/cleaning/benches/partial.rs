//! The cost of partial collection and of the unified cleaner on one core: the choices for a segment,
//! by number of runs, and learning the time of a request.
//!
//! `cargo bench -p nandkit-cleaning --bench partial`: the throughput is in runs per second.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nandkit_cleaning::partial::{LearnedTimes, MeanHoles, Method, Plan, RequestTimes, ValidRun};
use nandkit_cleaning::unified::{self, Costs, RemapCost};
use nandkit_units::random::Random;

/// A segment of 512 blocks with `count` runs and holes of all sizes between them.
fn segment(count: u64) -> Vec<ValidRun> {
    let mut random = Random::new(1, "runs");
    let most = 512 / (2 * count) * 2 - 1;
    let mut draw = |_| 1 + random.below(most) as u16;
    let holes: Vec<u16> = (0..=count).map(&mut draw).collect();
    let run = |(number, holes): (usize, &[u16])| ValidRun {
        start: 0,
        length: draw(0),
        left: holes[0],
        right: holes[1],
        shares_left: number > 0,
    };
    holes.windows(2).enumerate().map(run).collect()
}

fn decisions(criterion: &mut Criterion) {
    let times = RequestTimes::new(
        512,
        |blocks| 500_000 + 20_000 * u64::from(blocks),
        |blocks| 9_000_000 + 300_000 * u64::from(blocks),
    );
    let (means, scattered) = (MeanHoles { inter: 40.0, intra: 4.0 }, MeanHoles { inter: 4.0, intra: 40.0 });
    let methods = [
        ("pgc", Method::RunByRun, means),
        ("pgc-optimal", Method::Optimal, means),
        // Runs may move either way, so that each number of freed blocks is a choice.
        ("pgc-optimal_scattered", Method::Optimal, scattered),
    ];
    for (name, method, means) in methods {
        let mut group = criterion.benchmark_group(format!("plan_{name}"));
        for count in [8, 64, 128] {
            let runs = segment(count);
            group.throughput(Throughput::Elements(count));
            group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                bencher.iter(|| Plan::of(black_box(&runs), &times, means, method));
            });
        }
        group.finish();
    }
    // Remaps are cheaper than copies, and the cold log appends: the usual case of a drive.
    let remap = Some(RemapCost { command_ns: 800_000.0, pair_ns: 1_000.0, pairs_max: 256, unit: 1 });
    let means = MeanHoles { inter: 512.0, intra: 4.0 };
    let costs = Costs { times: &times, means, remap, checkpoint_ns: 1e7, sorted_gain_ns: 0.0 };
    let mut group = criterion.benchmark_group("plan_unified");
    for count in [8, 64, 128] {
        let runs = segment(count);
        group.throughput(Throughput::Elements(count));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| unified::Plan::of(black_box(&runs), &costs));
        });
    }
    group.finish();
    let mut learned = LearnedTimes::default();
    let mut size = 0;
    criterion.bench_function("learn_a_request", |bencher| {
        bencher.iter(|| {
            size = size % 512 + 1;
            learned.read(size, 1_000);
            learned.wrote(size, 1_000);
        });
    });
    criterion.bench_function("curve_of_what_was_learned", |bencher| bencher.iter(|| learned.times(512)));
}

criterion_group!(benches, decisions);
criterion_main!(benches);
