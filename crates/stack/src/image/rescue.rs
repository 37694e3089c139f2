//! Rescue of files from an image whose volume cannot be opened.

use std::path::Path;

use nandkit_vfs::FileSystem;

use super::choose::{Part, part};
use super::is_chip;
use super::open::{opening, read};
use crate::StackError;
use crate::format::rescue::{RescuedFile, RescuedFiles};
use crate::format::{FORMATS, OpenOptions, titles, wrong};

/// Files of an image found by their own blocks. The image does not change.
pub struct RescuedImage {
    files: Box<dyn RescuedFiles>,
    /// The format: `f2fs`.
    pub format: &'static str,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

impl RescuedImage {
    /// The tree of the files.
    pub fn fs(&self) -> &dyn FileSystem {
        self.files.fs()
    }

    /// All rescued inodes.
    pub fn files(&self) -> Vec<RescuedFile> {
        self.files.files()
    }
}

/// Finds the files of an image whose superblocks, checkpoints or tables are lost. Errors: the file
/// cannot be read, or is an emulated chip; no file of a supported format is found.
pub fn rescue(path: &Path, options: &OpenOptions) -> Result<RescuedImage, StackError> {
    let expected = titles(|format| format.rescue().is_some());
    if is_chip(path, options)? {
        return Err(wrong(path, format!("the file holds an emulated chip; expected an image of {expected}")));
    }
    let mut why = None;
    for format in FORMATS {
        let Some(rescuing) = format.rescue() else { continue };
        // Each attempt consumes the image.
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
