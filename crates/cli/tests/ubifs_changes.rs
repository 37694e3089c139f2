//! Files of UBIFS volumes that are changed by commands and under mounts: in a file of its own, in
//! UBI, in dumps with OOB. The same commands on a directory of the machine are the judge; images
//! are also those of mkfs.ubifs and ubinize.

use std::fs;
use std::path::Path;

use crate::change::{STEPS, listing, with_trees};
use crate::common::mounted::{Mount, dead_mount};
use crate::common::{exits, refused, run, succeeds, tells};
use crate::ubi::PEB;

const PAGE: usize = 2048;
const OOB: usize = 64;

fn read(path: &Path, image: &str) -> Vec<u8> {
    fs::read(path.join(image)).expect("reads")
}

/// An image of mkfs.ubifs and ubinize: a static volume `kernel` in PEBs 2 and 3, and `rootfs` with
/// room for 8 MiB; all erase counters are 5. `rootfs` alone is a file too.
pub fn with_tools(path: &Path, image: &str) {
    let volumes = "[k]\nmode=ubi\nimage=kernel\nvol_id=0\nvol_type=static\nvol_name=kernel\n\
         [r]\nmode=ubi\nimage=rootfs\nvol_id=1\nvol_type=dynamic\nvol_name=rootfs\nvol_size=8MiB\n";
    fs::write(path.join("volumes"), volumes).expect("written");
    run(
        path,
        &format!(
            "yes | head -c 200000 > kernel && mkfs.ubifs -F -m 2048 -e 126976 -c 200 -r tree -o rootfs && \
             ubinize -e 5 -p 128KiB -m 2048 -o {image} volumes"
        ),
    );
}

/// The data of an image on pages with a blank OOB behind each, up to 12 MiB.
pub fn with_oob(plain: &[u8]) -> Vec<u8> {
    let mut whole = plain.to_vec();
    whole.resize(12 << 20, 0xFF);
    whole.chunks(PAGE).flat_map(|page| page.iter().copied().chain([0xFF; OOB])).collect()
}

pub fn without_oob(dump: &[u8]) -> Vec<u8> {
    dump.chunks(PAGE + OOB).flat_map(|page| page[..PAGE].iter().copied()).collect()
}

/// The erase counter of each PEB; 0 for one without.
fn erase_counters(image: &[u8]) -> Vec<u64> {
    let counter = |peb: &[u8]| match peb.starts_with(b"UBI#") {
        true => u64::from_be_bytes(peb[8..16].try_into().expect("eight bytes")),
        false => 0,
    };
    image.chunks(PEB).map(counter).collect()
}

/// Changes an image by all steps, and compares it with the directory changed in the same way.
fn changes_like_a_directory(path: &Path, image: &str, options: &str, expected: &str) {
    let binary = env!("CARGO_BIN_EXE_nandkit");
    for (ours, _) in STEPS {
        let line = ours.replace('@', &format!("{image} {options}"));
        run(path, &format!("SOURCE_DATE_EPOCH=1600000000 {binary} {line}"));
    }
    exits(path, &["check", image], 0);
    let out = format!("out-{image}");
    succeeds(path, &["extract", image, &out]);
    assert_eq!(listing(path, &out), expected, "{image} {options}");
    run(path, &format!("diff -r --no-dereference -x pipe mirror {out}"));
}

#[test]
fn commands_do_to_ubifs_what_they_do_to_a_directory() {
    let directory = with_trees();
    let path = directory.path();
    run(path, "cp -a tree mirror");
    for (_, theirs) in STEPS {
        run(path, &theirs.replace("@/", "mirror/"));
    }
    let expected = listing(path, "mirror");
    succeeds(path, &["mkfs", "ubifs", "--from", "tree", "--device", "slc-256m", "bare"]);
    changes_like_a_directory(path, "bare", "--size 12M --compress none", &expected);
    let length = read(path, "bare").len();
    assert!(length <= 12 << 20 && length.is_multiple_of((128 << 10) - 1024), "{length}: no whole LEBs");

    // mkfs.ubifs leaves attributes out.
    let attribute = ["-n", "user.old", "-v", "1", "/bin/app"];
    with_tools(path, "i");
    let before = read(path, "i");
    fs::write(path.join("oob"), with_oob(&before)).expect("written");
    for image in ["i", "oob"] {
        succeeds(path, &[&["setfattr", image], &attribute[..]].concat());
        match image {
            "oob" => changes_like_a_directory(path, image, "--compress zlib", &expected),
            _ => drop(succeeds(path, &["put", image, "-r", "over", "/", "--compress", "zstd"])),
        }
        let after = if image == "i" { read(path, "i") } else { without_oob(&read(path, "oob")) };
        assert_eq!(after[2 * PEB..4 * PEB], before[2 * PEB..4 * PEB], "{image}: another volume");
        let (old, new) = (erase_counters(&before), erase_counters(&after));
        assert!(old.iter().zip(&new).all(|(old, new)| old <= new) && new != old, "{image}: {old:?} {new:?}");
        assert!(new.iter().all(|count| *count == 0 || *count >= 5), "{image}: {new:?}");
    }
    // The image is shorter than its flash, and grew by what was written.
    let (before, after) = (before.len(), read(path, "i").len());
    assert!(after.is_multiple_of(PEB) && after >= before && after < before + (3 << 20), "{before} {after}");
    assert_eq!(read(path, "oob").len(), (12 << 20) / PAGE * (PAGE + OOB));
}

#[test]
fn an_image_without_room_does_not_change() {
    let directory = with_trees();
    let path = directory.path();
    with_tools(path, "i");
    succeeds(path, &["mkfs", "ubifs", "--from", "tree", "--device", "slc-256m", "bare"]);
    succeeds(path, &["mkfs", "ubi", "--from", "tree", "--device", "slc-256m", "ubi"]);
    run(path, "mkdir folder && cat $NOISE $NOISE $NOISE > folder/huge");
    for (image, words) in [
        ("bare", &["put", "big", "/"][..]),
        ("ubi", &["put", "big", "/"]),
        ("bare", &["put", "-r", "folder", "/", "--size", "8M"]),
        ("ubi", &["put", "-r", "folder", "/", "--size", "8M"]),
        ("i", &["put", "-r", "folder", "/"]),
        ("rootfs", &["put", "-r", "folder", "/", "--size", "6M"]),
    ] {
        let before = read(path, image);
        let words = [&words[..1], &[image], &words[1..]].concat();
        refused(path, &words, &["no space left", "are free", "Nothing was changed", "--size"]);
        assert!(read(path, image) == before, "{words:?}");
    }
    // What frees space is possible.
    for image in ["bare", "ubi", "i", "rootfs"] {
        succeeds(path, &["rm", image, "-r", "/var", "/bin/app"]);
        exits(path, &["check", image], 0);
    }
}

#[test]
fn the_volume_is_chosen_and_what_cannot_be_changed_is_told() {
    let directory = with_trees();
    let path = directory.path();
    with_tools(path, "i");
    let good = read(path, "i");
    for (options, parts) in [
        (&["--volume", "kernel"][..], &["--volume", "'kernel' holds no UBIFS", "rootfs"][..]),
        (&["--volume", "none"], &["'none' is not there", "rootfs"]),
        (&["--volume", "all"], &["--volume", "can only be read", "rootfs"]),
        (&["--compress", "rtime"], &["--compress", "rtime", "none, lzo, zlib, zstd"]),
    ] {
        refused(path, &[&["put", "i", "big", "/"], options].concat(), parts);
        assert!(read(path, "i") == good, "{options:?}");
    }
    let told = succeeds(path, &["put", "i", "big", "/", "--dry-run"]);
    assert!(told.starts_with("would "), "{told}");
    assert!(read(path, "i") == good);
    // Two volumes with UBIFS.
    run(
        path,
        "cat >> volumes <<X\n[s]\nmode=ubi\nimage=rootfs\nvol_id=2\nvol_type=dynamic\nvol_name=second\nvol_size=8MiB\nX\nubinize -p 128KiB -m 2048 -o two volumes && cp two before",
    );
    refused(path, &["put", "two", "big", "/"], &["several volumes hold UBIFS", "--volume", "rootfs, second"]);
    succeeds(path, &["put", "two", "big", "/", "--volume", "second", "--compress", "none"]);
    exits(path, &["check", "two", "--volume", "second"], 0);
    exits(path, &["check", "two", "--volume", "rootfs"], 0);
    succeeds(path, &["get", "two", "/big", "copy", "--volume", "second"]);
    run(path, "cmp big copy");
    exits(path, &["cat", "two", "/big", "--volume", "rootfs"], 2);
    for image in ["two", "before"] {
        succeeds(path, &["ubi", "extract", image, "rootfs", &format!("{image}-rootfs")]);
    }
    run(path, "cmp two-rootfs before-rootfs");
    // No volume with UBIFS.
    run(path, "head -6 volumes > one && ubinize -p 128KiB -m 2048 -o none one");
    refused(path, &["put", "none", "big", "/"], &["no volume of this UBI device holds UBIFS"]);
}

#[test]
fn a_damaged_volume_is_not_changed() {
    let directory = with_trees();
    let path = directory.path();
    with_tools(path, "i");
    let mut bytes = read(path, "rootfs");
    // The first node of the index is not its root.
    let is_index = |node: &[u8]| node.starts_with(&[0x31, 0x18, 0x10, 0x06]) && node.get(20) == Some(&9);
    let index = (0..bytes.len()).step_by(8).find(|at| is_index(&bytes[*at..])).expect("an index");
    bytes[index + 40] ^= 1;
    fs::write(path.join("bad"), &bytes).expect("written");
    run(path, "mkdir mnt");
    for words in [&["rm", "bad", "/etc/group", "--size", "6M"][..], &["mount", "bad", "mnt", "--rw"]] {
        tells(path, words, 1, "the image is damaged");
        assert!(read(path, "bad") == bytes, "{words:?}");
    }
    refused(path, &["mkdir", "bad", "/new", "--even-if-damaged"], &["Nothing was changed"]);
    assert!(read(path, "bad") == bytes);
}

#[test]
fn mounts_change_ubifs_but_not_before_they_are_asked_to() {
    let directory = with_trees();
    let path = directory.path();
    with_tools(path, "i");
    fs::write(path.join("oob"), with_oob(&read(path, "i"))).expect("written");
    let mut bare = read(path, "rootfs");
    bare.resize(60 * 126_976, 0xFF);
    fs::write(path.join("bare"), bare).expect("written");
    for image in ["bare", "oob"] {
        let before = read(path, image);
        let mount = Mount::start(path, image, &["--rw"]);
        run(path, "stat mnt/etc/passwd && ls mnt/bin");
        assert!(read(path, image) == before, "{image}: nothing was changed, and something written");
        assert_eq!(mount.unmount(), Some(0));
        if image == "bare" {
            continue;
        }
        let before = read(path, image);
        let mount = Mount::start(path, image, &["--overlay", "o"]);
        run(path, "cp -a over mnt/new && mv mnt/etc mnt/moved && rm mnt/bin/app && sync mnt/new/lib/a");
        assert_eq!(mount.unmount(), Some(0));
        assert!(read(path, image) == before, "{image}: the changes are in the overlay");
        exits(path, &["check", image, "--overlay", "o"], 0);
        succeeds(path, &["overlay", "apply", image, "o"]);
        exits(path, &["check", image], 0);
        // A process that is killed leaves what was synced.
        let mount = Mount::start(path, image, &["--rw"]);
        run(path, "cp big mnt/synced && sync mnt/synced");
        let dead = dead_mount();
        mount.signal("KILL");
        mount.wait();
        run(path, "umount -l mnt");
        drop(dead);
        let told = tells(path, &["mkdir", image, "/after"], 0, "the volume was not unmounted");
        assert!(told.stderr.contains("recovered"), "{}", told.stderr);
        exits(path, &["check", image], 0);
        succeeds(path, &["get", image, "/synced", &format!("synced-{image}")]);
        succeeds(path, &["get", image, "-r", "/new", &format!("new-{image}")]);
        run(path, &format!("cmp big synced-{image} && diff -r --no-dereference -x pipe over new-{image}"));
        assert!(succeeds(path, &["ls", image]).contains("after\nbin\n"), "{image}");
    }
}

#[test]
fn a_mount_lengthens_an_image_that_is_shorter_than_its_flash() {
    let directory = with_trees();
    let path = directory.path();
    with_tools(path, "i");
    run(path, "mkdir mnt");
    tells(path, &["mount", "i", "mnt", "--overlay", "o"], 2, "an overlay has the length of its image");
    assert!(!path.join("o").exists());
    let mount = Mount::start(path, "i", &["--rw"]);
    run(path, "cp big mnt/");
    assert_eq!(mount.unmount(), Some(0));
    exits(path, &["check", "i"], 0);
    succeeds(path, &["get", "i", "/big", "copy"]);
    run(path, "cmp big copy");
}
