//! Error-correcting codes of NAND flash: what a page's ECC bytes say about its data.
//!
//! | code | corrects | used by |
//! | --- | --- | --- |
//! | [`Hamming`] | 1 bit, detects 2 | Linux's software ECC, SmartMedia, small and old parts |
//! | [`Bch`] | t bits | Linux's `nand_bch`, the ECC engines of most controllers |
//!
//! The codes here know bytes and bits only. Where a page keeps data and ECC, which bits come first
//! and what a controller inverts is a layout's business (`flash-image`).

mod bch;
mod hamming;

pub use bch::{Bch, BchError};
pub use hamming::{Hamming, HammingOrder};

/// What a code made of a code word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// No bit differs from a code word.
    Clean,
    /// So many bits were wrong, in the data or in the ECC, and are right now.
    Corrected(u32),
    /// More bits are wrong than the code corrects. Nothing was changed.
    Uncorrectable,
}

impl Correction {
    /// The number of bits that were put right; `None` where the word is beyond the code.
    pub const fn bits(self) -> Option<u32> {
        match self {
            Self::Clean => Some(0),
            Self::Corrected(bits) => Some(bits),
            Self::Uncorrectable => None,
        }
    }
}
