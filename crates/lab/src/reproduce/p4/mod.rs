//! P4: "Cost-based Optimization of Block Recycling Scheme in NAND Flash Memory Based Storage System" (Lee, Kim, Ahn, Lee, Noh, 2007).
//!
//! [`plan`] says which runs are made, [`point`] reads from a record which of them it is, [`verdict`] judges each claim from records alone. Whatever
//! the paper leaves open is in [`plan::SETTINGS`], both ways of it, and verdicts name the setting that they were taken in.

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
        "Merge or migrate: cost-based block recycling in a block-mapped FTL"
    }

    fn claims(&self) -> &'static [&'static str] {
        &CLAIMS
    }

    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
        let wanted = |claims: &[&str]| claims.iter().any(|claim| (request.wanted)(claim));
        let mut records: Vec<RunRecord> = Vec::new();
        let mut run = |experiment| -> Result<(), LabError> {
            records.extend(request.run(&experiment)?);
            Ok(())
        };
        let scale = plan::Scale::new(request.quick);
        if wanted(&["P4.1", "P4.2", "P4.3"]) {
            plan::policies(&scale)?.into_iter().try_for_each(&mut run)?;
        }
        if wanted(&["P4.1"]) {
            run(plan::limits(&scale)?)?;
        }
        if wanted(&["P4.4"]) {
            run(plan::growth(&scale)?)?;
        }
        if wanted(&["P4.5"]) {
            run(plan::log_blocks(&scale)?)?;
        }
        Ok(judge(&records, &|claim| (request.wanted)(claim)))
    }
}

/// Judges the wanted claims from records: the same records give the same verdicts, whoever made them.
pub fn judge(records: &[RunRecord], wanted: &dyn Fn(&str) -> bool) -> Vec<Claim> {
    let points = point::read(records);
    let judges: [(&str, &dyn Fn() -> Claim); 6] = [
        ("P4.1", &|| verdict::small_files(&points)),
        ("P4.2", &|| verdict::large_files(&points)),
        ("P4.3", &|| verdict::embedded(&points)),
        ("P4.4", &|| series::growth(&points)),
        ("P4.5", &|| sweeps::log_blocks(&points)),
        ("P4.6", &mathematics::optimum),
    ];
    judges.into_iter().filter(|(claim, _)| wanted(claim)).map(|(_, judge)| judge()).collect()
}
