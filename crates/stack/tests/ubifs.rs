//! UBIFS in UBI and in a file of its own, through the interface of images: the only UBIFS of a dump
//! is opened without an option. Judge: the tree of which mkfs.ubifs made it.

use std::path::Path;

use nandkit_stack::image::{self, Image, OpenOptions};
use nandkit_testkit::judges::must_run;
use nandkit_testkit::listing::{assert_same, of_directory, of_volume};
use nandkit_testkit::trees::plant_all_sizes;
use nandkit_ubi::Geometry;
use nandkit_ubi::build::{ImageHeaders, VolumeContent, build};
use nandkit_ubi::layout::{VolumeRecord, VolumeType};

const GEOMETRY: Geometry = Geometry { peb_size: 128 << 10, vid_offset: 2048, data_offset: 4096 };

/// Bytes in front of a device.
const BOOT_LOADER: usize = 256 << 10;

fn planted(directory: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let (root, image) = (directory.join("tree"), directory.join("volume"));
    plant_all_sizes(&root, &[0, 4096, 100_000], 20);
    let [from, to] = [&root, &image].map(|path| path.to_str().expect("a path"));
    let leb_size = GEOMETRY.leb_size().to_string();
    must_run("mtd-utils", "mkfs.ubifs", ["-m", "2048", "-e", &leb_size, "-c", "100", "-r", from, "-o", to]);
    let bytes = std::fs::read(image).expect("an image");
    (root, bytes)
}

/// A device with these dynamic volumes, behind a boot loader.
fn dump(volumes: &[(&str, &[u8])]) -> Vec<u8> {
    let contents: Vec<VolumeContent<'_>> = (0..)
        .zip(volumes)
        .map(|(number, (name, content))| VolumeContent {
            number,
            record: VolumeRecord::new(name, VolumeType::Dynamic, 100),
            content,
        })
        .collect();
    let headers = ImageHeaders { geometry: GEOMETRY, image_sequence: 9, erase_counter: 1 };
    let device = build(&headers, &contents).expect("volumes that fit");
    [vec![0x5A; BOOT_LOADER], device].concat()
}

fn names(path: &Path, options: &OpenOptions) -> Vec<String> {
    let opened = image::open(path, options).expect("an image");
    of_volume(opened.fs()).into_keys().filter(|path| path.matches('/').count() == 1).collect()
}

fn volume(name: &str) -> OpenOptions {
    OpenOptions { volume: Some(name.to_owned()), ..OpenOptions::default() }
}

#[test]
fn the_only_ubifs_of_a_dump_is_opened_without_an_option() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, rootfs) = planted(directory.path());
    let path = directory.path().join("dump");
    for (bytes, format) in [(dump(&[("kernel", b"zImage"), ("rootfs", &rootfs)]), "ubi"), (rootfs.clone(), "ubifs")] {
        std::fs::write(&path, &bytes).expect("written");
        let opened = image::open(&path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!((opened.format, opened.damage()), (format, Vec::new()));
        assert_same(&of_volume(opened.fs()), &of_directory(&root, None), format);
        let checked = image::check(&path, &OpenOptions::default()).expect("a check");
        assert!(checked.report.findings.is_empty(), "{:?}", checked.report.findings);
    }
}

/// Linux fills a flash from its end. By a wrong layout with OOB every 17th header is in its place.
#[test]
fn a_flash_that_is_used_at_its_end_is_read_without_its_oob() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dump");
    let geometry = Geometry { peb_size: 16 << 10, vid_offset: 256, data_offset: 512 };
    let record = VolumeRecord {
        reserved_pebs: 1000,
        alignment: 1,
        data_pad: 0,
        volume_type: VolumeType::Dynamic,
        is_updating: false,
        name: b"files".to_vec(),
        flags: 0,
    };
    let content = vec![0x5A; 300 * geometry.leb_size() as usize];
    let headers = ImageHeaders { geometry, image_sequence: 9, erase_counter: 1 };
    let used = build(&headers, &[VolumeContent { number: 0, record, content: &content }]).expect("a volume that fits");
    let mut free = vec![0xFF; geometry.peb_size as usize];
    free[..64].copy_from_slice(&used[..64]);
    std::fs::write(&path, [free.repeat(1024 - used.len() / free.len()), used].concat()).expect("written");
    let Image::Dump(summary) = image::inspect(&path, &OpenOptions::default()).expect("a dump") else {
        panic!("a chip");
    };
    let found = &summary.detections[0];
    assert_eq!((found.format, found.erase_size, found.oob_size), ("ubi", 16 << 10, 0), "{summary:?}");
    assert_eq!(names(&path, &OpenOptions::default()), ["/files"]);
}

#[test]
fn volumes_are_chosen_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, rootfs) = planted(directory.path());
    let path = directory.path().join("dump");
    std::fs::write(&path, dump(&[("kernel", b"zImage"), ("a", &rootfs), ("b", &rootfs)])).expect("written");
    let files = ["/deep", "/link-1", "/link-1000", "/link-254", "/link-4000", "/link-60", "/many", "/sizes"];
    assert_eq!(names(&path, &OpenOptions::default()), ["/a", "/b", "/kernel"]);
    assert_eq!(names(&path, &volume("all")), ["/a", "/b", "/kernel"]);
    assert_eq!(names(&path, &volume("b")), files);
    for (name, part) in [("c", "'c' is not there; expected one of a, b, or all"), ("kernel", "'kernel' holds no UBIFS")]
    {
        let error = image::open(&path, &volume(name)).err().expect("no such volume");
        assert!(error.detail.contains(part), "{}", error.detail);
    }
}

#[test]
fn a_volume_that_cannot_be_mounted_is_told_and_shown_as_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, rootfs) = planted(directory.path());
    let path = directory.path().join("dump");
    let leb = GEOMETRY.leb_size() as usize;
    let told = |options: &OpenOptions| {
        let report = image::check(&path, options).expect("a check").report;
        report.faults().map(|finding| finding.detail.clone()).collect::<Vec<_>>()
    };
    // Both copies of the master node.
    let mut damaged = rootfs.clone();
    damaged[leb + 50] ^= 1;
    damaged[2 * leb + 50] ^= 1;
    std::fs::write(&path, dump(&[("kernel", b"zImage"), ("rootfs", &damaged)])).expect("written");
    let error = image::open(&path, &OpenOptions::default()).err().expect("no master node");
    let part = "the volume 'rootfs': neither LEB 1 nor LEB 2 holds a valid master node";
    let way_out = format!("{part}; `volume` with all shows it as a file");
    assert!(error.detail.contains(&way_out), "{}", error.detail);
    assert!(told(&OpenOptions::default()).iter().any(|detail| detail.contains(part)));
    assert_eq!((names(&path, &volume("all")), told(&volume("all"))), (names_of_files(), Vec::new()));
    // The superblock.
    let mut damaged = rootfs;
    damaged[50] ^= 1;
    std::fs::write(&path, dump(&[("kernel", b"zImage"), ("rootfs", &damaged)])).expect("written");
    assert_eq!(names(&path, &OpenOptions::default()), names_of_files());
    let found = told(&OpenOptions::default());
    assert!(matches!(found.as_slice(), [one] if one.contains("begins with a damaged superblock")), "{found:?}");
}

/// The files by which volumes are shown.
fn names_of_files() -> Vec<String> {
    ["/kernel", "/rootfs"].map(str::to_owned).to_vec()
}

#[test]
fn a_missing_block_costs_what_stood_in_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, rootfs) = planted(directory.path());
    let whole = dump(&[("rootfs", &rootfs)]);
    let (peb, first) = (GEOMETRY.peb_size as usize, BOOT_LOADER + 2 * GEOMETRY.peb_size as usize);
    let path = directory.path().join("dump");
    let expected = of_directory(&root, None);
    let (mut read, mut told) = (0, 0);
    // Behind the superblock, the two master nodes and the log.
    for start in (first + 4 * peb..whole.len()).step_by(peb) {
        let mut bytes = whole.clone();
        bytes[start..start + peb].fill(0xFF);
        std::fs::write(&path, &bytes).expect("written");
        let Ok(opened) = image::open(&path, &OpenOptions::default()) else {
            told += 1;
            continue;
        };
        let found = of_volume(opened.fs());
        let same = expected.iter().filter(|(path, text)| found.get(*path) == Some(text)).count();
        read += same;
        let report = image::check(&path, &OpenOptions::default()).expect("a check").report;
        assert!(
            same == expected.len() || !report.is_clean(),
            "block at {start:#x}: {same} of {} files",
            expected.len()
        );
        told += usize::from(!report.is_clean());
    }
    assert!(read > expected.len() && told > 0, "{read} files read, {told} losses told");
}
