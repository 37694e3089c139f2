//! Checked OOB layouts: every bit of a page has a position, and every code word its code.

use std::fmt;

use nandkit_codec::ecc::{Bch, Correction, Hamming, HammingOrder};

use super::bits;
use super::spec::{CodeSpec, FirstBit, GroupSpec, Holds, LayoutSpec, OrderSpec, ParitySpec, SpanSpec};
use crate::error::{ImageError, Result};

/// Largest page and OOB in bytes: four times those of chips in use.
const PAGE_MAX: u32 = 65_536;
const OOB_MAX: u32 = 16_384;
/// Most spans of a page.
const SPANS_MAX: usize = 4096;

/// Bits that are contiguous both on the flash and in the presented page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The first bit in the raw page.
    pub stored: usize,
    /// The first bit in the data, or in the presented OOB.
    pub shown: usize,
    pub bits: usize,
}

/// A code word: ranges of the raw page, as first bit and length, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Codeword {
    pub message: Vec<(usize, usize)>,
    pub ecc: Vec<(usize, usize)>,
}

impl Codeword {
    fn bits_of(stretches: &[(usize, usize)]) -> usize {
        stretches.iter().map(|(_, bits)| bits).sum()
    }

    pub fn message_bytes(&self) -> usize {
        Self::bits_of(&self.message) / 8
    }

    pub fn ecc_bytes(&self) -> usize {
        Self::bits_of(&self.ecc).div_ceil(8)
    }
}

/// The code of a layout, and how it is stored on the flash.
#[derive(Clone, Debug)]
pub(super) enum Code {
    Hamming(Hamming),
    Bch {
        code: Bch,
        first_bit: FirstBit,
        /// The values combined with the ECC of each code word by exclusive or.
        masks: Vec<Vec<u8>>,
    },
}

/// The layout of NAND pages on the flash: data, ECC, OOB and marks, bit by bit.
#[derive(Clone)]
pub struct OobLayout {
    spec: LayoutSpec,
    pub(super) data: Vec<Stretch>,
    pub(super) oob: Vec<Stretch>,
    pub(super) codewords: Vec<Codeword>,
    pub(super) code: Code,
    /// For each code word: whether its erased form is valid by the code.
    pub(super) erased_is_right: Vec<bool>,
}

impl fmt::Debug for OobLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OobLayout").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

/// Layouts are equal if they store the same things in the same positions.
impl PartialEq for OobLayout {
    fn eq(&self, other: &Self) -> bool {
        let same_masks = match (&self.code, &other.code) {
            (Code::Hamming(a), Code::Hamming(b)) => a == b,
            (
                Code::Bch { code: a, first_bit: first_a, masks: masks_a },
                Code::Bch { code: b, first_bit: first_b, masks: masks_b },
            ) => {
                let codes = |code: &Bch| (code.correctable(), code.parity_bits(), code.encode(&[1, 2, 3]));
                first_a == first_b && masks_a == masks_b && codes(a) == codes(b)
            }
            _ => false,
        };
        same_masks
            && (self.page_size(), self.oob_size(), self.name()) == (other.page_size(), other.oob_size(), other.name())
            && (&self.data, &self.oob, &self.codewords) == (&other.data, &other.oob, &other.codewords)
    }
}

impl Eq for OobLayout {}

impl OobLayout {
    /// Parses a layout file. Errors: `Layout`, with what is wrong, where, and what was expected.
    pub fn from_toml(text: &str) -> Result<Self> {
        let spec = LayoutSpec::from_toml(text)?;
        let within = |error: ImageError| ImageError::layout(format!("layout \"{}\": {}", spec.name, error.detail));
        let (data, oob, codewords) = Placing::of(&spec).map_err(within)?;
        let (code, erased_is_right) = code(&spec.code, &codewords).map_err(within)?;
        Ok(Self { data, oob, codewords, code, erased_is_right, spec })
    }

    /// The name, such as `linux-bch4-2048-64`.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// A one-line description for people.
    pub fn title(&self) -> &str {
        &self.spec.title
    }

    /// The publications that describe it.
    pub fn sources(&self) -> &[String] {
        &self.spec.sources
    }

    /// Data bytes per page.
    pub fn page_size(&self) -> u32 {
        self.spec.page_size
    }

    /// OOB bytes per page.
    pub fn oob_size(&self) -> u32 {
        self.spec.oob_size
    }

    /// Length of a page with its OOB in bytes.
    pub fn raw_bytes(&self) -> usize {
        self.spec.page_size as usize + self.spec.oob_size as usize
    }

    /// Code words per page.
    pub fn codewords(&self) -> usize {
        self.codewords.len()
    }

    /// The most correctable bits per code word.
    pub fn correctable(&self) -> u32 {
        match &self.code {
            Code::Hamming(_) => 1,
            Code::Bch { code, .. } => code.correctable(),
        }
    }

    /// Extracts the message and the ECC of a code word in the form that the code takes.
    pub(super) fn gather(&self, number: usize, raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let Some(word) = self.codewords.get(number) else { return (Vec::new(), Vec::new()) };
        let take = |stretches: &[(usize, usize)], bytes: usize| {
            let mut into = vec![0; bytes];
            let mut at = 0;
            for (stored, bits) in stretches {
                bits::copy(raw, *stored, &mut into, at, *bits);
                at += bits;
            }
            into
        };
        let (mut message, mut ecc) = (take(&word.message, word.message_bytes()), take(&word.ecc, word.ecc_bytes()));
        self.orient(number, &mut message, &mut ecc);
        (message, ecc)
    }

    /// Stores the message and the ECC of a code word in the raw page.
    pub(super) fn scatter(&self, number: usize, mut message: Vec<u8>, mut ecc: Vec<u8>, raw: &mut [u8]) {
        let Some(word) = self.codewords.get(number) else { return };
        self.unorient(number, &mut message, &mut ecc);
        for (stretches, bytes) in [(&word.message, message), (&word.ecc, ecc)] {
            let mut at = 0;
            for (stored, bits) in stretches {
                bits::copy(&bytes, at, raw, *stored, *bits);
                at += bits;
            }
        }
    }

    fn orient(&self, number: usize, message: &mut [u8], ecc: &mut [u8]) {
        let Code::Bch { first_bit, masks, .. } = &self.code else { return };
        turn(*first_bit, message);
        turn(*first_bit, ecc);
        unmask(masks.get(number), ecc);
    }

    fn unorient(&self, number: usize, message: &mut [u8], ecc: &mut [u8]) {
        let Code::Bch { first_bit, masks, .. } = &self.code else { return };
        unmask(masks.get(number), ecc);
        turn(*first_bit, message);
        turn(*first_bit, ecc);
    }

    /// The ECC of a message; unused bits are taken from the layout's mask.
    pub(super) fn encode(&self, number: usize, message: &[u8]) -> Vec<u8> {
        let length = self.codewords.get(number).map_or(0, Codeword::ecc_bytes);
        let mut ecc = match &self.code {
            Code::Hamming(code) => code.encode(message).to_vec(),
            Code::Bch { code, .. } => code.encode(message),
        };
        ecc.resize(length, 0);
        ecc
    }

    /// Corrects wrong bits of a code word.
    pub(super) fn correct(&self, message: &mut [u8], ecc: &mut [u8]) -> Correction {
        match &self.code {
            Code::Hamming(code) => match ecc.first_chunk_mut() {
                Some(ecc) => code.correct(message, ecc),
                None => Correction::Uncorrectable,
            },
            Code::Bch { code, .. } => code.correct(message, ecc),
        }
    }
}

/// Reverses the bits of each byte as the code requires; applying it twice restores them.
fn turn(first_bit: FirstBit, bytes: &mut [u8]) {
    match first_bit {
        FirstBit::High => {}
        FirstBit::Low => bits::reverse(bytes),
        FirstBit::Nibble => bytes.iter_mut().for_each(|byte| *byte = byte.rotate_left(4)),
    }
}

fn unmask(mask: Option<&Vec<u8>>, ecc: &mut [u8]) {
    ecc.iter_mut().zip(mask.into_iter().flatten()).for_each(|(byte, mask)| *byte ^= mask);
}

/// Positions the spans of a layout one after another.
struct Placing<'a> {
    spec: &'a LayoutSpec,
    /// Next position in the raw page, and next position for data without an explicit one.
    stored: u32,
    shown: u32,
    data: Vec<Stretch>,
    oob: Vec<Stretch>,
    codewords: Vec<Codeword>,
}

type Placed = (Vec<Stretch>, Vec<Stretch>, Vec<Codeword>);

impl<'a> Placing<'a> {
    fn of(spec: &'a LayoutSpec) -> Result<Placed> {
        let (page, oob) = (spec.page_size, spec.oob_size);
        if !page.is_power_of_two() || !(256..=PAGE_MAX).contains(&page) || !(1..=OOB_MAX).contains(&oob) {
            return wrong(format!(
                "pages of {page}+{oob} bytes; expected a power of two from 256 to {PAGE_MAX}, and 1 to {OOB_MAX} bytes of OOB"
            ));
        }
        let mut placing = Self { spec, stored: 0, shown: 0, data: Vec::new(), oob: Vec::new(), codewords: Vec::new() };
        let spans: u64 = spec.group.iter().map(|group| u64::from(group.count) * group.spans.len() as u64).sum();
        if spans > SPANS_MAX as u64 {
            return wrong(format!("{spans} spans; expected at most {SPANS_MAX}"));
        }
        for group in &spec.group {
            placing.group(group)?;
        }
        let (end, expected) = (placing.stored, (page + oob) * 8);
        if end != expected {
            return wrong(format!(
                "the spans take {} of a page; expected {}, {page} of data and {oob} of OOB",
                shown_bits(end),
                shown_bits(expected)
            ));
        }
        covers("data", &placing.data, Some(page))?;
        covers("OOB", &placing.oob, None)?;
        Ok((placing.data, placing.oob, placing.codewords))
    }

    fn group(&mut self, group: &GroupSpec) -> Result<()> {
        for time in 0..group.count {
            for span in &group.spans {
                if group.count > 1 && span.place()?.is_some() {
                    return wrong(format!(
                        "{}: `at` in a group that repeats; expected a group of its own",
                        span.shown()
                    ));
                }
                self.span(span, time)?;
            }
        }
        Ok(())
    }

    fn span(&mut self, span: &SpanSpec, time: u32) -> Result<()> {
        let (length, place) = (span.length()?, span.place()?);
        let (page, oob) = (self.spec.page_size * 8, self.spec.oob_size * 8);
        let stored = self.stored;
        let end = stored.checked_add(length).filter(|end| *end <= page + oob);
        let Some(end) = end else {
            return wrong(format!("{} begins at {} and ends behind the page", span.shown(), shown_place(stored)));
        };
        self.stored = end;
        if let Some(codeword) = span.codeword {
            self.codeword(span, codeword.saturating_add(time), (stored as usize, length as usize))?;
        } else if span.is == Holds::Ecc {
            return wrong(format!("{} at {}: expected `codeword`", span.shown(), shown_place(stored)));
        }
        let (shown, limit) = match span.is {
            Holds::Data => {
                let shown = place.unwrap_or(self.shown);
                self.shown = if place.is_none() { shown.saturating_add(length) } else { self.shown };
                (shown, page)
            }
            // Content in the OOB of the flash is presented at the same position.
            Holds::Oob | Holds::Mark => match place.or_else(|| stored.checked_sub(page)) {
                Some(shown) => (shown, oob),
                None => {
                    return wrong(format!(
                        "{} at {} stands before the OOB; expected `at`, its place in the OOB that is shown",
                        span.shown(),
                        shown_place(stored)
                    ));
                }
            },
            Holds::Ecc | Holds::Unused if place.is_some() => {
                return wrong(format!("{} at {}: `at` is for data, oob and mark", span.shown(), shown_place(stored)));
            }
            Holds::Ecc | Holds::Unused => return Ok(()),
        };
        if shown.checked_add(length).is_none_or(|end| end > limit) {
            return wrong(format!(
                "{} at {} is shown at {}, which ends behind {}",
                span.shown(),
                shown_place(stored),
                shown_place(shown),
                shown_bits(limit)
            ));
        }
        let stretch = Stretch { stored: stored as usize, shown: shown as usize, bits: length as usize };
        match span.is {
            Holds::Data => self.data.push(stretch),
            _ => self.oob.push(stretch),
        }
        Ok(())
    }

    fn codeword(&mut self, span: &SpanSpec, number: u32, stretch: (usize, usize)) -> Result<()> {
        let most = SPANS_MAX as u32;
        if number >= most {
            return wrong(format!("{}: code word {number}; expected less than {most}", span.shown()));
        }
        let number = number as usize;
        if self.codewords.len() <= number {
            self.codewords.resize(number + 1, Codeword::default());
        }
        if let Some(word) = self.codewords.get_mut(number) {
            match span.is {
                Holds::Ecc => word.ecc.push(stretch),
                _ => word.message.push(stretch),
            }
        }
        Ok(())
    }
}

/// Refuses ranges that overlap in the presented page, or leave a gap.
fn covers(what: &str, stretches: &[Stretch], bytes: Option<u32>) -> Result<()> {
    let mut sorted: Vec<&Stretch> = stretches.iter().collect();
    sorted.sort_by_key(|stretch| stretch.shown);
    let mut end = 0;
    for stretch in sorted {
        if stretch.shown < end {
            return wrong(format!("{what} {} is in two spans", shown_place(stretch.shown as u32)));
        }
        if stretch.shown > end && bytes.is_some() {
            return wrong(format!("{what} {} is in no span", shown_place(end as u32)));
        }
        end = stretch.shown + stretch.bits;
    }
    match bytes.filter(|bytes| *bytes as usize * 8 != end) {
        Some(_) => wrong(format!("{what} {} is in no span", shown_place(end as u32))),
        None => Ok(()),
    }
}

/// Builds the code, and determines for each code word whether its erased form is valid.
fn code(spec: &CodeSpec, codewords: &[Codeword]) -> Result<(Code, Vec<bool>)> {
    if codewords.is_empty() {
        return wrong("no span has a `codeword`; expected at least one code word".to_owned());
    }
    for (number, word) in codewords.iter().enumerate() {
        let (message, ecc) = (Codeword::bits_of(&word.message), Codeword::bits_of(&word.ecc));
        if message == 0 || ecc == 0 || !message.is_multiple_of(8) {
            return wrong(format!(
                "code word {number} has {message} bits and {ecc} bits of ECC; expected whole bytes, and some of both"
            ));
        }
    }
    match spec {
        CodeSpec::Hamming { order } => hamming(*order, codewords),
        CodeSpec::Bch { field_bits, correctable, polynomial, .. } => {
            let code = Bch::new(*field_bits, *correctable, *polynomial)
                .map_err(|error| ImageError::layout(format!("`code`: {error}")))?;
            bch(spec, code, codewords)
        }
    }
}

fn hamming(order: OrderSpec, codewords: &[Codeword]) -> Result<(Code, Vec<bool>)> {
    let order = match order {
        OrderSpec::Linux => HammingOrder::Linux,
        OrderSpec::SmartMedia => HammingOrder::SmartMedia,
    };
    let step = codewords.first().map_or(0, Codeword::message_bytes);
    let Some(code) = Hamming::new(step as u32, order) else {
        return wrong(format!("code word 0 has {step} bytes; expected 256 or 512 for the Hamming code"));
    };
    for (number, word) in codewords.iter().enumerate() {
        let (message, ecc) = (word.message_bytes(), word.ecc_bytes());
        aligned(number, word)?;
        if (message, ecc) != (step, 3) {
            return wrong(format!(
                "code word {number} has {message} bytes and {ecc} of ECC; expected {step} and 3, as code word 0"
            ));
        }
    }
    Ok((Code::Hamming(code), vec![true; codewords.len()]))
}

fn aligned(number: usize, word: &Codeword) -> Result<()> {
    let whole = |(stored, bits): &(usize, usize)| stored.is_multiple_of(8) && bits.is_multiple_of(8);
    match word.message.iter().chain(&word.ecc).all(whole) {
        true => Ok(()),
        false => wrong(format!(
            "code word {number} stands between bytes, or not in whole ones; expected whole bytes, or the lowest bit first"
        )),
    }
}

fn bch(spec: &CodeSpec, code: Bch, codewords: &[Codeword]) -> Result<(Code, Vec<bool>)> {
    let CodeSpec::Bch { first_bit, parity, mask, .. } = spec else { return wrong("no BCH code".to_owned()) };
    let mask = match (parity, mask) {
        (ParitySpec::Mask, Some(digits)) => Some(hexadecimal(digits)?),
        (ParitySpec::Mask, None) => return wrong("`parity` is mask; expected `mask`".to_owned()),
        (_, Some(_)) => return wrong("`mask` is for `parity = \"mask\"` alone".to_owned()),
        _ => None,
    };
    let (mut masks, mut erased_is_right) = (Vec::new(), Vec::new());
    for (number, word) in codewords.iter().enumerate() {
        let (message, bits) = (word.message_bytes(), Codeword::bits_of(&word.ecc));
        if message > code.message_bytes_max() {
            let most = code.message_bytes_max();
            return wrong(format!("code word {number} has {message} bytes; expected at most {most} for this code"));
        }
        let least = code.parity_bits();
        if bits < least || bits >= least + 64 {
            return wrong(format!(
                "code word {number} has {bits} bits of ECC; expected {least}, or up to 63 more that mean nothing"
            ));
        }
        if *first_bit != FirstBit::Low {
            aligned(number, word)?;
        }
        let bytes = word.ecc_bytes();
        let mut erased = code.encode(&vec![0xFF; message]);
        erased.resize(bytes, 0);
        let applied: Vec<u8> = match (parity, &mask) {
            (ParitySpec::Erased, _) => erased.iter().map(|byte| !byte).collect(),
            (ParitySpec::Inverted, _) => vec![0xFF; bytes],
            (_, Some(mask)) if mask.len() == bytes => mask.clone(),
            (_, Some(mask)) => {
                return wrong(format!(
                    "`mask` has {} bytes; expected {bytes}, as the ECC of code word {number}",
                    mask.len()
                ));
            }
            _ => vec![0; bytes],
        };
        erased_is_right.push(erased.iter().zip(&applied).all(|(erased, mask)| erased ^ mask == 0xFF));
        masks.push(applied);
    }
    Ok((Code::Bch { code, first_bit: *first_bit, masks }, erased_is_right))
}

fn hexadecimal(digits: &str) -> Result<Vec<u8>> {
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.ok_or_else(|| ImageError::layout(format!("`mask` \"{digits}\": expected two hexadecimal digits a byte")))
}

fn shown_bits(bits: u32) -> String {
    match bits % 8 {
        0 => format!("{} bytes", bits / 8),
        rest => format!("{} bytes and {rest} bits", bits / 8),
    }
}

fn shown_place(bit: u32) -> String {
    match bit % 8 {
        0 => format!("byte {}", bit / 8),
        rest => format!("byte {}, bit {rest}", bit / 8),
    }
}

fn wrong<T>(detail: String) -> Result<T> {
    Err(ImageError::layout(detail))
}
