//! Compression as the flash file systems of Linux use it (JFFS2, UBIFS, F2FS): whole buffers whose
//! unpacked length the format records.
//!
//! Each method is a file of its own; `docs/formats/compression.md` has the streams.
//!
//! ```
//! use nandkit_codec::compression::{Compression, Compressor, Level, decompress};
//!
//! let page = [b"flash ".as_slice(); 100].concat();
//! let mut packed = vec![0; page.len()];
//! let length = Compressor::new().compress(Compression::Zlib, Level::BEST, &page, &mut packed).unwrap();
//! let mut unpacked = vec![0; page.len()];
//! decompress(Compression::Zlib, &packed[..length], &mut unpacked).unwrap();
//! assert_eq!(unpacked, page);
//! ```

mod error;
mod lz4;
mod lzma;
mod lzo;
mod prefix;
mod rtime;
mod rubin;
mod zlib;
mod zstd;

pub use error::{DecompressError, Fault};
pub use lzma::LzmaProperties;
pub use zlib::inflate_raw;

use error::Stop;

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Compression {
    /// The bytes as they are.
    None,
    /// No bytes: the output is zeroes.
    Zero,
    /// JFFS2's rtime: pairs of a literal and the length of a copy from behind the literal's last
    /// occurrence.
    Rtime,
    /// JFFS2's arithmetic code with fixed probabilities; only read.
    RubinMips,
    /// JFFS2's arithmetic code with probabilities of its own before it; only read.
    DynRubin,
    /// A zlib stream (RFC 1950): header, deflate, Adler-32.
    Zlib,
    /// LZO1X. Reads Linux's lzo-rle ("version 1" of the stream) too, writes none of it.
    Lzo,
    /// An LZ4 block without a frame; only read.
    Lz4,
    /// A Zstandard frame (RFC 8878); only read.
    Zstd,
    /// A raw LZMA stream, as vendors' JFFS2 has it; only read.
    Lzma(LzmaProperties),
}

impl Compression {
    /// Every method, in the order of the declaration.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::Zero,
        Self::Rtime,
        Self::RubinMips,
        Self::DynRubin,
        Self::Zlib,
        Self::Lzo,
        Self::Lz4,
        Self::Zstd,
        Self::Lzma(LzmaProperties::ZERO),
    ];

    /// Whether a [`Compressor`] can make the method's streams. The others are only read.
    pub const fn can_compress(self) -> bool {
        !matches!(self, Self::RubinMips | Self::DynRubin | Self::Lz4 | Self::Zstd | Self::Lzma(_))
    }
}

/// How hard to look for matches, 1 to 9. Only [`Compression::Zlib`] and [`Compression::Lzo`] listen
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// Least time.
    pub const FASTEST: Self = Self(1);
    /// What Linux's JFFS2 asks of zlib (`fs/jffs2/compr_zlib.c`).
    pub const LINUX: Self = Self(3);
    /// Fewest bytes, what mkfs.jffs2 asks for.
    pub const BEST: Self = Self(9);

    /// The level `level`, or the nearest of 1 to 9.
    pub const fn new(level: u8) -> Self {
        match level {
            0 => Self::FASTEST,
            1..=9 => Self(level),
            _ => Self::BEST,
        }
    }

    /// 1 to 9.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Compresses, with working memory that is allocated at the first use of a method and kept.
///
/// The result depends on the arguments alone, not on what was compressed before.
#[derive(Default)]
pub struct Compressor {
    zlib: zlib::Compressor,
    lzo: lzo::Compressor,
}

impl Compressor {
    /// A compressor that has not allocated yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compresses all of `input` into the start of `output` and returns the bytes produced: fewer
    /// than the input has, and for [`Compression::None`] as many. For [`Compression::Zero`] 0, if
    /// all of a non-empty input is zero.
    ///
    /// `None` if the input does not shrink, if what it shrinks to does not fit, or if the method is
    /// only read; what `output` then holds is unspecified.
    pub fn compress(&mut self, method: Compression, level: Level, input: &[u8], output: &mut [u8]) -> Option<usize> {
        // One byte less than the input is the most that is of use, and tells a method early that it
        // has lost.
        let useful = output.len().min(input.len().saturating_sub(1));
        match method {
            Compression::None => {
                output.get_mut(..input.len())?.copy_from_slice(input);
                Some(input.len())
            }
            Compression::Zero => (!input.is_empty() && leading_zeroes(input) == input.len()).then_some(0),
            Compression::Rtime => {
                let (consumed, produced) = rtime::compress(input, output.get_mut(..useful)?);
                (consumed == input.len() && produced < consumed).then_some(produced)
            }
            Compression::RubinMips
            | Compression::DynRubin
            | Compression::Lz4
            | Compression::Zstd
            | Compression::Lzma(_) => None,
            Compression::Zlib => self.zlib.compress(level, input, output.get_mut(..useful)?),
            Compression::Lzo => self.lzo.compress(level, input, output.get_mut(..useful)?),
        }
    }

    /// Compresses as much of the start of `input` as fits into `output` and returns the bytes
    /// consumed and produced: at least one consumed, and fewer produced than consumed, except that
    /// [`Compression::None`] produces as many.
    ///
    /// `None` under the conditions of [`Compressor::compress`]; LZO is all or nothing, as in Linux.
    /// Zlib tries up to eight lengths and keeps the longest that fits; the prefix may be some bytes
    /// shorter than the longest possible.
    pub fn compress_prefix(
        &mut self,
        method: Compression,
        level: Level,
        input: &[u8],
        output: &mut [u8],
    ) -> Option<(usize, usize)> {
        match method {
            Compression::None => {
                let length = input.len().min(output.len());
                output.get_mut(..length)?.copy_from_slice(input.get(..length)?);
                (length > 0).then_some((length, length))
            }
            Compression::Zero => {
                let zeroes = leading_zeroes(input);
                (zeroes > 0).then_some((zeroes, 0))
            }
            Compression::Rtime => {
                let (consumed, produced) = rtime::compress(input, output);
                (produced < consumed).then_some((consumed, produced))
            }
            Compression::Zlib => self.zlib.compress_prefix(level, input, output),
            Compression::RubinMips
            | Compression::DynRubin
            | Compression::Lzo
            | Compression::Lz4
            | Compression::Zstd
            | Compression::Lzma(_) => Some((input.len(), self.compress(method, level, input, output)?)),
        }
    }
}

/// Decompresses, with working memory that is allocated at the first use of a method and kept.
#[derive(Default)]
pub struct Decompressor {
    zlib: zlib::Decompressor,
    zstd: zstd::Decompressor,
}

impl Decompressor {
    /// A decompressor that has not allocated yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses `input` to exactly `output.len()` bytes.
    ///
    /// As in Linux, bytes after the end of a [`Compression::Zlib`] stream and bytes that
    /// [`Compression::Rtime`] and [`Compression::Lzma`] do not need to fill the output are ignored;
    /// [`Compression::None`] and [`Compression::Lzo`] must use up the input. The input of
    /// [`Compression::Zero`] is not looked at.
    ///
    /// Memory besides `output` is bounded (under 64 KiB; Zstandard's tables and window under 256
    /// KiB and the output's length), time is linear in both lengths.
    ///
    /// # Errors
    /// Damaged input, or input that makes more or less than `output.len()` bytes. What `output`
    /// then holds is unspecified.
    pub fn decompress(&mut self, method: Compression, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        let done = match method {
            Compression::None => copy(input, output),
            Compression::Zero => {
                output.fill(0);
                Ok(())
            }
            Compression::Rtime => rtime::decompress(input, output),
            Compression::RubinMips => rubin::decompress_mips(input, output),
            Compression::DynRubin => rubin::decompress_dynamic(input, output),
            Compression::Zlib => self.zlib.decompress(input, output),
            Compression::Lzo => lzo::decompress(input, output),
            Compression::Lz4 => lz4::decompress(input, output),
            Compression::Zstd => self.zstd.decompress(input, output),
            Compression::Lzma(properties) => lzma::decompress(properties, input, output),
        };
        done.map_err(|stop| stop.of(method))
    }
}

/// [`Decompressor::decompress`] for a single buffer; allocates what the method needs each time.
///
/// # Errors
/// Those of [`Decompressor::decompress`].
pub fn decompress(method: Compression, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
    Decompressor::new().decompress(method, input, output)
}

fn copy(input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    let common = input.len().min(output.len());
    if input.len() < output.len() {
        return Err(Stop::new(Fault::InputEnds, common, common));
    }
    if input.len() > output.len() {
        return Err(Stop::new(Fault::OutputFull, common, common));
    }
    output.copy_from_slice(input);
    Ok(())
}

/// Copies from `source` to `made..end` as if byte by byte: what was just written is copied again,
/// in pieces that double. The caller has checked `source < made <= end <= output.len()`.
fn repeat(output: &mut [u8], source: usize, mut made: usize, end: usize) {
    while made < end {
        let piece = (made - source).min(end - made);
        output.copy_within(source..source + piece, made);
        made += piece;
    }
}

fn leading_zeroes(input: &[u8]) -> usize {
    input.iter().position(|&byte| byte != 0).unwrap_or(input.len())
}
