//! The Hamming code of SmartMedia and of Linux's software ECC: 3 bytes for 256 or 512 bytes.
//!
//! Every bit of the data has an address: the index of its byte, then the number of the bit. For
//! each bit of the address there are two parities: one over all data bits whose address has that
//! bit clear, one over those that have it set. A wrong data bit changes exactly one of each pair,
//! and which one spells its address. Source: Linux `Documentation/driver-api/mtd/nand_ecc.rst`,
//! `drivers/mtd/nand/ecc-sw-hamming.c`; SmartMedia physical format, SSFDC Forum.

use super::Correction;

/// ECC bytes of a code word.
const ECC_BYTES: usize = 3;
/// Bits of the address within a byte.
const COLUMN_BITS: u32 = 3;
/// The first column parity stands at this bit of the third byte; below it are the line parities 16
/// and 17 of 512 bytes, which are set and mean nothing with 256.
const COLUMNS_AT: u32 = 18;

/// Which of the first two ECC bytes holds the parities of the low address bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HammingOrder {
    /// The second: Linux's default.
    #[default]
    Linux,
    /// The first: SmartMedia's, and Linux's where a driver asks for it (`sm_order`).
    SmartMedia,
}

/// A Hamming code over 256 or 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hamming {
    line_bits: u32,
    order: HammingOrder,
}

impl Hamming {
    /// The code over `step` bytes of data; `None` unless these are 256 or 512.
    pub const fn new(step: u32, order: HammingOrder) -> Option<Self> {
        match step {
            256 => Some(Self { line_bits: 8, order }),
            512 => Some(Self { line_bits: 9, order }),
            _ => None,
        }
    }

    /// Data bytes of a code word.
    pub const fn step(&self) -> usize {
        1 << self.line_bits
    }

    /// The ECC of data. Missing bytes count as zero; those past the step are not looked at. Cost: a
    /// few operations a byte.
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

    /// Puts a wrong bit right. Two wrong bits are always told from one; of three and more, most
    /// look like one, as with every such code. Data that are not whole are uncorrectable.
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

/// Two parities for each bit of an address: at the even place that over clear bits, behind it that
/// over set ones. `address`: the exclusive or of the addresses of all set data bits.
fn pairs(address: u32, bits: u32, odd: u32) -> u32 {
    (0..bits).fold(0, |pairs, bit| {
        let set = address >> bit & 1;
        pairs | (set ^ odd) << (2 * bit) | set << (2 * bit + 1)
    })
}

/// The address that pairs spell, of which exactly one parity each is wrong.
fn split(pairs: u32, bits: u32) -> Option<u32> {
    (0..bits).try_fold(0, |address, bit| match pairs >> (2 * bit) & 3 {
        0b01 => Some(address),
        0b10 => Some(address | 1 << bit),
        _ => None,
    })
}
