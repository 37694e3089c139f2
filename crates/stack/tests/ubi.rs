//! UBI in dumps as people have them: without and with OOB, behind a boot loader, in two slots,
//! with a block missing. The images are those of our builder, which equal ubinize's.

use std::path::PathBuf;

use nandkit_stack::image::{self, OpenImage, OpenOptions};
use nandkit_testkit::judges::must_run;
use nandkit_ubi::Geometry;
use nandkit_ubi::build::{ImageHeaders, VolumeContent, build};
use nandkit_ubi::layout::{VolumeRecord, VolumeType};
use nandkit_units::ReadInto;
use nandkit_units::random::Random;

const NAND: Geometry = Geometry { peb_size: 128 << 10, vid_offset: 2048, data_offset: 4096 };
const SUB_PAGES: Geometry = Geometry { vid_offset: 512, data_offset: 2048, ..NAND };
/// Pages of 4096 bytes with four sub-pages: all headers lie in the first 2048 bytes.
const LARGE_SUB_PAGES: Geometry = Geometry { peb_size: 256 << 10, vid_offset: 1024, data_offset: 4096 };
const SMALL_PAGES: Geometry = Geometry { peb_size: 16 << 10, vid_offset: 512, data_offset: 1024 };
const NOR: Geometry = Geometry { peb_size: 64 << 10, vid_offset: 64, data_offset: 128 };

/// Bytes of the static volume `kernel`.
const KERNEL: usize = 300_000;

fn random(length: usize, name: &str) -> Vec<u8> {
    let mut random = Random::new(1, name);
    (0..length).map(|_| random.next_u64() as u8).collect()
}

fn device(geometry: Geometry) -> Vec<u8> {
    let lebs = |bytes: usize| bytes.div_ceil(geometry.leb_size() as usize) as u32;
    let (kernel, rootfs) = (random(KERNEL, "kernel"), random(100_001, "rootfs"));
    let kernel_record = VolumeRecord::new("kernel", VolumeType::Static, lebs(KERNEL));
    let volumes = [
        VolumeContent { number: 0, record: kernel_record, content: &kernel },
        VolumeContent { number: 1, record: VolumeRecord::new("rootfs", VolumeType::Dynamic, 99), content: &rootfs },
    ];
    build(&ImageHeaders { geometry, image_sequence: 7, erase_counter: 2 }, &volumes).expect("volumes that fit")
}

/// The pages of an image, each followed by its OOB: erased, as the mark of a good block is.
fn with_oob(image: &[u8], page: usize, oob: usize) -> Vec<u8> {
    image.chunks(page).flat_map(|page| [page, &vec![0xFF; oob]].concat()).collect()
}

struct Stored {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn stored(bytes: &[u8]) -> Stored {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dump");
    std::fs::write(&path, bytes).expect("written");
    Stored { _directory: directory, path }
}

fn kernel(opened: &OpenImage) -> nandkit_vfs::Result<Vec<u8>> {
    let inode = opened.fs().lookup(opened.fs().root(), b"kernel")?;
    let mut bytes = vec![0; opened.fs().stat(inode)?.size as usize];
    opened.fs().read(inode, 0, ReadInto::Bytes(&mut bytes))?;
    Ok(bytes)
}

#[test]
fn devices_are_found_in_dumps_without_an_option() {
    let boot = random(256 << 10, "boot");
    let behind = random(256 << 10, "behind");
    for geometry in [NAND, SUB_PAGES, LARGE_SUB_PAGES, SMALL_PAGES, NOR] {
        let device = device(geometry);
        let blank = vec![0xFF; 2 * geometry.peb_size as usize];
        let dump = [&boot[..], &device, &blank, &behind].concat();
        let mut dumps =
            vec![("bare", device.clone()), ("blank behind", [&device[..], &blank].concat()), ("dump", dump.clone())];
        match geometry {
            NAND | SUB_PAGES => {
                dumps.extend([("OOB", with_oob(&device, 2048, 64)), ("dump, OOB", with_oob(&dump, 2048, 64))])
            }
            LARGE_SUB_PAGES => dumps.push(("OOB", with_oob(&device, 4096, 128))),
            SMALL_PAGES => dumps.push(("OOB", with_oob(&device, 512, 16))),
            _ => {}
        }
        for (what, dump) in dumps {
            let what = format!("{what} of {geometry:?}");
            let file = stored(&dump);
            let opened =
                image::open(&file.path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(opened.format, "ubi", "{what}");
            assert!(
                kernel(&opened).unwrap_or_else(|error| panic!("{what}: {error}")) == random(KERNEL, "kernel"),
                "{what}"
            );
            let checked =
                image::check(&file.path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(checked.report.findings.is_empty(), "{what}: {:?}", checked.report.findings);
        }
    }
}

/// An image of one small volume: few headers, which other sizes of blocks fit too.
fn small(geometry: Geometry) -> Vec<u8> {
    let record = VolumeRecord::new("kernel", VolumeType::Static, 1);
    let volume = VolumeContent { number: 0, record, content: &random(30, "small") };
    build(&ImageHeaders { geometry, image_sequence: 7, erase_counter: 2 }, &[volume]).expect("a volume that fits")
}

#[test]
fn small_images_are_opened() {
    for geometry in [NAND, SUB_PAGES, LARGE_SUB_PAGES, SMALL_PAGES, NOR] {
        let image = small(geometry);
        let blank = vec![0xFF; 20 * geometry.peb_size as usize];
        for bytes in [image.clone(), [&image[..], &blank].concat()] {
            let file = stored(&bytes);
            let opened = image::open(&file.path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"));
            assert!(kernel(&opened).expect("a kernel") == random(30, "small"), "{geometry:?}");
        }
    }
}

#[test]
fn an_image_in_a_file_of_a_file_system_stays_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (card, file) = (directory.path().join("card"), directory.path().join("fw.ubi"));
    std::fs::write(&file, device(NAND)).expect("written");
    let [card_text, file_text] = [&card, &file].map(|path| path.to_str().expect("a path"));
    must_run("dosfstools", "mkfs.vfat", ["-C", card_text, "65536"]);
    must_run("mtools", "mcopy", ["-i", card_text, file_text, "::/"]);
    let opened = image::open(&card, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(opened.format, "fat");
}

#[test]
fn a_cut_image_is_told() {
    let mut bytes = device(NAND);
    bytes.truncate(bytes.len() - (100 << 10));
    // The last block has content up to the cut.
    let end = bytes.len();
    bytes[end - 100..].fill(7);
    let file = stored(&bytes);
    let checked = image::check(&file.path, &OpenOptions::default()).expect("a check");
    assert!(checked.report.faults().any(|finding| finding.kind == "cut off"), "{:?}", checked.report.findings);
    // What is missing is no content: the last LEB is an error from the cut on.
    let opened = image::open(&file.path, &OpenOptions::default()).expect("a device");
    let rootfs = opened.fs().lookup(opened.fs().root(), b"rootfs").expect("a volume");
    let here = NAND.peb_size as usize - (100 << 10) - NAND.data_offset as usize;
    let read =
        |offset: usize, length: usize| opened.fs().read(rootfs, offset as u64, ReadInto::Bytes(&mut vec![0; length]));
    assert_eq!(read(0, here).expect("what is here"), here);
    let error = read(here - 1, 2).expect_err("what is missing");
    assert!(error.detail.contains("is cut off: the dump ends in it"), "{error}");
}

#[test]
fn a_marked_block_with_intact_headers_is_read() {
    let mut bytes = with_oob(&device(NAND), 2048, 64);
    let block = 64 * (2048 + 64);
    for page in 0..2 {
        bytes[3 * block + page * 2112 + 2048] = 0;
    }
    let file = stored(&bytes);
    let opened = image::open(&file.path, &OpenOptions::default()).expect("a device");
    assert!(kernel(&opened).expect("a kernel") == random(KERNEL, "kernel"));
    assert!(opened.damage().iter().all(|(_, finding)| finding.kind == "marked bad"), "{:?}", opened.damage());
}

#[test]
fn two_devices_side_by_side_are_two_regions() {
    let file = stored(&device(NAND).repeat(2));
    let error = image::open(&file.path, &OpenOptions::default()).err().expect("two devices");
    assert!(error.detail.contains("2 file systems"), "{}", error.detail);
    for region in ["ubi0", "ubi1"] {
        let options = OpenOptions { region: Some(region.to_owned()), ..OpenOptions::default() };
        let opened = image::open(&file.path, &options).expect("one device");
        assert!(kernel(&opened).expect("a kernel") == random(KERNEL, "kernel"));
    }
}

#[test]
fn what_is_lost_is_told_and_the_rest_is_read() {
    let (peb, device) = (NAND.peb_size as usize, device(NAND));
    let mut missing = device.clone();
    missing[3 * peb..4 * peb].fill(0xFF);
    let mut flipped = device;
    flipped[3 * peb + 5000] ^= 1;
    for (bytes, kind) in [(missing, "missing data"), (flipped, "damaged data")] {
        let file = stored(&bytes);
        let checked = image::check(&file.path, &OpenOptions::default()).expect("a check");
        let faults: Vec<_> = checked.report.faults().map(|finding| finding.kind).collect();
        assert_eq!(faults, [kind]);
        let opened = image::open(&file.path, &OpenOptions::default()).expect("a device");
        assert!(kernel(&opened).expect_err("a LEB is wrong").detail.contains("LEB 1 of volume 'kernel'"));
        let rootfs = opened.fs().lookup(opened.fs().root(), b"rootfs").expect("a volume");
        let mut bytes = vec![0; 100_001];
        opened.fs().read(rootfs, 0, ReadInto::Bytes(&mut bytes)).expect("whole");
        assert!(bytes == random(100_001, "rootfs"));
    }
}

#[test]
fn a_repair_without_ubifs_is_refused() {
    let file = stored(&device(NAND));
    let error = image::repair(&file.path, &OpenOptions::default()).expect_err("nothing to repair");
    assert!(error.detail.contains("no volume of this UBI device holds UBIFS"), "{}", error.detail);
    assert!(std::fs::read(&file.path).expect("a file") == device(NAND));
}
