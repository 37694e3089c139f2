//! The elements of a drawing.

use std::fmt::Write;

use super::KINDS;

/// Width of a character in pixels, on average, in the drawings' letters of 12 pixels.
const CHARACTER: f64 = 7.2;

/// Escapes a text for an element or an attribute: characters that would end it, steer a terminal or
/// change the direction of the text around it are written so that they are seen and have no effect.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(character),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.extend(character.escape_unicode());
            }
            // XML knows no way to write these.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ if character.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(character),
        }
    }
    safe
}

/// The width of a text in pixels, about.
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// A text that takes this many pixels at the most.
pub fn cut(text: &str, room: f64) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if width_of(&line) <= room {
        return line;
    }
    let kept = ((room / CHARACTER) as usize).saturating_sub(1);
    line.chars().take(kept).collect::<String>().trim_end().to_string() + "…"
}

/// Where a text stands beside its point.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A coordinate: a tenth of a pixel is fine enough.
pub fn at(value: f64) -> String {
    let tenths = if value.is_finite() { (value.clamp(-1e6, 1e6) * 10.0).round() } else { 0.0 };
    let text = format!("{:.1}", tenths / 10.0 + 0.0);
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// A drawing as it grows.
pub struct Drawing {
    body: String,
    width: f64,
    height: f64,
}

impl Drawing {
    /// An empty drawing; its height is set when it is known.
    pub fn new(width: f64) -> Self {
        Self { body: String::new(), width, height: 0.0 }
    }

    /// Its width.
    pub const fn width(&self) -> f64 {
        self.width
    }

    /// Sets its height.
    pub fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a text does not fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(at);
        self.push(format_args!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    /// A rectangle, filled as the class says.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], class: &str) {
        self.filled([x, y, width, height], class, "");
    }

    /// A rectangle with further attributes.
    pub fn filled(&mut self, [x, y, width, height]: [f64; 4], class: &str, attributes: &str) {
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(at);
        let shape = format_args!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#).to_string();
        self.push(format_args!(r#"<rect class="{class}" {shape}{attributes}/>"#));
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.turned((x, y), anchor, class, text, "");
    }

    /// A text that runs upwards from its point.
    pub fn upright(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let turn = format!(r#" transform="rotate(-90 {} {})""#, at(x), at(y));
        self.turned((x, y), anchor, class, text, &turn);
    }

    fn turned(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str, turn: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let class = if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) };
        self.push(format_args!(r#"<text{class} x="{}" y="{}"{anchor}{turn}>{}</text>"#, at(x), at(y), escaped(text)));
    }

    /// A line through points, in colour and dash of this kind.
    pub fn path(&mut self, points: &[(f64, f64)], kind: usize) {
        const DASHES: [&str; KINDS] = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "12 3 2 3 2 3"];
        if points.is_empty() {
            return;
        }
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{} {}", if index == 0 { "M" } else { "L" }, at(*x), at(*y));
        }
        let dash = DASHES.get(kind % KINDS).filter(|dash| !dash.is_empty());
        let dash = dash.map_or_else(String::new, |dash| format!(r#" stroke-dasharray="{dash}""#));
        self.push(format_args!(r#"<path class="l c{}" d="{path}"{dash}/>"#, kind % KINDS));
    }

    /// A mark of this kind around a point.
    pub fn mark(&mut self, (x, y): (f64, f64), kind: usize) {
        // Around zero, 8 pixels wide.
        const MARKS: [&str; KINDS] = [
            "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            "M-3.5 -3.5h7v7h-7z",
            "M0 -4.5l4.5 8h-9z",
            "M0 -5l4.5 5l-4.5 5l-4.5 -5z",
            "M0 4.5l4.5 -8h-9z",
            "M-1.2 -4.5h2.4v3.3h3.3v2.4h-3.3v3.3h-2.4v-3.3h-3.3v-2.4h3.3z",
            "M-4.5 -2h9v4h-9z",
            "M-2 -4.5h4v9h-4z",
        ];
        let (mark, kind) = (MARKS.get(kind % KINDS).copied().unwrap_or_default(), kind % KINDS);
        self.push(format_args!(r#"<path class="m c{kind}" transform="translate({} {})" d="{mark}"/>"#, at(x), at(y)));
    }

    /// The patterns with which parts of these kinds are filled, for [`Self::part`].
    pub fn patterns(&mut self, id: &str, kinds: usize) {
        // Over the colour, in the colour of the page; the first is plain.
        const LINES: [&str; KINDS] = [
            "",
            "M-2 2l4 -4M0 8l8 -8M6 10l4 -4",
            "M0 2h8M0 6h8",
            "M-2 6l4 4M0 0l8 8M6 -2l4 4",
            "M2 0v8M6 0v8",
            "M3 3h2v2h-2z",
            "M0 4h8M4 0v8",
            "M0 8l8 -8M0 0l8 8",
        ];
        self.push(format_args!("<defs>"));
        for (kind, lines) in LINES.iter().enumerate().take(kinds) {
            self.push(format_args!(
                r#"<pattern id="{id}-{kind}" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="f c{kind}" width="8" height="8"/><path class="o" d="{lines}"/></pattern>"#
            ));
        }
        self.push(format_args!("</defs>"));
    }

    /// A rectangle filled with the pattern of a part.
    pub fn part(&mut self, shape: [f64; 4], id: &str, kind: usize) {
        self.filled(shape, "p", &format!(r#" fill="url(#{id}-{})""#, kind % KINDS));
    }

    /// Labels of kinds, in as many lines as they need, each behind its sign; gives the height below
    /// them.
    pub fn legend(&mut self, labels: &[&str], top: f64, sign: impl Fn(&mut Self, (f64, f64), usize)) -> f64 {
        const SIGN: f64 = 34.0;
        const GAP: f64 = 16.0;
        const LINE: f64 = 19.0;
        let (mut x, mut y) = (0.0, top);
        for (kind, label) in labels.iter().enumerate() {
            let label = cut(label, self.width - SIGN - 4.0);
            let width = SIGN + width_of(&label);
            if x > 0.0 && x + width > self.width {
                (x, y) = (0.0, y + LINE);
            }
            sign(self, (x, y + LINE / 2.0), kind);
            self.text((x + SIGN, y + LINE / 2.0 + 4.0), Anchor::Start, "", &label);
            x += width + GAP;
        }
        if labels.is_empty() { top } else { y + LINE }
    }

    /// The drawing as an element, with a title and a description for readers who cannot see it.
    pub fn finish(self, id: &str, title: &str, description: &str) -> String {
        let (width, height) = (at(self.width), at(self.height.max(1.0)));
        format!(
            "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n{}</svg>\n",
            escaped(title),
            escaped(description),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        for (value, text) in [(1.0, "1"), (1.25, "1.3"), (-0.01, "0"), (f64::NAN, "0"), (1e9, "1000000")] {
            assert_eq!(at(value), text);
        }
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(cut("a  short\none", 100.0), "a short one");
        assert_eq!(cut("abcdefghij", 40.0), "abcd…");
        assert_eq!(cut("abc", 0.0), "…");
    }

    #[test]
    fn nothing_ends_a_text() {
        assert_eq!(escaped("</text> & \"'\u{202e}\u{7}"), "&lt;/text&gt; &amp; &quot;&#39;\\u{202e}\u{fffd}");
    }
}
