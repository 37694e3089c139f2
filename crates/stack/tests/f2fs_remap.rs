//! F2FS over a page-mapped layer that remaps, by each way of cleaning with it: every page is what
//! was written last, neither the check nor fsck.f2fs nor the layer's own check has anything to say,
//! and cuts lose nothing that was durable.

use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_cleaning::gather::{GatherCosts, ReadCosts};
use nandkit_cleaning::partial::RequestTimes;
use nandkit_cleaning::unified::RemapCost;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::clean::mover::{CopyMover, RemapMover};
use nandkit_f2fs::clean::unified::{UnifiedCollection, UnifiedMover};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::write::{GatherOptions, Gathered, PageLimits};
use nandkit_f2fs::{WritableVolume, WriteOptions, check};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_testkit::judges;
use nandkit_testkit::rounds::in_parallel;
use nandkit_units::random::{Random, hash};
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode, all_extents};

type Layer = PageMapFtl<ContentChip>;

const PAGE: usize = 4096;
const FILES: usize = 6;

fn clock() -> Clock {
    Clock::starting_at(0)
}

/// A page-mapped layer on `mib` MiB of flash with eight dies.
fn layer(mib: u32, aliases: u32) -> Layer {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (4096, 4096, 128);
    (geometry.blocks, geometry.pages_per_block, geometry.dies, geometry.channels) = (8 * mib, 32, 8, 2);
    PageMapFtl::format(ContentChip::new(&spec, 1).unwrap(), layer_options(aliases)).unwrap()
}

fn layer_options(aliases: u32) -> PageMapOptions {
    let journal = Some(JournalOptions { checkpoint_every: 0, aliases });
    PageMapOptions { spare: Spare::Ratio(0.12), journal, ..PageMapOptions::default() }
}

fn made<D: BlockDevice>(mut device: D) -> D {
    let options = MkfsOptions::default();
    Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    device
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Copy,
    Remap,
    Sorted,
    Unified,
}

const MODES: [Mode; 4] = [Mode::Copy, Mode::Remap, Mode::Sorted, Mode::Unified];

/// About as long as the chip takes: 51 us a block over two channels, pages of eight dies at once.
fn costs() -> GatherCosts {
    let times = RequestTimes::new(
        512,
        |blocks| 80_000 + 51_000 * u64::from(blocks),
        |blocks| 250_000 + 51_000 * u64::from(blocks),
    );
    let reads = ReadCosts { times, page_ns: 25_000.0, request_ns: 0.0, request_max: 32 };
    GatherCosts {
        reads,
        remap: Some(RemapCost { command_ns: 200_000.0, pair_ns: 0.0, pairs_max: 16, unit: 1 }),
        flush_ns: 0.0,
    }
}

fn mount<D: BlockDevice>(device: D, mode: Mode) -> WritableVolume<D> {
    // Pages of several files wait at a time, so that they lie in turns.
    let pages = PageLimits { dirty: FILES, clean: 64 };
    let options = WriteOptions { ipu_policy: Some(0), pages, ..WriteOptions::default() };
    let mut volume = WritableVolume::mount(vec![device], clock(), options).unwrap();
    match mode {
        Mode::Copy => volume.set_mover(Box::new(CopyMover)),
        Mode::Remap => volume.set_mover(Box::new(RemapMover::as_they_lie())),
        Mode::Sorted => volume.set_mover(Box::new(RemapMover::sorted())),
        Mode::Unified => {
            volume.set_mover(Box::new(UnifiedMover::new(costs())));
            volume.set_review(Box::new(UnifiedCollection::new(costs(), 1)));
        }
    }
    volume
}

fn unmount<D: BlockDevice + std::fmt::Debug>(volume: WritableVolume<D>) -> D {
    volume.unmount().map_err(|(_, error)| error).unwrap().remove(0)
}

/// A page of a file in a version; never zero throughout.
fn page(file: usize, number: usize, version: u32) -> Vec<u8> {
    let seed = hash(file as u64, number as u64, u64::from(version));
    (0..PAGE as u64 / 8).flat_map(|at| (seed ^ at).to_le_bytes()).collect()
}

/// Files and the versions of their pages: now, and where a sync has them for certain.
#[derive(Clone, Default)]
struct Model {
    now: Vec<Vec<u32>>,
    durable: Vec<Vec<u32>>,
}

impl Model {
    fn write<D: BlockDevice>(
        &mut self,
        volume: &mut WritableVolume<D>,
        file: usize,
        number: usize,
    ) -> nandkit_vfs::Result<()> {
        let versions = &mut self.now[file];
        if versions.len() <= number {
            versions.resize(number + 1, 0);
        }
        versions[number] += 1;
        let bytes = page(file, number, versions[number]);
        Changes::write(volume, inode(volume, file), (number * PAGE) as u64, Payload::Bytes(&bytes)).map(|_| ())
    }

    fn sync<D: BlockDevice>(&mut self, volume: &mut WritableVolume<D>) -> nandkit_vfs::Result<()> {
        Changes::sync(volume, None)?;
        self.durable = self.now.clone();
        Ok(())
    }

    /// Each page is in a version from the last durable one on.
    fn judge<D: BlockDevice>(&self, volume: &WritableVolume<D>, context: &str) {
        let mut bytes = vec![0; PAGE];
        for (file, versions) in self.now.iter().enumerate() {
            let inode = inode(volume, file);
            for (number, version) in versions.iter().enumerate() {
                let least = self.durable.get(file).and_then(|file| file.get(number)).copied().unwrap_or(0);
                FileSystem::read(volume, inode, (number * PAGE) as u64, ReadInto::Bytes(&mut bytes)).unwrap();
                let found = (least..=*version).any(|version| version > 0 && bytes == page(file, number, version));
                assert!(found || least == 0, "{context}: file {file}, page {number}, versions {least} to {version}");
            }
        }
    }
}

fn inode<D: BlockDevice>(volume: &WritableVolume<D>, file: usize) -> InodeNumber {
    volume.lookup(volume.root(), format!("file-{file}").as_bytes()).unwrap()
}

/// Writes files in turns of a page, until they take the share `share` of the free blocks. Then
/// makes holes between their pages: with `again` pages are written again here and there, otherwise
/// one more file that lay among them is removed.
fn fill<D: BlockDevice>(
    volume: &mut WritableVolume<D>,
    model: &mut Model,
    share: f64,
    random: &mut Random,
    again: bool,
) {
    model.now = vec![Vec::new(); FILES];
    for file in 0..=FILES {
        volume.create(volume.root(), format!("file-{file}").as_bytes(), &NewNode::FILE).unwrap();
    }
    let goes = inode(volume, FILES);
    let pages = (volume.segments().space.free_blocks() as f64 * share) as usize / FILES;
    for number in 0..pages {
        for file in 0..FILES {
            model.write(volume, file, number).unwrap();
        }
        if !again {
            Changes::write(volume, goes, (number * PAGE) as u64, Payload::Bytes(&[1; PAGE])).unwrap();
        }
    }
    model.sync(volume).unwrap();
    if again {
        for _ in 0..pages * 2 {
            let number = random.below(pages as u64) as usize;
            model.write(volume, random.below(FILES as u64) as usize, number).unwrap();
        }
    }
    volume.remove(volume.root(), format!("file-{FILES}").as_bytes()).unwrap();
    model.sync(volume).unwrap();
}

fn assert_sound(device: &impl BlockDevice, with_fsck: bool, context: &str) {
    let sectors = device.geometry().sectors;
    let mut image = vec![0; sectors as usize * PAGE];
    for (sector, bytes) in image.chunks_exact_mut(PAGE).enumerate() {
        device.read(&Context::default(), Lba(sector as u64), ReadInto::Bytes(bytes)).unwrap();
    }
    let mut copy = RamDevice::with_sectors(4096, sectors).unwrap();
    copy.write(&Context::default(), Lba(0), Payload::Bytes(&image)).unwrap();
    let report = check(vec![copy], clock()).unwrap();
    let wrong: Vec<_> = report.findings.iter().filter(|found| !found.is_harmless()).collect();
    assert!(wrong.is_empty(), "{context}: {wrong:?}");
    if with_fsck {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, image).unwrap();
        judges::must_be_sound(judges::fsck_f2fs(&path), context);
    }
}

fn fragments<D: BlockDevice>(volume: &WritableVolume<D>) -> usize {
    (0..FILES).map(|file| all_extents(volume, inode(volume, file)).unwrap().len()).sum()
}

/// Reads a file from its beginning to its end.
fn read_through<D: BlockDevice>(volume: &WritableVolume<D>, file: usize) {
    let length = volume.stat(inode(volume, file)).unwrap().size as u32;
    FileSystem::read(volume, inode(volume, file), 0, ReadInto::Nothing { length }).unwrap();
}

/// One work by each way, with room and without: what is left is whole.
#[test]
fn volumes_that_each_mover_leaves_are_whole() {
    // Room for one command, and for no second one before a checkpoint.
    let few = layer(80, 0).remap().unwrap().limits().pairs_max + 8;
    let plenty = [(Mode::Copy, 0), (Mode::Remap, 6000), (Mode::Sorted, 6000), (Mode::Unified, 6000)];
    for (mode, aliases) in plenty.into_iter().chain([(Mode::Sorted, few)]) {
        let context = format!("{mode:?}, {aliases} aliases");
        let mut random = Random::new(1, "remapped");
        let mut volume = mount(made(layer(80, aliases)), mode);
        let mut model = Model::default();
        fill(&mut volume, &mut model, 0.8, &mut random, true);
        let before = fragments(&volume);
        for round in 0..24 {
            if round % 8 == 0 {
                (0..FILES).for_each(|file| read_through(&volume, file));
            }
            for _ in 0..60 {
                let number = random.below(model.now[0].len() as u64) as usize;
                model.write(&mut volume, random.below(FILES as u64) as usize, number).unwrap();
            }
            let why = if round % 4 == 0 { Collection::Background } else { Collection::Foreground };
            volume.collect_one(why).unwrap();
            model.sync(&mut volume).unwrap();
        }
        model.judge(&volume, &context);
        let (counters, after) = (*volume.counters(), fragments(&volume));
        let (remapped, copied) = (counters.remapped, counters.copied());
        println!("{context}: {remapped} remapped, {copied} copied, fragments {before} to {after}");
        match (mode, aliases) {
            (Mode::Copy, _) => assert!(remapped == 0 && copied > 0),
            _ if aliases == few => assert!(remapped > 0 && copied > 0, "{remapped} remapped, {copied} copied"),
            (Mode::Unified, _) => assert!(remapped > 0),
            _ => assert!(remapped > 1000 && copied == 0, "{remapped} remapped, {copied} copied"),
        }
        let device = unmount(volume);
        device.check().unwrap();
        assert_eq!(device.counters().remapped_pages, remapped, "{context}: pages that the layer remapped");
        assert_sound(&device, true, &context);
        let device = Layer::attach(device.into_flash(), layer_options(aliases)).unwrap();
        device.check().unwrap();
        model.judge(&mount(device, mode), &context);
    }
}

/// Sorting is what puts files together: six files in turns of a page, collected once each segment.
#[test]
fn files_lie_together_behind_a_sorted_collection() {
    let mut counts = [0; 4];
    for (mode, count) in MODES.into_iter().zip(&mut counts) {
        let mut volume = mount(made(layer(144, 8000)), mode);
        let mut model = Model::default();
        fill(&mut volume, &mut model, 0.2, &mut Random::new(2, "in turns"), false);
        for _ in 0..24 {
            volume.collect_one(Collection::Foreground).unwrap();
            model.sync(&mut volume).unwrap();
        }
        model.judge(&volume, "sorted");
        *count = fragments(&volume);
    }
    let [copied, remapped, sorted, unified] = counts;
    println!("fragments: copied {copied}, remapped {remapped}, sorted {sorted}, unified {unified}");
    assert!(sorted * 3 < remapped && sorted * 3 < copied && unified * 3 < copied, "{counts:?}");
}

/// A file is read, and what is worth it gathered.
fn gather<D: BlockDevice>(volume: &mut WritableVolume<D>) -> Gathered {
    (0..4).for_each(|_| read_through(volume, 1));
    volume.gather_files().unwrap()
}

/// Files in turns of a page over many segments: the one that is read comes together, within the
/// budget of each checkpoint, and the others stay.
#[test]
fn a_file_that_is_read_is_gathered_whole() {
    for remaps in [true, false] {
        let context = format!("gathered, remaps {remaps}");
        let mut volume = mount(made(layer(192, 8000)), Mode::Copy);
        let mut model = Model::default();
        fill(&mut volume, &mut model, 0.15, &mut Random::new(3, "gathered"), false);
        let of = |volume: &WritableVolume<Layer>, file| all_extents(volume, inode(volume, file)).unwrap().len();
        let (before, other) = (of(&volume, 1), of(&volume, 2));
        // Pieces are read together, so that it is the host that pays for each.
        let costs = GatherCosts { remap: costs().remap.filter(|_| remaps), ..costs() }.with_host(50_000);
        volume.set_gather(Some(GatherOptions { costs, budget: 520 }));
        let first = gather(&mut volume);
        assert!(first.windows == 1 && first.remapped + first.copied == 512, "{first:?}");
        assert_eq!(first.remapped > 0, remaps);
        assert_eq!(gather(&mut volume).windows, 0, "the budget is spent");
        for _ in 0..4 {
            // Something has to change for there to be a next checkpoint.
            model.write(&mut volume, 0, 0).unwrap();
            model.sync(&mut volume).unwrap();
            gather(&mut volume);
        }
        let (after, counters) = (of(&volume, 1), *volume.counters());
        println!("{context}: {before} to {after} fragments, {:?}", counters.gathered);
        assert!(before > 500 && after < 20 && of(&volume, 2) == other, "{before} to {after}; the other {other}");
        model.judge(&volume, &context);
        let device = unmount(volume);
        device.check().unwrap();
        assert_eq!(device.counters().remapped_pages > 0, remaps);
        assert_sound(&device, true, &context);
        model.judge(&mount(device, Mode::Copy), &context);
    }
}

/// A cut at many requests of collections and a round of gathering, with the layer's memory lost as
/// well. More by `NANDKIT_ROUNDS=2400 cargo test --release -p nandkit-stack --test all
/// cuts_of_remapping -- --nocapture`.
#[test]
fn cuts_of_remapping_cleaners_lose_nothing() {
    let counts: [[AtomicU64; 3]; 3] = Default::default();
    in_parallel(3, |round| {
        let mode = (round % 3) as usize;
        for (sum, count) in counts[mode].iter().zip(cuts_of(MODES[mode + 1], round)) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    });
    for (mode, counts) in MODES[1..].iter().zip(&counts) {
        let [cuts, checked, shown] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        println!("{mode:?}: {cuts} cuts, {checked} volumes checked, {shown} of them by fsck.f2fs too");
    }
}

/// How many cuts of a life were made, how many volumes were checked behind them, and how many of
/// these by fsck.f2fs.
fn cuts_of(mode: Mode, round: u64) -> [u64; 3] {
    const SURVIVALS: [Survival; 4] = [Survival::Subset, Survival::None, Survival::Prefix, Survival::All];
    let (life, survival) = (round / 3, SURVIVALS[(round % 4) as usize]);
    let mut volume = mount(made(layer(80, 3000)), mode);
    let mut model = Model::default();
    fill(&mut volume, &mut model, 0.2, &mut Random::new(4 + life, "cuts"), true);
    let chip = unmount(volume).into_flash();
    let options = layer_options(3000);
    let (mut request, mut counts) = (1 + life % 19, [0; 3]);
    loop {
        let moment = [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][counts[0] as usize % 3];
        let plan = DeviceCutPlan::at(request, moment, survival, request);
        let context = format!("round {round}, {mode:?}, {plan:?}");
        let device = CutDevice::new(Layer::attach(chip.clone(), options).unwrap(), plan);
        let (mut volume, mut model) = (mount(device, mode), model.clone());
        let done = cleaned(&mut volume, &mut model, life);
        let device = volume.abandon().remove(0);
        if !device.is_off() {
            done.unwrap();
            break;
        }
        let chip = device.into_inner().unwrap().into_flash();
        let device = Layer::attach(chip, options).unwrap();
        device.check().unwrap();
        let volume = mount(device, mode);
        model.judge(&volume, &context);
        let device = unmount(volume);
        if counts[0] % 4 == 0 {
            let is_shown = counts[0] % 8 == 0;
            assert_sound(&device, is_shown, &context);
            (counts[1], counts[2]) = (counts[1] + 1, counts[2] + u64::from(is_shown));
        }
        (request, counts[0]) = (request + 19, counts[0] + 1);
    }
    assert!(counts[0] > 8, "round {round}, {mode:?}: {} cuts", counts[0]);
    counts
}

/// Some writes, collections, a round of gathering, and a sync between.
fn cleaned<D: BlockDevice>(volume: &mut WritableVolume<D>, model: &mut Model, life: u64) -> nandkit_vfs::Result<()> {
    let mut random = Random::new(5 + life, "cleaned");
    volume.set_gather(Some(GatherOptions { costs: costs(), budget: 600 }));
    for round in 0..2 {
        for _ in 0..20 {
            let number = random.below(model.now[0].len() as u64) as usize;
            model.write(volume, random.below(FILES as u64) as usize, number)?;
        }
        volume.collect_one(Collection::Foreground)?;
        if round == 1 {
            let length = volume.stat(inode(volume, 1))?.size as u32;
            let file = inode(volume, 1);
            for _ in 0..3 {
                FileSystem::read(volume, file, 0, ReadInto::Nothing { length })?;
            }
            volume.gather_files()?;
        }
        model.sync(volume)?;
    }
    Ok(())
}
