//! Content composed of pieces that keep their form: descriptions stay descriptions.
//!
//! A 16 KiB page filled by four writes of 4 KiB holds four descriptions. Converting them to bytes
//! would make the memory of a simulated chip follow the traffic instead of the metadata.

use super::{Described, Description, Generator, Payload};

/// The source of a piece's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Described(Description),
    /// Bytes of the assembly from this index on.
    Bytes(u32),
}

/// A run of bytes from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Its first byte in the assembly.
    start: u32,
    length: u32,
    source: Source,
}

impl Piece {
    const fn end(&self) -> u32 {
        self.start + self.length
    }
}

/// A sequence of bytes and descriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembly {
    /// The pieces in ascending order without gaps. Empty while everything is bytes.
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
}

impl Assembly {
    /// An empty assembly.
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), bytes: Vec::new() }
    }

    /// Drops all pieces and keeps the memory.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
    }

    /// The number of bytes that the assembly represents.
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(self.bytes.len(), |last| last.end() as usize)
    }

    /// Whether it represents no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends content in its own form. A description that continues the last piece extends it.
    ///
    /// Descriptions are converted to bytes if the assembly would exceed 32 bits, or if a
    /// description of their last byte would: each part of a piece can be described.
    pub fn push(&mut self, payload: Payload<'_>) {
        match payload {
            Payload::Bytes(bytes) => self.push_bytes(bytes),
            Payload::Described(described) => self.push_described(described),
            Payload::Assembled(part) => part.pieces().for_each(|piece| self.push(piece)),
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let target = self.grow(bytes.len());
        target.copy_from_slice(bytes);
    }

    fn push_described(&mut self, described: Described) {
        let Described { description, length } = described;
        let start = u32::try_from(self.len()).ok().filter(|start| start.checked_add(length).is_some());
        let (Some(start), Some(_)) = (start, description.advanced(length)) else {
            description.generate(self.grow(length as usize));
            return;
        };
        if length == 0 {
            return;
        }
        if self.pieces.is_empty() && start > 0 {
            self.pieces.push(Piece { start: 0, length: start, source: Source::Bytes(0) });
        }
        if let Some(Piece { length: before, source: Source::Described(last), .. }) = self.pieces.last_mut()
            && continues(*last, *before, described)
        {
            *before += length;
            return;
        }
        self.pieces.push(Piece { start, length, source: Source::Described(description) });
    }

    /// Appends zero bytes, for the caller to fill.
    fn grow(&mut self, length: usize) -> &mut [u8] {
        let (at, end) = (self.bytes.len(), self.len());
        if !self.pieces.is_empty() && end.checked_add(length).is_none_or(|end| u32::try_from(end).is_err()) {
            return self.grow_beyond(length);
        }
        self.bytes.resize(at + length, 0);
        match self.pieces.last_mut() {
            Some(Piece { length: before, source: Source::Bytes(_), .. }) => *before += length as u32,
            Some(_) if length > 0 => {
                let piece = Piece { start: end as u32, length: length as u32, source: Source::Bytes(at as u32) };
                self.pieces.push(piece);
            }
            _ => {}
        }
        self.bytes.get_mut(at..).unwrap_or_default()
    }

    /// Grows past 32 bits: everything is bytes from now on.
    #[cold]
    fn grow_beyond(&mut self, length: usize) -> &mut [u8] {
        let mut all = vec![0; self.len()];
        self.payload().copy_to(&mut all);
        self.pieces.clear();
        let at = all.len();
        all.resize(at + length, 0);
        self.bytes = all;
        self.bytes.get_mut(at..).unwrap_or_default()
    }

    /// The whole as one payload: plain bytes or a description if it is only that.
    pub fn payload(&self) -> Payload<'_> {
        match self.pieces.as_slice() {
            [] => Payload::Bytes(&self.bytes),
            [Piece { length, source: Source::Described(description), .. }] => {
                Payload::Described(Described { description: *description, length: *length })
            }
            pieces => {
                let length = pieces.last().map_or(0, Piece::end);
                Payload::Assembled(AssemblyPart { assembly: self, start: 0, length })
            }
        }
    }
}

/// Whether a description continues another one of the given length.
fn continues(before: Description, length: u32, next: Described) -> bool {
    let Some(end) = before.advanced(length) else { return false };
    let zeroes = before.generator == Generator::Zero && next.description.generator == Generator::Zero;
    // Zeroes are alike at any offset, as long as the last one's offset stays in range.
    end == next.description || zeroes && end.advanced(next.length).is_some()
}

/// A range of an [`Assembly`], the third form of a [`Payload`].
#[derive(Clone, Copy, Debug)]
pub struct AssemblyPart<'a> {
    assembly: &'a Assembly,
    start: u32,
    length: u32,
}

impl<'a> AssemblyPart<'a> {
    /// The number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The part with `length` bytes from `start` on, as bytes or a description if a single piece
    /// holds it; `None` if it reaches past the end.
    pub fn part(&self, start: usize, length: usize) -> Option<Payload<'a>> {
        let end = start.checked_add(length).filter(|end| *end <= self.len())?;
        let part = AssemblyPart { start: self.start + start as u32, length: (end - start) as u32, ..*self };
        let mut pieces = part.pieces();
        match (pieces.next(), pieces.next()) {
            (None, _) => Some(Payload::Bytes(&[])),
            (Some(only), None) => Some(only),
            _ => Some(Payload::Assembled(part)),
        }
    }

    /// The pieces in order, each bytes or a description.
    pub fn pieces(self) -> impl Iterator<Item = Payload<'a>> {
        let (start, end) = (self.start, self.start + self.length);
        let first = self.assembly.pieces.partition_point(|piece| piece.end() <= start);
        let pieces = self.assembly.pieces.get(first..).unwrap_or_default().iter();
        pieces.take_while(move |piece| piece.start < end).filter_map(move |piece| {
            let (from, to) = (piece.start.max(start), piece.end().min(end));
            let (skip, length) = (from - piece.start, to - from);
            Some(match piece.source {
                Source::Bytes(at) => {
                    let at = (at + skip) as usize;
                    Payload::Bytes(self.assembly.bytes.get(at..at + length as usize)?)
                }
                Source::Described(description) => {
                    Payload::Described(Described { description: description.advanced(skip)?, length })
                }
            })
        })
    }

    /// Writes the bytes into `into`, which should have the part's length; a shorter buffer gets the
    /// beginning.
    pub fn copy_to(&self, into: &mut [u8]) {
        let mut rest = into;
        for piece in self.pieces() {
            let (target, behind) = rest.split_at_mut(piece.len().min(rest.len()));
            piece.copy_to(target);
            rest = behind;
        }
    }
}
