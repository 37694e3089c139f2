//! FAT of cards as people have them: short names of other code pages, and deleted files.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::lenient::{TEXT, fat};
use super::with_dump;

use crate::common::{exits, json, nandkit, nandkit_bytes, succeeds, tells};

/// The byte at which the fixed root directory begins.
fn root(volume: &[u8]) -> usize {
    let number = |at: usize| usize::from(u16::from_le_bytes([volume[at], volume[at + 1]]));
    (number(14) + usize::from(volume[16]) * number(22)) * number(11)
}

#[test]
fn short_names_are_shown_by_the_code_page_that_is_named() {
    let mut volume = fat();
    let at = root(&volume);
    // 写真 in code page 932.
    volume[at..at + 8].copy_from_slice(b"\x8e\xca\x90^    ");
    let directory = with_dump(&volume);
    let path = directory.path();
    assert_eq!(succeeds(path, &["ls", "dump"]), "Ä╩É^.TXT\n");
    for page in ["932", "cp932"] {
        let with_page = |command: &[&str]| succeeds(path, &[command, &["--codepage", page]].concat());
        assert_eq!(with_page(&["ls", "dump"]), "写真.TXT\n");
        assert_eq!(with_page(&["cat", "dump", "/写真.TXT"]), TEXT);
        assert!(with_page(&["check", "dump"]).starts_with("1 files in 1 directories"));
        with_page(&["get", "dump", "/写真.TXT", "--force"]);
        assert_eq!(fs::read_to_string(path.join("写真.TXT")).expect("reads"), TEXT);
        let out = format!("out{page}");
        with_page(&["extract", "dump", &out]);
        assert_eq!(fs::read_to_string(path.join(out).join("写真.TXT")).expect("reads"), TEXT);
    }
    succeeds(path, &["mv", "dump", "--codepage", "932", "/写真.TXT", "/photo.txt"]);
    assert_eq!(succeeds(path, &["ls", "dump"]), "photo.txt\n");
    let refused = exits(path, &["ls", "dump", "--codepage", "999"], 2);
    let told = ["no code page \"999\"; expected one of 437, 720", "932, 936, 949, 950"];
    assert!(told.iter().all(|told| refused.stderr.contains(told)), "{}", refused.stderr);
}

/// Runs mtools on `dump`.
fn mtools(path: &Path, command: &str) {
    let command = format!("export MTOOLS_SKIP_CHECK=1; {command}");
    let shell = Command::new("sh").args(["-c", &command]).current_dir(path).status().expect("a shell");
    assert!(shell.success(), "{command}");
}

/// 12,000 bytes that differ in each cluster.
fn numbers() -> Vec<u8> {
    (0..3000_u32).flat_map(u32::to_le_bytes).collect()
}

/// A card with a short and a long name, an empty file, and a directory, all of which mtools
/// deleted.
fn with_deleted() -> tempfile::TempDir {
    let directory = with_dump(&fat());
    let path = directory.path();
    fs::write(path.join("numbers"), numbers()).expect("writes");
    fs::write(path.join("empty"), "").expect("writes");
    let copies = "mcopy -i dump numbers '::/A long name of mine.jpeg' && mcopy -i dump empty ::/EMPTY && mmd -i dump ::/sub \
                  && mcopy -i dump numbers ::/sub/inner.bin";
    mtools(path, copies);
    mtools(path, "mdel -i dump ::/COPY.TXT '::/A long name of mine.jpeg' ::/EMPTY && mdeltree -i dump ::/sub");
    directory
}

#[test]
fn deleted_files_are_listed_and_delivered_as_far_as_their_clusters_are_free() {
    let directory = with_deleted();
    let path = directory.path();
    let listed = succeeds(path, &["ls", "dump", "--deleted"]);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(names, ["/A", "/_MPTY", "/_OPY.TXT", "/_ub", "/_ub/_nner.bin"], "{listed}");
    let line = |name: &str| listed.lines().find(|line| line.contains(name)).expect("a line").to_owned();
    assert!(line("/A long name of mine.jpeg").contains("12000 bytes; not sure: only the first of its clusters"));
    assert!(line("/_OPY.TXT").ends_with(&format!("{} bytes)", TEXT.len())), "{listed}");
    assert!(line("/_MPTY").ends_with("0 bytes)"), "{listed}");
    let told = exits(path, &["cat", "dump", "/_OPY.TXT"], 2);
    assert!(told.stderr.contains("the file was deleted") && told.stderr.contains("--version N"), "{}", told.stderr);
    let copy = nandkit(path, &["cat", "dump", "/_OPY.TXT", "--version", "1"]);
    assert_eq!((copy.status, copy.stdout.as_str()), (Some(0), TEXT));
    assert!(copy.stderr.contains("this is a deleted file's content") && !copy.stderr.contains("not sure"));
    for name in ["/A long name of mine.jpeg", "/_ub/_nner.bin"] {
        tells(
            path,
            &["get", "dump", name, "--version", "1", "out", "--force"],
            0,
            "not sure: only the first of its clusters",
        );
        assert!(fs::read(path.join("out")).expect("reads") == numbers());
    }
    // Nothing of it shows in what is there.
    assert_eq!(succeeds(path, &["ls", "dump"]), "");
    assert_eq!(succeeds(path, &["cat", "dump", "/_MPTY", "--version", "1"]), "");
}

#[test]
fn clusters_that_are_used_again_are_told() {
    let directory = with_deleted();
    let path = directory.path();
    // Takes COPY.TXT's entry and cluster, and some clusters of the long-named file behind it.
    fs::write(path.join("new"), [7; 5000]).expect("writes");
    mtools(path, "mcopy -i dump new ::/NEW");
    let listed = json(path, &["ls", "dump", "--deleted", "--json"]);
    let readable = |name: &str| {
        let found = listed.as_array().expect("a list").iter().find(|found| found["path"] == name);
        found.unwrap_or_else(|| panic!("{name} in {listed}"))["readable_bytes"].as_u64()
    };
    let name = "/A long name of mine.jpeg";
    assert_eq!((readable(name), readable("/_ub/_nner.bin")), (Some(0), Some(12_000)), "{listed}");
    let listed = succeeds(path, &["ls", "dump", "--deleted"]);
    assert!(listed.contains("12000 bytes, overwritten by other files"), "{listed}");
    let told = nandkit(path, &["cat", "dump", name]);
    assert!(told.stderr.contains("its blocks are used by other files now"), "{}", told.stderr);
    let (status, content, told) = nandkit_bytes(path, &["cat", "dump", name, "--version", "1"]);
    assert!(status == Some(1) && content.is_empty(), "{told}");
    assert!(told.contains("bytes 0 to 12000 of that version are lost"), "{told}");
    let refused = nandkit(path, &["get", "dump", name, "--version", "1", "out"]);
    assert!(refused.status == Some(1) && !path.join("out").exists(), "{}", refused.stderr);
}

#[test]
fn a_deletion_that_was_cut_off_leaves_the_chain() {
    let mut volume = fat();
    let at = root(&volume);
    volume[at] = 0xE5;
    let directory = with_dump(&volume);
    let path = directory.path();
    let listed = succeeds(path, &["ls", "dump", "--deleted"]);
    assert!(listed.contains("/_OPY.TXT") && listed.contains(&format!("{} bytes)", TEXT.len())), "{listed}");
    assert_eq!(succeeds(path, &["cat", "dump", "/_OPY.TXT", "--version", "1"]), TEXT);
}

#[test]
fn a_rename_is_no_loss() {
    let directory = with_dump(&fat());
    let path = directory.path();
    succeeds(path, &["mv", "dump", "/COPY.TXT", "/KEPT.TXT"]);
    let listed = succeeds(path, &["ls", "dump", "--deleted"]);
    assert!(listed.contains("/_OPY.TXT") && listed.contains("has another name now"), "{listed}");
    let told = nandkit(path, &["cat", "dump", "/_OPY.TXT"]);
    assert!(told.status == Some(2) && told.stderr.contains("another name now, /KEPT.TXT"), "{}", told.stderr);
    let listed = succeeds(path, &["cat", "dump", "/KEPT.TXT", "--versions"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert_eq!(succeeds(path, &["cat", "dump", "/KEPT.TXT", "--version", "1"]), TEXT);
}

#[test]
fn exfat_behind_a_table_is_named() {
    let mut dump = vec![0; 96 << 10];
    dump[446 + 4] = 7;
    dump[446 + 8..446 + 12].copy_from_slice(&64_u32.to_le_bytes());
    dump[446 + 12..446 + 16].copy_from_slice(&128_u32.to_le_bytes());
    dump[510..512].copy_from_slice(&[0x55, 0xAA]);
    let at = 64 * 512;
    dump[at..at + 11].copy_from_slice(b"\xeb\x76\x90EXFAT   ");
    dump[at + 72..at + 80].copy_from_slice(&128_u64.to_le_bytes());
    dump[at + 108..at + 110].copy_from_slice(&[9, 3]);
    dump[at + 510..at + 512].copy_from_slice(&[0x55, 0xAA]);
    let directory = with_dump(&dump);
    for command in ["ls", "check"] {
        tells(directory.path(), &[command, "dump"], 2, "at 0x8000 begins with exFAT, which nandkit does not read");
    }
}
