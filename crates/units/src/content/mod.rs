//! Content that is written and read: bytes, or a description from which the bytes can be made
//! again.
//!
//! Descriptions let a 64 GiB volume run in little memory: the emulated store keeps 24 bytes for a
//! page whose content a workload generated.

mod assembly;
mod pieces;
#[cfg(test)]
mod tests;

use std::fmt;

pub use assembly::{Assembly, AssemblyPart};
pub use pieces::Pieces;

use crate::xorshift;

/// Names the rule that makes bytes from a description.
///
/// Four bytes wide: a description is copied with every simulated page, and three bytes of padding
/// behind a single byte would be copied by stores that overlap, whose later load the processor
/// cannot forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Generator {
    /// All bytes zero.
    #[default]
    Zero,
    /// The record content of the `overwrite` workload: xorshift64 from a seed made of record and
    /// version.
    ///
    /// `s = (record+1)*0x9E3779B97F4A7C15 ^ (version+1)*0xD1B54A32D192ED03` (0 becomes 1); then
    /// repeatedly `s ^= s<<13; s ^= s>>7; s ^= s<<17`, each value stored as 8 little-endian bytes.
    Record,
}

/// Which bytes: what `generator` makes for (`record`, `version`), from byte `offset` on.
///
/// The order in memory is fixed so that in a [`Payload`], as compilers lay it out, the record lies
/// where a slice has its length: [`Payload::len`] loads that word before it knows which of the two
/// it has, and two halves stored one by one would make it wait. Of this only speed depends.
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
    /// The description of the same stream, `bytes` further on; `None` where the offset would leave
    /// its range.
    #[inline]
    pub fn advanced(self, bytes: u32) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(bytes)?, ..self })
    }

    /// Writes the described bytes into `into`. Cost: about 1 ns per 8 bytes, and a few microseconds
    /// for a large `offset`.
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
    /// Several of these, one behind the other. A layer that knows only the others makes the bytes.
    Assembled(AssemblyPart<'a>),
}

impl<'a> Payload<'a> {
    /// The number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Described(described) => described.length as usize,
            Self::Assembled(part) => part.len(),
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
            Self::Assembled(assembled) => assembled.part(start, length),
        }
    }

    /// Parts one after the other as one payload: bytes or a description where they are only that,
    /// else put together in `buffer`. Cost: what is bytes is copied.
    pub fn joined(parts: &[Payload<'_>], buffer: &'a mut Assembly) -> Payload<'a> {
        buffer.clear();
        parts.iter().for_each(|part| buffer.push(*part));
        buffer.payload()
    }

    /// Writes the bytes into `into`, which must have the payload's length; a shorter one gets the
    /// beginning.
    pub fn copy_to(&self, into: &mut [u8]) {
        let length = self.len().min(into.len());
        match self {
            Self::Bytes(bytes) => into[..length].copy_from_slice(&bytes[..length]),
            Self::Described(described) => described.description.generate(&mut into[..length]),
            Self::Assembled(part) => part.copy_to(&mut into[..length]),
        }
    }
}

/// Content that was read, in the form in which the store keeps it. The buffer is reused from read
/// to read.
#[derive(Clone, Debug, Default)]
pub struct Content {
    bytes: Vec<u8>,
    /// Goes before the assembly, which goes before the bytes.
    described: Option<Described>,
    assembly: Option<Box<Assembly>>,
}

/// Equal forms of the same content. Buffers that wait to be used again do not count.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self.described, other.described) {
            (None, None) => match (&self.assembly, &other.assembly) {
                (None, None) => self.bytes == other.bytes,
                (mine, its) => mine == its,
            },
            (mine, its) => mine == its,
        }
    }
}

impl Eq for Content {}

impl Content {
    /// An empty content.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), described: None, assembly: None }
    }

    /// Makes this content a description.
    #[inline]
    pub fn set_described(&mut self, described: Described) {
        self.described = Some(described);
    }

    /// Makes this content `length` bytes and lets the caller fill them. Bytes from earlier use may
    /// still stand in it.
    pub fn set_bytes(&mut self, length: usize) -> &mut [u8] {
        self.described = None;
        self.assembly = None;
        self.bytes.resize(length, 0);
        &mut self.bytes
    }

    /// Makes this content an empty assembly and lets the caller put pieces into it.
    pub fn set_assembly(&mut self) -> &mut Assembly {
        self.described = None;
        let assembly = self.assembly.get_or_insert_default();
        assembly.clear();
        assembly
    }

    /// Makes this content a payload's.
    pub fn set(&mut self, payload: Payload<'_>) {
        match payload {
            Payload::Described(described) => self.set_described(described),
            Payload::Bytes(bytes) => self.set_bytes(bytes.len()).copy_from_slice(bytes),
            Payload::Assembled(_) => self.set_assembly().push(payload),
        }
    }

    /// Deals this content out in pieces of `unit` bytes, each in the form that this one has; pieces
    /// behind its end are left as they are.
    pub fn deal(&self, unit: u32, into: &mut [Self]) {
        let whole = [self.payload()];
        let (mut pieces, mut buffer) = (Pieces::new(&whole), Assembly::new());
        for target in into {
            let Some(piece) = pieces.next(unit as usize, &mut buffer) else { break };
            target.set(piece);
        }
    }

    /// The number of bytes that the content stands for.
    pub fn len(&self) -> usize {
        self.payload().len()
    }

    /// Whether it stands for no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The description, where the store kept one.
    #[inline]
    pub fn described(&self) -> Option<Described> {
        match self.payload() {
            Payload::Described(described) => Some(described),
            Payload::Bytes(_) | Payload::Assembled(_) => None,
        }
    }

    /// The content as the payload of a write.
    #[inline]
    pub fn payload(&self) -> Payload<'_> {
        match (self.described, &self.assembly) {
            (Some(described), _) => Payload::Described(described),
            (None, Some(assembly)) => assembly.payload(),
            (None, None) => Payload::Bytes(&self.bytes),
        }
    }

    /// The bytes; other forms are turned into bytes first.
    pub fn to_bytes(&mut self) -> &mut [u8] {
        if let Some(described) = self.described.take() {
            self.bytes.resize(described.length as usize, 0);
            described.description.generate(&mut self.bytes);
            self.assembly = None;
        } else if let Some(assembly) = self.assembly.take() {
            self.bytes.resize(assembly.len(), 0);
            assembly.payload().copy_to(&mut self.bytes);
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
            (Self::Content { content, .. }, payload) => content.set(payload),
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
