//! Android's sparse images: unpacked where they are read, packed where they are made.

use std::fs::File;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, android_sparse};

use super::Container;
use crate::format::sectors::DumpSectors;
use crate::format::{BEGINNING, OpenOptions, wrong};
use crate::{StackError, chip_file};

/// Bytes of the blocks of which a packed image is made: it holds whole ones only.
pub const SPARSE_BLOCK: u64 = 4096;

/// Android's sparse images.
pub(super) struct AndroidSparse;

impl Container for AndroidSparse {
    fn holds(&self, outer: &Image) -> bool {
        android_sparse::is_sparse(outer.bytes())
    }

    fn only_read(&self) -> &'static str {
        "this is an Android sparse image, which is only read; expected the image as simg2img unpacks it"
    }

    /// The image is in a temporary file without a name.
    fn unwrap(&self, path: &Path, outer: Image, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
        let packed = outer.bytes().len();
        let image = outer.unpack_sparse(options.resident_max).map_err(|error| wrong(path, error))?;
        let note = format!("an Android sparse image: {packed} bytes, {} when unpacked", image.bytes().len());
        Ok((image, vec![note]))
    }
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
