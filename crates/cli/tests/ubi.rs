//! UBI and UBIFS by the commands: what they tell. Images: those of ubinize and mkfs.ubifs.

use std::fs;
use std::path::Path;

use crate::common::{run, succeeds, tells};

pub const PEB: usize = 128 << 10;

/// A directory with a device `i`: a static volume `kernel` of two blocks, and a UBIFS with a file.
pub fn with_image() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(
        directory.path().join("volumes"),
        "[k]\nmode=ubi\nimage=kernel\nvol_id=0\nvol_type=static\nvol_name=kernel\n\
         [r]\nmode=ubi\nimage=rootfs\nvol_id=1\nvol_type=dynamic\nvol_name=rootfs\nvol_size=4MiB\n",
    )
    .expect("written");
    run(
        directory.path(),
        "mkdir tree mnt && echo text > tree/file && yes | head -c 200000 > kernel && \
         mkfs.ubifs -m 2048 -e 126976 -c 100 -r tree -o rootfs && \
         ubinize -p 128KiB -m 2048 -o i volumes",
    );
    directory
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path.join("i")).expect("read");
    // LEB 1 of the kernel.
    bytes[3 * PEB..4 * PEB].fill(0xFF);
    fs::write(path.join("i"), bytes).expect("written");
}

#[test]
fn a_mount_for_reading_tells_damage() {
    let directory = with_image();
    let path = directory.path();
    damage(path);
    tells(path, &["mount", "i", "mnt"], 0, "damaged missing data: LEB 1 of the static volume 'kernel'");
    assert_eq!(fs::read_to_string(path.join("mnt/file")).expect("a file"), "text\n");
    succeeds(path, &["umount", "mnt"]);
}

#[test]
fn a_refused_mount_leaves_no_overlay() {
    let directory = with_image();
    let path = directory.path();
    tells(path, &["mount", "i", "mnt", "--overlay", "o"], 2, "overlay");
    assert!(!path.join("o").exists());
}

#[test]
fn export_advises_ubiformat() {
    let directory = with_image();
    let path = directory.path();
    let told = tells(path, &["export", "i", "out"], 0, "written with: ubiformat /dev/mtdN -f out, or nand erase.part");
    assert!(!told.stderr.contains("flash_erase"), "{}", told.stderr);
    assert_eq!(fs::read(path.join("out")).expect("read"), fs::read(path.join("i")).expect("read"));
}

#[test]
fn other_file_systems_beside_the_opened_one_are_named() {
    let directory = with_image();
    let path = directory.path();
    run(
        path,
        "mkfs.jffs2 -r tree -e 128KiB --pad=1MiB -o j && mkfs.vfat -C f 1024 > /dev/null && \
         cat j i > jffs2-ubi && cat i j > ubi-jffs2 && cat f i > fat-ubi && cat i f > ubi-fat && cat i i > ubi-ubi",
    );
    for (dump, other) in [
        ("jffs2-ubi", "1 \"ubi0\""),
        ("ubi-jffs2", "1 \"jffs2-0\""),
        ("fat-ubi", "1 \"ubi0\""),
        ("ubi-fat", "1 \"fat-0\""),
    ] {
        let part = format!("the image holds other file systems too, in the region {other}; --region chooses one");
        tells(path, &["ls", dump], 0, &part);
    }
    tells(path, &["ls", "ubi-ubi"], 2, "the image holds 2 file systems, in the regions 0 \"ubi0\", 1 \"ubi1\"");
    let whole = crate::common::nandkit(path, &["ls", "i"]);
    assert!(!whole.stderr.contains("other file systems"), "{}", whole.stderr);
}

#[test]
fn headers_that_no_erase_size_fits_are_not_advised_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    // The volume identifier at the end of 32 bits, the data in front of it.
    let mut header = b"UBI#\x01\0\0\0\0\0\0\0\0\0\0\x01\xFF\xFF\xFF\xF0\0\0\0\x08\0\0\0\x01".to_vec();
    header.resize(60, 0);
    header.extend((!crc32fast::hash(&header)).to_be_bytes());
    header.resize(PEB, 0xFF);
    fs::write(path.join("i"), header.repeat(8)).expect("written");
    for options in [&["ls", "i"][..], &["ls", "i", "--erase-size", "131072"]] {
        let told = tells(path, options, 2, "begins with UBI, which nandkit does not read");
        assert!(!told.stderr.contains("--erase-size"), "{}", told.stderr);
    }
}
