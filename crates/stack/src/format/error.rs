//! Why a format cannot do what was asked of it.

use std::path::Path;

use nandkit_block::BlockError;
use nandkit_flash_image::ImageError;
use nandkit_vfs::{ErrorKind, FsError};

use super::wrong;
use crate::StackError;

/// Why a format cannot do what was asked of it. Options are named by their keys, in backticks: a
/// door prints them as its users know them.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// An option that does not fit the volume, or has no meaning for it.
    #[error("`{key}`: {detail}")]
    Option {
        /// The option's key: a field of [`super::OpenOptions`], or the name of what was asked for.
        key: &'static str,
        /// What is wrong with it, and what would be right.
        detail: String,
    },
    /// What the file system says of its volume.
    #[error(transparent)]
    Volume(#[from] FsError),
    /// What the file system says, in a sentence that tells what can be done.
    #[error("{detail}")]
    Told {
        /// The kind of the file system's error.
        kind: ErrorKind,
        /// The sentence.
        detail: String,
    },
    /// The device below the volume fails.
    #[error("{}", .0.detail)]
    Device(#[from] BlockError),
    /// The image cannot be read by the layout that was found.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The bytes are no volume that this format can work on: what they are, and what would be
    /// right.
    #[error("{0}")]
    Unfit(String),
    /// A further file of the volume; the message names it.
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
