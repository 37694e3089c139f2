//! `nandkit mkfs f2fs`, with fsck.f2fs and dump.f2fs as judges.

use std::fs;
use std::process::Command;

use crate::common::{fsck_f2fs, json, succeeds, tells};

fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("etc/empty")).expect("directories");
    fs::write(tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n".repeat(700)).expect("a file");
    fs::write(tree.join("left-out"), "x".repeat(100_000)).expect("a file");
    fs::hard_link(tree.join("etc/passwd"), tree.join("same")).expect("a link");
    std::os::unix::fs::symlink("etc/passwd", tree.join("link")).expect("a link");
    directory
}

#[test]
fn a_tree_becomes_a_volume_the_same_each_time() {
    let directory = with_tree();
    let at = directory.path();
    let report = json(at, &["mkfs", "f2fs", "--from", "tree", "--json", "a.img"]);
    assert_eq!((report["format"].as_str(), report["names"].as_u64()), (Some("f2fs"), Some(6)));
    assert_eq!(report["size"].as_u64(), Some(fs::metadata(at.join("a.img")).expect("an image").len()));
    fsck_f2fs(at, "a.img");
    succeeds(at, &["mkfs", "f2fs", "--from", "tree", "b.img"]);
    assert!(fs::read(at.join("a.img")).expect("an image") == fs::read(at.join("b.img")).expect("an image"));

    let words =
        ["--exclude", "left-out", "--owner", "5:6", "-O", "extra_attr,inode_checksum", "-l", "label", "--size", "100M"];
    succeeds(at, &[&["mkfs", "f2fs", "--from", "tree", "c.img"][..], &words].concat());
    fsck_f2fs(at, "c.img");
    let told = Command::new("dump.f2fs").args(["-i", "4", "c.img"]).current_dir(at).output().expect("dump.f2fs runs");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("i_uid") && told.lines().any(|line| line.contains("i_gid") && line.contains('6')), "{told}");
}

#[test]
fn the_features_of_android_are_those_of_mkfs_f2fs() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let features = |image: &str| {
        let told = json(at, &["info", "--json", image]);
        told["volume"]["features"].clone()
    };
    for words in [&["-g", "android"][..], &["-g", "android", "-O", "extra_attr,casefold", "-C", "utf8"]] {
        fs::File::create(at.join("theirs")).and_then(|file| file.set_len(256 << 20)).expect("an image");
        let made = Command::new("mkfs.f2fs").args(words).args(["-q", "-f", "theirs"]).current_dir(at).output();
        assert!(made.expect("mkfs.f2fs (Debian package f2fs-tools) runs").status.success());
        succeeds(at, &[&["mkfs", "f2fs", "--size", "256M", "-f", "ours"][..], words].concat());
        assert_eq!(features("ours"), features("theirs"), "{words:?}");
        assert!(features("ours").to_string().contains("verity"));
        fsck_f2fs(at, "ours");
    }
    succeeds(at, &["mkfs", "f2fs", "--size", "256M", "-g", "android", "-O", "ro", "-f", "ours"]);
    assert!(!features("ours").to_string().contains("quota"));
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let directory = with_tree();
    let at = directory.path();
    fs::write(at.join("there"), "kept").expect("a file");
    for (words, says) in [
        (&["--from", "tree", "there"][..], "--force"),
        (&["--from", "tree", "--size", "10M", "new"], "52 MiB"),
        (&["--from", "missing", "new"], "missing"),
        (&["--size", "64M", "-O", "fast", "new"], "extra_attr"),
        (&["--size", "64M", "-O", "inode_checksum", "new"], "extra_attr"),
        (&["--size", "64M", "-U", "12", "new"], "32 hexadecimal digits"),
        (&["--size", "1000", "-C", "latin1", "new"], "utf8"),
        (&["--size", "67108865", "new"], "512"),
        (&["new"], "--from"),
    ] {
        tells(at, &[&["mkfs", "f2fs"][..], words].concat(), 2, says);
        assert!(!at.join("new").exists(), "{words:?}");
    }
    assert_eq!(fs::read(at.join("there")).expect("a file"), b"kept");
    succeeds(at, &["mkfs", "f2fs", "--force", "--size", "64M", "there"]);
    fsck_f2fs(at, "there");
}
