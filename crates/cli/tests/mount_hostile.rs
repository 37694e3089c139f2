//! Images that somebody made to do harm, as mounts: directories within themselves, names that are
//! none, sizes that no image holds. Programs see names hidden or errors, and come to an end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::common::jffs2::{bare_node, blocks, dirent, inode_node};
use crate::common::mounted::Mount;
use crate::common::{nandkit, succeeds, tells};

const ERASE_SIZE: usize = 65_536;
/// `st_mode >> 12`.
const DIRECTORY: u8 = 4;
const FILE: u8 = 8;
/// Names that no directory may hold.
const NAMES: [&[u8]; 5] = [b"a/b", b"x\0y", b".", b"..", b""];

/// Runs a script that ends in time whatever it is told; returns what it says.
fn ends(directory: &Path, script: &str) -> String {
    let output = Command::new("timeout").args(["-k", "5", "60", "sh", "-c", script]).current_dir(directory).output();
    let output = output.expect("timeout runs");
    let code = output.status.code();
    assert!(!matches!(code, Some(124 | 137) | None), "{script}: it does not end: {:?}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Looks at all that can be reached, as programs do.
fn look(path: &Path) {
    let found = ends(path, "find mnt -printf '%y %s %p\\n'; find -L mnt | wc -l; ls -laR mnt; du -a mnt");
    assert!(!found.contains("a/b") && !found.contains("x\0y"), "{found}");
    ends(path, "find mnt -type f -exec head -c 100000 {} + | wc -c; find mnt -type f -exec tail -c 100 {} + | wc -c");
    // Not the files of gigabytes, whose names are in capitals on FAT.
    ends(path, "tar -cf - --exclude='[Hh]*' mnt | wc -c; grep -r nothing mnt --exclude='[Hh]*'");
    // What is sound is there.
    assert_eq!(fs::read_to_string(path.join("mnt/SOUND")).expect("a sound file"), "sound");
}

/// Changes and removes what can be.
fn change(path: &Path) {
    ends(path, "find mnt -type d | head -50 | while read d; do echo new > \"$d/NEW\"; mkdir \"$d/DIR\"; done");
    ends(
        path,
        "mv mnt/* mnt/DIR; for f in mnt/*; do mv \"$f\" \"$f.2\"; done; find mnt -type f -exec truncate -s 100 {} +",
    );
    ends(path, "rm -rf mnt/*; find mnt; sync mnt");
}

/// Sees the image for reading and for changes; each mount ends well.
fn survives(path: &Path, arguments: &[&str], what_is_told: &str) {
    let before = fs::read(path.join("i")).expect("an image");
    let mount = Mount::start(path, "i", arguments);
    look(path);
    assert_eq!(mount.unmount(), Some(0));
    assert!(fs::read(path.join("i")).expect("an image") == before, "reading changes nothing");
    let refused = tells(path, &[&["mount", "i", "mnt", "--rw"], arguments].concat(), 1, "--even-if-damaged");
    assert!(refused.stderr.contains(what_is_told), "{}", refused.stderr);
    // Commands that change the image hold to the same.
    let refused = nandkit(path, &[&["mkdir", "i", "/FRESH"], arguments].concat());
    assert!(refused.status == Some(1) && refused.stderr.contains("--even-if-damaged"), "{}", refused.stderr);
    assert!(fs::read(path.join("i")).expect("an image") == before, "what is refused changes nothing");
    let mount = Mount::start(path, "i", &[&["--rw", "--even-if-damaged"], arguments].concat());
    look(path);
    change(path);
    // FAT stops where it meets the damage in a change, and that is told at the end; a panic would
    // end otherwise.
    let status = mount.unmount();
    assert!(status == Some(0) || status == Some(1) && what_is_told == "SharedClusters", "{status:?}");
    let mount = Mount::start(path, "i", arguments);
    ends(path, "find mnt; ls -laR mnt");
    assert_eq!(mount.unmount(), Some(0));
}

#[test]
fn a_jffs2_image_made_to_do_harm() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut nodes = vec![
        inode_node(20, 1, 5, 0, b"sound"),
        dirent(1, 1, 20, FILE, b"SOUND"),
        // A directory that is below itself, one with two parents, one that is its own child, and
        // the root below itself.
        dirent(1, 2, 2, DIRECTORY, b"outer"),
        dirent(2, 1, 3, DIRECTORY, b"inner"),
        dirent(3, 1, 2, DIRECTORY, b"back"),
        dirent(1, 3, 4, DIRECTORY, b"one"),
        dirent(2, 2, 4, DIRECTORY, b"two"),
        dirent(4, 1, 4, DIRECTORY, b"self"),
        dirent(4, 2, 1, DIRECTORY, b"root"),
        // Two that are nowhere but in each other.
        dirent(9, 1, 8, DIRECTORY, b"eight"),
        dirent(8, 1, 9, DIRECTORY, b"nine"),
        // A name for an inode that is not there, and one for none.
        dirent(1, 4, 77, FILE, b"missing"),
        dirent(1, 5, u32::MAX, FILE, b"last"),
    ];
    for inode in [2, 3, 4, 8, 9] {
        nodes.push(bare_node(inode, 0o040_755, 0));
    }
    for (number, name) in NAMES.iter().enumerate() {
        let inode = 30 + number as u32;
        nodes.push(inode_node(inode, 1, 3, 0, b"bad"));
        nodes.push(dirent(1, 10 + number as u32, inode, FILE, name));
    }
    for (number, size) in [0x7FFF_FFFF_u32, 0x8000_0000, 0xFFFF_FFFF].into_iter().enumerate() {
        let inode = 40 + number as u32;
        nodes.push(bare_node(inode, 0o100_644, size));
        nodes.push(dirent(1, 20 + number as u32, inode, FILE, format!("huge{number}").as_bytes()));
    }
    let mut image = blocks(ERASE_SIZE, nodes);
    image.resize(image.len() + 16 * ERASE_SIZE, 0xFF);
    fs::write(path.join("i"), image).expect("an image");
    survives(path, &["--erase-size", "64K"], "damaged");
}

/// A FAT16 volume with these directories in each other and files; entries of 8.3 names can be found
/// by their 11 bytes.
fn fat() -> (tempfile::TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut made = Command::new("mkfs.vfat");
    made.args(["-F", "16", "-s", "1", "-C", "i", "16384"]).env("PATH", search).current_dir(path);
    assert!(made.output().expect("mkfs.vfat runs").status.success());
    let mount = Mount::start(path, "i", &["--rw"]);
    ends(path, "mkdir -p mnt/OUTER/INNER/DEEP mnt/OTHER mnt/THIRD; printf sound > mnt/SOUND; printf x > mnt/HUGE");
    ends(path, "for i in 1 2 3 4 5; do echo bad > mnt/NAME$i; done; echo t > mnt/OTHER/T; echo o > mnt/OUTER/O");
    assert_eq!(mount.unmount(), Some(0));
    let image = fs::read(path.join("i")).expect("an image");
    (directory, image)
}

/// Where the entry of a name begins.
fn entry(image: &[u8], name: &str) -> usize {
    let short = format!("{name:<11}");
    image.windows(11).position(|window| window == short.as_bytes()).expect("an entry")
}

/// Gives the entry of one name the first cluster of another.
fn same_cluster(image: &mut [u8], name: &str, as_of: &str) {
    let (from, to) = (entry(image, as_of), entry(image, name));
    image.copy_within(from + 26..from + 28, to + 26);
}

#[test]
fn a_fat_image_made_to_do_harm() {
    let (directory, mut image) = fat();
    let path = directory.path();
    same_cluster(&mut image, "DEEP", "OUTER");
    same_cluster(&mut image, "THIRD", "OTHER");
    let huge = entry(&image, "HUGE");
    image[huge + 28..huge + 32].fill(0xFF);
    for (number, name) in NAMES.iter().enumerate() {
        let at = entry(&image, &format!("NAME{}", number + 1));
        image[at..at + 11].fill(b' ');
        image[at..at + name.len()].copy_from_slice(name);
    }
    fs::write(path.join("i"), &image).expect("an image");
    survives(path, &[], "SharedClusters");
}

#[test]
fn directories_of_fat_that_share_their_clusters_are_not_mounted_for_changes() {
    let (directory, sound) = fat();
    let path = directory.path();
    // A directory below itself, and two that are one.
    for (name, as_of) in [("DEEP", "OUTER"), ("THIRD", "OTHER")] {
        let mut image = sound.clone();
        same_cluster(&mut image, name, as_of);
        fs::write(path.join("i"), &image).expect("an image");
        let outcome = nandkit(path, &["mount", "i", "mnt", "--rw"]);
        assert_eq!(outcome.status, Some(1), "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("SharedClusters"), "{name}: {}", outcome.stderr);
        assert!(fs::read(path.join("i")).expect("an image") == image);
        let mount = Mount::start(path, "i", &[]);
        look(path);
        assert_eq!(mount.unmount(), Some(0));
    }
    fs::write(path.join("i"), &sound).expect("an image");
    let mount = Mount::start(path, "i", &["--rw"]);
    assert_eq!(fs::metadata(path.join("mnt/SOUND")).expect("a status").size(), 5);
    assert_eq!(mount.unmount(), Some(0));
    succeeds(path, &["check", "i"]);
}
