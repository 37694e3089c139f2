//! Verdicts on made-up records: a set on which each claim holds, and changes by which each fails.

use std::collections::BTreeMap;

use nandkit_record::{Figures, LayerValue, RunRecord};
use serde_json::json;

use super::plan::{Cell, LFS, MODES, READINGS, Reading, Role, Scale, at_random, batched, cells};
use super::{CLAIMS, Runs, judge};
use crate::testing::only;

/// What a made-up run gives: its speed; runs to the cold log, within the segment, left; segments
/// left for their checkpoint; the time of treated segments by what was expected; the milliseconds
/// expected of a segment.
#[derive(Clone, Copy)]
struct Given {
    speed: f64,
    runs: [u64; 3],
    dear: u64,
    ratio: f64,
    expected_ms: u64,
}

fn record(reading: &Reading, cell: Cell, mode: &str, seed: u64, given: Given) -> RunRecord {
    // Seeds differ, the ratios of each do not.
    let speed = given.speed * (1.0 + seed as f64 / 100.0);
    let (share, cold) = if cell.cold == 0 { (0.0, 0.7) } else { (0.4, f64::from(cell.cold) / 100.0) };
    let is_lfs = mode == LFS;
    let reuse = batched(if is_lfs { "ssr" } else { mode }, reading.batch);
    let spec = json!({
        "stack": {
            "device": {"preset": reading.cards[cell.role as usize]},
            "fs": {"kind": "f2fs", "mode": if is_lfs { "lfs" } else { "adaptive" }, "reuse": reuse},
        },
        "workload": {
            "kind": "holes", "warm_valid": f64::from(cell.warm) / 100.0, "cold_valid": cold, "cold_share": share,
        },
    });
    let counts = [
        ("inter_runs", given.runs[0]),
        ("intra_runs", given.runs[1]),
        ("left_runs", given.runs[2]),
        ("left_for_checkpoint_segments", given.dear),
        ("reviewed_segments", 10),
        ("treated_segments", 10),
        ("treated_expected_ns", given.expected_ms * 10_000_000),
    ];
    let mut reuse: BTreeMap<String, LayerValue> =
        counts.into_iter().map(|(name, count)| (name.to_string(), LayerValue::Count(count))).collect();
    reuse.insert("treated_by_expected".into(), LayerValue::Series([vec![9.0; 20], vec![given.ratio; 10]].concat()));
    RunRecord {
        spec,
        workload: "holes".into(),
        figures: Figures { write_mb_per_s: Some(speed), elapsed_ns: 1_000_000_000, ..Figures::default() },
        layers: BTreeMap::from([("reuse".to_string(), reuse)]),
        ..crate::testing::record(seed)
    }
}

/// What the paper found.
fn as_the_paper(cell: Cell, mode: &str) -> Given {
    let warm = f64::from(cell.warm);
    let ssr = 10.0 - warm / 20.0;
    let gc = match (cell.role, cell.cold) {
        (Role::A, 0) => 3.9,
        (Role::B, 0) => 9.0,
        (Role::C, 0) => 20.0,
        (Role::A, _) => 3.0,
        _ => 4.0,
    };
    let (pgc, runs) = match (cell.role, cell.cold, cell.warm) {
        (Role::A, 0, 50 | 70) => (ssr * 1.01, [5, 0, 95]),
        (Role::B | Role::C, 0, _) => (gc, [95, 2, 3]),
        (Role::C, _, 70) => (ssr * 1.02, [20, 20, 60]),
        (Role::C, ..) => (ssr * (1.5 - warm / 200.0), [1, 80, 19]),
        _ => (ssr, [0, 0, 100]),
    };
    let speed = match mode {
        "ssr" => ssr,
        "gc" | LFS => gc,
        _ => pgc,
    };
    Given { speed, runs, dear: 5, ratio: 1.01, expected_ms: if mode == "pgc" { 110 } else { 100 } }
}

fn made(reading: &Reading, given: impl Fn(Cell, &str) -> Given) -> Vec<RunRecord> {
    let mut records = Vec::new();
    for cell in Cell::all() {
        for mode in MODES.into_iter().chain([LFS]) {
            records.extend([1, 2].map(|seed| record(reading, cell, mode, seed, given(cell, mode))));
        }
    }
    records
}

fn runs(given: impl Fn(Cell, &str) -> Given) -> Runs {
    let first = made(&READINGS[0], given);
    let others = READINGS[1..].iter().map(|reading| made(reading, as_the_paper));
    Runs { readings: [first].into_iter().chain(others).collect(), at_random: made(&READINGS[0], as_the_paper) }
}

#[track_caller]
fn verdict(claim: &str, runs: &Runs) -> (bool, String) {
    only(claim, judge(runs, &|id| id == claim))
}

/// The paper's runs, but for those of a mode in the cells that are chosen.
#[track_caller]
fn fails(claim: &str, of: fn(Cell) -> bool, with: &str, change: fn(&mut Given), because: &str) {
    let given = |cell: Cell, mode: &str| {
        let mut given = as_the_paper(cell, mode);
        if of(cell) && mode == with {
            change(&mut given);
        }
        given
    };
    let (holds, note) = verdict(claim, &runs(given));
    assert!(!holds && note.contains("Does not hold") && note.contains(because), "{claim}: {note}");
}

#[test]
fn everything_holds_where_runs_are_as_the_paper_says() {
    for claim in CLAIMS {
        let (holds, note) = verdict(claim, &runs(as_the_paper));
        assert!(holds && note.contains("checks hold"), "{claim}: {note}");
    }
}

#[test]
fn nothing_holds_without_records() {
    for claim in CLAIMS {
        let (holds, note) = verdict(claim, &Runs::default());
        assert!(!holds && note.contains("not measured"), "{claim}: {note}");
    }
}

#[test]
fn each_check_can_fail() {
    let is_a = |cell: Cell| cell.role == Role::A;
    let is_c = |cell: Cell| cell.role == Role::C;
    let free_c = |cell: Cell| cell.role == Role::C && cell.cold == 0;
    let dirty_c = |cell: Cell| cell.role == Role::C && cell.cold == 70;
    fails(
        "P1.1",
        free_c,
        "pgc",
        |given| given.speed = 18.0,
        "C cold 0 warm 30: PGC by the better of SSR and GC (ours 0.9",
    );
    fails("P1.2", free_c, "pgc", |given| given.speed = 10.0, "PGC's best by SSR");
    fails("P1.2", is_a, "pgc", |given| given.speed = 90.0, "the best of all cells");
    fails("P1.3", is_a, "pgc", |given| given.speed = 90.0, "mean gain of B by that of A");
    fails("P1.3", is_c, "pgc", |given| given.speed = 1.0, "mean gain of C by that of B");
    fails("P1.3", is_a, "pgc", |given| given.speed *= 1.1, "A cold 0 warm 30: gain");
    fails("P1.3", is_a, "pgc", |given| given.runs = [30, 0, 70], "A cold 70 warm 70: runs left");
    fails("P1.3", free_c, "pgc", |given| given.runs = [30, 0, 70], "C cold 0 warm 50: runs left");
    fails("P1.4", is_a, "ssr", |given| given.speed = 5.0, "A: SSR falls");
    fails("P1.4", |cell| cell.warm == 70, "gc", |given| given.speed /= 1.2, "B: GC, fastest by slowest");
    fails("P1.4", |cell| cell.warm == 70, "pgc", |given| given.speed /= 1.2, "C: PGC, fastest by slowest");
    fails("P1.4", |cell| cell.warm == 70, "pgc", |given| given.speed /= 2.0, "C: the gain grows");
    fails("P1.4", free_c, "pgc", |given| given.runs = [50, 50, 0], "C cold 0 warm 30: Inter-GC of what moved");
    fails("P1.5", dirty_c, "pgc", |given| given.runs = [30, 30, 40], "C cold 70 warm 50: Intra-GC of what moved");
    fails("P1.5", dirty_c, "pgc", |given| given.runs = [0, 100, 0], "C cold 70 warm 30: runs left");
    fails("P1.5", |cell| cell.warm == 30, "pgc", |given| given.speed /= 2.0, "C: the gain grows as");
    fails("P1.5", dirty_c, "pgc", |given| given.speed = 50.0, "C: gains by those with free cold segments");
    fails(
        "P1.5",
        |cell| cell.role < Role::C,
        "pgc",
        |given| given.runs = [9, 9, 82],
        "only SSR is used, of nine (ours 0",
    );
    fails("P1.5", dirty_c, "pgc", |given| given.runs = [0, 90, 10], "the rarer of");
    fails("P1.5", is_a, "pgc", |given| given.runs = [9, 9, 82], "A cold 70 warm 70: runs left");
    fails("P1.6", is_a, "pgc", |given| given.runs = [5, 0, 95], "A cold 0 warm 30: runs left");
    fails("P1.6", is_a, "pgc", |given| given.dear = 0, "the checkpoint is dearer");
    fails("P1.6", is_a, "pgc", |given| given.runs = [0, 0, 100], "A cold 0 warm 70: runs moved");
    fails("P1.7", is_a, "gc", |given| given.speed = 8.0, "the greater of free and dirty cold segments (ours 1.0");
    fails("P1.8", |_| true, "gc", |given| given.speed *= 1.2, "gc: random by sequential writes");
    fails("P1.F", is_c, "pgc", |given| given.ratio = 1.06, "C: the model's error");
    fails("P1.F", free_c, "pgc-optimal", |given| given.expected_ms = 130, "the worst cell (ours 1.18");
}

/// The verdict is the first reading's; the others stand beside it, and the cause names its cells.
#[test]
fn the_note_tells_what_other_readings_give() {
    let faster = |cell: Cell, mode: &str| {
        let mut given = as_the_paper(cell, mode);
        if cell.role == Role::C && mode == "gc" {
            given.speed *= 1.5;
        }
        given
    };
    let (holds, note) = verdict("P1.1", &runs(faster));
    let others = "\"eight segments for a checkpoint\": 18 of 18";
    assert!(!holds && note.contains(others) && note.contains("C cold 0 warm 70: GC 10 segments"), "{note}");
    let (_, note) = verdict("P1.7", &runs(as_the_paper));
    assert!(note.contains("\"other cards\" 2.18 and 2.83"), "{note}");
}

#[test]
fn the_panels_of_the_figure_are_tables() {
    let claims = judge(&runs(as_the_paper), &|_| true);
    let tables: Vec<_> =
        claims.iter().flat_map(|claim| claim.measured["tables"].as_array().cloned().unwrap_or_default()).collect();
    let titles: Vec<_> = tables.iter().filter_map(|table| table["title"].as_str()).collect();
    assert!(
        titles.len() == 5 && titles[0].starts_with("Figure 6(a)") && titles[2].starts_with("Figure 6(b)"),
        "{titles:?}"
    );
    assert_eq!(tables[0]["rows"][12], json!(["C", 0, 30, 8.628, 2.353, 2.353, 2.353]));
    assert_eq!(tables[2]["rows"][12], json!(["C", 0, 30, 95.0, 2.0, 3.0]));
    for table in &tables {
        let columns = table["columns"].as_array().expect("columns").len();
        let rows = table["rows"].as_array().expect("rows");
        assert!(rows.iter().all(|row| row.as_array().is_some_and(|row| row.len() == columns)), "{table}");
    }
}

/// Every run that is planned is one that the stack takes, and each is found again among records.
#[test]
fn the_plan_can_be_run() {
    let scale = Scale::new(false);
    for reading in &READINGS {
        for run in cells(&scale, reading).unwrap().iter().flat_map(|experiment| experiment.runs()) {
            run.check().unwrap();
            let spec = run.to_json();
            assert_eq!(spec["stack"]["device"]["geometry"]["capacity"], 512 << 20);
            let mut made = record(reading, Cell::all()[0], "ssr", run.seed, as_the_paper(Cell::all()[0], "ssr"));
            made.spec = spec;
            let points = super::point::read(std::slice::from_ref(&made), reading);
            assert!(points.len() == 1 && Cell::all().contains(&points[0].cell), "{}", made.spec);
        }
    }
    assert!(at_random().unwrap().runs().iter().all(|run| run.check().is_ok()));
    assert_eq!(Scale::new(true).readings().len(), 1);
}
