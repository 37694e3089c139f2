//! A layout in the form of its TOML file.

use serde::Deserialize;

use crate::error::{ImageError, Result};

/// A file of `specs/oob`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayoutSpec {
    pub name: String,
    pub title: String,
    pub sources: Vec<String>,
    /// Data bytes per page.
    pub page_size: u32,
    /// OOB bytes per page.
    pub oob_size: u32,
    pub code: CodeSpec,
    /// The page's content from its first byte on.
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
        /// With `parity = "mask"`: the value combined with the ECC by exclusive or, in hexadecimal.
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
    /// The most significant bit of the low half first, and that half first.
    Nibble,
}

/// How the ECC is transformed before it is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ParitySpec {
    /// Not at all.
    #[default]
    Plain,
    /// All bits are inverted.
    Inverted,
    /// Combined with a value that makes the ECC of erased data erased.
    Erased,
    /// Combined with the mask.
    Mask,
}

/// A sequence of spans, repeated this many times.
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

/// The content of a span.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Holds {
    Data,
    Ecc,
    Oob,
    Mark,
    Unused,
}

/// Contiguous bits with one kind of content.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpanSpec {
    pub is: Holds,
    pub bytes: Option<u32>,
    pub bits: Option<u32>,
    /// The code word they belong to; in a repeated group, that of the first repetition.
    pub codeword: Option<u32>,
    /// The byte of the data, or of the presented OOB, where they appear.
    pub at: Option<u32>,
    /// The position, in bits instead of bytes.
    pub at_bit: Option<u32>,
}

impl LayoutSpec {
    /// Parses a layout. Errors: what TOML or the format does not allow, with its position.
    pub fn from_toml(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| ImageError::layout(error.to_string().trim_end().to_owned()))
    }
}

impl SpanSpec {
    /// Length in bits.
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

    /// The explicit position in bits, if any.
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

    /// The span's name in messages.
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
    /// The value's name in the file.
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
