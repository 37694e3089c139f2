//! Claims taken apart into checks, in every reading.

use serde_json::{Map, Value, json};

use super::super::Claim;
use super::plan::Reading;
use super::point::View;

/// One part of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it says, without the figure.
    pub name: String,
    /// What it says, with the figure.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Check {
    /// A check of a figure; what was not measured does not hold.
    pub fn new(name: impl Into<String>, measured: Option<f64>, holds: impl FnOnce(f64) -> bool) -> Self {
        let name = name.into();
        let shown = measured.map_or("not measured".to_string(), |measured| format!("{measured:.3}"));
        Self { text: format!("{name} ({shown})"), name, holds: measured.is_some_and(holds) }
    }
}

/// A claim's id, text, and the paper's figures.
pub struct Stated<'a> {
    /// Its id.
    pub id: &'a str,
    /// What the paper says.
    pub text: &'a str,
    /// Its figures.
    pub paper: Value,
}

/// The readings that were run, with their points.
pub type Readings<'a, 'b> = [(Reading, View<'a, 'b>)];

/// The claim: its verdict from the first reading, what the other readings give, tables, causes.
pub fn claim(
    stated: Stated<'_>,
    readings: &Readings<'_, '_>,
    checks: impl Fn(View<'_, '_>) -> Vec<Check>,
    tables: Vec<Value>,
    causes: &str,
) -> Claim {
    let judged: Vec<(&str, Vec<Check>)> =
        readings.iter().map(|(reading, view)| (reading.name, checks(*view))).collect();
    let first = judged.first().map_or_else(|| checks(View(&[])), |(_, checks)| checks.clone());
    let failed = |checks: &[Check]| -> Vec<String> {
        checks.iter().filter(|check| !check.holds).map(|check| check.text.clone()).collect()
    };
    let held = |checks: &[Check]| format!("{} of {} checks hold", checks.len() - failed(checks).len(), checks.len());
    let verdicts: Map<String, Value> = judged
        .iter()
        .map(|(name, checks)| {
            let failed = failed(checks);
            ((*name).to_string(), json!({"holds": failed.is_empty(), "checks": checks.len(), "fails": failed}))
        })
        .collect();
    let mut note = String::new();
    let exceptions = failed(&first);
    if !exceptions.is_empty() {
        note += &format!("Does not hold: {}. ", exceptions.join("; "));
    }
    if let Some((name, _)) = judged.first() {
        note += &format!("Reading \"{name}\": {}. ", held(&first));
    }
    let others: Vec<String> =
        judged.iter().skip(1).map(|(name, checks)| format!("\"{name}\": {}", held(checks))).collect();
    if !others.is_empty() {
        note += &format!("Others: {}. ", others.join("; "));
    }
    Claim {
        checks: first.iter().map(|check| (check.name.clone(), check.holds)).collect(),
        claim: stated.id.into(),
        text: stated.text.into(),
        paper: stated.paper,
        measured: json!({"verdicts": verdicts, "tables": tables}),
        holds: exceptions.is_empty() && !first.is_empty(),
        note: format!("{note}{causes}").trim().to_string(),
    }
}
