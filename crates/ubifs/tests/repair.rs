//! Repairs: what comes out is sound, and has all that the damage did not take.

use std::collections::BTreeSet;
use std::sync::Arc;

use nandkit_testkit::clock;
use nandkit_testkit::durability::{History, State, step};
use nandkit_testkit::listing::{Listing, assert_same, content, of_volume};
use nandkit_testkit::rounds;
use nandkit_testkit::trees::built::all_kinds;
use nandkit_testkit::trees::plant_all_kinds;
use nandkit_ubifs::layout::{HEADER_SIZE, LOG_LEB, node_type};
use nandkit_ubifs::{BuildOptions, LebBytes, Repaired, Ubifs, WriteOptions};
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::check::{Finding, Repair};
use nandkit_vfs::{Changes, FileSystem, NewNode, Result};

use crate::built::{Image, built};
use crate::images::made;
use crate::nodes::{is_of_type, nodes};
use crate::strict_lebs::{StrictLebs, strict};
use crate::write::shapes;

const LEB_SIZE: u32 = 15_360;

/// The repaired volume, which is sound.
pub fn repaired(image: &LebBytes, what: &str) -> Result<(LebBytes, Repair)> {
    let mut sink = Image::new(image.leb_size);
    let Repaired { repair, leb_count } = nandkit_ubifs::repair(Arc::new(image.clone()), &mut sink)?;
    sink.bytes.resize(leb_count as usize * image.leb_size as usize, 0xFF);
    let new = LebBytes { bytes: sink.bytes, leb_size: image.leb_size };
    let volume = Ubifs::mount(Box::new(new.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
    let report = volume.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.findings.is_empty(), "{what}: {:#?}", report.findings);
    Ok((new, repair))
}

fn listing(image: &LebBytes) -> Listing {
    of_volume(&Ubifs::mount(Box::new(image.clone())).expect("a volume"))
}

/// A volume of mkfs.ubifs with files of all kinds.
fn of_tools() -> LebBytes {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("tree");
    let table = plant_all_kinds(&root, 120, 3, 4);
    made(&root, Some(&table), &["-m", "512", "-e", "15360", "-c", "200"], LEB_SIZE)
}

/// A volume that was written for a while, and unmounted or not.
fn aged(options: &BuildOptions, seed: u64, is_clean: bool) -> LebBytes {
    let options =
        BuildOptions { leb_count_max: 60, journal_size: Some(6 * u64::from(options.leb_size)), ..options.clone() };
    let lebs = Box::new(StrictLebs::formatted(&options));
    let mut volume = Ubifs::mount_for_writing(lebs, clock(), WriteOptions::default()).expect("a volume");
    let (mut history, mut random) = (History::new(State::empty()), Random::new(seed, "what to do"));
    for _ in 0..400 {
        step(&mut volume, &mut history, &mut random).expect("a step");
    }
    if is_clean {
        volume.unmount().expect("an unmount");
    }
    strict(volume.into_lebs()).image()
}

#[test]
fn sound_volumes_stay_as_they_are() {
    let ours = built(&all_kinds(200), &BuildOptions { leb_count_max: 500, ..BuildOptions::default() });
    let mut images = vec![("mkfs.ubifs".to_owned(), of_tools()), ("mkfs".to_owned(), ours.expect("a volume"))];
    for (seed, (name, options)) in shapes().into_iter().enumerate() {
        for is_clean in [true, false] {
            images.push((format!("{name}, clean: {is_clean}"), aged(&options, seed as u64, is_clean)));
        }
    }
    for (what, image) in images {
        let (new, repair) = repaired(&image, &what).expect("a repair");
        assert_same(&listing(&new), &listing(&image), &what);
        assert!(repair.dropped.is_empty() && repair.mended.is_empty(), "{what}: {repair:#?}");
        assert!(repair.kept > 0 && repair.before.findings.iter().all(Finding::is_harmless), "{what}");
    }
}

/// The offsets of the nodes of a type.
fn of_type(image: &LebBytes, node_type: u8) -> Vec<(usize, usize)> {
    let all = nodes(&image.bytes).into_iter();
    all.filter(|(at, length)| is_of_type(&image.bytes[*at..at + length], node_type)).collect()
}

#[test]
fn what_leads_to_files_is_made_anew_without_a_loss() {
    let mut images = vec![("mkfs.ubifs", of_tools(), true)];
    images.extend(shapes().into_iter().map(|(name, options)| (name, aged(&options, 7, true), false)));
    for (what, image, is_new) in images {
        let expected = listing(&image);
        let index = of_type(&image, node_type::INDEX);
        let every = index.len().div_ceil(rounds::count(24) as usize).max(1);
        for (at, length) in index.iter().step_by(every) {
            let mut damaged = image.clone();
            damaged.bytes[at + length - 1] ^= 0x55;
            let what = format!("{what}, index node at {at:#x}");
            let (new, repair) = repaired(&damaged, &what).expect("a repair");
            assert_same(&listing(&new), &expected, &what);
            // Data of a file that was removed long ago may be found, and belong to nothing.
            assert!(repair.dropped.iter().all(Finding::is_harmless), "{what}: {repair:#?}");
        }
        // All of the index, and with it the master nodes: nothing tells then what was removed.
        let mut damaged = image.clone();
        for (at, _) in index.iter().chain(&of_type(&image, node_type::MASTER)).filter(|_| is_new) {
            damaged.bytes[at + HEADER_SIZE] ^= 1;
        }
        let (new, _) = repaired(&damaged, what).expect("a repair");
        assert_same(&listing(&new), &expected, what);
        // The log and the properties.
        let mut damaged = image.clone();
        let size = image.leb_size as usize;
        let area = if is_new { size } else { 0 };
        damaged.bytes[LOG_LEB as usize * size..][..area].fill(0x11);
        let (new, _) = repaired(&damaged, what).expect("a repair");
        assert_same(&listing(&new), &expected, what);
    }
}

#[test]
fn a_damaged_node_costs_what_stood_in_it_and_no_more() {
    let image = of_tools();
    let expected = listing(&image);
    let leaves: Vec<(usize, usize)> =
        [node_type::INODE, node_type::DATA, node_type::DENTRY].iter().flat_map(|kind| of_type(&image, *kind)).collect();
    for round in 0..rounds::count(60) {
        let mut random = Random::new(round, "damage");
        let mut damaged = image.clone();
        for _ in 0..1 + random.index(3) {
            let (at, length) = leaves[random.index(leaves.len())];
            damaged.bytes[at + 8 + random.index(length - 8)] ^= 1 << random.index(8);
        }
        let what = format!("round {round}");
        let (new, repair) = repaired(&damaged, &what).expect("a repair");
        let told: BTreeSet<String> = repair
            .dropped
            .iter()
            .flat_map(|finding| &finding.paths)
            .map(|path| format!("/{}", String::from_utf8_lossy(path)))
            .collect();
        assert!(!repair.dropped.is_empty(), "{what}: nothing is told");
        let found = listing(&new);
        // Without its name, or that of a directory above it, a file is in lost+found; without its
        // inode it is gone.
        let texts: BTreeSet<String> = found.values().map(|text| without_links(text)).collect();
        let mut gone = 0;
        for (path, text) in expected.iter().filter(|(_, text)| text.starts_with("Regular")) {
            let is_same = |other: &String| without_links(other) == without_links(text);
            match found.get(path) {
                Some(other) => assert!(
                    is_same(other) || told.contains(path),
                    "{what}: {path} in silence: {text} {other} {:#?}",
                    repair.dropped
                ),
                None => gone += usize::from(!texts.contains(&without_links(text))),
            }
        }
        // A hard link more.
        assert!(gone <= 2 * repair.dropped.len(), "{what}: {gone} files are gone: {:#?}", repair.dropped);
    }
}

/// The words about a file but for its number of links: another name of it may be lost.
fn without_links(text: &str) -> String {
    text.split(' ').filter(|word| !word.starts_with('x')).collect::<Vec<_>>().join(" ")
}

/// Damages all nodes of a type.
fn destroy(image: &mut LebBytes, node_type: u8) {
    for (at, _) in of_type(image, node_type) {
        image.bytes[at + HEADER_SIZE] ^= 1;
    }
}

#[test]
fn without_an_index_a_damaged_node_is_told_all_the_same() {
    let image = of_tools();
    let data = of_type(&image, node_type::DATA);
    for (at, length) in data.iter().step_by(data.len() / 6) {
        let mut damaged = image.clone();
        destroy(&mut damaged, node_type::INDEX);
        damaged.bytes[at + length - 1] ^= 0x55;
        let what = format!("data at {at:#x}");
        let (_, repair) = repaired(&damaged, &what).expect("a repair");
        let told = repair.dropped.iter().find(|finding| !finding.is_harmless());
        assert!(told.is_some_and(|finding| !finding.paths.is_empty()), "{what}: {repair:#?}");
        assert!(repair.mended.iter().any(|finding| finding.detail.contains("older version")), "{what}");
    }
}

/// A block that was written twice, whose newer node is damaged.
#[test]
fn an_older_block_does_not_come_back_between_newer_ones() {
    let (_, options) = shapes().swap_remove(0);
    let options = BuildOptions { leb_count_max: 60, ..options };
    let lebs = Box::new(StrictLebs::formatted(&options));
    let mut volume = Ubifs::mount_for_writing(lebs, clock(), WriteOptions::default()).expect("a volume");
    let root = volume.root();
    let file = volume.create(root, b"file", &NewNode::FILE).expect("a file");
    for version in [1, 2] {
        volume.write(file, 0, Payload::Bytes(&[version; 5 * 4096])).expect("written");
        volume.sync(None).expect("synced");
    }
    volume.unmount().expect("an unmount");
    let mut image = strict(volume.into_lebs()).image();
    destroy(&mut image, node_type::INDEX);
    let mut newest = of_type(&image, node_type::DATA).into_iter().filter(|(at, length)| {
        let node = &image.bytes[*at..at + length];
        node[HEADER_SIZE + 4] == 2 && node[length - 1] == 2
    });
    let (at, length) = newest.next_back().expect("a block");
    image.bytes[at + length - 1] ^= 0x55;
    let (new, repair) = repaired(&image, "an older block").expect("a repair");
    let volume = Ubifs::mount(Box::new(new)).expect("a volume");
    let file = volume.lookup(root, b"file").expect("a file");
    let blocks: Vec<u8> = content(&volume, file).expect("read").chunks(4096).map(|block| block[0]).collect();
    assert_eq!(blocks, [2, 2, 0, 2, 2], "{repair:#?}");
    let told = |finding: &&Finding| finding.paths == [b"file".to_vec()] && !finding.is_harmless();
    assert_eq!(repair.dropped.iter().filter(told).count(), 1, "{repair:#?}");
}
