//! Changes made in a private copy of an image and written to the image by its journal, or into an
//! overlay.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nandkit_flash::{Flash, PageProgram};
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, ImageErrorKind, ImageLayout, apply_overlay};
use nandkit_units::{BlockIndex, Context};

const SECTOR: u32 = 512;
/// Not a whole number of 4 KiB units.
const BYTES: usize = 300 * 4096 + 3 * 512;

fn image() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at / 512 * 7) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    (directory, path, bytes)
}

/// Changes sectors of a private copy, and of bytes beside it.
fn changed(image: &Image, path: &Path, sectors: &[u32], bytes: &mut [u8]) -> Image {
    let mut device = DumpFlash::new(image.private_copy(path).unwrap(), ImageLayout::nor(SECTOR)).unwrap();
    let context = Context::default();
    for &sector in sectors {
        let content = [sector as u8 ^ 0xA5; SECTOR as usize];
        device.erase(&context, BlockIndex(sector)).unwrap();
        device.program(&context, BlockIndex(sector).page(0), PageProgram::bytes(0, &content)).unwrap();
        let at = (sector * SECTOR) as usize;
        bytes[at..at + SECTOR as usize].copy_from_slice(&content);
        if sector % 3 == 0 {
            device.sync(&context).unwrap();
        }
    }
    device.into_image()
}

/// In adjacent units, twice in one unit, in the first unit and in the last one.
const SECTORS: [u32; 8] = [0, 7, 8, 100, 101, 100, 2399, 2402];

#[test]
fn a_file_is_changed_where_it_is_and_nowhere_else() {
    let (directory, path, mut bytes) = image();
    let inode = std::fs::metadata(&path).unwrap().ino();
    for sectors in [&SECTORS[..], &[], &[100], &[5, 2401]] {
        let mut opened = Image::open(&path, &DumpOptions::read_write()).unwrap();
        let copy = changed(&opened, &path, sectors, &mut bytes);
        assert_eq!(copy.bytes(), bytes, "{sectors:?}");
        opened.keep_in_file(&copy).unwrap();
        drop((opened, copy));
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{sectors:?}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no journal is left");
}

#[test]
fn what_was_not_kept_is_not_there() {
    let (_directory, path, bytes) = image();
    let opened = Image::open(&path, &DumpOptions::read_write()).unwrap();
    drop(changed(&opened, &path, &SECTORS, &mut bytes.clone()));
    assert_eq!(opened.bytes(), bytes);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_copy_of_another_length_needs_a_new_file() {
    let (_directory, path, bytes) = image();
    let mut opened = Image::open(&path, &DumpOptions::read_write()).unwrap();
    for length in [BYTES - 1, BYTES + 1] {
        let copy = Image::from_bytes(vec![9; length], None).unwrap();
        assert_eq!(opened.keep_in_file(&copy).unwrap_err().kind, ImageErrorKind::Layout);
    }
    // A copy that is not a memory map is compared from end to end.
    let mut other = bytes.clone();
    other[70_000] ^= 1;
    opened.keep_in_file(&Image::from_bytes(other.clone(), None).unwrap()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), other);
    let mut memory = Image::from_bytes(bytes, None).unwrap();
    assert_eq!(memory.keep_in_file(&opened).unwrap_err().kind, ImageErrorKind::Layout, "memory is no file");
}

#[test]
fn an_image_that_was_replaced_meanwhile_is_left_alone() {
    let (directory, path, mut bytes) = image();
    let before = bytes.clone();
    let mut opened = Image::open(&path, &DumpOptions::read_write()).unwrap();
    let copy = changed(&opened, &path, &SECTORS, &mut bytes);
    std::fs::rename(&path, directory.path().join("moved")).unwrap();
    std::fs::write(&path, "somebody else's").unwrap();
    assert_eq!(opened.keep_in_file(&copy).unwrap_err().kind, ImageErrorKind::Io);
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    assert_eq!(std::fs::read(directory.path().join("moved")).unwrap(), before);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no journal is left");
}

#[test]
fn an_overlay_takes_what_was_changed_time_after_time() {
    let (directory, path, before) = image();
    let overlay = directory.path().join("overlay");
    let mut bytes = before.clone();
    let options = DumpOptions { overlay: Some(overlay.clone()), ..DumpOptions::read_write() };
    for sectors in [&SECTORS[..], &[], &[100, 200], &[5, 2401]] {
        let mut opened = Image::open(&path, &options).unwrap();
        let copy = changed(&opened, &path, sectors, &mut bytes);
        assert_eq!(copy.bytes(), bytes, "{sectors:?}");
        opened.keep_in_overlay(&copy).unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let opened =
        Image::open(&path, &DumpOptions { overlay: Some(overlay.clone()), ..DumpOptions::read_only() }).unwrap();
    assert_eq!(opened.bytes(), bytes);
    drop(opened);
    apply_overlay(&path, &overlay).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
