//! Errors of flash operations: a small stable kind, the context, and the source.

use std::fmt;

use nandkit_units::{BlockIndex, Done, Nanos, PageAddress};

/// Shorthand for results of flash operations.
pub type Result<T> = std::result::Result<T, FlashError>;

/// The kind of a failure, in terms on which a caller can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller broke a rule of the contract: a bug above, or a hostile image. Nothing has
    /// changed.
    Misuse,
    /// More bit errors than the chip's ECC corrects. The data read are damaged.
    Uncorrectable,
    /// The device stores no bytes for this page (a shadow store), and bytes were requested.
    NoContent,
    /// The program failed. The page is undefined; retire the block.
    ProgramFailed,
    /// The erase failed. The block is undefined; retire it.
    EraseFailed,
    /// The block is marked bad.
    BadBlock,
    /// The power is gone; every operation fails until it comes back.
    PowerLost,
    /// The device was opened for reading only.
    ReadOnly,
    /// The operating system failed; `source` has its error.
    Io,
}

impl ErrorKind {
    /// All kinds in the order of their declaration: `kind as usize` is the index in a table with
    /// one entry per kind.
    pub const ALL: [Self; 9] = [
        Self::Misuse,
        Self::Uncorrectable,
        Self::NoContent,
        Self::ProgramFailed,
        Self::EraseFailed,
        Self::BadBlock,
        Self::PowerLost,
        Self::ReadOnly,
        Self::Io,
    ];
}

/// The kind of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operation {
    Read,
    Program,
    Erase,
    Copy,
    MarkBad,
    Sync,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Program => "program",
            Self::Erase => "erase",
            Self::Copy => "copy",
            Self::MarkBad => "marking as bad",
            Self::Sync => "sync",
        })
    }
}

/// A failed flash operation.
#[derive(Debug)]
pub struct FlashError {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// The operation that failed.
    pub operation: Operation,
    /// The affected page; page 0 for operations on a block.
    pub at: PageAddress,
    /// When the failed operation ended: failures take time too. Zero if none passed.
    pub completed: Nanos,
    /// How long it kept a die or channel busy, as in [`Done::busy`].
    pub busy: Nanos,
    /// A description: the broken rule, the value, and what was expected.
    pub detail: &'static str,
    /// The operating system's error, for [`ErrorKind::Io`].
    pub source: Option<std::io::Error>,
}

impl FlashError {
    /// Makes an error at a page, with the broken rule or the cause.
    #[cold]
    pub fn new(kind: ErrorKind, operation: Operation, at: PageAddress, detail: &'static str) -> Self {
        Self { kind, operation, at, completed: Nanos::ZERO, busy: Nanos::ZERO, detail, source: None }
    }

    /// Makes an error at a block.
    #[cold]
    pub fn at_block(kind: ErrorKind, operation: Operation, block: BlockIndex, detail: &'static str) -> Self {
        Self::new(kind, operation, block.page(0), detail)
    }

    /// An error of the operating system.
    #[cold]
    pub fn io(operation: Operation, at: PageAddress, source: std::io::Error) -> Self {
        Self { source: Some(source), ..Self::new(ErrorKind::Io, operation, at, "the operating system refused") }
    }

    /// Sets when the operation ended, and how long it kept the device busy.
    pub fn after(self, done: Done) -> Self {
        Self { completed: done.completed, busy: done.busy, ..self }
    }
}

impl fmt::Display for FlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} failed: {}", self.operation, self.at, self.detail)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FlashError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
