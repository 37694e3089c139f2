//! Volumes of newer f2fs-tools than the installed ones: packed summaries, large blocks, and files
//! that stand for devices. `fixtures/f2fs/README.md` says how the images were made; the fsck.f2fs
//! that came with them finds nothing in any.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::{json, nandkit, nandkit_bytes, run, succeeds};

/// A directory with a fixture in it, as an image.
fn with_image(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let fixture = format!("{}/fixtures/f2fs/{name}.simg.xz", env!("CARGO_MANIFEST_DIR"));
    run(directory.path(), &format!("xz -dc {fixture} >s && simg2img s i && rm s"));
    directory
}

/// Content by path, targets of links behind `-> `.
fn expected_tree() -> BTreeMap<PathBuf, Vec<u8>> {
    let large = (0..20_u64 << 20).step_by(16_384).flat_map(|at| {
        let mut piece = format!("{at:012} ").into_bytes();
        piece.resize(16_384, 0xA5);
        piece
    });
    let mut tree: BTreeMap<PathBuf, Vec<u8>> = [
        ("large", large.collect()),
        ("small", b"small\n".to_vec()),
        ("inline", vec![b'x'; 9000]),
        ("blocks", (0..100_001_u32).map(|at| (at / 16_384) as u8).collect()),
        ("link", b"-> d/many".to_vec()),
        ("long", format!("-> {}", "y/".repeat(2000)).into_bytes()),
    ]
    .into_iter()
    .map(|(name, content)| (PathBuf::from(name), content))
    .collect();
    for number in 0..300_usize {
        let name = format!("d/many/{number}-{}", "n".repeat(number % 60));
        tree.insert(name.into(), format!("file {number}\n").into_bytes());
    }
    tree
}

/// All files and links below a directory.
fn tree_of(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(inside) = waiting.pop() {
        for entry in fs::read_dir(directory.join(&inside)).expect("a directory") {
            let entry = entry.expect("an entry");
            let (path, kind) = (inside.join(entry.file_name()), entry.file_type().expect("a kind"));
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).expect("a link");
                found.insert(path, format!("-> {}", target.display()).into_bytes());
            } else {
                found.insert(path, fs::read(entry.path()).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn volumes_with_packed_summaries_and_large_blocks_are_read_whole_and_sound() {
    let expected = expected_tree();
    for (name, block) in [("packed-16k", 16_384), ("plain-16k", 16_384), ("plain-8k", 8192)] {
        let directory = with_image(name);
        let path = directory.path();
        let told = nandkit(path, &["check", "i"]);
        assert_eq!((told.status, told.stderr.as_str()), (Some(0), ""), "{name}: {}", told.stdout);
        succeeds(path, &["extract", "i", "out"]);
        assert!(tree_of(&path.join("out")) == expected, "{name}");
        let info = json(path, &["info", "i", "--json"]);
        assert_eq!(info["volume"]["block_size"].as_u64(), Some(block), "{name}: {info}");
        // Summaries that name other owners are seen. The superblock has the beginnings of SSA and
        // main area at bytes 88 and 92.
        let image = fs::File::options().read(true).write(true).open(path.join("i")).expect("an image");
        let word = |at: u64| {
            let mut bytes = [0; 4];
            image.read_exact_at(&mut bytes, at).expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let (ssa, main) = (u64::from(word(1024 + 88)) * block, u64::from(word(1024 + 92)) * block);
        let summaries: Vec<u64> = (ssa..main).step_by(4096).filter(|at| word(*at) != 0).collect();
        assert!(!summaries.is_empty(), "{name}");
        for at in summaries {
            image.write_all_at(&(word(at) ^ 0x55).to_le_bytes(), at).expect("a word");
        }
        let told = nandkit(path, &["check", "i"]);
        assert!(told.status == Some(1) && told.stdout.contains("summar"), "{name}: {}", told.stdout);
    }
}

/// Every command that writes refuses an image with exit status 2 and one of these words, before
/// anything is written.
fn refuses_changes(path: &Path, more: &[&str], words: [&str; 2]) {
    let before = fs::read(path.join("i")).expect("an image");
    fs::create_dir_all(path.join("mnt")).expect("makes");
    fs::write(path.join("f"), "f").expect("a file");
    for command in [
        &["put", "i", "f", "/f"][..],
        &["put", "i", "f", "/f", "--dry-run"],
        &["put", "i", "f", "/f", "--overlay", "over"],
        &["rm", "i", "/small"],
        &["mkdir", "i", "/new"],
        &["mount", "i", "mnt", "--rw"],
        &["resize", "i", "512M"],
        &["check", "i", "--repair", "mended"],
    ] {
        let more: &[&str] = if command[0] == "resize" { &[] } else { more };
        let told = nandkit(path, &[command, more].concat());
        assert_eq!(told.status, Some(2), "{command:?}: {}{}", told.stdout, told.stderr);
        let is_clear = words.iter().any(|word| told.stderr.contains(word));
        assert!(is_clear && told.stderr.lines().count() == 1, "{command:?}: {}", told.stderr);
        assert!(!path.join("mended").exists() && !path.join("over").exists(), "{command:?}");
    }
    assert!(fs::read(path.join("i")).expect("an image") == before);
}

#[test]
fn volumes_of_newer_kinds_are_not_changed_and_it_is_said_why() {
    let directory = with_image("packed-16k");
    refuses_changes(directory.path(), &[], ["its summaries are packed", "packed_ssa"]);
    let directory = with_image("device-alias");
    fs::write(directory.path().join("second.img"), vec![0; 128 << 20]).expect("a file");
    refuses_changes(directory.path(), &["--devices", "second.img"], ["several devices", "(feature device_alias)"]);
    refuses_changes(directory.path(), &[], ["several devices", "expected --devices"]);
}

#[test]
fn a_file_that_stands_for_a_device_is_all_of_it() {
    let directory = with_image("device-alias");
    let path = directory.path();
    let device: Vec<u8> = (0..128_u32 << 18).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(path.join("second.img"), &device).expect("a file");
    let both = ["i", "--devices", "second.img"];
    let with = |command: &[&'static str], rest: &[&'static str]| [command, &both, rest].concat();
    let told = nandkit(path, &with(&["check"], &[]));
    assert_eq!((told.status, told.stderr.as_str()), (Some(0), ""), "{}", told.stdout);
    assert!(!told.stdout.contains("harmless"), "{}", told.stdout);
    let listed = succeeds(path, &with(&["ls", "-l"], &[]));
    assert!(listed.contains("134217728") && listed.contains("alias"), "{listed}");
    succeeds(path, &with(&["extract"], &["out"]));
    assert!(fs::read(path.join("out/alias")).expect("a file") == device);
    let (status, bytes, told) = nandkit_bytes(path, &["cat", "i", "alias", "--devices", "second.img"]);
    assert!(status == Some(0) && bytes == device, "{told}");
    let extents = json(path, &["info", "i", "--devices", "second.img", "--extents", "/alias", "--json"]);
    let runs = extents["file"]["extents"].as_array().expect("extents");
    let length: u64 = runs.iter().filter_map(|run| run["length"].as_u64()).sum();
    assert!(length == 128 << 20 && runs[0]["address"].as_u64() == Some(128 << 20), "{runs:?}");
    // An extent that is no device's. The alias's inode is the block whose footer has its number.
    let inode = json(path, &with(&["ls"], &["--json"]));
    let number = inode.as_array().expect("a list").iter().find(|row| row["path"] == "/alias").expect("a row")["inode"]
        .as_u64()
        .expect("a number") as u32;
    let mut bytes = fs::read(path.join("i")).expect("an image");
    let footer = [number; 2].map(u32::to_le_bytes).concat();
    let block = (0..bytes.len() / 4096).find(|block| bytes[block * 4096 + 4072..][..8] == footer).expect("a node");
    // i_ext, from byte 348 of an inode on: page, address, length.
    bytes[block * 4096 + 352] ^= 1;
    fs::write(path.join("i"), bytes).expect("an image");
    let told = nandkit(path, &with(&["check"], &[]));
    assert!(told.status == Some(1) && told.stdout.contains("no device's"), "{}", told.stdout);
}
