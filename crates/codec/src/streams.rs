//! Compressed streams of gzip, xz, zstd, lz4 and bzip2: one or more consecutive frames.
//!
//! Sources: RFC 1952 (gzip), the .xz file format 1.2.1, RFC 8878 (zstd and skippable frames), the
//! LZ4 frame format 1.6.4 with legacy frames, bzip2 1.0.8. Decoders: the crates flate2, lzma-rust2,
//! zstd, lz4_flex, bzip2.

use std::io::{self, Read, Write};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;

/// Bytes decoded per step.
const PIECE: usize = 1 << 18;
/// Memory limit of an xz decoder in KiB: `xz -9` needs 64 MiB.
const XZ_KIB_MAX: u32 = 256 << 10;
/// Base-2 logarithm of the largest zstd window: the limit of the zstd program without `--long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Most skippable frames before the first frame with data.
const SKIPPED_MAX: usize = 16;
/// First bytes of a legacy LZ4 frame, as used for Linux kernels.
const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4C, 0x18];
/// Uncompressed bytes per block of a legacy frame; the last block may have fewer.
const LZ4_LEGACY_BLOCK: usize = 8 << 20;

/// A compressed stream format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Stream {
    Gzip,
    Xz,
    Zstd,
    Lz4,
    Bzip2,
}

/// The result of decompressing a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of bytes written.
    pub bytes: u64,
    /// Number of input bytes up to the end of the last frame.
    pub consumed: usize,
}

impl Stream {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Gzip, Self::Xz, Self::Zstd, Self::Lz4, Self::Bzip2];

    /// The format that bytes start with. Cost: a look at the first bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        for _ in 0..SKIPPED_MAX {
            let Some(length) = skippable(rest) else { break };
            rest = rest.get(length..)?;
        }
        let behind_skipped = rest.len() < bytes.len();
        let found = Self::ALL.into_iter().find(|stream| stream.begins(rest));
        found.filter(|stream| !behind_skipped || matches!(stream, Self::Zstd | Self::Lz4))
    }

    /// The name of the program for this format.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
        }
    }

    /// Whether a frame with data starts here.
    fn begins(self, bytes: &[u8]) -> bool {
        match self {
            // Deflate is the only method; the upper three flags are reserved.
            Self::Gzip => bytes.starts_with(&[0x1F, 0x8B, 8]) && bytes.get(3).is_none_or(|flags| flags & 0xE0 == 0),
            Self::Xz => bytes.starts_with(&[0xFD, b'7', b'z', b'X', b'Z', 0]),
            Self::Zstd => bytes.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]),
            Self::Lz4 => bytes.starts_with(&[0x04, 0x22, 0x4D, 0x18]) || bytes.starts_with(&LZ4_LEGACY),
            // A level, followed by a block (the digits of pi) or the end (those of its square
            // root).
            Self::Bzip2 => matches!(
                bytes,
                [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
                    | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..]
            ),
        }
    }

    /// Decodes all frames into `to`, which may stop it with an error. Data after the last frame are
    /// not read: [`Unpacked::consumed`] is their offset.
    ///
    /// Errors: `UnexpectedEof` for an incomplete frame; `InvalidData` and others for invalid data,
    /// a wrong checksum, or a stream that needs more than 256 MiB of memory; those of `to`. Cost:
    /// one pass, and that memory.
    pub fn unpack(self, input: &[u8], to: &mut dyn Write) -> io::Result<Unpacked> {
        let (mut bytes, mut rest) = (0_u64, input);
        while !rest.is_empty() {
            if let Some(length) = skippable(rest).filter(|_| matches!(self, Self::Zstd | Self::Lz4)) {
                let Some(behind) = rest.get(length..) else { return Err(io::ErrorKind::UnexpectedEof.into()) };
                rest = behind;
                continue;
            }
            if rest.len() < input.len() && !self.begins(rest) {
                break;
            }
            let (written, behind) = self.frame(rest, to)?;
            bytes = bytes.saturating_add(written);
            if behind.len() == rest.len() {
                break;
            }
            rest = behind;
        }
        Ok(Unpacked { bytes, consumed: input.len() - rest.len() })
    }

    /// Decodes one frame; returns its decoded length and the rest of the input.
    fn frame<'a>(self, input: &'a [u8], to: &mut dyn Write) -> io::Result<(u64, &'a [u8])> {
        match self {
            Self::Gzip => {
                let mut decoder = GzDecoder::new(input);
                let written = copy(&mut decoder, to)?;
                Ok((written, decoder.into_inner()))
            }
            Self::Xz => {
                let mut decoder = XzReader::new_mem_limit(input, false, XZ_KIB_MAX);
                let written = copy(&mut decoder, to)?;
                Ok((written, decoder.into_inner()))
            }
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(input)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                let written = copy(&mut decoder, to)?;
                Ok((written, decoder.finish()))
            }
            Self::Lz4 if input.starts_with(&LZ4_LEGACY) => lz4_legacy(input, to),
            Self::Lz4 => lz4_frame(input, to),
            Self::Bzip2 => {
                let mut decoder = BzDecoder::new(input);
                let written = copy(&mut decoder, to)?;
                Ok((written, decoder.into_inner()))
            }
        }
    }
}

/// The length of a skippable frame, which holds no data of the stream; the same for zstd and LZ4.
fn skippable(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let is_one = word(0)? & 0xFFFF_FFF0 == 0x184D_2A50;
    is_one.then_some(())?;
    usize::try_from(word(4)?).ok()?.checked_add(8)
}

fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<u64> {
    let (mut buffer, mut written) = (vec![0; PIECE], 0);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(written),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..count).unwrap_or_default())?;
        written += count as u64;
    }
}

/// An input that records whether more was requested than it had.
struct Told<'a> {
    rest: &'a [u8],
    starved: bool,
}

impl Read for Told<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.starved |= self.rest.len() < into.len();
        self.rest.read(into)
    }
}

/// lz4_flex accepts an input that ends between two blocks as a complete frame, and an empty block
/// as the end, so the end mark is checked here.
fn lz4_frame<'a>(input: &'a [u8], to: &mut dyn Write) -> io::Result<(u64, &'a [u8])> {
    let has_checksum = input.get(4).is_some_and(|flags| flags & 4 != 0);
    let mark = if has_checksum { 8 } else { 4 };
    let mut decoder = FrameDecoder::new(Told { rest: input, starved: false });
    let (mut written, mut left) = (0, usize::MAX);
    loop {
        written += copy(&mut decoder, to)?;
        let Told { rest, starved } = *decoder.get_ref();
        // A header has at least seven bytes, and the mark comes after it.
        let end = (input.len() - rest.len()).checked_sub(mark).filter(|at| *at >= 7);
        if starved || rest.len() == left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if end.and_then(|at| input.get(at..at + 4)) == Some(&[0; 4]) {
            return Ok((written, rest));
        }
        left = rest.len();
    }
}

/// Decodes a legacy frame: blocks preceded by their lengths, up to a value that is no block length:
/// the end of the input, padding, or another frame. An input truncated between two blocks cannot be
/// detected.
fn lz4_legacy<'a>(input: &'a [u8], to: &mut dyn Write) -> io::Result<(u64, &'a [u8])> {
    let mut rest = input.get(LZ4_LEGACY.len()..).unwrap_or_default();
    let (mut written, mut block) = (0, Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > lz4_flex::block::get_maximum_output_size(LZ4_LEGACY_BLOCK) {
            break;
        }
        let (packed, behind) = behind.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        block.resize(LZ4_LEGACY_BLOCK, 0);
        let count = lz4_flex::block::decompress_into(packed, &mut block)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        to.write_all(block.get(..count).unwrap_or_default())?;
        written += count as u64;
        rest = behind;
    }
    match rest.len() {
        1..4 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok((written, rest)),
    }
}
