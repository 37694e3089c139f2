//! Chips that are kept in files: what stays from run to run, and what is refused.

use std::fs;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_stack::image::{self, Checked, ChipVolume, Image, Layer, OpenOptions, fact};
use nandkit_stack::{Keep, Mounted, Stack, StackError, StackSpec};
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{ErrorKind, NewNode};

/// A small chip, so that every test takes a moment.
fn spec(file: &Path, rest: &str) -> StackSpec {
    spec_with(&format!("preset = 'nandsim-32m-16k'\nblocks = 128\nfile = '{}'", file.display()), rest)
}

fn spec_with(device: &str, rest: &str) -> StackSpec {
    toml::from_str(&format!("{rest}\n[device]\n{device}\n")).expect("a spec")
}

fn put(stack: &mut Stack, name: &str, content: &[u8]) {
    let Mounted::Files(fs) = &mut stack.mounted else { panic!("a file system") };
    let root = fs.root();
    let changes = fs.changes().expect("writable");
    let inode = changes.create(root, name.as_bytes(), &NewNode::FILE).expect("creates");
    assert_eq!(changes.write(inode, 0, Payload::Bytes(content)).expect("writes"), content.len());
}

fn names(stack: &Stack) -> Vec<String> {
    let Mounted::Files(fs) = &stack.mounted else { panic!("a file system") };
    let mut names = Vec::new();
    fs.read_dir(fs.root(), 0, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        std::ops::ControlFlow::Continue(())
    })
    .expect("reads");
    names
}

fn refused(spec: &StackSpec) -> StackError {
    match Stack::build(spec, 1) {
        Ok(_) => panic!("built {}", spec.title()),
        Err(error) => error,
    }
}

fn chip(path: &Path) -> image::ChipInfo {
    match image::inspect(path, &OpenOptions::default()).expect("a chip") {
        Image::Chip(chip) => *chip,
        Image::Dump(_) => panic!("a chip"),
    }
}

/// What the volume on a chip says of itself.
fn volume(info: &image::ChipInfo) -> serde_json::Value {
    let ChipVolume::Known(facts) = &info.volume else { panic!("{:?}", info.volume) };
    fact::json(facts)
}

#[test]
fn what_a_run_leaves_is_there_for_the_next_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    let mut stack = Stack::build(&spec(&path, "[fs]\nkind = 'fat'\nlabel = 'KEPT'"), 5).expect("builds");
    assert_eq!(stack.started.get(), 0);
    put(&mut stack, "first.txt", &[7; 5000]);
    let ended = stack.clock.now();
    stack.close().expect("closes");

    let info = chip(&path);
    assert_eq!((info.seed, info.spec.geometry.blocks), (5, 128));
    assert!(info.last_instant_ns >= ended.get() / 2 && info.programmed_pages > 10, "{info:?}");
    assert_eq!(info.layer, Layer::Known { kind: "block-map", clean: true });
    let fat = volume(&info);
    assert_eq!((fat["label"].as_str(), fat["kind"].as_str()), (Some("KEPT"), Some("FAT12")));
    let report = image::check(&path, &OpenOptions::default()).expect("checks").report;
    assert!(report.is_clean() && report.count("files") == 1, "{report:?}");

    // Only the file is named: the chip is as the file has it. The first run's file stays, the
    // second run has a directory of its own.
    let only_file = spec_with(&format!("file = '{}'", path.display()), "");
    let mut stack = Stack::build(&only_file, 9).expect("opens");
    assert!(stack.started >= nandkit_units::Nanos(info.last_instant_ns));
    assert_eq!(names(&stack), Vec::<String>::new());
    put(&mut stack, "first.txt", b"second");
    stack.close().expect("closes");
    let report = image::check(&path, &OpenOptions::default()).expect("checks").report;
    assert!(report.is_clean() && (report.count("files"), report.count("directories")) == (2, 2), "{report:?}");
    let later = chip(&path);
    assert_eq!(later.seed, 5, "the chip keeps its own seed");
    assert!(later.last_instant_ns > info.last_instant_ns);
    assert!(later.erases.iter().sum::<u32>() >= info.erases.iter().sum::<u32>());
}

#[test]
fn a_chip_with_f2fs_is_opened_on_each_layer() {
    let directory = tempfile::tempdir().expect("a directory");
    for ftl in ["block-map", "fast", "page-map"] {
        let path = directory.path().join(format!("{ftl}.nand"));
        let device = format!("preset = 'slc-256m'\nstore = 'content'\nfile = '{}'", path.display());
        let stack = spec_with(&device, &format!("ftl = '{ftl}'\n[fs]\nkind = 'f2fs'"));
        let mut stack = Stack::build(&stack, 5).expect("builds");
        put(&mut stack, "first.txt", &[7; 50_000]);
        stack.close().expect("closes");
        let info = chip(&path);
        assert_eq!(info.layer, Layer::Known { kind: ftl, clean: true });
        let f2fs = volume(&info);
        let (total, free) = (f2fs["total_bytes"].as_u64(), f2fs["free_bytes"].as_u64());
        assert_eq!((f2fs["kind"].as_str(), f2fs["label"].as_str()), (Some("f2fs"), Some("")));
        assert!(total > Some(100 << 20) && free < total, "{info:?}");
        let opened = image::open(&path, &OpenOptions::default()).expect("opens");
        let inode = opened.fs().lookup(opened.fs().root(), b"first.txt").expect("the file");
        let mut found = [0; 60_000];
        assert_eq!(opened.fs().read(inode, 0, ReadInto::Bytes(&mut found)).expect("reads"), 50_000);
        assert_eq!((&found[..50_000], opened.format), (&[7; 50_000][..], "f2fs"));
        let Checked { format, report } = image::check(&path, &OpenOptions::default()).expect("checks");
        assert!(report.is_clean() && (format, report.count("files")) == ("f2fs", 1), "{report:?}");
    }
}

/// JFFS2 is told from the layers' own chips by the OOB: a file that holds an image of it in a FAT
/// volume changes nothing.
#[test]
fn a_chip_with_jffs2_is_opened_for_reading_and_none_of_a_layer_for_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut content = Vec::new();
    for preset in ["nandsim-32m-16k", "nandsim-32m-128k"] {
        let path = directory.path().join(format!("{preset}.nand"));
        let device = format!("preset = '{preset}'\nblocks = 64\nfile = '{}'", path.display());
        let mut stack = Stack::build(&spec_with(&device, "fs = 'jffs2'"), 5).expect("builds");
        put(&mut stack, "first.txt", b"in JFFS2");
        stack.close().expect("closes");
        let info = chip(&path);
        assert_eq!(info.layer, Layer::None);
        assert_eq!(volume(&info)["kind"], "jffs2");
        assert!(volume(&info)["total_bytes"].as_u64() > Some(500_000), "{info:?}");
        let opened = image::open(&path, &OpenOptions::default()).expect("opens");
        let inode = opened.fs().lookup(opened.fs().root(), b"first.txt").expect("the file");
        let mut found = [0; 20];
        assert_eq!(opened.fs().read(inode, 0, ReadInto::Bytes(&mut found)).expect("reads"), 8);
        assert_eq!((&found[..8], opened.format), (&b"in JFFS2"[..], "jffs2"));
        let report = image::check(&path, &OpenOptions::default()).expect("checks").report;
        assert!(report.is_clean() && report.count("files") == 1, "{report:?}");
        content = fs::read(&path).expect("the chip's file");
    }
    for ftl in ["block-map", "fast"] {
        let path = directory.path().join(format!("{ftl}.nand"));
        let mut stack = Stack::build(&spec(&path, &format!("ftl = '{ftl}'")), 5).expect("builds");
        put(&mut stack, "image", &content[..content.len().min(300_000)]);
        stack.close().expect("closes");
        let info = chip(&path);
        assert_eq!(volume(&info)["kind"], "FAT12");
        assert_eq!(info.layer, Layer::Known { kind: ftl, clean: true });
    }
}

#[test]
fn a_run_that_does_not_end_well_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    let stack = Stack::build(&spec(&path, ""), 1).expect("builds");
    let files = || fs::read_dir(directory.path()).expect("lists").count();
    assert!(!path.exists() && files() > 0, "a new chip has another name until a run has finished on it");
    drop(stack);
    assert_eq!(files(), 0, "a chip that no run has finished on goes again");
    Stack::build(&spec(&path, ""), 1).expect("builds").close().expect("closes");
    let before = fs::read(&path).expect("reads");
    let mut stack = Stack::build(&spec(&path, ""), 1).expect("opens");
    put(&mut stack, "lost", &[1; 9000]);
    drop(stack);
    assert!(fs::read(&path).expect("reads") == before);
    // Nor does it cut off what stands behind the chip.
    let long = [before.as_slice(), b"somebody else's bytes"].concat();
    fs::write(&path, &long).expect("writes");
    let mut stack = Stack::build(&spec(&path, ""), 1).expect("opens");
    put(&mut stack, "lost", &[1; 9000]);
    drop(stack);
    refused(&spec_with(&format!("file = '{}'", path.display()), "ftl = 'fast'"));
    assert!(fs::read(&path).expect("reads") == long);
    Stack::build(&spec(&path, ""), 1).expect("opens").close().expect("closes");
    assert_eq!(fs::read(&path).expect("reads").len(), before.len());
    // A stack that cannot be built leaves no file either.
    let too_small = directory.path().join("small.nand");
    refused(&spec_with(&format!("preset = 'nandsim-32m-16k'\nblocks = 4\nfile = '{}'", too_small.display()), ""));
    assert!(!too_small.exists());
}

#[test]
#[cfg(unix)]
fn a_link_that_leads_nowhere_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, target) = (directory.path().join("chip.nand"), directory.path().join("gone.nand"));
    std::os::unix::fs::symlink(&target, &path).expect("a link");
    let error = refused(&spec(&path, "")).to_string();
    assert!(error.contains("chip.nand: this is a symbolic link to a missing file"), "{error}");
    assert!(fs::read_link(&path).expect("still a link") == target && !target.exists());
    assert_eq!(fs::read_dir(directory.path()).expect("lists").count(), 1);
    // A link to a chip is followed, and stays.
    Stack::build(&spec(&target, ""), 1).expect("builds").close().expect("closes");
    Stack::build(&spec(&path, ""), 1).expect("opens").close().expect("closes");
    assert!(fs::read_link(&path).is_ok());
}

/// Writes a sector; returns whether it was there already.
fn write_then_read(device: &mut dyn BlockDevice) -> bool {
    let context = Context::default();
    let size = device.geometry().sector_size as usize;
    let mut found = vec![0; size];
    let known = device.read(&context, Lba(3), ReadInto::Bytes(&mut found)).is_ok() && found == vec![9; size];
    device.write(&context, Lba(3), Payload::Bytes(&vec![9; size])).expect("writes");
    known
}

#[test]
fn every_store_and_every_layer_can_be_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    for store in ["content", "described", "shadow"] {
        for ftl in ["block-map", "fast"] {
            let path = directory.path().join(format!("{store}-{ftl}.nand"));
            let device =
                format!("preset = 'nandsim-32m-16k'\nblocks = 128\nstore = '{store}'\nfile = '{}'", path.display());
            let spec = spec_with(&device, &format!("fs = 'none'\nftl = '{ftl}'"));
            for run in 0..2 {
                let mut stack = Stack::build(&spec, 1).expect("builds");
                let Mounted::Blocks(blocks) = &mut stack.mounted else { panic!("blocks") };
                let known = blocks.locked(write_then_read);
                assert_eq!(known, run == 1 && store != "shadow", "{store}, {ftl}, run {run}");
                stack.close().expect("closes");
            }
            let info = chip(&path);
            assert_eq!(info.store.name(), store);
            assert_eq!(
                info.layer,
                Layer::Known { kind: if ftl == "fast" { "fast" } else { "block-map" }, clean: true }
            );
            assert_eq!(info.volume, ChipVolume::None);
        }
    }
}

#[test]
fn files_that_do_not_fit_are_refused_and_untouched() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    let mut stack = Stack::build(&spec(&path, ""), 1).expect("builds");
    put(&mut stack, "data", &[3; 20_000]);
    stack.close().expect("closes");
    let good = fs::read(&path).expect("reads");
    let file = format!("file = '{}'", path.display());
    let same = "preset = 'nandsim-32m-16k'\nblocks = 128";
    for (device, rest, expected) in [
        ("preset = 'nandsim-32m-16k'\nblocks = 64".to_string(), "", "geometry.blocks is 128, asked for 64"),
        (format!("{same}\nstore = 'content'"), "", "store is described, asked for content"),
        (format!("{same}\ntiming.read_ns = 7"), "", "timing.read_ns is 25000, asked for 7"),
        (same.to_string(), "ftl = 'fast'", "written by the translation layer block-map; fast"),
        (same.to_string(), "[fs]\nkind = 'fat'\nfat_type = 'fat16'", "is FAT12, but the spec asks for FAT16"),
        (same.to_string(), "[fs]\nkind = 'fat'\ncluster_size = 32768", "the spec asks for 32768"),
    ] {
        let error = refused(&spec_with(&format!("{device}\n{file}"), rest)).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(fs::read(&path).expect("reads") == good, "{expected}");
    }
    // The journalled file: header and version. Behind its 4096 bytes the chip's header, with its
    // own magic, version and checksum.
    for (at, value, expected) in [
        (0, b'X', "\"NANDKJRN\""),
        (8, 9, "version 9, expected version 1"),
        (40, 0xFF, "expected"),
        (4096, b'X', "expected \"NANDKIT\""),
        (4096 + 8, 9, "version 9, expected version 2"),
        (4096 + 70, 0xFF, "checksum"),
    ] {
        let mut bad = good.clone();
        bad[at] = if bad[at] == value { 0xFE } else { value };
        fs::write(&path, &bad).expect("writes");
        for error in [
            refused(&spec(&path, "")),
            image::inspect(&path, &OpenOptions::default()).unwrap_err(),
            image::check(&path, &OpenOptions::default()).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains("chip.nand"), "{at}: {error}");
        }
        assert!(fs::read(&path).expect("reads") == bad, "byte {at}");
    }
    for (content, expected) in [(&b""[..], "begins with \"\""), (b"some text\n", "some tex")] {
        fs::write(&path, content).expect("writes");
        for error in [refused(&spec(&path, "")), image::inspect(&path, &OpenOptions::default()).unwrap_err()] {
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert_eq!(fs::read(&path).expect("reads"), content);
    }
    assert!(refused(&spec(directory.path(), "")).to_string().contains("not a regular file"));
    assert!(refused(&spec(&directory.path().join("no/chip.nand"), "")).to_string().contains("cannot create"));
}

#[test]
fn every_damaged_byte_of_the_header_and_of_the_first_records_is_noticed_or_harmless() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    Stack::build(&spec(&path, ""), 1).expect("builds").close().expect("closes");
    let good = fs::read(&path).expect("reads");
    // The header of the file, of the chip, the block records, and pages: a prime step meets every
    // field in time.
    let places = (0..48).chain(4096..4096 + 64).chain((4096 + 65_536..good.len()).step_by(61_681));
    for at in places {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).expect("writes");
        // No panic, and no message without the file's name.
        if let Err(error) = image::inspect(&path, &OpenOptions::default()) {
            assert!(error.to_string().contains("chip.nand"), "byte {at}: {error}");
        }
    }
}

#[test]
fn a_second_user_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    Stack::build(&spec(&path, ""), 1).expect("builds").close().expect("closes");
    let stack = Stack::build(&spec(&path, ""), 1).expect("opens");
    assert!(refused(&spec(&path, "")).to_string().contains("in use"));
    assert!(image::inspect(&path, &OpenOptions::default()).unwrap_err().to_string().contains("in use"));
    stack.close().expect("closes");
    assert!(image::inspect(&path, &OpenOptions::default()).is_ok());
}

#[test]
fn somebodys_data_are_not_formatted_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    let mut stack = Stack::build(&spec(&path, "fs = 'none'"), 1).expect("builds");
    let Mounted::Blocks(blocks) = &mut stack.mounted else { panic!("blocks") };
    let bytes = vec![9; blocks.geometry().sector_size as usize];
    blocks.write(&Context::default(), Lba(0), Payload::Bytes(&bytes)).expect("writes");
    stack.close().expect("closes");
    let before = fs::read(&path).expect("reads");
    let error = refused(&spec(&path, ""));
    assert_eq!(error.at, "stack.fs", "{error}");
    assert!(fs::read(&path).expect("reads") == before);
    assert!(matches!(chip(&path).volume, ChipVolume::Unknown(_)));
    assert!(image::check(&path, &OpenOptions::default()).is_err());
}

#[test]
fn a_directory_of_ones_own_behaves_as_a_root() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("chip.nand");
    for run in 1..=3 {
        let mut stack = Stack::build(&spec(&path, ""), 1).expect("builds");
        assert!(names(&stack).is_empty(), "run {run}");
        put(&mut stack, "a", &[run; 100]);
        put(&mut stack, "b", &[run; 100]);
        let Mounted::Files(fs) = &mut stack.mounted else { panic!("a file system") };
        let root = fs.root();
        let changes = fs.changes().expect("writable");
        assert_eq!(changes.root(), root);
        changes.rename((root, b"a"), (root, b"c"), Default::default()).expect("renames");
        changes.remove(root, b"b").expect("removes");
        assert_eq!(fs.lookup(root, b"b").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(names(&stack), ["c"]);
        stack.close().expect("closes");
    }
    let report = image::check(&path, &OpenOptions::default()).expect("checks").report;
    assert_eq!((report.count("files"), report.count("directories")), (3, 3), "{report:?}");
}

/// Everything that can write a chip: translation layers, and a file system on the bare flash.
const WRITERS: [&str; 4] = [
    "fs = 'none'\nftl = 'block-map'",
    "fs = 'none'\nftl = 'fast'",
    "fs = 'none'\nftl = { kind = 'page-map', spare = 0.2 }",
    "fs = 'jffs2'",
];

/// Writes something that can be told again, and syncs it.
fn write_durably(stack: &mut Stack) {
    match &mut stack.mounted {
        Mounted::Blocks(blocks) => {
            let bytes = vec![7; blocks.geometry().sector_size as usize];
            blocks.write(&Context::default(), Lba(5), Payload::Bytes(&bytes)).expect("writes");
            blocks.flush(&Context::default()).expect("flushes");
        }
        Mounted::Files(_) => {
            put(stack, "kept", b"kept");
            let Mounted::Files(fs) = &mut stack.mounted else { panic!("a file system") };
            fs.changes().expect("writable").sync(None).expect("syncs");
        }
    }
}

/// Whether what was written is there. A run sees a directory of its own on a volume that it finds,
/// so that a volume is looked at as an image.
fn is_still_there(path: &Path, writer: &str) -> bool {
    let stack = Stack::build_keeping(&spec(path, writer), 1, Keep::AtSync).expect("opens");
    match &stack.mounted {
        Mounted::Blocks(blocks) => {
            let mut found = vec![0; blocks.geometry().sector_size as usize];
            let read = blocks.read(&Context::default(), Lba(5), ReadInto::Bytes(&mut found));
            read.is_ok() && found.iter().all(|byte| *byte == 7)
        }
        Mounted::Files(_) => {
            drop(stack);
            let report = image::check(path, &OpenOptions::default()).expect("checks").report;
            report.count("files") == 1
        }
    }
}

#[test]
fn nobody_works_on_a_chip_that_another_one_wrote() {
    let directory = tempfile::tempdir().expect("a directory");
    for (number, writer) in WRITERS.iter().enumerate() {
        for is_killed in [false, true] {
            let path = directory.path().join(format!("{number}-{is_killed}.nand"));
            let mut stack = Stack::build_keeping(&spec(&path, writer), 1, Keep::AtSync).expect("builds");
            write_durably(&mut stack);
            if is_killed {
                drop(stack);
            } else {
                stack.close().expect("closes");
            }
            let before = fs::read(&path).expect("reads");
            for other in WRITERS.iter().filter(|other| *other != writer) {
                let error = refused(&spec(&path, other));
                assert!(error.detail.contains("was written by"), "{writer} then {other}: {error}");
                assert!(fs::read(&path).expect("reads") == before, "{writer} then {other}");
            }
            assert!(is_still_there(&path, writer), "{writer}, killed: {is_killed}");
        }
    }
}
