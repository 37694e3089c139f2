//! Error-correcting codes of NAND flash: what a page's ECC bytes say about its data.
//!
//! | code | corrects | used by |
//! | --- | --- | --- |
//! | [`Hamming`] | 1 bit, detects 2 | Linux's software ECC, SmartMedia, small and old parts |
//! | [`Bch`] | t bits | Linux's `nand_bch`, the ECC engines of most controllers |
//!
//! The codes here handle only bytes and bits. Where a page stores data and ECC, the bit order, and
//! a controller's inversions belong to layouts (`flash-image`).

mod bch;
mod hamming;

pub use bch::{Bch, BchError};
pub use hamming::{Hamming, HammingOrder};

/// The result of checking a code word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// All bits are correct.
    Clean,
    /// This many bits of data or ECC were wrong and have been corrected.
    Corrected(u32),
    /// More bits are wrong than the code can correct. Nothing was changed.
    Uncorrectable,
}

impl Correction {
    /// The number of corrected bits; `None` if the word is uncorrectable.
    pub const fn bits(self) -> Option<u32> {
        match self {
            Self::Clean => Some(0),
            Self::Corrected(bits) => Some(bits),
            Self::Uncorrectable => None,
        }
    }
}
