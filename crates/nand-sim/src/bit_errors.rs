//! Bit errors from wear, retention and read disturb, and their correction by the chip's ECC.
//!
//! Errors are computed at each read from stateless draws: each code word has one fixed random
//! number per erase cycle, and its number of errors is the quantile of the error distribution at
//! that number. So repeated reads of a page show the same errors, and the number only grows with
//! age and reads, as leaked cells stay leaked.

use nandkit_units::random::hash;
use nandkit_units::{FlashGeometry, Nanos, PageAddress};

use crate::spec::{BitErrorSpec, ChipSpec};

const DRAW_COUNT: u64 = 0xB17E_0001;
const DRAW_RATE: u64 = 0xB17E_0002;
const DRAW_PLACE: u64 = 0xB17E_0003;
const DAY_NS: f64 = 86_400e9;

/// The age of a block at the time of a read.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// Erases of the block.
    pub erases: u32,
    /// Time since the block's first program after its erase.
    pub retained: Nanos,
    /// Reads of the block since its erase.
    pub reads: u32,
    /// Errors per code word that copyback carried over.
    pub inherited: u16,
}

/// A byte range of a page: data from `column` on, and the first OOB bytes.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Offset of the first data byte.
    pub column: u32,
    /// Number of data bytes.
    pub length: u32,
    /// Number of OOB bytes.
    pub oob: u32,
}

/// The result of ECC for a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The largest number of errors corrected in a code word.
    pub corrected: u16,
    /// Whether any code word has more errors than ECC corrects.
    pub uncorrectable: bool,
    /// Whether the buffers contain flipped bits.
    pub damaged: bool,
}

/// The bit-error model of one device.
#[derive(Clone, Debug)]
pub struct BitErrors {
    seed: u64,
    spec: BitErrorSpec,
    word_bytes: u32,
    word_oob: u32,
    words: u32,
    correctable: u32,
    has_ecc: bool,
}

impl BitErrors {
    /// The bit-error model of a checked spec.
    pub fn new(spec: &ChipSpec, geometry: &FlashGeometry, seed: u64) -> Self {
        let has_ecc = spec.ecc.code_word_bytes != 0;
        let word_bytes = if has_ecc { spec.ecc.code_word_bytes } else { geometry.page_size };
        let words = (geometry.page_size / word_bytes.max(1)).max(1);
        Self {
            seed,
            spec: spec.bit_errors.clone(),
            word_bytes,
            word_oob: geometry.oob_size / words,
            words,
            correctable: spec.ecc.correctable_bits,
            has_ecc,
        }
    }

    /// Whether bit errors are simulated.
    #[inline]
    pub const fn enabled(&self) -> bool {
        self.spec.enabled
    }

    /// The raw bit error rate at an age, at most one half.
    pub fn rate(&self, age: &Age) -> f64 {
        let spec = &self.spec;
        let erases = f64::from(age.erases.max(1));
        let days = age.retained.0 as f64 / DAY_NS;
        let rate = spec.base
            + spec.wear * erases.powf(spec.wear_exponent)
            + spec.retention * erases.powf(spec.retention_wear_exponent) * days.powf(spec.retention_exponent)
            + spec.disturb * erases.powf(spec.disturb_exponent) * f64::from(age.reads);
        rate.clamp(0.0, 0.5)
    }

    fn draw(&self, kind: u64, at: PageAddress, age: &Age, word: u32, number: u32) -> u64 {
        let place = u64::from(at.block.0) << 32 | u64::from(at.page);
        hash(hash(self.seed ^ kind, place, u64::from(age.erases)), u64::from(word), u64::from(number))
    }

    /// The number of wrong bits in a code word.
    fn errors(&self, at: PageAddress, age: &Age, word: u32) -> u32 {
        let bits = f64::from((self.word_bytes + self.word_oob) * 8);
        let fresh = if self.spec.enabled {
            let mean = (self.rate(age) * self.scale(at, age, word)).min(0.5) * bits;
            poisson_quantile(mean, open_fraction(self.draw(DRAW_COUNT, at, age, word, 0)), bits as u32)
        } else {
            0
        };
        fresh + u32::from(age.inherited)
    }

    /// The gamma-distributed factor (mean 1) of this code word: a sum of `shape` exponential
    /// variables.
    fn scale(&self, at: PageAddress, age: &Age, word: u32) -> f64 {
        if self.spec.shape == 0 {
            return 1.0;
        }
        let sum: f64 =
            (0..self.spec.shape).map(|number| -open_fraction(self.draw(DRAW_RATE, at, age, word, number)).ln()).sum();
        sum / f64::from(self.spec.shape)
    }

    /// The code words that a range touches. OOB byte b belongs to word `b / share`; leftover bytes
    /// belong to the last one.
    fn touched(&self, range: Range) -> impl Iterator<Item = u32> + use<> {
        let data = (range.length > 0).then(|| {
            let last = (u64::from(range.column) + u64::from(range.length) - 1) / u64::from(self.word_bytes);
            (range.column / self.word_bytes, last as u32)
        });
        let oob = (range.oob > 0).then(|| (0, (range.oob - 1).checked_div(self.word_oob).unwrap_or(0)));
        let within =
            |span: Option<(u32, u32)>, word: u32| span.is_some_and(|(first, last)| (first..=last).contains(&word));
        let words = self.words;
        (0..words).filter(move |word| {
            within(data, *word) || within(oob.map(|(first, last)| (first, last.min(words - 1))), *word)
        })
    }

    /// The largest number of errors in any code word of the page, which copyback carries over.
    pub fn worst(&self, at: PageAddress, age: &Age) -> u32 {
        (0..self.words).map(|word| self.errors(at, age, word)).max().unwrap_or(0)
    }

    /// Whether this many errors in a code word exceed what the chip corrects; never without ECC,
    /// because nothing checks.
    pub const fn exceeds(&self, errors: u32) -> bool {
        self.has_ecc && errors > self.correctable
    }

    /// Applies ECC to a read: flips the uncorrectable bits in the buffers, which may be empty if
    /// nothing is delivered.
    pub fn check(&self, at: PageAddress, age: &Age, range: Range, data: &mut [u8], oob: &mut [u8]) -> Verdict {
        let mut verdict = Verdict::default();
        for word in self.touched(range) {
            let errors = self.errors(at, age, word);
            if errors == 0 {
                continue;
            }
            if self.has_ecc && errors <= self.correctable {
                verdict.corrected = verdict.corrected.max(errors as u16);
                continue;
            }
            verdict.uncorrectable |= self.has_ecc;
            verdict.damaged = true;
            for number in 0..errors {
                self.flip(at, age, (word, number), range, data, oob);
            }
        }
        verdict
    }

    fn flip(
        &self,
        at: PageAddress,
        age: &Age,
        (word, number): (u32, u32),
        range: Range,
        data: &mut [u8],
        oob: &mut [u8],
    ) {
        let bit = self.draw(DRAW_PLACE, at, age, word, number) % u64::from((self.word_bytes + self.word_oob) * 8);
        let (byte, mask) = ((bit / 8) as u32, 1u8 << (bit % 8));
        let target = if byte < self.word_bytes {
            (word * self.word_bytes + byte).checked_sub(range.column).and_then(|at| data.get_mut(at as usize))
        } else {
            oob.get_mut((word * self.word_oob + byte - self.word_bytes) as usize)
        };
        if let Some(byte) = target {
            *byte ^= mask;
        }
    }
}

/// Maps a draw to the open interval (0, 1).
fn open_fraction(draw: u64) -> f64 {
    ((draw >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// Largest mean for which the Poisson distribution is summed; above it is approximated. `exp(-600)`
/// is still far from the smallest number.
const SUMMED_MEAN: f64 = 600.0;

/// The smallest count, at most `most`, whose cumulative Poisson probability reaches `fraction`.
/// Grows with the mean.
fn poisson_quantile(mean: f64, fraction: f64, most: u32) -> u32 {
    if mean <= SUMMED_MEAN {
        return poisson_sum(mean, fraction, most);
    }
    // The Cornish-Fisher expansion with the skewness term, but not below the sum, so that the count
    // does not drop where the approximation takes over.
    let z = normal_quantile(fraction);
    let count = mean + mean.sqrt() * z + (z * z - 1.0) / 6.0;
    let approximated = count.round().clamp(0.0, f64::from(most)) as u32;
    approximated.max(poisson_sum(SUMMED_MEAN, fraction, most))
}

fn poisson_sum(mean: f64, fraction: f64, most: u32) -> u32 {
    // The rest of the distribution after a term this small is below the rounding error of the sum.
    const LAST_TERM: f64 = 1e-17;
    if mean <= 0.0 {
        return 0;
    }
    // Closer to 1, the rounding of several hundred terms would decide.
    let fraction = fraction.min(1.0 - 1e-10);
    let mut probability = (-mean).exp();
    let mut sum = probability;
    let mut count = 0;
    while sum < fraction && count < most && (probability > LAST_TERM || f64::from(count) < mean) {
        count += 1;
        probability *= mean / f64::from(count);
        sum += probability;
    }
    count
}

/// The standard normal quantile by Abramowitz and Stegun 26.2.23 (error under 4.5e-4).
fn normal_quantile(fraction: f64) -> f64 {
    let tail = fraction.min(1.0 - fraction);
    let t = (-2.0 * tail.ln()).sqrt();
    let z = t
        - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t);
    if fraction < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_the_right_mean() {
        for mean in [0.01, 0.7, 5.0, 49.0, 51.0, 400.0, 599.0, 601.0, 3000.0] {
            let draws = 40_000;
            let sum: u64 =
                (0..draws).map(|n| u64::from(poisson_quantile(mean, open_fraction(hash(1, n, 0)), 100_000))).sum();
            let found = sum as f64 / draws as f64;
            assert!((found - mean).abs() < 5.0 * (mean / draws as f64).sqrt() + 0.01 * mean, "{mean}: {found}");
        }
    }

    /// The count must not drop with age, including where the sum ends and the approximation begins.
    #[test]
    fn quantiles_grow_with_the_mean() {
        for fraction in [1e-12, 0.001, 0.4, 0.5, 0.999, 0.99999, 1.0 - 1e-15] {
            let mut last = 0;
            for mean in (1..8000).map(|step| f64::from(step) / 10.0) {
                let count = poisson_quantile(mean, fraction, 100_000);
                assert!(count >= last, "{mean} at {fraction}: {count} after {last}");
                assert!(f64::from(count) < mean + 12.0 * mean.sqrt() + 25.0, "{mean} at {fraction}: {count}");
                last = count;
            }
        }
    }

    fn model(rate: f64, correctable: u32, shape: u32) -> (BitErrors, FlashGeometry) {
        let mut spec = ChipSpec::default();
        spec.bit_errors = BitErrorSpec {
            enabled: true,
            base: rate,
            wear: 0.0,
            retention: 0.0,
            disturb: 0.0,
            shape,
            ..spec.bit_errors
        };
        spec.ecc.correctable_bits = correctable;
        let geometry = spec.geometry.build();
        (BitErrors::new(&spec, &geometry, 9), geometry)
    }

    const AGE: Age = Age { erases: 1, retained: Nanos::ZERO, reads: 0, inherited: 0 };

    fn failures(rate: f64, correctable: u32, shape: u32) -> usize {
        let (errors, geometry) = model(rate, correctable, shape);
        let range = Range { column: 0, length: geometry.page_size, oob: geometry.oob_size };
        let check = |page| errors.check(PageAddress::new(0, page), &AGE, range, &mut [0; 2048], &mut [0; 64]);
        (0..2000).filter(|page| check(*page).uncorrectable).count()
    }

    /// The probability that a page of four code words of 528 bytes has a word with more than `t`
    /// errors, for equal words.
    fn expected(rate: f64, t: u32) -> f64 {
        let mean = rate * 528.0 * 8.0;
        let mut term = (-mean).exp();
        let mut below = term;
        for k in 1..=t {
            term *= mean / f64::from(k);
            below += term;
        }
        2000.0 * (1.0 - below.powi(4))
    }

    #[test]
    fn pages_fail_as_often_as_the_code_lets_them() {
        for (rate, t) in [(1e-4, 1), (1e-3, 4), (1e-3, 8), (1e-3, 16)] {
            let (found, expected) = (failures(rate, t, 0) as f64, expected(rate, t));
            assert!((found - expected).abs() < 5.0 * expected.sqrt() + 2.0, "{rate} {t}: {found}, expected {expected}");
        }
        assert!(failures(1e-3, 10, 5) > failures(1e-3, 10, 0) * 2, "unequal words fail more often");
    }

    #[test]
    fn errors_grow_with_age_and_never_vanish() {
        let mut spec = ChipSpec::default();
        spec.bit_errors = BitErrorSpec { enabled: true, wear: 1e-8, retention: 1e-7, disturb: 1e-9, ..spec.bit_errors };
        let errors = BitErrors::new(&spec, &spec.geometry.build(), 1);
        let at = PageAddress::new(3, 4);
        let mut last = 0;
        for reads in (0..40).map(|step| step * 50_000) {
            let age = Age { erases: 3000, retained: Nanos::from_secs(3600 * u64::from(reads)), reads, inherited: 0 };
            let found = errors.worst(at, &age);
            assert!(found >= last, "{found} after {last}");
            last = found;
        }
        assert!(last > 0);
        assert_eq!(errors.worst(at, &Age { inherited: 7, ..AGE }), 7 + errors.worst(at, &AGE));
    }

    #[test]
    fn a_part_of_a_page_shows_the_same_flips_as_the_whole() {
        let (errors, geometry) = model(2e-3, 2, 5);
        let at = PageAddress::new(0, 1);
        let (mut whole, mut oob) = ([0u8; 2048], [0u8; 64]);
        let range = Range { column: 0, length: geometry.page_size, oob: 64 };
        assert!(errors.check(at, &AGE, range, &mut whole, &mut oob).damaged);
        let (mut part, mut short) = ([0u8; 600], [0u8; 16]);
        errors.check(at, &AGE, Range { column: 500, length: 600, oob: 16 }, &mut part, &mut short);
        assert_eq!(part, whole[500..1100]);
        assert_eq!(short, oob[..16]);
        let nothing = errors.check(at, &AGE, Range { column: 0, length: 0, oob: 0 }, &mut [], &mut []);
        assert_eq!(nothing, Verdict::default());
    }
}
