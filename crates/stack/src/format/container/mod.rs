//! Wrappers: files that hold an image in another form. Each is recognised by its first bytes, and
//! yields the image inside.

mod sparse;
mod text_dump;

use std::path::Path;

use nandkit_flash_image::Image;

use super::{OpenOptions, wrong};
use crate::StackError;

pub use sparse::{SPARSE_BLOCK, pack_sparse, unpacked_device};

/// The wrappers that are opened.
static CONTAINERS: &[&dyn Container] = &[&text_dump::TextDump, &sparse::AndroidSparse];

/// Wrappers inside wrappers that are opened; more would be nobody's work but an attacker's.
const DEPTH_MAX: usize = 4;

/// A form in which a file holds an image.
trait Container: Sync {
    /// Whether the file has this form.
    fn holds(&self, outer: &Image) -> bool;

    /// What is said where somebody wants to change one in place.
    fn only_read(&self) -> &'static str;

    /// The image inside, and a sentence about it for each thing that people should know. Errors: the
    /// bytes are not what they claim to be.
    fn unwrap(&self, path: &Path, outer: Image, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError>;
}

/// The image in a file, out of all its wrappers, and what is to be told about them.
pub(crate) fn unwrapped(
    path: &Path,
    mut image: Image,
    options: &OpenOptions,
) -> Result<(Image, Vec<String>), StackError> {
    let mut notes = Vec::new();
    for _ in 0..DEPTH_MAX {
        let Some(container) = CONTAINERS.iter().find(|container| container.holds(&image)) else { break };
        if options.overlay.is_some() {
            return Err(wrong(path, format!("`overlay`: {}", container.only_read())));
        }
        let (inside, told) = container.unwrap(path, image, options)?;
        image = inside;
        notes.extend(told);
    }
    Ok((image, notes))
}

/// Refuses a file whose image is in a wrapper: it is only read.
pub(crate) fn refuse_changes(path: &Path, image: &Image) -> Result<(), StackError> {
    match CONTAINERS.iter().find(|container| container.holds(image)) {
        Some(container) => Err(wrong(path, container.only_read())),
        None => Ok(()),
    }
}
