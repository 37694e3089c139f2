//! Changes of LEBs and volumes, held against a model, with failing blocks and power cuts. The flash
//! checks the rules of its kind.

use std::collections::BTreeMap;

use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan};
use nandkit_flash::{Flash, TornErase, TornPage};
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_ubi::build::build;
use nandkit_ubi::layout::{VolumeRecord, VolumeType};
use nandkit_ubi::write::{NewVolume, UbiWriter, WriteOptions};
use nandkit_ubi::{Geometry, Leb, Ubi};
use nandkit_units::random::Random;
use nandkit_units::{Clock, FlashGeometry, ReadInto};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{ErrorKind, FileSystem, FsError};

use crate::common::{content, headers};

const BLOCKS: u32 = 60;

/// NAND without and with sub-pages, NOR.
fn flashes() -> [(FlashGeometry, Geometry); 3] {
    let sub_pages = FlashGeometry { write_unit: 512, ..FlashGeometry::nand(2048, 0, 8, BLOCKS) };
    [
        (FlashGeometry::nand(512, 0, 32, BLOCKS), Geometry { peb_size: 16 << 10, vid_offset: 512, data_offset: 1024 }),
        (sub_pages, Geometry { peb_size: 16 << 10, vid_offset: 512, data_offset: 2048 }),
        (nor(16 << 10, BLOCKS), Geometry { peb_size: 16 << 10, vid_offset: 64, data_offset: 128 }),
    ]
}

/// A flash with an empty device on it.
fn formatted(flash: FlashGeometry, geometry: Geometry) -> StrictFlash {
    let mut device = StrictFlash::new(flash);
    device.poke_all(&build(&headers(geometry), &[]).expect("a device without volumes"));
    device
}

fn writer<F: Flash>(flash: F) -> Result<UbiWriter<F>, FsError> {
    let ubi = Ubi::attach(flash, Clock::starting_at(0))?;
    // An interrupted erase may leave two damaged headers.
    let is_expected = |finding: &Finding| finding.is_harmless() || finding.kind == "damaged header";
    assert!(ubi.damage().iter().all(is_expected), "{:?}", ubi.damage());
    UbiWriter::new(ubi, WriteOptions { wear_threshold: 8, ..WriteOptions::default() })
}

fn volume(name: &str, volume_type: VolumeType, lebs: u32, leb_size: u32) -> NewVolume {
    NewVolume {
        number: None,
        name: name.as_bytes().to_vec(),
        volume_type,
        bytes: Some(u64::from(lebs) * u64::from(leb_size)),
        alignment: 1,
        flags: 0,
    }
}

/// The volumes with their content, as a reader sees them: dynamic ones without erased flash at
/// their end.
fn contents<F: Flash>(ubi: &Ubi<F>) -> BTreeMap<String, (VolumeRecord, Vec<u8>)> {
    let volumes = ubi.volumes().iter();
    volumes
        .map(|volume| {
            let inode = ubi.lookup(ubi.root(), volume.file_name.as_bytes()).expect("the volume's file");
            let mut bytes = vec![0; ubi.stat(inode).expect("attributes").size as usize];
            let read = ubi.read(inode, 0, ReadInto::Bytes(&mut bytes));
            assert!(read.is_ok() || volume.record.is_updating, "{}: {read:?}", volume.file_name);
            let end = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
            bytes.truncate(end);
            (volume.file_name.clone(), (volume.record.clone(), bytes))
        })
        .collect()
}

/// A dynamic volume of the model: LEBs with their bytes.
type Lebs = BTreeMap<u32, Vec<u8>>;

/// A random operation on both.
fn step<F: Flash>(writer: &mut UbiWriter<F>, model: &mut BTreeMap<u32, Lebs>, random: &mut Random) {
    const LEBS: u64 = 6;
    let geometry = *writer.ubi().geometry();
    let unit = 2048;
    let numbers: Vec<u32> = model.keys().copied().collect();
    let number = numbers.get(random.index(numbers.len().max(1))).copied();
    let piece = |random: &mut Random, most: usize| content(unit * (1 + random.index(most)));
    match (random.below(12), number) {
        (0, _) | (_, None) if numbers.len() < 5 => {
            let name = format!("v{}", random.below(1 << 40));
            let made = writer.create_volume(&volume(&name, VolumeType::Dynamic, LEBS as u32, geometry.leb_size()));
            model.insert(made.expect("room"), Lebs::new());
        }
        (1, Some(number)) => {
            writer.remove_volume(number).expect("removed");
            model.remove(&number);
        }
        (2 | 3, Some(number)) => {
            let leb = random.below(LEBS) as u32;
            writer.unmap_leb(number, Leb(leb)).expect("unmapped");
            model.get_mut(&number).expect("a volume").remove(&leb);
        }
        (4..=6, Some(number)) => {
            let (leb, data) = (random.below(LEBS) as u32, piece(random, 6));
            writer.change_leb(number, Leb(leb), &data).expect("changed");
            model.get_mut(&number).expect("a volume").insert(leb, data);
        }
        (_, Some(number)) => {
            let leb = random.below(LEBS) as u32;
            let lebs = model.get_mut(&number).expect("a volume");
            let written = lebs.get(&leb).map_or(0, Vec::len);
            let data = piece(random, 2);
            if written + data.len() <= geometry.leb_size() as usize {
                writer.write_leb(number, Leb(leb), written as u32, &data).expect("written");
                lebs.entry(leb).or_default().extend(data);
            }
        }
        (_, None) => {}
    }
}

fn must_equal<F: Flash>(ubi: &Ubi<F>, model: &BTreeMap<u32, Lebs>) {
    assert_eq!(
        ubi.volumes().iter().map(|volume| volume.number).collect::<Vec<_>>(),
        Vec::from_iter(model.keys().copied())
    );
    for volume in ubi.volumes() {
        for leb in 0..volume.record.reserved_pebs {
            let mut bytes = vec![0; volume.leb_size as usize];
            ubi.read_leb(volume, Leb(leb), 0, &mut bytes).expect("readable");
            let expected = model[&volume.number].get(&leb).map_or(&[][..], Vec::as_slice);
            assert!(
                bytes.starts_with(expected),
                "LEB {leb} of volume {}: {:?} of {}",
                volume.number,
                bytes.iter().zip(expected).position(|(a, b)| a != b),
                expected.len()
            );
            assert!(bytes[expected.len()..].iter().all(|byte| *byte == 0xFF), "LEB {leb} of volume {}", volume.number);
        }
    }
}

#[test]
fn random_changes_are_there_after_each_attach() {
    for (seed, (flash, geometry)) in (1..).zip(flashes()) {
        let (mut random, mut model) = (Random::new(seed, "ubi"), BTreeMap::new());
        let mut flash = formatted(flash, geometry);
        for _ in 0..40 {
            let mut open = writer(flash).expect("a device");
            (0..50).for_each(|_| step(&mut open, &mut model, &mut random));
            must_equal(open.ubi(), &model);
            flash = open.finish().expect("finished");
            must_equal(&attach(flash.clone()), &model);
        }
        let (least, most) = (flash.erases.iter().min(), flash.erases.iter().max());
        let spread = most.expect("blocks") - least.expect("blocks");
        assert!(spread <= 20, "blocks were erased {least:?} to {most:?} times with a threshold of 8");
    }
}

#[test]
fn blocks_that_fail_lose_nothing() {
    for (seed, (flash, geometry)) in (1..).zip(flashes().into_iter().take(2)) {
        for distance in 30..60 {
            let (mut random, mut model) = (Random::new(seed, "failing"), BTreeMap::new());
            let mut open = writer(formatted(flash, geometry)).expect("a device");
            let mut flash = open.finish().expect("finished");
            flash.fail_programs((1..7).map(|n| n * distance));
            flash.fail_erases([distance]);
            open = writer(flash).expect("a device");
            (0..200).for_each(|_| step(&mut open, &mut model, &mut random));
            assert!(open.counters().failed >= 5, "{:?}", open.counters());
            must_equal(open.ubi(), &model);
            let flash = open.finish().expect("finished");
            must_equal(writer(flash).expect("a device").ubi(), &model);
        }
    }
}

/// A change that a power cut interrupts.
#[derive(Clone, Copy, Debug)]
enum Change {
    Make(&'static str, VolumeType),
    Leb(u8),
    Fill(&'static str, u8, usize),
    Rename(&'static [(u32, &'static str)]),
    Grow,
    Remove,
}

const CHANGES: [Change; 10] = [
    Change::Make("a", VolumeType::Dynamic),
    Change::Make("s", VolumeType::Static),
    // Of a LEB without an older copy a cut may leave a part, as with Linux.
    Change::Fill("a", 1, 10_000),
    Change::Fill("s", 7, 30_000),
    Change::Leb(2),
    Change::Rename(&[(0, "s"), (1, "a")]),
    Change::Fill("a", 9, 20_000),
    Change::Grow,
    Change::Rename(&[(0, "a")]),
    Change::Remove,
];

fn apply<F: Flash>(writer: &mut UbiWriter<F>, change: Change) -> Result<(), FsError> {
    let leb_size = writer.ubi().geometry().leb_size();
    match change {
        Change::Make(name, volume_type) => writer.create_volume(&volume(name, volume_type, 4, leb_size)).map(drop),
        Change::Leb(byte) => writer.change_leb(0, Leb(0), &vec![byte; leb_size as usize / 2048 * 2048]),
        Change::Fill(name, byte, length) => {
            let found = writer.ubi().volumes().iter().find(|volume| volume.file_name == name);
            let number = found.expect("the volume").number;
            writer.update_volume(number, &mut &*vec![byte; length], length as u64)
        }
        Change::Rename(names) => {
            let names: Vec<_> = names.iter().map(|(number, name)| (*number, name.as_bytes().to_vec())).collect();
            writer.rename_volumes(&names)
        }
        Change::Grow => writer.resize_volume(0, u64::from(leb_size) * 9),
        Change::Remove => writer.remove_volume(0),
    }
}

fn attach<F: Flash>(flash: F) -> Ubi<F> {
    Ubi::attach(flash, Clock::starting_at(0)).expect("a device")
}

/// After a cut in any step the device has the state before the change or that behind it; a volume
/// that was being filled may also be marked so.
#[test]
fn a_cut_leaves_a_change_made_or_not_made() {
    let moments = [
        CutMoment::Before,
        CutMoment::After,
        CutMoment::Inside { page: TornPage::Prefix, erase: TornErase::Half },
        CutMoment::Inside { page: TornPage::Garbage, erase: TornErase::Weak },
    ];
    let mut cuts = 0;
    for (flash, geometry) in flashes() {
        let mut before = formatted(flash, geometry);
        for change in CHANGES {
            let old = contents(&attach(before.clone()));
            let mut whole = CutFlash::new(before.clone(), CutPlan::None);
            apply(&mut writer(&mut whole).expect("a device"), change).expect("a change without a cut");
            let new = contents(&attach(whole.inner().clone()));
            for (moment, step) in moments.iter().flat_map(|moment| (1..=whole.steps()).map(move |step| (*moment, step)))
            {
                let mut cut = CutFlash::new(before.clone(), CutPlan::at(step, moment));
                // The error is the cut.
                let _ = writer(&mut cut).and_then(|mut writer| apply(&mut writer, change));
                let open = writer(cut.into_inner()).expect("a device that attaches");
                let found = contents(open.ubi());
                let is_marked = found.values().any(|(record, _)| record.is_updating);
                assert!(found == old || found == new || is_marked, "{change:?}, {moment:?} in step {step}");
                cuts += 1;
            }
            before = whole.into_inner();
        }
    }
    assert!(cuts > 1000, "{cuts}");
}

#[test]
fn refused_changes_say_why() {
    let (flash, geometry) = flashes()[0];
    let mut open = writer(formatted(flash, geometry)).expect("a device");
    let leb_size = geometry.leb_size();
    let mut make = |new: NewVolume| open.create_volume(&new).map_err(|error| error.kind);
    let plain = volume("a", VolumeType::Dynamic, 4, leb_size);
    assert_eq!(make(plain.clone()), Ok(0));
    assert_eq!(make(plain.clone()), Err(ErrorKind::Exists));
    assert_eq!(make(NewVolume { name: b"b".to_vec(), number: Some(0), ..plain.clone() }), Err(ErrorKind::Exists));
    assert_eq!(make(NewVolume { name: Vec::new(), ..plain.clone() }), Err(ErrorKind::InvalidName));
    let other = NewVolume { name: b"b".to_vec(), ..plain };
    assert_eq!(make(NewVolume { alignment: 100, ..other.clone() }), Err(ErrorKind::InvalidArgument));
    assert_eq!(make(NewVolume { number: Some(200), ..other.clone() }), Err(ErrorKind::InvalidArgument));
    assert_eq!(make(NewVolume { bytes: Some(0), ..other.clone() }), Err(ErrorKind::InvalidArgument));
    assert_eq!(make(NewVolume { bytes: Some(1 << 30), ..other.clone() }), Err(ErrorKind::NoSpace));
    assert_eq!(make(NewVolume { bytes: None, ..other }), Ok(1));
    assert_eq!(open.available_pebs(), 0);
    let kind = |result: Result<(), FsError>| result.map_err(|error| error.kind);
    assert_eq!(kind(open.remove_volume(7)), Err(ErrorKind::NotFound));
    assert_eq!(kind(open.resize_volume(0, u64::from(leb_size) * 5)), Err(ErrorKind::NoSpace));
    assert_eq!(kind(open.write_leb(0, Leb(0), 3, &[0; 512])), Err(ErrorKind::InvalidArgument));
    assert_eq!(kind(open.change_leb(0, Leb(4), &[0; 512])), Err(ErrorKind::InvalidArgument));
    let long = u64::from(leb_size) * 5;
    assert_eq!(kind(open.update_volume(0, &mut std::io::empty(), long)), Err(ErrorKind::NoSpace));
}
