//! A matrix whose cells are shaded by their value, which stands in them.

use super::drawing::{Anchor, Drawing, cut, width_of};
use crate::page::Heat;

const ROW: f64 = 26.0;
/// Least width of a column: room for a number with a unit.
const COLUMN: f64 = 58.0;
/// Greatest height of the columns' labels, which run upwards.
const HEAD: f64 = 150.0;
/// Number of shades; the palest is no shade at all.
const SHADES: f64 = 10.0;

/// Draws a matrix. The drawing is as wide as its columns need, and at least `width` pixels wide, so
/// a page has to put it into a box that scrolls.
pub fn heat(plot: &Heat, width: f64) -> Drawing {
    let longest = |labels: &mut dyn Iterator<Item = &String>| labels.map(|label| width_of(label)).fold(0.0, f64::max);
    let room = if width < 400.0 { 150.0 } else { 260.0 };
    let left = longest(&mut plot.rows.iter().map(|(label, _)| label)).min(room) + 8.0;
    let head = longest(&mut plot.columns.iter()).min(HEAD) + 8.0;
    let columns = plot.columns.len().max(1) as f64;
    let column = ((width - left) / columns).clamp(COLUMN, 110.0);
    let mut drawing = Drawing::new((left + column * columns).max(width));
    let fits = head - 8.0 <= column - 6.0;
    let top = if fits { 22.0 } else { head };
    for (at, label) in plot.columns.iter().enumerate() {
        let middle = left + column * (at as f64 + 0.5);
        if fits {
            drawing.text((middle, top - 7.0), Anchor::Middle, "", label);
        } else {
            drawing.upright((middle + 4.0, top - 5.0), Anchor::Start, "", &cut(label, HEAD));
        }
    }
    let largest = |values: &mut dyn Iterator<Item = &Option<f64>>| {
        values.flatten().copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    };
    let all = largest(&mut plot.rows.iter().flat_map(|(_, values)| values));
    for (row, (label, values)) in plot.rows.iter().enumerate() {
        let y = top + ROW * row as f64;
        let most = if plot.by_row { largest(&mut values.iter()) } else { all };
        drawing.text((left - 8.0, y + 17.0), Anchor::End, "", &cut(label, room));
        for (at, value) in values.iter().enumerate().take(plot.columns.len()) {
            let x = left + column * at as f64;
            let value = value.filter(|value| value.is_finite());
            let share = value.map_or(0.0, |value| if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 });
            let shade = format!(r#" fill-opacity="{}""#, super::drawing::at((share * SHADES).round() / SHADES));
            drawing.filled([x, y, column, ROW], "h", &shade);
            let text = value.map_or_else(|| "-".to_string(), |value| plot.quantity.text(value));
            drawing.text((x + column / 2.0, y + 17.0), Anchor::Middle, "v", &text);
        }
    }
    drawing.set_height(top + ROW * plot.rows.len() as f64 + 2.0);
    drawing
}
