//! How many host pages and page operations per second the block-mapped layer simulates on one core, on P4's chip with a shadow store, with the
//! counting wrapper in the path.
//!
//! `cargo bench -p nandkit-ftl --bench block_map`: each line is one workload. The throughput is that of page operations (host pages, copies and map
//! pages); `sequential_host` counts host pages alone.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nandkit_block::BlockDevice;
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, LogicalCapacity};
use nandkit_nand_sim::{ChipSpec, ShadowChip};
use nandkit_units::random::Random;
use nandkit_units::{Context, Described, Description, Generator, Lba, Nanos, Payload};

type Device = BlockMapFtl<StatsFlash<ShadowChip>>;

fn device(policy: RecyclingPolicy) -> Device {
    let mut spec = ChipSpec::default();
    (spec.geometry.pages_per_block, spec.geometry.blocks) = (128, 1024);
    spec.timing.bus_ps_per_byte = 0;
    spec.timing.overlap = false;
    let flash = StatsFlash::new(ShadowChip::new(&spec, 1).unwrap());
    let options = BlockMapOptions { capacity: LogicalCapacity::Automatic, policy, ..BlockMapOptions::default() };
    BlockMapFtl::attach(flash, options).unwrap()
}

struct Run {
    device: Device,
    now: Nanos,
    pages: u64,
    next: u64,
    version: u32,
    random: Random,
}

impl Run {
    fn new(policy: RecyclingPolicy) -> Self {
        let device = device(policy);
        let pages = device.geometry().sectors;
        let mut run = Self { device, now: Nanos::ZERO, pages, next: 0, version: 0, random: Random::new(1, "bench") };
        (0..pages).for_each(|_| run.sequential());
        run
    }

    fn write(&mut self, page: u64) {
        self.version += 1;
        let description =
            Description { record: page, version: self.version & 0xFFF, offset: 0, generator: Generator::Record };
        let payload = Payload::Described(Described { description, length: 2048 });
        self.now = self.device.write(&Context::at(self.now), Lba(page), payload).unwrap().completed;
    }

    fn sequential(&mut self) {
        let page = self.next;
        self.next = if page + 1 == self.pages { 0 } else { page + 1 };
        self.write(page);
    }

    fn random(&mut self) {
        let page = self.random.below(self.pages);
        self.write(page);
    }

    /// Nine of ten writes to the first few blocks.
    fn hot_cold(&mut self) {
        let range = if self.random.below(10) < 9 { 4 * 128 } else { self.pages };
        let page = self.random.below(range);
        self.write(page);
    }

    /// Files written in order, and metadata pages in between.
    fn mixed(&mut self) {
        if self.random.below(4) == 0 {
            let page = self.random.below(6);
            self.write(page);
        } else {
            self.sequential();
        }
    }

    fn operations(&self) -> u64 {
        let counters = self.device.counters();
        counters.host_page_writes + counters.pages_copied + counters.map_pages
    }
}

/// Name, policy, one write, writes per pass.
type Workload = (&'static str, RecyclingPolicy, fn(&mut Run), u64);

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block_map");
    group.sample_size(20);
    let macroscopic = RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Origin, cap: None };
    let workloads: [Workload; 6] = [
        ("sequential_host", RecyclingPolicy::Merge, Run::sequential, 500_000),
        ("random_merge", RecyclingPolicy::Merge, Run::random, 20_000),
        ("random_macroscopic", macroscopic, Run::random, 20_000),
        ("hot_cold_merge", RecyclingPolicy::Merge, Run::hot_cold, 50_000),
        ("hot_cold_macroscopic", macroscopic, Run::hot_cold, 50_000),
        ("mixed_macroscopic", macroscopic, Run::mixed, 300_000),
    ];
    for (name, policy, step, writes) in workloads {
        let mut run = Run::new(policy);
        // One pass to know how many page operations a pass has: the workload is stationary.
        let before = run.operations();
        (0..writes).for_each(|_| step(&mut run));
        let operations = run.operations() - before;
        println!("{name}: {:.2} page operations per host page", operations as f64 / writes as f64);
        group.throughput(Throughput::Elements(if name == "sequential_host" { writes } else { operations }));
        group.bench_function(name, |bencher| bencher.iter(|| (0..writes).for_each(|_| step(&mut run))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
