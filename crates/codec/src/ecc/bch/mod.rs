//! Binary BCH codes, shortened to the length of the message, in systematic form.
//!
//! The message's bits are the coefficients of a polynomial; the first bit of the first byte (bit 7)
//! is that of the highest power. The polynomial is multiplied by x^r and divided by the generator
//! polynomial of degree r. The remainder is the parity, again highest power first. Source of the
//! layout: Linux `lib/bch.c`; of the theory: Lin and Costello, Error Control Coding, chapter 6.

mod decode;
mod field;

use std::fmt;

use self::field::{FIELD_BITS, Field};
use super::Correction;

/// The longest parity in bits: 64 errors in GF(2^15) take 960.
const PARITY_BITS_MAX: usize = 1024;
/// Words of a remainder.
const WORDS: usize = PARITY_BITS_MAX / 64;

/// A remainder, highest power first, starting at the first word's highest bit.
type Remainder = [u64; WORDS];

/// The error for an impossible code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BchError {
    /// The field has fewer than 2^5 or more than 2^15 elements.
    FieldBits(u32),
    /// The polynomial is not primitive, or not of the field's degree.
    Polynomial(u32),
    /// The code would correct no bit, or more than the field and a parity of 1024 bits allow.
    Correctable(u32),
}

impl fmt::Display for BchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FieldBits(bits) => {
                write!(f, "a field of 2^{bits} elements; expected {} to {} bits", FIELD_BITS.start(), FIELD_BITS.end())
            }
            Self::Polynomial(polynomial) => {
                write!(f, "the polynomial {polynomial:#x} is not primitive or not of the field's degree")
            }
            Self::Correctable(bits) => {
                write!(
                    f,
                    "{bits} correctable bits; expected at least 1, and a parity of at most {PARITY_BITS_MAX} bits"
                )
            }
        }
    }
}

impl std::error::Error for BchError {}

/// A BCH code over GF(2^m) that corrects t bits. Its tables are built once: about 32 KiB and the
/// field's.
#[derive(Clone)]
pub struct Bch {
    field: Field,
    correctable: u32,
    parity_bits: usize,
    /// Words of the remainder that the code uses.
    words: usize,
    /// The remainder of every byte followed by as many zero bits as the parity has.
    table: Vec<Remainder>,
}

impl fmt::Debug for Bch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bch").field("correctable", &self.correctable).field("parity_bits", &self.parity_bits).finish()
    }
}

impl Bch {
    /// The code over GF(2^`field_bits`) that corrects `correctable` bits, with Linux' polynomial if
    /// none is given. Cost: some milliseconds for the largest. Errors: parameters that no such code
    /// has.
    pub fn new(field_bits: u32, correctable: u32, polynomial: Option<u32>) -> Result<Self, BchError> {
        let usual = Field::usual_polynomial(field_bits).ok_or(BchError::FieldBits(field_bits))?;
        let polynomial = polynomial.unwrap_or(usual);
        let field = Field::new(field_bits, polynomial).ok_or(BchError::Polynomial(polynomial))?;
        let fits = (correctable as usize).checked_mul(field_bits as usize).is_some_and(|bits| bits <= PARITY_BITS_MAX);
        if correctable == 0 || !fits || 2 * correctable as usize >= field.order() {
            return Err(BchError::Correctable(correctable));
        }
        let generator = generator(&field, correctable);
        let parity_bits = generator.len() - 1;
        if parity_bits >= field.order() {
            return Err(BchError::Correctable(correctable));
        }
        let words = parity_bits.div_ceil(64);
        let table = table(&generator, words);
        Ok(Self { field, correctable, parity_bits, words, table })
    }

    /// The number of bits that the code corrects.
    pub const fn correctable(&self) -> u32 {
        self.correctable
    }

    /// Length of the parity in bits: the degree of the generator polynomial.
    pub const fn parity_bits(&self) -> usize {
        self.parity_bits
    }

    /// Length of the parity in bytes; unused bits of the last one are 0.
    pub const fn parity_bytes(&self) -> usize {
        self.parity_bits.div_ceil(8)
    }

    /// The longest message in bytes.
    pub fn message_bytes_max(&self) -> usize {
        (self.field.order() - self.parity_bits) / 8
    }

    /// The parity of a message, of [`Self::parity_bytes`] length. A message longer than
    /// [`Self::message_bytes_max`] has one too, but cannot be corrected. Cost: one table lookup per
    /// byte.
    pub fn encode(&self, message: &[u8]) -> Vec<u8> {
        let remainder = self.remainder(message);
        let bytes = remainder.iter().flat_map(|word| word.to_be_bytes());
        bytes.take(self.parity_bytes()).collect()
    }

    fn remainder(&self, message: &[u8]) -> Remainder {
        // Long remainders are rare, and would slow down all others.
        match self.words {
            1 => self.divide::<1>(message),
            2 => self.divide::<2>(message),
            3 | 4 => self.divide::<4>(message),
            5..=8 => self.divide::<8>(message),
            _ => self.divide::<WORDS>(message),
        }
    }

    fn divide<const N: usize>(&self, message: &[u8]) -> Remainder {
        let mut register = [0_u64; N];
        for byte in message {
            let row = self.table.get((register[0] >> 56) as usize ^ usize::from(*byte)).unwrap_or(&[0; WORDS]);
            for place in 0..N {
                let next = register.get(place + 1).copied().unwrap_or(0);
                register[place] = (register[place] << 8 | next >> 56) ^ row[place];
            }
        }
        let mut remainder = [0; WORDS];
        remainder[..N].copy_from_slice(&register);
        remainder
    }

    /// Corrects up to [`Self::correctable`] wrong bits in a message and its parity. Unused bits in
    /// the parity's bytes are not changed.
    ///
    /// With more wrong bits, most words are reported as uncorrectable; the rest are within reach of
    /// another code word, which cannot be detected. A message that is too long, and a parity that
    /// is too short, are uncorrectable too. Cost: that of [`Self::encode`] if nothing is wrong;
    /// else up to a microsecond per bit of the parity.
    pub fn correct(&self, message: &mut [u8], parity: &mut [u8]) -> Correction {
        if message.len() > self.message_bytes_max() || parity.len() < self.parity_bytes() {
            return Correction::Uncorrectable;
        }
        let mut wrong = self.remainder(message);
        for (word, stored) in wrong.iter_mut().zip(parity[..self.parity_bytes()].chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..stored.len()].copy_from_slice(stored);
            *word ^= u64::from_be_bytes(bytes);
        }
        let spare = self.words * 64 - self.parity_bits;
        if let Some(last) = wrong.get_mut(self.words - 1) {
            *last &= u64::MAX << spare;
        }
        if wrong.iter().all(|word| *word == 0) {
            return Correction::Clean;
        }
        let length = message.len() * 8 + self.parity_bits;
        let Some(powers) = decode::wrong_powers(&self.field, self.correctable, self.parity_bits, &wrong, length) else {
            return Correction::Uncorrectable;
        };
        for power in &powers {
            // Bit 0 has the highest power.
            let bit = length - 1 - power;
            let (bytes, bit) = match bit.checked_sub(message.len() * 8) {
                None => (&mut *message, bit),
                Some(bit) => (&mut *parity, bit),
            };
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 0x80 >> (bit % 8);
            }
        }
        Correction::Corrected(powers.len() as u32)
    }
}

/// The generator polynomial, lowest power first: the product of (x - root) over the first 2t powers
/// of the primitive element and their conjugates.
fn generator(field: &Field, correctable: u32) -> Vec<bool> {
    let mut is_root = vec![false; field.order()];
    for first in (1..2 * correctable as usize).step_by(2) {
        let mut root = first % field.order();
        while let Some(seen) = is_root.get_mut(root).filter(|seen| !**seen) {
            *seen = true;
            root = 2 * root % field.order();
        }
    }
    let mut product = vec![1_u16];
    for (root, _) in is_root.iter().enumerate().filter(|(_, is)| **is) {
        let root = field.power(root);
        product.push(0);
        for place in (0..product.len()).rev() {
            let below = place.checked_sub(1).map_or(0, |below| product[below]);
            product[place] = below ^ field.multiply(product[place], root);
        }
    }
    product.into_iter().map(|coefficient| coefficient != 0).collect()
}

/// The remainders of all bytes.
fn table(generator: &[bool], words: usize) -> Vec<Remainder> {
    let mut divisor: Remainder = [0; WORDS];
    for (place, _) in generator.iter().rev().skip(1).enumerate().filter(|(_, set)| **set) {
        divisor[place / 64] |= 1 << (63 - place % 64);
    }
    let row = |byte: u64| {
        let mut register: Remainder = [0; WORDS];
        register[0] = byte << 56;
        for _ in 0..8 {
            let out = register[0] >> 63;
            for place in 0..words {
                let next = register.get(place + 1).copied().unwrap_or(0);
                register[place] = (register[place] << 1 | next >> 63) ^ (divisor[place] * out);
            }
        }
        register
    };
    (0..256).map(row).collect()
}
