//! F2FS volumes that were not unmounted: commands that read show what was fsynced behind the last
//! checkpoint, and leave the image as it is; fsck.f2fs and diff are the judges.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::mounted::Mount;
use crate::common::{exits, fsck_f2fs, json, nandkit, run, succeeds, tells};
use nandkit_stack::image::{ChangeOptions, ImageInPlace, OpenOptions as Options};
use nandkit_units::Payload;
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::{NewNode, Timestamp};
use serde_json::Value;

/// An image `i` of `before`, in which files were changed and fsynced as in `after`, and that nobody
/// unmounted.
fn unclean(features: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let commands = "mkdir -p before/a && seq 60000 > before/a/numbers && seq 30 > before/a/few && cp -r before after &&
        seq 9 >> after/a/numbers && seq 20000 | head -c 90000 > after/new && seq 5 > after/a/small";
    run(path, commands);
    run(
        path,
        &format!(
            "truncate -s 100M i && mkfs.f2fs -q -O {features} i >/dev/null && sload.f2fs -f before -t / i >/dev/null"
        ),
    );
    change(path);
    directory
}

/// Changes the image as the tree `after` has it, one fsync after another, and leaves it.
fn change(path: &Path) {
    let how = ChangeOptions { now: Timestamp(1_700_000_000_000_000_000), for_good: true, ..ChangeOptions::default() };
    let mut image = ImageInPlace::open(&path.join("i"), &Options::default(), &how).expect("an image");
    let content = |name: &str| fs::read(path.join("after").join(name)).expect("a file");
    let numbers = resolve(image.fs(), b"a/numbers", Follow::Never).expect("a file");
    let (root, inside) = (image.fs().root(), resolve(image.fs(), b"a", Follow::Never).expect("a directory"));
    let changes = image.changes();
    for (directory, name, path) in [(root, &b"new"[..], "new"), (inside, b"small", "a/small")] {
        let inode = changes.create(directory, name, &NewNode::FILE).expect("a name");
        changes.write(inode, 0, Payload::Bytes(&content(path))).expect("content");
        changes.sync(Some(inode)).expect("an fsync");
    }
    // Behind its end: what is overwritten where it stands would be so for the checkpoint, too.
    let (old, new) = (fs::read(path.join("before/a/numbers")).expect("a file").len(), content("a/numbers"));
    changes.write(numbers, old as u64, Payload::Bytes(&new[old..])).expect("content");
    changes.sync(Some(numbers)).expect("an fsync");
    drop(image);
    run(path, "chmod -R u+rwX before after");
}

const FEATURES: &str = "extra_attr,inode_checksum";

#[test]
fn commands_that_read_show_what_was_fsynced_and_change_nothing() {
    let directory = unclean(FEATURES);
    let path = directory.path();
    let before = fs::read(path.join("i")).expect("an image");
    let outcome = nandkit(path, &["ls", "i"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(0), "a\nnew\n"), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("3 files that were fsynced after the last checkpoint are shown"),
        "{}",
        outcome.stderr
    );
    assert_eq!(succeeds(path, &["cat", "i", "/a/small"]), "1\n2\n3\n4\n5\n");
    succeeds(path, &["extract", "i", "out"]);
    run(path, "diff -r after out");
    succeeds(path, &["get", "i", "/new", "got"]);
    run(path, "cmp after/new got");
    let mount = Mount::start(path, "i", &[]);
    run(path, "diff -r after mnt");
    assert_eq!(mount.unmount(), Some(0));
    let info = nandkit(path, &["info", "i"]);
    assert!(info.stdout.contains("3 files that were fsynced"), "{}{}", info.stdout, info.stderr);
    let checked = nandkit(path, &["check", "i", "--json"]);
    assert!(checked.status == Some(0) && checked.stderr.contains("3 files"), "{}{}", checked.stdout, checked.stderr);
    let report: Value = serde_json::from_str(&checked.stdout).expect("JSON");
    assert_eq!(report["files"], 4, "{report}");
    let faults = report["findings"].as_array().expect("a list").iter().filter(|found| found["harmless"] != true);
    assert_eq!(faults.count(), 0, "{report}");
    // The checkpoint, where it is asked for.
    tells(path, &["extract", "i", "old", "--no-recovery"], 0, "fsynced after the last checkpoint are not shown");
    run(path, "diff -r before old");
    assert!(fs::read(path.join("i")).expect("an image") == before, "the image is as it was");
    let outcome = nandkit(path, &["rm", "i", "/new", "--no-recovery"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("--no-recovery"), "{}", outcome.stderr);
}

#[test]
fn a_repair_replays_first_or_drops_what_waits() {
    let directory = unclean(FEATURES);
    let path = directory.path();
    let outcome = nandkit(path, &["check", "i", "--repair", "whole"]);
    assert!(outcome.status == Some(0) && outcome.stderr.contains("3 files"), "{}{}", outcome.stdout, outcome.stderr);
    fsck_f2fs(path, "whole");
    succeeds(path, &["extract", "whole", "out", "--no-recovery"]);
    run(path, "diff -r after out");
    exits(path, &["check", "i", "--repair", "dropped", "--no-recovery"], 0);
    fsck_f2fs(path, "dropped");
    succeeds(path, &["extract", "dropped", "old"]);
    run(path, "diff -r before old");
}

/// Linux' recovery would bring the quotas along; a reader needs none.
#[test]
fn volumes_with_quota_files_are_read_recovered_too() {
    let directory = unclean("quota,extra_attr");
    let path = directory.path();
    let outcome = nandkit(path, &["extract", "i", "out"]);
    assert!(outcome.status == Some(0) && outcome.stderr.contains("3 files"), "{}", outcome.stderr);
    run(path, "diff -r after out");
    exits(path, &["check", "i"], 0);
}

#[test]
fn a_damaged_chain_is_told_and_the_checkpoint_shown() {
    let directory = unclean(FEATURES);
    let path = directory.path();
    let info = json(path, &["info", "i", "--json"]);
    let (log, main) = (&info["volume"]["checkpoint"]["logs"][4], &info["volume"]["areas"][4]["block"]);
    let number = |value: &Value| value.as_u64().expect("a number");
    let first = number(main) + number(&log["segment"]) * 512 + number(&log["next_block"]);
    // The second node says that the first one follows.
    let file = OpenOptions::new().write(true).open(path.join("i")).expect("an image");
    file.write_all_at(&(first as u32).to_le_bytes(), (first + 1) * 4096 + 4092).expect("bytes");
    let outcome = exits(path, &["extract", "i", "old"], 1);
    assert!(
        outcome.stderr.contains("recovering them failed") && outcome.stderr.contains("cycle"),
        "{}",
        outcome.stderr
    );
    run(path, "diff -r before old");
    let outcome = nandkit(path, &["check", "i"]);
    assert!(outcome.status == Some(1) && outcome.stdout.contains("cycle"), "{}", outcome.stdout);
    let outcome = nandkit(path, &["check", "i", "--repair", "out.img"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("--no-recovery"), "{}", outcome.stderr);
    exits(path, &["check", "i", "--repair", "out.img", "--no-recovery"], 0);
    fsck_f2fs(path, "out.img");
}

#[test]
fn extents_of_files_are_told() {
    let directory = unclean(FEATURES);
    let path = directory.path();
    let extents = |arguments: &[&str]| -> Value {
        let info = succeeds(path, &[&["info", "i", "--json"], arguments].concat());
        serde_json::from_str::<Value>(&info).expect("JSON")["file"].take()
    };
    let image = fs::read(path.join("i")).expect("an image");
    for name in ["/new", "/a/numbers"] {
        let file = extents(&["--extents", name]);
        let content = fs::read(path.join("after").join(&name[1..])).expect("a file");
        assert_eq!(file["size"].as_u64(), Some(content.len() as u64), "{file}");
        let mut covered = 0;
        for extent in file["extents"].as_array().expect("a list") {
            let number = |name: &str| extent[name].as_u64().expect("a number") as usize;
            assert_eq!((number("offset"), extent["kind"].as_str()), (covered, Some("written")), "{file}");
            let end = (covered + number("length")).min(content.len());
            assert!(image[number("address")..][..end - covered] == content[covered..end], "{extent}");
            assert!(extent["segment_type"].as_str().is_some_and(|kind| kind.ends_with("data")), "{extent}");
            covered = end;
        }
        assert_eq!(covered, content.len(), "{file}");
    }
    // What stands in an inode is where the image has it, or, recovered, nowhere.
    let file = extents(&["--extents", "/a/few"]);
    let at = file["extents"][0]["address"].as_u64().expect("an address") as usize;
    assert!(file["extents"][0]["kind"] == "inline" && image[at..].starts_with(b"1\n2\n3\n"), "{file}");
    let file = extents(&["--extents", "/a/small"]);
    assert_eq!(
        (&file["extents"][0]["kind"], &file["extents"][0]["address"]),
        (&"inline".into(), &Value::Null),
        "{file}"
    );
    let text = succeeds(path, &["info", "i", "--extents", "/new"]);
    assert!(text.contains("/new: 90000 bytes, ") && text.contains("written") && text.contains(" data"), "{text}");
    assert_eq!(nandkit(path, &["info", "i", "--extents", "/none"]).status, Some(2));
    assert_eq!(nandkit(path, &["info", "i", "--extents", "/a"]).status, Some(2));
}
