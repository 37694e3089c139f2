//! Curves over two axes.

use super::KINDS;
use super::drawing::{Anchor, Drawing, width_of};
use super::scale::Scale;
use crate::page::{Curve, Curves};

/// How two points are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    Straight,
    /// The value holds until the next point.
    Steps,
}

/// A curve of more points is drawn without a mark at each of them.
const MARKED: usize = 24;
/// Number of marks on a curve of more than [`MARKED`] points.
const MARKS: usize = 6;

pub fn curves(plot: &Curves, joined: Joined, width: f64) -> Drawing {
    let mut drawing = Drawing::new(width);
    let labels: Vec<&str> = plot.curves.iter().map(|curve| curve.label.as_str()).collect();
    // The sign of a curve in the legend: its mark on a piece of its dashed line.
    let sign = |drawing: &mut Drawing, (x, y): (f64, f64), kind: usize| {
        drawing.path(&[(x, y), (x + 28.0, y)], kind);
        drawing.mark((x + 14.0, y), kind);
    };
    let below_legend = drawing.legend(&labels, 0.0, sign);
    drawing.text((0.0, below_legend + 17.0), Anchor::Start, "t", &plot.y.label);
    let top = below_legend + 28.0;
    let bottom = top + if width < 400.0 { 170.0 } else { 230.0 };
    let points = || plot.curves.iter().flat_map(|curve| curve.points.iter());
    let y = Scale::of(points().map(|point| point.1), &plot.y, 6, false);
    let x = Scale::of(points().map(|point| point.0), &plot.x, if width < 400.0 { 4 } else { 7 }, false);
    let texts: Vec<String> = y.ticks.iter().map(|tick| y.text(*tick)).collect();
    let left = texts.iter().map(|text| width_of(text)).fold(0.0, f64::max) + 8.0;
    let right = width - 18.0;
    for (tick, text) in y.ticks.iter().zip(&texts) {
        let Some(at) = y.at(*tick, bottom, top) else { continue };
        drawing.line([left, at, right, at], "g");
        drawing.text((left - 6.0, at + 4.0), Anchor::End, "t", text);
    }
    for tick in &x.ticks {
        let Some(at) = x.at(*tick, left, right) else { continue };
        drawing.line([at, bottom, at, bottom + 4.0], "a");
        let named = plot.x.name(*tick).map_or_else(|| x.text(*tick), str::to_string);
        drawing.text((at, bottom + 17.0), Anchor::Middle, "t", &named);
    }
    drawing.line([left, bottom, right, bottom], "a");
    drawing.text((right, bottom + 34.0), Anchor::End, "t", &plot.x.label);
    drawing.set_height(bottom + 40.0);
    for (kind, curve) in plot.curves.iter().enumerate() {
        let places =
            curve.points.iter().filter_map(|point| Some((x.at(point.0, left, right)?, y.at(point.1, bottom, top)?)));
        let places: Vec<(f64, f64)> = places.collect();
        drawing.path(&corners(&places, joined), kind);
        for place in marked(&places, curve, kind) {
            drawing.mark(place, kind);
        }
    }
    drawing
}

/// The points of the line itself.
fn corners(places: &[(f64, f64)], joined: Joined) -> Vec<(f64, f64)> {
    if joined == Joined::Straight {
        return places.to_vec();
    }
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(places.len() * 2);
    for (x, y) in places {
        if let Some((_, before)) = corners.last().copied() {
            corners.push((*x, before));
        }
        corners.push((*x, *y));
    }
    corners
}

/// The points of a curve that get a mark: all, or some, which differ from curve to curve.
fn marked(places: &[(f64, f64)], curve: &Curve, kind: usize) -> Vec<(f64, f64)> {
    if curve.points.len() <= MARKED {
        return places.to_vec();
    }
    let every = (places.len() / MARKS).max(1);
    places.iter().skip(every * (kind % KINDS) / KINDS).step_by(every).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_until_the_next_point() {
        let places = [(0.0, 1.0), (2.0, 3.0)];
        assert_eq!(corners(&places, Joined::Steps), [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]);
        assert_eq!(corners(&places, Joined::Straight), places);
    }

    #[test]
    fn long_curves_have_a_few_marks() {
        let points: Vec<(f64, f64)> = (0..100).map(|at| (f64::from(at), 0.0)).collect();
        let curve = Curve { label: String::new(), points: points.clone() };
        let (first, second) = (marked(&points, &curve, 0), marked(&points, &curve, 1));
        assert!(first.len() <= MARKS + 1 && first[0] != second[0], "{first:?} {second:?}");
    }
}
