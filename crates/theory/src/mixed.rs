//! The mean field of blocks that hold hot and cold pages.

use crate::hot_cold::{HotCold, Part};
use crate::{Choice, Device, root};

/// The shares of blocks by hot and cold valid pages, and what is known of the victims.
struct Field {
    pages: usize,
    /// The rates at which each hot and each cold page is overwritten.
    rates: [f64; 2],
    choice: Choice,
    /// By number of trials and of hits: the probability that this many host writes are hot.
    hits: Vec<Vec<f64>>,
    /// By hot pages: the share of new blocks, whose pages are all valid.
    fresh: Vec<f64>,
}

/// The most passes until the new blocks no longer change.
const PASSES_MAX: usize = 5000;
/// Changes of the new blocks below this count as none.
const SETTLED: f64 = 1e-12;

/// See [`crate::hot_cold::mixed`]. Solves for `v`, the cleanings per host write and block of the
/// device, at which as many pages are overwritten as the host writes.
pub(crate) fn write_amplification(device: &Device, hot_cold: &HotCold, choice: Choice) -> f64 {
    let parts = hot_cold.parts(device);
    let pages = device.pages_per_block() as usize;
    let mut field = Field {
        pages,
        rates: parts.map(|part: Part| part.rate()),
        choice,
        hits: hits(pages, parts[0].writes),
        fresh: Vec::new(),
    };
    field.fresh = field.hits.last().cloned().unwrap_or_default();
    let least = 1.0 / pages as f64;
    let v = root::of_rising(least, |v| field.settle(v) - 1.0);
    v * pages as f64
}

/// Binomial distributions for 0 to `trials` trials.
fn hits(trials: usize, chance: f64) -> Vec<Vec<f64>> {
    let mut all = vec![vec![1.0]];
    for _ in 0..trials {
        let last = all.last().map_or(&[][..], Vec::as_slice);
        let mut next = vec![0.0; last.len() + 1];
        for (hits, share) in last.iter().enumerate() {
            next[hits] += share * (1.0 - chance);
            next[hits + 1] += share * chance;
        }
        all.push(next);
    }
    all
}

impl Field {
    /// Finds the new blocks that result from cleaning at the rate `v`; returns the pages
    /// overwritten per host write.
    fn settle(&mut self, v: f64) -> f64 {
        let mut overwritten = 0.0;
        for _ in 0..PASSES_MAX {
            let (victims, found) = self.pass(v);
            overwritten = found;
            let fresh = self.refill(&victims);
            let change = fresh.iter().zip(&self.fresh).map(|(new, old)| (new - old).abs()).sum::<f64>();
            self.fresh = fresh;
            if change < SETTLED {
                break;
            }
        }
        overwritten
    }

    /// Goes from full blocks down to empty ones: what flows into a state stays until it is
    /// overwritten or cleaned. Returns the probability of each state to be a victim's, by valid
    /// pages and hot ones among them, and the pages overwritten.
    fn pass(&self, v: f64) -> (Vec<Vec<f64>>, f64) {
        let mut victims = vec![Vec::new(); self.pages + 1];
        let mut inflow: Vec<f64> = self.fresh.iter().map(|share| share * v).collect();
        let (mut above, mut overwritten) = (0.0, 0.0);
        for valid in (0..=self.pages).rev() {
            let out = |hot: usize| hot as f64 * self.rates[0] + (valid - hot) as f64 * self.rates[1];
            let stay = |cleaned: f64| -> f64 {
                inflow.iter().enumerate().map(|(hot, flow)| share(*flow, out(hot) + cleaned)).sum()
            };
            let (cleaned, at_least) = level(self.choice, v, above, &stay);
            above = at_least;
            let mut next = vec![0.0; valid];
            let mut of_level = vec![0.0; valid + 1];
            for (hot, flow) in inflow.iter().enumerate() {
                if cleaned.is_infinite() {
                    of_level[hot] = flow / v;
                    continue;
                }
                let here = share(*flow, out(hot) + cleaned);
                of_level[hot] = here * cleaned / v;
                let (hot_down, cold_down) =
                    (here * hot as f64 * self.rates[0], here * (valid - hot) as f64 * self.rates[1]);
                if hot > 0 {
                    next[hot - 1] += hot_down;
                }
                if hot < valid {
                    next[hot] += cold_down;
                }
                overwritten += hot_down + cold_down;
            }
            victims[valid] = of_level;
            inflow = next;
        }
        (victims, overwritten)
    }

    /// The new blocks: a victim's valid pages, and host writes in the remaining room.
    fn refill(&self, victims: &[Vec<f64>]) -> Vec<f64> {
        let mut fresh = vec![0.0; self.pages + 1];
        for (valid, states) in victims.iter().enumerate() {
            for (hot, chance) in states.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
                for (hits, share) in self.hits[self.pages - valid].iter().enumerate() {
                    fresh[hot + hits] += chance * share;
                }
            }
        }
        // Exactly one new block per victim, whatever a pass that has not converged lost.
        let sum: f64 = fresh.iter().sum();
        fresh.iter_mut().for_each(|share| *share /= sum);
        fresh
    }
}

/// The share of blocks in a state with inflow `flow` and outflow rate `out`.
fn share(flow: f64, out: f64) -> f64 {
    if flow > 0.0 { flow / out } else { 0.0 }
}

/// One level of valid pages: the rate at which its blocks are cleaned, and the share of blocks with
/// at least this many. `above` is that share without the level; `stay` gives the level's share for
/// a cleaning rate. The rate is infinite if blocks are cleaned as soon as they arrive and take no
/// share.
pub(crate) fn level(choice: Choice, v: f64, above: f64, stay: &dyn Fn(f64) -> f64) -> (f64, f64) {
    match choice {
        Choice::Among(d) => {
            let d = d.clamp(1, i32::MAX as u32) as i32;
            // The probability that the best of d is of this level: all have at least as many pages,
            // and not all have more.
            let cleaned = |at_least: f64| {
                let here = at_least - above;
                if here > 1e-12 {
                    v * (at_least.powi(d) - above.powi(d)) / here
                } else {
                    v * f64::from(d) * above.powi(d - 1)
                }
            };
            let at_least = root::of_falling((above, 1.0), |at_least| above + stay(cleaned(at_least)) - at_least);
            (cleaned(at_least), at_least)
        }
        Choice::Greedy if above >= 1.0 => (f64::INFINITY, 1.0),
        Choice::Greedy => {
            let untouched = above + stay(0.0);
            if untouched <= 1.0 {
                return (0.0, untouched);
            }
            // The lowest occupied level is cleaned at the rate that leaves it the remaining blocks.
            let mut high = v;
            while above + stay(high) > 1.0 && high < 1e300 {
                high *= 2.0;
            }
            (root::of_falling((0.0, high), |cleaned| above + stay(cleaned) - 1.0), 1.0)
        }
    }
}
