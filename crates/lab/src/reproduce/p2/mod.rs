//! P2: a better garbage collector for JFFS2, by cost-age-times (CAT) and dynamic data clustering
//! (DAC).
//!
//! [`plan`] says which runs are made, [`point`] finds them among records, and each claim is judged
//! from records alone: [`verdict`], [`cpu`] (P2.4) and [`beyond`] (P2.F). The paper leaves the
//! device, the fill, the layout of the hot data and the state of the volume open, so every claim is
//! judged in all settings alike ([`over`]).

pub mod beyond;
pub mod cpu;
pub mod over;
pub mod plan;
pub mod point;
pub mod verdict;

#[cfg(test)]
mod tests;

use nandkit_record::RunRecord;

use super::{Claim, Paper, Request};
use crate::LabError;

/// The paper on CAT and DAC in JFFS2.
pub struct P2;

const CLAIMS: [&str; 7] = ["P2.1", "P2.2", "P2.3", "P2.4", "P2.5", "P2.6", "P2.F"];

impl Paper for P2 {
    fn id(&self) -> &'static str {
        "P2"
    }

    fn title(&self) -> &'static str {
        "Jung, Kim, Han, Choi: Design & Implementation of an Efficient Garbage Collector for JFFS2"
    }

    fn claims(&self) -> &'static [&'static str] {
        &CLAIMS
    }

    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
        let scale = plan::Scale::new(request.quick);
        let mut runs = Runs::default();
        let patterns: Vec<&str> =
            plan::PATTERNS.into_iter().filter(|pattern| needed(pattern, request.wanted)).collect();
        for experiment in plan::grid(&scale, &patterns)? {
            runs.grid.extend(request.run(&experiment)?);
        }
        if (request.wanted)("P2.2") {
            runs.thresholds = request.run(&plan::thresholds(&scale)?)?;
        }
        if (request.wanted)("P2.4") {
            runs.host = cpu::measure(request.options.host);
        }
        if (request.wanted)("P2.5") {
            runs.open = request.run(&plan::open_clean(&scale)?)?;
        }
        if (request.wanted)("P2.F") {
            runs.layers = request.run(&plan::layers(&scale)?)?;
            runs.beyond = request.run(&plan::beyond(&scale)?)?;
        }
        Ok(judge(&runs, &|claim| (request.wanted)(claim)))
    }
}

/// Whether a wanted claim is judged by this pattern.
fn needed(pattern: &str, wanted: &dyn Fn(&str) -> bool) -> bool {
    let claims: &[&str] = match pattern {
        "rnd" => &["P2.3", "P2.6"],
        "seq" => &["P2.4"],
        _ => &["P2.1", "P2.2", "P2.5", "P2.6", "P2.F"],
    };
    claims.iter().any(|claim| wanted(claim))
}

/// The records of P2's runs, by what they are for, so that a run made short for one claim is never
/// taken for one of another.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Every pattern at every fill level, with and without CAT, by number of regions.
    pub grid: Vec<RunRecord>,
    /// P2.2: the thresholds of DAC swept.
    pub thresholds: Vec<RunRecord>,
    /// P2.5: the clean list open to victims.
    pub open: Vec<RunRecord>,
    /// P2.F: FAT on translation layers on the same chip.
    pub layers: Vec<RunRecord>,
    /// Every policy with every separation on the hot and cold data.
    pub beyond: Vec<RunRecord>,
    /// Processor time on the simulating host: shown, never judged by.
    pub host: Option<cpu::HostTimes>,
}

/// Judges the wanted claims: the same records give the same verdicts, whoever made them.
pub fn judge(runs: &Runs, wanted: &dyn Fn(&str) -> bool) -> Vec<Claim> {
    let grid = point::read(&runs.grid);
    let judges: [(&str, &dyn Fn() -> Claim); 7] = [
        ("P2.1", &|| verdict::cat(&grid)),
        ("P2.2", &|| verdict::dac_claim(&grid, &point::read(&runs.thresholds))),
        ("P2.3", &|| verdict::random(&grid)),
        ("P2.4", &|| cpu::sequential(&grid, runs.host)),
        ("P2.5", &|| verdict::clean_list(&grid, &point::read(&runs.open))),
        ("P2.6", &|| verdict::baseline(&grid)),
        ("P2.F", &|| beyond::later_work(&grid, &point::read(&runs.layers), &point::read(&runs.beyond))),
    ];
    judges.into_iter().filter(|(claim, _)| wanted(claim)).map(|(_, judge)| judge()).collect()
}
