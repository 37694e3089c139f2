//! Uniform overwrites.

use crate::{Device, root};

/// The principal branch of Lambert's function: the `w >= -1` with `w * exp(w) = x`, for `x >=
/// -1/e`; NaN below. Accurate to a few parts in 10^15; near the branch point to half of the digits.
pub fn lambert_w(x: f64) -> f64 {
    let from_branch = x.mul_add(std::f64::consts::E, 1.0);
    if from_branch < 0.0 || x.is_nan() {
        return f64::NAN;
    }
    // A series at the branch point, logarithms far from it.
    let start = if x < 1.0 {
        let p = (2.0 * from_branch).sqrt();
        -1.0 + p - p * p / 3.0
    } else {
        x.ln_1p() * 0.8
    };
    let mut w = start;
    for _ in 0..64 {
        // Halley's method (Corless and others, "On the Lambert W function", Advances in
        // Computational Mathematics 5, 1996).
        let (e, w1) = (w.exp(), w + 1.0);
        let excess = w.mul_add(e, -x);
        if excess == 0.0 || w1 <= 0.0 {
            break;
        }
        let step = excess / (e * w1 - (w + 2.0) * excess / (2.0 * w1));
        w -= step;
        if step.abs() <= 1e-16 * w.abs() {
            break;
        }
    }
    w
}

/// FIFO, also called LRU or circular cleaning. Between two cleanings of a block the log goes round
/// once: of all T pages a share `1 - x` is written by the host and `x` are copies, where `x` is the
/// share of a block that is still valid when it comes round. A page of U survives `T (1 - x)`
/// overwrites with probability `exp(-(1 - x) T / U)`, which is `x`; so `x = -u W(-exp(-1/u)/u)`
/// with `u = U / T`. Independent of the pages per block.
pub fn fifo(device: &Device) -> f64 {
    let used = device.used();
    let valid = -used * lambert_w(-(-1.0 / used).exp() / used);
    1.0 / (1.0 - valid)
}

/// A random victim, which is as full as the device: `(1 + spare) / spare`. Independent of the pages
/// per block.
pub fn random(device: &Device) -> f64 {
    (1.0 + device.spare()) / device.spare()
}

/// The fewest valid pages among `d` random blocks; 1 is a random choice, and 0 counts as 1.
///
/// With `v` cleanings per host write, `S_i` the share of blocks with at least `i` valid pages and
/// `p_i = S_i - S_(i+1)`: blocks leave level `i` downwards at the rate `p_i i N / U` (N blocks, U
/// host pages) and arrive there from above, or from cleaning as full blocks; what goes down below
/// `i` is cleaned there: `p_i i N / U = v (1 - S_i^d)`. All valid pages are the host's: the sum of
/// `i p_i` is `U / N`. With `c = v U / N` the write amplification is `v b = c / used`. Cost: 4000
/// evaluations per page of a block.
pub fn d_choices(device: &Device, d: u32) -> f64 {
    let (pages, used) = (device.pages_per_block(), device.used());
    let d = d.clamp(1, i32::MAX as u32) as i32;
    let valid = |c: f64| {
        let mut above = 0.0;
        (1..=pages).rev().fold(0.0, |valid, level| {
            // S = above + c (1 - S^d) / level: the right side falls with S.
            let excess = |s: f64| above + c * (1.0 - s.powi(d)) / f64::from(level) - s;
            let s = root::of_falling((above, 1.0), excess);
            let here = (s - above) * f64::from(level);
            above = s;
            valid + here
        })
    };
    // More cleaning means fuller blocks. The lowest rate of cleaning is that of empty blocks.
    let target = used * f64::from(pages);
    root::of_rising(used, |c| valid(c) - target) / used
}

/// The limit of many choices, in which only the lowest occupied level is cleaned. Blocks pass the
/// levels above the mean victim at the rate `v` and stay `U / i` host writes at level `i`; a share
/// `q` of the victims went down to `m`, the others were cleaned at `m + 1`. So `N / U = v
/// (1/(m+2) + ... + 1/b + q/(m+1))`, and `v (b - (m + 1) + q) = 1`.
pub fn greedy(device: &Device) -> f64 {
    let (pages, used) = (device.pages_per_block(), device.used());
    let b = f64::from(pages);
    let blocks_per_page = |gain: f64| {
        let whole = (gain.floor() as u32).min(pages - 1);
        let q = gain - f64::from(whole);
        let sum: f64 = (pages - whole + 1..=pages).map(|level| 1.0 / f64::from(level)).sum();
        (sum + q / f64::from(pages - whole)) / gain
    };
    // Rises with the gain: more spare, more gained. With more spare than empty victims need, whole
    // blocks are gained.
    let target = 1.0 / (used * b);
    let gain = root::of_falling((1e-9, b), |gain| target - blocks_per_page(gain));
    b / gain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(pages: u32, spare: f64) -> Device {
        Device::new(pages, spare).unwrap()
    }

    #[test]
    fn lamberts_function_is_its_inverse() {
        for x in [-0.36, -0.2, -1e-9, 0.0, 0.5, 1.0, std::f64::consts::E, 100.0, 1e9] {
            let w = lambert_w(x);
            assert!((w * w.exp() - x).abs() <= 1e-12 * x.abs().max(1e-6), "{x}: {w}");
        }
        assert!((lambert_w(1.0) - 0.567_143_290_409_783_8).abs() < 1e-14);
        assert!((lambert_w(-(-1.0f64).exp()) + 1.0).abs() < 1e-7 && lambert_w(-0.4).is_nan());
    }

    #[test]
    fn fifo_satisfies_the_relation_that_it_solves() {
        for spare in [0.01, 0.07, 0.15, 0.28, 1.0, 50.0] {
            let found = fifo(&device(64, spare));
            let valid = 1.0 - 1.0 / found;
            assert!((valid - (-(1.0 - valid) * (1.0 + spare)).exp()).abs() < 1e-12, "{spare}: {found}");
            assert!(found >= 1.0 && found < random(&device(64, spare)), "{spare}: {found}");
        }
        // Xiang and Kurkoski's own example (arXiv:1110.4245, abstract): 2.36 at 0.3.
        assert!((fifo(&device(64, 0.3)) - 2.36).abs() < 0.005);
    }

    #[test]
    fn the_models_meet_where_they_must() {
        for (pages, spare) in [(64, 0.07), (64, 0.15), (32, 0.25), (256, 0.28)] {
            let device = device(pages, spare);
            // One choice is no choice.
            assert!((d_choices(&device, 1) / random(&device) - 1.0).abs() < 1e-9);
            let by_choices = [1, 2, 5, 10, 64, 1000].map(|d| d_choices(&device, d));
            assert!(by_choices.is_sorted_by(|few, many| few > many), "{by_choices:?}");
            // With many choices it becomes greedy.
            let many = d_choices(&device, 1_000_000);
            assert!((many / greedy(&device) - 1.0).abs() < 1e-4, "{many} {}", greedy(&device));
        }
    }

    /// The figures of `docs/design/05-page-map.md`, and the limit of large blocks, in which greedy
    /// equals FIFO.
    #[test]
    fn greedy_rises_with_the_block_to_fifo() {
        let found = [64, 256, 1024].map(|pages| greedy(&device(pages, 0.15)));
        for (found, expected) in found.into_iter().zip([3.80, 3.96, 4.00]) {
            assert!((found - expected).abs() < 0.005, "{found} {expected}");
        }
        assert!((greedy(&device(4096, 0.15)) / fifo(&device(4096, 0.15)) - 1.0).abs() < 0.002);
    }

    #[test]
    fn much_spare_writes_nothing_twice() {
        assert!((greedy(&device(4, 900.0)) - 1.0).abs() < 1e-6 && (greedy(&device(1, 0.1)) - 1.0).abs() < 1e-6);
        assert!((fifo(&device(4, 900.0)) - 1.0).abs() < 1e-6);
    }
}
