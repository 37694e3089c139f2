//! Decoding and encoding raw pages.

use std::ops::Range;

use nandkit_codec::ecc::Correction;

use super::bits;
use super::layout::{OobLayout, Stretch};

/// The state of a code word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodewordState {
    /// Never programmed, although this many of its bits are not 1.
    Erased(u32),
    /// Programmed.
    Programmed(Correction),
}

impl CodewordState {
    /// The number of corrected bits; `None` if the word is uncorrectable.
    pub const fn bits(self) -> Option<u32> {
        match self {
            Self::Erased(bits) => Some(bits),
            Self::Programmed(correction) => correction.bits(),
        }
    }
}

/// A page as its layout presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageContent {
    /// The corrected data.
    pub data: Vec<u8>,
    /// The OOB: marks and free bytes; 0xFF where the flash stores data, ECC or nothing.
    pub oob: Vec<u8>,
    /// The state of each code word.
    pub codewords: Vec<CodewordState>,
}

impl OobLayout {
    /// Decodes a raw page. Missing bytes count as zero. Cost: that of the code.
    pub fn decode(&self, raw: &[u8]) -> PageContent {
        if raw.len() == self.raw_bytes() && nandkit_units::is_erased(raw) {
            let codewords = vec![CodewordState::Erased(0); self.codewords.len()];
            return PageContent { codewords, ..self.show(raw) };
        }
        let (corrected, codewords) = self.corrected(raw);
        PageContent { codewords, ..self.show(&corrected) }
    }

    /// The raw page with all correctable errors fixed. Uncorrectable code words stay as they are.
    pub fn mended(&self, raw: &[u8]) -> Vec<u8> {
        match nandkit_units::is_erased(raw) {
            true => raw.to_vec(),
            false => self.corrected(raw).0,
        }
    }

    /// The raw page with all correctable errors fixed, and the state of each code word.
    fn corrected(&self, raw: &[u8]) -> (Vec<u8>, Vec<CodewordState>) {
        let mut corrected = raw.to_vec();
        let states = (0..self.codewords.len()).map(|number| {
            let (mut message, mut ecc) = self.gather(number, raw);
            // If erased flash is a valid code word, decoding corrects its errors.
            if !self.erased_is_right.get(number).is_some_and(|right| *right)
                && let Some(zeroes) = self.erased_but_for(number, raw)
            {
                self.fill(number, &mut corrected);
                return CodewordState::Erased(zeroes);
            }
            let told = self.correct(&mut message, &mut ecc);
            if matches!(told, Correction::Corrected(_)) {
                self.scatter(number, message, ecc, &mut corrected);
            }
            match told {
                Correction::Uncorrectable => CodewordState::Programmed(told),
                _ if self.is_erased(number, &corrected) => CodewordState::Erased(told.bits().unwrap_or(0)),
                _ => CodewordState::Programmed(told),
            }
        });
        let states = states.collect();
        (corrected, states)
    }

    /// The number of zero bits in an erased code word: up to the number of correctable bits they
    /// count as errors, as in Linux (`nand_check_erased_ecc_chunk`,
    /// drivers/mtd/nand/raw/nand_base.c).
    fn erased_but_for(&self, number: usize, raw: &[u8]) -> Option<u32> {
        let word = self.codewords.get(number)?;
        let mut zeroes = 0;
        let mut buffer = Vec::new();
        for (stored, length) in word.message.iter().chain(&word.ecc) {
            buffer.clear();
            buffer.resize(length.div_ceil(8), 0xFF);
            bits::copy(raw, *stored, &mut buffer, 0, *length);
            zeroes += bits::zeroes(&buffer);
            if zeroes > self.correctable() {
                return None;
            }
        }
        Some(zeroes)
    }

    /// Whether the ECC of a code word is erased flash.
    pub(super) fn has_erased_ecc(&self, number: usize, raw: &[u8]) -> bool {
        let Some(word) = self.codewords.get(number) else { return true };
        word.ecc.iter().all(|(stored, length)| {
            let mut stretch = vec![0xFF; length.div_ceil(8)];
            bits::copy(raw, *stored, &mut stretch, 0, *length);
            nandkit_units::is_erased(&stretch)
        })
    }

    fn is_erased(&self, number: usize, raw: &[u8]) -> bool {
        self.erased_but_for(number, raw) == Some(0)
    }

    /// Erases a code word.
    fn fill(&self, number: usize, raw: &mut [u8]) {
        let Some(word) = self.codewords.get(number) else { return };
        for (stored, length) in word.message.iter().chain(&word.ecc) {
            bits::copy(&vec![0xFF; length.div_ceil(8)], 0, raw, *stored, *length);
        }
    }

    /// Data and OOB of a raw page, uncorrected.
    fn show(&self, raw: &[u8]) -> PageContent {
        let mut data = vec![0xFF; self.page_size() as usize];
        let mut oob = vec![0xFF; self.oob_size() as usize];
        for (stretches, into) in [(&self.data, &mut data), (&self.oob, &mut oob)] {
            for stretch in stretches {
                bits::copy(raw, stretch.stored, into, stretch.shown, stretch.bits);
            }
        }
        PageContent { data, oob, codewords: Vec::new() }
    }

    /// A byte of the presented OOB, uncorrected; `None` if the flash does not store it.
    pub(super) fn oob_byte(&self, raw: &[u8], byte: usize) -> Option<u8> {
        let holds = |stretch: &&Stretch| (stretch.shown..stretch.shown + stretch.bits).contains(&(byte * 8));
        let stretch = self.oob.iter().find(holds)?;
        let mut found = [0xFF];
        bits::copy(raw, stretch.stored + byte * 8 - stretch.shown, &mut found, 0, 8);
        Some(found[0])
    }

    /// Encodes data and OOB to a raw page, where `before` is the previous raw page: unused bits,
    /// and code words without changes, stay as they are, including errors. Code words without
    /// programmed content stay erased.
    pub fn encode_page(&self, data: &[u8], oob: &[u8], before: &[u8]) -> Vec<u8> {
        let was = self.mended(before);
        let mut raw = was.clone();
        for (stretches, from) in [(&self.data, data), (&self.oob, oob)] {
            for stretch in stretches {
                bits::copy(from, stretch.shown, &mut raw, stretch.stored, stretch.bits);
            }
        }
        let programs = !nandkit_units::is_erased(data);
        let was_blank = nandkit_units::is_erased(&self.show(&was).data);
        for number in 0..self.codewords.len() {
            let ((message, ecc), (message_before, _)) = (self.gather(number, &raw), self.gather(number, &was));
            if message == message_before && !(programs && was_blank) {
                let (message, ecc) = self.gather(number, before);
                self.scatter(number, message, ecc, &mut raw);
            } else if nandkit_units::is_erased(&message) && !programs {
                self.fill(number, &mut raw);
            } else {
                let made = self.encode(number, &message);
                // Bits in the ECC's bytes that are no parity are unused.
                debug_assert_eq!(made.len(), ecc.len());
                self.scatter(number, message, made, &mut raw);
            }
        }
        raw
    }

    /// The data bytes covered by a code word, as ranges.
    pub fn covered(&self, codeword: usize) -> Vec<Range<usize>> {
        let Some(word) = self.codewords.get(codeword) else { return Vec::new() };
        let inside = |stored: usize| word.message.iter().any(|(start, bits)| (*start..start + bits).contains(&stored));
        let mut covered = Vec::new();
        for stretch in self.data.iter().filter(|stretch| inside(stretch.stored)) {
            covered.push(stretch.shown / 8..(stretch.shown + stretch.bits).div_ceil(8));
        }
        covered
    }

    /// Whether an OOB byte of the flash is presented at the same position.
    pub(crate) fn keeps_in_place(&self, byte: u32) -> bool {
        let (shown, stored) = (byte as usize * 8, (self.page_size() + byte) as usize * 8);
        let holds = |first: usize, bits: usize, bit: usize| (first..first + bits).contains(&bit);
        let keeps = |stretch: &Stretch| {
            holds(stretch.shown, stretch.bits, shown)
                && holds(stretch.stored, stretch.bits, stored)
                && shown - stretch.shown == stored - stretch.stored
        };
        self.oob.iter().any(keeps)
    }

    /// Whether a byte of the presented OOB is stored on the flash.
    pub fn keeps_oob(&self, byte: usize) -> bool {
        let bit = byte * 8;
        self.oob.iter().any(|stretch| (stretch.shown..stretch.shown + stretch.bits).contains(&bit))
    }
}
