//! A layout as its TOML file writes it.

use serde::Deserialize;

use crate::error::{ImageError, Result};

/// A file of `specs/oob`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayoutSpec {
    pub name: String,
    pub title: String,
    pub sources: Vec<String>,
    /// Data bytes of a page.
    pub page_size: u32,
    /// OOB bytes of a page.
    pub oob_size: u32,
    pub code: CodeSpec,
    /// The page from its first byte on.
    pub group: Vec<GroupSpec>,
}

/// The code of every code word.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum CodeSpec {
    Hamming {
        #[serde(default)]
        order: OrderSpec,
    },
    Bch {
        field_bits: u32,
        correctable: u32,
        polynomial: Option<u32>,
        /// Which bit of each byte comes first in the code word.
        first_bit: FirstBit,
        #[serde(default)]
        parity: ParitySpec,
        /// With `parity = "mask"`: what is combined with the ECC by exclusive or, in hexadecimal.
        mask: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OrderSpec {
    #[default]
    Linux,
    SmartMedia,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum FirstBit {
    High,
    Low,
    /// The highest of the low half, and that half first.
    Nibble,
}

/// What is done to the ECC before it is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ParitySpec {
    /// Nothing.
    #[default]
    Plain,
    /// All bits are inverted.
    Inverted,
    /// It is changed by what makes the ECC of erased data erased.
    Erased,
    /// It is changed by the mask.
    Mask,
}

/// Spans that follow one another, so many times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupSpec {
    #[serde(default = "once")]
    pub count: u32,
    pub spans: Vec<SpanSpec>,
}

const fn once() -> u32 {
    1
}

/// What a span holds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Holds {
    Data,
    Ecc,
    Oob,
    Mark,
    Unused,
}

/// Bits side by side that hold one thing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpanSpec {
    pub is: Holds,
    pub bytes: Option<u32>,
    pub bits: Option<u32>,
    /// The code word that they belong to; of a group that repeats, that of its first time.
    pub codeword: Option<u32>,
    /// The byte of the data, or of the OOB as it is shown, where they are found.
    pub at: Option<u32>,
    /// The same in bits.
    pub at_bit: Option<u32>,
}

impl LayoutSpec {
    /// Errors: what TOML or the form of a layout does not allow, with its place in the text.
    pub fn from_toml(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| ImageError::layout(error.to_string().trim_end().to_owned()))
    }
}

impl SpanSpec {
    /// The length in bits.
    pub fn length(&self) -> Result<u32> {
        let length = match (self.bytes, self.bits) {
            (Some(bytes), None) => bytes.checked_mul(8),
            (None, Some(bits)) => Some(bits),
            _ => return Err(ImageError::layout(format!("{}: expected `bytes` or `bits`", self.shown()))),
        };
        length.filter(|length| *length > 0).ok_or_else(|| {
            ImageError::layout(format!("{}: expected at least a bit, and no more than a page", self.shown()))
        })
    }

    /// The place that is named, in bits.
    pub fn place(&self) -> Result<Option<u32>> {
        let place = match (self.at, self.at_bit) {
            (None, None) => return Ok(None),
            (Some(byte), None) => byte.checked_mul(8),
            (None, Some(bit)) => Some(bit),
            (Some(_), Some(_)) => None,
        };
        let wrong = || ImageError::layout(format!("{}: expected `at` or `at_bit`, inside the page", self.shown()));
        place.map(Some).ok_or_else(wrong)
    }

    /// The span as a message names it.
    pub fn shown(&self) -> String {
        let length = match (self.bytes, self.bits) {
            (Some(bytes), _) => format!(" of {bytes} bytes"),
            (None, Some(bits)) => format!(" of {bits} bits"),
            (None, None) => String::new(),
        };
        format!("span \"{}\"{length}", self.is.name())
    }
}

impl Holds {
    /// The value in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Ecc => "ecc",
            Self::Oob => "oob",
            Self::Mark => "mark",
            Self::Unused => "unused",
        }
    }
}
