//! Streams as gzip, xz, zstd, lz4 and bzip2 write them: one or several frames that follow each
//! other.
//!
//! Sources: RFC 1952 (gzip), the .xz file format 1.2.1, RFC 8878 (zstd and skippable frames), the
//! LZ4 frame format 1.6.4 with its legacy frames, bzip2 1.0.8. The decoders are those of the crates
//! flate2, lzma-rust2, zstd, lz4_flex, bzip2.

use std::io::{self, Read, Write};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;

/// Bytes that are decoded at once.
const PIECE: usize = 1 << 18;
/// Memory of a decoder of xz, KiB: `xz -9` asks for 64 MiB.
const XZ_KIB_MAX: u32 = 256 << 10;
/// The largest window of zstd as a power of two: what the program takes without `--long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Skippable frames that are passed over in front of the first frame with data.
const SKIPPED_MAX: usize = 16;
/// First bytes of a legacy frame of LZ4, as Linux compresses kernels.
const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4C, 0x18];
/// Bytes of each block of one when unpacked; the last one may have fewer.
const LZ4_LEGACY_BLOCK: usize = 8 << 20;

/// A form of compressed streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Stream {
    Gzip,
    Xz,
    Zstd,
    Lz4,
    Bzip2,
}

/// What a stream came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Bytes that were written.
    pub bytes: u64,
    /// Bytes of the input up to the end of the last frame.
    pub consumed: usize,
}

impl Stream {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gzip, Self::Xz, Self::Zstd, Self::Lz4, Self::Bzip2];

    /// The form that bytes begin with. Cost: a look at the first bytes.
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

    /// The program of this name writes and reads it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
        }
    }

    /// Whether a frame with data begins here.
    fn begins(self, bytes: &[u8]) -> bool {
        match self {
            // Deflate is the one method; the upper three flags are reserved.
            Self::Gzip => bytes.starts_with(&[0x1F, 0x8B, 8]) && bytes.get(3).is_none_or(|flags| flags & 0xE0 == 0),
            Self::Xz => bytes.starts_with(&[0xFD, b'7', b'z', b'X', b'Z', 0]),
            Self::Zstd => bytes.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]),
            Self::Lz4 => bytes.starts_with(&[0x04, 0x22, 0x4D, 0x18]) || bytes.starts_with(&LZ4_LEGACY),
            // A level, and a block (the digits of pi) or the end (those of its root).
            Self::Bzip2 => matches!(
                bytes,
                [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
                    | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..]
            ),
        }
    }

    /// Decodes all frames into `to`, which may end it by an error of its own. What is behind the
    /// last frame is left: [`Unpacked::consumed`] tells where it begins.
    ///
    /// Errors: `UnexpectedEof` for a frame without an end; `InvalidData` and others for what is no
    /// such stream, has a wrong checksum or needs more memory than 256 MiB; those of `to`. Cost:
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

    /// Decodes one frame: how many bytes it has, and what is behind it.
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

/// Bytes of a skippable frame, which holds no data of the stream; the same for zstd and LZ4.
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

/// An input that tells whether more was asked for than it had.
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

/// lz4_flex takes an input that ends between two blocks for a frame that ends there, and an empty
/// block for the end: the end mark is looked for here.
fn lz4_frame<'a>(input: &'a [u8], to: &mut dyn Write) -> io::Result<(u64, &'a [u8])> {
    let has_checksum = input.get(4).is_some_and(|flags| flags & 4 != 0);
    let mark = if has_checksum { 8 } else { 4 };
    let mut decoder = FrameDecoder::new(Told { rest: input, starved: false });
    let (mut written, mut left) = (0, usize::MAX);
    loop {
        written += copy(&mut decoder, to)?;
        let Told { rest, starved } = *decoder.get_ref();
        // A header has seven bytes at the least, and the mark stands behind it.
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

/// A legacy frame: blocks, each behind its length, up to what is no length of one: the end of the
/// input, padding, another frame. That the input is cut off between two blocks does not show.
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
