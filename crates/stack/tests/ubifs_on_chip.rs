//! UBIFS on emulated chips, NAND and NOR, in files: overwritten until the collector has worked,
//! closed and mounted again. Judges: the content, what `check` finds, and a second run.

use std::path::Path;

use nandkit_stack::image::{self, ChipInfo, Image, OpenImage, OpenOptions};
use nandkit_stack::{Mounted, MountedFileSystem, Stack, StackSpec};
use nandkit_units::random::Random;
use nandkit_units::{Cause, Payload, StatisticValue};
use nandkit_vfs::NewNode;
use nandkit_vfs::path::{Follow, read_file, resolve};

const PAGE: u64 = 4096;
/// Writes for each page of a file.
const STEPS: u64 = 12;

/// Chips with pages programmed in parts, with whole pages alone, and NOR.
const CHIPS: [(&str, &str); 4] = [
    ("nand", "preset = 'nandsim-32m-128k'\nblocks = 64"),
    ("small pages", "preset = 'nandsim-32m-16k'\nblocks = 256"),
    ("whole pages", "preset = 'k9l8g08u0m'\nblocks = 64"),
    ("nor", "kind = 'nor'\nblocks = 64"),
];

fn spec(file: &Path, device: &str, options: &str) -> StackSpec {
    let text = format!("[fs]\nkind = 'ubifs'\n{options}\n[device]\nfile = '{}'\n{device}", file.display());
    let spec: StackSpec = toml::from_str(&text).expect("a spec");
    spec.check().expect("parts that fit");
    spec
}

fn files(stack: &mut Stack) -> &mut dyn MountedFileSystem {
    let Mounted::Files(fs) = &mut stack.mounted else { panic!("a file system") };
    &mut **fs
}

fn count(stack: &Stack, name: &str) -> u64 {
    let mut found = None;
    let (_, layer) = stack.watched.layers.iter().find(|(layer, _)| layer == "fs").expect("a layer");
    layer.collect(&mut |of, value| match value {
        StatisticValue::Count(value) if of == name => found = Some(value),
        _ => {}
    });
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// Fills three quarters of the room of a new chip, overwrites it several times, and closes it;
/// returns the version of each page, and the instant of the end.
fn used(path: &Path, device: &str, options: &str) -> (Vec<u8>, u64) {
    let mut stack = Stack::build(&spec(path, device, options), 3).expect("builds");
    let fs = files(&mut stack);
    let (root, status) = (fs.root(), fs.volume().expect("a volume"));
    let pages = status.blocks_free * u64::from(status.block_size) * 3 / 4 / PAGE;
    let changes = fs.changes().expect("writable");
    let directory = changes.create(root, b"run", &NewNode::DIRECTORY).expect("a directory");
    let file = changes.create(directory, b"file", &NewNode::FILE).expect("a file");
    let (mut versions, mut random) = (vec![0; pages as usize], Random::new(1, "overwritten"));
    for step in 0..pages * STEPS {
        let page = if step < pages { step } else { random.below(pages) };
        let version = &mut versions[page as usize];
        *version = *version % 250 + 1;
        let content = [*version; PAGE as usize];
        assert_eq!(changes.write(file, page * PAGE, Payload::Bytes(&content)).expect("writes"), content.len());
        if step % 256 == 0 {
            changes.sync(None).expect("syncs");
        }
    }
    changes.sync(None).expect("syncs");
    for name in ["commits", "collected_lebs", "moved_bytes", "index_nodes", "ubi_erases"] {
        assert!(count(&stack, name) > 10, "{device}: {name}");
    }
    let snapshot = stack.watched.flash.as_ref().expect("flash").snapshot();
    let programmed = snapshot.total().bytes_programmed;
    // Each byte has its cause: what the collector moved, with the padding of its head.
    let of = |cause: Cause| snapshot.cause(cause).bytes_programmed;
    let (moved, cleaned) = (count(&stack, "moved_bytes"), of(Cause::Cleaning));
    assert!(cleaned >= moved && cleaned < moved + moved / 8 + (1 << 20), "{device}: {cleaned} for {moved} moved");
    for cause in [Cause::UserData, Cause::Metadata, Cause::Checkpoint, Cause::Mapping, Cause::Format] {
        assert!(of(cause) > 0, "{device}: nothing for {cause:?}");
    }
    assert!(of(Cause::UserData) >= pages * STEPS * PAGE && of(Cause::Metadata) < of(Cause::UserData), "{device}");
    let factor = programmed as f64 / (pages * STEPS * PAGE) as f64;
    assert!((1.02..4.0).contains(&factor), "{device}: {factor}");
    let ended = stack.clock.now().get();
    stack.close().expect("closes");
    (versions, ended)
}

fn chip(path: &Path) -> ChipInfo {
    match image::inspect(path, &OpenOptions::default()).expect("a chip") {
        Image::Chip(chip) => *chip,
        Image::Dump(_) => panic!("a chip"),
    }
}

fn assert_content(opened: &OpenImage, versions: &[u8], what: &str) {
    let content = read_file(opened.fs(), b"/run/file").expect("the file");
    assert_eq!(content.len(), versions.len() * PAGE as usize, "{what}");
    for ((page, bytes), version) in content.chunks(PAGE as usize).enumerate().zip(versions) {
        assert!(bytes.iter().all(|byte| byte == version), "{what}: page {page}");
    }
}

#[test]
fn a_chip_is_too_small_or_large_enough() {
    let of_blocks = |blocks: u32| -> StackSpec {
        let text = format!("fs = 'ubifs'\ndevice = {{ preset = 'nandsim-32m-16k', blocks = {blocks} }}");
        toml::from_str(&text).expect("a spec")
    };
    let (mut built, mut refused) = (0, 0);
    for spec in (4..60).map(of_blocks) {
        match Stack::build(&spec, 1) {
            Ok(mut stack) => {
                let fs = files(&mut stack);
                let root = fs.root();
                fs.changes().expect("writable").create(root, b"new", &NewNode::FILE).expect("creates");
                fs.unmount().expect("unmounts");
                built += 1;
            }
            Err(error) => {
                assert!(error.detail.contains("too small for ubifs"), "{}: {error}", spec.title());
                refused += 1;
            }
        }
    }
    assert!(built > 20 && refused > 10, "{built} built, {refused} refused");
}

#[test]
fn it_is_overwritten_collected_checked_and_mounted_again() {
    let directory = tempfile::tempdir().expect("a directory");
    for (what, device) in CHIPS {
        let path = directory.path().join(format!("{what}.chip"));
        let (versions, ended) = used(&path, device, "");
        let info = chip(&path);
        let most = info.erases.iter().max().copied().unwrap_or_default();
        let worn = info.erases.iter().filter(|erases| **erases > 0).count();
        assert!(worn * 10 > info.erases.len() * 8, "{what}: {:?}", info.erases);
        assert!(most < 60, "{what}: {:?}", info.erases);
        let opened = image::open(&path, &OpenOptions::default()).expect("a volume");
        assert_content(&opened, &versions, what);
        drop(opened);
        let report = image::check(&path, &OpenOptions::default()).expect("checks").report;
        assert!(report.is_clean() && report.count("files") == 1, "{what}: {report:?}");

        // Without its shape: the chip is as the file has it, and another run has its own directory.
        let again = spec(&path, "", "");
        let mut stack = Stack::build(&again, 4).expect("mounts");
        assert!(stack.started.get() >= ended, "{what}");
        let fs = files(&mut stack);
        let root = fs.root();
        fs.changes().expect("writable").create(root, b"new", &NewNode::FILE).expect("creates");
        stack.close().expect("closes");
        let opened = image::open(&path, &OpenOptions::default()).expect("a volume");
        resolve(opened.fs(), b"/run-2/new", Follow::Last).expect("the new file");
        assert_content(&opened, &versions, what);
    }
}
