//! Where erase blocks end, and where the OOB is, is found in images of every size; what proves
//! nothing is not changed. Judges: the options by which mkfs.jffs2 and our own mkfs made them.

use std::fs;
use std::path::Path;

use crate::common::{exits, json, nandkit, run, succeeds};
use nandkit_testkit::rounds::count;
use serde_json::Value;

/// A directory with trees, each given by its name, its number of files and their length; no
/// compression makes the files shorter.
fn with_trees(trees: &[(&str, u32, u32)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, files, length) in trees {
        let tree = directory.path().join(name);
        fs::create_dir(&tree).expect("a directory");
        for file in 0..*files {
            let mut state = file + 1;
            let noise = (0..*length).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 21) as u8
            });
            fs::write(tree.join(format!("f{file}")), noise.collect::<Vec<u8>>()).expect("a file");
        }
    }
    directory
}

fn best(directory: &Path, image: &str) -> Value {
    let info = json(directory, &["info", image, "--json"]);
    info["detections"][0].clone()
}

/// The size is found, or nothing tells sizes apart and the right one is among those that fit; the
/// whole tree is there in any case. Returns whether it was proven.
fn is_found(directory: &Path, tree: &str, erase_size: u32, what: &str) -> bool {
    let best = best(directory, "i");
    let fits: Vec<u64> =
        best["erase_sizes_that_fit"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(fits.contains(&erase_size.into()), "{what}: {fits:?} fit");
    assert_eq!(best["erase_size"].as_u64(), fits.first().copied(), "{what}");
    let checked = nandkit(directory, &["check", "i"]);
    assert_eq!(checked.status, Some(0), "{what}: {}", checked.stdout);
    succeeds(directory, &["extract", "i", "out"]);
    run(directory, &format!("diff -r {tree} out && rm -r out"));
    fits.len() == 1
}

/// Whether an image is left out. By default one in `every` is made, such that each size and each
/// way of making an image occurs; with `NANDKIT_ROUNDS=1` all are made.
fn is_left_out(number: u32, every: u32) -> bool {
    count(0) == 0 && !(number + number / 6).is_multiple_of(every)
}

/// 4 KiB to 1 MiB.
fn sizes() -> impl Iterator<Item = u32> {
    (12..=20).map(|power| 1 << power)
}

#[test]
fn every_erase_size_of_mkfs_jffs2_is_found() {
    let directory = with_trees(&[("small", 3, 3000), ("large", 40, 50_000)]);
    let path = directory.path();
    let (mut proven, mut number) = (0, 0);
    for size in sizes() {
        for (tree, options) in [
            ("small", "-p0x400000"),
            ("small", "-n -p"),
            ("large", "-p0x800000"),
            ("large", "-n -b"),
            ("large", "-n -p0x400000"),
            ("large", ""),
        ] {
            number += 1;
            if is_left_out(number, 4) {
                continue;
            }
            let what = format!("mkfs.jffs2 -e {size} {options} of {tree}");
            run(path, &format!("mkfs.jffs2 -r {tree} -e {size} {options} -o i 2> /dev/null"));
            // mkfs.jffs2 takes no less than 8 KiB.
            let found = is_found(path, tree, size.max(8192), &what);
            assert!(found || tree == "small" || size >= 256 << 10, "{what}");
            proven += u32::from(found);
        }
    }
    assert!(proven >= 9, "{proven} proven");
}

#[test]
fn every_erase_size_of_our_own_images_is_found() {
    let directory = with_trees(&[("small", 3, 3000), ("large", 60, 5000)]);
    let path = directory.path();
    let mut number = 0;
    for size in sizes() {
        for (tree, options) in [
            ("small", &["--size", "4M"][..]),
            ("small", &["-n", "--summary"]),
            ("large", &["--size", "4M"]),
            ("large", &["-n"]),
            ("large", &["--summary", "--endian", "big"]),
        ] {
            number += 1;
            if is_left_out(number, 4) {
                continue;
            }
            let erase_size = size.to_string();
            let mkfs = ["mkfs", "jffs2", "--force", "--from", tree, "-e", &erase_size, "i"];
            succeeds(path, &[&mkfs[..], options].concat());
            let what = format!("{size} {options:?} of {tree}");
            let found = is_found(path, tree, size, &what);
            assert!(found || !options.contains(&"--size"), "{what}");
        }
    }
}

#[test]
fn every_geometry_with_oob_that_mkfs_takes_is_opened() {
    let directory = with_trees(&[("small", 2, 300), ("large", 60, 5000)]);
    let path = directory.path();
    let mut number = 0;
    for (page, oob) in [(512, 16), (2048, 64), (4096, 128), (1024, 32), (2048, 80)] {
        for size in sizes().filter(|size| *size <= 512 << 10) {
            for (tree, options) in
                [("small", &[][..]), ("small", &["--size", "2M"]), ("large", &[]), ("large", &["--summary"])]
            {
                number += 1;
                if is_left_out(number, 11) {
                    continue;
                }
                let (erase_size, pages) = (size.to_string(), format!("--oob={page}+{oob}"));
                let mkfs = ["mkfs", "jffs2", "--force", "--from", tree, "-e", &erase_size, &pages, "i"];
                succeeds(path, &[&mkfs[..], options].concat());
                let what = format!("{pages} {size} {options:?} of {tree}");
                assert!(is_found(path, tree, size, &what), "{what}");
                let best = best(path, "i");
                assert_eq!((best["page_size"].as_u64(), best["oob_size"].as_u64()), (Some(page), Some(oob)), "{what}");
            }
        }
    }
}

/// The same dump with the OOB of a block's pages behind the block.
fn oob_behind_blocks(dump: &[u8], block: usize, page: usize, oob: usize) -> Vec<u8> {
    let mut moved = Vec::new();
    for block in dump.chunks(block / page * (page + oob)) {
        block.chunks(page + oob).for_each(|page_with_oob| moved.extend_from_slice(&page_with_oob[..page]));
        block.chunks(page + oob).for_each(|page_with_oob| moved.extend_from_slice(&page_with_oob[page..]));
    }
    moved
}

#[test]
fn oob_behind_each_block_is_found_and_changed() {
    let directory = with_trees(&[("small", 2, 300), ("large", 60, 5000)]);
    let path = directory.path();
    fs::write(path.join("more"), [7; 5000]).expect("writes");
    for (page, oob, size) in [(512, 16, 16 << 10), (2048, 64, 128 << 10), (4096, 128, 256 << 10)] {
        for tree in ["small", "large"] {
            let (erase_size, pages) = (size.to_string(), format!("--oob={page}+{oob}"));
            succeeds(
                path,
                &["mkfs", "jffs2", "--force", "--from", tree, "-e", &erase_size, &pages, "i", "--size", "2M"],
            );
            let dump = oob_behind_blocks(&fs::read(path.join("i")).expect("reads"), size, page, oob);
            fs::write(path.join("i"), dump).expect("writes");
            let what = format!("{pages} {size} of {tree}");
            assert!(is_found(path, tree, size as u32, &what), "{what}");
            assert!(best(path, "i")["layout"].as_str().is_some_and(|layout| layout.contains("after each block")));
            succeeds(path, &["put", "i", "more", "/"]);
            succeeds(path, &["check", "i"]);
            assert!(succeeds(path, &["ls", "i"]).contains("more\n"), "{what}");
        }
    }
}

#[test]
fn an_image_that_proves_no_erase_size_is_read_but_not_changed() {
    let directory = with_trees(&[("small", 3, 3000), ("large", 40, 5000)]);
    let path = directory.path();
    run(path, "mkfs.jffs2 -r small -n -e 256KiB -p0x400000 -o i");
    let before = fs::read(path.join("i")).expect("reads");
    assert!(succeeds(path, &["ls", "i"]).contains("f2\n"));
    let info = succeeds(path, &["info", "i"]);
    assert!(info.contains("256 KiB") && info.contains("16 KiB"), "{info}");
    for arguments in [
        &["put", "i", "large/f1", "/new"][..],
        &["rm", "i", "/f1"],
        &["mv", "i", "/f1", "/g"],
        &["mkdir", "i", "/d"],
        &["ln", "i", "/f1", "/g"],
        &["chmod", "i", "600", "/f1"],
        &["chown", "i", "1:1", "/f1"],
        &["setfattr", "i", "-n", "user.a", "-v", "b", "/f1"],
    ] {
        let outcome = nandkit(path, arguments);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", outcome.stderr);
        for part in ["--erase-size", "16 KiB", "256 KiB", "nothing was changed"] {
            assert!(outcome.stderr.contains(part), "{part:?} is not in {arguments:?}: {}", outcome.stderr);
        }
        assert!(fs::read(path.join("i")).expect("reads") == before, "{arguments:?}");
    }
    succeeds(path, &["put", "i", "large/f1", "/new", "--erase-size", "256K"]);
    succeeds(path, &["check", "i", "--erase-size", "256K"]);
    // What proves it is changed without a word.
    run(path, "mkfs.jffs2 -r large -e 32KiB -p0x400000 -o i");
    let outcome = nandkit(path, &["put", "i", "small/f1", "/new"]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_live_block_that_is_marked_bad_is_told() {
    let directory = with_trees(&[("tree", 60, 5000)]);
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "16K", "--oob=512+16", "--size", "1M", "i"]);
    let good = fs::read(path.join("i")).expect("reads");
    assert!(!succeeds(path, &["check", "i"]).contains("marked bad"));
    // One bit of the mark in the first block, which holds nodes, and in the last one, which is
    // free.
    let mut dump = good.clone();
    dump[512 + 5] = 0xFE;
    let last = dump.len() - 32 * 528;
    dump[last + 512 + 5] = 0;
    fs::write(path.join("i"), &dump).expect("writes");
    let told = |text: &str, part: &str| text.lines().any(|line| line.contains(part));
    let checked = exits(path, &["check", "i"], 0);
    assert!(told(&checked.stdout, "harmless bad block: block 0 seems to be marked bad"), "{}", checked.stdout);
    assert!(told(&checked.stdout, "harmless bad block: block 63 is marked bad"), "{}", checked.stdout);
    assert_eq!(succeeds(path, &["ls", "i"]).lines().count(), 60);
    // Said to be a mark, it is one: Linux leaves the block out, and so do we, not in silence.
    let marks = ["--bad-marks", "byte=5"];
    let checked = exits(path, &[&["check", "i"], &marks[..]].concat(), 1);
    let is_told = told(&checked.stdout, "block 0 is marked bad (OOB byte 5 of page 0 is 0xfe) and holds ");
    assert!(is_told, "{}", checked.stdout);
    let listed = nandkit(path, &[&["ls", "i"], &marks[..]].concat());
    assert!(told(&listed.stderr, "block 0 is marked bad"), "{}", listed.stderr);
    assert!(!told(&listed.stderr, "block 63"), "{}", listed.stderr);
    let extracted = nandkit(path, &[&["extract", "i", "out"], &marks[..]].concat());
    assert!(told(&extracted.stderr, "block 0 is marked bad"), "{}", extracted.stderr);
    exits(path, &[&["rm", "i", "/f50"], &marks[..]].concat(), 1);
    assert!(fs::read(path.join("i")).expect("reads") == dump);
}

#[test]
fn names_of_partitions_do_not_steer_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut disk = vec![0; 1 << 20];
    let put = |disk: &mut [u8], at: usize, bytes: &[u8]| disk[at..at + bytes.len()].copy_from_slice(bytes);
    put(&mut disk, 446 + 4, &[0xEE]);
    put(&mut disk, 446 + 8, &[1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x55, 0xAA]);
    put(&mut disk, 510, &[0x55, 0xAA]);
    // UEFI 2.10, chapter 5: an entry with a type, its first and last sector, and a name in UTF-16.
    put(&mut disk, 1024, &[1; 16]);
    put(&mut disk, 1024 + 32, &[100, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0]);
    for (place, unit) in "a\u{1b}[31mb\nc".encode_utf16().enumerate() {
        put(&mut disk, 1024 + 56 + 2 * place, &unit.to_le_bytes());
    }
    let mut header = b"EFI PART\0\0\x01\0".to_vec();
    header.resize(92, 0);
    header[12] = 92;
    header[72] = 2;
    header[80] = 128;
    header[84] = 128;
    let entries = crc32fast::hash(&disk[1024..1024 + 128 * 128]);
    put(&mut header, 88, &entries.to_le_bytes());
    let crc = crc32fast::hash(&header);
    put(&mut header, 16, &crc.to_le_bytes());
    put(&mut disk, 512, &header);
    fs::write(directory.path().join("disk"), disk).expect("writes");
    let text = succeeds(directory.path(), &["info", "disk"]);
    assert!(text.contains("a\\u{1b}[31mb\\nc") && !text.contains('\u{1b}'), "{text:?}");
}
