//! How many host pages and page operations per second the translation layers simulate on one core,
//! on P4's chip with a shadow store, with the counting wrapper in the path.
//!
//! `cargo bench -p nandkit-ftl --bench block_map`: each line is one workload on the block-mapped
//! layer or on FAST. The throughput counts page operations (pages that the host writes and reads,
//! copies and map pages); `sequential_host` counts only host pages.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nandkit_block::BlockDevice;
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, FtlCounters};
use nandkit_nand_sim::{ChipSpec, ShadowChip};
use nandkit_units::random::Random;
use nandkit_units::{Context, Described, Description, Generator, Lba, Nanos, Payload, ReadInto};

type Chip = StatsFlash<ShadowChip>;

/// A translation layer with its counters.
trait Layer: BlockDevice {
    fn counted(&self) -> FtlCounters;
    fn read_pages(&self) -> u64;
}

impl Layer for BlockMapFtl<Chip> {
    fn counted(&self) -> FtlCounters {
        self.counters()
    }

    fn read_pages(&self) -> u64 {
        self.host_page_reads()
    }
}

impl Layer for FastFtl<Chip> {
    fn counted(&self) -> FtlCounters {
        self.counters()
    }

    fn read_pages(&self) -> u64 {
        self.host_page_reads()
    }
}

fn chip() -> Chip {
    let mut spec = ChipSpec::default();
    (spec.geometry.pages_per_block, spec.geometry.blocks) = (128, 1024);
    spec.timing.bus_ps_per_byte = 0;
    spec.timing.overlap = false;
    StatsFlash::new(ShadowChip::new(&spec, 1).unwrap())
}

fn block_map(policy: RecyclingPolicy) -> BlockMapFtl<Chip> {
    BlockMapFtl::attach(chip(), BlockMapOptions { policy, ..BlockMapOptions::default() }).unwrap()
}

fn fast() -> FastFtl<Chip> {
    FastFtl::attach(chip(), FastOptions::default()).unwrap()
}

struct Run<D> {
    device: D,
    now: Nanos,
    pages: u64,
    next: u64,
    version: u32,
    random: Random,
}

impl<D: Layer> Run<D> {
    fn new(device: D) -> Self {
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

    /// Random writes with a trim for each five.
    fn trims(&mut self) {
        let page = self.random.below(self.pages);
        if self.random.below(6) == 0 {
            let trim = self.device.trim().unwrap();
            self.now = trim.trim(&Context::at(self.now), Lba(page), 1).unwrap().completed;
        } else {
            self.write(page);
        }
    }

    /// Reads, and a write for each three.
    fn reads(&mut self) {
        let page = self.random.below(self.pages);
        if self.random.below(4) == 0 {
            return self.write(page);
        }
        let into = ReadInto::Nothing { length: 2048 };
        self.now = self.device.read(&Context::at(self.now), Lba(page), into).unwrap().completed;
    }

    fn operations(&self) -> u64 {
        let counters = self.device.counted();
        counters.host_page_writes + counters.pages_copied + counters.map_pages + self.device.read_pages()
    }
}

/// The unit of a throughput.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    HostPages,
    Operations,
}

fn measure<D: Layer>(criterion: &mut Criterion, name: &str, device: D, step: fn(&mut Run<D>), writes: u64, unit: Unit) {
    let mut run = Run::new(device);
    // One pass to learn how many page operations a pass has: the workload is stationary.
    let before = run.operations();
    (0..writes).for_each(|_| step(&mut run));
    let operations = run.operations() - before;
    println!("{name}: {:.2} page operations per host page", operations as f64 / writes as f64);
    let mut group = criterion.benchmark_group("ftl");
    group.sample_size(20);
    group.throughput(Throughput::Elements(if unit == Unit::HostPages { writes } else { operations }));
    group.bench_function(name, |bencher| bencher.iter(|| (0..writes).for_each(|_| step(&mut run))));
    group.finish();
}

fn bench(criterion: &mut Criterion) {
    use Unit::{HostPages, Operations};
    let merge = || block_map(RecyclingPolicy::Merge);
    let macroscopic = || block_map(RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Origin, cap: None });
    measure(criterion, "sequential_host", merge(), Run::sequential, 500_000, HostPages);
    measure(criterion, "sequential", merge(), Run::sequential, 500_000, Operations);
    measure(criterion, "random_merge", merge(), Run::random, 20_000, Operations);
    measure(criterion, "random_macroscopic", macroscopic(), Run::random, 20_000, Operations);
    measure(criterion, "hot_cold_merge", merge(), Run::hot_cold, 50_000, Operations);
    measure(criterion, "hot_cold_macroscopic", macroscopic(), Run::hot_cold, 50_000, Operations);
    measure(criterion, "mixed_macroscopic", macroscopic(), Run::mixed, 300_000, Operations);
    measure(criterion, "trims_macroscopic", macroscopic(), Run::trims, 20_000, Operations);
    measure(criterion, "reads_macroscopic", macroscopic(), Run::reads, 50_000, Operations);
    measure(criterion, "fast_sequential", fast(), Run::sequential, 500_000, Operations);
    measure(criterion, "fast_random", fast(), Run::random, 20_000, Operations);
}

criterion_group!(benches, bench);
criterion_main!(benches);
