//! From values to pixels, and the ticks of an axis.

use crate::page::{Axis, Quantity};

/// A scale from values to pixels.
pub struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    step: f64,
    /// The values at which ticks stand.
    pub ticks: Vec<f64>,
    quantity: Quantity,
}

/// The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below a value.
fn nice(value: f64) -> f64 {
    let power = 10f64.powi(value.log10().floor() as i32);
    let step = [1.0, 2.0, 2.5, 5.0].into_iter().map(|step| step * power).find(|step| *step >= value * 0.999_999);
    step.unwrap_or(10.0 * power)
}

impl Scale {
    /// A scale that holds these values, with `most` ticks or fewer; one of equal distances begins
    /// at zero, unless all values are far from it and `from_zero` is not asked for.
    pub fn of(values: impl Iterator<Item = f64>, axis: &Axis, most: usize, from_zero: bool) -> Self {
        let fits = |value: &f64| value.is_finite() && value.abs() < 1e300 && (!axis.is_log || *value > 1e-300);
        let (low, high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let most = most.max(2);
        if axis.names.len() > 1 {
            let ticks: Vec<f64> = (0..axis.names.len()).map(|at| at as f64).collect();
            let to = ticks.last().copied().unwrap_or(1.0);
            return Self { from: 0.0, to, is_log: false, step: 1.0, ticks, quantity: axis.quantity };
        }
        if axis.is_log { Self::log(low, high, axis, most) } else { Self::even(low, high, axis, most, from_zero) }
    }

    fn even(low: f64, high: f64, axis: &Axis, most: usize, from_zero: bool) -> Self {
        let (mut low, mut high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        if from_zero || (low > 0.0 && low < high * 0.6) {
            low = low.min(0.0);
        }
        if high <= low {
            high = if low == 0.0 { 1.0 } else { low + low.abs() };
        }
        let step = nice((high - low) / (most - 1) as f64);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let ticks =
            (0..=most + 1).map(|at| (first + at as f64) * step).filter(|tick| *tick <= last * step + step / 2.0);
        let ticks: Vec<f64> = ticks.collect();
        let quantity = axis.quantity;
        Self { from: first * step, to: last * step, is_log: false, step, ticks, quantity }
    }

    fn log(low: f64, high: f64, axis: &Axis, most: usize) -> Self {
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let (first, last) = ((low.log10() + 1e-9).floor(), (high.log10() - 1e-9).ceil());
        let last = last.max(first + 1.0);
        let every = ((last - first) / (most - 1) as f64).ceil().max(1.0) as usize;
        let last = first + ((last - first) / every as f64).ceil() * every as f64;
        let decades = (0..=(last - first) as usize).step_by(every);
        let ticks = decades.map(|at| 10f64.powf(first + at as f64)).collect();
        Self { from: first, to: last, is_log: true, step: 0.0, ticks, quantity: axis.quantity }
    }

    /// The position of a value between two ends in pixels; `None` if the scale cannot show it.
    pub fn at(&self, value: f64, start: f64, end: f64) -> Option<f64> {
        let value = if !self.is_log {
            Some(value)
        } else if value > 0.0 {
            Some(value.log10())
        } else {
            None
        };
        let part = (value.filter(|value| value.is_finite())? - self.from) / (self.to - self.from);
        Some(start + part.clamp(0.0, 1.0) * (end - start))
    }

    /// The text of a tick.
    pub fn text(&self, tick: f64) -> String {
        self.quantity.tick(tick, if self.is_log { tick } else { self.step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(values: &[f64], axis: &Axis, most: usize) -> Vec<String> {
        let scale = Scale::of(values.iter().copied(), axis, most, false);
        scale.ticks.iter().map(|tick| scale.text(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let plain = Axis::default();
        assert_eq!(ticks(&[0.0, 9.3], &plain, 6), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(ticks(&[0.1, 0.33], &plain, 5), ["0.0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(ticks(&[100.0, 101.0], &plain, 3), ["100.0", "100.5", "101.0"]);
        assert_eq!(ticks(&[-1.0, 1.0], &plain, 5), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        for odd in [&[][..], &[f64::NAN], &[0.0], &[5.0], &[-3.0], &[1e-200, 1e200]] {
            let scale = Scale::of(odd.iter().copied(), &plain, 6, false);
            assert!(scale.ticks.len() >= 2 && scale.ticks.len() <= 8, "{odd:?}: {:?}", scale.ticks);
        }
    }

    #[test]
    fn a_logarithmic_axis_has_a_tick_each_decade() {
        let time = Axis { quantity: Quantity::Nanoseconds, is_log: true, ..Axis::default() };
        assert_eq!(ticks(&[2000.0, 3e6], &time, 6), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]);
        assert_eq!(ticks(&[0.0, -1.0], &time, 6), ["1 ns", "10 ns"]);
        let scale = Scale::of([1.0, 100.0].into_iter(), &time, 6, false);
        assert_eq!(scale.at(10.0, 0.0, 200.0), Some(100.0));
        assert_eq!(scale.at(0.0, 0.0, 200.0), None);
    }
}
