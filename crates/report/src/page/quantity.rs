//! Numbers as texts, the same on every machine.

use super::Quantity;
use crate::deciding::{lifetime, lifetime_bytes};
use crate::summary::number;

impl Quantity {
    /// A value as a text with three significant digits; a dash for a value that is not a number.
    pub fn text(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "-".to_string(),
            Self::Number => grouped(value),
            Self::Share => format!("{} %", number(value * 100.0)),
            Self::Bytes => lifetime_bytes(value),
            Self::LongSeconds => lifetime(value),
            Self::Nanoseconds => {
                let scaled = |unit: f64, name: &str| format!("{} {name}", number(value / unit));
                match value.abs() {
                    ns if ns >= 999.5e6 => scaled(1e9, "s"),
                    ns if ns >= 999.5e3 => scaled(1e6, "ms"),
                    ns if ns >= 999.5 => scaled(1e3, "µs"),
                    _ => format!("{value:.0} ns"),
                }
            }
        }
    }

    /// A tick of an axis whose ticks are `step` apart: no more digits than the step asks for.
    pub fn tick(self, value: f64, step: f64) -> String {
        match self {
            Self::Number | Self::Bytes | Self::LongSeconds => decimals(value, step),
            Self::Share => format!("{} %", decimals(value * 100.0, step * 100.0)),
            Self::Nanoseconds => {
                let unit = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")].into_iter().find(|(unit, _)| value.abs() >= *unit);
                let (unit, name) = unit.unwrap_or((1.0, "ns"));
                if value == 0.0 { "0".to_string() } else { format!("{} {name}", decimals(value / unit, step / unit)) }
            }
        }
    }
}

/// A number with as many decimals as its step has, thousands told apart.
fn decimals(value: f64, step: f64) -> String {
    let step = if step.is_finite() && step > 0.0 { step } else { 1.0 };
    // 0.25 needs two, 0.5 one; the small part keeps 0.3 / 0.1 from asking for more.
    let digits = (0..9).find(|digits| {
        let scaled = step * 10f64.powi(*digits);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
    });
    let digits = usize::try_from(digits.unwrap_or(9)).unwrap_or(0);
    // Adding zero makes -0 a 0.
    thousands(format!("{:.digits$}", value + 0.0))
}

fn grouped(value: f64) -> String {
    let whole = value.fract() == 0.0 && value.abs() < 1e15;
    thousands(if whole { format!("{value:.0}") } else { number(value) })
}

/// Digits before the point in groups of three from 10,000 on.
fn thousands(text: String) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, rest) = digits.find('.').map_or((digits, ""), |at| digits.split_at(at));
    if whole.len() < 5 || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return text;
    }
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (quantity, value, text) in [
            (Quantity::Number, 1.23456, "1.23"),
            (Quantity::Number, 1234567.0, "1,234,567"),
            (Quantity::Number, -12345.6, "-12,346"),
            (Quantity::Number, 7.0, "7"),
            (Quantity::Number, f64::NAN, "-"),
            (Quantity::Share, 0.125, "12.5 %"),
            (Quantity::Nanoseconds, 900.0, "900 ns"),
            (Quantity::Nanoseconds, 1500.0, "1.50 µs"),
            (Quantity::Nanoseconds, 2.5e6, "2.50 ms"),
            (Quantity::Nanoseconds, 12e9, "12.0 s"),
        ] {
            assert_eq!(quantity.text(value), text);
        }
    }

    #[test]
    fn ticks_have_the_digits_of_their_step() {
        for (quantity, value, step, text) in [
            (Quantity::Number, 0.5, 0.25, "0.50"),
            (Quantity::Number, 20_000.0, 5_000.0, "20,000"),
            (Quantity::Number, -0.0, 1.0, "0"),
            (Quantity::Share, 0.5, 0.1, "50 %"),
            (Quantity::Nanoseconds, 1e6, 1e6, "1 ms"),
            (Quantity::Nanoseconds, 0.0, 1e6, "0"),
        ] {
            assert_eq!(quantity.tick(value, step), text);
        }
    }
}
