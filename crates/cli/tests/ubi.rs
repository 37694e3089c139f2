//! UBI and UBIFS by the commands: what they tell. Images: those of ubinize and mkfs.ubifs.

use std::fs;
use std::path::Path;

use crate::common::{run, succeeds, tells};

const PEB: usize = 128 << 10;

/// A directory with a device `i`: a static volume `kernel` of two blocks, and a UBIFS with a file.
fn with_image() -> tempfile::TempDir {
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
    tells(path, &["mount", "i", "mnt", "--overlay", "o"], 2, "ubi");
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
