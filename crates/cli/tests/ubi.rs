//! UBI and UBIFS by the commands: what they tell. Images: those of ubinize and mkfs.ubifs.

use std::fs;

use crate::common::{run, tells};

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

#[test]
fn export_advises_ubiformat() {
    let directory = with_image();
    let path = directory.path();
    let told = tells(path, &["export", "i", "out"], 0, "written with: ubiformat /dev/mtdN -f out, or nand erase.part");
    assert!(!told.stderr.contains("flash_erase"), "{}", told.stderr);
    assert_eq!(fs::read(path.join("out")).expect("read"), fs::read(path.join("i")).expect("read"));
}
