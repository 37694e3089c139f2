//! Images of JFFS2, options and trees that cannot be: exit status 2, what, where and what would be
//! right, and nothing written.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::jffs2::{append, inode_node};
use crate::common::{json, nandkit, succeeds};
use serde_json::Value;

/// A directory with a tree of 40 files, some 200 KiB.
fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir(&tree).expect("a directory");
    for number in 0..40_u32 {
        // Without cleanmarkers a dozen full blocks prove their size, two or three do not: no
        // compression makes it less.
        let mut state = number + 1;
        let noise = (0..5000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 21) as u8
        });
        fs::write(tree.join(format!("file-{number}")), noise.collect::<Vec<u8>>()).expect("a file");
    }
    directory
}

/// Exit status 2, these words on standard error, nothing on standard output, and no new file.
fn refused(directory: &Path, arguments: &[&str], words: &[&str]) {
    let files = || fs::read_dir(directory).expect("reads").count();
    let before = files();
    let outcome = nandkit(directory, arguments);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", outcome.stderr);
    for word in words {
        assert!(outcome.stderr.contains(word), "{word:?} is not in {arguments:?}: {}", outcome.stderr);
    }
    assert_eq!(files(), before, "{arguments:?} wrote something");
}

/// Everything that reads an image.
fn refused_by_all(directory: &Path, image: &str, options: &[&str], words: &[&str]) {
    for command in [vec!["ls"], vec!["cat"], vec!["extract"], vec!["check"], vec!["check", "--repair", "r"]] {
        let rest = match command[0] {
            "cat" => vec!["/file-1"],
            "extract" => vec!["out"],
            _ => vec![],
        };
        refused(directory, &[&command[..], &[image], &rest, options].concat(), words);
    }
}

#[test]
fn one_block_of_another_byte_order_is_enough() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "4K", "-x", "none", "l"]);
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "4K", "-x", "none", "--endian", "big", "b"]);
    let (mut little, big) = (fs::read(path.join("l")).expect("reads"), fs::read(path.join("b")).expect("reads"));
    assert!(little.len() > 40 * 4096);
    little[9 * 4096..10 * 4096].copy_from_slice(&big[9 * 4096..10 * 4096]);
    fs::write(path.join("mixed"), &little).expect("writes");
    refused_by_all(
        path,
        "mixed",
        &[],
        &["mixed byte orders", "1 with a big-endian one (the first at 0x9000)", "--endian"],
    );
    // Who says which order is meant gets what there is of it.
    assert_eq!(nandkit(path, &["check", "mixed", "--endian", "little"]).status, Some(1));
}

#[test]
fn an_erase_size_that_does_not_fit_is_refused_whether_smaller_or_larger() {
    let directory = with_tree();
    let path = directory.path();
    for more in [&[][..], &["--no-cleanmarkers"]] {
        let mkfs = ["mkfs", "jffs2", "--from", "tree", "-e", "16K", "--size", "1M", "--force", "i"];
        succeeds(path, &[&mkfs[..], more].concat());
        for size in ["4K", "32K", "64K", "128K", "1M"] {
            refused_by_all(path, "i", &["--erase-size", size], &["--erase-size", "expected 16384"]);
        }
        succeeds(path, &["check", "i", "--erase-size", "16K"]);
    }
}

#[test]
fn an_image_shorter_than_one_erase_block_is_called_so() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "i"]);
    let whole = fs::read(path.join("i")).expect("reads");
    for (length, options) in [(1000, &[][..]), (30_000, &["--erase-size", "64K"])] {
        fs::write(path.join("short"), &whole[..length]).expect("writes");
        let words = ["less than ", "one erase block", &format!("{length} bytes"), "0xFF"];
        refused_by_all(path, "short", options, &words);
        refused(path, &[&["info", "short"], options].concat(), &words);
    }
}

#[test]
fn what_the_format_cannot_hold_makes_no_image() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    let long = vec![b'n'; 255];
    fs::write(path.join("tree").join(std::ffi::OsStr::from_bytes(&long)), "x").expect("a file");
    refused(path, &["mkfs", "jffs2", "--from", "tree", "i"], &["255 bytes", "254"]);
    fs::remove_dir_all(path.join("tree")).expect("removes");
    fs::create_dir(path.join("tree")).expect("a directory");
    let large = fs::File::create(path.join("tree/large")).expect("a file");
    large.set_len(5 << 30).expect("a hole");
    refused(path, &["mkfs", "jffs2", "--from", "tree", "i"], &["/large", "5368709120"]);
    fs::write(path.join("i"), "mine").expect("writes");
    refused(path, &["mkfs", "jffs2", "--from", "tree", "i"], &["exists", "--force"]);
    assert_eq!(fs::read(path.join("i")).expect("reads"), b"mine");
}

#[test]
fn cleanmarkers_of_another_size_are_no_damage() {
    let directory = with_tree();
    let path = directory.path();
    for size in ["12", "16", "64", "512"] {
        succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-c", size, "--size", "512K", "--force", "i"]);
        let outcome = nandkit(path, &["check", "i"]);
        assert_eq!(outcome.status, Some(0), "{size}: {}", outcome.stdout);
        let out = format!("out{size}");
        succeeds(path, &["extract", "i", &out]);
        for number in 0..40 {
            let name = format!("file-{number}");
            assert!(
                fs::read(path.join("tree").join(&name)).ok() == fs::read(path.join(&out).join(&name)).ok(),
                "{name}"
            );
        }
    }
    // Behind one of 64 bytes nothing stands.
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-c", "64", "--force", "i"]);
    let mut image = fs::read(path.join("i")).expect("reads");
    image[40] = 0;
    fs::write(path.join("i"), image).expect("writes");
    let outcome = nandkit(path, &["check", "i"]);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stdout.contains("cleanmarker of 64 bytes that holds something"), "{}", outcome.stdout);
}

#[test]
fn a_version_that_is_not_there_is_refused_with_those_that_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    fs::write(path.join("tree/kept"), "first").expect("a file");
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-x", "none", "-n", "i"]);
    let mut image = fs::read(path.join("i")).expect("reads");
    append(&mut image, &inode_node(2, 9, 6, 0, b"second"));
    fs::write(path.join("i"), &image).expect("writes");
    for version in ["99", "5", "0"] {
        refused(path, &["cat", "i", "kept", "--version", version], &["kept", version, "one of 1, 9", "--versions"]);
    }
    let outcome = nandkit(path, &["cat", "i", "kept", "--version", "9"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(0), "second"));
    assert!(outcome.stderr.contains("the present content, version 9"), "{}", outcome.stderr);
}

/// A limit on the size of files stands in for a full disk: a write beyond it takes a part and then
/// fails.
#[test]
fn a_full_disk_leaves_no_cut_file_under_its_own_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    fs::write(path.join("tree/a-small"), "whole").expect("a file");
    let large: Vec<u8> = (0..200_000_u32).map(|at| (at.wrapping_mul(40_503) >> 7) as u8 | 1).collect();
    fs::write(path.join("tree/b-large"), &large).expect("a file");
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "i"]);
    let command = format!("trap '' XFSZ; ulimit -f 16; exec '{}' extract i out", env!("CARGO_BIN_EXE_nandkit"));
    let output = std::process::Command::new("sh").args(["-c", &command]).current_dir(path).output().expect("sh runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("/b-large") && told.contains("writing the file") && told.contains("too large"), "{told}");
    assert!(!path.join("out/b-large").exists(), "half a file under the name of the whole");
    succeeds(path, &["extract", "i", "out", "--merge"]);
    assert!(fs::read(path.join("out/b-large")).expect("reads") == large);
}

#[test]
fn a_dump_of_regions_is_no_volume_and_a_region_almost_named_is_offered() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "-e", "64K", "--size", "512K", "i"]);
    let image = fs::read(path.join("i")).expect("reads");
    let loader: Vec<u8> = (0..0x40000_u32).map(|at| (at.wrapping_mul(40_503) >> 7) as u8).collect();
    // The partitions as a kernel's command line in the boot loader has them.
    let mut loader = loader;
    let line = b"\0console=ttyS0 mtdparts=spi0.0:256k(boot),512k(rootfs),512k(data)\0";
    loader[5000..5000 + line.len()].copy_from_slice(line);
    fs::write(path.join("dump"), [loader, image.clone(), image].concat()).expect("writes");
    let text = succeeds(path, &["info", "dump"]);
    assert!(!text.contains("score") && text.contains("see the regions") && text.contains("\"rootfs\""), "{text}");
    let info = json(path, &["info", "dump", "--json"]);
    assert_eq!((&info["image"], &info["detections"]), (&Value::Null, &serde_json::json!([])), "{info}");
    // What is asked for is told, and so is a plain image.
    assert!(succeeds(path, &["info", "dump", "--region", "rootfs"]).contains("jffs2"));
    let plain = json(path, &["info", "i", "--json"]);
    assert_eq!(plain["image"], "jffs2");
    refused(path, &["ls", "dump", "--region", "rotfs"], &["rotfs", "did you mean 'rootfs'?"]);
}

#[test]
fn slips_that_stop_no_image_are_told_with_their_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir_all(path.join("tree/d")).expect("directories");
    for name in ["kept", "d/out", "old", "older\nby far"] {
        fs::write(path.join("tree").join(name), "x").expect("a file");
    }
    let touch = "touch -d '1960-01-02 03:04:05 UTC' tree/old tree/older*; tar cf tree.tar -C tree .";
    assert!(
        std::process::Command::new("sh").args(["-c", touch]).current_dir(path).status().expect("sh runs").success()
    );
    for from in ["tree", "tree.tar"] {
        let arguments = ["mkfs", "jffs2", "--from", from, "--exclude", "/d/out", "--exclude", "nope", "--force", "i"];
        let outcome = nandkit(path, &arguments);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [excluded, times] = lines[..] else { panic!("{}", outcome.stderr) };
        assert!(excluded.contains("--exclude nope: the tree has no such path"), "{excluded}");
        assert!(
            times.contains("the times of 2 files, first that of /old, 1960-01-02 03:04:05, lie before 1970"),
            "{times}"
        );
    }
    let outcome = nandkit(path, &["mkfs", "jffs2", "--from", "tree", "--exclude", "old", "--force", "i"]);
    assert!(
        outcome.stderr.contains(r"the time of /older\nby far, 1960-01-02 03:04:05, lies before 1970"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn slips_in_tables_and_options_are_refused_and_messages_are_lines() {
    let directory = with_tree();
    let path = directory.path();
    fs::write(path.join("table"), "/dev d 755 0 0\n/dev/x c 600 0 0 1 2\n/nodir/x c 600 0 0 1 2\n").expect("writes");
    let mkfs = ["mkfs", "jffs2", "--from", "tree", "--device-table", "table", "i"];
    refused(path, &mkfs, &["line 3", "no parent directory: /nodir", "\"/nodir d 755 0 0\""]);
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "i"]);
    refused(path, &["cat", "i", "/file-1", "--version", "1", "--json"], &["--json", "--version"]);
    let odd = "/no\nsuch/file";
    for arguments in
        [vec!["ls", "i", odd], vec!["cat", "i", odd], vec!["get", "i", odd], vec!["extract", "i", "o", "--path", odd]]
    {
        refused(path, &arguments, &[r"no\nsuch"]);
        let lines = nandkit(path, &arguments).stderr.lines().count();
        assert_eq!(lines, 1, "{arguments:?}");
    }
}
