//! Errors of file-system operations.

use std::fmt;

/// Shorthand for results of file-system operations.
pub type Result<T> = std::result::Result<T, FsError>;

/// The kind of a failure; each kind has one errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ErrorKind {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    NoSpace,
    /// A quota limit is reached.
    QuotaExceeded,
    /// A rename or link would cross projects or devices.
    CrossDevice,
    FileTooBig,
    /// The extended attributes exceed what an inode can hold, however empty the volume.
    AttributesTooBig,
    NameTooLong,
    InvalidName,
    InvalidArgument,
    TooManyLinks,
    /// Resolving a path met too many symbolic links; they may form a cycle.
    TooManySymlinks,
    NoAttribute,
    NotSupported,
    ReadOnly,
    /// The image contradicts itself or its checksums.
    Corrupt,
    /// The device below failed; `source` has its error.
    Device,
}

impl ErrorKind {
    /// The errno that Linux returns (asm-generic/errno-base.h, asm-generic/errno.h).
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotFound => 2,
            Self::Device => 5,
            Self::AttributesTooBig => 7,
            Self::Exists => 17,
            Self::CrossDevice => 18,
            Self::NotADirectory => 20,
            Self::IsADirectory => 21,
            Self::InvalidArgument | Self::InvalidName => 22,
            Self::FileTooBig => 27,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::TooManySymlinks => 40,
            Self::NoAttribute => 61,
            Self::NotSupported => 95,
            Self::Corrupt => 117,
            Self::QuotaExceeded => 122,
        }
    }
}

/// The text of `strerror`, where it has one.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not found",
            Self::Exists => "exists already",
            Self::NotADirectory => "not a directory",
            Self::IsADirectory => "is a directory",
            Self::NotEmpty => "directory not empty",
            Self::NoSpace => "no space left",
            Self::QuotaExceeded => "quota exceeded",
            Self::CrossDevice => "not within one project",
            Self::FileTooBig => "file too large",
            Self::AttributesTooBig => "extended attributes too large",
            Self::NameTooLong => "name too long",
            Self::InvalidName => "invalid name",
            Self::InvalidArgument => "invalid argument",
            Self::TooManyLinks => "too many links",
            Self::TooManySymlinks => "too many symbolic links",
            Self::NoAttribute => "no such attribute",
            Self::NotSupported => "not supported",
            Self::ReadOnly => "read-only",
            Self::Corrupt => "damaged",
            Self::Device => "the device failed",
        })
    }
}

/// A failed file-system operation.
#[derive(Debug)]
pub struct FsError {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// What happened, where, and what was expected.
    pub detail: String,
    /// The error of the layer below, if it caused this one.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl FsError {
    /// Makes an error with a description.
    #[cold]
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    /// Makes an error of kind `Device` from the error of the device below.
    #[cold]
    pub fn device(detail: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { kind: ErrorKind::Device, detail: detail.into(), source: Some(Box::new(source)) }
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
