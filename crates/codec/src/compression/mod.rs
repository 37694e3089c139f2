//! Compression as in Linux' flash file systems (JFFS2, UBIFS, F2FS): whole buffers whose
//! uncompressed length the format stores.
//!
//! Each method has its own file; `docs/formats/compression.md` describes the streams.
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
    /// Uncompressed bytes.
    None,
    /// No input bytes: the output is all zero.
    Zero,
    /// JFFS2's rtime: pairs of a literal and the length of a copy from after the literal's last
    /// occurrence.
    Rtime,
    /// JFFS2's arithmetic code with fixed probabilities; decompression only.
    RubinMips,
    /// JFFS2's arithmetic code preceded by its probabilities; decompression only.
    DynRubin,
    /// A zlib stream (RFC 1950): header, deflate, Adler-32.
    Zlib,
    /// LZO1X. Also reads Linux's lzo-rle ("version 1" of the stream), but never writes it.
    Lzo,
    /// An LZ4 block without a frame; decompression only.
    Lz4,
    /// A Zstandard frame (RFC 8878); decompression only.
    Zstd,
    /// A raw LZMA stream, as in vendors' JFFS2; decompression only.
    Lzma(LzmaProperties),
}

impl Compression {
    /// All methods, in the order of declaration.
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

    /// Whether a [`Compressor`] supports the method. All others can only be decompressed.
    pub const fn can_compress(self) -> bool {
        !matches!(self, Self::RubinMips | Self::DynRubin | Self::Lz4 | Self::Lzma(_))
    }
}

/// The effort of searching matches, 1 to 9. Only [`Compression::Zlib`] and [`Compression::Lzo`] use
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// The fastest level.
    pub const FASTEST: Self = Self(1);
    /// The level that Linux's JFFS2 uses for zlib (`fs/jffs2/compr_zlib.c`).
    pub const LINUX: Self = Self(3);
    /// The level with the smallest result, which mkfs.jffs2 uses.
    pub const BEST: Self = Self(9);

    /// The given level, clamped to 1 to 9.
    pub const fn new(level: u8) -> Self {
        match level {
            0 => Self::FASTEST,
            1..=9 => Self(level),
            _ => Self::BEST,
        }
    }

    /// The level, 1 to 9.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Compresses with working memory that is allocated at the first use of a method and then kept.
///
/// The result depends only on the arguments, not on earlier calls.
#[derive(Default)]
pub struct Compressor {
    zlib: zlib::Compressor,
    lzo: lzo::Compressor,
    zstd: zstd::Compressor,
}

impl Compressor {
    /// A compressor without allocated memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compresses all of `input` into the start of `output` and returns the number of bytes
    /// produced: fewer than in the input, except that [`Compression::None`] produces equally many.
    /// For [`Compression::Zero`] it is 0 if all of a non-empty input is zero.
    ///
    /// `None` if the input does not shrink, the result does not fit, or the method supports only
    /// decompression; the content of `output` is then unspecified.
    pub fn compress(&mut self, method: Compression, level: Level, input: &[u8], output: &mut [u8]) -> Option<usize> {
        // A result is useful only if it is shorter than the input; this limit lets a method give up
        // early.
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
            Compression::RubinMips | Compression::DynRubin | Compression::Lz4 | Compression::Lzma(_) => None,
            Compression::Zstd => self.zstd.compress(input, output.get_mut(..useful)?),
            Compression::Zlib => self.zlib.compress(level, input, output.get_mut(..useful)?),
            Compression::Lzo => self.lzo.compress(level, input, output.get_mut(..useful)?),
        }
    }

    /// Compresses as much of the start of `input` as fits into `output`; returns the bytes consumed
    /// and produced. At least one is consumed, and fewer are produced than consumed, except that
    /// [`Compression::None`] produces equally many.
    ///
    /// `None` under the conditions of [`Compressor::compress`]; LZO is all or nothing, as in Linux.
    /// Zlib tries up to eight lengths and keeps the longest that fits; the prefix may be a few
    /// bytes shorter than possible.
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

/// Decompresses with working memory that is allocated at the first use of a method and then kept.
#[derive(Default)]
pub struct Decompressor {
    zlib: zlib::Decompressor,
    zstd: zstd::Decompressor,
}

impl Decompressor {
    /// A decompressor without allocated memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses `input` to exactly `output.len()` bytes.
    ///
    /// As in Linux, bytes after the end of a [`Compression::Zlib`] stream, and bytes that
    /// [`Compression::Rtime`] and [`Compression::Lzma`] do not need to fill the output, are
    /// ignored; [`Compression::None`] and [`Compression::Lzo`] must use up the input.
    /// [`Compression::Zero`] ignores its input.
    ///
    /// Memory besides `output` is bounded (under 64 KiB; for Zstandard's tables and window under
    /// 256 KiB plus the output's length). Time is linear in both lengths.
    ///
    /// # Errors
    /// Damaged input, or input that yields more or fewer than `output.len()` bytes. The content of
    /// `output` is then unspecified.
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

/// [`Decompressor::decompress`] for a single buffer; allocates the method's memory each time.
///
/// # Errors
/// The errors of [`Decompressor::decompress`].
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

/// Copies from `source` to `made..end` as if byte by byte, so that the copy may repeat bytes just
/// written; works in doubling pieces. The caller has checked `source < made <= end <=
/// output.len()`.
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
