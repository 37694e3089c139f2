//! The mean field of hot blocks and cold blocks, cleaned by one rule.

use crate::hot_cold::{HotCold, Part};
use crate::mixed::level;
use crate::{Choice, Device, root};

/// See [`crate::hot_cold::separated`]. Two unknowns: `v`, the cleanings per host write and block of
/// the device, and the share of them that open hot blocks. At the solution, the pages of each part
/// are overwritten as often as the host writes them.
pub(crate) fn write_amplification(device: &Device, hot_cold: &HotCold, choice: Choice) -> f64 {
    let parts = hot_cold.parts(device);
    let pages = device.pages_per_block();
    let hot_writes = parts[0].writes;
    let overwritten = |v: f64| {
        let excess = |hot: f64| {
            let [of_hot, of_cold] = pass(&parts, pages, choice, [v * hot, v * (1.0 - hot)]);
            // The more blocks are hot, the more hot pages are overwritten.
            hot_writes * (of_hot + of_cold) - of_hot
        };
        let hot = root::of_falling((0.0, 1.0), excess);
        pass(&parts, pages, choice, [v * hot, v * (1.0 - hot)]).iter().sum::<f64>()
    };
    let least = 1.0 / f64::from(pages);
    root::of_rising(least, |v| overwritten(v) - 1.0) * f64::from(pages)
}

/// Goes from full blocks down to empty ones; `opened`: new blocks of each part per host write.
/// Returns the pages overwritten per part.
fn pass(parts: &[Part; 2], pages: u32, choice: Choice, opened: [f64; 2]) -> [f64; 2] {
    let v = opened[0] + opened[1];
    let mut inflow = opened;
    let mut overwritten = [0.0; 2];
    let mut above = 0.0;
    for valid in (0..=pages).rev() {
        let out = [0, 1].map(|part: usize| f64::from(valid) * parts[part].rate());
        let share =
            |part: usize, cleaned: f64| if inflow[part] > 0.0 { inflow[part] / (out[part] + cleaned) } else { 0.0 };
        let (cleaned, at_least) = level(choice, v, above, &|cleaned| share(0, cleaned) + share(1, cleaned));
        above = at_least;
        let down = [0, 1].map(|part| if cleaned.is_infinite() { 0.0 } else { share(part, cleaned) * out[part] });
        (overwritten[0], overwritten[1]) = (overwritten[0] + down[0], overwritten[1] + down[1]);
        inflow = down;
    }
    overwritten
}
