//! Cutting requests in parts into pieces of other lengths.

use super::{Assembly, Payload};

/// The consecutive payloads of a request, cut into pieces of other lengths.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    parts: &'a [Payload<'a>],
    /// Bytes already cut off the first part.
    start: usize,
}

impl<'a> Pieces<'a> {
    /// Starts with the complete parts.
    pub const fn new(parts: &'a [Payload<'a>]) -> Self {
        Self { parts, start: 0 }
    }

    /// Total length of all parts in bytes.
    pub fn total(parts: &[Payload<'_>]) -> usize {
        parts.iter().fold(0, |sum, part| sum.saturating_add(part.len()))
    }

    /// The next `length` bytes; `None` if fewer are left. Assembled in `buffer` if they come from
    /// several parts or cannot be described.
    pub fn next<'b>(&mut self, length: usize, buffer: &'b mut Assembly) -> Option<Payload<'b>>
    where
        'a: 'b,
    {
        let first = loop {
            let (first, rest) = self.parts.split_first()?;
            if self.start < first.len() || (length == 0 && rest.is_empty()) {
                break first;
            }
            (self.parts, self.start) = (rest, 0);
        };
        if length <= first.len() - self.start {
            let start = self.start;
            self.start += length;
            return Some(first.part(start, length).unwrap_or_else(|| generated(first, start, length, buffer)));
        }
        let before = *self;
        if let Some(parts) = self.split(length) {
            return Some(Payload::joined(&parts, buffer));
        }
        *self = before;
        self.generated(length, buffer)
    }

    /// The next `length` bytes, if a single part holds them as bytes or as a description that
    /// covers each of them; otherwise nothing is cut off.
    #[inline]
    pub fn whole(&mut self, length: usize) -> Option<Payload<'a>> {
        while let Some((first, rest)) = self.parts.split_first()
            && self.start >= first.len()
        {
            (self.parts, self.start) = (rest, 0);
        }
        let part = self.parts.first()?.part(self.start, length)?;
        match part {
            Payload::Bytes(_) => {}
            // The offset of the last byte must be in range too, so that the piece can be split
            // later.
            Payload::Described(described) => drop(described.description.advanced(described.length)?),
            Payload::Assembled(_) => return None,
        }
        self.start += length;
        Some(part)
    }

    /// The next `length` bytes as separate parts, each a part of one of these; `None` if fewer are
    /// left, or one cannot be described. What was cut off until then is lost.
    pub fn split(&mut self, length: usize) -> Option<Vec<Payload<'a>>> {
        let (mut pieces, mut left) = (Vec::new(), length);
        while left > 0 {
            let (first, rest) = self.parts.split_first()?;
            let count = left.min(first.len() - self.start);
            if count > 0 {
                pieces.push(first.part(self.start, count)?);
            }
            (left, self.start) = (left - count, self.start + count);
            if left > 0 {
                (self.parts, self.start) = (rest, 0);
            }
        }
        Some(pieces)
    }

    /// Cuts the next `length` bytes and converts parts that cannot be described to bytes.
    #[cold]
    fn generated<'b>(&mut self, length: usize, buffer: &'b mut Assembly) -> Option<Payload<'b>> {
        if Self::total(self.parts) - self.start < length {
            return None;
        }
        let (mut one, all) = (Assembly::new(), buffer);
        all.clear();
        while all.len() < length {
            let (first, rest) = self.parts.split_first()?;
            let count = (first.len() - self.start).min(length - all.len());
            if count == 0 {
                (self.parts, self.start) = (rest, 0);
                continue;
            }
            all.push(first.part(self.start, count).unwrap_or_else(|| generated(first, self.start, count, &mut one)));
            self.start += count;
        }
        Some(all.payload())
    }
}

/// Generates a part of a description as bytes, because no description can name it: its offset would
/// exceed 32 bits.
#[cold]
fn generated<'b>(whole: &Payload<'_>, start: usize, length: usize, buffer: &'b mut Assembly) -> Payload<'b> {
    let mut bytes = vec![0; start + length];
    whole.copy_to(&mut bytes);
    buffer.clear();
    buffer.push(Payload::Bytes(bytes.get(start..).unwrap_or_default()));
    buffer.payload()
}
