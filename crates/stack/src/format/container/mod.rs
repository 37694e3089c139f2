//! Wrappers: files that hold an image in another form. Each is recognised by its first bytes and
//! unpacked.

mod compressed;
mod join;
mod motorola;
mod qcow2;
mod sparse;
mod text_dump;

use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_codec::streams::Stream;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image};

use super::sectors::DumpSectors;
use super::{BEGINNING, OpenOptions, wrong};
use crate::{StackError, chip_file};

pub(crate) use join::joined;
pub use sparse::{SPARSE_BLOCK, pack_sparse};

use compressed::Compressed;

/// The supported wrappers.
static CONTAINERS: &[&dyn Container] = &[
    &Compressed(Stream::Gzip),
    &Compressed(Stream::Xz),
    &Compressed(Stream::Zstd),
    &Compressed(Stream::Lz4),
    &Compressed(Stream::Bzip2),
    &qcow2::Qcow2,
    &motorola::Motorola,
    &text_dump::TextDump,
    &sparse::AndroidSparse,
];

/// Largest number of nested wrappers; more occur only in malicious files.
const DEPTH_MAX: usize = 4;

/// The image inside a wrapper, and notes about it.
type Inside = (Image, Vec<String>);

/// A form in which a file holds an image.
trait Container: Sync {
    /// Whether the file begins with this form.
    fn holds(&self, outer: &Image) -> bool;

    /// The message that refuses changes: what the file is, and how to convert it.
    fn only_read(&self, path: &Path) -> String;

    /// Unpacks the image; `None` if the file only begins like this form and is a dump that holds
    /// it. Error: the bytes are malformed.
    fn unwrap(&self, path: &Path, outer: &Image, options: &OpenOptions) -> Result<Option<Inside>, StackError>;
}

fn container_of(image: &Image) -> Option<&'static dyn Container> {
    CONTAINERS.iter().copied().find(|container| container.holds(image))
}

/// Unpacks all wrappers around the image in a file; returns the image and notes.
pub(crate) fn unwrapped(path: &Path, image: Image, options: &OpenOptions) -> Result<Inside, StackError> {
    unwrapped_while(path, image, options, |_| true)
}

/// Unpacks wrappers while `goes_on` accepts them.
fn unwrapped_while(
    path: &Path,
    mut image: Image,
    options: &OpenOptions,
    goes_on: impl Fn(&Image) -> bool,
) -> Result<Inside, StackError> {
    let mut notes = Vec::new();
    for _ in 0..DEPTH_MAX {
        let Some(container) = container_of(&image).filter(|_| goes_on(&image)) else { break };
        let Some((inside, told)) = container.unwrap(path, &image, options)? else { break };
        if options.overlay.is_some() {
            return Err(wrong(path, format!("`overlay`: {}", container.only_read(path))));
        }
        image = inside;
        notes.extend(told);
    }
    Ok((image, notes))
}

/// Refuses changes of a file whose image is in a wrapper, which can only be read.
pub(crate) fn refuse_changes(path: &Path, image: &Image, options: &OpenOptions) -> Result<(), StackError> {
    if !options.join.is_empty() {
        let detail = "`join`: joined files can only be read; expected one file, which `nandkit export` with the same options makes from a volume in parts, and `cat` from partitions";
        return Err(wrong(path, detail));
    }
    if let Some(swap) = options.swap {
        return Err(wrong(
            path,
            format!(
                "`swap`: a swapped dump can only be read; expected a restored dump, which `{}` writes",
                swap.tool()
            ),
        ));
    }
    let Some(container) = container_of(image) else { return Ok(()) };
    match container.unwrap(path, image, options) {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(wrong(path, container.only_read(path))),
    }
}

/// Opens the device of sectors inside a wrapper, for reading; `None` for any other file. Error: it
/// cannot be read or unpacked.
pub fn unpacked_device(path: &Path) -> Result<Option<Box<dyn BlockDevice>>, StackError> {
    let failed = |error| wrong(path, error);
    // A device or a pipe is not an image.
    let Ok(beginning) = chip_file::beginning(path, BEGINNING) else { return Ok(None) };
    let Ok(beginning) = Image::from_bytes(beginning, None) else { return Ok(None) };
    if container_of(&beginning).is_none() {
        return Ok(None);
    }
    let image = Image::open(path, &DumpOptions::read_only()).map_err(failed)?;
    let (image, notes) = unwrapped(path, image, &OpenOptions::default())?;
    if notes.is_empty() {
        return Ok(None);
    }
    let device = DumpFlash::new(image, DumpSectors::layout(0, None).map_err(failed)?).map_err(failed)?;
    Ok(Some(Box::new(DumpSectors::new(device.into_read_only()))))
}
