//! The two arithmetic codes that JFFS2 calls rubin (facts: Linux `fs/jffs2/compr_rubin.c`; they
//! have not been written for a long time).
//!
//! A binary arithmetic code with 16-bit registers and no adaptation. Each byte is eight symbols,
//! least significant bit first; each of the eight positions has its own probability of a one, as a
//! share of `divider`. The code's bits fill the input's bytes from the most significant bit.

use super::error::{Fault, Stop};

/// Half of the registers' range.
const HALF: u32 = 1 << 15;

/// The divider of RUBINMIPS' shares.
const MIPS_DIVIDER: u32 = 1043;

/// The shares of ones for bit 0 to bit 7, measured by the method's author on MIPS programs.
const MIPS_ONES: [u32; 8] = [277, 249, 290, 267, 229, 341, 212, 241];

/// Bytes before a DYNRUBIN stream: the shares of ones, out of 256.
const SHARES: usize = 8;

pub(super) fn decompress_mips(input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    decompress(MIPS_DIVIDER, MIPS_ONES, input, 0, output)
}

pub(super) fn decompress_dynamic(input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    let shares = input.first_chunk::<SHARES>().ok_or(Stop::new(Fault::InputEnds, input.len(), 0))?;
    decompress(256, shares.map(u32::from), input, SHARES, output)
}

/// `ones` must not exceed `divider`. Input left when the output is full is ignored, as in Linux.
fn decompress(divider: u32, ones: [u32; 8], input: &[u8], start: usize, output: &mut [u8]) -> Result<(), Stop> {
    if output.is_empty() {
        return Ok(());
    }
    let ended = |made| Stop::new(Fault::InputEnds, input.len(), made);
    let mut bits = Bits { input, at: start, left: 0, byte: 0 };
    let mut decoder = Decoder { low: 0, width: 2 * HALF, code: 0 };
    for _ in 0..16 {
        decoder.code = decoder.code << 1 | bits.next().ok_or_else(|| ended(0))?;
    }
    for (made, byte) in output.iter_mut().enumerate() {
        *byte = 0;
        for (place, ones) in ones.iter().enumerate() {
            decoder.widen(&mut bits).ok_or_else(|| ended(made))?;
            *byte |= u8::from(decoder.symbol(divider - ones, divider)) << place;
        }
    }
    Ok(())
}

/// `low + width` is at most twice [`HALF`], and `width` is not 0: so `widen` terminates with
/// `width` at least 2.
struct Decoder {
    low: u32,
    width: u32,
    code: u32,
}

impl Decoder {
    /// Shifts out the leading bits on which both ends of the interval agree.
    fn widen(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        while self.low >= HALF || self.low + self.width <= HALF {
            self.low = (self.low & (HALF - 1)) << 1;
            self.width <<= 1;
            self.code = (self.code & (HALF - 1)) << 1 | bits.next()?;
        }
        Some(())
    }

    /// The next symbol, if a zero has `zeroes` of `divider`. Each symbol gets a share, however
    /// small.
    fn symbol(&mut self, zeroes: u32, divider: u32) -> bool {
        let share = (zeroes * self.width / divider).clamp(1, self.width - 1);
        let one = self.code >= self.low + share;
        if one {
            self.low += share;
            self.width -= share;
        } else {
            self.width = share;
        }
        one
    }
}

/// The input's bits, most significant bit of each byte first.
struct Bits<'a> {
    input: &'a [u8],
    at: usize,
    left: u32,
    byte: u8,
}

impl Bits<'_> {
    fn next(&mut self) -> Option<u32> {
        if self.left == 0 {
            self.byte = *self.input.get(self.at)?;
            self.at += 1;
            self.left = 8;
        }
        self.left -= 1;
        Some(u32::from(self.byte >> self.left & 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inverse, with the same registers: instead of comparing with a code, it collects the bits
    /// shifted out.
    fn compress(divider: u32, ones: [u32; 8], input: &[u8]) -> Vec<u8> {
        let (mut low, mut width) = (0_u32, 2 * HALF);
        let mut bits = Vec::new();
        for bit in input.iter().flat_map(|byte| (0..8).map(move |place| (place, byte >> place & 1))) {
            while low >= HALF || low + width <= HALF {
                bits.push(low / HALF);
                (low, width) = (low % HALF * 2, width * 2);
            }
            let (place, bit) = bit;
            let share = ((divider - ones[place]) * width / divider).clamp(1, width - 1);
            (low, width) = if bit == 1 { (low + share, width - share) } else { (low, share) };
        }
        bits.extend((0..16).rev().map(|place| low >> place & 1));
        bits.chunks(8).map(|bits| bits.iter().zip(0..).map(|(bit, place)| (bit << (7 - place)) as u8).sum()).collect()
    }

    #[test]
    fn both_codes_give_back_what_was_coded() {
        let page: Vec<u8> = (0..1024_u32).map(|n| ((n * n) >> 5) as u8 & (n >> 3) as u8).collect();
        for length in [1, 2, 3, 100, page.len()] {
            let plain = &page[..length];
            let packed = compress(MIPS_DIVIDER, MIPS_ONES, plain);
            let mut back = vec![0; length];
            decompress_mips(&packed, &mut back).unwrap();
            assert_eq!(back, plain);
            assert!(decompress_mips(&packed[..packed.len() - 2], &mut back).is_err());

            let shares = [200, 128, 1, 255, 30, 0, 77, 5];
            let mut packed = shares.to_vec();
            packed.extend(compress(256, shares.map(u32::from), plain));
            decompress_dynamic(&packed, &mut back).unwrap();
            assert_eq!(back, plain);
        }
    }

    /// The output of the compressor in Linux 6.1's `compr_rubin.c`, run as a program, for the same
    /// 64 bytes.
    #[test]
    fn linux_streams() {
        let plain: Vec<u8> = (0..64).map(|n| (n * 5) as u8 & 0x23).collect();
        let mips = [
            0x12, 0xAC, 0xE2, 0x2F, 0x5C, 0x2E, 0xBF, 0x67, 0x39, 0xC5, 0xC3, 0x39, 0xCB, 0xEF, 0x5B, 0x59, 0x95, 0x26,
            0x1A, 0xF4, 0xE0, 0x7E, 0x8B, 0x88, 0xA0, 0xC1, 0x4F, 0xB4, 0x27, 0x20, 0x8D, 0x95, 0xDC, 0xF1, 0x02, 0x63,
            0x9D, 0x9E, 0x07, 0x6E, 0x37, 0xAD, 0x40, 0x7F, 0x0D,
        ];
        let dynamic = [
            0x80, 0x80, 0x01, 0x01, 0x01, 0x80, 0x01, 0x01, 0x11, 0x01, 0xDA, 0x8C, 0x8A, 0x9C, 0x75, 0xEA, 0xCD, 0x1D,
            0x33, 0x67, 0xDF, 0x9B, 0x79, 0x1F, 0x68, 0xCE, 0x8C, 0x98, 0x64, 0x1E, 0xF5, 0xEB, 0x4B, 0x60,
        ];
        let mut output = [0; 64];
        decompress_mips(&mips, &mut output).unwrap();
        assert_eq!(output, *plain);
        output.fill(0);
        decompress_dynamic(&dynamic, &mut output).unwrap();
        assert_eq!(output, *plain);
    }

    /// Made by hand: with equal shares the registers never round, and the code is the bits
    /// themselves, followed by the register's rest.
    #[test]
    fn with_equal_shares_the_code_is_the_bits() {
        let mut stream = vec![128; 8];
        stream.extend([0b1010_0110, 0b0000_1111, 0, 0]);
        let mut output = [0; 2];
        decompress_dynamic(&stream, &mut output).unwrap();
        assert_eq!(output, [0b0110_0101, 0b1111_0000]);
    }
}
