//! LZMA as vendors' JFFS2 uses it, without the header of `.lzma` files: the format defines
//! properties and length (facts: the LZMA specification, `lzma-specification.txt` of the LZMA SDK,
//! public domain).
//!
//! A range coder in which every bit adapts a probability. A packet is a literal, a match, or a
//! match at one of the last four distances. The first byte of a stream is zero.

use super::error::{Fault, Stop};
use super::repeat;

/// The context parameters of a stream: `lc`, `lp`, `pb` of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LzmaProperties {
    literal_context_bits: u32,
    literal_position_bits: u32,
    position_bits: u32,
}

/// Largest supported `lc + lp`: beyond it more memory is needed than any user of small blocks
/// requires; xz has the same limit.
const LITERAL_BITS_MAX: u32 = 4;

impl LzmaProperties {
    /// `lc = lp = pb = 0`, as in OpenWrt's JFFS2 (its patch `lzma/jffs2`).
    pub const ZERO: Self = Self { literal_context_bits: 0, literal_position_bits: 0, position_bits: 0 };

    /// The properties in a header's first byte, `(pb * 5 + lp) * 9 + lc`. `None` if they are
    /// invalid, or need more than 24 KiB of probabilities.
    pub const fn of_byte(byte: u8) -> Option<Self> {
        let (rest, literal_context_bits) = (byte as u32 / 9, byte as u32 % 9);
        let (position_bits, literal_position_bits) = (rest / 5, rest % 5);
        if position_bits > 4 || literal_context_bits + literal_position_bits > LITERAL_BITS_MAX {
            return None;
        }
        Some(Self { literal_context_bits, literal_position_bits, position_bits })
    }
}

/// States determined by the previous packets: below 7, the last one was a literal.
const STATES: usize = 12;
const STATES_OF_LITERALS: usize = 7;
const POSITIONS_MAX: usize = 1 << 4;
/// A probability of one half, out of 2048.
const HALF: u16 = 1024;
const MATCH_LENGTH_MIN: usize = 2;

/// The probabilities of a number coded from its highest bit, each bit in the context of those
/// before it.
type Tree<const SIZE: usize> = [u16; SIZE];

struct Lengths {
    choice: [u16; 2],
    low: [Tree<8>; POSITIONS_MAX],
    middle: [Tree<8>; POSITIONS_MAX],
    high: Tree<256>,
}

impl Lengths {
    const fn new() -> Self {
        let trees = [[HALF; 8]; POSITIONS_MAX];
        Self { choice: [HALF; 2], low: trees, middle: trees, high: [HALF; 256] }
    }

    fn decode(&mut self, coder: &mut RangeDecoder<'_>, position: usize) -> Option<usize> {
        let [first, second] = &mut self.choice;
        if coder.bit(first)? == 0 {
            return coder.tree(self.low.get_mut(position)?, 3);
        }
        if coder.bit(second)? == 0 {
            return Some(8 + coder.tree(self.middle.get_mut(position)?, 3)?);
        }
        Some(16 + coder.tree(&mut self.high, 8)?)
    }
}

/// The range coder. Every method returns `None` if the input ends.
struct RangeDecoder<'a> {
    input: &'a [u8],
    at: usize,
    range: u32,
    code: u32,
}

impl<'a> RangeDecoder<'a> {
    fn new(input: &'a [u8]) -> Option<Self> {
        let code = u32::from_be_bytes(*input.get(1..)?.first_chunk()?);
        Some(Self { input, at: 5, range: u32::MAX, code })
    }

    fn normalize(&mut self) -> Option<()> {
        if self.range < 1 << 24 {
            self.range <<= 8;
            self.code = self.code << 8 | u32::from(*self.input.get(self.at)?);
            self.at += 1;
        }
        Some(())
    }

    fn bit(&mut self, probability: &mut u16) -> Option<usize> {
        self.normalize()?;
        let bound = (self.range >> 11) * u32::from(*probability);
        if self.code < bound {
            self.range = bound;
            *probability += (2048 - *probability) >> 5;
            Some(0)
        } else {
            self.range -= bound;
            self.code -= bound;
            *probability -= *probability >> 5;
            Some(1)
        }
    }

    /// Bits of equal probability, the highest first.
    fn direct(&mut self, bits: u32) -> Option<usize> {
        let mut value = 0;
        for _ in 0..bits {
            self.normalize()?;
            self.range >>= 1;
            let is_set = self.code >= self.range;
            if is_set {
                self.code -= self.range;
            }
            value = value << 1 | usize::from(is_set);
        }
        Some(value)
    }

    fn tree(&mut self, tree: &mut [u16], bits: u32) -> Option<usize> {
        let mut node = 1;
        for _ in 0..bits {
            node = node << 1 | self.bit(tree.get_mut(node)?)?;
        }
        Some(node - (1 << bits))
    }

    /// A number coded from its lowest bit.
    fn reversed_tree(&mut self, tree: &mut [u16], bits: u32) -> Option<usize> {
        let (mut node, mut value) = (1, 0);
        for index in 0..bits {
            let bit = self.bit(tree.get_mut(node)?)?;
            node = node << 1 | bit;
            value |= bit << index;
        }
        Some(value)
    }
}

/// A packet.
enum Packet {
    Literal(u8),
    /// A copy: distance and length in bytes.
    Copy(usize, usize),
    End,
}

struct Model {
    properties: LzmaProperties,
    state: usize,
    /// The last four distances, minus one each.
    distances: [usize; 4],
    literals: Vec<u16>,
    is_match: [[u16; POSITIONS_MAX]; STATES],
    is_repeated: [u16; STATES],
    is_not_first: [u16; STATES],
    is_long: [[u16; POSITIONS_MAX]; STATES],
    is_not_second: [u16; STATES],
    is_fourth: [u16; STATES],
    slots: [Tree<64>; 4],
    /// Slots 4 to 13: one tree each, in sequence.
    near: [u16; 128],
    align: Tree<16>,
    lengths: Lengths,
    repeated_lengths: Lengths,
}

impl Model {
    fn new(properties: LzmaProperties) -> Self {
        let literal_bits = properties.literal_context_bits + properties.literal_position_bits;
        Self {
            properties,
            state: 0,
            distances: [0; 4],
            literals: vec![HALF; 0x300 << literal_bits],
            is_match: [[HALF; POSITIONS_MAX]; STATES],
            is_repeated: [HALF; STATES],
            is_not_first: [HALF; STATES],
            is_long: [[HALF; POSITIONS_MAX]; STATES],
            is_not_second: [HALF; STATES],
            is_fourth: [HALF; STATES],
            slots: [[HALF; 64]; 4],
            near: [HALF; 128],
            align: [HALF; 16],
            lengths: Lengths::new(),
            repeated_lengths: Lengths::new(),
        }
    }

    fn packet(&mut self, coder: &mut RangeDecoder<'_>, done: &[u8]) -> Option<Packet> {
        let position = done.len() & ((1 << self.properties.position_bits) - 1);
        let state = self.state;
        if coder.bit(self.is_match.get_mut(state)?.get_mut(position)?)? == 0 {
            return self.literal(coder, done).map(Packet::Literal);
        }
        let was_literal = state < STATES_OF_LITERALS;
        if coder.bit(self.is_repeated.get_mut(state)?)? == 0 {
            let length = MATCH_LENGTH_MIN + self.lengths.decode(coder, position)?;
            let distance = self.distance(coder, length)?;
            self.distances.rotate_right(1);
            self.distances[0] = distance;
            self.state = if was_literal { 7 } else { 10 };
            // All bits set: the end marker.
            return Some(if distance == u32::MAX as usize { Packet::End } else { Packet::Copy(distance + 1, length) });
        }
        if coder.bit(self.is_not_first.get_mut(state)?)? == 0 {
            if coder.bit(self.is_long.get_mut(state)?.get_mut(position)?)? == 0 {
                self.state = if was_literal { 9 } else { 11 };
                return Some(Packet::Copy(self.distances[0] + 1, 1));
            }
        } else {
            let place = match coder.bit(self.is_not_second.get_mut(state)?)? {
                0 => 1,
                _ => 2 + coder.bit(self.is_fourth.get_mut(state)?)?,
            };
            self.distances.get_mut(..=place)?.rotate_right(1);
        }
        let length = MATCH_LENGTH_MIN + self.repeated_lengths.decode(coder, position)?;
        self.state = if was_literal { 8 } else { 11 };
        Some(Packet::Copy(self.distances[0] + 1, length))
    }

    fn literal(&mut self, coder: &mut RangeDecoder<'_>, done: &[u8]) -> Option<u8> {
        let LzmaProperties { literal_context_bits, literal_position_bits, .. } = self.properties;
        let before = usize::from(done.last().copied().unwrap_or(0));
        let place = done.len() & ((1 << literal_position_bits) - 1);
        let context = place << literal_context_bits | before >> (8 - literal_context_bits);
        let literals = self.literals.get_mut(context * 0x300..)?;
        let mut symbol = 1;
        if self.state >= STATES_OF_LITERALS {
            // After a match, the byte at the last distance is a context as long as it agrees.
            let mut expected = usize::from(*done.get(done.len().checked_sub(self.distances[0] + 1)?)?);
            while symbol < 0x100 {
                let bit_of_expected = expected >> 7 & 1;
                expected <<= 1;
                let bit = coder.bit(literals.get_mut((1 + bit_of_expected) << 8 | symbol)?)?;
                symbol = symbol << 1 | bit;
                if bit != bit_of_expected {
                    break;
                }
            }
        }
        while symbol < 0x100 {
            symbol = symbol << 1 | coder.bit(literals.get_mut(symbol)?)?;
        }
        self.state = match self.state {
            0..4 => 0,
            state @ 4..10 => state - 3,
            state => state - 6,
        };
        Some(symbol as u8)
    }

    fn distance(&mut self, coder: &mut RangeDecoder<'_>, length: usize) -> Option<usize> {
        let slots = self.slots.get_mut((length - MATCH_LENGTH_MIN).min(3))?;
        let slot = coder.tree(slots, 6)?;
        if slot < 4 {
            return Some(slot);
        }
        let bits = (slot >> 1) as u32 - 1;
        let base = (2 | slot & 1) << bits;
        if slot < 14 {
            return Some(base + coder.reversed_tree(self.near.get_mut(base - slot..)?, bits)?);
        }
        let high = coder.direct(bits - 4)? << 4;
        Some(base + high + coder.reversed_tree(&mut self.align, 4)?)
    }
}

/// Fills `output`. The rest of the input is ignored: its last bytes only terminate the coder.
pub(super) fn decompress(properties: LzmaProperties, input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    if input.first().is_some_and(|first| *first != 0) {
        return Err(Stop::new(Fault::Corrupt, 0, 0));
    }
    let mut coder = RangeDecoder::new(input).ok_or(Stop::new(Fault::InputEnds, input.len(), 0))?;
    let mut model = Model::new(properties);
    let mut made = 0;
    while made < output.len() {
        let read = coder.at.min(input.len());
        let stop = |fault| Stop::new(fault, read, made);
        let packet = model.packet(&mut coder, output.get(..made).unwrap_or_default());
        match packet.ok_or(stop(Fault::InputEnds))? {
            Packet::Literal(byte) => {
                if let Some(next) = output.get_mut(made) {
                    *next = byte;
                }
                made += 1;
            }
            Packet::Copy(distance, length) => {
                let source = made.checked_sub(distance).ok_or(stop(Fault::Distance { distance }))?;
                let end = made.saturating_add(length);
                if end > output.len() {
                    return Err(stop(Fault::OutputFull));
                }
                repeat(output, source, made, end);
                made = end;
            }
            Packet::End => return Err(stop(Fault::OutputShort)),
        }
    }
    Ok(())
}
