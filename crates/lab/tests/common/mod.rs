//! What tests of records share.

use nandkit_lab::{Experiment, LabError, Options};
use nandkit_record::RunRecord;
use nandkit_workload::HostInputs;

/// The record of an experiment with one run, alone and unmeasured.
pub fn record_of(spec: &str) -> Result<RunRecord, LabError> {
    let options = Options { jobs: 1, inputs: &HostInputs, ..Options::default() };
    Ok(Experiment::parse(spec, "spec", &[], None)?.run(&options)?.remove(0))
}
