//! Android sparse images: unpacked for reading, and packed for writing.

use std::fs::File;
use std::path::Path;

use nandkit_flash_image::{Image, android_sparse};
use nandkit_units::format_bytes;

use super::{Container, Inside};
use crate::StackError;
use crate::format::{OpenOptions, wrong};

/// Block size of a packed image in bytes; its size is a multiple of it.
pub const SPARSE_BLOCK: u64 = 4096;

/// Android's sparse images.
pub(super) struct AndroidSparse;

impl Container for AndroidSparse {
    fn holds(&self, outer: &Image) -> bool {
        android_sparse::is_sparse(outer.bytes())
    }

    fn only_read(&self, path: &Path) -> String {
        let shown = path.display();
        format!(
            "this is an Android sparse image, which can only be read; expected an unpacked image, which `nandkit export {shown} IMAGE` writes"
        )
    }

    /// Unpacks the image into a temporary file without a name.
    fn unwrap(&self, path: &Path, outer: &Image, options: &OpenOptions) -> Result<Option<Inside>, StackError> {
        unpacked(path, outer, &[], options).map(Some)
    }
}

/// Unpacks the parts of a sparse image; returns the image and notes.
pub(super) fn unpacked(
    path: &Path,
    first: &Image,
    further: &[Image],
    options: &OpenOptions,
) -> Result<Inside, StackError> {
    let packed: usize = std::iter::once(first).chain(further).map(|part| part.bytes().len()).sum();
    let image = first.unpack_sparse_parts(further, options.resident_max).map_err(|error| wrong(path, error))?;
    let length = image.bytes().len() as u64;
    let parts = if further.is_empty() { String::new() } else { format!(" in {} parts", further.len() + 1) };
    let mut notes = vec![format!("an Android sparse image{parts}: {packed} bytes, {length} when unpacked")];
    // A gap at the beginning means that another part has it: every file system uses its beginning.
    let first_given = image.left_out().first().filter(|gap| gap.start == 0 && gap.end < length);
    if let Some(gap) = first_given {
        notes.push(format!(
            "the first {} are in another part of a split sparse image; give the other parts with `join`",
            format_bytes(gap.end)
        ));
    }
    Ok((image, notes))
}

/// Packs an image of whole 4 KiB blocks into an empty file; returns the size of the file in bytes.
/// Errors: a file cannot be read or written.
pub fn pack_sparse(image: &Path, into: &mut File) -> Result<u64, StackError> {
    let failed = |error: std::io::Error| wrong(image, format!("cannot be packed: {error}"));
    let mut from = File::open(image).map_err(failed)?;
    let bytes = from.metadata().map_err(failed)?.len();
    android_sparse::pack_file(&mut from, bytes, into).map_err(|error| wrong(image, error))?;
    Ok(into.metadata().map_err(failed)?.len())
}
