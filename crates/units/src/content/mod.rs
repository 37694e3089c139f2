//! Content of reads and writes: bytes, or a description from which the bytes can be regenerated.
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

/// The rule that generates bytes from a description.
///
/// Four bytes wide: a description is copied with every simulated page. Three bytes of padding after
/// a single byte would be copied by overlapping stores, and the processor cannot forward a later
/// load from those.
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

/// A description of bytes: those that `generator` makes for (`record`, `version`), from byte
/// `offset` on.
///
/// The memory layout is fixed so that in a [`Payload`], as compilers lay it out, the record is
/// where a slice has its length: [`Payload::len`] loads that word before it knows which variant it
/// has, and two separately stored halves would stall it. This affects only speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Description {
    /// The number of earlier writes of the record.
    pub version: u32,
    /// Offset of the first byte in the record's endless stream.
    pub offset: u32,
    /// The record's number; the workload defines its meaning.
    pub record: u64,
    /// The generator.
    pub generator: Generator,
}

impl Description {
    /// The description of the same stream `bytes` further on; `None` if the offset would leave its
    /// range.
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

/// A description with the number of bytes it represents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Described {
    /// The described bytes.
    pub description: Description,
    /// Length in bytes.
    pub length: u32,
}

// The layout that [`Description`] explains.
const _: () = assert!(std::mem::offset_of!(Description, record) == 8 && size_of::<Payload<'_>>() == 32);

/// The data of a write.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// The bytes themselves.
    Bytes(&'a [u8]),
    /// Bytes that can be regenerated. A layer that cannot store descriptions generates the bytes.
    Described(Described),
    /// A sequence of the other forms. A layer that only handles those generates the bytes.
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

    /// The part with `length` bytes from `start` on; `None` if it reaches past the end.
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

    /// Joins parts to one payload: plain bytes or a description if they are only that, else
    /// assembled in `buffer`. Cost: bytes are copied.
    pub fn joined(parts: &[Payload<'_>], buffer: &'a mut Assembly) -> Payload<'a> {
        buffer.clear();
        parts.iter().for_each(|part| buffer.push(*part));
        buffer.payload()
    }

    /// Writes the bytes into `into`, which should have the payload's length; a shorter buffer gets
    /// the beginning.
    pub fn copy_to(&self, into: &mut [u8]) {
        let length = self.len().min(into.len());
        match self {
            Self::Bytes(bytes) => into[..length].copy_from_slice(&bytes[..length]),
            Self::Described(described) => described.description.generate(&mut into[..length]),
            Self::Assembled(part) => part.copy_to(&mut into[..length]),
        }
    }
}

/// Content that was read, in the form that the store keeps. The buffer is reused between reads.
#[derive(Clone, Debug, Default)]
pub struct Content {
    bytes: Vec<u8>,
    /// Takes precedence over the assembly, which takes precedence over the bytes.
    described: Option<Described>,
    assembly: Option<Box<Assembly>>,
}

/// Compares the content in its current form. Unused buffers do not count.
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

    /// Makes this content `length` bytes for the caller to fill. Bytes from earlier use may remain
    /// in it.
    pub fn set_bytes(&mut self, length: usize) -> &mut [u8] {
        self.described = None;
        self.assembly = None;
        self.bytes.resize(length, 0);
        &mut self.bytes
    }

    /// Makes this content an empty assembly for the caller to fill.
    pub fn set_assembly(&mut self) -> &mut Assembly {
        self.described = None;
        let assembly = self.assembly.get_or_insert_default();
        assembly.clear();
        assembly
    }

    /// Sets this content to a payload's.
    pub fn set(&mut self, payload: Payload<'_>) {
        match payload {
            Payload::Described(described) => self.set_described(described),
            Payload::Bytes(bytes) => self.set_bytes(bytes.len()).copy_from_slice(bytes),
            Payload::Assembled(_) => self.set_assembly().push(payload),
        }
    }

    /// Splits this content into pieces of `unit` bytes, each in this content's form; pieces past
    /// its end stay unchanged.
    pub fn deal(&self, unit: u32, into: &mut [Self]) {
        let whole = [self.payload()];
        let (mut pieces, mut buffer) = (Pieces::new(&whole), Assembly::new());
        for target in into {
            let Some(piece) = pieces.next(unit as usize, &mut buffer) else { break };
            target.set(piece);
        }
    }

    /// The number of bytes that the content represents.
    pub fn len(&self) -> usize {
        self.payload().len()
    }

    /// Whether it represents no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The description, if the store kept one.
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

    /// The bytes; other forms are converted to bytes first.
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

/// The target of a read.
#[derive(Debug)]
pub enum ReadInto<'a> {
    /// Stores into these bytes; a description is converted to bytes.
    Bytes(&'a mut [u8]),
    /// Stores `length` bytes in a content, in the form that the store keeps.
    Content {
        /// Filled by the read.
        content: &'a mut Content,
        /// How many bytes to read.
        length: u32,
    },
    /// Stores nothing: the operation takes its time and may fail, but delivers no data.
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

    /// Passes the same target to a layer below; the caller can examine it afterwards.
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

    /// Has `read` fill the first `length` bytes, and delivers them: for stores of bytes alone.
    /// Errors: those of `read`.
    pub fn fill_by<E>(mut self, length: usize, read: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if let Self::Bytes(bytes) = &mut self {
            return read(bytes.get_mut(..length).unwrap_or_default());
        }
        let mut bytes = vec![0; length];
        read(&mut bytes)?;
        self.deliver(Payload::Bytes(&bytes));
        Ok(())
    }

    /// Delivers one repeated byte: erased flash, or a sector that was never written.
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

/// A generator number that this version does not know.
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
