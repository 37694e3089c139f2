//! Images in several files.

use std::fs;
use std::path::Path;

use nandkit_codec::streams::Stream;
use nandkit_flash_image::regions::PROBE_BYTES;
use nandkit_flash_image::{DumpOptions, Image, android_sparse, qcow2};

use super::{Inside, container_of, sparse, unwrapped_while};
use crate::format::{BEGINNING, FORMATS, Format, OpenOptions, wrong};
use crate::{StackError, chip_file};

/// Sector size in bytes; a partition consists of whole sectors.
const SECTOR: usize = 512;

/// Joins a file with those of the option `join`: the parts of a split Android sparse image in any
/// order, or files in sequence. Errors: a file cannot be read, is empty, is given twice, or is
/// evidently not a part of the same image.
pub(crate) fn joined(path: &Path, first: Image, options: &OpenOptions) -> Result<Inside, StackError> {
    if options.join.is_empty() {
        return Ok((first, Vec::new()));
    }
    if options.overlay.is_some() {
        return Err(wrong(path, "`overlay`: joined files can only be read; expected one file"));
    }
    refuse_twice(path, options)?;
    let mut further = Vec::new();
    for part in &options.join {
        if chip_file::is_device_file(&chip_file::beginning(part, BEGINNING)?) {
            return Err(wrong(part, "`join`: the file holds a chip; expected a part of an image"));
        }
        let how = DumpOptions { resident_max: options.resident_max, ..DumpOptions::read_only() };
        further.push(Image::open(part, &how).map_err(|error| wrong(part, error))?);
    }
    match sparse_part(path, &first, options)? {
        Some(first) => sparse_joined(path, first, further, options),
        None => in_order(path, first, &further, options),
    }
}

fn refuse_twice(path: &Path, options: &OpenOptions) -> Result<(), StackError> {
    let mut known = vec![fs::canonicalize(path).ok()];
    for part in &options.join {
        let place = fs::canonicalize(part).ok();
        if place.is_some() && known.contains(&place) {
            return Err(wrong(part, "`join`: the file is given twice; expected each part once"));
        }
        known.push(place);
    }
    Ok(())
}

/// The sparse image in a file, without outer wrappers; `None` for any other file.
fn sparse_part(path: &Path, part: &Image, options: &OpenOptions) -> Result<Option<Image>, StackError> {
    let is_sparse = |image: &Image| android_sparse::is_sparse(image.bytes());
    if is_sparse(part) || container_of(part).is_none() {
        return Ok(is_sparse(part).then(|| part.shared()));
    }
    // A part of a split file is not a complete wrapper and cannot be unpacked.
    let inside = unwrapped_while(path, part.shared(), options, |image| !is_sparse(image));
    Ok(inside.ok().map(|(image, _)| image).filter(is_sparse))
}

fn sparse_joined(path: &Path, first: Image, further: Vec<Image>, options: &OpenOptions) -> Result<Inside, StackError> {
    let mut parts = Vec::new();
    for (part, image) in options.join.iter().zip(&further) {
        parts.push(sparse_part(part, image, options)?.ok_or_else(|| {
            let detail =
                format!("`join`: this is no Android sparse image, as {} is; expected its other parts", path.display());
            wrong(part, detail)
        })?);
    }
    sparse::unpacked(path, &first, &parts, options).map_err(|error| {
        // Pair the parts with the names of their files.
        let names = std::iter::once(path).chain(options.join.iter().map(AsRef::as_ref));
        let listed: Vec<String> =
            (1..).zip(names).map(|(number, name)| format!("{number} is {}", name.display())).collect();
        StackError { detail: format!("{} (`join`: {})", error.detail, listed.join(", ")), ..error }
    })
}

fn in_order(path: &Path, first: Image, further: &[Image], options: &OpenOptions) -> Result<Inside, StackError> {
    if let Some(what) = whole(&first, options) {
        let detail =
            format!("`join`: this is {what}, so that no part can follow; expected the parts of one image in order");
        return Err(wrong(path, detail));
    }
    for (part, image) in options.join.iter().zip(further) {
        if let Some(what) = foreign(&first, image) {
            let detail =
                format!("`join`: this is {what}, and {} is none; expected all parts in the same form", path.display());
            return Err(wrong(part, detail));
        }
    }
    let image = first.join(further, options.resident_max).map_err(|error| wrong(path, error))?;
    let note = format!("{} files joined in this order: {} bytes", further.len() + 1, image.bytes().len());
    Ok((image, vec![note]))
}

/// Describes a file that is complete by itself: a volume that ends inside it, or a whole disk.
fn whole(first: &Image, options: &OpenOptions) -> Option<String> {
    let bytes = first.bytes();
    if qcow2::is_qcow2(bytes) {
        return first.unpack_qcow2(options.resident_max).is_ok().then(|| "a whole qcow2 disk".to_owned());
    }
    let length = bytes.len() as u64;
    let beginning = bytes.get(..PROBE_BYTES.min(bytes.len())).unwrap_or_default();
    let ends = |format: &&&dyn Format| {
        let extent = format.likeness(beginning, length).and_then(|found| found.extent);
        extent.is_some_and(|extent| extent.end <= length)
    };
    FORMATS.iter().find(ends).map(|format| format!("a whole volume of {}", format.title()))
}

/// Describes a further file that does not fit the first one.
fn foreign(first: &Image, part: &Image) -> Option<String> {
    if android_sparse::is_sparse(part.bytes()) {
        return Some("a part of an Android sparse image".to_owned());
    }
    // A partition that begins with compressed data consists of whole sectors, unlike a compressed
    // file.
    let stream = Stream::of(part.bytes()).filter(|_| !part.bytes().len().is_multiple_of(SECTOR))?;
    (Stream::of(first.bytes()) != Some(stream)).then(|| format!("{} data", stream.program()))
}
