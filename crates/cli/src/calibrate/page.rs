//! The page of a calibration.

use nandkit_lab::calibrate::{Calibration, Direction, MeasuredOpenUnits, RequestTime, StreamTime};
use nandkit_report::page::{Axis, Bar, Bars, Cell, Column, Curve, Curves, Item, Page, Quantity, Section, Table};
use nandkit_units::format_bytes;
use serde_json::json;

use super::show::PLACINGS;

const DIRECTIONS: [(Direction, &str); 2] = [(Direction::Read, "Reads"), (Direction::Write, "Writes")];

/// Speeds and times by size of request, and what tells how many units are open.
pub fn page(title: &str, calibration: &Calibration) -> Page {
    let unit = calibration.unit;
    let told = if unit.is_told { "" } else { ", which is an assumption (--unit says another)" };
    let capacity = format_bytes(calibration.shape.capacity);
    let lead = vec![
        format!("{title}: {capacity} in units of {}{told}.", format_bytes(unit.bytes)),
        "Speeds are of the mean time of a request; times are medians.".to_string(),
    ];
    let sections = DIRECTIONS.iter().filter_map(|(direction, name)| section(calibration, *direction, name));
    let units = calibration.open_units.as_ref().map(open_units);
    let data = json!(calibration).to_string();
    Page {
        title: "A device's times by size of request".to_string(),
        lead,
        sections: sections.chain(units).collect(),
        data,
    }
}

fn section(calibration: &Calibration, direction: Direction, name: &str) -> Option<Section> {
    let points = |placing| calibration.series(direction, placing).map_or(&[][..], |series| &series.points);
    if PLACINGS.iter().all(|(placing, _)| points(*placing).is_empty()) {
        return None;
    }
    let plot = |title: String, y: Axis, value: fn(&RequestTime) -> f64| {
        let curve = |(placing, label): &(_, &str)| Curve {
            label: (*label).to_string(),
            points: points(*placing).iter().map(|point| (point.bytes as f64 / 1024.0, value(point))).collect(),
        };
        let x = Axis { label: "KiB of a request".to_string(), is_log: true, ..Axis::default() };
        let curves = PLACINGS.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
        Item::Line(Curves { title, x, y, curves })
    };
    let speed = Axis { label: "MB/s".to_string(), is_log: true, ..Axis::default() };
    let time = Axis { label: "median".to_string(), quantity: Quantity::Nanoseconds, is_log: true, ..Axis::default() };
    let speeds = plot(format!("{name}: speed by size"), speed, |point| point.bytes_per_s() / 1e6);
    let times = plot(format!("{name}: time of a request by size"), time, |point| point.median_ns as f64);
    let columns = ["where", "bytes", "MB/s", "quarter at most", "median", "three quarters at most"];
    let row = |place: &str, point: &RequestTime| {
        let ns = |ns: u64| Cell::number(Some(ns as f64), Quantity::Nanoseconds);
        let number = |value: f64| Cell::number(Some(value), Quantity::Number);
        let speed = (point.bytes_per_s() / 1e3).round() / 1e3;
        let times = [ns(point.q1_ns), ns(point.median_ns), ns(point.q3_ns)];
        [Cell::text(place), number(point.bytes as f64), number(speed)].into_iter().chain(times).collect()
    };
    let rows = PLACINGS.iter().flat_map(|(placing, place)| points(*placing).iter().map(move |point| row(place, point)));
    let columns = columns.iter().enumerate();
    let columns = columns.map(|(at, head)| Column { head: (*head).to_string(), is_number: at > 0 }).collect();
    let table = Table { title: format!("{name}, all sizes"), columns, rows: rows.collect() };
    Some(Section { title: name.to_string(), items: vec![speeds, times, Item::Table(table)] })
}

fn open_units(open: &MeasuredOpenUnits) -> Section {
    let bar = |time: &StreamTime| Bar {
        label: format!("{} streams", time.streams),
        value: time.median_ns as f64 / 1e3,
        ..Bar::default()
    };
    let count = if open.is_exact { open.count.to_string() } else { format!("at least {}", open.count) };
    let title = format!("Time of a write of {}, each stream in a unit of its own", format_bytes(open.piece));
    let bars = Bars { title, unit: "us".to_string(), bars: open.times.iter().map(bar).collect() };
    Section { title: format!("Units that are open at once: {count}"), items: vec![Item::Bars(bars)] }
}
