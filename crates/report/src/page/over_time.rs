//! Plots of a run over time, and of wear over the chip, from the series that records hold.

use nandkit_record::{LayerValue, RunRecord};

use super::by_workload::{Of, for_curves, only_some};
use super::{Axis, Curve, Curves, Heat, Item, Quantity};

/// Columns of a heat map of wear at the most.
const WEAR_COLUMNS: usize = 16;

/// Points of a curve at the most, so that the page stays light: each point is also a row of the
/// table below its plot. The page has all of them in its records.
const POINTS_MAX: usize = 32;

/// About evenly spread places among `count`, at most [`POINTS_MAX`], with the last one.
fn places(count: usize) -> impl Iterator<Item = usize> {
    let stride = count.div_ceil(POINTS_MAX).max(1);
    (0..count).filter(move |at| (count - 1 - at).is_multiple_of(stride))
}

/// All plots for which the records have series; each shows the first seed of each stack.
pub(super) fn plots(of: &Of<'_>) -> Vec<Item> {
    let all = [speed(of), amplification(of), settling(of), wear(of)];
    all.into_iter().flatten().chain(segments(of)).collect()
}

fn series<'a>(record: &'a RunRecord, layer: &str, name: &str) -> Option<&'a [f64]> {
    match record.layers.get(layer)?.get(name)? {
        LayerValue::Series(values) => Some(values),
        _ => None,
    }
}

/// A curve for each stack whose first record has points.
fn curves_of(of: &Of<'_>, points: impl Fn(&RunRecord) -> Option<Vec<(f64, f64)>>) -> Vec<Curve> {
    let curve = |(label, points): (&str, Vec<(f64, f64)>)| Curve { label: label.to_string(), points };
    let rows = for_curves(of).into_iter();
    let rows = rows.filter_map(|(label, group)| Some((label.as_str(), points(group.records.first()?)?)));
    rows.filter(|(_, points)| points.len() > 1).map(curve).collect()
}

/// Between each two chosen samples of the timeline: what `part` counted by what `whole` counted, at
/// the later sample's time.
fn ratios(record: &RunRecord, part: &[&str], whole: &str, factor: f64) -> Option<Vec<(f64, f64)>> {
    let of = |name: &str| series(record, "timeline", name);
    let (times, below) = (of("at_ns")?, of(whole)?);
    let parts: Vec<&[f64]> = part.iter().map(|name| of(name)).collect::<Option<_>>()?;
    let count = |at: usize| parts.iter().filter_map(|values| values.get(at)).sum::<f64>();
    let mut earlier = None;
    let step = |at: usize| {
        let before = earlier.replace(at);
        let from = before.and_then(|before| below.get(before).copied()).unwrap_or(0.0);
        let (to, counted) = (*below.get(at)?, count(at) - before.map_or(0.0, count));
        (to > from).then(|| (times.get(at).copied().unwrap_or(0.0), counted / (to - from) * factor))
    };
    Some(places(times.len()).filter_map(step).collect())
}

fn time() -> Axis {
    Axis { label: "simulated time".to_string(), quantity: Quantity::Nanoseconds, ..Axis::default() }
}

fn plain(label: &str) -> Axis {
    Axis { label: label.to_string(), ..Axis::default() }
}

/// What the user moved in each part of the measured phase.
fn speed(of: &Of<'_>) -> Option<Item> {
    // Bytes by nanosecond are thousands of MB/s.
    let curves = curves_of(of, |record| ratios(record, &["user_bytes_written", "user_bytes_read"], "at_ns", 1000.0));
    let title = format!("Speed over time, first seed{}", only_some(of));
    let plot = Curves { title, x: time(), y: plain("MB/s that the user reads and writes"), curves };
    (!plot.curves.is_empty()).then_some(Item::Line(plot))
}

fn amplification(of: &Of<'_>) -> Option<Item> {
    let curves = curves_of(of, |record| ratios(record, &["bytes_programmed"], "user_bytes_written", 1.0));
    let title = format!("Write amplification over time, first seed{}", only_some(of));
    let plot = Curves { title, x: time(), y: plain("bytes programmed for each byte written"), curves };
    (!plot.curves.is_empty()).then_some(Item::Line(plot))
}

/// Write amplification of each window of a run that went on until it had settled.
fn settling(of: &Of<'_>) -> Option<Item> {
    let points = |record: &RunRecord| {
        let before = series(record, "steady", "steady_windows_before")?;
        let measured = series(record, "steady", "steady_windows_measured").unwrap_or_default();
        let windows: Vec<f64> = before.iter().chain(measured).copied().collect();
        let point = |at: usize| Some((at as f64 + 1.0, *windows.get(at)?));
        Some(places(windows.len()).filter_map(point).collect())
    };
    let curves = curves_of(of, points);
    let title = format!("Write amplification until it settled, first seed{}", only_some(of));
    let plot = Curves { title, x: plain("window"), y: plain("write amplification"), curves };
    (!plot.curves.is_empty()).then_some(Item::Line(plot))
}

/// A row for each stack, a column for each part of its chip; of one stack alone several rows.
fn wear(of: &Of<'_>) -> Option<Item> {
    let rows = for_curves(of).into_iter();
    let maps: Vec<(&str, &[f64])> = rows
        .filter_map(|(label, group)| Some((label.as_str(), series(group.records.first()?, "wear", "erases_by_range")?)))
        .filter(|(_, map)| !map.is_empty())
        .collect();
    let [(alone, map), others @ ..] = maps.as_slice() else { return None };
    let is_alone = others.is_empty();
    let columns = map.len().min(WEAR_COLUMNS);
    let mean = |values: &[f64]| Some(values.iter().sum::<f64>() / values.len() as f64);
    let in_columns = |map: &[f64]| map.chunks(map.len().div_ceil(columns)).map(mean).collect();
    let rows = if is_alone {
        let row =
            |(at, row): (usize, &[f64])| (format!("{alone}, {at}"), row.iter().map(|value| Some(*value)).collect());
        map.chunks(columns).enumerate().map(row).collect()
    } else {
        maps.iter().map(|(label, map)| ((*label).to_string(), in_columns(map))).collect()
    };
    let title = match is_alone {
        true => "Wear of the chip: mean erases of each range of blocks, row by row, first seed".to_string(),
        false => format!("Wear of the chips, first to last block: mean erases of a block, first seed{}", only_some(of)),
    };
    let columns = (1..=columns).map(|at| at.to_string()).collect();
    Some(Item::Heat(Heat { title, quantity: Quantity::Number, by_row: false, columns, rows }))
}

/// The states of segments in which a log-structured file system keeps them, with their names.
const STATES: [(&str, &str); 4] = [
    ("free", "free_segments_over_time"),
    ("free after the next checkpoint", "prefree_segments_over_time"),
    ("partly valid", "dirty_segments_over_time"),
    ("full", "full_segments_over_time"),
];

/// The segments of each stack that has some, by state.
fn segments(of: &Of<'_>) -> Vec<Item> {
    let rows = for_curves(of).into_iter();
    rows.filter_map(|(label, group)| {
        let record = group.records.first()?;
        let layer = record.layers.iter().find(|(_, values)| values.contains_key("over_time_ns"))?.0;
        let times = series(record, layer, "over_time_ns")?;
        let start = times.first().copied()?;
        let curve = |(state, name): &(&str, &str)| {
            let counts = series(record, layer, name)?;
            let point = |at: usize| Some((times.get(at)? - start, *counts.get(at)?));
            Some(Curve { label: (*state).to_string(), points: places(times.len()).filter_map(point).collect() })
        };
        let curves: Vec<Curve> = STATES.iter().filter_map(curve).collect();
        let title = format!("Segments of {label} over time, first seed");
        let plot = Curves { title, x: time(), y: plain("segments"), curves };
        (times.len() > 1 && !plot.curves.is_empty()).then_some(Item::Step(plot))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::html::html;
    use crate::page::{Item, Page, page};
    use crate::testing::{record, well_formed};
    use nandkit_record::{LayerValue, RunRecord};

    fn with(mut record: RunRecord, layer: &str, values: &[(&str, &[f64])]) -> RunRecord {
        let values = values.iter().map(|(name, values)| ((*name).to_string(), LayerValue::series(values.to_vec())));
        record.layers.entry(layer.to_string()).or_default().extend(values);
        record
    }

    fn line<'a>(page: &'a Page, title: &str) -> &'a [(f64, f64)] {
        let items = page.sections.iter().flat_map(|section| &section.items);
        let plots = items.filter_map(|item| match item {
            Item::Line(curves) | Item::Step(curves) => Some(curves),
            _ => None,
        });
        let plot = plots.into_iter().find(|curves| curves.title.starts_with(title));
        &plot.unwrap_or_else(|| panic!("no plot {title}")).curves[0].points
    }

    #[test]
    fn series_of_a_record_become_plots() {
        let timeline: [(&str, &[f64]); 4] = [
            ("at_ns", &[1e6, 2e6, 4e6]),
            ("user_bytes_written", &[4096.0, 8192.0, 8192.0]),
            ("user_bytes_read", &[0.0, 0.0, 2000.0]),
            ("bytes_programmed", &[4096.0, 16_384.0, 20_000.0]),
        ];
        let record = with(record("f2fs | chip", "fax", 1, 2.0), "timeline", &timeline);
        let record = with(record, "wear", &[("erases_by_range", &[1.0; 40])]);
        let record = with(record, "f2fs", &[("over_time_ns", &[5.0, 9.0]), ("free_segments_over_time", &[7.0, 3.0])]);
        let page = page("a", &[record], &[]);
        assert_eq!(line(&page, "Speed over time"), [(1e6, 4.096), (2e6, 4.096), (4e6, 1.0)]);
        // Nothing was written between the last two samples.
        assert_eq!(line(&page, "Write amplification over time"), [(1e6, 1.0), (2e6, 3.0)]);
        assert_eq!(line(&page, "Segments of"), [(0.0, 7.0), (4.0, 3.0)]);
        let heat = page.sections[0].items.iter().find_map(|item| match item {
            Item::Heat(heat) => Some(heat),
            _ => None,
        });
        assert_eq!(heat.map(|heat| heat.rows.iter().map(|row| row.1.len()).collect()), Some(vec![16, 16, 8]));
        well_formed(&html(&page)).unwrap();
    }

    #[test]
    fn long_series_are_thinned() {
        let times: Vec<f64> = (1..=100).map(|at| f64::from(at) * 1e6).collect();
        let written: Vec<f64> = (1..=100).map(|at| f64::from(at * at)).collect();
        let nothing = [0.0; 100];
        let timeline = [("at_ns", &times[..]), ("user_bytes_written", &written), ("user_bytes_read", &nothing)];
        let record = with(record("f2fs | chip", "fax", 1, 2.0), "timeline", &timeline);
        let free = [("over_time_ns", &times[..]), ("free_segments_over_time", &written)];
        let page = page("a", &[with(record, "f2fs", &free)], &[]);
        let speed = line(&page, "Speed over time");
        // Four samples make a point, whose speed is that of all four.
        assert_eq!((speed.len(), speed[24]), (25, (100e6, (10_000.0 - 9_216.0) / 4e6 * 1000.0)));
        let segments = line(&page, "Segments of");
        assert_eq!((segments.len(), segments[24]), (25, (99e6, 10_000.0)));
    }

    #[test]
    fn series_that_do_not_fit_together_are_no_harm() {
        let odd: [(&str, &[f64]); 3] =
            [("at_ns", &[3.0, 1.0]), ("user_bytes_written", &[]), ("user_bytes_read", &[1.0])];
        let record = with(record("f2fs | chip", "fax", 1, 2.0), "timeline", &odd);
        let record = with(record, "wear", &[("erases_by_range", &[])]);
        let record = with(record, "f2fs", &[("over_time_ns", &[])]);
        well_formed(&html(&page("a", &[record], &[]))).unwrap();
    }
}
