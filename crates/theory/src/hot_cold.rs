//! Overwrites that favour a part of the pages.

use crate::{Choice, Device, TheoryError, mixed, root, separated};

/// The shares of hot pages and hot overwrites. Within each part, overwrites are uniform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotCold {
    space: f64,
    writes: f64,
}

impl HotCold {
    /// A share `space` of the host's pages gets a share `writes` of its overwrites. Errors: shares
    /// that are not strictly between 0 and 1.
    pub fn new(space: f64, writes: f64) -> Result<Self, TheoryError> {
        let expected = "a share above 0 and below 1";
        for (name, found) in [("hot space", space), ("hot writes", writes)] {
            if !(found > 0.0 && found < 1.0) {
                return Err(TheoryError { name, found, expected });
            }
        }
        Ok(Self { space, writes })
    }

    /// For each part, hot first: its pages per block of the device, and its share of the
    /// overwrites.
    pub(crate) fn parts(&self, device: &Device) -> [Part; 2] {
        let user = device.used() * f64::from(device.pages_per_block());
        let part = |space: f64, writes: f64| Part { pages: user * space, writes };
        [part(self.space, self.writes), part(1.0 - self.space, 1.0 - self.writes)]
    }
}

/// Pages that are overwritten equally often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The number of pages per block of the device.
    pub pages: f64,
    /// Its share of the overwrites.
    pub writes: f64,
}

impl Part {
    /// How often each of its pages is overwritten per host write and block of the device.
    pub fn rate(&self) -> f64 {
        self.writes / self.pages
    }
}

/// FIFO if hot and cold pages share blocks. A block comes round after `t` host writes; a page of
/// part `i`, one of `U_i` that get a share `r_i` of them, is valid then with probability `exp(-t
/// r_i / U_i)`, so that `r_i / (1 - exp(-t r_i / U_i))` of its pages are programmed per write. All
/// of them go round the device: `t` times their sum is its pages. Independent of the pages per
/// block.
pub fn fifo_mixed(device: &Device, hot_cold: &HotCold) -> f64 {
    let parts = hot_cold.parts(device);
    let programmed = |t: f64| parts.iter().map(|part| part.writes / -(-t * part.rate()).exp_m1()).sum::<f64>();
    let pages = f64::from(device.pages_per_block());
    // Rises with t, and equals the host's pages at t = 0.
    let t = root::of_falling((0.0, pages), |t| if t > 0.0 { pages - t * programmed(t) } else { 1.0 });
    programmed(t)
}

/// Victims chosen by count, if hot and cold pages share blocks, and copies and host writes share
/// one frontier.
///
/// The fixed point of the mean field of blocks with `h` hot and `c` cold valid pages. Blocks go
/// down one page at a time, so the flow through all states follows from the top; a block is filled
/// with the copies of one victim and as many host writes as there is room for. Cost: a few hundred
/// passes over the square of the pages per block, 0.1 to 1 s for 64.
pub fn mixed(device: &Device, hot_cold: &HotCold, choice: Choice) -> f64 {
    mixed::write_amplification(device, hot_cold, choice)
}

/// Victims chosen by count with one rule over all blocks, if hot and cold pages are in separate
/// blocks: host writes and copies, with one frontier per part.
///
/// The fixed point of the mean field of hot and of cold blocks with `j` valid pages. The number of
/// blocks of each part is a result, not a parameter. Cost: a few thousand passes over the pages per
/// block.
pub fn separated(device: &Device, hot_cold: &HotCold, choice: Choice) -> f64 {
    separated::write_amplification(device, hot_cold, choice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{d_choices, fifo, greedy};

    const CHOICES: [Choice; 4] = [Choice::Among(1), Choice::Among(2), Choice::Among(10), Choice::Greedy];

    fn device(spare: f64) -> Device {
        Device::new(32, spare).unwrap()
    }

    fn near(a: f64, b: f64, within: f64) -> bool {
        (a / b - 1.0).abs() < within
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        for (space, writes, name) in [(0.0, 0.5, "hot space"), (0.2, 1.0, "hot writes"), (f64::NAN, 0.5, "hot space")] {
            assert_eq!(HotCold::new(space, writes).unwrap_err().name, name);
        }
    }

    /// If hot and cold differ in name only, mixed equals uniform.
    #[test]
    fn without_a_difference_mixing_is_uniform() {
        let alike = HotCold::new(0.3, 0.3).unwrap();
        for spare in [0.07, 0.28] {
            let device = device(spare);
            assert!(near(fifo_mixed(&device, &alike), fifo(&device), 1e-9));
            for choice in CHOICES {
                let uniform = match choice {
                    Choice::Among(d) => d_choices(&device, d),
                    Choice::Greedy => greedy(&device),
                };
                let found = mixed(&device, &alike, choice);
                assert!(near(found, uniform, 1e-6), "{choice:?} {spare}: {found} {uniform}");
                let apart = separated(&device, &alike, choice);
                assert!(near(apart, uniform, 1e-6), "{choice:?} {spare} apart: {apart} {uniform}");
            }
        }
    }

    #[test]
    fn separation_pays_and_mixing_costs() {
        let device = device(0.15);
        let hot_cold = HotCold::new(0.2, 0.8).unwrap();
        // Hot data among cold ones makes FIFO and greedy worse; a random victim is as full as the
        // device, whatever it holds.
        assert!(fifo_mixed(&device, &hot_cold) > fifo(&device));
        assert!(near(mixed(&device, &hot_cold, Choice::Among(1)), 1.15 / 0.15, 1e-6));
        for choice in [Choice::Among(2), Choice::Among(10), Choice::Greedy] {
            let (together, apart) = (mixed(&device, &hot_cold, choice), separated(&device, &hot_cold, choice));
            assert!(apart < 0.9 * together, "{choice:?}: {apart} {together}");
        }
        let many = mixed(&device, &hot_cold, Choice::Among(100_000));
        assert!(near(many, mixed(&device, &hot_cold, Choice::Greedy), 1e-3), "{many}");
        let many = separated(&device, &hot_cold, Choice::Among(100_000));
        assert!(near(many, separated(&device, &hot_cold, Choice::Greedy), 1e-3), "{many}");
    }
}
