//! Errors of opening and saving a chip image.

use nandkit_block::BlockError;

use crate::spec_error::SpecError;

/// Why a saved chip cannot be used: what was found, and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The device holds no saved chip.
    #[error("no saved chip: the device begins with {found:02x?}, expected \"NANDKIT\" and a zero byte")]
    NoImage {
        /// The first eight bytes.
        found: [u8; 8],
    },
    /// The chip was saved in another format version.
    #[error(
        "saved chip of format version {found}, expected version {expected}: open it with the nandkit that wrote it, or make it anew"
    )]
    Version {
        /// The version in the header.
        found: u32,
        /// The version that this program reads.
        expected: u32,
    },
    /// The chip was saved with another store.
    #[error("the saved chip has a store of kind {found}, expected {expected}")]
    StoreKind {
        /// The store named in the header.
        found: String,
        /// The requested store.
        expected: String,
    },
    /// A part of the image fails its checksum, or holds an impossible value.
    #[error("damaged chip image: {what} is {found}, expected {expected}")]
    Damaged {
        /// The damaged part.
        what: String,
        /// What it holds.
        found: String,
        /// What was expected.
        expected: String,
        /// Offset of the part in bytes from the start of the device.
        offset: u64,
    },
    /// The device is too small for the chip.
    #[error("the device has {found} bytes, expected at least {expected} for this chip")]
    TooSmall {
        /// Size of the device in bytes.
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

    /// Sets the offset at which the damaged part begins.
    pub(super) fn at(mut self, place: u64) -> Self {
        if let Self::Damaged { offset, .. } = &mut self {
            *offset = place;
        }
        self
    }

    /// Offset of the damaged part in bytes from the start of the device; `None` for other errors.
    pub const fn damaged_at(&self) -> Option<u64> {
        match self {
            Self::Damaged { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}
