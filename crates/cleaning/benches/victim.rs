//! The cost of choosing one victim on one core, by policy and number of blocks, with every block a
//! candidate.
//!
//! `cargo bench -p nandkit-cleaning --bench victim`: each line is a policy with its default
//! options; the time is that of one choice.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use nandkit_cleaning::victim::{BlockView, Queue, VictimPolicy, names};
use nandkit_units::Nanos;
use nandkit_units::random::Random;

fn blocks(count: u32) -> Vec<BlockView> {
    let mut random = Random::new(1, "blocks");
    let block = |block| {
        let invalid = random.between(1, 131_072);
        let first_written = Nanos(random.below(1 << 40));
        let place = random.next_u64() as i64;
        BlockView {
            block,
            valid: 131_072 - invalid,
            invalid,
            free: 0,
            erases: random.below(1000) as u32,
            written: first_written + Nanos(random.below(1 << 30)),
            first_written,
            queue: Queue::of(131_072 - invalid, invalid, 0),
            place,
            dirtied: place,
            ..BlockView::default()
        }
    };
    (0..count).map(block).collect()
}

fn choices(criterion: &mut Criterion) {
    for count in [256, 8192] {
        let blocks = blocks(count);
        let mut group = criterion.benchmark_group(format!("choice_of_{count}"));
        for name in names() {
            let Ok(policy) = name.parse::<VictimPolicy>() else { continue };
            let mut random = Random::new(1, "draws");
            let mut draw = |bound: u32| random.below(u64::from(bound)) as u32;
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter(|| policy.choose(black_box(&blocks).iter().copied(), Nanos(1 << 41), &mut draw));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, choices);
criterion_main!(benches);
