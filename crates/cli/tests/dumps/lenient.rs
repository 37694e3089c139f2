//! What others read although a rule is broken is read here too, told, and not changed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::parts::{block, cleanmarker, code, file};
use super::{environment, with_dump};

use crate::common::jffs2::crc;
use crate::common::{nandkit, succeeds, tells};

pub const TEXT: &str = "flash translation layer and flash file system\n";

/// A FAT of 160 KiB with COPY.TXT in its first clusters.
pub fn fat() -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::write(path.join("c.txt"), TEXT).expect("writes");
    let made = "mkfs.vfat -C -F12 fat.img 160 > /dev/null && MTOOLS_SKIP_CHECK=1 mcopy -i fat.img c.txt ::/COPY.TXT";
    let shell = Command::new("sh").args(["-c", made]).current_dir(path).status().expect("a shell");
    assert!(shell.success(), "{made}");
    fs::read(path.join("fat.img")).expect("reads")
}

fn reads_copy(path: &Path, options: &[&str]) {
    let read = nandkit(path, &[&["cat", "dump"], options, &["/COPY.TXT"]].concat());
    assert_eq!((read.status, read.stdout.as_str()), (Some(0), TEXT), "{}", read.stderr);
}

#[test]
fn fat_is_read_as_linux_reads_it() {
    let whole = fat();
    let changed = |at: usize, bytes: &[u8]| {
        let mut image = whole.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let total = u16::from_le_bytes([whole[19], whole[20]]);
    let cases = [
        ("truncated", whole[..20 << 10].to_vec(), Some("are here")),
        ("one sector too many", changed(19, &(total + 1).to_le_bytes()), Some("are here")),
        ("no signature", changed(510, &[0, 0]), Some("no signature")),
        ("no jump", changed(0, &[0, 0, 0]), None),
    ];
    for (what, image, note) in cases {
        let directory = with_dump(&image);
        let path = directory.path();
        reads_copy(path, &[]);
        let listed = nandkit(path, &["ls", "dump", "/"]);
        assert!(note.is_none_or(|note| listed.stderr.contains(note)), "{what}: {}", listed.stderr);
        fs::write(path.join("new"), "new").expect("writes");
        let put = nandkit(path, &["put", "dump", "new", "/new"]);
        if note.is_some() {
            assert_eq!(put.status, Some(2), "{what}: {}", put.stderr);
            assert!(fs::read(path.join("dump")).expect("reads") == image, "{what}");
        }
    }
}

#[test]
fn a_fat_behind_a_table_in_larger_units_is_found() {
    let mut table = vec![0; 4 * 2048];
    let volume = fat();
    table[446 + 4] = 1;
    table[446 + 8..446 + 12].copy_from_slice(&4_u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&((volume.len() / 2048) as u32).to_le_bytes());
    table[510..512].copy_from_slice(&[0x55, 0xAA]);
    let directory = with_dump(&[table, volume].concat());
    reads_copy(directory.path(), &[]);
}

#[test]
fn the_table_of_an_esp32_is_read() {
    let volume = fat();
    let entry = |kind: u8, subtype: u8, offset: u32, size: u32, name: &str| {
        let mut entry = vec![0xAA, 0x50, kind, subtype];
        entry.extend(offset.to_le_bytes());
        entry.extend(size.to_le_bytes());
        entry.extend(name.as_bytes());
        entry.resize(32, 0);
        entry
    };
    let mut flash = [vec![0xE9], code(0x1000)].concat();
    flash.resize(0x8000, 0xFF);
    flash.extend(entry(1, 2, 0x9000, 0x1000, "nvs"));
    flash.extend(entry(1, 0x81, 0xA000, volume.len() as u32, "vfs"));
    flash.resize(0xA000, 0xFF);
    let directory = with_dump(&[flash, volume].concat());
    reads_copy(directory.path(), &["--region", "vfs"]);
    reads_copy(directory.path(), &[]);
}

#[test]
fn what_openwrt_means_to_erase_is_told() {
    let mark = block(0x1000, &[&[0xDE, 0xAD, 0xC0, 0xDE]]);
    let stale = block(0x1000, &[&cleanmarker(false), &file("old-config", 2, 1, b"old\n")]);
    let directory = with_dump(&[mark, stale, block(0x1000, &[&cleanmarker(false)])].concat());
    let listed = nandkit(directory.path(), &["ls", "dump", "/"]);
    assert_eq!(listed.stdout.trim(), "old-config");
    assert!(listed.stderr.contains("0xDEADC0DE at 0x0"), "{}", listed.stderr);
}

#[test]
fn jffs2_of_the_old_magic_number_is_named() {
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        let is_little = order(1) == [1, 0];
        let long = |number: u32| if is_little { number.to_le_bytes() } else { number.to_be_bytes() };
        let mut node = [order(0x1984), order(0x2003)].concat();
        node.extend(long(12));
        node.extend(long(crc(&node)));
        let directory = with_dump(&block(0x1000, &[&node]));
        tells(directory.path(), &["ls", "dump", "/"], 2, "JFFS2 of before 2001");
    }
}

#[test]
fn any_region_is_taken_out_with_its_length() {
    let environment = environment(0x4000, "mtdparts=mtdparts=nor0:16k(boot),16k(env),-(rest)");
    let boot = code(0x4000);
    let rest = code(0x1234);
    let directory = with_dump(&[boot.clone(), environment, rest.clone()].concat());
    let path = directory.path();
    succeeds(path, &["export", "dump", "boot.bin", "--region", "boot"]);
    assert!(fs::read(path.join("boot.bin")).expect("reads") == boot);
    succeeds(path, &["export", "dump", "rest.bin", "--region", "rest"]);
    assert!(fs::read(path.join("rest.bin")).expect("reads") == rest);
}
