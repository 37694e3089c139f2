//! `nandkit export`: what writing tools take, and what a chip that they wrote holds.

use std::fs;
use std::path::Path;

use crate::common::{exits, succeeds, tells};
use serde_json::Value;

const PAGE: usize = 2048;
const OOB: usize = 64;
const BLOCK: usize = 64 * (PAGE + OOB);

/// A dump with OOB of 32 blocks of 64 pages, of which block 2 is bad: what stood there stands in
/// the next one, as nandwrite has it. And the tree in it.
fn dump(directory: &Path) {
    fs::create_dir_all(directory.join("tree/d")).expect("a directory");
    for (name, length) in [("a", 300_000_u32), ("d/b", 90_000)] {
        let noise: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        fs::write(directory.join("tree").join(name), noise).expect("a file");
    }
    let made =
        ["mkfs", "jffs2", "--from", "tree", "-e", "128K", "--oob=2048+64", "--size", "3968K", "-x", "none", "made"];
    succeeds(directory, &made);
    let mut bytes = fs::read(directory.join("made")).expect("read");
    assert_eq!(bytes.len(), 31 * BLOCK);
    let mut bad = vec![0xFF; BLOCK];
    bad[PAGE] = 0;
    bytes.splice(2 * BLOCK..2 * BLOCK, bad);
    fs::write(directory.join("dump"), bytes).expect("written");
}

fn is_the_tree(directory: &Path, image: &str) {
    for name in ["a", "d/b"] {
        let out = directory.join("got");
        let _ = fs::remove_file(&out);
        succeeds(directory, &["get", image, name, "got"]);
        assert!(
            fs::read(out).expect("read") == fs::read(directory.join("tree").join(name)).expect("read"),
            "{image}: {name}"
        );
    }
    succeeds(directory, &["check", image]);
}

#[test]
fn each_form_holds_what_its_tool_takes_and_reads_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    dump(path);
    let dumped = fs::read(path.join("dump")).expect("read");
    let export = |tool: &str, out: &str| -> Value {
        let told = succeeds(path, &["export", "dump", out, "--for", tool, "--json"]);
        serde_json::from_str(&told).expect("JSON")
    };
    let used = (0..32).rev().find(|block| {
        dumped[block * BLOCK..][..BLOCK].chunks(PAGE + OOB).any(|page| page[..PAGE].iter().any(|byte| *byte != 0xFF))
    });
    let used = used.expect("nodes") + 1;
    assert!(used > 4, "nodes stand behind the bad block");

    let told = export("programmer", "whole");
    assert_eq!((told["bytes"].as_u64(), told["oob_size"].as_u64()), (Some(dumped.len() as u64), Some(64)));
    assert!(fs::read(path.join("whole")).expect("read") == dumped, "a programmer gets everything");

    // Cleanmarkers stand in the OOB of erased blocks, too.
    let told = export("nandwrite-oob", "oob");
    assert_eq!(told["bad_left_out"], serde_json::json!([2]));
    let expected: Vec<u8> = [&dumped[..2 * BLOCK], &dumped[3 * BLOCK..]].concat();
    let written = fs::read(path.join("oob")).expect("read");
    assert!(expected.starts_with(&written) && expected[written.len()..].iter().all(|byte| *byte == 0xFF));
    is_the_tree(path, "oob");

    let told = export("nandwrite", "data");
    assert_eq!((told["blocks"].as_u64(), &told["bad_left_out"]), (Some(used as u64 - 1), &serde_json::json!([2])));
    let data: Vec<u8> = expected.chunks(PAGE + OOB).flat_map(|page| &page[..PAGE]).copied().collect();
    let written = fs::read(path.join("data")).expect("read");
    assert!(data.starts_with(&written) && data[written.len()..].iter().all(|byte| *byte == 0xFF));
    is_the_tree(path, "data");

    let told = export("u-boot-raw", "raw");
    assert_eq!(told["bad_left_out"], serde_json::json!([]));
    assert!(dumped.starts_with(&fs::read(path.join("raw")).expect("read")));
    let outcome = exits(path, &["export", "dump", "default"], 0);
    assert!(
        outcome.stderr.contains("1 bad blocks left out") && outcome.stderr.contains("nandwrite"),
        "{}",
        outcome.stderr
    );
    assert_eq!(fs::read(path.join("default")).expect("read"), fs::read(path.join("data")).expect("read"));
}

#[test]
fn what_cannot_be_exported_is_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    dump(path);
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "64K", "plain"]);
    fs::write(path.join("there"), "mine").expect("written");
    for (arguments, expected) in [
        (&["export", "plain", "out", "--for", "nandwrite-oob"][..], "the image has no OOB"),
        (&["export", "dump", "there"], "--force"),
        (&["export", "tree", "out"], "not a regular file"),
        (&["export", "dump", "out", "--for", "ubot"], "u-boot-raw"),
    ] {
        tells(path, arguments, 2, expected);
        assert!(!path.join("out").exists());
    }
    assert_eq!(fs::read(path.join("there")).expect("read"), b"mine");
    // What is not known to be NAND is copied as it is.
    succeeds(path, &["export", "plain", "copy"]);
    assert_eq!(fs::read(path.join("copy")).expect("read"), fs::read(path.join("plain")).expect("read"));
}
