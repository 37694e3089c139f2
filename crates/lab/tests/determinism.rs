//! The same experiment gives the same records, whatever the threads.

use std::sync::atomic::AtomicBool;

use nandkit_lab::{Experiment, Options, Unmeasured};
use nandkit_record::RunRecord;
use nandkit_workload::NoInputs;

const SPEC: &str = r#"
seeds = 2
[stack]
fs = "model"
[workload]
kind = "phone"
days = 3
[grid]
workload.messages_in = [1, 2, 3]
verify = [true, false]
"#;

const REAL: &str = r#"
seeds = 2
workload = "phone:days=2"
[stack]
device = { preset = "nandsim-32m-128k", bad_blocks.enabled = true }
[grid]
stack.ftl.policy = ["merge", "macroscopic"]
stack.fs = ["fat", { kind = "fat", cache_sectors = 16, write_back = "back" }]
"#;

const BLOCKS: &str = r#"
verify = false
workload = "random:operations=5000"
[stack]
device = { preset = "nandsim-32m-128k", store = "shadow" }
fs = "none"
[grid]
stack.ftl.policy = ["merge", "limit"]
"#;

fn run(spec: &str, jobs: usize) -> Vec<RunRecord> {
    let experiment = Experiment::parse(spec, "spec", &[], None).unwrap();
    let options = Options {
        jobs,
        directory: None,
        program: Some("test"),
        notice: &|_| (),
        inputs: &NoInputs,
        host: &Unmeasured,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    experiment.run(&options).unwrap()
}

fn lines(records: &[RunRecord]) -> Vec<String> {
    records.iter().map(|record| record.without_host().to_line()).collect()
}

#[test]
fn records_do_not_depend_on_the_number_of_threads() {
    for (spec, runs) in [(SPEC, 12), (REAL, 8), (BLOCKS, 2)] {
        let one = lines(&run(spec, 1));
        assert_eq!(one.len(), runs);
        assert_eq!(lines(&run(spec, 2)), one);
        assert_eq!(lines(&run(spec, 3)), one);
    }
}

#[test]
fn the_sums_over_causes_are_the_totals() {
    for record in run(REAL, 2).iter().chain(&run(BLOCKS, 2)) {
        let figures = &record.figures;
        assert!(figures.user_bytes_written > 0 && figures.erases_per_block.max > 0, "{}", record.stack);
        for figures in record.phases.values().chain([figures]) {
            assert_eq!(figures.bytes_programmed_by_cause.total(), figures.bytes_programmed);
            assert_eq!(figures.device_time_ns_by_cause.total(), figures.device_time_ns);
            // One die does one thing at a time, and each operation waits for the one before it.
            assert!(figures.device_time_ns <= figures.elapsed_ns, "{}", record.stack);
        }
    }
}

#[test]
fn a_record_alone_is_enough_to_run_it_again() {
    let records = [run(SPEC, 2), run(REAL, 2), run(BLOCKS, 2)];
    for record in records.iter().flat_map(|records| records.iter().take(2)) {
        let spec = toml::to_string(&record.spec).unwrap();
        let experiment = Experiment::parse(&spec, "record", &[], Some(&[record.seed])).unwrap();
        let options = Options {
            jobs: 1,
            directory: None,
            program: Some("test"),
            notice: &|_| (),
            inputs: &NoInputs,
            host: &Unmeasured,
            progress: &|_| (),
            stop: &AtomicBool::new(false),
        };
        let again = experiment.run(&options).unwrap();
        assert_eq!(lines(&again), lines(std::slice::from_ref(record)));
    }
}
