//! What can be wrong with an image, its layout, or the way it is asked for.

use std::fmt;
use std::path::Path;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, ImageError>;

/// What went wrong, in the terms on which a caller can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageErrorKind {
    /// The layout is impossible, or does not fit the image.
    Layout,
    /// The image holds nothing.
    Empty,
    /// Another process has the image open.
    InUse,
    /// A region was asked for that is not there.
    NoSuchRegion,
    /// The bytes are not what they claim to be: a journal of another image, a text dump with a
    /// damaged line.
    Corrupt,
    /// The operating system refused: the source tells.
    Io,
}

/// An image that cannot be used in the way that was asked for.
#[derive(Debug)]
pub struct ImageError {
    /// What went wrong.
    pub kind: ImageErrorKind,
    /// What exactly, where, and what would be right.
    pub detail: String,
    /// The operating system's error.
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

    /// The operating system's refusal to do `what` with a file.
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
