//! Content that is written and read: bytes, or a description from which the bytes can be made again.
//!
//! Descriptions let a 64 GiB volume run in little memory: the emulated store keeps 24 bytes for a page whose content a workload generated.

use std::fmt;

use crate::xorshift;

/// Names the rule that makes bytes from a description.
///
/// Four bytes wide: a description is copied with every simulated page, and three bytes of padding behind a single byte would be copied by stores
/// that overlap, whose later load the processor cannot forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Generator {
    /// All bytes zero.
    #[default]
    Zero,
    /// The record content of the `overwrite` workload: xorshift64 from a seed made of record and version.
    ///
    /// `s = (record+1)*0x9E3779B97F4A7C15 ^ (version+1)*0xD1B54A32D192ED03` (0 becomes 1); then repeatedly
    /// `s ^= s<<13; s ^= s>>7; s ^= s<<17`, each value stored as 8 little-endian bytes.
    Record,
}

/// Which bytes: what `generator` makes for (`record`, `version`), from byte `offset` on.
///
/// The order in memory is fixed so that in a [`Payload`], as compilers lay it out, the record lies where a slice has its length: [`Payload::len`] loads that word
/// before it knows which of the two it has, and two halves stored one by one would make it wait. Of this only speed depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Description {
    /// How often the record was written before.
    pub version: u32,
    /// The first byte within the record's endless stream.
    pub offset: u32,
    /// The record's number; its meaning is the workload's.
    pub record: u64,
    /// The rule.
    pub generator: Generator,
}

impl Description {
    /// The description of the same stream, `bytes` further on; `None` where the offset would leave its range.
    #[inline]
    pub fn advanced(self, bytes: u32) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(bytes)?, ..self })
    }

    /// Writes the described bytes into `into`. Cost: about 1 ns per 8 bytes, and a few microseconds for a large `offset`.
    pub fn generate(&self, into: &mut [u8]) {
        if into.is_empty() {
            return;
        }
        match self.generator {
            Generator::Zero => into.fill(0),
            Generator::Record => self.generate_record(into),
        }
    }

    fn generate_record(&self, into: &mut [u8]) {
        let mut state = self.record.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ u64::from(self.version).wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03);
        if state == 0 {
            state = 1;
        }
        state = xorshift::steps(state, self.offset / 8);
        let skip = (self.offset % 8) as usize;
        let (head, body) = into.split_at_mut(if skip == 0 { 0 } else { (8 - skip).min(into.len()) });
        if !head.is_empty() {
            state = xorshift::step(state);
            head.copy_from_slice(&state.to_le_bytes()[skip..skip + head.len()]);
        }
        for chunk in body.chunks_mut(8) {
            state = xorshift::step(state);
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A description together with how many bytes it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Described {
    /// Which bytes.
    pub description: Description,
    /// How many.
    pub length: u32,
}

// See [`Description`].
const _: () = assert!(std::mem::offset_of!(Description, record) == 8 && size_of::<Payload<'_>>() == 32);

/// What a write carries.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// The bytes themselves.
    Bytes(&'a [u8]),
    /// Bytes that can be made again. A layer that cannot keep descriptions makes the bytes.
    Described(Described),
}

impl<'a> Payload<'a> {
    /// The number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Described(described) => described.length as usize,
        }
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part from `start` on with `length` bytes; `None` where it reaches past the end.
    #[inline]
    pub fn part(&self, start: usize, length: usize) -> Option<Payload<'a>> {
        let end = start.checked_add(length)?;
        match self {
            Self::Bytes(bytes) => Some(Payload::Bytes(bytes.get(start..end)?)),
            Self::Described(described) if end <= described.length as usize => Some(Payload::Described(Described {
                description: described.description.advanced(u32::try_from(start).ok()?)?,
                length: u32::try_from(length).ok()?,
            })),
            Self::Described(_) => None,
        }
    }

    /// Parts one after the other as one payload: a description where each goes on where the one before ends, bytes in `buffer` otherwise. Cost: the bytes, unless they are described.
    pub fn joined(parts: &[Payload<'_>], buffer: &'a mut Vec<u8>) -> Payload<'a> {
        if let Some(described) = Self::joined_description(parts) {
            return Payload::Described(described);
        }
        buffer.clear();
        buffer.resize(parts.iter().map(Payload::len).sum(), 0);
        let mut rest = buffer.as_mut_slice();
        for part in parts {
            let (into, behind) = rest.split_at_mut(part.len().min(rest.len()));
            part.copy_to(into);
            rest = behind;
        }
        Payload::Bytes(buffer)
    }

    fn joined_description(parts: &[Payload<'_>]) -> Option<Described> {
        let mut parts = parts.iter();
        let &Payload::Described(mut all) = parts.next()? else { return None };
        for part in parts {
            let Payload::Described(next) = part else { return None };
            let zeroes = all.description.generator == Generator::Zero && next.description.generator == Generator::Zero;
            if !zeroes && all.description.advanced(all.length)? != next.description {
                return None;
            }
            all.length = all.length.checked_add(next.length)?;
        }
        Some(all)
    }

    /// Writes the bytes into `into`, which must have the payload's length; a shorter one gets the beginning.
    pub fn copy_to(&self, into: &mut [u8]) {
        let length = self.len().min(into.len());
        match self {
            Self::Bytes(bytes) => into[..length].copy_from_slice(&bytes[..length]),
            Self::Described(described) => described.description.generate(&mut into[..length]),
        }
    }
}

/// Payloads that follow one another in a request, cut into pieces of other lengths.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    parts: &'a [Payload<'a>],
    /// Bytes of the first part that were cut off.
    start: usize,
}

impl<'a> Pieces<'a> {
    /// Everything is still to be cut.
    pub const fn new(parts: &'a [Payload<'a>]) -> Self {
        Self { parts, start: 0 }
    }

    /// The bytes of all parts together.
    pub fn total(parts: &[Payload<'_>]) -> usize {
        parts.iter().fold(0, |sum, part| sum.saturating_add(part.len()))
    }

    /// The next `length` bytes; `None` where fewer are left. A description where the piece is one, bytes in `buffer` where it is made of several parts or no description can name it.
    pub fn next<'b>(&mut self, length: usize, buffer: &'b mut Vec<u8>) -> Option<Payload<'b>>
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

    /// The next `length` bytes, if one part has them and a description can name each of them; else nothing is cut off.
    #[inline]
    pub fn whole(&mut self, length: usize) -> Option<Payload<'a>> {
        while let Some((first, rest)) = self.parts.split_first()
            && self.start >= first.len()
        {
            (self.parts, self.start) = (rest, 0);
        }
        let part = self.parts.first()?.part(self.start, length)?;
        // The offset of the last byte is in range too: who keeps the piece can take it apart.
        if let Payload::Described(described) = part {
            described.description.advanced(described.length)?;
        }
        self.start += length;
        Some(part)
    }

    /// The next `length` bytes as parts of their own, each a part of one of these; `None` where fewer are left or no description can name one. What was cut off until then is gone.
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

    /// The same as bytes, where a part has no description.
    #[cold]
    fn generated<'b>(&mut self, length: usize, buffer: &'b mut Vec<u8>) -> Option<Payload<'b>> {
        if Self::total(self.parts) - self.start < length {
            return None;
        }
        let (mut one, mut all) = (Vec::new(), Vec::with_capacity(length));
        while all.len() < length {
            let (first, rest) = self.parts.split_first()?;
            let count = (first.len() - self.start).min(length - all.len());
            if count == 0 {
                (self.parts, self.start) = (rest, 0);
                continue;
            }
            let piece = first.part(self.start, count).unwrap_or_else(|| generated(first, self.start, count, &mut one));
            let end = all.len();
            all.resize(end + count, 0);
            piece.copy_to(&mut all[end..]);
            self.start += count;
        }
        *buffer = all;
        Some(Payload::Bytes(buffer))
    }
}

/// A part of a description that a description cannot name, since its offset would leave 32 bits.
#[cold]
fn generated<'b>(whole: &Payload<'_>, start: usize, length: usize, buffer: &'b mut Vec<u8>) -> Payload<'b> {
    buffer.clear();
    buffer.resize(start + length, 0);
    whole.copy_to(buffer);
    buffer.drain(..start);
    Payload::Bytes(buffer)
}

/// Content that was read, in the form in which the store keeps it. The buffer is reused from read to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    bytes: Vec<u8>,
    described: Option<Described>,
}

impl Content {
    /// An empty content.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), described: None }
    }

    /// Makes this content a description.
    #[inline]
    pub fn set_described(&mut self, described: Described) {
        self.described = Some(described);
    }

    /// Makes this content `length` bytes and lets the caller fill them. Bytes from earlier use may still stand in it.
    pub fn set_bytes(&mut self, length: usize) -> &mut [u8] {
        self.described = None;
        self.bytes.resize(length, 0);
        &mut self.bytes
    }

    /// Makes this content a payload's.
    pub fn set(&mut self, payload: Payload<'_>) {
        match payload {
            Payload::Described(described) => self.set_described(described),
            Payload::Bytes(bytes) => self.set_bytes(bytes.len()).copy_from_slice(bytes),
        }
    }

    /// Deals this content out in pieces of `unit` bytes, each in the form that this one has; pieces behind its end are left as they are.
    pub fn deal(&self, unit: u32, into: &mut [Self]) {
        let whole = [self.payload()];
        let (mut pieces, mut buffer) = (Pieces::new(&whole), Vec::new());
        for target in into {
            let Some(piece) = pieces.next(unit as usize, &mut buffer) else { break };
            target.set(piece);
        }
    }

    /// The number of bytes that the content stands for.
    pub fn len(&self) -> usize {
        self.described.map_or(self.bytes.len(), |described| described.length as usize)
    }

    /// Whether it stands for no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The description, where the store kept one.
    #[inline]
    pub const fn described(&self) -> Option<Described> {
        self.described
    }

    /// The content as the payload of a write.
    #[inline]
    pub fn payload(&self) -> Payload<'_> {
        match self.described {
            Some(described) => Payload::Described(described),
            None => Payload::Bytes(&self.bytes),
        }
    }

    /// The bytes; a description is turned into bytes first.
    pub fn to_bytes(&mut self) -> &mut [u8] {
        if let Some(described) = self.described.take() {
            self.bytes.resize(described.length as usize, 0);
            described.description.generate(&mut self.bytes);
        }
        &mut self.bytes
    }
}

/// Where a read puts what it finds.
#[derive(Debug)]
pub enum ReadInto<'a> {
    /// Into these bytes; a description is turned into bytes.
    Bytes(&'a mut [u8]),
    /// `length` bytes into a content, in the form in which the store keeps them.
    Content {
        /// Filled by the read.
        content: &'a mut Content,
        /// How many bytes to read.
        length: u32,
    },
    /// `length` bytes nowhere: the operation takes its time and may fail, but nothing is delivered.
    Nothing {
        /// How many bytes to read.
        length: u32,
    },
}

impl ReadInto<'_> {
    /// The number of bytes to read.
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Content { length, .. } | Self::Nothing { length } => *length as usize,
        }
    }

    /// Whether nothing is to be read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same destination for a layer below, to be looked at again afterwards.
    #[inline]
    pub fn reborrow(&mut self) -> ReadInto<'_> {
        match self {
            Self::Bytes(bytes) => ReadInto::Bytes(bytes),
            Self::Content { content, length } => ReadInto::Content { content, length: *length },
            Self::Nothing { length } => ReadInto::Nothing { length: *length },
        }
    }

    /// Delivers `payload`, which must have the read's length.
    pub fn deliver(&mut self, payload: Payload<'_>) {
        match (self, payload) {
            (Self::Bytes(bytes), payload) => payload.copy_to(bytes),
            (Self::Content { content, .. }, Payload::Described(described)) => content.set_described(described),
            (Self::Content { content, .. }, Payload::Bytes(bytes)) => {
                content.set_bytes(bytes.len()).copy_from_slice(bytes);
            }
            (Self::Nothing { .. }, _) => {}
        }
    }

    /// Delivers the same byte throughout: erased flash, or a sector never written.
    pub fn deliver_fill(&mut self, byte: u8) {
        let length = self.len();
        match self {
            Self::Bytes(bytes) => bytes.fill(byte),
            Self::Content { content, .. } if byte == 0 => content.set_described(Described {
                description: Description::default(),
                length: u32::try_from(length).unwrap_or(u32::MAX),
            }),
            Self::Content { content, .. } => content.set_bytes(length).fill(byte),
            Self::Nothing { .. } => {}
        }
    }
}

/// A generator's number that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownGenerator(pub u8);

impl fmt::Display for UnknownGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown content generator {}, known are 0 (zero) and 1 (record)", self.0)
    }
}

impl std::error::Error for UnknownGenerator {}

impl TryFrom<u8> for Generator {
    type Error = UnknownGenerator;

    fn try_from(number: u8) -> Result<Self, UnknownGenerator> {
        match number {
            0 => Ok(Self::Zero),
            1 => Ok(Self::Record),
            other => Err(UnknownGenerator(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_parts_are_the_bytes_of_the_parts() {
        let described = |record, offset, length| {
            let description = Description { record, version: 0, offset, generator: Generator::Record };
            Payload::Described(Described { description, length })
        };
        let bytes: Vec<u8> = (0..100).collect();
        let parts = [
            Payload::Bytes(&bytes[..30]),
            described(3, 16, 40),
            Payload::Bytes(&[]),
            described(3, 56, 16),
            // Its second half has no description: the offset would leave 32 bits.
            described(4, u32::MAX - 8, 24),
            Payload::Bytes(&bytes[30..]),
        ];
        let total = Pieces::total(&parts);
        let mut expected = vec![0; total];
        let mut start = 0;
        for part in &parts {
            part.copy_to(&mut expected[start..start + part.len()]);
            start += part.len();
        }
        for length in [1, 3, 8, 16, 36, 90, total] {
            let (mut pieces, mut buffer, mut found) = (Pieces::new(&parts), Vec::new(), Vec::new());
            while let Some(piece) = pieces.next(length.min(total - found.len()).max(1), &mut buffer) {
                let end = found.len();
                found.resize(end + piece.len(), 0);
                piece.copy_to(&mut found[end..]);
            }
            assert_eq!(found, expected, "{length}");
        }
        let (mut pieces, mut buffer) = (Pieces::new(&parts[1..4]), Vec::new());
        assert!(matches!(pieces.next(56, &mut buffer), Some(Payload::Described(all)) if all.length == 56));
        assert!(pieces.next(1, &mut buffer).is_none());
    }

    fn record(record: u64, version: u32, offset: u32) -> Description {
        Description { record, version, offset, generator: Generator::Record }
    }

    #[test]
    fn a_part_of_a_record_equals_that_part_of_its_bytes() {
        let mut whole = [0; 256];
        record(3, 9, 0).generate(&mut whole);
        for (start, length) in [(0, 256), (8, 16), (5, 2), (7, 100), (13, 0), (250, 6)] {
            let payload = Payload::Described(Described { description: record(3, 9, 0), length: 256 });
            let mut part = vec![0; length];
            payload.part(start, length).unwrap().copy_to(&mut part);
            assert_eq!(part, &whole[start..start + length], "{start}+{length}");
        }
    }

    #[test]
    fn record_zero_version_zero_starts_as_specified() {
        let seed = 0x9E37_79B9_7F4A_7C15u64 ^ 0xD1B5_4A32_D192_ED03;
        let mut first = [0; 8];
        record(0, 0, 0).generate(&mut first);
        assert_eq!(u64::from_le_bytes(first), xorshift::step(seed));
    }

    #[test]
    fn joined_parts_are_a_description_only_where_they_go_on() {
        let described = |description, length| Payload::Described(Described { description, length });
        let joined = |parts: &[Payload<'_>]| {
            let (mut buffer, mut expected, mut found) = (Vec::new(), Vec::new(), Vec::new());
            for part in parts {
                let mut bytes = vec![0; part.len()];
                part.copy_to(&mut bytes);
                expected.extend(bytes);
            }
            let all = Payload::joined(parts, &mut buffer);
            found.resize(all.len(), 0xEE);
            all.copy_to(&mut found);
            assert_eq!(found, expected);
            matches!(all, Payload::Described(_))
        };
        let zero = Description::default();
        assert!(joined(&[described(record(1, 2, 0), 16), described(record(1, 2, 16), 8)]));
        assert!(joined(&[described(zero, 16), described(zero, 24)]));
        assert!(!joined(&[described(record(1, 2, 0), 16), described(record(1, 2, 8), 8)]));
        assert!(!joined(&[described(record(1, 2, 0), 16), described(record(1, 3, 16), 8)]));
        assert!(!joined(&[described(zero, 16), described(record(1, 2, 16), 8)]));
        assert!(!joined(&[described(zero, 8), Payload::Bytes(&[7; 8])]));
        assert!(!joined(&[]));
    }

    #[test]
    fn parts_past_the_end_are_refused() {
        let payload = Payload::Described(Described { description: record(0, 0, 0), length: 16 });
        assert!(payload.part(8, 9).is_none());
        assert!(Payload::Bytes(&[0; 4]).part(usize::MAX, 2).is_none());
    }
}
