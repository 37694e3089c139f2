//! Plots as SVG: a drawing is a text that a page holds as it is. Colours are classes of the page's
//! style sheet (`c0` to `c7`); what is told apart by colour is told apart by a mark, a dash or a
//! pattern, too. The same plot gives the same bytes on every machine.

mod bars;
mod curves;
mod drawing;
mod heat;
mod scale;

pub use drawing::escaped;

use crate::page::Item;

/// Number of colours, and of marks, dashes and patterns; further curves repeat them.
pub const KINDS: usize = 8;

/// Widths in pixels of the drawings of a plot: on a telephone, and on anything wider.
pub const WIDTHS: [u32; 2] = [300, 640];

/// Draws a plot of this width in pixels; `None` for an item that is not a plot. `id` must be unique
/// in the page.
pub fn plot(item: &Item, id: &str, width: u32) -> Option<String> {
    let width = f64::from(width);
    let drawing = match item {
        Item::Bars(plot) => bars::bars(plot, width),
        Item::Stacked(plot) => bars::stacked(plot, id, width),
        Item::Line(plot) => curves::curves(plot, curves::Joined::Straight, width),
        Item::Step(plot) => curves::curves(plot, curves::Joined::Steps, width),
        Item::Cdf(plot) => curves::curves(plot, curves::Joined::Steps, width),
        Item::Heat(plot) => heat::heat(plot, width),
        Item::Table(_) | Item::Note(_) | Item::Text(..) => return None,
    };
    Some(drawing.finish(id, item.plot_title()?, &described(item)))
}

/// Describes a plot in words, for readers who cannot see it.
fn described(item: &Item) -> String {
    let list = |labels: Vec<&str>| match labels.as_slice() {
        [] => "nothing".to_string(),
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        [one, ..] => (*one).to_string(),
    };
    let axes = |plot: &crate::page::Curves| {
        let labels = plot.curves.iter().map(|curve| curve.label.as_str()).collect();
        format!("{} over {}, of {}", plot.y.label, plot.x.label, list(labels))
    };
    let what = match item {
        Item::Bars(plot) => {
            let best = plot.bars.iter().find(|bar| bar.is_best);
            let best = best.map_or_else(String::new, |bar| format!("; the best is {}", bar.label));
            format!("Bars of {}{best}", list(plot.bars.iter().map(|bar| bar.label.as_str()).collect()))
        }
        Item::Stacked(plot) => {
            let bars = list(plot.bars.iter().map(|(label, _)| label.as_str()).collect());
            format!("Bars of {bars}, each made of {}", list(plot.parts.iter().map(String::as_str).collect()))
        }
        Item::Heat(plot) => format!("A matrix of {} rows and {} columns", plot.rows.len(), plot.columns.len()),
        Item::Cdf(plot) => format!("Cumulative distribution: {}", axes(plot)),
        Item::Line(plot) | Item::Step(plot) => axes(plot),
        Item::Table(_) | Item::Note(_) | Item::Text(..) => String::new(),
    };
    format!("{what}. The table below has the figures.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Bar, Bars, Curve, Curves, Heat, Stacked};
    use crate::testing::well_formed;

    fn items() -> Vec<Item> {
        let label = "<b>\"a\" & 'b'\u{202e}\u{1}".to_string();
        let curves = Curves {
            title: label.clone(),
            curves: vec![
                Curve { label: label.clone(), points: vec![(0.0, 0.0), (1.0, f64::NAN), (3.0, 2.0)] },
                Curve { label: label.clone(), points: vec![] },
            ],
            ..Curves::default()
        };
        let mut logs = curves.clone();
        (logs.x.is_log, logs.y.is_log) = (true, true);
        let bar = Bar { label: label.clone(), value: 2.0, range: Some((1.0, 3.0)), is_best: true };
        let odd = Bar { value: f64::INFINITY, range: None, ..bar.clone() };
        let stacked = vec![(label.clone(), vec![1.0, -1.0]), (label.clone(), vec![0.0])];
        let rows = vec![(label.clone(), vec![Some(1.0), None, Some(f64::NAN)])];
        let columns = vec![label.clone(); 3];
        vec![
            Item::Line(curves.clone()),
            Item::Step(logs),
            Item::Cdf(curves),
            Item::Bars(Bars { title: label.clone(), bars: vec![bar, odd], ..Bars::default() }),
            Item::Stacked(Stacked { parts: vec![label.clone(); 2], bars: stacked, ..Stacked::default() }),
            Item::Heat(Heat { rows, columns, ..Heat::default() }),
            Item::Bars(Bars::default()),
            Item::Stacked(Stacked::default()),
            Item::Heat(Heat::default()),
            Item::Line(Curves::default()),
        ]
    }

    #[test]
    fn every_plot_is_well_formed_whatever_it_shows() {
        for item in items() {
            for width in WIDTHS {
                let text = plot(&item, "p1", width).unwrap();
                well_formed(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
                assert!(text.contains("role=\"img\"") && text.contains("<title ") && text.contains("<desc "), "{text}");
                assert!(!text.contains("<b>") && !text.contains(['\u{202e}', '\u{1}']), "{text}");
                assert!(!text.contains("NaN") && !text.contains("inf\""), "{text}");
                assert_eq!(plot(&item, "p1", width).unwrap(), text);
            }
        }
    }

    #[test]
    fn what_is_no_plot_is_none() {
        assert_eq!(plot(&Item::Note("a".into()), "p1", 300), None);
    }
}
