//! Errors of formats.

use std::path::Path;

use nandkit_block::BlockError;
use nandkit_flash_image::ImageError;
use nandkit_vfs::{ErrorKind, FsError};

use super::wrong;
use crate::StackError;

/// Why an operation of a format failed. Messages name options by their keys in backticks; the user
/// interface replaces them by its own names.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// An option that does not fit the volume, or does not apply to it.
    #[error("`{key}`: {detail}")]
    Option {
        /// The option's key: a field of [`super::OpenOptions`], or the name of the operation.
        key: &'static str,
        /// What is wrong with it, and what was expected.
        detail: String,
    },
    /// An error of the file system.
    #[error(transparent)]
    Volume(#[from] FsError),
    /// An error of the file system, with a sentence about what to do.
    #[error("{detail}")]
    Told {
        /// The kind of the file system's error.
        kind: ErrorKind,
        /// The sentence.
        detail: String,
    },
    /// An error of the device below the volume.
    #[error("{}", .0.detail)]
    Device(#[from] BlockError),
    /// The image cannot be read by the detected layout.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The format cannot work on these bytes: what they are, and what was expected.
    #[error("{0}")]
    Unfit(String),
    /// An error about a further file of the volume; the message names it.
    #[error("{}", .0.detail)]
    File(#[from] StackError),
}

impl FormatError {
    /// An option that does not fit.
    pub fn option(key: &'static str, detail: impl Into<String>) -> Self {
        Self::Option { key, detail: detail.into() }
    }

    /// The error of an image at this path.
    pub(crate) fn of(self, path: &Path) -> StackError {
        match self {
            Self::File(error) => error,
            error => wrong(path, error),
        }
    }
}
