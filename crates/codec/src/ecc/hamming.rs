//! The Hamming code of SmartMedia and of Linux's software ECC: 3 bytes for 256 or 512 data bytes.
//!
//! Every data bit has an address: the index of its byte, followed by the number of the bit. Each
//! bit of the address has two parities: one over all data bits whose address has that bit clear,
//! one over those that have it set. A wrong data bit changes exactly one parity of each pair, and
//! the pairs together give its address. Source: Linux `Documentation/driver-api/mtd/nand_ecc.rst`,
//! `drivers/mtd/nand/ecc-sw-hamming.c`; SmartMedia physical format, SSFDC Forum.

use super::Correction;

/// ECC bytes of a code word.
const ECC_BYTES: usize = 3;
/// Address bits within a byte.
const COLUMN_BITS: u32 = 3;
/// The bit of the third byte with the first column parity; below it are the line parities 16 and 17
/// of 512 bytes, which are set and unused with 256.
const COLUMNS_AT: u32 = 18;

/// Which of the first two ECC bytes holds the parities of the low address bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HammingOrder {
    /// The second byte: Linux's default.
    #[default]
    Linux,
    /// The first byte: SmartMedia's order, and Linux's if a driver requests it (`sm_order`).
    SmartMedia,
}

/// A Hamming code over 256 or 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hamming {
    line_bits: u32,
    order: HammingOrder,
}

impl Hamming {
    /// The code over `step` data bytes; `None` unless these are 256 or 512.
    pub const fn new(step: u32, order: HammingOrder) -> Option<Self> {
        match step {
            256 => Some(Self { line_bits: 8, order }),
            512 => Some(Self { line_bits: 9, order }),
            _ => None,
        }
    }

    /// Data bytes per code word.
    pub const fn step(&self) -> usize {
        1 << self.line_bits
    }

    /// The ECC of data. Missing bytes count as zero; bytes past the step are ignored. Cost: a few
    /// operations per byte.
    pub fn encode(&self, data: &[u8]) -> [u8; ECC_BYTES] {
        let (mut lines, mut columns, mut odd) = (0, 0_u8, 0);
        for (index, byte) in (0_u32..).zip(data.iter().take(self.step())) {
            let parity = byte.count_ones() & 1;
            lines ^= index * parity;
            odd ^= parity;
            columns ^= byte;
        }
        let column = |number: u8| u32::from(columns >> number & 1) * u32::from(number);
        let columns = (0..8).fold(0, |address, number| address ^ column(number));
        // Parities are stored inverted, so that erased data have an erased ECC.
        self.order(!(pairs(lines, self.line_bits, odd) | pairs(columns, COLUMN_BITS, odd) << COLUMNS_AT))
    }

    /// Corrects one wrong bit. Two wrong bits are always detected; three and more mostly look like
    /// one, as in every such code. Incomplete data are uncorrectable.
    pub fn correct(&self, data: &mut [u8], ecc: &mut [u8; ECC_BYTES]) -> Correction {
        let right = self.encode(data);
        let mut wrong = self.number(right) ^ self.number(*ecc);
        if self.line_bits < 9 {
            wrong &= !(3 << 16);
        }
        let columns = split(wrong >> COLUMNS_AT, COLUMN_BITS);
        let lines = split(wrong, self.line_bits);
        match (wrong.count_ones(), lines, columns) {
            (0, ..) => Correction::Clean,
            (_, Some(line), Some(column)) => match data.get_mut(line as usize) {
                Some(byte) => {
                    *byte ^= 1 << column;
                    Correction::Corrected(1)
                }
                None => Correction::Uncorrectable,
            },
            (1, ..) => {
                *ecc = right;
                Correction::Corrected(1)
            }
            _ => Correction::Uncorrectable,
        }
    }

    fn order(&self, number: u32) -> [u8; ECC_BYTES] {
        let [low, high, third, _] = number.to_le_bytes();
        match self.order {
            HammingOrder::SmartMedia => [low, high, third],
            HammingOrder::Linux => [high, low, third],
        }
    }

    fn number(&self, ecc: [u8; ECC_BYTES]) -> u32 {
        let [first, second, third] = ecc;
        match self.order {
            HammingOrder::SmartMedia => u32::from_le_bytes([first, second, third, 0]),
            HammingOrder::Linux => u32::from_le_bytes([second, first, third, 0]),
        }
    }
}

/// The parity pair for each bit of an address: at the even position that over clear bits, followed
/// by that over set ones. `address` is the exclusive or of the addresses of all set data bits.
fn pairs(address: u32, bits: u32, odd: u32) -> u32 {
    (0..bits).fold(0, |pairs, bit| {
        let set = address >> bit & 1;
        pairs | (set ^ odd) << (2 * bit) | set << (2 * bit + 1)
    })
}

/// The address given by pairs of which exactly one parity each is wrong.
fn split(pairs: u32, bits: u32) -> Option<u32> {
    (0..bits).try_fold(0, |address, bit| match pairs >> (2 * bit) & 3 {
        0b01 => Some(address),
        0b10 => Some(address | 1 << bit),
        _ => None,
    })
}
