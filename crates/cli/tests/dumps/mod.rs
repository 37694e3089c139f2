//! Whole dumps as people have them: what a volume owns, and that nothing else is written.

mod fat;
mod lenient;
pub mod parts;
mod wrappers;

use std::fs;

use crate::common::{exits, nandkit, succeeds, tells};
use parts::{block, cleanmarker, code, file};

fn with_dump(dump: &[u8]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("dump"), dump).expect("writes");
    directory
}

#[test]
fn two_volumes_side_by_side_are_told_apart() {
    let volume = |name: &str, content: &[u8]| block(0x1_0000, &[&cleanmarker(false), &file(name, 2, 1, content)]);
    let dump = [volume("dynamic.bin", b"DYNAMIC"), volume("permanent.bin", b"PERMANENT")].concat();
    let directory = with_dump(&dump);
    let path = directory.path();
    tells(
        path,
        &["cat", "dump", "/dynamic.bin"],
        2,
        "holds 2 file systems, in the regions 0 \"jffs2-0\", 1 \"jffs2-1\"",
    );
    assert_eq!(succeeds(path, &["cat", "dump", "--region", "jffs2-0", "/dynamic.bin"]), "DYNAMIC");
    assert_eq!(succeeds(path, &["cat", "dump", "--region", "1", "/permanent.bin"]), "PERMANENT");
    assert_eq!(succeeds(path, &["ls", "dump", "--region", "1", "/"]).trim(), "permanent.bin");
}

#[test]
fn changes_stay_in_the_volume_that_is_meant() {
    let volume = |name: &str| {
        let free = block(0x1000, &[&cleanmarker(false)]).repeat(15);
        [block(0x1000, &[&cleanmarker(false), &file(name, 2, 1, name.as_bytes())]), free].concat()
    };
    let dump = [volume("first"), volume("second")].concat();
    let directory = with_dump(&dump);
    let path = directory.path();
    fs::write(path.join("new"), code(9000)).expect("writes");
    // Which of the free blocks between belong to which nobody knows.
    let refused = exits(path, &["put", "dump", "--region", "0", "new", "/new"], 2);
    assert!(
        refused.stderr.contains("is not proven") && refused.stderr.contains("--offset and --size"),
        "{}",
        refused.stderr
    );
    assert!(fs::read(path.join("dump")).expect("reads") == dump);
    succeeds(path, &["put", "dump", "--offset", "0", "--size", "64K", "new", "/new"]);
    let after = fs::read(path.join("dump")).expect("reads");
    assert!(after[..0x1_0000] != dump[..0x1_0000] && after[0x1_0000..] == dump[0x1_0000..]);
    assert_eq!(succeeds(path, &["ls", "dump", "--region", "1", "/"]).trim(), "second");
}

#[test]
fn blocks_that_begin_with_what_linux_marked_obsolete_are_the_volumes() {
    let mut old_name = crate::common::jffs2::dirent(1, 1, 9, 8, b"old");
    old_name[3] = 0xC0;
    old_name.resize(old_name.len().next_multiple_of(4), 0xFF);
    for first in [cleanmarker(true), old_name] {
        let blocks = [
            block(0x1_0000, &[&first, &file("passwd", 2, 1, b"1"), &file("shadow", 3, 2, b"2")]),
            block(0x1_0000, &[&cleanmarker(false), &file("network", 4, 3, b"3"), &file("wireless", 5, 4, b"4")]),
        ];
        let directory = with_dump(&[block(0x1_0000, &[&code(0x3000)]), blocks.concat()].concat());
        let listed = succeeds(directory.path(), &["ls", "dump", "/"]);
        assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["network", "passwd", "shadow", "wireless"]);
        assert!(succeeds(directory.path(), &["info", "dump"]).contains("0x10000 to 0x30000"));
    }
}

/// Boot code, a volume of 20 blocks of 4 KiB, and the board's settings behind it.
fn with_nvram() -> Vec<u8> {
    let mut volume = block(0x1000, &[&cleanmarker(false), &file("config", 2, 1, b"a=1\n")]);
    (0..19).for_each(|_| volume.extend(block(0x1000, &[&cleanmarker(false)])));
    [code(0x1_A000), volume, block(0x1000, &[b"NVRAM\0mac=00:11:22:33:44:55\0", &code(300)])].concat()
}

#[test]
fn what_stands_behind_a_volume_is_never_written() {
    let dump = with_nvram();
    let directory = with_dump(&dump);
    let path = directory.path();
    fs::write(path.join("new"), code(9000)).expect("writes");
    let mut status = Some(0);
    for number in 0..20 {
        let put = nandkit(path, &["put", "dump", "new", &format!("/file-{number}")]);
        status = put.status;
        if status != Some(0) {
            assert!(put.stderr.contains("no space") || put.stderr.contains("full"), "{}", put.stderr);
            break;
        }
    }
    assert_ne!(status, Some(0), "the volume has 80 KiB");
    succeeds(path, &["check", "dump", "--repair", "mended"]);
    for after in ["dump", "mended"] {
        let after = fs::read(path.join(after)).expect("reads");
        assert!(after[..0x1_A000] == dump[..0x1_A000] && after[0x2_E000..] == dump[0x2_E000..]);
    }
}

#[test]
fn a_boot_loader_in_front_is_no_damage() {
    let blocks = (0..12).flat_map(|number| {
        let nodes = file(&format!("conf{number:02}"), 2 + number, 1 + number, &code(2000));
        block(0x1000, &[&cleanmarker(number < 9), &nodes])
    });
    let mut dump: Vec<u8> = block(0x1_0000, &[&code(0x3000)]).into_iter().chain(blocks).collect();
    (0..8).for_each(|_| dump.extend(block(0x1000, &[&cleanmarker(false)])));
    let directory = with_dump(&dump);
    let path = directory.path();
    assert_eq!(succeeds(path, &["ls", "dump", "/"]).split_whitespace().count(), 12);
    succeeds(path, &["check", "dump"]);
    let regions = succeeds(path, &["info", "dump"]);
    assert!(regions.contains("\"jffs2-0\" at 0x10000, 80 KiB"), "{regions}");
    fs::write(path.join("new"), code(5000)).expect("writes");
    succeeds(path, &["put", "dump", "new", "/new"]);
    succeeds(path, &["rm", "dump", "/conf03"]);
    assert!(fs::read(path.join("dump")).expect("reads")[..0x1_0000] == dump[..0x1_0000]);
}

/// NAND of 2048 and 64 bytes, one block in use, whose controller keeps its ECC in all of the OOB.
fn with_ecc_for_marks() -> Vec<u8> {
    let data = block(0x2_0000, &[&file("a.txt", 2, 1, b"hello\n"), &file("b.txt", 3, 2, &code(3000))]);
    let page = |data: &[u8]| match data.iter().all(|byte| *byte == 0xFF) {
        true => [data, &[0xFF; 64]].concat(),
        false => [data, &[0x33], &code(63)].concat(),
    };
    data.chunks(2048).flat_map(page).collect()
}

#[test]
fn whole_nodes_outweigh_a_bad_block_mark() {
    let directory = with_dump(&with_ecc_for_marks());
    let path = directory.path();
    assert_eq!(succeeds(path, &["ls", "dump", "/"]).split_whitespace().collect::<Vec<_>>(), ["a.txt", "b.txt"]);
    assert_eq!(succeeds(path, &["cat", "dump", "/a.txt"]), "hello\n");
    // Where the marks are said, they are taken, and what is left out is told.
    let mut two = with_ecc_for_marks();
    let page = |data: &[u8]| [data, &[0xFF; 64]].concat();
    two.extend(block(0x2_0000, &[&file("c.txt", 4, 3, b"there\n")]).chunks(2048).flat_map(page));
    fs::write(path.join("dump"), two).expect("writes");
    let asked = ["--bad-marks", "page0", "--erase-size", "128K"];
    let listed = nandkit(path, &[&["ls", "dump", "/"], &asked[..]].concat());
    assert!(listed.stderr.contains("marked bad") && listed.stderr.contains("left out"), "{}", listed.stderr);
    let checked = exits(path, &[&["check", "dump"], &asked[..]].concat(), 1);
    assert!(checked.stdout.contains("(/a.txt)") && checked.stdout.contains("(/b.txt)"), "{}", checked.stdout);
    let extracted = nandkit(path, &[&["extract", "dump", "out"], &asked[..]].concat());
    assert!(extracted.status == Some(1) && extracted.stderr.contains("/a.txt"), "{}", extracted.stderr);
    // What is whole is delivered without a complaint.
    assert_eq!(succeeds(path, &[&["cat", "dump", "/c.txt"], &asked[..]].concat()), "there\n");
    succeeds(path, &[&["get", "dump", "/c.txt"], &asked[..]].concat());
    assert_eq!(succeeds(path, &["cat", "dump", "/a.txt", "--bad-marks", "ignore"]), "hello\n");
    tells(path, &["ls", "dump", "/", "--bad-marks", "second"], 2, "expected ignore, page0, last or byte=N");
}

/// A U-Boot environment of `length` bytes.
fn environment(length: usize, text: &str) -> Vec<u8> {
    let mut variables = [text.as_bytes(), b"\0\0"].concat();
    variables.resize(length - 4, 0);
    [&crc32fast::hash(&variables).to_le_bytes()[..], &variables].concat()
}

#[test]
fn only_the_partition_with_a_volume_opens() {
    let mtdparts = "bootdelay=3\0mtdparts=mtdparts=spi0.0:64k(u-boot),64k(env),-(rootfs)";
    let files: Vec<u8> = (0..40).flat_map(|n| file(&format!("file{n}"), 2 + n, 1 + n, &code(900))).collect();
    let rootfs = block(0x1_0000, &[&cleanmarker(false), &files]);
    let dump = [block(0x1_0000, &[&code(0x3000)]), environment(0x1_0000, mtdparts), rootfs].concat();
    let directory = with_dump(&dump);
    assert_eq!(succeeds(directory.path(), &["ls", "dump", "/"]).split_whitespace().count(), 40);
    let info = succeeds(directory.path(), &["info", "dump"]);
    let opens: Vec<&str> = info.lines().filter(|line| line.contains("opens as jffs2")).collect();
    assert!(opens.iter().all(|line| line.contains("0x20000")) && !opens.is_empty(), "{info}");
}

#[test]
fn a_dump_that_leaves_out_a_block_says_so() {
    let mtdparts = "mtdparts=mtdparts=nand0:16k(boot),16k(env),64k(kernel),-(rootfs)";
    // A block of the kernel was bad, so that all behind it moved forward.
    let rootfs = [file("first", 2, 1, b"1"), file("second", 3, 2, b"2")].map(|nodes| block(0x4000, &[&nodes]));
    let parts = [code(0x4000), environment(0x4000, mtdparts), code(0xC000), rootfs.concat(), vec![0xFF; 0x4000]];
    let directory = with_dump(&parts.concat());
    let path = directory.path();
    let listed = nandkit(path, &["ls", "dump", "--region", "rootfs", "/"]);
    assert!(listed.stderr.contains("this volume begins before"), "{}", listed.stderr);
    assert!(listed.stderr.contains("--missing-blocks"), "{}", listed.stderr);
    let known = ["--missing-blocks", "4", "--erase-size", "16K"];
    let listed = succeeds(path, &[&["ls", "dump", "--region", "rootfs", "/"], &known[..]].concat());
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn what_nandkit_does_not_read_is_named() {
    let sector = |name: &[u8], more: &[(usize, &[u8])]| {
        let mut sector = vec![0; 4096];
        sector[..3].copy_from_slice(&[0xEB, 0x76, 0x90]);
        sector[3..11].copy_from_slice(name);
        sector[510..512].copy_from_slice(&[0x55, 0xAA]);
        more.iter().for_each(|(at, bytes)| sector[*at..at + bytes.len()].copy_from_slice(bytes));
        sector
    };
    let exfat = sector(b"EXFAT   ", &[(72, &8_u64.to_le_bytes()), (108, &[9, 3])]);
    let ntfs = sector(b"NTFS    ", &[(11, &[0, 2, 8]), (40, &7_u64.to_le_bytes())]);
    let mut ext = vec![0; 8192];
    for (at, number) in [(0, 16_u32), (4, 64), (20, 1), (24, 0), (32, 8192), (40, 16)] {
        ext[1024 + at..1028 + at].copy_from_slice(&number.to_le_bytes());
    }
    ext[1080..1082].copy_from_slice(&[0x53, 0xEF]);
    let named = [
        (exfat, "exFAT"),
        (ntfs, "NTFS"),
        (ext, "ext2, ext3 or ext4"),
        ([b"LUKS\xBA\xBE\0\x02".to_vec(), vec![0; 4096]].concat(), "LUKS, encrypted"),
        ([b"PK\x03\x04".to_vec(), vec![7; 4096]].concat(), "zip archive"),
    ];
    for (dump, kind) in named {
        let directory = with_dump(&dump);
        let listed = nandkit(directory.path(), &["ls", "dump", "/"]);
        assert_eq!(listed.status, Some(2), "{kind}: {}", listed.stderr);
        assert!(
            listed.stderr.contains(&format!("begins with {kind}, which nandkit does not read")),
            "{}",
            listed.stderr
        );
        let info = nandkit(directory.path(), &["info", "dump"]);
        assert!(format!("{}{}", info.stdout, info.stderr).contains(kind), "{kind}: {}", info.stderr);
    }
}

#[test]
fn a_short_image_grows_to_the_flash_that_is_said() {
    let directory = with_dump(&[cleanmarker(false), file("a", 2, 1, b"hello\n")].concat());
    let path = directory.path();
    fs::write(path.join("new"), "new").expect("writes");
    succeeds(path, &["put", "dump", "--size", "512K", "--erase-size", "64K", "new", "/new"]);
    assert_eq!(fs::metadata(path.join("dump")).expect("is there").len(), 512 << 10);
    assert_eq!(succeeds(path, &["cat", "dump", "--erase-size", "64K", "/a"]), "hello\n");
    assert_eq!(succeeds(path, &["cat", "dump", "--erase-size", "64K", "/new"]), "new");
}
