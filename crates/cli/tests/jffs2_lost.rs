//! What an image has lost is told by every command that reads it, and what a power cut leaves by
//! none; messages of what was.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::common::jffs2::{append, bare_node, blocks, deletion, dirent, inode_node, set_mode};
use crate::common::{exits, nandkit, succeeds};

const ERASE_SIZE: usize = 16 << 10;

fn run(directory: &Path, command: &str) -> (Option<i32>, String) {
    let output = Command::new("sh").args(["-c", command]).current_dir(directory).output().expect("sh runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn noise(seed: u32, length: u32) -> Vec<u8> {
    (0..length).map(|at| b'a' + (((at + seed * 7919).wrapping_mul(2_654_435_761) >> 13) % 26) as u8).collect()
}

/// `tree` with files in the root and in `d`, and its image `v.img` as mkfs.jffs2 makes it.
fn with_image() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir_all(path.join("tree/d")).expect("directories");
    for number in 0..20 {
        fs::write(path.join(format!("tree/f{number}")), noise(number, 5000)).expect("a file");
    }
    for number in 0..3 {
        fs::write(path.join(format!("tree/d/x{number}")), noise(100 + number, 5000)).expect("a file");
    }
    assert_eq!(run(path, "mkfs.jffs2 -r tree -l -e 16KiB -p -o v.img").0, Some(0));
    directory
}

#[test]
fn all_that_read_tell_of_names_whose_directory_is_gone() {
    let directory = with_image();
    let path = directory.path();
    let commands: [&[&str]; 6] = [
        &["ls", "v.img"],
        &["ls", "-R", "v.img"],
        &["extract", "v.img", "out"],
        &["cat", "v.img", "/d/x0"],
        &["ls", "v.img", "/d"],
        &["get", "v.img", "/d/x1", "x1"],
    ];
    for arguments in commands {
        let outcome = nandkit(path, arguments);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}, sound");
    }
    let mut image = fs::read(path.join("v.img")).expect("reads");
    image[..ERASE_SIZE].fill(0xFF);
    fs::write(path.join("v.img"), &image).expect("writes");
    fs::remove_dir_all(path.join("out")).expect("removes");
    for arguments in commands {
        let outcome = exits(path, arguments, 1);
        for expected in ["the name \"x0\" of inode", "check --repair OUT v.img"] {
            assert!(outcome.stderr.contains(expected), "{expected:?} is not in {arguments:?}: {}", outcome.stderr);
        }
    }
    // What the repair says that it has is there, whole.
    let outcome = exits(path, &["check", "v.img", "--repair", "r.img"], 1);
    nandkit(path, &["extract", "r.img", "again"]);
    let placed: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains("is there now")).collect();
    let named = |line: &&str| line.rsplit_once("(/").map(|(_, path)| path.trim_end_matches(')').to_owned());
    let found: Vec<String> = placed.iter().filter_map(named).collect();
    let shared = found.iter().find(|path| path.contains("lost+found/dir-")).expect("the directory");
    for number in 0..3 {
        let content = fs::read(path.join("again").join(shared).join(format!("x{number}"))).expect("the file");
        assert!(content == noise(100 + number, 5000), "x{number}");
    }
    assert!(found.iter().all(|place| path.join("again").join(place).exists()), "{found:?}");
    assert_eq!(succeeds(path, &["ls", "r.img", &format!("/{shared}")]), "x0\nx1\nx2\n");
}

/// An image of these nodes and of the file `ok`.
fn image_with(path: &Path, nodes: impl IntoIterator<Item = Vec<u8>>) {
    let ok = [dirent(1, 50, 50, 8, b"ok"), inode_node(50, 1, 5, 0, b"sound")];
    fs::write(path.join("c.img"), blocks(ERASE_SIZE, nodes.into_iter().chain(ok))).expect("writes");
}

#[test]
fn all_that_read_tell_of_names_and_inodes_that_contradict_each_other_and_none_changes_them() {
    let file = || inode_node(2, 1, 1, 0, b"x");
    let below = || [dirent(2, 1, 3, 8, b"f"), inode_node(3, 1, 8, 0, b"precious")].into_iter();
    let link = || {
        let mut node = inode_node(2, 1, 2, 0, b"/x");
        set_mode(&mut node, 0o120_777);
        node
    };
    let cases: [(&str, Vec<Vec<u8>>, &str); 4] = [
        (
            "in a file",
            [dirent(1, 1, 2, 8, b"l"), file()].into_iter().chain(below()).collect(),
            "which is a file; expected a directory",
        ),
        (
            "in a link",
            [dirent(1, 1, 2, 10, b"l"), link()].into_iter().chain(below()).collect(),
            "which is a link; expected a directory",
        ),
        ("of another type", vec![dirent(1, 1, 2, 4, b"l"), file()], "the inode itself that it is a file"),
        (
            "the root",
            vec![inode_node(1, 1, 5, 0, b"hello"), dirent(1, 1, 2, 8, b"l"), file()],
            "the root says that it is a file",
        ),
    ];
    for (name, nodes, words) in cases {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        image_with(path, nodes);
        let before = fs::read(path.join("c.img")).expect("reads");
        let erase_size = ERASE_SIZE.to_string();
        for arguments in
            [&["ls", "c.img"][..], &["ls", "-R", "c.img"], &["extract", "c.img", "out"], &["check", "c.img"]]
        {
            let outcome = nandkit(path, arguments);
            let told = outcome.stdout + &outcome.stderr;
            assert_eq!(outcome.status, Some(1), "{name}: {arguments:?}: {told}");
            assert!(told.contains(words), "{name}: {arguments:?}: {told}");
        }
        assert_eq!(fs::read(path.join("out/ok")).expect("the sound file"), b"sound", "{name}");
        for arguments in [
            &["rm", "c.img", "/ok", "--erase-size", &erase_size][..],
            &["mkdir", "c.img", "/n", "--erase-size", &erase_size],
        ] {
            let outcome = nandkit(path, arguments);
            assert_eq!(outcome.status, Some(1), "{name}: {arguments:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("nothing was changed"), "{name}: {}", outcome.stderr);
        }
        assert!(fs::read(path.join("c.img")).expect("reads") == before, "{name}");
        // The repaired image has what the repair says, and nothing is wrong with it.
        let outcome = nandkit(path, &["check", "c.img", "--repair", "r.img"]);
        assert_eq!(outcome.status, Some(1), "{name}: {}", outcome.stderr);
        succeeds(path, &["check", "r.img"]);
        succeeds(path, &["extract", "r.img", "again"]);
        for line in outcome.stdout.lines().filter(|line| line.contains("is there now")) {
            let placed = line.rsplit_once("(/").expect("a path").1.trim_end_matches(')');
            assert!(path.join("again").join(placed).exists(), "{name}: {line}");
        }
        assert_eq!(fs::read(path.join("again/ok")).expect("the sound file"), b"sound", "{name}");
    }
}

#[test]
fn a_write_that_was_cut_off_at_the_end_of_a_block_is_told_by_nobody() {
    let directory = with_image();
    let path = directory.path();
    let mut image = fs::read(path.join("v.img")).expect("reads");
    image.resize(image.len() + ERASE_SIZE, 0xFF);
    fs::write(path.join("v.img"), &image).expect("writes");
    let listed = succeeds(path, &["ls", "--json", "v.img", "/f3"]);
    let inode = listed.split("\"inode\": ").nth(1).and_then(|rest| rest.split(',').next()).expect("an inode");
    let mut node = inode_node(inode.parse().expect("a number"), 99, 5008, 5000, b"appended");
    *node.last_mut().expect("a byte") ^= 1;
    append(&mut image, &node);
    fs::write(path.join("v.img"), &image).expect("writes");
    for arguments in [&["ls", "-R", "v.img"][..], &["extract", "v.img", "out"], &["cat", "v.img", "/f3"]] {
        let outcome = nandkit(path, arguments);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
    assert!(fs::read(path.join("out/f3")).expect("reads") == noise(3, 5000));
    let outcome = nandkit(path, &["check", "v.img"]);
    assert_eq!((outcome.status, outcome.stdout.contains("harmless torn write")), (Some(0), true), "{}", outcome.stdout);
}

#[test]
fn directories_deeper_than_anybody_enters_are_told_by_check_as_well() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let nodes =
        (2..4200_u32).flat_map(|inode| [bare_node(inode, 0o040_755, 0), dirent(inode - 1, inode, inode, 4, b"d")]);
    fs::write(path.join("deep.img"), blocks(ERASE_SIZE, nodes)).expect("writes");
    for arguments in [&["ls", "-R", "deep.img"][..], &["extract", "deep.img", "out"], &["check", "deep.img"]] {
        let outcome = exits(path, arguments, 1);
        let told = outcome.stdout + &outcome.stderr;
        assert!(told.contains("directories") && told.contains("deep"), "{arguments:?}: {told}");
        // It is nothing wrong with the image.
        assert!(!told.contains("damaged:"), "{arguments:?}: {told}");
    }
}

/// Paths of half a megabyte, thousands of times: what is told of them fits in memory. A report
/// lists a thousand findings of a kind and says how many more there are.
#[test]
fn findings_and_deleted_names_in_the_deepest_directory_fit_in_memory() {
    const DEPTH: u32 = 2000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let deep = || {
        let name = [b'd'; 250];
        (1..=DEPTH).flat_map(move |inode| [dirent(inode, 1, inode + 1, 4, &name), bare_node(inode + 1, 0o040_755, 0)])
    };
    let last = DEPTH + 1;
    // Names of another type than their inodes.
    let files = |kind: u8| {
        (0..2000_u32).flat_map(move |number| {
            let name = format!("f{number}");
            [
                dirent(last, number + 1, 10_000 + number, kind, name.as_bytes()),
                inode_node(10_000 + number, 1, 1, 0, b"x"),
            ]
        })
    };
    let gone = (0..2000_u32).map(|number| deletion(last, number + 10_001, format!("f{number}").as_bytes()));
    fs::write(path.join("found.img"), blocks(ERASE_SIZE, deep().chain(files(4)))).expect("writes");
    fs::write(path.join("gone.img"), blocks(ERASE_SIZE, deep().chain(files(8)).chain(gone))).expect("writes");
    let nandkit = env!("CARGO_BIN_EXE_nandkit");
    let limited = |command: &str| run(path, &format!("ulimit -v 1500000; exec {nandkit} {command}"));
    for (command, status, first, last) in [
        ("check found.img > told", 1, "/f999)", "1000 more findings of this kind"),
        ("check --json found.img > told", 1, "/f999\"", "1000 more findings of this kind"),
        ("extract found.img --to-tar out.tar > told", 1, "", ""),
        ("ls --deleted gone.img > told", 0, "inode 10000", "<inode 2001>/f1999 (inode 11999)"),
    ] {
        let (found, told) = limited(command);
        assert_eq!(found, Some(status), "{command}: {}", told.chars().take(500).collect::<String>());
        let told = fs::read_to_string(path.join("told")).expect("reads");
        assert!(told.contains(first) && told.contains(last), "{command}");
    }
}

#[test]
fn mkfs_waits_for_nobody_and_replaces_no_image_that_is_in_use() {
    let directory = with_image();
    let path = directory.path();
    let before = fs::read(path.join("v.img")).expect("reads");
    let held = File::open(path.join("v.img")).expect("opens");
    held.lock().expect("locks");
    let outcome = exits(path, &["mkfs", "jffs2", "--from", "tree", "--force", "v.img"], 2);
    assert!(outcome.stderr.contains("v.img") && outcome.stderr.contains("in use"), "{}", outcome.stderr);
    assert!(fs::read(path.join("v.img")).expect("reads") == before);
    // A process that another test forks right now holds the file too, so that closing it is not
    // enough.
    held.unlock().expect("unlocks");
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "--force", "v.img"]);
    assert!(fs::read(path.join("v.img")).expect("reads") != before);
}

/// 60 GiB of holes, of which nobody reads a byte, and a piece in the middle of one.
#[test]
fn holes_of_any_size_cost_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let size = i32::MAX.unsigned_abs();
    let holes = (0..30_u32).flat_map(|number| {
        let name = format!("f{number}");
        [bare_node(number + 10, 0o100_600, size), dirent(1, number + 1, number + 10, 8, name.as_bytes())]
    });
    let piece = inode_node(10, 2, size, 2_000_000_000, b"piece");
    fs::write(path.join("h.img"), blocks(ERASE_SIZE, holes.chain([piece]))).expect("writes");
    succeeds(path, &["extract", "h.img", "out"]);
    succeeds(path, &["get", "h.img", "/f0", "f0"]);
    succeeds(path, &["mkfs", "jffs2", "--from", "out", "again.img"]);
    let get = format!("{} get again.img /f0 - | tail -c +2000000000 | head -c 7", env!("CARGO_BIN_EXE_nandkit"));
    let output = Command::new("sh").args(["-c", &get]).current_dir(path).output().expect("sh runs");
    assert_eq!(output.stdout, b"\0piece\0");
    for (file, blocks) in [("out/f0", 8), ("f0", 8), ("out/f29", 0)] {
        let found = fs::metadata(path.join(file)).expect("a file");
        assert_eq!((found.len(), found.blocks()), (size.into(), blocks), "{file}");
    }
}

#[test]
fn get_leaves_holes_and_needs_no_memory_for_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let size = 2_000_000_000;
    let nodes = [bare_node(2, 0o100_600, size), dirent(1, 1, 2, 8, b"holes")];
    fs::write(path.join("i.img"), blocks(ERASE_SIZE, nodes)).expect("writes");
    let command = format!("ulimit -v 1000000; exec {} get i.img /holes out", env!("CARGO_BIN_EXE_nandkit"));
    let (status, told) = run(path, &command);
    assert_eq!(status, Some(0), "{told}");
    let found = fs::metadata(path.join("out")).expect("a file");
    assert!(found.len() == u64::from(size) && found.blocks() < 100, "{} bytes, {} blocks", found.len(), found.blocks());
}

#[test]
fn messages_say_what_became_of_a_file() {
    let directory = with_image();
    let path = directory.path();
    succeeds(path, &["check", "v.img", "--repair", "r.img"]);
    let outcome = nandkit(path, &["check", "v.img", "--repair", "r.img"]);
    let expected = "nandkit: r.img: the file exists; expected another path\n";
    assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(2), expected));
    // Each node of a file that mkfs.jffs2 wrote has a version of its own.
    let outcome = exits(path, &["cat", "v.img", "/f0", "--version", "1"], 0);
    assert!(outcome.stdout.len() > 4096 && !outcome.stderr.contains("lost"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("up to version 2, whose content is written"), "{}", outcome.stderr);
    succeeds(path, &["mv", "v.img", "--size", "1M", "/f0", "/d/moved"]);
    for arguments in [&["cat", "v.img", "/f0", "--versions"][..], &["cat", "v.img", "/f0"]] {
        let outcome = nandkit(path, arguments);
        assert!(outcome.stderr.contains("the file has another name now, /d/moved"), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("deleted"), "{}", outcome.stderr);
    }
    succeeds(path, &["rm", "v.img", "/f1"]);
    let outcome = nandkit(path, &["cat", "v.img", "/f1", "--versions"]);
    assert!(outcome.stderr.contains("the file was deleted"), "{}", outcome.stderr);
}

/// GNU tar is the judge: it says that it leaves sockets out, and calls that no failure.
#[test]
fn a_socket_is_left_out_of_an_archive_as_by_gnu_tar() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::create_dir(path.join("tree")).expect("a directory");
    drop(UnixListener::bind(path.join("tree/sock")).expect("a socket"));
    let (status, told) = run(path, "LC_ALL=C tar cf theirs.tar tree");
    assert!(told.contains("socket ignored"), "{told}");
    succeeds(path, &["mkfs", "jffs2", "--from", "tree", "i.img"]);
    let outcome = nandkit(path, &["extract", "i.img", "--to-tar", "ours.tar"]);
    assert_eq!(outcome.status, status, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("skipped /sock"), "{}", outcome.stderr);
}
