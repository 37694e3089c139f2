//! The processor's time of cleaners that remap: what a moved block costs the host, from the choice
//! of the victim to the map of the new address. The device remaps in no time, so that only the
//! host's work is measured; checkpoints are not part of it.
//!
//! `cargo bench -p nandkit-f2fs --bench remap`: an iteration is a block.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nandkit_block::{BlockDevice, BlockGeometry, RamDevice, Remap, RemapLimits, Result, Trim};
use nandkit_cleaning::gather::{GatherCosts, ReadCosts};
use nandkit_cleaning::partial::RequestTimes;
use nandkit_cleaning::unified::RemapCost;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::clean::mover::{BlockMover, RemapMover};
use nandkit_f2fs::clean::reuse;
use nandkit_f2fs::clean::review::{
    CheckpointRequests, HoleRun, Measured, NoReview, ReuseFacts, ReusePlan, ReuseReview,
};
use nandkit_f2fs::clean::unified::{UnifiedCollection, UnifiedMover};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::{Log, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Context, Done, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};

/// Blocks of the device: 512 MiB.
const DEVICE: u64 = 1 << 17;
const BLOCK: u64 = 4096;
/// Files, each of which has pages in its inode and below it.
const FILES: u64 = 64;

/// A device in memory whose remaps change nothing. Only data are remapped, and no data are read
/// here.
#[derive(Debug)]
struct Remapping(RamDevice);

impl BlockDevice for Remapping {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.0.read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.0.write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.0.flush(context)
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        BlockDevice::trim(&mut self.0)
    }

    fn remap(&mut self) -> Option<&mut dyn Remap> {
        Some(self)
    }
}

impl Remap for Remapping {
    fn limits(&self) -> RemapLimits {
        RemapLimits { unit: BLOCK as u32, pairs_max: 256 }
    }

    fn share(&mut self, context: &Context, _: &[(Lba, Lba)]) -> Result<Done> {
        Ok(Done::immediately(context))
    }

    fn remap_move(&mut self, context: &Context, _: &[(Lba, Lba)]) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}

/// The times of a drive: copies are dear and remaps are cheap.
fn costs() -> GatherCosts {
    let times = RequestTimes::new(
        512,
        |blocks| 80_000 + 51_000 * u64::from(blocks),
        |blocks| 250_000 + 51_000 * u64::from(blocks),
    );
    let reads = ReadCosts { times, page_ns: 25_000.0, request_ns: 3_000.0, request_max: 32 };
    let remap = Some(RemapCost { command_ns: 200_000.0, pair_ns: 0.0, pairs_max: 256, unit: 1 });
    GatherCosts { reads, remap, flush_ns: 0.0 }
}

/// A volume of files that were written in turns of a page and are written again at random.
struct Bench {
    volume: WritableVolume<Remapping>,
    files: Vec<InodeNumber>,
    pages: u64,
    random: Random,
}

impl Bench {
    fn new(lfs: bool, share: f64) -> Self {
        let mut device = Remapping(RamDevice::with_sectors(BLOCK as u32, DEVICE).expect("a device"));
        let (clock, options) = (Clock::default(), MkfsOptions::default());
        let tree = EmptyTree::new(&options);
        Mkfs::new(&tree, options.clone()).expect("a plan").write(&mut device, &clock, &|_| {}).expect("an image");
        let options = WriteOptions { lfs, ipu_policy: Some(0), ..WriteOptions::default() };
        let mut volume = WritableVolume::mount(vec![device], clock, options).expect("a volume");
        let root = volume.root();
        let mut create = |file: u64| volume.create(root, format!("{file}").as_bytes(), &NewNode::FILE).expect("a file");
        let files = (0..FILES).map(&mut create).collect();
        let pages = (volume.segments().space.free_blocks() as f64 * share) as u64 / FILES;
        let mut bench = Self { volume, files, pages, random: Random::new(1, "overwrites") };
        for page in 0..pages {
            (0..FILES as usize).for_each(|file| bench.write(file, page));
        }
        bench.overwrite(2 * bench.pages * FILES);
        bench
    }

    fn write(&mut self, file: usize, page: u64) {
        let bytes = [7; BLOCK as usize];
        Changes::write(&mut self.volume, self.files[file], page * BLOCK, Payload::Bytes(&bytes)).expect("a write");
    }

    fn overwrite(&mut self, pages: u64) {
        for _ in 0..pages {
            let (file, page) = (self.random.below(FILES) as usize, self.random.below(self.pages));
            self.write(file, page);
        }
        self.volume.sync().expect("a checkpoint");
    }

    /// The time in which collections move `blocks` blocks, a section at a time.
    fn collect(&mut self, blocks: u64) -> Duration {
        let (mut moved, mut time) = (0, Duration::ZERO);
        while moved < blocks {
            self.overwrite(1024);
            let start = Instant::now();
            let outcome = self.volume.collect_one(Collection::Foreground).expect("a collection");
            time += start.elapsed();
            moved += outcome.map_or(0, |outcome| u64::from(outcome.data));
        }
        time.mul_f64(blocks as f64 / moved as f64)
    }

    /// The time in which segments with `blocks` valid blocks in all are reviewed and treated.
    /// `reads`: their files were read, so that the review weighs the order of their pages.
    fn review(&mut self, blocks: u64, reads: bool) -> Duration {
        let (mut seen, mut time) = (0, Duration::ZERO);
        let mut mover = UnifiedMover::new(costs());
        while seen < blocks {
            self.overwrite(1024);
            if reads {
                self.read_all();
            }
            let mut review = Counted(UnifiedCollection::new(costs(), 1), 0);
            let start = Instant::now();
            reuse::prepare(&mut self.volume, Log::WarmData, &mut review, &mut mover).expect("a review");
            time += start.elapsed();
            seen += review.1;
        }
        time.mul_f64(blocks as f64 / seen as f64)
    }

    fn read_all(&mut self) {
        let mut bytes = vec![0; (self.pages * BLOCK) as usize];
        for file in &self.files {
            FileSystem::read(&self.volume, *file, 0, ReadInto::Bytes(&mut bytes)).expect("a read");
        }
    }
}

/// A review, and the valid blocks of the segments that it saw.
struct Counted(UnifiedCollection, u64);

impl ReuseReview for Counted {
    fn wants_pages(&self) -> bool {
        self.0.wants_pages()
    }

    fn segments_per_checkpoint(&self) -> u32 {
        self.0.segments_per_checkpoint()
    }

    fn measured(&mut self, what: Measured) {
        self.0.measured(what);
    }

    fn review(&mut self, holes: &[HoleRun], facts: &ReuseFacts, checkpoint: CheckpointRequests<'_>) -> ReusePlan {
        self.1 += facts.valid.iter().map(|run| run.len() as u64).sum::<u64>();
        self.0.review(holes, facts, checkpoint)
    }
}

/// Sections are collected: what `mover` is for.
fn collections(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("collected_block");
    group.throughput(Throughput::Elements(1));
    let mut bench = Bench::new(true, 0.8);
    type MakeMover = fn() -> Box<dyn BlockMover>;
    let movers: [(&str, MakeMover); 3] = [
        ("remap", || Box::new(RemapMover::as_they_lie())),
        ("remap-sorted", || Box::new(RemapMover::sorted())),
        ("unified", || Box::new(UnifiedMover::new(costs()))),
    ];
    for (name, mover) in movers {
        bench.volume.set_mover(mover());
        group.bench_function(name, |bencher| bencher.iter_custom(|blocks| bench.collect(blocks)));
    }
    group.finish();
}

/// Segments are reviewed before their gaps are filled: what `unified` is for.
fn reviews(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reviewed_block");
    group.throughput(Throughput::Elements(1));
    let mut bench = Bench::new(false, 0.9);
    bench.volume.set_review(Box::new(UnifiedCollection::new(costs(), 1)));
    bench.volume.set_review(Box::new(NoReview));
    for reads in [false, true] {
        group.bench_function(if reads { "unified_read" } else { "unified" }, |bencher| {
            bencher.iter_custom(|blocks| bench.review(blocks, reads));
        });
    }
    group.finish();
}

criterion_group!(benches, collections, reviews);
criterion_main!(benches);
