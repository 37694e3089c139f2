//! P1: partial garbage collection in F2FS on three memory cards.
//!
//! [`plan`] says which runs are made, [`point`] finds them among records, [`verdict`] judges each
//! claim from records alone, [`tables`] makes the panels of the paper's figure 6 and further
//! tables. [`plan::READINGS`] lists the ways to read what the paper leaves open: a verdict comes
//! from the first of them, and also tells the results of the others.

pub mod plan;
pub mod point;
pub mod tables;
pub mod verdict;

#[cfg(test)]
mod tests;

use nandkit_record::RunRecord;

use super::{Claim, Paper, Request};
use crate::LabError;
use plan::READINGS;

/// The paper on partial garbage collection.
pub struct P1;

const CLAIMS: [&str; 9] = ["P1.1", "P1.2", "P1.3", "P1.4", "P1.5", "P1.6", "P1.7", "P1.8", "P1.F"];

impl Paper for P1 {
    fn id(&self) -> &'static str {
        "P1"
    }

    fn title(&self) -> &'static str {
        "Partial garbage collection for log-structured file systems (Korean, no year given)"
    }

    fn claims(&self) -> &'static [&'static str] {
        &CLAIMS
    }

    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
        let scale = plan::Scale::new(request.quick);
        let mut runs = Runs::default();
        for (number, reading) in scale.readings().iter().enumerate() {
            // These two are judged by the first reading alone.
            if number == 0 || CLAIMS.iter().any(|claim| !["P1.8", "P1.F"].contains(claim) && (request.wanted)(claim)) {
                let mut records = Vec::new();
                for experiment in plan::cells(&scale, reading)? {
                    records.extend(request.run(&experiment)?);
                }
                runs.readings.push(records);
            }
        }
        if (request.wanted)("P1.8") {
            runs.at_random = request.run(&plan::at_random()?)?;
        }
        Ok(judge(&runs, &|claim| (request.wanted)(claim)))
    }
}

/// The records of P1's runs, by what they are for.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The cells of figure 6, for each reading of [`READINGS`] that was run.
    pub readings: Vec<Vec<RunRecord>>,
    /// P1.8: the measured files written at random places.
    pub at_random: Vec<RunRecord>,
}

/// Judges the wanted claims: the same records give the same verdicts, whoever made them.
pub fn judge(runs: &Runs, wanted: &dyn Fn(&str) -> bool) -> Vec<Claim> {
    let points: Vec<_> =
        runs.readings.iter().zip(&READINGS).map(|(records, reading)| point::read(records, reading)).collect();
    let readings: Vec<_> =
        points.iter().zip(&READINGS).map(|(points, reading)| (*reading, point::View(points))).collect();
    let first = readings.first().map_or(point::View(&[]), |(_, view)| *view);
    let at_random = point::read(&runs.at_random, &READINGS[0]);
    let judges: [(&str, &dyn Fn() -> Claim); 9] = [
        ("P1.1", &|| verdict::never_slower(&readings)),
        ("P1.2", &|| verdict::best_case(&readings)),
        ("P1.3", &|| verdict::by_card(&readings)),
        ("P1.4", &|| verdict::free_cold(&readings)),
        ("P1.5", &|| verdict::dirty_cold(&readings)),
        ("P1.6", &|| verdict::checkpoint_dearer(&readings)),
        ("P1.7", &|| verdict::collection_on_a(&readings)),
        ("P1.8", &|| verdict::footnote(first, point::View(&at_random))),
        ("P1.F", &|| verdict::beyond(first)),
    ];
    judges.into_iter().filter(|(claim, _)| wanted(claim)).map(|(_, judge)| judge()).collect()
}
