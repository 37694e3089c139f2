//! Claims taken apart into checks, in every setting or reading in which they are judged.

use serde_json::{Map, Value, json};

use super::Claim;

/// One part of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What it says, without the figure.
    pub name: String,
    /// What it says, with the figure.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// The figure; `None` if it was not measured.
    pub measured: Option<f64>,
}

impl Check {
    /// A check of a figure, or of a mean over seeds; without a measurement it does not hold.
    pub fn new<M: Into<f64>>(name: impl Into<String>, measured: Option<M>, holds: impl FnOnce(f64) -> bool) -> Self {
        let (name, measured) = (name.into(), measured.map(Into::into));
        let shown = measured.map_or("not measured".to_string(), |measured| format!("{measured:.3}"));
        let text = format!("{name} (ours {shown})");
        Self { text, name, holds: measured.is_some_and(holds), measured }
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

/// What a claim is judged in: a setting of the experiment, a reading of the paper.
pub trait Judged {
    /// The word for it in messages, for example `setting`.
    const KIND: &'static str;

    /// Its name in verdicts.
    fn name(&self) -> String;
}

/// The checks in one setting or reading.
pub struct Verdict<J> {
    /// The setting or reading that is judged.
    pub of: J,
    /// Its checks.
    pub checks: Vec<Check>,
}

impl<J: Judged> Verdict<J> {
    fn failed(&self) -> Vec<&str> {
        self.checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect()
    }

    fn holds(&self) -> bool {
        !self.checks.is_empty() && self.failed().is_empty()
    }

    /// What each check measured, by its name.
    pub fn figures(&self) -> Vec<(String, Option<f64>)> {
        self.checks.iter().map(|check| (check.name.clone(), check.measured)).collect()
    }

    fn held(&self) -> String {
        let count = self.checks.len();
        format!("{} of {count} checks hold", count - self.failed().len())
    }
}

/// Judges each setting or reading with the same checks.
pub fn judge_in<J>(all: Vec<J>, checks: impl Fn(&J) -> Vec<Check>) -> Vec<Verdict<J>> {
    all.into_iter().map(|of| Verdict { checks: checks(&of), of }).collect()
}

/// The claim: its verdict from the first of `verdicts`, what each of them gives, and further
/// figures by the key under which they stand in `measured`.
pub fn claim<J: Judged>(
    stated: Stated<'_>,
    verdicts: &[Verdict<J>],
    (key, figures): (&str, Value),
    causes: &str,
) -> Claim {
    let each = |verdict: &Verdict<J>| {
        let checks = verdict.checks.len();
        (verdict.of.name(), json!({"holds": verdict.holds(), "checks": checks, "fails": verdict.failed()}))
    };
    let by_name: Map<String, Value> = verdicts.iter().map(each).collect();
    let checks = verdicts.first().into_iter().flat_map(|first| &first.checks);
    Claim {
        figures: verdicts.first().map(Verdict::figures).unwrap_or_default(),
        checks: checks.map(|check| (check.name.clone(), check.holds)).collect(),
        claim: stated.id.into(),
        text: stated.text.into(),
        paper: stated.paper,
        measured: json!({"verdicts": by_name, key: figures}),
        holds: verdicts.first().is_some_and(Verdict::holds),
        note: format!("{}{causes}", note(verdicts)).trim().to_string(),
        ..Claim::default()
    }
}

/// Says in what the first verdict fails, and how many checks hold in each verdict.
fn note<J: Judged>(verdicts: &[Verdict<J>]) -> String {
    let Some((first, others)) = verdicts.split_first() else { return String::new() };
    let mut note = String::new();
    if !first.holds() {
        note += &format!("Does not hold: {}. ", first.failed().join("; "));
    }
    note += &format!("Verdict in the {} \"{}\": {}. ", J::KIND, first.of.name(), first.held());
    if !others.is_empty() {
        let others: Vec<String> =
            others.iter().map(|verdict| format!("\"{}\": {}", verdict.of.name(), verdict.held())).collect();
        note += &format!("In others: {}. ", others.join("; "));
    }
    note
}
