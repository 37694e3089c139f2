//! From a file to what is left of a volume that cannot be opened.

use std::path::Path;

use nandkit_vfs::FileSystem;

use super::choose::{Part, part};
use super::is_chip;
use super::open::{opening, read};
use crate::StackError;
use crate::format::rescue::{RescuedFile, RescuedFiles};
use crate::format::{FORMATS, OpenOptions, titles, wrong};

/// Files of an image that were found by their own blocks. The image stays as it is.
pub struct RescuedImage {
    files: Box<dyn RescuedFiles>,
    /// The format: `f2fs`.
    pub format: &'static str,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

impl RescuedImage {
    /// The tree that the files make.
    pub fn fs(&self) -> &dyn FileSystem {
        self.files.fs()
    }

    /// Everything that was found, by inode.
    pub fn files(&self) -> Vec<RescuedFile> {
        self.files.files()
    }
}

/// Finds the files of an image whose superblocks, checkpoints or tables are lost. Errors: a file
/// that cannot be read, a chip, or an image in which no file of such a format is found.
pub fn rescue(path: &Path, options: &OpenOptions) -> Result<RescuedImage, StackError> {
    let expected = titles(|format| format.rescue().is_some());
    if is_chip(path, options)? {
        return Err(wrong(path, format!("the file holds a chip; expected an image of {expected}")));
    }
    let mut why = None;
    for format in FORMATS {
        let Some(rescuing) = format.rescue() else { continue };
        // Each format takes the image for itself.
        let (image, mut notes) = read(path, options)?;
        let Part { within, .. } = part(path, &image, options)?.unwrap_or_else(|| Part::whole(options));
        match rescuing.rescue(image, within, &opening(options)) {
            Ok(files) => {
                notes.extend(files.notes());
                return Ok(RescuedImage { files, format: format.name(), notes });
            }
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(match why {
        Some(error) => error.of(path),
        None => wrong(path, format!("expected an image of {expected}")),
    })
}
