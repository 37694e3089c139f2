//! The journal's file is beside the open image, wherever its directory has moved to, and never
//! behind a link.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nandkit_flash::{Flash, PageProgram};
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, ImageLayout};
use nandkit_units::{Context, PageAddress};

const BLOCK: usize = 4096;

struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("images")).unwrap();
        let bench = Self { directory };
        fs::write(bench.image(), vec![0xFF; 4 * BLOCK]).unwrap();
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.at("images/dump.bin")
    }

    fn journal(&self) -> PathBuf {
        self.at("images/dump.bin.nandkit-journal")
    }

    fn open(&self) -> DumpFlash {
        let image = Image::open(&self.image(), &DumpOptions::read_write()).unwrap();
        DumpFlash::new(image, ImageLayout::nor(BLOCK as u32)).unwrap()
    }
}

fn program(device: &mut DumpFlash, block: u32) {
    device.program(&Context::default(), PageAddress::new(block, 0), PageProgram::bytes(0, b"new")).unwrap();
}

fn has_change(image: &Path, block: u32) -> bool {
    fs::read(image).unwrap()[block as usize * BLOCK..].starts_with(b"new")
}

#[test]
fn a_link_in_place_of_the_journal_is_not_followed() {
    let bench = Bench::new();
    let victim = bench.at("victim");
    fs::write(&victim, "precious").unwrap();
    let mut device = bench.open();
    for (block, name) in [(0, "images/dump.bin.nandkit-journal"), (1, "images/dump.bin.nandkit-journal.new")] {
        symlink(&victim, bench.at(name)).unwrap();
        program(&mut device, block);
        device.sync(&Context::default()).unwrap();
        assert!(has_change(&bench.image(), block));
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(bench.at(name).symlink_metadata().is_err(), "{name} is still there");
    }
    drop(device);
    symlink(&victim, bench.journal()).unwrap();
    let error = Image::open(&bench.image(), &DumpOptions::read_only()).unwrap_err();
    assert!(error.to_string().contains("a link stands in place of the journal"), "{error}");
}

#[test]
fn an_image_that_was_moved_gets_no_changes_until_it_is_back() {
    let bench = Bench::new();
    let mut device = bench.open();
    program(&mut device, 0);
    let moved = bench.at("elsewhere.bin");
    fs::rename(bench.image(), &moved).unwrap();
    let error = device.sync(&Context::default()).unwrap_err();
    assert!(error.to_string().contains("moved, replaced or removed"), "{error}");
    assert!(!has_change(&moved, 0) && !bench.journal().exists());
    fs::write(bench.image(), "another file under its name").unwrap();
    device.sync(&Context::default()).unwrap_err();
    assert_eq!(fs::read(bench.image()).unwrap(), b"another file under its name");
    fs::rename(&moved, bench.image()).unwrap();
    device.sync(&Context::default()).unwrap();
    assert!(has_change(&bench.image(), 0));
    assert_eq!(fs::read_dir(bench.at("images")).unwrap().count(), 1, "nothing is left beside the image");
}

#[test]
fn an_image_whose_directory_was_renamed_keeps_its_journal_beside_it() {
    let bench = Bench::new();
    let mut device = bench.open();
    program(&mut device, 2);
    fs::rename(bench.at("images"), bench.at("renamed")).unwrap();
    device.sync(&Context::default()).unwrap();
    assert!(has_change(&bench.at("renamed/dump.bin"), 2));
    assert_eq!(fs::read_dir(bench.at("renamed")).unwrap().count(), 1);
}

#[test]
fn a_journal_that_was_not_finished_is_forgotten() {
    let bench = Bench::new();
    fs::write(bench.at("images/dump.bin.nandkit-journal.new"), "half").unwrap();
    let before = fs::read(bench.image()).unwrap();
    drop(Image::open(&bench.image(), &DumpOptions::read_only()).unwrap());
    drop(bench.open());
    assert_eq!(fs::read(bench.image()).unwrap(), before);
    assert_eq!(fs::read_dir(bench.at("images")).unwrap().count(), 1);
}
