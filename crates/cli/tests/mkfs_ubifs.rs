//! `nandkit mkfs ubifs` and `mkfs ubi`. Linux as their judge: `cargo xtask kernel ubifs`.

use std::fs;

use crate::common::{exits, json, refused, run, succeeds};

fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(
        path,
        "mkdir -p tree/etc tree/empty && seq 200000 > tree/etc/numbers && head -c 700000 $NOISE > tree/noise && \
         ln tree/noise tree/again && ln -s etc/numbers tree/link && mkfifo tree/pipe && truncate -s 9M tree/hole && \
         printf x | dd of=tree/hole bs=1M seek=5 conv=notrunc status=none",
    );
    directory
}

#[test]
fn a_tree_becomes_ubifs_and_ubi_the_same_each_time() {
    let directory = with_tree();
    let path = directory.path();
    for words in [
        &["ubifs", "--device", "slc-256m"][..],
        &["ubifs", "-m", "512", "-e", "15360", "-c", "900", "-x", "zlib"],
        &["ubifs", "-x", "none"],
        &["ubi", "--device", "slc-256m"],
        &["ubi", "-p", "16K", "-m", "512", "-s", "256", "--level", "1"],
        &["ubi", "-p", "64K", "-m", "1", "-x", "zlib", "--volume", "data", "-Q", "77"],
    ] {
        let made = json(path, &[&["mkfs"], words, &["--from", "tree", "i", "--json", "--force"]].concat());
        assert_eq!(made["names"].as_u64(), Some(8), "{made}");
        assert_eq!(
            made["image_bytes"].as_u64(),
            Some(fs::metadata(path.join("i")).expect("an image").len()),
            "{words:?}"
        );
        let info = json(path, &["info", "i", "--json"]);
        assert_eq!(info["detections"][0]["format"], words[0], "{words:?}");
        // The facts of the volume are a member of those of the device.
        let volume = if words[0] == "ubi" { &info["volume"]["ubifs"] } else { &info["volume"] };
        assert_eq!((&volume["kind"], &volume["replayed_nodes"]), (&"ubifs".into(), &0.into()), "{info}");
        exits(path, &["check", "i"], 0);
        succeeds(path, &["extract", "i", "out"]);
        run(path, "diff -r --no-dereference --exclude=pipe tree out && test -p out/pipe");
        assert_eq!(run(path, "stat -c %h out/again && rm -r out"), "2\n", "{words:?}");
        succeeds(path, &[&["mkfs"], words, &["--from", "tree", "again", "--force", "--threads", "1"]].concat());
        run(path, "cmp i again");
    }
    assert!(succeeds(path, &["info", "i"]).contains("data"));
}

#[test]
fn an_empty_volume_can_be_made() {
    let directory = tempfile::tempdir().expect("a directory");
    succeeds(directory.path(), &["mkfs", "ubi", "--device", "slc-256m", "i"]);
    assert_eq!(succeeds(directory.path(), &["ls", "i"]), "");
}

#[test]
fn what_cannot_be_is_told_before_anything_is_made() {
    let directory = with_tree();
    let path = directory.path();
    for (words, parts) in [
        (&["ubifs", "-e", "1000"][..], &["leb_size 1000", "expected 15360 to"][..]),
        (&["ubifs", "-m", "3000"], &["min_io_size 3000", "power of two"]),
        (&["ubifs", "-c", "12"], &["leb_count_max 12", "expected at least"]),
        (&["ubifs", "-c", "22"], &["does not fit into 22 LEBs", "expected more LEBs"]),
        (&["ubifs", "-x", "lz4"], &["lz4", "none, lzo, zlib, zstd"]),
        (&["ubifs", "-f", "2"], &["fanout 2", "expected 3"]),
        (&["ubifs", "--device", "nothing"], &["nothing", "device"]),
        (&["ubi", "-p", "4K", "-m", "2048"], &["4096", "no room"]),
        (&["ubi", "--volume", ""], &["volume", "1 to 127 bytes"]),
    ] {
        refused(path, &[&["mkfs"], words, &["--from", "tree", "i"]].concat(), parts);
        assert!(!path.join("i").exists(), "{words:?}");
    }
}
