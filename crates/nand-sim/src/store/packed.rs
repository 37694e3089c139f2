//! Pages composed of pieces, with a few bytes for each described piece.
//!
//! A 16 KiB page filled by four writes of 4 KiB has four descriptions and four tags: about 80 bytes
//! here. Kept as bytes, a run's memory would grow with the amount written.
//!
//! The image: the OOB, the length of the data, then the pieces. An OOB that consists of tags starts
//! with twice the number of tags plus one, followed by the tags as differences to their
//! predecessors; any other OOB starts with twice its length, followed by its bytes. A piece has a
//! kind, a length, and data depending on the kind. All numbers are LEB128 (DWARF 5, section 7.6).

use std::sync::Arc;

use nandkit_codec::page_tag::{TAG_BYTES, TagFormat, TagRead};
use nandkit_units::{Content, Described, Description, Generator, Payload, ReadInto};

use super::sparse::{self, Sparse};

/// A run of one byte value, such as zeroes or erased flash.
const FILL: u8 = 0;
/// A part of a record: number, version, offset.
const RECORD: u8 = 1;
/// Plain bytes.
const BYTES: u8 = 2;
/// The length of a sparse image, and the image.
const SPARSE: u8 = 3;
/// Repeats the previous piece; the length field holds the number of repetitions.
const AGAIN: u8 = 4;

/// A page's data and, if the page stores it here, its OOB.
#[derive(Clone, Debug)]
pub struct Packed {
    image: Arc<[u8]>,
}

/// A piece as stored in the image.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece<'a> {
    Described(Described),
    Fill(u8, usize),
    Bytes(&'a [u8]),
    Sparse(usize, &'a [u8]),
}

impl Packed {
    /// Packs data and an OOB. Cost: one pass over data in bytes.
    pub fn new(data: Payload<'_>, oob: &[u8], format: TagFormat) -> Self {
        let mut image = Vec::with_capacity(64 + oob.len());
        put_oob(&mut image, oob, format);
        put_number(&mut image, data.len() as u64);
        let mut writer = Writer { image, last: Vec::new(), again: 0 };
        match data {
            Payload::Assembled(part) => part.pieces().for_each(|piece| writer.put(piece)),
            whole => writer.put(whole),
        }
        writer.end_run();
        Self { image: Arc::from(writer.image) }
    }

    /// The packed OOB. `format` must be the one used for packing.
    pub fn oob(&self, format: TagFormat) -> Vec<u8> {
        let mut oob = Vec::new();
        take_oob(&mut &*self.image, |part| match part {
            OobPart::Bytes(bytes) => oob.extend_from_slice(bytes),
            OobPart::Tag(payload, sequence) => oob.extend_from_slice(&format.image(payload, sequence)),
        });
        oob
    }

    /// The image after the OOB.
    fn data(&self) -> &[u8] {
        let mut rest: &[u8] = &self.image;
        take_oob(&mut rest, |_| {});
        rest
    }

    /// Length of the data in bytes.
    pub fn len(&self) -> usize {
        number(&mut self.data()) as usize
    }

    /// Memory that the image takes, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.image.len()
    }

    /// The pieces in order, each with its column.
    fn pieces(&self) -> impl Iterator<Item = (usize, Piece<'_>)> {
        let mut reader = Reader { rest: self.data(), last: None, again: 0 };
        number(&mut reader.rest);
        let mut column = 0;
        reader.map(move |piece| {
            let start = column;
            column += piece.len();
            (start, piece)
        })
    }

    /// Delivers the data from `column` on; bytes past their end are unprogrammed, 0xFF. Data within
    /// one piece keep their form.
    pub fn read(&self, column: usize, into: &mut ReadInto<'_>) {
        let length = into.len();
        if length == 0 || matches!(into, ReadInto::Nothing { .. }) {
            return;
        }
        let end = column + length;
        let mut content = Content::new();
        let assembly = content.set_assembly();
        let mut buffer = Vec::new();
        for (start, piece) in self.pieces() {
            let (from, to) = (start.max(column), (start + piece.len()).min(end));
            if (from, to) == (column, end) {
                return into.deliver(piece.part(from - start, length, &mut buffer));
            }
            if from < to {
                assembly.push(piece.part(from - start, to - from, &mut buffer));
            }
        }
        if assembly.len() < length {
            buffer.clear();
            buffer.resize(length - assembly.len(), 0xFF);
            assembly.push(Payload::Bytes(&buffer));
        }
        match into {
            // Moved as a whole, not copied.
            ReadInto::Content { content: target, .. } if matches!(content.payload(), Payload::Assembled(_)) => {
                **target = content;
            }
            _ => into.deliver(content.payload()),
        }
    }
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Described(described) => described.length as usize,
            Self::Fill(_, length) | Self::Sparse(length, _) => *length,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// A part within the piece; built in `buffer` if the image does not hold it as such.
    fn part<'b>(&'b self, start: usize, length: usize, buffer: &'b mut Vec<u8>) -> Payload<'b> {
        let whole = match *self {
            Self::Described(described) => Payload::Described(described),
            Self::Fill(0, _) => {
                return Payload::Described(Described { description: Description::default(), length: length as u32 });
            }
            Self::Bytes(bytes) => Payload::Bytes(bytes),
            Self::Fill(byte, _) => {
                buffer.clear();
                buffer.resize(length, byte);
                return Payload::Bytes(buffer);
            }
            Self::Sparse(whole, image) => {
                buffer.clear();
                buffer.resize(length, 0);
                sparse::read(image, whole, start, buffer);
                return Payload::Bytes(buffer);
            }
        };
        whole.part(start, length).unwrap_or(Payload::Bytes(&[]))
    }
}

/// Builds an image.
struct Writer {
    image: Vec<u8>,
    /// The piece written last.
    last: Vec<u8>,
    /// The number of pending repetitions of it.
    again: u64,
}

impl Writer {
    fn put(&mut self, piece: Payload<'_>) {
        let mut coded = Vec::with_capacity(16);
        match piece {
            Payload::Described(described) => put_described(&mut coded, described),
            Payload::Bytes(bytes) => put_bytes(&mut coded, bytes),
            // Pieces are never assemblies.
            Payload::Assembled(part) => return part.pieces().for_each(|piece| self.put(piece)),
        }
        if coded == self.last {
            self.again += 1;
            return;
        }
        self.end_run();
        self.image.extend_from_slice(&coded);
        self.last = coded;
    }

    fn end_run(&mut self) {
        let again = std::mem::take(&mut self.again);
        if again > 0 {
            self.image.push(AGAIN);
            put_number(&mut self.image, again);
        }
    }
}

fn put_described(into: &mut Vec<u8>, Described { description, length }: Described) {
    match description.generator {
        Generator::Zero => {
            into.push(FILL);
            put_number(into, length.into());
            into.push(0);
        }
        Generator::Record => {
            into.push(RECORD);
            put_number(into, length.into());
            put_number(into, description.record);
            put_number(into, description.version.into());
            put_number(into, description.offset.into());
        }
    }
}

fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    let first = bytes.first().copied().unwrap_or(0xFF);
    let sparse = Sparse::new(bytes);
    let (kind, held) = match &sparse {
        _ if bytes.iter().all(|byte| *byte == first) => (FILL, None),
        Some(sparse) => (SPARSE, Some(sparse.image())),
        None => (BYTES, Some(bytes)),
    };
    into.push(kind);
    put_number(into, bytes.len() as u64);
    if kind == SPARSE {
        put_number(into, held.map_or(0, <[u8]>::len) as u64);
    }
    into.extend_from_slice(held.unwrap_or(&[first]));
}

/// Parses an image. Stops at anything that no [`Writer`] produces.
struct Reader<'a> {
    rest: &'a [u8],
    last: Option<Piece<'a>>,
    again: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.again > 0 {
            self.again -= 1;
            return self.last;
        }
        let kind = *self.take(1)?.first()?;
        let length = number(&mut self.rest);
        self.last = Some(match kind {
            FILL => Piece::Fill(*self.take(1)?.first()?, length as usize),
            RECORD => {
                let (record, version) = (number(&mut self.rest), number(&mut self.rest) as u32);
                let offset = number(&mut self.rest) as u32;
                let description = Description { record, version, offset, generator: Generator::Record };
                Piece::Described(Described { description, length: length as u32 })
            }
            BYTES => Piece::Bytes(self.take(length as usize)?),
            SPARSE => {
                let held = number(&mut self.rest) as usize;
                Piece::Sparse(length as usize, self.take(held)?)
            }
            _ => {
                self.again = length.saturating_sub(1);
                return self.last;
            }
        });
        self.last
    }
}

/// The parts of an OOB.
enum OobPart<'a> {
    Bytes(&'a [u8]),
    /// The payload and the sequence number.
    Tag(u64, u64),
}

fn put_oob(into: &mut Vec<u8>, oob: &[u8], format: TagFormat) {
    let (images, rest) = oob.as_chunks::<TAG_BYTES>();
    let tag = |image: &[u8; TAG_BYTES]| match format.decode(image) {
        TagRead::Valid { payload, sequence } if format.image(payload, sequence) == *image => Some((payload, sequence)),
        _ => None,
    };
    let tags: Option<Vec<(u64, u64)>> = images.iter().map(tag).collect();
    let Some(tags) = tags.filter(|_| rest.is_empty()) else {
        put_number(into, 2 * oob.len() as u64);
        return into.extend_from_slice(oob);
    };
    put_number(into, 2 * tags.len() as u64 + 1);
    let mut last = (0, 0);
    for tag in tags {
        put_number(into, zigzag(tag.0.wrapping_sub(last.0)));
        put_number(into, zigzag(tag.1.wrapping_sub(last.1)));
        last = tag;
    }
}

fn take_oob<'a>(from: &mut &'a [u8], mut each: impl FnMut(OobPart<'a>)) {
    let head = number(from);
    if head & 1 == 0 {
        let (bytes, rest) = from.split_at_checked((head / 2) as usize).unwrap_or((from, &[]));
        *from = rest;
        return each(OobPart::Bytes(bytes));
    }
    let (mut payload, mut sequence) = (0_u64, 0_u64);
    for _ in 0..head / 2 {
        payload = payload.wrapping_add(unzigzag(number(from)));
        sequence = sequence.wrapping_add(unzigzag(number(from)));
        each(OobPart::Tag(payload, sequence));
    }
}

/// Encodes a difference so that a small difference is a small number.
const fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64 >> 63) as u64)
}

const fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

fn put_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Takes a number from the front.
fn number(from: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = from.split_first() {
        *from = rest;
        number |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use nandkit_units::Assembly;
    use nandkit_units::random::Random;

    use super::*;

    const FORMAT: TagFormat = TagFormat::new(16_384);

    #[test]
    fn oob_comes_back_whether_it_is_tags_or_not() {
        let tags = [(7 << 8, 900), (3 << 8 | 1, 901), (u64::MAX >> 16, 902), (0, 5)];
        let tags: Vec<u8> = tags.iter().flat_map(|(payload, sequence)| FORMAT.image(*payload, *sequence)).collect();
        let mut marked = tags.clone();
        marked[16] = 0;
        for oob in [&tags[..], &tags[..32], &tags[..40], &marked, &[0xFF; 64], &[]] {
            let packed = Packed::new(Payload::Bytes(&[1; 9]), oob, FORMAT);
            assert!(packed.oob(FORMAT) == oob && packed.len() == 9, "{oob:?}");
        }
        assert!(Packed::new(Payload::Bytes(&[]), &tags, FORMAT).held_bytes() < 40);
    }

    fn record(random: &mut Random, length: u32) -> Payload<'static> {
        let description = Description {
            record: random.below(u64::MAX),
            version: random.below(1 << 32) as u32,
            offset: random.below(1 << 20) as u32,
            generator: Generator::Record,
        };
        Payload::Described(Described { description, length })
    }

    #[test]
    fn any_part_of_any_pieces_reads_as_it_was() {
        let mut random = Random::new(1, "packed");
        for _ in 0..300 {
            let (mut assembly, mut last) = (Assembly::new(), None);
            for _ in 0..1 + random.below(9) {
                let length = 1 + random.below(700) as u32;
                let mut bytes = vec![0; length as usize];
                let kind = random.below(6);
                if kind == 5 {
                    bytes.fill(random.below(256) as u8);
                } else {
                    bytes.iter_mut().step_by([1, 90][kind as usize % 2]).for_each(|b| *b = random.below(256) as u8);
                }
                match (kind, last) {
                    (0, Some(last)) => assembly.push(last),
                    (0..=2, _) => {
                        last = Some(record(&mut random, length));
                        assembly.push(record(&mut random, length));
                        assembly.push(last.unwrap());
                    }
                    (3, _) => assembly.push(Payload::Described(Described { length, ..Described::default() })),
                    _ => assembly.push(Payload::Bytes(&bytes)),
                }
            }
            let mut whole = vec![0; assembly.len()];
            assembly.payload().copy_to(&mut whole);
            let packed = Packed::new(assembly.payload(), &[7; 40], FORMAT);
            assert!(packed.len() == whole.len() && packed.oob(FORMAT) == [7; 40]);
            for _ in 0..20 {
                let column = random.below(whole.len() as u64 + 9) as usize;
                let length = random.below(whole.len() as u64) as usize;
                let (mut found, mut content) = (vec![1; length], Content::new());
                packed.read(column, &mut ReadInto::Bytes(&mut found));
                let expected = |at: usize| whole.get(column + at).copied().unwrap_or(0xFF);
                assert!(found.iter().enumerate().all(|(at, byte)| *byte == expected(at)), "{column}+{length}");
                packed.read(column, &mut ReadInto::Content { content: &mut content, length: length as u32 });
                assert_eq!(content.to_bytes(), found, "{column}+{length}");
            }
        }
    }

    #[test]
    fn four_records_take_few_bytes_and_come_back_as_records() {
        let mut random = Random::new(2, "packed");
        let pieces: [Payload<'_>; 4] = std::array::from_fn(|_| record(&mut random, 4096));
        let mut buffer = Assembly::new();
        let packed = Packed::new(Payload::joined(&pieces, &mut buffer), &[], FORMAT);
        assert!(packed.held_bytes() < 100, "{}", packed.held_bytes());
        let mut content = Content::new();
        packed.read(8192, &mut ReadInto::Content { content: &mut content, length: 4096 });
        assert!(matches!(pieces[2], Payload::Described(third) if content.described() == Some(third)));
        let same = Packed::new(Payload::joined(&[pieces[0]; 4], &mut buffer), &[], FORMAT);
        assert!(same.held_bytes() < 32, "{}", same.held_bytes());
    }
}
