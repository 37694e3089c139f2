//! Seeded random streams and frozen samplers.
//!
//! Every random choice of nandkit comes from a [`Random`] made from a seed and a name. Streams with
//! different names are independent, so one more draw in one place changes nothing elsewhere. The
//! generator (xoshiro256++) and the samplers are frozen by golden values in the tests, because a
//! record must be the same byte for byte in every version.
//! so, since a record must be the same byte for byte in every version.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    generator: Xoshiro256PlusPlus,
}

impl Random {
    /// The stream called `name` of the run with this seed.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a over the name (public domain), mixed into the seed; it only has to distinguish
        // names.
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(mix(seed) ^ hash) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number in `0..bound`; 0 for a bound of 0. By the multiply-shift method (Lemire 2019)
    /// without rejection: the bias is under `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into a list of this length; 0 for an empty one. Draws like [`Random::below`].
    #[inline]
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `low..=high`; `low` if the range is empty.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low { low } else { low + self.below((high - low).saturating_add(1)) }
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with the given probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Puts a slice in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Fills a slice with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A stateless hash of a few numbers to 64 random-looking bits (the finaliser of SplitMix64), for
/// faults that must not depend on the order of queries.
#[inline]
pub const fn hash(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(mix(seed) ^ a) ^ b.rotate_left(32))
}

#[inline]
const fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Zipf-distributed numbers in `0..items`: item i with probability proportional to
/// `1 / (i + 1)^exponent`.
///
/// Rejection inversion (Hoermann and Derflinger 1996): constant memory and about one draw per
/// sample, for any number of items.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: f64,
    exponent: f64,
    h_first: f64,
    h_last: f64,
    squeeze: f64,
}

impl Zipf {
    /// A sampler over `items` (at least 1) with `exponent` (at least 0; 0 is uniform).
    pub fn new(items: u64, exponent: f64) -> Self {
        let items = items.max(1) as f64;
        let exponent = exponent.max(0.0);
        let mut zipf = Self { items, exponent, h_first: 0.0, h_last: 0.0, squeeze: 0.0 };
        zipf.h_first = zipf.h_integral(1.5) - 1.0;
        zipf.h_last = zipf.h_integral(items + 0.5);
        zipf.squeeze = 2.0 - zipf.h_inverse(zipf.h_integral(2.5) - zipf.h(2.0));
        zipf
    }

    fn h(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn h_integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over(log * (1.0 - self.exponent)) * log
    }

    fn h_inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        (ln1p_over(t) * x).exp()
    }

    /// The next number.
    pub fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.h_last + random.fraction() * (self.h_first - self.h_last);
            let x = self.h_inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.items);
            if k - x <= self.squeeze || u >= self.h_integral(k + 0.5) - self.h(k) {
                return k as u64 - 1;
            }
        }
    }
}

fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - 0.25 * x)) }
}

fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x * (1.0 / 3.0) * (1.0 + 0.25 * x)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_values_stay() {
        let mut random = Random::new(1, "golden");
        let drawn: Vec<u64> = (0..4).map(|_| random.below(1_000_000)).collect();
        assert_eq!(drawn, GOLDEN_BELOW);
        let zipf = Zipf::new(1000, 0.99);
        let drawn: Vec<u64> = (0..8).map(|_| zipf.sample(&mut random)).collect();
        assert_eq!(drawn, GOLDEN_ZIPF);
        assert_eq!(hash(1, 2, 3), GOLDEN_HASH);
    }

    const GOLDEN_BELOW: [u64; 4] = [278960, 184384, 183602, 427783];
    const GOLDEN_ZIPF: [u64; 8] = [0, 31, 880, 9, 460, 164, 7, 2];
    const GOLDEN_HASH: u64 = 6_455_851_707_495_970_801;

    #[test]
    fn zipf_follows_its_law() {
        for (items, exponent) in [(10u64, 0.0), (10, 0.8), (100, 1.0), (1000, 1.2)] {
            let zipf = Zipf::new(items, exponent);
            let mut random = Random::new(7, "zipf");
            let draws = 200_000;
            let mut counts = vec![0u64; items as usize];
            for _ in 0..draws {
                counts[zipf.sample(&mut random) as usize] += 1;
            }
            let norm: f64 = (1..=items).map(|i| (i as f64).powf(-exponent)).sum();
            for (i, count) in counts.iter().enumerate().take(5) {
                let expected = ((i + 1) as f64).powf(-exponent) / norm * f64::from(draws);
                let sigma = expected.sqrt();
                assert!((*count as f64 - expected).abs() < 5.0 * sigma, "{items} {exponent} item {i}");
            }
        }
    }

    #[test]
    fn streams_differ_by_seed_and_name() {
        let first = |seed, name| Random::new(seed, name).next_u64();
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_eq!(first(1, "a"), first(1, "a"));
    }
}
