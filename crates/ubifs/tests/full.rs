//! Full volumes: what is removed makes room again, and a removal is never refused.

use nandkit_testkit::{clock, rounds};
use nandkit_ubifs::{BuildOptions, Ubifs, WriteOptions};
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, NewNode};

use crate::strict_lebs::StrictLebs;
use crate::write::shapes;

/// Names of the files that are written again and again.
const FILES: u64 = 12;

/// Writes a file in pieces until it is whole or the volume is full; returns its size, or `None` if
/// it was removed again.
fn write(fs: &mut Ubifs, name: &[u8], random: &mut Random, largest: u64) -> Option<u64> {
    let root = fs.root();
    let node = match fs.create(root, name, &NewNode::FILE) {
        Ok(node) => node,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            return None;
        }
    };
    let length = random.below(largest);
    let bytes: Vec<u8> = (0..length / 8).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
    let mut at = 0;
    while at < bytes.len() {
        match fs.write(node, at as u64, Payload::Bytes(&bytes[at..bytes.len().min(at + 131_072)])) {
            Ok(written) => at += written,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                fs.remove(root, name).unwrap_or_else(|error| panic!("a removal on a full volume: {error}"));
                return None;
            }
        }
    }
    Some(at as u64)
}

/// Fills a volume of so many LEBs again and again.
fn fill(options: &BuildOptions, lebs: u32, seed: u64) {
    let options = BuildOptions { leb_count_max: lebs, ..options.clone() };
    let volume = StrictLebs::formatted(&options);
    let dirty_max = if seed.is_multiple_of(2) { 64 * 4096 } else { 0 };
    let written = WriteOptions { dirty_max, ..WriteOptions::default() };
    let mut fs = Ubifs::mount_for_writing(Box::new(volume), clock(), written).unwrap();
    let mut random = Random::new(seed, "a full volume");
    let (root, largest) = (fs.root(), u64::from(lebs) * u64::from(options.leb_size) / 8);
    let (mut full, mut stored) = (0, 0);
    for round in 0..rounds::count(8) {
        for number in 0..FILES {
            let name = format!("file{number}");
            match fs.remove(root, name.as_bytes()) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind, ErrorKind::NotFound, "round {round}, {name}: {error}"),
            }
            match write(&mut fs, name.as_bytes(), &mut random, largest) {
                Some(bytes) => stored += bytes,
                None => full += 1,
            }
        }
        if round % 3 == 2 {
            fs.sync(None).unwrap();
        }
    }
    assert!(full > 0 && stored > 0 && fs.write_counters().collected > 0, "{full}, {stored}");
    for number in 0..FILES {
        let _ = fs.remove(root, format!("file{number}").as_bytes());
    }
    fs.unmount().unwrap();
    let report = Ubifs::mount(fs.into_lebs()).unwrap().check().unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn a_full_volume_takes_removals_and_then_files_again() {
    for (seed, (_, options)) in shapes().into_iter().enumerate() {
        for lebs in [48, 66] {
            fill(&options, lebs, seed as u64 + 1);
        }
    }
}
