//! Errors of images, layouts, and their use.

use std::fmt;
use std::path::Path;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, ImageError>;

/// The kind of a failure, in terms on which a caller can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageErrorKind {
    /// The layout is impossible, or does not fit the image.
    Layout,
    /// The image is empty.
    Empty,
    /// Another process has the image open.
    InUse,
    /// The requested region does not exist.
    NoSuchRegion,
    /// The bytes are inconsistent: a journal of another image, a text dump with a damaged line.
    Corrupt,
    /// The operating system failed; `source` has its error.
    Io,
}

/// The error for an image that cannot be used as requested.
#[derive(Debug)]
pub struct ImageError {
    /// The kind of the failure.
    pub kind: ImageErrorKind,
    /// What happened, where, and what was expected.
    pub detail: String,
    /// The operating system's error, if any.
    pub source: Option<std::io::Error>,
}

impl ImageError {
    #[cold]
    pub(crate) fn new(kind: ImageErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    #[cold]
    pub(crate) fn layout(detail: impl Into<String>) -> Self {
        Self::new(ImageErrorKind::Layout, detail)
    }

    /// An operating-system error of doing `what` with a file.
    #[cold]
    pub(crate) fn io(what: &str, path: &Path, source: std::io::Error) -> Self {
        Self { source: Some(source), ..Self::new(ImageErrorKind::Io, format!("cannot {what} {}", path.display())) }
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
