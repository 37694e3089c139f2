//! `nandkit mkfs fat`, with fsck.vfat and mtools as judges.

use std::fs;

use crate::common::{exits, fsck_vfat, json, run, succeeds};

fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("photos/a long name")).expect("directories");
    fs::write(tree.join("photos/a long name/first photo.jpeg"), "x".repeat(300_000)).expect("a file");
    fs::write(tree.join("NOTES.TXT"), "hello\n").expect("a file");
    fs::write(tree.join("empty"), "").expect("a file");
    fs::hard_link(tree.join("NOTES.TXT"), tree.join("same.txt")).expect("a link");
    std::os::unix::fs::symlink("NOTES.TXT", tree.join("link")).expect("a link");
    directory
}

#[test]
fn a_tree_becomes_a_fat_volume_the_same_each_time() {
    let directory = with_tree();
    let at = directory.path();
    for (bits, size) in [("12", "4M"), ("16", "16M"), ("32", "64M")] {
        let words = ["--from", "tree", "--size", size, "-F", bits, "--cluster-size"];
        let cluster = if bits == "32" { "512" } else { "2K" };
        let made = ["mkfs", "fat", "a.img", "--json", "--force", "-n", "CARD", "-i", "1234-ABCD"];
        let report = json(at, &[&made[..], &words, &[cluster]].concat());
        assert_eq!(report["type"].as_str(), Some(format!("FAT{bits}").as_str()), "{report}");
        assert_eq!((report["names"].as_u64(), report["left_out"].as_u64()), (Some(6), Some(1)), "{report}");
        fsck_vfat(at, "a.img");
        assert!(run(at, "mdir -i a.img ::").contains("Volume Serial Number is 1234-ABCD"));
        run(at, "rm -rf out && mkdir out && mcopy -s -i a.img ::photos ::NOTES.TXT ::same.txt ::empty out/");
        run(at, "diff -r --exclude=link tree out");
        let made = ["mkfs", "fat", "b.img", "--force", "-n", "CARD", "-i", "1234abcd"];
        succeeds(at, &[&made[..], &words, &[cluster]].concat());
        assert!(fs::read(at.join("a.img")).expect("an image") == fs::read(at.join("b.img")).expect("an image"));
    }
}

#[test]
fn an_empty_fat_volume_is_one_and_what_cannot_be_is_refused() {
    let directory = with_tree();
    let at = directory.path();
    succeeds(at, &["mkfs", "fat", "a.img", "--size", "16M"]);
    fsck_vfat(at, "a.img");
    run(at, "mdir -i a.img ::");
    succeeds(at, &["put", "a.img", "tree/NOTES.TXT", "/NOTES.TXT"]);
    fsck_vfat(at, "a.img");
    for (words, part) in [
        (&["b.img", "--size", "1000"][..], "a multiple of 512"),
        (&["b.img", "--size", "64K", "--from", "tree"], "photos/a long name/first photo.jpeg"),
        (&["b.img", "--size", "16M", "-s", "3000"], "a power of two"),
        (&["b.img", "--size", "16M", "-n", "twelve chars"], "up to 11 characters"),
        (&["b.img", "--size", "16M", "-i", "xyz"], "hexadecimal"),
        (&["a.img", "--size", "16M"], "--force"),
    ] {
        let told = exits(at, &[&["mkfs", "fat"], words].concat(), 2);
        assert!(told.stderr.contains(part), "{words:?}: {}", told.stderr);
        assert!(!at.join("b.img").exists(), "{words:?}");
    }
}
