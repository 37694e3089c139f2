//! Why a saved chip cannot be opened or kept.

use nandkit_block::BlockError;

use crate::spec_error::SpecError;

/// A saved chip that cannot be used: what was found, and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The device holds something else.
    #[error("no saved chip: the device begins with {found:02x?}, expected \"NANDKIT\" and a zero byte")]
    NoImage {
        /// The first eight bytes.
        found: [u8; 8],
    },
    /// Saved by another version.
    #[error(
        "saved chip of format version {found}, expected version {expected}: open it with the nandkit that wrote it, or make it anew"
    )]
    Version {
        /// What the header says.
        found: u32,
        /// What this version reads.
        expected: u32,
    },
    /// The chip was saved with another store.
    #[error("the saved chip has a store of kind {found}, expected {expected}")]
    StoreKind {
        /// What the header says.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// A part of the image is not what its checksum says, or holds an impossible value.
    #[error("damaged chip image: {what} is {found}, expected {expected}")]
    Damaged {
        /// Which part.
        what: String,
        /// What it holds.
        found: String,
        /// What would be right.
        expected: String,
        /// Where the part begins, in bytes from the start of the device.
        offset: u64,
    },
    /// The chip does not fit.
    #[error("the device has {found} bytes, expected at least {expected} for this chip")]
    TooSmall {
        /// Bytes of the device.
        found: u64,
        /// Bytes that the chip needs.
        expected: u64,
    },
    /// The chip's spec cannot be used.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The device below failed.
    #[error("the device that holds the chip failed: {0}")]
    Device(#[from] BlockError),
}

impl ImageError {
    pub(super) fn damaged(what: impl Into<String>, found: impl ToString, expected: impl ToString) -> Self {
        Self::Damaged { what: what.into(), found: found.to_string(), expected: expected.to_string(), offset: 0 }
    }

    /// The same damage in a part that begins here.
    pub(super) fn at(mut self, place: u64) -> Self {
        if let Self::Damaged { offset, .. } = &mut self {
            *offset = place;
        }
        self
    }

    /// Where the damaged part begins, in bytes from the start of the device; `None` for other
    /// errors.
    pub const fn damaged_at(&self) -> Option<u64> {
        match self {
            Self::Damaged { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}
