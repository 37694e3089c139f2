//! The journal next to an image: the changes of a sync. Little-endian throughout. The format is
//! nandkit's own and defined by this file.
//!
//! ```text
//! header    magic "NANDKDJ1" · u32 version 1 · u32 pieces · u64 length of the journal · u64 length of the image · u64 length of the OOB file ·
//!           u32 CRC-32 of what is left unchanged (samples, see `fingerprint`) · u32 CRC-32 of the header before this field
//! piece     u8 file (0 image, 1 OOB file) · u8 kind (0 bytes, 1 erased) · 6 bytes 0 · u64 offset · u64 length · the bytes (kind 0)
//! end       u32 CRC-32 of all before it
//! ```
//!
//! The journal is valid if its length matches and its last CRC holds; otherwise it is the remains
//! of a sync that did not happen.

use std::io::{self, Write};

use crate::pieces::{Piece, PieceContent};

const MAGIC: &[u8; 8] = b"NANDKDJ1";
const VERSION: u32 = 1;
const HEADER: usize = 48;
const PIECE: usize = 24;
const SAMPLES: u64 = 64;
const SAMPLE: usize = 512;
/// The growth in bytes allowed to an image however short: one block, which is never larger.
const GROWTH: u64 = 64 << 20;

/// Writes the journal of these pieces. `sources` are the image and the OOB file before the changes.
pub(crate) fn encode(pieces: &[Piece<'_>], sources: [&[u8]; 2], out: &mut impl Write) -> io::Result<()> {
    let count = u32::try_from(pieces.len()).map_err(|_| io::Error::other("too many changes for one sync"))?;
    if !is_bounded(pieces, lengths_of(sources)) {
        return Err(io::Error::other(format!(
            "the changes would make a file of {} bytes grow beyond twice that and {GROWTH} bytes more: is the block size right?",
            sources.map(<[u8]>::len).into_iter().max().unwrap_or(0)
        )));
    }
    let payload = |piece: &Piece<'_>| if matches!(piece.content, PieceContent::Bytes(_)) { piece.len() } else { 0 };
    let length = pieces.iter().map(|piece| PIECE as u64 + payload(piece)).sum::<u64>() + HEADER as u64 + 4;
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&count.to_le_bytes());
    header.extend_from_slice(&length.to_le_bytes());
    for source in sources {
        header.extend_from_slice(&(source.len() as u64).to_le_bytes());
    }
    header.extend_from_slice(&fingerprint(pieces, sources, lengths_of(sources)).to_le_bytes());
    header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    let mut put = |bytes: &[u8]| {
        crc.update(bytes);
        out.write_all(bytes)
    };
    put(&header)?;
    for piece in pieces {
        let kind = u8::from(matches!(piece.content, PieceContent::Erased(_)));
        put(&[piece.file, kind, 0, 0, 0, 0, 0, 0])?;
        put(&piece.offset.to_le_bytes())?;
        put(&piece.len().to_le_bytes())?;
        if let PieceContent::Bytes(bytes) = piece.content {
            put(bytes)?;
        }
    }
    out.write_all(&crc.finalize().to_le_bytes())
}

fn lengths_of(sources: [&[u8]; 2]) -> [u64; 2] {
    sources.map(|source| source.len() as u64)
}

/// Whether pieces stay within the possible growth of files of these lengths, and erase no more than
/// that in total: an erased piece takes 24 bytes in a journal, whatever its length.
///
/// An image grows by less than a block, which is less than its current length unless it is the only
/// block. The OOB of a page has at most as many bytes as the page.
fn is_bounded(pieces: &[Piece<'_>], lengths: [u64; 2]) -> bool {
    let [image, oob] = lengths;
    let image = image.saturating_add(image.max(GROWTH));
    let limits = [image, oob.saturating_add(image)];
    let mut erased = [0_u64; 2];
    pieces.iter().all(|piece| {
        let file = usize::from(piece.file);
        let (Some(limit), Some(erased)) = (limits.get(file), erased.get_mut(file)) else { return false };
        if let PieceContent::Erased(length) = piece.content {
            *erased = erased.saturating_add(length);
        }
        piece.end() <= *limit && *erased <= *limit
    })
}

/// A checksum over samples of the bytes that the pieces do not change: it distinguishes the image
/// from another one with the same name.
fn fingerprint(pieces: &[Piece<'_>], sources: [&[u8]; 2], lengths: [u64; 2]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for (file, (source, length)) in sources.into_iter().zip(lengths).enumerate() {
        for sample in 0..SAMPLES {
            let start = (length / SAMPLES).saturating_mul(sample);
            let end = start.saturating_add(SAMPLE as u64).min(length);
            let touched =
                |piece: &Piece<'_>| usize::from(piece.file) == file && piece.offset < end && start < piece.end();
            if pieces.iter().any(touched) {
                continue;
            }
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            if let Some(bytes) = range.and_then(|(start, end)| source.get(start..end)) {
                crc.update(bytes);
            }
        }
    }
    crc.finalize()
}

/// A complete journal.
#[derive(Debug)]
pub(crate) struct Journal {
    bytes: Vec<u8>,
    pieces: Vec<Entry>,
    lengths: [u64; 2],
    fingerprint: u32,
}

#[derive(Debug)]
struct Entry {
    file: u8,
    offset: u64,
    length: u64,
    /// Offset of the bytes in the journal; `None` for erased ones.
    payload: Option<usize>,
}

impl Journal {
    /// Decodes a journal; `None` if it is not complete.
    pub fn decode(bytes: Vec<u8>) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let body = bytes.len().checked_sub(4).filter(|&body| body >= HEADER)?;
        let whole = bytes.starts_with(MAGIC)
            && u32_at(8)? == VERSION
            && u64_at(16)? == bytes.len() as u64
            && u32_at(44)? == crc32fast::hash(bytes.get(..44)?)
            && u32_at(body)? == crc32fast::hash(bytes.get(..body)?);
        if !whole {
            return None;
        }
        let mut pieces = Vec::new();
        let mut at = HEADER;
        for _ in 0..u32_at(12)? {
            let (file, kind) = (*bytes.get(at)?, *bytes.get(at + 1)?);
            let (offset, length) = (u64_at(at + 8)?, u64_at(at + 16)?);
            at += PIECE;
            let payload = (kind == 0).then_some(at);
            if kind == 0 {
                at = at.checked_add(usize::try_from(length).ok()?).filter(|&end| end <= body)?;
            }
            offset.checked_add(length)?;
            pieces.push(Entry { file, offset, length, payload });
        }
        let (lengths, fingerprint) = ([u64_at(24)?, u64_at(32)?], u32_at(40)?);
        Some(Self { bytes, pieces, lengths, fingerprint })
    }

    /// The changes.
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        let content = |entry: &Entry| match entry.payload {
            None => PieceContent::Erased(entry.length),
            Some(at) => PieceContent::Bytes(self.bytes.get(at..at + entry.length as usize).unwrap_or(&[])),
        };
        self.pieces
            .iter()
            .map(|entry| Piece { file: entry.file, offset: entry.offset, content: content(entry) })
            .collect()
    }

    /// Whether the journal was written for these files, whatever state its changes are in, and its
    /// changes are those of a sync.
    pub fn belongs_to(&self, sources: [&[u8]; 2]) -> bool {
        let pieces = self.pieces();
        let grown = |file: usize, before: u64| {
            pieces.iter().filter(|piece| usize::from(piece.file) == file).map(Piece::end).fold(before, u64::max)
        };
        let fits = sources.into_iter().zip(self.lengths).enumerate().all(|(file, (source, before))| {
            let length = source.len() as u64;
            length >= before && length <= grown(file, before)
        });
        fits && is_bounded(&pieces, self.lengths) && fingerprint(&pieces, sources, self.lengths) == self.fingerprint
    }
}
