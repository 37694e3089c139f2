//! All cleaners on all devices under all mixes, as one table.

use std::collections::BTreeMap;

use nandkit_record::RunRecord;
use serde_json::{Value, json};

use super::super::Claim;
use super::super::check::{self, Check, Judged, Stated, judge_in};
use super::Runs;
use super::plan::{CLEANERS, Cleaner, DEVICES, Scale, UNIFIED, mixes};
use super::point::speed;
use super::verdict::{rounded, table};

/// A mode at most this fraction slower than the best other counts as no worse.
const NO_WORSE: f64 = 0.03;
/// Cells that are named in the note.
const NAMED: usize = 12;

/// The whole table.
#[derive(Clone, Copy)]
struct Whole;

impl Judged for Whole {
    const KIND: &'static str = "table";

    fn name(&self) -> String {
        "all cells".to_string()
    }
}

/// One device under one mix: the speed of each cleaner that could be run.
struct Cell {
    device: &'static str,
    mix: String,
    speeds: Vec<Option<f64>>,
}

fn run_of<'a>(records: &'a [RunRecord], device: &str, cleaner: &Cleaner, workload: &str) -> Option<&'a RunRecord> {
    let is =
        |record: &RunRecord, path: &str, value: &str| record.spec.pointer(path).and_then(Value::as_str) == Some(value);
    records.iter().find(|record| {
        is(record, "/stack/device/preset", device)
            && is(record, "/stack/fs/reuse", cleaner.reuse(device))
            && is(record, "/stack/fs/mover", cleaner.mover.name())
            && record.workload == workload
    })
}

impl Cell {
    fn of(runs: &Runs, device: &'static str, (mix, text): &(String, String)) -> Self {
        let workload = text.parse::<nandkit_workload::WorkloadSpec>().map(|spec| spec.to_string()).unwrap_or_default();
        let speed = |cleaner| run_of(&runs.matrix, device, cleaner, &workload).map(speed);
        Self { device, mix: mix.clone(), speeds: CLEANERS.iter().map(speed).collect() }
    }

    /// The speed of the cleaner that weighs all ways, divided by that of the best other cleaner,
    /// and the name of that cleaner.
    fn unified(&self) -> Option<(f64, &'static str)> {
        let named = || CLEANERS.iter().zip(&self.speeds).filter_map(|(cleaner, speed)| Some((cleaner.name, (*speed)?)));
        let unified = named().find(|(name, _)| *name == UNIFIED)?.1;
        let best = named().filter(|(name, _)| *name != UNIFIED).reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        (best.1 > 0.0).then_some((unified / best.1, best.0))
    }

    fn name(&self) -> String {
        format!("{}, {}", self.device, self.mix)
    }

    fn row(&self) -> Vec<Value> {
        let speeds = CLEANERS.iter().zip(&self.speeds).map(|(cleaner, speed)| match speed {
            None if !cleaner.is_possible(self.device) => json!("cannot remap"),
            speed => rounded(*speed),
        });
        let (ratio, best) =
            self.unified().map_or((Value::Null, Value::Null), |(x, best)| (rounded(Some(x)), json!(best)));
        [json!(self.device), json!(self.mix)].into_iter().chain(speeds).chain([best, ratio]).collect()
    }
}

/// P3.M.
pub fn compared(runs: &Runs) -> Claim {
    let mixes = mixes(Scale::new(runs.quick));
    let cells = DEVICES.into_iter().flat_map(|device| mixes.iter().map(move |mix| (device, mix)));
    let cells: Vec<Cell> = cells.map(|(device, mix)| Cell::of(runs, device, mix)).collect();
    let ratios: Vec<(f64, &Cell, &str)> =
        cells.iter().filter_map(|cell| cell.unified().map(|(ratio, best)| (ratio, cell, best))).collect();
    let count = |is: fn(f64) -> bool| {
        (!ratios.is_empty()).then(|| ratios.iter().filter(|(ratio, ..)| is(*ratio)).count() as f64)
    };
    let checks = |_: &Whole| {
        vec![
            Check::new(
                "cells in which unified is more than 3 % slower than the best of the others",
                count(|x| x < 1.0 - NO_WORSE),
                |x| x < 1.0,
            ),
            Check::new("cells in which it is faster than all others", count(|x| x > 1.0), |x| x >= 1.0),
        ]
    };
    let stated = Stated {
        id: "P3.M",
        text: "Beyond the paper: the cleaner that weighs all ways is in no cell more than 3 % slower than the best of the others, and in some faster",
        paper: json!(null),
    };
    let names = CLEANERS.iter().map(|cleaner| cleaner.name);
    let columns: Vec<&str> =
        ["device", "mix"].into_iter().chain(names).chain(["best of others", "unified by it"]).collect();
    let title = "User MB/s while each cleaner works";
    let rows = cells.iter().filter(|cell| cell.speeds.iter().any(Option::is_some)).map(Cell::row).collect();
    let tables = Value::from(vec![table(title, &columns, rows)]);
    check::claim(stated, &judge_in(vec![Whole], checks), ("tables", tables), &exceptions(&ratios))
}

/// Names the cells in which the cleaner that weighs all ways is slower, the worst first, and says
/// how often each other cleaner beats it.
fn exceptions(ratios: &[(f64, &Cell, &str)]) -> String {
    let mut slower: Vec<_> = ratios.iter().filter(|(ratio, ..)| *ratio < 1.0 - NO_WORSE).collect();
    slower.sort_by(|a, b| a.0.total_cmp(&b.0));
    let named: Vec<String> = slower
        .iter()
        .take(NAMED)
        .map(|(ratio, cell, best)| format!("{} ({ratio:.2} of {best})", cell.name()))
        .collect();
    let mut by: BTreeMap<&str, u32> = BTreeMap::new();
    slower.iter().for_each(|(_, _, best)| *by.entry(best).or_default() += 1);
    let by: Vec<String> = by.into_iter().map(|(best, cells)| format!("{best} in {cells}")).collect();
    match named.as_slice() {
        [] => String::new(),
        named => format!(
            "Slower in {} of {} cells, than {}: {}.",
            slower.len(),
            ratios.len(),
            by.join(", "),
            named.join("; ")
        ),
    }
}
