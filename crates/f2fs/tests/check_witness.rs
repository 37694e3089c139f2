//! Detection of flipped bits by structure: the table in f2fs.md, "What witnesses damage".

use std::collections::BTreeMap;

use crate::made::{all_kinds, clock};
use crate::planted::{BLOCK, Planted};
use crate::witness::{Classes, FEATURES, classes_of, made_with};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::check;
use nandkit_testkit::rounds;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload};

#[derive(Clone, Copy, Default)]
struct FindingCounts {
    fault: u32,
    harmless: u32,
    silent: u32,
}

fn flips(planted: &Planted, classes: &Classes, count: u32) -> BTreeMap<&'static str, FindingCounts> {
    let base: RamDevice = planted.device();
    let mut random = Random::new(1, "flips");
    let mut by_class: BTreeMap<&'static str, FindingCounts> = BTreeMap::new();
    for (class, places) in classes {
        for _ in 0..count {
            let (at, bytes) = &places[random.index(places.len())];
            let (byte, bit) = (bytes.start + random.index(bytes.len()), random.index(8));
            let mut block = planted.bytes[*at as usize * BLOCK..][..BLOCK].to_vec();
            block[byte] ^= 1 << bit;
            let mut device = base.clone();
            device.write(&Context::default(), Lba(u64::from(*at)), Payload::Bytes(&block)).unwrap();
            let counts = by_class.entry(class).or_default();
            match check(vec![device], clock()) {
                Ok(report) if report.findings.is_empty() => counts.silent += 1,
                Ok(report) if report.is_clean() => counts.harmless += 1,
                _ => counts.fault += 1,
            }
        }
    }
    by_class
}

#[test]
fn flipped_bits_are_witnessed_as_the_table_says() {
    // To print the table: `NANDKIT_ROUNDS=1000 cargo test --release -p nandkit-f2fs --test all
    // check_witness -- --nocapture`.
    let count = rounds::count(5) as u32;
    let mut both = Vec::new();
    for features in FEATURES {
        let planted = made_with(features, &all_kinds(700));
        both.push(flips(&planted, &classes_of(&planted), count));
    }
    let (with, without) = (&both[0], &both[1]);
    let told = |counts: Option<&FindingCounts>| {
        counts.map_or("".into(), |found| match found.harmless {
            0 => format!("{}", found.fault),
            harmless => format!("{} + {harmless}", found.fault),
        })
    };
    for class in with.keys() {
        println!("| {class} | {} | {} |", told(with.get(class)), told(without.get(class)));
    }
    let all = |map: &BTreeMap<&str, FindingCounts>, class: &str| {
        let found = map[class];
        assert_eq!(found.silent, 0, "{class}");
        // With a flipped version, or a flipped length, a pack looks like one that a power cut left
        // unfinished.
        assert!(found.harmless == 0 || class.starts_with("checkpoint"), "{class}");
    };
    for class in [
        "superblock, first",
        "superblock, second",
        "checkpoint, first block",
        "checkpoint, last block",
        "checkpoint, NAT journal in use",
        "NAT, owner and address of entries in use",
        "NAT, address of free entries",
        "checkpoint, nids of the node logs",
        "SSA, summary of data in use",
        "SSA, nid of a node in use",
        "direct node, addresses",
        "indirect node, nids",
        "inode, whole",
        "directory, bitmap",
        "directory, names in use",
    ] {
        all(with, class);
    }
    for class in ["file data", "NAT, copy that does not count", "SIT, copy that does not count"] {
        assert_eq!(with[class].silent, count, "{class}");
    }
}
