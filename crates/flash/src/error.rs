//! Errors of flash operations: a small stable kind, the context, and the source.

use std::fmt;

use nandkit_units::{BlockIndex, Done, Nanos, PageAddress};

/// Shorthand for results of flash operations.
pub type Result<T> = std::result::Result<T, FlashError>;

/// What went wrong, in the terms on which a caller can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller broke a rule of the contract: a bug above, or a hostile image. Nothing has
    /// changed.
    Misuse,
    /// More bit errors than the part's ECC corrects. What was read is damaged.
    Uncorrectable,
    /// The device keeps no bytes for this page (a shadow store), and bytes were asked for.
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
    /// The operating system refused: the source tells.
    Io,
}

impl ErrorKind {
    /// All kinds in the order of their declaration: `kind as usize` is the place in a table with
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

/// Which operation.
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
    /// What went wrong.
    pub kind: ErrorKind,
    /// Which operation.
    pub operation: Operation,
    /// Where; page 0 for operations on a block.
    pub at: PageAddress,
    /// When the failed operation ended: failures take time too. Zero where none passed.
    pub completed: Nanos,
    /// How long it kept a die or channel busy, as in [`Done::busy`].
    pub busy: Nanos,
    /// What exactly, in words: the rule that was broken, the value and what would be right.
    pub detail: &'static str,
    /// The operating system's error, for [`ErrorKind::Io`].
    pub source: Option<std::io::Error>,
}

impl FlashError {
    /// An error at a page, with the rule or fact in words.
    #[cold]
    pub fn new(kind: ErrorKind, operation: Operation, at: PageAddress, detail: &'static str) -> Self {
        Self { kind, operation, at, completed: Nanos::ZERO, busy: Nanos::ZERO, detail, source: None }
    }

    /// An error at a block.
    #[cold]
    pub fn at_block(kind: ErrorKind, operation: Operation, block: BlockIndex, detail: &'static str) -> Self {
        Self::new(kind, operation, block.page(0), detail)
    }

    /// The operating system's refusal.
    #[cold]
    pub fn io(operation: Operation, at: PageAddress, source: std::io::Error) -> Self {
        Self { source: Some(source), ..Self::new(ErrorKind::Io, operation, at, "the operating system refused") }
    }

    /// The same with when the operation ended and how long it kept the device busy.
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
