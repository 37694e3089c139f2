//! Errors of block-device operations: a small stable kind, the context, and the source.

use std::fmt;

use nandkit_units::Lba;

/// Shorthand for results of block-device operations.
pub type Result<T> = std::result::Result<T, BlockError>;

/// The kind of a failure, in terms on which a caller can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request reaches outside the device or is not whole sectors. Nothing has changed.
    OutOfRange,
    /// The medium lost the sector.
    Unreadable,
    /// The device stores no bytes for the sector (a shadow store), and bytes were requested.
    NoContent,
    /// No good block is left, or a log is full.
    Full,
    /// The source of a remap has no content.
    Unmapped,
    /// A remap names an address twice.
    Overlap,
    /// The power is gone.
    PowerLost,
    /// The device was opened for reading only.
    ReadOnly,
    /// A device file is damaged, of another version, or of another format.
    Corrupt,
    /// The request is impossible on this device, or its content has another format. Nothing has
    /// changed; the detail says what would fit.
    Unfit,
    /// The operating system or the flash below failed; `source` has its error.
    Io,
}

/// The kind of a block operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operation {
    Open,
    Read,
    Write,
    Flush,
    Trim,
    Remap,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Remap => "remap",
        })
    }
}

/// A failed block-device operation.
#[derive(Debug)]
pub struct BlockError {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// The operation that failed.
    pub operation: Operation,
    /// The first affected sector.
    pub at: Lba,
    /// A description of the failure.
    pub detail: String,
    /// The error of the layer below, if it caused this one.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BlockError {
    /// Makes an error at a sector, with the broken rule or the cause.
    #[cold]
    pub fn new(kind: ErrorKind, operation: Operation, at: Lba, detail: impl Into<String>) -> Self {
        Self { kind, operation, at, detail: detail.into(), source: None }
    }

    /// Adds the error of the layer below.
    #[cold]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Unfit => f.write_str(&self.detail)?,
            _ => write!(f, "{} at {} failed: {}", self.operation, self.at, self.detail)?,
        }
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BlockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
