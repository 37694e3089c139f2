//! The one vocabulary of recognition: how surely some bytes are a volume of a format, and why.
//!
//! Each file system's crate has a `probe` that returns a [`Likeness`]; whoever wants to know what a
//! dump, a region or a chip holds asks those, and nothing else.

use std::ops::Range;

use nandkit_units::ByteOrder;

/// Points from which a likeness is sure: more than chance or the content of a file can bring about.
pub const SURE: u32 = 500;

/// How surely bytes are a volume of a format, and how they have to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// How sure it is; from [`SURE`] on nothing else is looked for.
    pub points: u32,
    /// What speaks for it and what against: a sentence each.
    pub evidence: Vec<String>,
    /// How the volume lies there.
    pub layout: Layout,
    /// The bytes that the format proves to be its own, counted from the beginning of what was
    /// probed; `None` where nothing proves an end.
    pub extent: Option<Range<u64>>,
}

/// How a volume lies in the bytes that hold it. A figure that the format does not have is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the smallest unit by which the volume is addressed: a sector, a block.
    pub block_size: u32,
    /// Bytes of an erase block.
    pub erase_size: u32,
    /// Every erase size that fits what is there, the likeliest first.
    pub erase_sizes: Vec<u32>,
    /// How [`Layout::erase_size`] fits the content.
    pub erase_size_fit: Fit,
    /// The order of bytes in numbers, where the format has both.
    pub byte_order: Option<ByteOrder>,
}

/// How an erase size fits what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Something stands where it cannot be.
    Refuted,
    /// Nothing speaks against it, but another one is proven.
    Unlikely,
    /// As good as any other.
    Fits,
    /// The content leaves no other one, or the format has no erase size.
    #[default]
    Proven,
}

/// How much of a dump a probe looks through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Enough to see which format it is.
    Glance,
    /// Enough to see where erase blocks end.
    Thorough,
}
