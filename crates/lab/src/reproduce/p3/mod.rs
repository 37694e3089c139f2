//! P3: remapping, for file utilities and for the cleaner of F2FS.
//!
//! [`plan`] says which runs are made, [`archive`] (of [`files`]), [`dies`] and [`fragments`] are
//! the runs that are not workloads, [`verdict`] judges each claim from records alone, [`matrix`]
//! compares all cleaners.

pub mod archive;
pub mod dies;
pub mod files;
pub mod fragments;
pub mod matrix;
pub mod plan;
pub mod point;
pub mod verdict;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use nandkit_record::{Figures, RunRecord, SCHEMA};
use nandkit_stack::StackSpec;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Claim, Paper, Request};
use crate::execute::execute;
use crate::job::Job;
use crate::run_spec::VERSION;
use crate::{Experiment, LabError};

/// The paper on remapping.
pub struct P3;

const CLAIMS: [&str; 8] = ["P3.1", "P3.2", "P3.3", "P3.4", "P3.5", "P3.6", "P3.F", "P3.M"];

impl Paper for P3 {
    fn id(&self) -> &'static str {
        "P3"
    }

    fn title(&self) -> &'static str {
        "Linux System Read / Write Performance Optimization Using Remapping Technique"
    }

    fn claims(&self) -> &'static [&'static str] {
        &CLAIMS
    }

    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
        let (scale, mut runs) = (plan::Scale::new(request.quick), Runs { quick: request.quick, ..Runs::default() });
        let wanted = |claims: &[&str]| claims.iter().any(|claim| (request.wanted)(claim));
        if wanted(&["P3.1", "P3.2"]) {
            runs.archives = run(request, &plan::archives(scale, request.directories, request.options.inputs)?)?;
        }
        for (claim, planned) in
            [("P3.4", plan::defragmentation(scale)?), ("P3.5", plan::pieces(scale)?), ("P3.F", plan::gathering(scale)?)]
        {
            if wanted(&[claim]) {
                runs.fragments.extend(run(request, &planned)?);
            }
        }
        if wanted(&["P3.5"]) {
            runs.dies = run(request, &plan::dies()?)?;
        }
        if wanted(&["P3.3", "P3.6"]) {
            runs.cleaning = all(request, &plan::cleaning(scale)?)?;
        }
        if wanted(&["P3.M"]) {
            runs.matrix = all(request, &plan::matrix(scale)?)?;
        }
        Ok(judge(&runs, &|claim| (request.wanted)(claim)))
    }
}

fn run<J: Job>(request: &Request<'_>, jobs: &[J]) -> Result<Vec<RunRecord>, LabError> {
    execute(jobs, request.options)
}

fn all(request: &Request<'_>, experiments: &[Experiment]) -> Result<Vec<RunRecord>, LabError> {
    let mut records = Vec::new();
    for experiment in experiments {
        records.extend(request.run(experiment)?);
    }
    Ok(records)
}

/// The records of P3's runs, by what they are for.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Whether the records come from a quick look.
    pub quick: bool,
    /// P3.1, P3.2: files that are packed.
    pub archives: Vec<RunRecord>,
    /// P3.4, P3.5, P3.F: files in pieces.
    pub fragments: Vec<RunRecord>,
    /// P3.5: read-aheads in pieces on the bare device.
    pub dies: Vec<RunRecord>,
    /// P3.3, P3.6: workloads on an aged volume.
    pub cleaning: Vec<RunRecord>,
    /// P3.M: all cleaners.
    pub matrix: Vec<RunRecord>,
}

/// Makes a claim of the records.
type Judge = fn(&Runs) -> Claim;

/// Judges the wanted claims: the same records give the same verdicts, whoever made them.
pub fn judge(runs: &Runs, wanted: &dyn Fn(&str) -> bool) -> Vec<Claim> {
    let judges: [(&str, Judge); 8] = [
        ("P3.1", verdict::sizes),
        ("P3.2", verdict::trees),
        ("P3.3", verdict::writes),
        ("P3.4", verdict::defragmented),
        ("P3.5", verdict::pieces),
        ("P3.6", verdict::lifetime),
        ("P3.F", verdict::gathered),
        ("P3.M", matrix::compared),
    ];
    judges.into_iter().filter(|(claim, _)| wanted(claim)).map(|(_, judge)| judge(runs)).collect()
}

/// The spec of a run that is not a workload: its kind and its shape.
fn spec_of(kind: &str, shape: &impl Serialize, stack: &StackSpec, verify: bool) -> Value {
    let mut workload = json!(shape);
    if let Some(workload) = workload.as_object_mut() {
        workload.insert("kind".into(), kind.into());
    }
    json!({"stack": stack, "workload": workload, "verify": verify})
}

/// The record of a run that is not a workload, without measured values.
fn empty_record(kind: &str, spec: Value, stack: &StackSpec, seed: u64) -> RunRecord {
    RunRecord {
        schema: SCHEMA,
        nandkit: VERSION.to_string(),
        spec,
        seed,
        stack: stack.title(),
        workload: kind.to_string(),
        figures: Figures::default(),
        host_time_ns: 0,
        host_peak_bytes: 0,
        layers: BTreeMap::new(),
        phases: BTreeMap::new(),
    }
}
