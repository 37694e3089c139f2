//! What tests of records share.

use std::sync::atomic::AtomicBool;

use nandkit_lab::{Experiment, LabError, Options, Unmeasured};
use nandkit_record::RunRecord;
use nandkit_workload::HostInputs;

/// The record of an experiment with one run, alone and unmeasured.
pub fn record_of(spec: &str) -> Result<RunRecord, LabError> {
    let options = Options {
        jobs: 1,
        directory: None,
        program: None,
        notice: &|_| (),
        inputs: &HostInputs,
        host: &Unmeasured,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    Ok(Experiment::parse(spec, "spec", &[], None)?.run(&options)?.remove(0))
}
