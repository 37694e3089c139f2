//! Android sparse images, as `fastboot` sends and `img2simg` makes them: a header, followed by
//! chunks of raw blocks, of one repeated word, or of blocks with don't-care content.
//!
//! Source: libsparse of the Android Open Source Project, `sparse_format.h` (structures),
//! `sparse_read.cpp` and `output_file.cpp` (what a checksum covers). All numbers are little-endian.
//!
//! header, 28 bytes: magic 0xED26FF3A (4), version 1.0 (2, 2), sizes of the header and of a chunk
//! header (2, 2), block size, a multiple of 4 (4), blocks (4), chunks (4), checksum (4, mostly 0).
//! chunk, 12 bytes: type (2), 0 (2), blocks (4), length including its header (4), followed by the
//! blocks or the word (types 0xCAC1, 0xCAC2), by nothing (0xCAC3), or by the CRC-32 of everything
//! before (0xCAC4).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use crate::error::{ImageError, ImageErrorKind, Result};

/// The first four bytes of a sparse image.
pub const MAGIC: u32 = 0xED26_FF3A;

const HEADER: usize = 28;
const CHUNK_HEADER: usize = 12;
const RAW: u16 = 0xCAC1;
const FILL: u16 = 0xCAC2;
const DO_NOT_CARE: u16 = 0xCAC3;
const CHECKSUM: u16 = 0xCAC4;
/// Block size of written images.
const BLOCK: usize = 4096;
/// Most blocks in a written raw chunk: its length is a 32-bit number, and it is collected in
/// memory.
const RAW_MAX: usize = 256;
/// Bytes per step.
const PIECE: usize = 1 << 20;

/// The result of unpacking or packing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseReport {
    /// Length of the image in its non-sparse form.
    pub bytes: u64,
    /// Number of chunks.
    pub chunks: u32,
    /// Bytes of raw chunks.
    pub raw_bytes: u64,
    /// For an unpacked image: the byte ranges that chunks define, in ascending order, adjacent ones
    /// joined. All other bytes do not matter, or are in another part of a split image.
    pub given: Vec<Range<u64>>,
}

impl SparseReport {
    /// The bytes that no chunk defines, in ascending order.
    pub fn left_out(&self) -> Vec<Range<u64>> {
        let starts = std::iter::once(0).chain(self.given.iter().map(|given| given.end));
        let ends = self.given.iter().map(|given| given.start).chain([self.bytes]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
    }
}

/// Whether bytes are the beginning of a sparse image.
pub fn is_sparse(beginning: &[u8]) -> bool {
    beginning.starts_with(&MAGIC.to_le_bytes())
}

fn corrupt(detail: String) -> ImageError {
    ImageError::new(ImageErrorKind::Corrupt, format!("Android sparse image: {detail}"))
}

fn failed(what: &str, error: io::Error) -> ImageError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return corrupt(format!("it ends within {what}"));
    }
    ImageError { source: Some(error), ..ImageError::new(ImageErrorKind::Io, format!("cannot go on at {what}")) }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<2>).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<4>).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Writes the whole image to `to`, which must be empty; don't-care content and zero fill become
/// holes. The caller must then set the length of `to` to [`SparseReport::bytes`].
///
/// Errors: `Corrupt` for data that are no sparse image, end too early, are inconsistent, have a
/// wrong checksum, or exceed `most` bytes; `Io`. Cost: the raw and filled bytes, 1 MiB of memory.
pub fn unpack(from: &mut dyn Read, to: &mut (impl Write + Seek), most: u64) -> Result<SparseReport> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header).map_err(|error| failed("the header", error))?;
    let (magic, major, block) = (word(&header, 0), half(&header, 4), u64::from(word(&header, 12)));
    let (header_bytes, chunk_bytes) = (usize::from(half(&header, 8)), usize::from(half(&header, 10)));
    if magic != MAGIC {
        return Err(corrupt(format!("it begins with {magic:#010x}; expected {MAGIC:#010x}")));
    }
    if major != 1 || header_bytes < HEADER || chunk_bytes < CHUNK_HEADER || block == 0 || !block.is_multiple_of(4) {
        return Err(corrupt(format!(
            "version {major}, headers of {header_bytes} and {chunk_bytes} bytes, blocks of {block}; expected version 1, at least {HEADER} and {CHUNK_HEADER}, and a multiple of 4"
        )));
    }
    let (blocks, chunks) = (u64::from(word(&header, 16)), word(&header, 20));
    let bytes = blocks * block;
    if bytes > most {
        return Err(corrupt(format!("{bytes} bytes when unpacked; at most {most} are expected")));
    }
    skip(from, header_bytes - HEADER)?;
    let mut unpacked =
        Unpacked { from, to, at: 0, end: bytes, crc: crc32fast::Hasher::new(), raw: 0, given: Vec::new() };
    for number in 0..chunks {
        unpacked.chunk(number, block, chunk_bytes)?;
    }
    if unpacked.at != bytes {
        return Err(corrupt(format!("its chunks have {} bytes, its header says {bytes}", unpacked.at)));
    }
    Ok(SparseReport { bytes, chunks, raw_bytes: unpacked.raw, given: unpacked.given })
}

/// Writes the image that the parts of a split image form together, in any order; see [`unpack`].
/// Errors: also `Corrupt` if two parts define the same bytes, with their numbers from 1. Cost: that
/// of each part.
pub fn unpack_parts(parts: &[&[u8]], to: &mut (impl Write + Seek), most: u64) -> Result<SparseReport> {
    let mut all = SparseReport::default();
    let mut given: Vec<(Range<u64>, usize)> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let mut from = *part;
        let report = unpack(&mut from, to, most).map_err(|error| match parts.len() {
            1 => error,
            _ => ImageError { detail: format!("part {}: {}", number + 1, error.detail), ..error },
        })?;
        all.bytes = all.bytes.max(report.bytes);
        all.chunks = all.chunks.saturating_add(report.chunks);
        all.raw_bytes += report.raw_bytes;
        given.extend(report.given.into_iter().map(|range| (range, number)));
    }
    given.sort_by_key(|(range, _)| range.start);
    for pair in given.windows(2) {
        if let [(one, first), (two, second)] = pair
            && two.start < one.end
        {
            let end = one.end.min(two.end);
            return Err(corrupt(format!(
                "parts {} and {} both give the bytes from {} to {end}, so that they are not parts of one image",
                first + 1,
                second + 1,
                two.start
            )));
        }
    }
    for (range, _) in given {
        match all.given.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => all.given.push(range),
        }
    }
    Ok(all)
}

fn skip(from: &mut dyn Read, bytes: usize) -> Result<()> {
    let mut rest = vec![0; bytes];
    from.read_exact(&mut rest).map_err(|error| failed("a header", error))
}

struct Unpacked<'a, T> {
    from: &'a mut dyn Read,
    to: &'a mut T,
    at: u64,
    end: u64,
    crc: crc32fast::Hasher,
    raw: u64,
    given: Vec<Range<u64>>,
}

impl<T: Write + Seek> Unpacked<'_, T> {
    fn chunk(&mut self, number: u32, block: u64, header_bytes: usize) -> Result<()> {
        let place = format!("chunk {number}");
        let mut header = [0; CHUNK_HEADER];
        self.from.read_exact(&mut header).map_err(|error| failed(&place, error))?;
        skip(self.from, header_bytes - CHUNK_HEADER)?;
        let (kind, length) = (half(&header, 0), u64::from(word(&header, 4)) * block);
        let body = u64::from(word(&header, 8)).checked_sub(header_bytes as u64);
        let expected = match kind {
            RAW => length,
            FILL | CHECKSUM => 4,
            DO_NOT_CARE => 0,
            other => return Err(corrupt(format!("{place} is of type {other:#06x}"))),
        };
        let length = if kind == CHECKSUM { 0 } else { length };
        if body != Some(expected) || length > self.end - self.at {
            return Err(corrupt(format!("{place} of type {kind:#06x} has {length} bytes in {}", word(&header, 8))));
        }
        match kind {
            RAW => {
                self.give(length);
                self.raw(length, &place)
            }
            DO_NOT_CARE => self.hole(length),
            _ => {
                self.give(length);
                let mut value = [0; 4];
                self.from.read_exact(&mut value).map_err(|error| failed(&place, error))?;
                match kind {
                    FILL if value == [0; 4] => self.hole(length),
                    FILL => self.fill(value, length, &place),
                    _ => self.check(u32::from_le_bytes(value), &place),
                }
            }
        }
    }

    /// Records that the next bytes are defined.
    fn give(&mut self, length: u64) {
        match self.given.last_mut().filter(|last| last.end == self.at) {
            Some(last) => last.end += length,
            None if length > 0 => self.given.push(self.at..self.at + length),
            None => {}
        }
    }

    fn raw(&mut self, length: u64, place: &str) -> Result<()> {
        let mut buffer = vec![0; length.min(PIECE as u64) as usize];
        let mut left = length;
        self.seek(place)?;
        while left > 0 {
            let count = left.min(buffer.len() as u64) as usize;
            let piece = buffer.get_mut(..count).unwrap_or(&mut []);
            self.from.read_exact(piece).map_err(|error| failed(place, error))?;
            self.to.write_all(piece).map_err(|error| failed(place, error))?;
            self.crc.update(piece);
            left -= count as u64;
        }
        self.raw += length;
        self.at += length;
        Ok(())
    }

    fn fill(&mut self, value: [u8; 4], length: u64, place: &str) -> Result<()> {
        let buffer = value.repeat(length.min(PIECE as u64) as usize / 4);
        let mut left = length;
        self.seek(place)?;
        while left > 0 {
            let piece = buffer.get(..left.min(buffer.len() as u64) as usize).unwrap_or(&[]);
            self.to.write_all(piece).map_err(|error| failed(place, error))?;
            self.crc.update(piece);
            left -= piece.len() as u64;
        }
        self.at += length;
        Ok(())
    }

    fn hole(&mut self, length: u64) -> Result<()> {
        self.crc.combine(&zeroes(length));
        self.at += length;
        Ok(())
    }

    fn seek(&mut self, place: &str) -> Result<()> {
        self.to.seek(SeekFrom::Start(self.at)).map(drop).map_err(|error| failed(place, error))
    }

    fn check(&self, expected: u32, place: &str) -> Result<()> {
        let found = self.crc.clone().finalize();
        if found == expected {
            return Ok(());
        }
        Err(corrupt(format!("{place}: the checksum up to byte {} is {found:#010x}, it says {expected:#010x}", self.at)))
    }
}

/// The checksum of `length` zeroes. Cost: logarithmic.
fn zeroes(length: u64) -> crc32fast::Hasher {
    let (mut sum, mut power, mut left) = (crc32fast::Hasher::new(), crc32fast::Hasher::new(), length);
    power.update(&[0]);
    while left > 0 {
        if left & 1 == 1 {
            sum.combine(&power);
        }
        let again = power.clone();
        power.combine(&again);
        left >>= 1;
    }
    sum
}

/// A chunk being collected.
enum Gathered {
    Nothing,
    Raw(Vec<u8>),
    Fill([u8; 4], u32),
}

/// Packs an image of whole 4 KiB blocks. Zero blocks are written as such, because the image's
/// content may rely on them. `to` must be empty; its header is written last.
///
/// Errors: `Layout` for a length that is no multiple of the block, or has 2^32 blocks or more;
/// `Io`. Cost: one pass, 1 MiB of memory.
pub fn pack(from: &mut impl Read, bytes: u64, to: &mut (impl Write + Seek)) -> Result<SparseReport> {
    pack_but(from, bytes, to, &mut |_, at| Ok(at))
}

/// Packs an image file without reading its holes. Errors: those of [`pack`]. Cost: one pass over
/// its data.
pub fn pack_file(from: &mut File, bytes: u64, to: &mut (impl Write + Seek)) -> Result<SparseReport> {
    pack_but(from, bytes, to, &mut |file, at| {
        let data = match rustix::fs::seek(&*file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data.min(bytes) / BLOCK as u64 * BLOCK as u64,
            Err(rustix::io::Errno::NXIO) => bytes,
            // The file system does not report holes.
            Err(_) => at,
        };
        file.seek(SeekFrom::Start(data)).map(|_| data)
    })
}

/// After a zero block, `jump` returns the next block that may be non-zero, and moves `from` there.
fn pack_but<R: Read>(
    from: &mut R,
    bytes: u64,
    to: &mut (impl Write + Seek),
    jump: &mut dyn FnMut(&mut R, u64) -> io::Result<u64>,
) -> Result<SparseReport> {
    let blocks = u32::try_from(bytes / BLOCK as u64).ok().filter(|_| bytes.is_multiple_of(BLOCK as u64));
    let Some(blocks) = blocks else {
        return Err(ImageError::layout(format!(
            "an image of {bytes} bytes; expected fewer than 2^32 blocks of {BLOCK}"
        )));
    };
    let mut packed = Packed { to, report: SparseReport { bytes, ..SparseReport::default() } };
    packed.put(&[0; HEADER])?;
    let (mut gathered, mut block, mut number) = (Gathered::Nothing, vec![0; BLOCK], 0);
    while number < blocks {
        let failed_here = |error| failed(&format!("block {number}"), error);
        from.read_exact(&mut block).map_err(failed_here)?;
        let (words, _) = block.as_chunks::<4>();
        let same = words.first().copied().filter(|first| words.iter().all(|word| word == first));
        let behind = u64::from(number) + 1;
        let next = match same {
            Some([0, 0, 0, 0]) if behind < u64::from(blocks) => {
                jump(from, behind * BLOCK as u64).map_err(failed_here)? / BLOCK as u64
            }
            _ => behind,
        };
        let next = u32::try_from(next).unwrap_or(blocks).clamp(number + 1, blocks);
        let count = next - number;
        gathered = match (gathered, same) {
            (Gathered::Fill(value, before), Some(word)) if value == word => Gathered::Fill(value, before + count),
            (Gathered::Raw(mut bytes), None) if bytes.len() < RAW_MAX * BLOCK => {
                bytes.extend_from_slice(&block);
                Gathered::Raw(bytes)
            }
            (before, same) => {
                packed.chunk(&before)?;
                same.map_or_else(|| Gathered::Raw(block.clone()), |word| Gathered::Fill(word, count))
            }
        };
        number = next;
    }
    packed.chunk(&gathered)?;
    packed.to.seek(SeekFrom::Start(0)).map_err(|error| failed("the header", error))?;
    let (chunks, report) = (packed.report.chunks, packed.report.clone());
    let sizes = (HEADER as u32) | (CHUNK_HEADER as u32) << 16;
    let header = [MAGIC, 1, sizes, BLOCK as u32, blocks, chunks, 0];
    packed.put(&header.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())?;
    Ok(report)
}

struct Packed<'a, T> {
    to: &'a mut T,
    report: SparseReport,
}

impl<T: Write> Packed<'_, T> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(|error| failed("the sparse image", error))
    }

    fn chunk(&mut self, gathered: &Gathered) -> Result<()> {
        let (kind, blocks, body) = match gathered {
            Gathered::Nothing => return Ok(()),
            Gathered::Raw(bytes) => (RAW, (bytes.len() / BLOCK) as u32, &bytes[..]),
            Gathered::Fill(value, count) => (FILL, *count, &value[..]),
        };
        self.report.chunks += 1;
        self.report.raw_bytes += if kind == RAW { body.len() as u64 } else { 0 };
        let header = [u32::from(kind), blocks, (CHUNK_HEADER + body.len()) as u32];
        self.put(&header.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())?;
        self.put(body)
    }
}
