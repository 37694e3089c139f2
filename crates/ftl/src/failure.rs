//! Failures inside a translation layer, and the errors the host gets for them.

use nandkit_block::{BlockError, ErrorKind, Operation};
use nandkit_flash as flash;
use nandkit_flash::FlashError;
use nandkit_units::Lba;

/// A failure inside a translation layer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The flash returned an error. Boxed to keep results on the hot path small.
    Flash(Box<FlashError>),
    /// No good free block is left.
    Full,
    /// A remap would make more logical pages than this point at content written under another
    /// address.
    TooManyAliases(usize),
    /// The source of a remap was lost while making room for it.
    SourceLost,
    /// The content of a page that must be partly preserved is lost.
    Unreadable,
    /// An earlier failure stopped the layer.
    Halted(Box<Halt>),
    /// The options or the chip's content do not fit.
    Unfit(Box<Misfit>),
}

/// Describes what does not fit, and what would.
#[derive(Clone, Debug)]
pub(crate) struct Misfit(String);

/// The reason why a layer stopped: the kind of its failure, and the first cause in words.
#[derive(Clone, Debug)]
pub(crate) struct Halt {
    pub kind: flash::ErrorKind,
    pub why: String,
}

pub(crate) type LayerResult<T> = Result<T, Failure>;

impl Failure {
    #[cold]
    pub fn unfit(detail: impl Into<String>) -> Self {
        Self::Unfit(Box::new(Misfit(detail.into())))
    }

    /// Whether the failure concerns only this block, so that another one may work.
    pub fn is_bad_block(&self) -> bool {
        matches!(self, Self::Flash(error) if is_block_failure(error.kind))
    }

    /// The failure as a block error for the host.
    #[cold]
    pub fn at(self, operation: Operation, at: Lba) -> BlockError {
        match self {
            Self::Full => BlockError::new(
                ErrorKind::Full,
                operation,
                at,
                "no good free block is left: too many blocks have gone bad for the logical capacity",
            ),
            Self::TooManyAliases(most) => BlockError::new(
                ErrorKind::Full,
                operation,
                at,
                format!("the log of remaps is full: at most {most} logical pages may share or have moved"),
            ),
            Self::SourceLost => BlockError::new(
                ErrorKind::Unreadable,
                operation,
                at,
                "a source cannot be read any more: nothing was remapped",
            ),
            Self::Unreadable => BlockError::new(
                ErrorKind::Unreadable,
                operation,
                at,
                "the rest of the page is lost: write the whole page to replace it",
            ),
            Self::Unfit(misfit) => BlockError::new(ErrorKind::Unfit, operation, at, misfit.0),
            Self::Halted(halt) => BlockError::new(kind_for_host(halt.kind), operation, at, halt.why),
            Self::Flash(error) => {
                BlockError::new(kind_for_host(error.kind), operation, at, "the flash refused").caused_by(*error)
            }
        }
    }
}

const fn kind_for_host(kind: flash::ErrorKind) -> ErrorKind {
    match kind {
        flash::ErrorKind::Uncorrectable => ErrorKind::Unreadable,
        flash::ErrorKind::NoContent => ErrorKind::NoContent,
        flash::ErrorKind::PowerLost => ErrorKind::PowerLost,
        flash::ErrorKind::ReadOnly => ErrorKind::ReadOnly,
        _ => ErrorKind::Io,
    }
}

impl From<FlashError> for Failure {
    #[cold]
    fn from(error: FlashError) -> Self {
        Self::Flash(Box::new(error))
    }
}

/// Whether a failure concerns a single block and is part of a chip's normal life.
pub(crate) const fn is_block_failure(kind: flash::ErrorKind) -> bool {
    use flash::ErrorKind::{BadBlock, EraseFailed, ProgramFailed};
    matches!(kind, ProgramFailed | EraseFailed | BadBlock)
}
