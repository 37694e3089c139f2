//! Sizes in human notation.

use std::fmt;

/// The error for a text that is no size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSizeError {
    text: String,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no size: expected a number, with K, M, G, T (or KiB, MiB, GiB, TiB) for powers of 1024",
            self.text
        )
    }
}

impl std::error::Error for ParseSizeError {}

/// Parses a number of bytes: `4096`, `128K`, `128KiB`, `1.5 GiB`. Units are powers of 1024; case
/// does not matter.
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let wrong = || ParseSizeError { text: text.to_string() };
    let trimmed = text.trim();
    let digits_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits_end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(wrong);
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * (1u64 << shift) as f64;
    if value.is_finite() && value < u64::MAX as f64 && value.fract() == 0.0 { Ok(value as u64) } else { Err(wrong()) }
}

/// Formats a number of bytes: exact if possible (`128 KiB`), else with one decimal (`1.4 GiB`).
pub fn format_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let size = 1u64 << shift;
        if bytes >= size {
            return if bytes.is_multiple_of(size) {
                format!("{} {unit}", bytes / size)
            } else {
                format!("{:.1} {unit}", bytes as f64 / size as f64)
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_and_print() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("4k", 4096), ("128 KiB", 131_072), ("1.5MiB", 1_572_864), ("1_000", 1000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "1.3", "12 parsecs", "99999999999T", "-1", "1..5K"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(format_bytes(131_072), "128 KiB");
        assert_eq!(format_bytes(1_500_000), "1.4 MiB");
    }
}
