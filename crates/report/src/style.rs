//! How text may look: Unicode or plain ASCII, with or without emphasis.

/// What the reader's terminal can show. Decided by the caller; nothing here asks the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Block elements for bars, and a star for the best; else plain ASCII.
    pub unicode: bool,
    /// ANSI escape sequences for emphasis.
    pub colour: bool,
    /// Whether tables are Markdown's.
    pub markdown: bool,
}

impl Style {
    /// Plain ASCII without emphasis: for files, pipes and `NO_COLOR`.
    pub const PLAIN: Self = Self { unicode: false, colour: false, markdown: false };

    /// A bar of `width` cells of which `value / whole` is filled; in eighths of a cell where
    /// Unicode may be used.
    pub fn bar(self, value: f64, whole: f64, width: usize) -> String {
        let fraction = if whole > 0.0 && value.is_finite() { (value / whole).clamp(0.0, 1.0) } else { 0.0 };
        if !self.unicode {
            return "#".repeat((fraction * width as f64).round() as usize);
        }
        let eighths = (fraction * width as f64 * 8.0).round() as usize;
        let mut bar = "█".repeat(eighths / 8);
        bar.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8).copied().unwrap_or_default());
        bar
    }

    /// The mark of the best row.
    pub const fn best(self) -> &'static str {
        if self.unicode { "★" } else { "*" }
    }

    /// Emphasised text.
    pub fn strong(self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_string() }
    }

    /// The sign between a mean and the half width of its interval.
    pub const fn plus_minus(self) -> &'static str {
        if self.unicode { "±" } else { "+-" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_the_length_of_their_value() {
        let plain = Style::PLAIN;
        let fancy = Style { unicode: true, ..Style::PLAIN };
        assert_eq!(plain.bar(0.5, 1.0, 8), "####");
        assert_eq!(fancy.bar(0.5, 1.0, 8), "████");
        assert_eq!(fancy.bar(0.3, 1.0, 10), "███");
        assert_eq!(fancy.bar(0.33, 1.0, 10), "███▎");
        assert_eq!(plain.bar(9.0, 1.0, 4), "####");
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(plain.bar(odd, 1.0, 4), "");
        }
        assert_eq!(plain.bar(1.0, 0.0, 4), "");
    }
}
