//! The common vocabulary of recognition: how surely bytes are a volume of a format, and why.
//!
//! Each file system's crate has a `probe` that returns a [`Likeness`]. Code that identifies a dump,
//! a region or a chip relies on these probes only.

use std::ops::Range;

use nandkit_units::ByteOrder;

/// Points from which a likeness counts as certain: more than chance or a file's content can
/// produce.
pub const SURE: u32 = 500;

/// How surely bytes are a volume of a format, and how to read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// The degree of certainty: at [`SURE`] or more, no other format is tried.
    pub points: u32,
    /// The evidence for and against, one sentence each.
    pub evidence: Vec<String>,
    /// The layout of the volume.
    pub layout: Layout,
    /// The bytes that provably belong to the volume, counted from the start of the probed bytes;
    /// `None` if nothing proves an end.
    pub extent: Option<Range<u64>>,
}

/// The layout of a volume in the bytes that hold it. A figure that the format lacks is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the smallest addressable unit of the volume: a sector or a block.
    pub block_size: u32,
    /// Bytes of an erase block.
    pub erase_size: u32,
    /// Every erase size that fits the content, the likeliest first.
    pub erase_sizes: Vec<u32>,
    /// How [`Layout::erase_size`] fits the content.
    pub erase_size_fit: Fit,
    /// The byte order of numbers, if the format allows both.
    pub byte_order: Option<ByteOrder>,
}

/// How an erase size fits the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// The content contradicts this size.
    Refuted,
    /// Nothing contradicts it, but another size is proven.
    Unlikely,
    /// As likely as any other.
    Fits,
    /// The content allows no other size, or the format has no erase size.
    #[default]
    Proven,
}

/// How much of a dump a probe reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Enough to identify the format.
    Glance,
    /// Enough to find the erase-block boundaries.
    Thorough,
}
