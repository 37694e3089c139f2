//! What others read although a rule is broken is read here too, told, and not changed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::parts::{block, cleanmarker, code, file};
use super::{environment, with_dump};

use crate::common::jffs2::crc;
use crate::common::{nandkit, succeeds};

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
        ("truncated", whole[..20 << 10].to_vec(), Some("are in the image")),
        ("one sector too many", changed(19, &(total + 1).to_le_bytes()), Some("are in the image")),
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

/// The nodes of a block with another magic number, and with the checksums that go with it.
fn with_magic(mut block: Vec<u8>, magic: [u8; 2]) -> Vec<u8> {
    let mut at = 0;
    while block[at..].starts_with(&[0x85, 0x19]) {
        let length = u32::from_le_bytes(block[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        let (header, kind) = (at + 8..at + 12, block[at + 2]);
        block[at..at + 2].copy_from_slice(&magic);
        let sum = crc(&block[at..at + 8]);
        block[header].copy_from_slice(&sum.to_le_bytes());
        // Of an entry its first 32 bytes are covered, of an inode 60.
        let place = [(1, 32, 32), (2, 60, 64)].into_iter().find(|(found, ..)| *found == kind);
        if let Some((_, covered, place)) = place {
            let sum = crc(&block[at..at + covered]);
            block[at + place..at + place + 4].copy_from_slice(&sum.to_le_bytes());
        }
        at += length.next_multiple_of(4);
    }
    block
}

#[test]
fn jffs2_of_the_old_magic_number_is_read_and_not_changed() {
    let nodes = [cleanmarker(false), file("hello.txt", 2, 1, b"hello\n"), file("more", 3, 2, &code(3000))].concat();
    let old = with_magic(block(0x2000, &[&nodes]), [0x84, 0x19]);
    let blank = with_magic(block(0x2000, &[&cleanmarker(false)]), [0x84, 0x19]).repeat(3);
    let boot = |length| block(0x1_0000, &[&code(length)]);
    let volume = [old, blank].concat();
    // Behind blank flash, and directly behind code.
    for dump in [volume.clone(), [boot(0x3000), volume.clone()].concat(), [boot(0x1_0000), volume].concat()] {
        let directory = with_dump(&dump);
        let path = directory.path();
        assert_eq!(succeeds(path, &["ls", "dump", "/"]), "hello.txt\nmore\n");
        assert_eq!(succeeds(path, &["cat", "dump", "/hello.txt"]), "hello\n");
        succeeds(path, &["get", "dump", "/more", "more", "--force"]);
        assert!(fs::read(path.join("more")).expect("reads") == code(3000));
        succeeds(path, &["check", "dump"]);
        let info = succeeds(path, &["info", "dump"]);
        assert!(info.contains("little-endian") || info.contains("opens as jffs2"), "{info}");
        fs::create_dir_all(path.join("mnt")).expect("makes");
        for arguments in [
            &["put", "dump", "more", "/new"][..],
            &["rm", "dump", "/more", "--endian", "little"],
            &["mount", "dump", "mnt", "--rw"],
            &["check", "dump", "--repair", "mended"],
        ] {
            let refused = nandkit(path, arguments);
            assert_eq!(refused.status, Some(2), "{arguments:?}: {}", refused.stderr);
            assert!(
                refused.stderr.contains("0x1984") && refused.stderr.contains("can only be read"),
                "{}",
                refused.stderr
            );
        }
        assert!(fs::read(path.join("dump")).expect("reads") == dump && !path.join("mended").exists());
    }
}

#[test]
fn nodes_of_the_old_magic_number_in_a_volume_of_the_new_one_are_none() {
    let mixed = [cleanmarker(false), file("new", 2, 1, b"new\n")].concat();
    let stale = with_magic(block(0x1000, &[&cleanmarker(false), &file("stale", 3, 2, b"stale\n")]), [0x84, 0x19]);
    let directory = with_dump(&[block(0x1000, &[&mixed]), stale].concat());
    let listed = nandkit(directory.path(), &["ls", "dump", "/"]);
    assert!(listed.stdout.trim() == "new", "{}{}", listed.stdout, listed.stderr);
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
