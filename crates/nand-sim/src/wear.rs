//! Failing programs and erases: random, by wear, or scripted by a test.

use std::collections::BTreeSet;

use nandkit_units::random::hash;
use nandkit_units::{BlockIndex, PageAddress};

use crate::spec::{ChipSpec, FailureSpec};

const DRAW_ERASE: u64 = 0xFA11_0001;
const DRAW_CYCLE: u64 = 0xFA11_0002;
const DRAW_PAGE: u64 = 0xFA11_0003;

/// Failures scripted by a test. Programs and copies are numbered together from 1 since the chip was
/// made, erases separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureScript {
    /// Sequence numbers of the programs that fail.
    pub programs: BTreeSet<u64>,
    /// Pages whose next program fails.
    pub pages: BTreeSet<PageAddress>,
    /// Sequence numbers of the erases that fail.
    pub erases: BTreeSet<u64>,
    /// Blocks whose next erase fails.
    pub blocks: BTreeSet<BlockIndex>,
}

impl FailureScript {
    /// Whether the script is empty.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.pages.is_empty() && self.erases.is_empty() && self.blocks.is_empty()
    }

    /// Whether this program fails; each entry is used once.
    pub fn takes_program(&mut self, number: u64, at: PageAddress) -> bool {
        self.programs.remove(&number) | self.pages.remove(&at)
    }

    /// Whether this erase fails; each entry is used once.
    pub fn takes_erase(&mut self, number: u64, block: BlockIndex) -> bool {
        self.erases.remove(&number) | self.blocks.remove(&block)
    }
}

/// Random failures as stateless draws: a block fails at the same erase, whatever the order of the
/// queries.
#[derive(Clone, Debug)]
pub struct Failures {
    seed: u64,
    rated_cycles: f64,
    pages_per_block: u32,
    spec: FailureSpec,
}

fn happens(probability: f64, draw: u64) -> bool {
    probability > 0.0 && ((draw >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < probability
}

impl Failures {
    /// The failure model of a checked spec.
    pub fn new(spec: &ChipSpec, seed: u64) -> Self {
        Self {
            seed,
            rated_cycles: f64::from(spec.endurance.cycles),
            pages_per_block: spec.geometry.pages_per_block,
            spec: spec.failures.clone(),
        }
    }

    fn wear(&self, erases: u32) -> f64 {
        // The exponential may be infinite, and zero times infinity is not a number.
        if self.spec.wear_probability == 0.0 {
            return 0.0;
        }
        let beyond = f64::from(erases) / self.rated_cycles - 1.0;
        (self.spec.wear_probability * (self.spec.wear_growth * beyond).exp()).min(1.0)
    }

    /// Whether the block's erase number `erases` fails.
    #[inline]
    pub fn erase_fails(&self, block: BlockIndex, erases: u32) -> bool {
        self.spec.enabled && {
            let draw = hash(self.seed ^ DRAW_ERASE, u64::from(block.0), u64::from(erases));
            happens(self.spec.erase_probability + self.wear(erases), draw)
        }
    }

    /// Whether some program fails between the block's erase number `erases` and the next one.
    #[inline]
    pub fn cycle_fails(&self, block: BlockIndex, erases: u32) -> bool {
        self.spec.enabled && {
            let draw = hash(self.seed ^ DRAW_CYCLE, u64::from(block.0), u64::from(erases));
            let all_succeed = (1.0 - self.spec.program_probability).powi(self.pages_per_block as i32);
            happens(1.0 - all_succeed * (1.0 - self.wear(erases)), draw)
        }
    }

    /// The first page whose program fails in a cycle with a failure; the pages after it fail too,
    /// because the block then fails for ever. Each page is the first with `program_probability`,
    /// given that those before it have not failed; if that is zero, all pages are equally likely.
    pub fn failing_page(&self, block: BlockIndex, erases: u32) -> u32 {
        let draw = hash(self.seed ^ DRAW_PAGE, u64::from(block.0), u64::from(erases));
        let pages = self.pages_per_block.max(1);
        let fraction = (draw >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let success = 1.0 - self.spec.program_probability;
        if success == 1.0 {
            return (draw % u64::from(pages)) as u32;
        }
        let page = (-fraction * (1.0 - success.powi(pages as i32))).ln_1p() / success.ln();
        (page as u32).min(pages - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(spec: &ChipSpec, erases: u32) -> f64 {
        let failures = Failures::new(spec, 3);
        (0..20_000).filter(|block| failures.erase_fails(BlockIndex(*block), erases)).count() as f64 / 20_000.0
    }

    #[test]
    fn failures_follow_their_probabilities() {
        let mut spec = ChipSpec::default();
        spec.failures.erase_probability = 0.1;
        assert_eq!(rate(&spec, 0), 0.0, "off by default");
        spec.failures.enabled = true;
        assert!((rate(&spec, 0) - 0.1).abs() < 0.01);
        spec.failures.erase_probability = 0.0;
        assert_eq!(rate(&spec, 1000), 0.0);
        assert!(rate(&spec, 250_000) > 0.12, "exp(8 * 1.5) * 1e-6 = 0.16");
        assert_eq!(rate(&spec, 300_000), 1.0, "exp(8 * 2) * 1e-6 > 1");
        spec.failures.wear_probability = 0.0;
        spec.endurance.cycles = 1;
        assert_eq!(rate(&spec, 300_000), 0.0, "worn beyond all numbers, and no part fails by wear");
        spec.endurance.cycles = 100_000;
        spec.failures.program_probability = 0.01;
        let failures = Failures::new(&spec, 3);
        let cycles = (0..20_000).filter(|block| failures.cycle_fails(BlockIndex(*block), 1)).count();
        let first_half =
            (0..20_000).filter(|block| failures.failing_page(BlockIndex(*block), 1) < 32).count() as f64 / 20_000.0;
        let share = (1.0 - 0.99f64.powi(32)) / (1.0 - 0.99f64.powi(64));
        assert!((first_half - share).abs() < 0.02, "{first_half} of {share}");
        let expected = 20_000.0 * (1.0 - 0.99f64.powi(64));
        assert!((cycles as f64 - expected).abs() < 400.0, "{cycles} of {expected}");
        spec.failures.program_probability = 1.0;
        let certain = Failures::new(&spec, 3);
        assert!((0..100).all(|block| certain.failing_page(BlockIndex(block), 1) == 0));
        spec.failures.program_probability = 1e-12;
        let rare = Failures::new(&spec, 3);
        let sum: u32 = (0..20_000).map(|block| rare.failing_page(BlockIndex(block), 1)).sum();
        assert!((f64::from(sum) / 20_000.0 - 31.5).abs() < 0.7, "{sum}: any page as well as any other");
    }
}
