//! `check --repair` of UBIFS: in a file of its own, in UBI, and in a dump with OOB.

use std::fs;
use std::path::Path;

use crate::change::{listing, with_trees};
use crate::common::{exits, refused, run, succeeds};
use crate::ubi::PEB;
use crate::ubifs_changes::{with_oob, with_tools, without_oob};

/// The bytes of a node's header that say UBIFS, and those of the type of index nodes.
const MAGIC: [u8; 4] = [0x31, 0x18, 0x10, 0x06];
const INDEX: u8 = 9;
const DATA: u8 = 1;

/// Damages all nodes of a type, or the first one.
fn damage(image: &Path, node_type: u8, all: bool) {
    let mut bytes = fs::read(image).expect("reads");
    let starts = (0..bytes.len() - 24).step_by(8).filter(|at| bytes[*at..].starts_with(&MAGIC));
    let found: Vec<usize> = starts.filter(|at| bytes[at + 20] == node_type).collect();
    assert!(!found.is_empty(), "{}: no node of type {node_type}", image.display());
    found.iter().take(if all { usize::MAX } else { 1 }).for_each(|at| bytes[at + 26] ^= 0x55);
    fs::write(image, bytes).expect("written");
}

#[test]
fn a_volume_without_its_index_is_whole_again() {
    let directory = with_trees();
    let path = directory.path();
    let expected = listing(path, "tree");
    succeeds(path, &["mkfs", "ubifs", "--from", "tree", "--device", "slc-256m", "bare"]);
    with_tools(path, "i");
    // mkfs.ubifs leaves attributes out.
    succeeds(path, &["setfattr", "i", "-n", "user.old", "-v", "1", "/bin/app"]);
    let whole = fs::read(path.join("i")).expect("reads");
    for image in ["bare", "i", "oob"] {
        if image == "oob" {
            fs::write(path.join("oob"), with_oob(&fs::read(path.join("i")).expect("reads"))).expect("written");
        } else {
            damage(&path.join(image), INDEX, true);
        }
        let (repaired, out) = (format!("{image}-repaired"), format!("{image}-out"));
        let outcome = exits(path, &["check", image, "--repair", &repaired], 1);
        assert!(outcome.stdout.contains("left out 0"), "{image}: {}", outcome.stdout);
        exits(path, &["check", &repaired], 0);
        succeeds(path, &["extract", &repaired, &out]);
        assert_eq!(listing(path, &out), expected, "{image}");
        let length = |image: &str| fs::metadata(path.join(image)).expect("a file").len();
        assert_eq!(length(&repaired), length(image), "{image}");
        exits(path, &["check", image, "--repair", &repaired], 2);
    }
    // The other volume and the erase counters are as they were.
    for repaired in [
        fs::read(path.join("i-repaired")).expect("reads"),
        without_oob(&fs::read(path.join("oob-repaired")).expect("reads")),
    ] {
        assert_eq!(repaired[2 * PEB..4 * PEB], whole[2 * PEB..4 * PEB], "another volume");
        let counters = repaired.chunks(PEB).filter(|peb| peb.starts_with(b"UBI#"));
        assert!(counters.map(|peb| peb[15]).all(|count| count >= 5), "an erase counter is lost");
    }
}

#[test]
fn what_is_lost_is_told_by_name() {
    let directory = with_trees();
    let path = directory.path();
    with_tools(path, "i");
    damage(&path.join("i"), DATA, false);
    let outcome = exits(path, &["check", "i", "--repair", "r"], 1);
    assert!(outcome.stdout.contains("left out: ") && outcome.stdout.contains("block "), "{}", outcome.stdout);
    let json = exits(path, &["check", "i", "--repair", "again", "--json"], 1).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let dropped = &value["repaired"]["dropped"][0];
    let lost = dropped["files"][0]["path"].as_str().unwrap_or_else(|| panic!("{value:#}"));
    run(path, "cmp r again");
    exits(path, &["check", "r"], 0);
    succeeds(path, &["extract", "r", "out"]);
    let lost = lost.trim_start_matches('/');
    run(
        path,
        &format!(
            "! cmp -s tree/{lost} out/{lost} && rm tree/{lost} out/{lost} && diff -r --no-dereference -x pipe tree out"
        ),
    );
    // A repaired image can be changed.
    succeeds(path, &["put", "r", "big", "/"]);
    exits(path, &["check", "r"], 0);
}

#[test]
fn what_cannot_be_repaired_is_said() {
    let directory = with_trees();
    let path = directory.path();
    run(
        path,
        "yes | head -c 200000 > kernel && printf '[k]\\nmode=ubi\\nimage=kernel\\nvol_id=0\\nvol_type=static\\nvol_name=k\\n' > v && ubinize -p 128KiB -m 2048 -o none v",
    );
    refused(path, &["check", "none", "--repair", "r"], &["no volume of this UBI device holds UBIFS"]);
    assert!(!path.join("r").exists());
}
