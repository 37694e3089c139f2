//! Closed forms and mean fields of write amplification, and P4's cost functions, beside simulation.
//!
//! Each row is a claim: theory, simulation with the interval that seeds give, the difference, and
//! where the formula is from. A row holds where the difference is at most [`BAR`]; one that misses
//! is told as missing. [`waf`] has the page-mapped layer's rows, [`recycling`] the block-mapped
//! layer's.

pub mod recycling;
pub mod waf;

#[cfg(test)]
mod tests;

use nandkit_record::spread;
use serde_json::json;

use super::{Claim, Paper, Request};
use crate::LabError;

/// Theory beside simulation.
pub struct Theory;

/// How far simulation may be from theory, as a share of theory.
pub const BAR: f64 = 0.01;

/// A row: a claim of theory beside simulation.
#[derive(Clone, Debug)]
pub struct Row {
    /// The claim's id: `theory.fifo-0.15`.
    pub id: &'static str,
    /// What is compared.
    pub name: String,
    /// What theory says.
    pub theory: f64,
    /// What the simulation came to, for each seed; one value where nothing is drawn.
    pub simulation: Vec<f64>,
    /// Where the formula is from.
    pub source: &'static str,
    /// A remark on the row.
    pub note: String,
}

impl Row {
    /// How far the simulation's mean is from theory, as a share of theory; NaN without a
    /// simulation.
    pub fn difference(&self) -> f64 {
        spread::mean(&self.simulation).map_or(f64::NAN, |mean| mean / self.theory - 1.0)
    }

    /// The row as a claim.
    pub fn claim(&self) -> Claim {
        let difference = self.difference();
        let holds = difference.abs() <= BAR;
        let round = |value: f64, digits: i32| (value * 10f64.powi(digits)).round() / 10f64.powi(digits);
        let half_width = spread::half_width_95(&self.simulation).map(|half| round(half, 4));
        let mean = spread::mean(&self.simulation).map(|mean| round(mean, 4));
        let misses = if holds { "" } else { "Misses the bar of 1 %. " };
        Claim {
            claim: self.id.to_string(),
            text: self.name.clone(),
            paper: json!({"theory": round(self.theory, 4), "source": self.source}),
            measured: json!({
                "simulation": mean, "half_width_95": half_width, "seeds": self.simulation.len(),
                "difference_percent": round(difference * 100.0, 3),
            }),
            holds,
            note: format!("{misses}{}", self.note).trim().to_string(),
            ..Claim::default()
        }
    }
}

impl Paper for Theory {
    fn id(&self) -> &'static str {
        "theory"
    }

    fn title(&self) -> &'static str {
        "Closed forms and mean fields of write amplification, and P4's cost functions"
    }

    fn claims(&self) -> &'static [&'static str] {
        &CLAIMS
    }

    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
        let scale = waf::Scale::new(request.quick);
        let mut rows = waf::rows(&scale, request)?;
        rows.extend(recycling::rows(request)?);
        Ok(rows.iter().map(Row::claim).collect())
    }
}

/// The ids of both lists, one after the other.
const CLAIMS: [&str; waf::ROWS.len() + recycling::ROWS.len()] = {
    let mut all = [""; waf::ROWS.len() + recycling::ROWS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < waf::ROWS.len() { waf::ROWS[at].id } else { recycling::ROWS[at - waf::ROWS.len()].id };
        at += 1;
    }
    all
};
