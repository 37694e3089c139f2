//! Tables for people: the panels of figure 6, and further ones.
//!
//! A table is JSON with a `title`, `columns` (a `name`; `whole` where a bar stands beside the
//! figure and that is its full length) and `rows`.

use serde_json::{Value, json};

use super::plan::{Cell, MODES, Role};
use super::point::{Point, Readings, View, median};

/// A column without a bar.
fn plain(name: &str) -> Value {
    json!({"name": name})
}

/// A column with bars.
fn bar(name: &str, whole: f64) -> Value {
    json!({"name": name, "whole": whole})
}

fn rounded(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |value| json!((value * 1e3).round() / 1e3))
}

/// A table with a row for each cell.
fn by_cell(title: &str, columns: Vec<Value>, figures: impl Fn(Cell) -> Vec<Option<f64>>) -> Value {
    let head = ["card", "cold %", "warm %"].map(plain);
    let rows = Cell::all().into_iter().map(|cell| {
        let mut row = vec![json!(format!("{:?}", cell.role)), json!(cell.cold), json!(cell.warm)];
        row.extend(figures(cell).into_iter().map(rounded));
        row
    });
    let columns: Vec<Value> = head.into_iter().chain(columns).collect();
    json!({"title": title, "columns": columns, "rows": rows.collect::<Vec<_>>()})
}

/// Figure 6(a).
pub fn speeds(view: View<'_, '_>) -> Value {
    let whole = Cell::all()
        .into_iter()
        .flat_map(|cell| MODES.map(|mode| view.ratio(cell, mode, "ssr").map_or(0.0, |ratio| ratio.mean)))
        .fold(1.0, f64::max);
    let columns = vec![plain("SSR MB/s"), bar("GC", whole), bar("PGC", whole), bar("best choice", whole)];
    by_cell("Figure 6(a): speed by that of SSR", columns, |cell| {
        let by_ssr = MODES[1..].iter().map(|mode| Some(view.ratio(cell, mode, "ssr")?.mean));
        [view.mean(cell, "ssr", Point::speed)].into_iter().chain(by_ssr).collect()
    })
}

/// Figure 6(b).
pub fn shares(view: View<'_, '_>) -> Value {
    let columns = ["Inter %", "Intra %", "SSR %"].map(|name| bar(name, 100.0)).to_vec();
    by_cell("Figure 6(b): runs that PGC moved to the cold log, within their segment, left", columns, |cell| {
        let shares = view.shares(cell);
        (0..3).map(|at| shares.map(|shares| shares[at] * 100.0)).collect()
    })
}

/// PGC compared with the better of SSR and GC, in each reading.
pub fn by_reading(readings: &Readings<'_, '_>) -> Value {
    let columns = readings.iter().map(|(reading, _)| plain(reading.name)).collect();
    by_cell("PGC by the better of SSR and GC, by reading", columns, |cell| {
        readings.iter().map(|(_, view)| by_better(*view, cell)).collect()
    })
}

/// How much faster PGC is than the better of SSR and GC.
pub fn by_better(view: View<'_, '_>, cell: Cell) -> Option<f64> {
    let by = |base| Some(view.ratio(cell, "pgc", base)?.mean);
    Some(by("ssr")?.min(by("gc")?))
}

/// PGC beside the best choice for a whole segment.
pub fn best_choice(view: View<'_, '_>) -> Value {
    let columns = ["PGC: ms expected", "best choice", "PGC: MB/s", "best choice: MB/s", "best choice by PGC"];
    by_cell(
        "A segment that was looked at, as the model expects, and the speed of the whole run",
        columns.map(plain).to_vec(),
        |cell| {
            vec![
                view.mean(cell, "pgc", Point::expected_ms),
                view.mean(cell, "pgc-optimal", Point::expected_ms),
                view.mean(cell, "pgc", Point::speed),
                view.mean(cell, "pgc-optimal", Point::speed),
                view.ratio(cell, "pgc-optimal", "pgc").map(|ratio| ratio.mean),
            ]
        },
    )
}

/// The times of treated segments by what was expected, of all of a card's cells: those of one seed,
/// or of all.
pub fn ratios(view: View<'_, '_>, role: Role, seed: Option<u64>) -> Vec<f64> {
    let of_role = |point: &&Point<'_>| point.cell.role == role && point.mode == "pgc";
    let points = view.0.iter().filter(of_role).filter(|point| seed.is_none_or(|seed| point.record.seed == seed));
    points.flat_map(|point| point.ratios().iter().copied()).collect()
}

/// The median distance of treated segments' times from what was expected, by card and seed.
pub fn model(view: View<'_, '_>) -> Value {
    let mut seeds: Vec<u64> = view.0.iter().map(|point| point.record.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let error = |role, seed| {
        let mut errors: Vec<f64> = ratios(view, role, seed).iter().map(|ratio| (ratio - 1.0).abs() * 100.0).collect();
        rounded(median(&mut errors))
    };
    let rows = Role::ALL.map(|role| {
        let mut all = ratios(view, role, None);
        let mut row = vec![json!(format!("{role:?}")), json!(all.len()), rounded(median(&mut all)), error(role, None)];
        row.extend(seeds.iter().map(|seed| error(role, Some(*seed))));
        row
    });
    let columns = ["card", "treated segments", "time by expected, median", "error %, median"].map(plain);
    let of_seeds = seeds.iter().map(|seed| plain(&format!("seed {seed}")));
    let columns: Vec<Value> = columns.into_iter().chain(of_seeds).collect();
    json!({"title": "Treated segments: simulated time by that of the model", "columns": columns, "rows": rows})
}
