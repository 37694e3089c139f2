//! Android's sparse images: unpacked where they are read, packed where they are made.

use std::fs::File;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, android_sparse};

use super::sectors::DumpSectors;
use super::{BEGINNING, OpenOptions, wrong};
use crate::{StackError, chip_file};

/// Bytes of the blocks of which a packed image is made: it holds whole ones only.
pub const SPARSE_BLOCK: u64 = 4096;

/// What is said where somebody wants to change one.
pub(crate) const ONLY_READ: &str =
    "this is an Android sparse image, which is only read; expected the image as simg2img unpacks it";

/// The image that a sparse one unpacks to, in a temporary file without a name, and a note that says so; others as they are.
pub(crate) fn unpacked(path: &Path, image: Image, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
    if !android_sparse::is_sparse(image.bytes()) {
        return Ok((image, Vec::new()));
    }
    if options.overlay.is_some() {
        return Err(wrong(path, format!("--overlay: {ONLY_READ}")));
    }
    let packed = image.bytes().len();
    let image = image.unpack_sparse(options.resident_max).map_err(|error| wrong(path, error))?;
    let note = format!("an Android sparse image: {packed} bytes, {} when unpacked", image.bytes().len());
    Ok((image, vec![note]))
}

/// A sparse image as the device that it unpacks to, for reading; `None` for any other file. Errors: it cannot be read, or unpacked.
pub fn unpacked_device(path: &Path) -> Result<Option<Box<dyn BlockDevice>>, StackError> {
    let is_sparse = chip_file::beginning(path, BEGINNING).is_ok_and(|bytes| android_sparse::is_sparse(&bytes));
    if !is_sparse {
        return Ok(None);
    }
    let failed = |error| wrong(path, error);
    let image = Image::open(path, &DumpOptions::read_only()).map_err(failed)?;
    let image = image.unpack_sparse(None).map_err(failed)?;
    let device = DumpFlash::new(image, DumpSectors::layout(0, None).map_err(failed)?).map_err(failed)?;
    Ok(Some(Box::new(DumpSectors::new(device.into_read_only()))))
}

/// Packs an image of whole blocks of 4 KiB into an empty file; returns how many bytes that has. Errors: either cannot be read or written.
pub fn pack_sparse(image: &Path, into: &mut File) -> Result<u64, StackError> {
    let failed = |error: std::io::Error| wrong(image, format!("cannot be packed: {error}"));
    let mut from = File::open(image).map_err(failed)?;
    let bytes = from.metadata().map_err(failed)?.len();
    android_sparse::pack_file(&mut from, bytes, into).map_err(|error| wrong(image, error))?;
    Ok(into.metadata().map_err(failed)?.len())
}

/// Whether an image may be changed where it is.
pub(crate) fn refuse_changes(path: &Path, image: &Image) -> Result<(), StackError> {
    match android_sparse::is_sparse(image.bytes()) {
        true => Err(wrong(path, ONLY_READ)),
        false => Ok(()),
    }
}
