//! What was measured, for people.

use nandkit_lab::calibrate::{Calibration, Direction, MeasuredOpenUnits, Placing, RequestTime};
use nandkit_report::{Align, Style, Table};
use nandkit_units::{Nanos, format_bytes};

/// Cells of a bar.
const BAR_WIDTH: usize = 12;
pub const PLACINGS: [(Placing, &str); 3] =
    [(Placing::Sequential, "sequential"), (Placing::InUnit, "in one unit"), (Placing::Spread, "anywhere")];

/// The whole report.
pub fn text(title: &str, calibration: &Calibration, style: Style) -> String {
    let unit = calibration.unit;
    let told = if unit.is_told { "" } else { " (an assumption: --unit says another)" };
    let capacity = format_bytes(calibration.shape.capacity);
    let mut text = format!("{title}: {capacity} in units of {}{told}\n", format_bytes(unit.bytes));
    if let Some(open) = &calibration.open_units {
        text += &format!("\n{}", open_units(open, style));
        let closing = match calibration.merge_ns {
            0 => "closing a unit costs nothing that writes show".to_string(),
            merge_ns => format!("closing a whole unit: {}", Nanos(merge_ns)),
        };
        text += &format!("{closing}\n");
    }
    for (direction, name) in [(Direction::Read, "read"), (Direction::Write, "write")] {
        let tables = curves(calibration, direction, name, style);
        for table in tables.iter().filter(|table| !table.is_empty()) {
            text += &format!("\n{}", table.text());
        }
    }
    text + "\nspeeds of the mean time of a request; times are medians, with the quartiles where they differ\n"
}

fn open_units(open: &MeasuredOpenUnits, style: Style) -> String {
    let what = match open.is_exact {
        true => format!("{} units open", style.strong(&open.count.to_string())),
        false => format!("at least {} units open: no step was seen", style.strong(&open.count.to_string())),
    };
    let mut table = Table::new([("streams", Align::Right), ("time of a write", Align::Right), ("", Align::Left)]);
    let whole = open.times.iter().map(|time| time.median_ns).max().unwrap_or(0) as f64;
    for time in &open.times {
        let bar = style.bar(time.median_ns as f64, whole, 2 * BAR_WIDTH);
        table.row([time.streams.to_string(), Nanos(time.median_ns).to_string(), bar]);
    }
    format!("{what} (writes of {}, each stream in a unit of its own)\n{}", format_bytes(open.piece), table.text())
}

/// Two tables: speeds with bars, and times with quartiles.
fn curves(calibration: &Calibration, direction: Direction, name: &str, style: Style) -> [Table; 2] {
    let mut speed_columns = vec![(name.to_string(), Align::Right)];
    let mut time_columns = speed_columns.clone();
    for (_, placing) in PLACINGS {
        speed_columns.extend([(format!("{placing} MB/s"), Align::Right), (String::new(), Align::Left)]);
        time_columns.extend([(placing.to_string(), Align::Right), (String::new(), Align::Left)]);
    }
    let (mut speeds, mut times) = (Table::new(speed_columns), Table::new(time_columns));
    let points = |placing| calibration.series(direction, placing).map_or(&[][..], |series| &series.points);
    let all = || PLACINGS.into_iter().flat_map(|(placing, _)| points(placing));
    let whole = all().map(RequestTime::bytes_per_s).fold(0.0, f64::max);
    let mut sizes: Vec<u64> = all().map(|point| point.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let (mut speed_row, mut time_row) = (vec![format_bytes(bytes)], vec![format_bytes(bytes)]);
        for (placing, _) in PLACINGS {
            let point = points(placing).iter().find(|point| point.bytes == bytes);
            let empty = || [String::new(), String::new()];
            speed_row.extend(point.map_or_else(empty, |point| speed_cells(point, whole, style)));
            time_row.extend(point.map_or_else(empty, time_cells));
        }
        speeds.row(speed_row);
        times.row(time_row);
    }
    [speeds, times]
}

fn speed_cells(point: &RequestTime, whole: f64, style: Style) -> [String; 2] {
    let speed = point.bytes_per_s();
    let digits = if speed < 1e6 { 3 } else { 1 };
    [format!("{:.digits$}", speed / 1e6), style.bar(speed, whole, BAR_WIDTH)]
}

fn time_cells(point: &RequestTime) -> [String; 2] {
    let quartiles = match point.q1_ns == point.q3_ns {
        true => String::new(),
        false => format!("({}, {})", Nanos(point.q1_ns), Nanos(point.q3_ns)),
    };
    [Nanos(point.median_ns).to_string(), quartiles]
}
