//! The page's colours, light and dark.

use std::fmt::Write;

use crate::svg::KINDS;

/// The colours of one scheme as `#rrggbb`.
pub struct Palette {
    page: &'static str,
    ink: &'static str,
    dim: &'static str,
    link: &'static str,
    axis: &'static str,
    rule: &'static str,
    heat: &'static str,
    /// Colours of curves and of parts of bars: those of Okabe and Ito, "Color universal design"
    /// (2008), made darker or lighter until each stands out from the page.
    kinds: [&'static str; KINDS],
}

pub const LIGHT: Palette = Palette {
    page: "#ffffff",
    ink: "#1b1f24",
    dim: "#57606a",
    link: "#0550ae",
    axis: "#818b98",
    rule: "#d8dee4",
    heat: "#54a0ff",
    kinds: ["#0072b2", "#c04f00", "#00825f", "#a8478a", "#8a6d00", "#2b8fc4", "#3d3d3d", "#b5352b"],
};

pub const DARK: Palette = Palette {
    page: "#14171b",
    ink: "#e8eaed",
    dim: "#a3acb8",
    link: "#79b8ff",
    axis: "#7d8794",
    rule: "#343b44",
    heat: "#1f62b3",
    kinds: ["#4aa8e8", "#ff8b3d", "#2fc99a", "#e08fc4", "#e3c33f", "#8fd3f7", "#c9c9c9", "#ff7a70"],
};

impl Palette {
    fn variables(&self) -> String {
        let named = [
            ("page", self.page),
            ("ink", self.ink),
            ("dim", self.dim),
            ("link", self.link),
            ("axis", self.axis),
            ("rule", self.rule),
            ("heat", self.heat),
        ];
        let mut text = String::new();
        for (name, colour) in named {
            let _ = write!(text, "--{name}:{colour};");
        }
        for (kind, colour) in self.kinds.iter().enumerate() {
            let _ = write!(text, "--c{kind}:{colour};");
        }
        text
    }
}

/// Both schemes as style rules. A printed page is light.
pub fn rules() -> String {
    let mut text = format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        LIGHT.variables(),
        DARK.variables()
    );
    for kind in 0..KINDS {
        let _ = writeln!(text, ".c{kind}{{--c:var(--c{kind})}}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of WCAG 2.2.
    fn luminance(colour: [f64; 3]) -> f64 {
        let linear = colour.map(|part| {
            let part = part / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn colour(text: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap()))
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn texts_and_marks_stand_out_as_wcag_aa_asks() {
        for palette in [LIGHT, DARK] {
            let page = colour(palette.page);
            for text in [palette.ink, palette.dim, palette.link] {
                assert!(contrast(colour(text), page) >= 4.5, "{text}: {}", contrast(colour(text), page));
            }
            for mark in palette.kinds.iter().chain([&palette.axis]) {
                assert!(contrast(colour(mark), page) >= 3.0, "{mark}: {}", contrast(colour(mark), page));
            }
            // The text in a cell of a heat map, on each of its shades.
            for tenth in 0..=10 {
                let part = f64::from(tenth) / 10.0;
                let heat = colour(palette.heat);
                let shade = [0, 1, 2].map(|at| page[at] + (heat[at] - page[at]) * part);
                let found = contrast(colour(palette.ink), shade);
                assert!(found >= 4.5, "{} at {part}: {found}", palette.heat);
            }
        }
        assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
    }
}
