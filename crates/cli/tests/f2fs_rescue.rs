//! `rescue` and deleted files of F2FS images.

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{exits, json, nandkit, nandkit_bytes, succeeds};
use serde_json::Value;

/// A volume of 100 MiB with a tree in it.
pub(crate) fn with_image() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir_all(path.join("tree/d")).expect("a directory");
    for number in 0..50_u32 {
        fs::write(path.join(format!("tree/d/{number}")), number.to_string().repeat(900)).expect("a file");
    }
    fs::write(path.join("tree/big"), (0..700_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).expect("a file");
    std::os::unix::fs::symlink("big", path.join("tree/link")).expect("a link");
    succeeds(path, &["mkfs", "f2fs", "--size", "100M", "--from", "tree", "i"]);
    directory
}

pub(crate) fn same(directory: &Path, one: &str, other: &str) {
    let output = std::process::Command::new("diff")
        .args(["-r", "--no-dereference", one, other])
        .current_dir(directory)
        .output()
        .expect("diff runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn zero(image: &Path, blocks: std::ops::Range<u64>) {
    let file = OpenOptions::new().write(true).open(image).expect("a file");
    for block in blocks {
        file.write_all_at(&[0; 4096], block * 4096).expect("bytes");
    }
}

#[test]
fn files_are_rescued_without_checkpoints_and_without_superblocks() {
    let directory = with_image();
    let path = directory.path();
    for (name, blocks) in [("c", 512..1536), ("s", 0..2)] {
        fs::copy(path.join("i"), path.join(name)).expect("a copy");
        zero(&path.join(name), blocks);
        let before = fs::read(path.join(name)).expect("an image");
        assert_eq!(nandkit(path, &["ls", name]).status, Some(2));
        let out = format!("out-{name}");
        let told = succeeds(path, &["rescue", name, &out]);
        assert!(told.contains(" sure, 0 unsure"), "{told}");
        same(path, "tree", &out);
        assert!(fs::read(path.join(name)).expect("an image") == before, "the image is only read");
    }
    // A directory's node is lost: what it listed is unsure, and there.
    let inode = |path_in: &str| {
        let list = json(path, &["ls", "-R", "i", "--json"]);
        let found = list.as_array().expect("a list").iter().find(|row| row["path"] == path_in).cloned();
        found.expect("a path")["inode"].as_u64().expect("a number")
    };
    let number = inode("/d");
    let image = fs::read(path.join("i")).expect("an image");
    let footer = [number as u32; 2].map(u32::to_le_bytes).concat();
    let block = (2048..image.len() / 4096).find(|block| image[block * 4096 + 4072..][..8] == footer).expect("a node");
    zero(&path.join("c"), block as u64..block as u64 + 1);
    let outcome = exits(path, &["rescue", "c", "out", "--json"], 1);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((report["format"].as_str(), report["unsure"].as_u64()), (Some("f2fs"), Some(50)), "{report}");
    same(path, "tree/d", &format!("out/lost+found/directory {number}"));
    // What is no F2FS, and a target that is in use.
    fs::write(path.join("noise"), vec![0x5A; 3 << 20]).expect("a file");
    let outcome = nandkit(path, &["rescue", "noise", "out2"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("no inode"), "{}", outcome.stderr);
    assert!(!path.join("out2").exists());
    assert_eq!(nandkit(path, &["rescue", "c", "tree"]).status, Some(2));
}

#[test]
fn deleted_files_are_listed_and_delivered_while_their_blocks_are_free() {
    let directory = with_image();
    let path = directory.path();
    assert_eq!(succeeds(path, &["ls", "--deleted", "i"]), "");
    succeeds(path, &["rm", "i", "/big", "/d/7"]);
    let told = succeeds(path, &["ls", "--deleted", "i"]);
    assert!(told.contains(" /big (inode ") && told.contains(" /d/7 (inode "), "{told}");
    for name in ["big", "d/7"] {
        let outcome = nandkit(path, &["cat", "i", name]);
        assert!(outcome.status == Some(2) && outcome.stderr.contains("--version"), "{}", outcome.stderr);
        let (status, bytes, told) = nandkit_bytes(path, &["cat", "i", name, "--version", "1"]);
        assert_eq!(status, Some(0), "{told}");
        assert!(bytes == fs::read(path.join("tree").join(name)).expect("a file"), "{name}");
    }
    // Its blocks are used again.
    let free = 70 << 20;
    fs::write(path.join("more"), vec![9; free]).expect("a file");
    let outcome = nandkit(path, &["put", "i", "more", "/more"]);
    if outcome.status == Some(0) {
        let (status, bytes, _) = nandkit_bytes(path, &["cat", "i", "big", "--version", "1"]);
        assert!(status != Some(0) || bytes == fs::read(path.join("tree/big")).expect("a file"));
    }
}

#[test]
fn what_linux_noted_of_errors_is_told_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    succeeds(path, &["mkfs", "f2fs", "--size", "100M", "i"]);
    let file = OpenOptions::new().write(true).open(path.join("i")).expect("a file");
    for copy in [1024, 5120] {
        file.write_all_at(&[2], copy + 2762 + 1).expect("a byte");
        file.write_all_at(&[5], copy + 2794).expect("a byte");
    }
    let told = succeeds(path, &["info", "i"]);
    assert!(told.contains("fault_inject (2 times)") && told.contains("corrupted_cluster, invalid_blkaddr"), "{told}");
    let info = json(path, &["info", "i", "--json"]);
    assert_eq!(info["volume"]["stop_reasons"][0], serde_json::json!({"reason": "fault_inject", "count": 2}));
    assert_eq!(info["volume"]["errors"], serde_json::json!(["corrupted_cluster", "invalid_blkaddr"]));
    assert!(succeeds(path, &["check", "i"]).contains("fault_inject (2)"));
}
