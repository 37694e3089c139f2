//! P4: "Cost-based Optimization of Block Recycling Scheme in NAND Flash Memory Based Storage
//! System" (Lee, Kim, Ahn, Lee, Noh, 2007).
//!
//! [`plan`] says which runs are made, [`point`] reads from a record which of them it is,
//! [`verdict`] judges each claim from records alone. Whatever the paper leaves open is in
//! [`plan::SETTINGS`], both ways of it, and a verdict names the settings in which the claim holds
//! and those in which it does not.

mod cause;
pub mod mathematics;
pub mod plan;
pub mod point;
pub mod series;
pub mod sweeps;
pub mod verdict;

#[cfg(test)]
mod tests;

use nandkit_record::RunRecord;

use super::{Claim, Paper, Request};
use crate::LabError;

/// The paper on merge and migration.
pub struct P4;

const CLAIMS: [&str; 6] = ["P4.1", "P4.2", "P4.3", "P4.4", "P4.5", "P4.6"];

impl Paper for P4 {
    fn id(&self) -> &'static str {
        "P4"
    }

    fn title(&self) -> &'static str {
        "Lee, Kim, Ahn, Lee, Noh: Cost-based Optimization of Block Recycling Scheme in NAND Flash Memory Based Storage System, 2007"
    }

    fn claims(&self) -> &'static [&'static str] {
        &CLAIMS
    }

    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
        let wanted = |claims: &[&str]| claims.iter().any(|claim| (request.wanted)(claim));
        let scale = plan::Scale::new(request.quick);
        let mut runs = Runs::default();
        if wanted(&["P4.1", "P4.2"]) {
            small_files(request, &scale, &mut runs)?;
        }
        if wanted(&["P4.2", "P4.3"]) {
            for experiment in plan::policies(&scale)? {
                runs.policies.extend(request.run(&experiment)?);
            }
        }
        if wanted(&["P4.1", "P4.2", "P4.3"]) {
            runs.policies.extend(request.run(&plan::beside(&scale)?)?);
        }
        if wanted(&["P4.1"]) {
            runs.policies.extend(request.run(&plan::limits(&scale)?)?);
        }
        if wanted(&["P4.4"]) {
            runs.growth = request.run(&plan::growth(&scale)?)?;
        }
        if wanted(&["P4.5"]) {
            runs.log_blocks = request.run(&plan::log_blocks(&scale)?)?;
        }
        Ok(judge(&runs, &|claim| (request.wanted)(claim)))
    }
}

/// Runs the small files, twice as long each time, until the gain of merge+migration has settled or
/// the greatest length is reached; then the other policies as long as that.
fn small_files(request: &Request<'_>, scale: &plan::Scale, runs: &mut Runs) -> Result<(), LabError> {
    let (first, most) = scale.settling();
    for setting in &plan::SETTINGS {
        let mut transactions = first;
        loop {
            let step = request.run(&plan::settling_step(setting, transactions)?)?;
            runs.settling.extend(step.clone());
            if transactions >= most || verdict::is_settled(&point::read(&runs.settling), setting.name) {
                runs.policies.extend(step);
                break;
            }
            transactions *= 2;
        }
        runs.policies.extend(request.run(&plan::settled(setting, transactions)?)?);
    }
    Ok(())
}

/// The records of P4's runs, by what they are for: the same stack runs a workload long for one
/// claim and short for another, and must not be taken for the same.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// P4.1: the small files under merge and merge+migration, at every length that was tried.
    pub settling: Vec<RunRecord>,
    /// P4.1 to P4.3: policies on workloads, and the sweep of the limit.
    pub policies: Vec<RunRecord>,
    /// P4.4: the block with the FAT, traced.
    pub growth: Vec<RunRecord>,
    /// P4.5: the number of log blocks swept.
    pub log_blocks: Vec<RunRecord>,
}

/// Judges the wanted claims from records: the same records give the same verdicts, whoever made
/// them.
pub fn judge(runs: &Runs, wanted: &dyn Fn(&str) -> bool) -> Vec<Claim> {
    let (policies, settling) = (point::read(&runs.policies), point::read(&runs.settling));
    let judges: [(&str, &dyn Fn() -> Claim); 6] = [
        ("P4.1", &|| verdict::small_files(&policies, &settling)),
        ("P4.2", &|| verdict::large_files(&policies)),
        ("P4.3", &|| verdict::embedded(&policies)),
        ("P4.4", &|| series::growth(&point::read(&runs.growth))),
        ("P4.5", &|| sweeps::log_blocks(&point::read(&runs.log_blocks))),
        ("P4.6", &mathematics::optimum),
    ];
    judges.into_iter().filter(|(claim, _)| wanted(claim)).map(|(_, judge)| judge()).collect()
}
