//! Places of files that become another file's, on F2FS over a page-mapped layer that remaps: no
//! page of them is programmed, and cuts leave the target old or new.

use std::sync::Arc;

use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, RequestKind, StatsDevice, Survival};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::{WritableVolume, WriteOptions, check};
use nandkit_ftl::page_map::JournalOptions;
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_testkit::judges;
use nandkit_units::random::hash;
use nandkit_units::{Cause, Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{AdoptedRange, AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode};

pub type Layer = PageMapFtl<ContentChip>;

pub const PAGE: u64 = 4096;

pub fn clock() -> Clock {
    Clock::starting_at(0)
}

pub fn layer(aliases: u32) -> Layer {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (4096, 4096, 128);
    (geometry.blocks, geometry.pages_per_block) = (320, 64);
    let journal = Some(JournalOptions { checkpoint_every: 0, aliases });
    let layer = PageMapFtl::format(
        ContentChip::new(&spec, 1).unwrap(),
        PageMapOptions { journal, ..PageMapOptions::default() },
    );
    let layer = layer.unwrap();
    assert_eq!(layer.geometry().sector_size, 4096);
    layer
}

pub fn made<D: BlockDevice>(mut device: D) -> D {
    let options = MkfsOptions::default();
    Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    device
}

pub fn mount<D: BlockDevice>(device: D) -> WritableVolume<D> {
    WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()
}

pub fn unmount<D: BlockDevice + std::fmt::Debug>(volume: WritableVolume<D>) -> D {
    volume.unmount().map_err(|(_, error)| error).unwrap().remove(0)
}

pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| (hash(seed, at, 3) as u8).max(1)).collect()
}

pub fn file<D: BlockDevice>(volume: &mut WritableVolume<D>, name: &str, content: &[u8]) -> InodeNumber {
    let inode = volume.create(volume.root(), name.as_bytes(), &NewNode::FILE).unwrap();
    assert_eq!(Changes::write(volume, inode, 0, Payload::Bytes(content)).unwrap(), content.len());
    inode
}

pub fn content<D: BlockDevice>(volume: &WritableVolume<D>, inode: InodeNumber) -> Vec<u8> {
    let mut bytes = vec![0; volume.stat(inode).unwrap().size as usize];
    assert_eq!(FileSystem::read(volume, inode, 0, ReadInto::Bytes(&mut bytes)).unwrap(), bytes.len());
    bytes
}

fn adopt<D: BlockDevice>(
    volume: &mut WritableVolume<D>,
    target: InodeNumber,
    places: &[AdoptedRange],
) -> nandkit_vfs::Result<()> {
    Changes::adopt(volume).expect("the device remaps").adopt(target, places)
}

/// All of some files, one behind the other, each in whole pages; what they hold together.
fn all_of<D: BlockDevice>(volume: &WritableVolume<D>, sources: &[InodeNumber]) -> (Vec<AdoptedRange>, Vec<u8>) {
    let (mut places, mut together) = (Vec::new(), Vec::new());
    for &source in sources {
        let mut bytes = content(volume, source);
        bytes.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
        places.push(AdoptedRange {
            offset: together.len() as u64,
            source,
            source_offset: 0,
            length: bytes.len() as u64,
        });
        together.extend(bytes);
    }
    (places, together)
}

fn block_image(device: &impl BlockDevice) -> Vec<u8> {
    let mut image = vec![0; device.geometry().capacity() as usize];
    for (sector, bytes) in image.chunks_exact_mut(PAGE as usize).enumerate() {
        device.read(&Context::default(), Lba(sector as u64), ReadInto::Bytes(bytes)).unwrap();
    }
    image
}

/// Neither our check nor, where asked, fsck.f2fs has anything to say of an unmounted volume.
pub fn assert_sound(device: &impl BlockDevice, with_fsck: bool, context: &str) {
    let image = block_image(device);
    let mut copy = RamDevice::with_sectors(4096, device.geometry().sectors).unwrap();
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

/// Writes to the device that a cause made, and pairs that were remapped.
fn counted(stats: &Arc<nandkit_block::wrap::DeviceCounters>, kind: RequestKind, cause: Cause) -> u64 {
    stats.snapshot().of(kind, cause).bytes
}

#[test]
fn a_file_gets_the_content_of_others_and_no_page_is_programmed() {
    let mut volume = mount(made(StatsDevice::new(layer(2000))));
    let sizes = [5000, 4096, 40_000, 3_000_000, 70_001];
    let mut sources: Vec<InodeNumber> = sizes
        .iter()
        .enumerate()
        .map(|(number, &size)| file(&mut volume, &format!("source-{number}"), &pattern(size, number as u64)))
        .collect();
    // One in pieces with holes, and one in turns with another.
    let sparse = file(&mut volume, "sparse", &pattern(9000, 20));
    Changes::write(&mut volume, sparse, 5 << 20, Payload::Bytes(&pattern(10_000, 21))).unwrap();
    sources.push(sparse);
    volume.sync().unwrap();
    for round in 0..6 {
        for inode in &sources[..2] {
            Changes::write(&mut volume, *inode, round * 8192, Payload::Bytes(&pattern(8192, 30 + round))).unwrap();
        }
        volume.sync().unwrap();
    }
    // What waits in memory comes as well.
    Changes::write(&mut volume, sources[2], 10_000, Payload::Bytes(&pattern(100, 50))).unwrap();
    let target = file(&mut volume, "together", b"");
    let (places, expected) = all_of(&volume, &sources);
    volume.fsync(nandkit_f2fs::NodeId(sources[2].0 as u32), false).unwrap();
    let device = unmount(volume);
    let (before, stats) = (*device.inner().counters(), Arc::clone(device.counters()));
    let written = counted(&stats, RequestKind::Write, Cause::UserData);
    let mut volume = mount(device);
    adopt(&mut volume, target, &places).unwrap();
    assert!(content(&volume, target) == expected, "in memory");
    volume.sync().unwrap();
    assert!(content(&volume, target) == expected, "behind a sync");
    assert_eq!(counted(&stats, RequestKind::Write, Cause::UserData), written, "content was written");
    let device = unmount(volume);
    let after = device.inner().counters().since(&before);
    let holes = (5 << 20) / PAGE - 9000_u64.div_ceil(PAGE);
    assert_eq!(after.remapped_pages, expected.len() as u64 / PAGE - holes);
    assert_sound(&device, true, "adopted");
    // Neither side sees what the other does from then on.
    let mut volume = mount(device);
    Changes::write(&mut volume, sources[3], 0, Payload::Bytes(&pattern(100_000, 60))).unwrap();
    volume.remove(volume.root(), b"source-4").unwrap();
    volume.sync().unwrap();
    volume.sync().unwrap();
    assert!(content(&volume, target) == expected, "sources changed");
    let kept = content(&volume, sources[0]);
    Changes::write(&mut volume, target, 0, Payload::Bytes(&pattern(50_000, 61))).unwrap();
    volume.sync().unwrap();
    assert!(content(&volume, sources[0]) == kept, "the target changed");
    let device = unmount(volume);
    assert_sound(&device, true, "changed afterwards");
    // Dropping the target gives all back.
    let mut volume = mount(device);
    let free = volume.volume().unwrap().blocks_free;
    volume.remove(volume.root(), b"together").unwrap();
    assert!(volume.volume().unwrap().blocks_free > free + expected.len() as u64 / PAGE - holes - 1);
    assert_sound(&unmount(volume), true, "dropped");
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut volume = mount(made(layer(0)));
    let source = file(&mut volume, "source", &pattern(40_000, 1));
    let small = file(&mut volume, "small", &pattern(100, 2));
    let target = file(&mut volume, "target", &pattern(20_000, 3));
    let (root, before) = (volume.root(), content(&volume, target));
    let place = AdoptedRange { offset: 0, source, source_offset: 0, length: 8192 };
    let cases: [(&str, ErrorKind, Vec<AdoptedRange>); 9] = [
        ("content in the inode", ErrorKind::NotSupported, vec![AdoptedRange { source: small, length: 4096, ..place }]),
        ("no page", ErrorKind::InvalidArgument, vec![AdoptedRange { offset: 100, ..place }]),
        ("no page of the source", ErrorKind::InvalidArgument, vec![AdoptedRange { source_offset: 100, ..place }]),
        ("part of a page", ErrorKind::InvalidArgument, vec![AdoptedRange { length: 5000, ..place }]),
        ("nothing", ErrorKind::InvalidArgument, vec![AdoptedRange { length: 0, ..place }]),
        ("behind the source", ErrorKind::InvalidArgument, vec![AdoptedRange { length: 45_056, ..place }]),
        (
            "the target itself",
            ErrorKind::InvalidArgument,
            vec![AdoptedRange { source: target, offset: 40_960, ..place }],
        ),
        ("twice", ErrorKind::InvalidArgument, vec![place, AdoptedRange { offset: 4096, ..place }]),
        ("a directory", ErrorKind::IsADirectory, vec![place, AdoptedRange { source: root, offset: 40_960, ..place }]),
    ];
    for (what, kind, places) in cases {
        let error = adopt(&mut volume, target, &places).expect_err(what);
        assert_eq!(error.kind, kind, "{what}: {error}");
        assert!(content(&volume, target) == before, "{what}");
    }
    // The last page may be a part of one where the target ends.
    adopt(&mut volume, target, &[AdoptedRange { offset: 16_384, source_offset: 32_768, length: 7232, ..place }])
        .unwrap();
    let mut expected = before[..16_384].to_vec();
    expected.extend(&pattern(40_000, 1)[32_768..]);
    assert!(content(&volume, target) == expected);
    assert_sound(&unmount(volume), true, "refused");
}

#[test]
fn a_device_whose_memory_for_remaps_is_full_leaves_the_target_as_it_was() {
    let mut volume = mount(made(layer(100)));
    let source = file(&mut volume, "source", &pattern(400 * 4096, 1));
    let target = file(&mut volume, "target", &pattern(200_000, 3));
    volume.sync().unwrap();
    let (before, free) = (content(&volume, target), volume.volume().unwrap().blocks_free);
    let change = AttributeChange { size: Some(0), ..AttributeChange::default() };
    for offset in [0, 1 << 20] {
        let place = AdoptedRange { offset, source, source_offset: 0, length: 400 * 4096 };
        let error = adopt(&mut volume, target, &[place]).expect_err("100 aliases");
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        assert!(content(&volume, target) == before, "at {offset}");
        let now = volume.volume().unwrap().blocks_free;
        assert!(now + 2 >= free, "{now} blocks free, before {free}");
    }
    volume.sync().unwrap();
    assert_sound(&unmount_and_keep(&mut volume), false, "full");
    volume.set_attributes(target, &change).unwrap();
    adopt(&mut volume, target, &[AdoptedRange { offset: 0, source, source_offset: 0, length: 20 * 4096 }]).unwrap();
    assert!(content(&volume, target) == pattern(400 * 4096, 1)[..20 * 4096]);
    assert_sound(&unmount(volume), true, "full, and less");
}

/// The device as an unmount would leave it, by a copy of its bytes.
fn unmount_and_keep(volume: &mut WritableVolume<Layer>) -> RamDevice {
    use nandkit_f2fs::Blocks;
    volume.finish().unwrap();
    let sectors = Blocks::geometry(volume).main_end();
    let mut copy = RamDevice::with_sectors(4096, sectors).unwrap();
    let mut bytes = vec![0; PAGE as usize];
    for block in 0..sectors {
        Blocks::read(volume, Cause::UserData, nandkit_f2fs::BlockAddress(block as u32), &mut bytes).unwrap();
        copy.write(&Context::default(), Lba(block), Payload::Bytes(&bytes)).unwrap();
    }
    copy
}

/// A cut at every request of an adoption and of what makes it durable.
#[test]
fn cuts_leave_the_target_old_or_new_and_the_sources_as_they_are() {
    let mut volume = mount(made(layer(0)));
    let sources: Vec<_> = [150_000, 5000, 9000]
        .iter()
        .enumerate()
        .map(|(number, &size)| file(&mut volume, &format!("source-{number}"), &pattern(size, number as u64)))
        .collect();
    let target = file(&mut volume, "target", &pattern(100_000, 9));
    let (old, whole): (Vec<u8>, Vec<_>) =
        (content(&volume, target), sources.iter().map(|s| content(&volume, *s)).collect());
    let (places, new) = all_of(&volume, &sources);
    let chip = unmount(volume).into_flash();
    let options = PageMapOptions { ..PageMapOptions::default() };
    for (syncs_all, survival) in [(true, Survival::Subset), (false, Survival::None), (false, Survival::Subset)] {
        let (mut request, mut seen) = (1, [0; 2]);
        loop {
            let moment =
                [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][request as usize % 3];
            let plan = DeviceCutPlan::at(request, moment, survival, request);
            let context = format!("all {syncs_all}, {plan:?}");
            let device = CutDevice::new(Layer::attach(chip.clone(), options).unwrap(), plan);
            let mut volume = mount(device);
            let done = adopt(&mut volume, target, &places)
                .and_then(|()| Changes::sync(&mut volume, if syncs_all { None } else { Some(target) }));
            let device = volume.abandon().remove(0);
            if !device.is_off() {
                done.unwrap();
                break;
            }
            // The layer's own memory is lost too.
            let chip = device.into_inner().unwrap().into_flash();
            let volume = mount(Layer::attach(chip, options).unwrap());
            let found = content(&volume, target);
            assert!(found == old || found == new, "{context}: the target is a mix");
            assert!(done.is_err() || found == new, "{context}: what was synced is lost");
            seen[usize::from(found == new)] += 1;
            for (source, whole) in sources.iter().zip(&whole) {
                assert!(content(&volume, *source) == *whole, "{context}: source {} is harmed", source.0);
            }
            assert_sound(&unmount(volume), request % 5 == 0, &context);
            request += 1;
        }
        println!("all {syncs_all}, {survival:?}: {request} requests, {seen:?} old and new");
        assert!(request > 8 && seen[0] > 0, "{request} requests, {seen:?}");
    }
}
