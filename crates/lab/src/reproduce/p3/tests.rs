//! Verdicts on made-up records of the runs that are planned: a set on which each claim holds, and
//! changes by which each fails. Then small runs of what no workload has.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_record::{Figures, LayerValue, RunRecord};
use nandkit_workload::{HostInputs, NoInputs};
use serde_json::Value;

use super::archive::{Archive, phase};
use super::files::Files;
use super::fragments::{Fragments, Shape};
use super::plan::{self, CLEANING, Scale, UNIFIED};
use super::{CLAIMS, Runs, judge};
use crate::RunSpec;
use crate::job::{Inside, Job};
use crate::testing::only;

fn record(spec: Value, workload: String) -> RunRecord {
    RunRecord { spec, workload, ..crate::testing::record(1) }
}

fn text<'a>(record: &'a RunRecord, path: &str) -> &'a str {
    record.spec.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(record: &RunRecord, path: &str) -> u64 {
    record.spec.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// qtar as the paper has it: 3.4 times at a page, 2.4 for the tree, no gain for large files.
fn packed(archive: &Archive) -> RunRecord {
    let mut record = record(archive.spec(), "archive".into());
    let gain = match &archive.files {
        Files::Even { size: 4096, .. } => 3.4,
        Files::Even { size, .. } if *size <= 1 << 20 => 1.5,
        Files::Even { .. } => 0.97,
        Files::Linux { .. } | Files::Directory { .. } => 2.4,
    };
    for (way, time) in [("tar", 1e9 * gain), ("qtar", 1e9)] {
        for with_host in [false, true] {
            let figures = Figures { elapsed_ns: time as u64, ..Figures::default() };
            record.phases.insert(phase(way, with_host), figures);
        }
    }
    record
}

fn in_pieces(planned: &Fragments) -> RunRecord {
    let mut record = record(planned.spec(), "fragments".into());
    let (sorted, gathers) =
        (text(&record, "/stack/fs/mover") == "remap-sorted", number(&record, "/stack/fs/gather") > 0);
    let shape = planned.shape;
    let (fragments, speeds) = match shape.writers {
        9 if sorted => ([51_167.0, 828.0], [100.0, 210.0]),
        1 => ([1.0, 1.0], [215.0, 215.0]),
        512 | 513 if gathers => ([1000.0, 30.0], [50.0, 100.0]),
        _ => ([1000.0, 1000.0], [(shape.piece as f64).sqrt(), 1.0]),
    };
    let series = [("fragments", fragments), ("read_mb_per_s", speeds)];
    let series = series.map(|(name, series)| (name.to_string(), LayerValue::series(series.to_vec())));
    record.layers.insert("fragments".into(), BTreeMap::from(series));
    record
}

fn written(run: &RunSpec) -> RunRecord {
    let mut record = record(run.to_json(), run.workload.to_string());
    let gains = ["copyfiles", "tiobench"].iter().any(|name| text(&record, "/workload/then").starts_with(name));
    let remaps = text(&record, "/stack/fs/mover").starts_with("remap");
    let (speed, waf, erases) = match (gains, remaps) {
        (true, true) => (21.0, 1.2, 120),
        (true, false) => (10.0, 2.0, 200),
        _ => (10.0, 1.1, 110),
    };
    let unified = text(&record, "/stack/fs/reuse") == UNIFIED;
    record.figures.write_mb_per_s = Some(if unified { 22.0 } else { speed });
    (record.figures.waf, record.figures.erases, record.figures.user_bytes_written) = (Some(waf), erases, 1 << 20);
    let moved = if gains { 2560 } else { 100 };
    let counts = [("foreground_sections", 10), ("foreground_moved_data_blocks", moved)];
    let counts = counts.map(|(name, count)| (name.to_string(), LayerValue::Count(count)));
    record.layers.insert("fs".into(), BTreeMap::from(counts));
    record
}

fn runs_of(experiments: &[crate::Experiment]) -> Vec<RunRecord> {
    experiments.iter().flat_map(crate::Experiment::runs).map(written).collect()
}

/// What the paper found, in the runs that are planned.
fn as_the_paper() -> Runs {
    let scale = Scale::new(false);
    let fragments = [plan::defragmentation(scale), plan::pieces(scale), plan::gathering(scale)];
    Runs {
        quick: false,
        archives: plan::archives(scale, &[], &NoInputs).unwrap().iter().map(packed).collect(),
        fragments: fragments.into_iter().flat_map(Result::unwrap).map(|planned| in_pieces(&planned)).collect(),
        dies: plan::dies().unwrap().iter().map(|planned| record(planned.spec(), "dies".into())).collect(),
        cleaning: runs_of(&plan::cleaning(scale).unwrap()),
        matrix: runs_of(&plan::matrix(scale).unwrap()),
    }
}

#[track_caller]
fn verdict(claim: &str, runs: &Runs) -> (bool, String) {
    only(claim, judge(runs, &|id| id == claim))
}

#[track_caller]
fn fails(claim: &str, change: impl FnOnce(&mut Runs), because: &str) {
    let mut runs = as_the_paper();
    change(&mut runs);
    let (holds, note) = verdict(claim, &runs);
    assert!(!holds && note.contains("Does not hold") && note.contains(because), "{claim}: {note}");
}

#[test]
fn everything_holds_where_runs_are_as_the_paper_says() {
    let runs = as_the_paper();
    for claim in judge(&runs, &|_| true) {
        assert!(claim.holds && claim.note.contains("checks hold"), "{}: {}", claim.claim, claim.note);
        for table in claim.measured["tables"].as_array().unwrap() {
            let columns = table["columns"].as_array().unwrap().len();
            let rows = table["rows"].as_array().unwrap();
            assert!(!rows.is_empty() && rows.iter().all(|row| row.as_array().unwrap().len() == columns), "{table}");
        }
    }
}

#[test]
fn nothing_holds_without_records() {
    for claim in CLAIMS {
        let (holds, note) = verdict(claim, &Runs::default());
        assert!(!holds && note.contains("not measured"), "{claim}: {note}");
    }
}

/// Changes the records for which this holds.
fn where_it_is(records: &mut [RunRecord], is: impl Fn(&RunRecord) -> bool, change: impl Fn(&mut RunRecord)) {
    let changed = records.iter_mut().filter(|record| is(record)).map(change).count();
    assert!(changed > 0, "none is changed");
}

fn set_series(record: &mut RunRecord, name: &str, series: [f64; 2]) {
    record.layers.get_mut("fragments").unwrap().insert(name.into(), LayerValue::series(series.to_vec()));
}

fn slow_qtar(record: &mut RunRecord) {
    record.phases.values_mut().for_each(|figures| figures.elapsed_ns = 1);
}

#[test]
fn each_claim_can_fail() {
    let of_size = |size: u64| move |record: &RunRecord| number(record, "/workload/size") == size;
    fails("P3.1", |runs| where_it_is(&mut runs.archives, of_size(1 << 20), slow_qtar), "1 MiB: qtar by tar (ours 1.0");
    fails("P3.1", |runs| where_it_is(&mut runs.archives, of_size(4096), slow_qtar), "4 KiB: the gain");
    let is_tree = |record: &RunRecord| text(record, "/workload/files") == "linux";
    fails("P3.2", |runs| where_it_is(&mut runs.archives, is_tree, slow_qtar), "Linux's shape: qtar by tar");
    let is = |workload: &'static str, mover: &'static str| {
        move |record: &RunRecord| {
            text(record, "/workload/then").starts_with(workload) && text(record, "/stack/fs/mover") == mover
        }
    };
    let faster = |record: &mut RunRecord| record.figures.write_mb_per_s = Some(20.0);
    fails("P3.3", |runs| where_it_is(&mut runs.cleaning, is("tiobench", "copy"), faster), "tiobench: remap by copy");
    fails("P3.3", |runs| where_it_is(&mut runs.cleaning, is("dbench", "copy"), faster), "dbench: remap by copy");
    let moves = |record: &mut RunRecord| {
        record.layers.get_mut("fs").unwrap().insert("foreground_moved_data_blocks".into(), LayerValue::Count(2000));
    };
    fails("P3.3", |runs| where_it_is(&mut runs.cleaning, is("varmail", "copy"), moves), "varmail: valid share");
    let wears = |record: &mut RunRecord| (record.figures.waf, record.figures.erases) = (Some(2.5), 250);
    fails("P3.6", |runs| where_it_is(&mut runs.cleaning, is("copyfiles", "remap-sorted"), wears), "copyfiles: erases");
    let writers = |writers: u64, mover: &'static str| {
        move |record: &RunRecord| {
            number(record, "/workload/writers") == writers && text(record, "/stack/fs/mover") == mover
        }
    };
    let stays = |record: &mut RunRecord| set_series(record, "fragments", [1000.0, 1000.0]);
    let falls = |record: &mut RunRecord| set_series(record, "fragments", [1000.0, 10.0]);
    let as_slow = |record: &mut RunRecord| set_series(record, "read_mb_per_s", [100.0, 100.0]);
    fails("P3.4", |runs| where_it_is(&mut runs.fragments, writers(9, "remap-sorted"), stays), "fragments at the end");
    fails("P3.4", |runs| where_it_is(&mut runs.fragments, writers(9, "remap-sorted"), as_slow), "never fragmented");
    fails("P3.4", |runs| where_it_is(&mut runs.fragments, writers(9, "remap"), falls), "without the order");
    fails("P3.5", |runs| where_it_is(&mut runs.fragments, writers(63, "copy"), as_slow), "the largest by the smallest");
    let few =
        |record: &RunRecord| number(record, "/workload/writers") == 63 && number(record, "/workload/size") == 2 << 20;
    fails("P3.5", |runs| where_it_is(&mut runs.fragments, few, as_slow), "16 KiB: speed of 4 times");
    fails("P3.F", |runs| where_it_is(&mut runs.fragments, writers(512, "remap-sorted"), falls), "behind sorting");
    fails(
        "P3.F",
        |runs| where_it_is(&mut runs.fragments, writers(513, "copy"), as_slow),
        "read speed behind gathering",
    );
    let unified = |record: &RunRecord| {
        text(record, "/stack/fs/reuse") == UNIFIED && text(record, "/stack/device/preset") == "nvme-tlc"
    };
    let slow = |record: &mut RunRecord| record.figures.write_mb_per_s = Some(20.0);
    fails("P3.M", |runs| where_it_is(&mut runs.matrix, unified, slow), "nvme-tlc, copyfiles (0.95 of remap");
}

/// Every run that is planned is one that the stack takes.
#[test]
fn the_plan_can_be_run() {
    for quick in [false, true] {
        let scale = Scale::new(quick);
        let experiments = [plan::cleaning(scale).unwrap(), plan::matrix(scale).unwrap()];
        let runs = experiments.iter().flatten().flat_map(crate::Experiment::runs);
        assert!(runs.map(|run| run.check().unwrap()).count() > 3 * CLEANING.len());
        let fragments = [plan::defragmentation(scale), plan::pieces(scale), plan::gathering(scale)];
        fragments.into_iter().flat_map(Result::unwrap).for_each(|planned| planned.stack.check().unwrap());
        plan::archives(scale, &[], &NoInputs).unwrap().iter().for_each(|planned| planned.stack.check().unwrap());
    }
}

fn made(job: &impl Job) -> RunRecord {
    job.run(Inside { inputs: &NoInputs, progress: &mut |_| ControlFlow::Continue(()), tap: None }).unwrap()
}

/// Both ways read the same bytes, and qtar asks for fewer requests.
#[test]
fn small_files_are_read_in_fewer_requests() {
    let planned = plan::archives(Scale::new(true), &[], &NoInputs).unwrap().remove(0);
    let record = made(&Archive { files: Files::Even { size: 4096, total: 1 << 20 }, ..planned });
    let requests = |name| super::point::count(&record, "archive", name);
    assert_eq!(requests("files"), 256.0);
    assert!(requests("qtar_requests") + 200.0 < requests("tar_requests"), "{:?}", record.layers);
    assert!(super::point::gain(&record, true) > super::point::gain(&record, false), "{:?}", record.phases);
}

/// A directory's files have a row of their own, and tell when they do not fit.
#[test]
fn a_directory_of_the_host_is_packed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("below")).unwrap();
    for number in 0..40 {
        std::fs::write(directory.path().join(format!("below/{number}")), vec![1; 5000]).unwrap();
    }
    let paths = [directory.path().display().to_string()];
    let planned = plan::archives(Scale::new(true), &paths, &HostInputs).unwrap().pop().unwrap();
    let record = made(&planned);
    assert_eq!(super::point::count(&record, "archive", "files"), 40.0);
    assert_eq!(record.phases["qtar"].user_bytes_read, 200_000);
    let runs = Runs { quick: true, archives: vec![record], ..Runs::default() };
    let claim = judge(&runs, &|claim| claim == "P3.2").remove(0);
    assert!(claim.measured.to_string().contains(&paths[0]), "{claim:?}");

    let large = std::fs::File::create(directory.path().join("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    let planned = plan::archives(Scale::new(true), &paths, &HostInputs).unwrap().pop().unwrap();
    let inside = Inside { inputs: &HostInputs, progress: &mut |_| ControlFlow::Continue(()), tap: None };
    let error = planned.run(inside).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("needs 1048576 MiB and the volume has"), "{error}");
    std::fs::remove_dir_all(directory.path().join("below")).unwrap();
    std::fs::remove_file(directory.path().join("large")).unwrap();
    let error = plan::archives(Scale::new(true), &paths, &HostInputs).unwrap_err().to_string();
    assert!(error.contains("has no plain files"), "{error}");
}

/// Pieces that are asked for at once wait where they stand on one die.
#[test]
fn dies_in_common_cost_more_than_more_requests() {
    let times = plan::dies().unwrap().into_iter().filter(|planned| planned.pages == 1);
    let times: Vec<f64> = times.map(|planned| super::point::count(&made(&planned), "dies", "window_ns")).collect();
    assert!(times[0] > 2.0 * times[1] && times[2] > 2.0 * times[3], "{times:?}");
}

/// Idle work by remap in the order of files puts them together; pages stay on their dies, so that
/// reads become no faster.
#[test]
fn files_in_turns_come_together() {
    let mut planned = plan::defragmentation(Scale::new(true)).unwrap().remove(2);
    planned.shape = Shape { size: 1 << 20, rounds: 2, ..planned.shape };
    let record = made(&planned);
    let change = |name| super::point::change(&record, name).unwrap();
    assert_eq!(super::point::series(&record, "fragments")[0], 2048.0);
    assert!(change("fragments") < 0.2 && change("read_mb_per_s") < 1.2, "{:?}", record.layers["fragments"]);
}
