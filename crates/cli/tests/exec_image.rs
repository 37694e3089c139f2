//! `nandkit exec --image`: commands in an image's volume on an emulated chip.

use std::path::Path;

use crate::common::{json, nandkit, succeeds, tells};

fn sh(directory: &Path, script: &str) -> String {
    crate::common::run(directory, &format!("set -e; {script}"))
}

/// A tree, and images of it by other people's tools: little-endian on NOR, big-endian on NAND with
/// blocks that are not full, and FAT.
fn images(directory: &Path) {
    let script = r#"mkdir -p tree/a/b && seq 20000 > tree/long && head -c 9000 $NOISE > tree/a/random && echo deep > tree/a/b/file
        mkfs.jffs2 -d tree -e 64KiB -l -o nor.jffs2 && mkfs.jffs2 -d tree -n -b -e 16KiB -o nand.jffs2
        mkfs.vfat -C card.vfat 4096 > /dev/null && mcopy -i card.vfat -s tree/* ::"#;
    sh(directory, script);
}

const SUMS: &str = "find . -type f | sort | xargs cksum";

#[test]
fn a_command_runs_in_an_images_volume_and_the_image_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    images(at);
    let sums = sh(at, &format!("cd tree; {SUMS}"));
    let before = sh(at, "cksum nor.jffs2 nand.jffs2 card.vfat");
    for arguments in [
        &["--image", "nor.jffs2"][..],
        &["--image", "nand.jffs2"],
        &["--image", "nand.jffs2", "--erase-size", "16K", "--device", "nandsim-32m-16k"],
        &["--image", "card.vfat"],
        &["--image", "card.vfat", "--ftl", "fast", "--device", "nandsim-32m-128k"],
    ] {
        let seen = succeeds(at, &[&["exec"], arguments, &["--", "sh", "-c", SUMS]].concat());
        assert_eq!(seen, sums, "{arguments:?}");
        let change = "rm -r a; seq 30000 > long; sync long; cksum < long >&2";
        let record = json(at, &[&["exec"], arguments, &["--json", "--", "sh", "-c", change]].concat());
        assert_eq!(record["spec"]["workload"]["image"], arguments[1], "{record}");
        assert!(record["bytes_programmed"].as_u64() > Some(50_000), "{arguments:?}: {record}");
        // What the image held survives power cuts as well.
        let check = "test $(wc -l < long) = 20000 && { test ! -e a/b/file || test $(cat a/b/file) = deep; }";
        let cuts = ["--cut-at", "random:4", "--check", check, "--", "sh", "-c", "echo new > new; sync new; rm -r a"];
        let outcome = nandkit(at, &[&["exec"], arguments, &cuts[..]].concat());
        assert!(outcome.stdout.contains(" 0 failed"), "{arguments:?}: {}{}", outcome.stdout, outcome.stderr);
    }
    assert_eq!(sh(at, "cksum nor.jffs2 nand.jffs2 card.vfat"), before);
}

#[test]
fn images_with_oob_and_bad_blocks_come_onto_the_chip_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    sh(at, "mkdir tree; seq 40000 > tree/long");
    let make = ["mkfs", "jffs2", "--from", "tree", "--device", "nandsim-32m-128k", "--oob", "--summary", "chip.oob"];
    succeeds(at, &make);
    // The second block is bad: a mark in the OOB of its first page, and nothing else.
    sh(at, "s=$((64 * 2112)); { head -c $s chip.oob; head -c $s /dev/zero | tr '\\0' '\\377'; tail -c +$((s + 1)) chip.oob; } > bad.oob
        printf '\\0' | dd of=bad.oob bs=1 seek=$((64 * 2112 + 2048)) conv=notrunc status=none");
    let seen = succeeds(at, &["exec", "--image", "bad.oob", "--", "sh", "-c", "cksum < long"]);
    assert_eq!(seen, sh(at, "cksum < tree/long"));
    let record = json(at, &["exec", "--image", "bad.oob", "--json", "--", "sh", "-c", "echo x > f"]);
    assert_eq!(record["layers"]["flash"]["flash_failures_bad_block"], 0, "{record}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    images(at);
    std::fs::write(at.join("noise"), [0x5A; 5000]).expect("written");
    for (arguments, expected) in [
        (&["--image", "none"][..], "none"),
        (&["--image", "noise"], "noise"),
        (&["--image", "nand.jffs2", "--fs", "fat"], "--fs: the image holds jffs2"),
        (&["--image", "nand.jffs2", "--device", "nandsim-32m-128k"], "does not fit; expected a chip with blocks of 16"),
        (&["--image", "nand.jffs2", "--device", "ram"], "does not fit"),
        (&["--image", "card.vfat", "--device", "ram"], "expected a chip"),
        (&["--image", "card.vfat", "--record", "r"], "--record"),
        (&["--region", "rootfs"], "--image"),
    ] {
        tells(at, &[&["exec"], arguments, &["--", "true"]].concat(), 2, expected);
    }
    sh(at, "mkfs.vfat -C large.vfat 40000 > /dev/null");
    let outcome = nandkit(at, &["exec", "--image", "large.vfat", "--device", "nandsim-32m-16k", "--", "true"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("expected a larger chip"), "{}", outcome.stderr);
}
