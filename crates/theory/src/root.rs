//! Roots of functions of one argument.

/// Steps of a bisection; a double has no more bits.
const STEPS: usize = 64;

/// The argument in `[low, high]` at which a falling function reaches 0, by bisection; an end of the
/// interval if it does not. Cost: at most 64 evaluations.
pub(crate) fn of_falling((mut low, mut high): (f64, f64), function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..STEPS {
        let middle = low.midpoint(high);
        if middle <= low || middle >= high {
            break;
        }
        if function(middle) > 0.0 { low = middle } else { high = middle }
    }
    low.midpoint(high)
}

/// The argument from `low` on at which a rising function reaches 0: doubles the end of the bracket
/// until it is beyond, then narrows it to one part in 10^12 with the Illinois variant of false
/// position. Cost: about 20 evaluations.
pub(crate) fn of_rising(low: f64, mut function: impl FnMut(f64) -> f64) -> f64 {
    let (mut a, mut at_a) = (low, function(low));
    if at_a >= 0.0 {
        return low;
    }
    let mut b = 2.0 * low;
    let mut at_b = function(b);
    while at_b < 0.0 && b < low * 1e9 {
        (a, at_a) = (b, at_b);
        b *= 2.0;
        at_b = function(b);
    }
    let mut side = 0;
    for _ in 0..200 {
        if (b - a).abs() <= 1e-12 * b.abs() || at_b - at_a <= 0.0 {
            break;
        }
        let between = (a * at_b - b * at_a) / (at_b - at_a);
        let at = function(between);
        if at == 0.0 {
            return between;
        }
        if at < 0.0 {
            (a, at_a) = (between, at);
            if side == -1 {
                at_b /= 2.0;
            }
            side = -1;
        } else {
            (b, at_b) = (between, at);
            if side == 1 {
                at_a /= 2.0;
            }
            side = 1;
        }
    }
    if at_b.abs() < at_a.abs() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found() {
        assert!((of_falling((0.0, 3.0), |x| 2.0 - x * x) - 2.0f64.sqrt()).abs() < 1e-12);
        for root in [1.0, 1.5, 7.0, 1e5] {
            let found = of_rising(1.0, |x| x.powi(3) - f64::powi(root, 3));
            assert!((found / root - 1.0).abs() < 1e-9, "{found} of {root}");
        }
    }
}
