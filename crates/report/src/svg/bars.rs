//! Bars from left to right, each below its label, so that long names have room.

use super::drawing::{Anchor, Drawing, cut, width_of};
use super::scale::Scale;
use crate::page::{Axis, Bars, Quantity, Stacked};

/// Distance from one bar to the next.
const ROW: f64 = 38.0;
const BAR: f64 = 14.0;
/// Room below a label's base line.
const BELOW: f64 = 7.0;
/// Room beside the bars, for half a tick's text.
const MARGIN: f64 = 12.0;

/// The axis below the bars, and its lines behind them.
fn axis(drawing: &mut Drawing, scale: &Scale, unit: &str, top: f64, bottom: f64) {
    let end = drawing.width() - MARGIN;
    for tick in &scale.ticks {
        let Some(x) = scale.at(*tick, MARGIN, end) else { continue };
        drawing.line([x, top, x, bottom], "g");
        drawing.text((x, bottom + 15.0), Anchor::Middle, "t", &scale.text(*tick));
    }
    if unit.is_empty() {
        drawing.set_height(bottom + 20.0);
    } else {
        drawing.text((end, bottom + 31.0), Anchor::End, "t", unit);
        drawing.set_height(bottom + 36.0);
    }
}

/// Label and value on the line above a bar.
fn heading(drawing: &mut Drawing, label: &str, value: &str, y: f64, class: &str) {
    let end = drawing.width();
    let label = cut(label, end - width_of(value) - 14.0);
    drawing.text((0.0, y), Anchor::Start, class, &label);
    drawing.text((end, y), Anchor::End, class, value);
}

fn ticks_in(width: f64) -> usize {
    if width < 400.0 { 4 } else { 7 }
}

pub fn bars(plot: &Bars, width: f64) -> Drawing {
    let mut drawing = Drawing::new(width);
    let ends = plot.bars.iter().flat_map(|bar| [Some(bar.value), bar.range.map(|range| range.1)]).flatten();
    let scale = Scale::of(ends, &Axis::default(), ticks_in(width), true);
    let bottom = ROW * plot.bars.len() as f64 + 4.0;
    axis(&mut drawing, &scale, &plot.unit, 0.0, bottom);
    let end = width - MARGIN;
    let zero = scale.at(0.0, MARGIN, end).unwrap_or(MARGIN);
    for (row, bar) in plot.bars.iter().enumerate() {
        let y = ROW * row as f64 + 14.0;
        let mut value = Quantity::Number.text(bar.value);
        if let Some((low, high)) = bar.range.filter(|(low, high)| high > low) {
            value += &format!(" ({} to {})", Quantity::Number.text(low), Quantity::Number.text(high));
        }
        if bar.is_best {
            value = format!("★ {value}");
        }
        heading(&mut drawing, &bar.label, &value, y, if bar.is_best { "b" } else { "" });
        let Some(x) = scale.at(bar.value, MARGIN, end) else { continue };
        drawing.rect([zero.min(x), y + BELOW, (x - zero).abs(), BAR], if bar.is_best { "f c0" } else { "f n" });
        let range = bar.range.filter(|(low, high)| high > low);
        if let Some((low, high)) = range.and_then(|(l, h)| Some((scale.at(l, MARGIN, end)?, scale.at(h, MARGIN, end)?)))
        {
            let middle = y + BELOW + BAR / 2.0;
            drawing.line([low, middle, high, middle], "w");
            for x in [low, high] {
                drawing.line([x, middle - 4.0, x, middle + 4.0], "w");
            }
        }
    }
    drawing
}

pub fn stacked(plot: &Stacked, id: &str, width: f64) -> Drawing {
    let mut drawing = Drawing::new(width);
    drawing.patterns(id, plot.parts.len());
    let labels: Vec<&str> = plot.parts.iter().map(String::as_str).collect();
    let top = drawing.legend(&labels, 0.0, |drawing, (x, y), kind| drawing.part([x, y - 6.0, 26.0, 12.0], id, kind));
    let part = |value: &f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
    let sum = |values: &[f64]| values.iter().map(part).sum::<f64>();
    let sums = plot.bars.iter().map(|(_, values)| sum(values));
    let scale = Scale::of(sums, &Axis::default(), ticks_in(width), true);
    let top = top + 6.0;
    let bottom = top + ROW * plot.bars.len() as f64 + 4.0;
    axis(&mut drawing, &scale, &plot.unit, top, bottom);
    let end = width - MARGIN;
    for (row, (label, values)) in plot.bars.iter().enumerate() {
        let y = top + ROW * row as f64 + 14.0;
        heading(&mut drawing, label, &Quantity::Number.text(sum(values)), y, "");
        let mut from = 0.0;
        for (kind, value) in values.iter().enumerate() {
            let to = from + part(value);
            if let (Some(left), Some(right)) = (scale.at(from, MARGIN, end), scale.at(to, MARGIN, end))
                && right - left >= 0.1
            {
                drawing.part([left, y + BELOW, right - left, BAR], id, kind);
            }
            from = to;
        }
    }
    drawing
}
