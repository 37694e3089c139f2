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

fn run(jobs: usize) -> Vec<RunRecord> {
    let experiment = Experiment::parse(SPEC, "spec", &[], None).unwrap();
    let options = Options {
        jobs,
        directory: None,
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
    let one = lines(&run(1));
    assert_eq!(one.len(), 12);
    assert_eq!(lines(&run(2)), one);
    assert_eq!(lines(&run(3)), one);
}

#[test]
fn a_record_alone_is_enough_to_run_it_again() {
    for record in run(2).iter().take(2) {
        let spec = toml::to_string(&record.spec).unwrap();
        let experiment = Experiment::parse(&spec, "record", &[], Some(&[record.seed])).unwrap();
        let options = Options {
            jobs: 1,
            directory: None,
            inputs: &NoInputs,
            host: &Unmeasured,
            progress: &|_| (),
            stop: &AtomicBool::new(false),
        };
        let again = experiment.run(&options).unwrap();
        assert_eq!(lines(&again), lines(std::slice::from_ref(record)));
    }
}
