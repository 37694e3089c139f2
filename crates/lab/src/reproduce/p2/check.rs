//! Claims taken apart into checks, in every setting.

use serde_json::{Value, json};

use super::super::Claim;
use super::super::p4::point::Spread;
use super::plan::Setting;

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
    /// A check of a mean over seeds; what was not measured does not hold.
    pub fn new(text: &str, measured: Option<Spread>, holds: impl FnOnce(f64) -> bool) -> Self {
        let shown = measured.map_or("not measured".to_string(), |measured| format!("{:.3}", measured.mean));
        let name = text.to_string();
        Self {
            name,
            text: format!("{text} (ours {shown})"),
            holds: measured.is_some_and(|measured| holds(measured.mean)),
        }
    }
}

/// The checks of one setting.
pub struct InSetting {
    /// Which.
    pub setting: Setting,
    /// Its checks.
    pub checks: Vec<Check>,
}

impl InSetting {
    fn failed(&self) -> Vec<&str> {
        self.checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect()
    }

    fn holds(&self) -> bool {
        !self.checks.is_empty() && self.failed().is_empty()
    }
}

/// Judges in each setting with the same checks.
pub fn in_settings(settings: Vec<Setting>, checks: impl Fn(&Setting) -> Vec<Check>) -> Vec<InSetting> {
    settings.into_iter().map(|setting| InSetting { setting, checks: checks(&setting) }).collect()
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

/// The claim: its verdict from the first setting, which is the primary one; what each setting gives; and further figures.
pub fn claim(stated: Stated<'_>, verdicts: &[InSetting], figures: Value, causes: &str) -> Claim {
    let verdict_of = |of: &InSetting| (of.setting.name(), json!({"holds": of.holds(), "fails": of.failed()}));
    let by_setting: serde_json::Map<String, Value> = verdicts.iter().map(verdict_of).collect();
    let mut note = String::new();
    if let Some((first, others)) = verdicts.split_first() {
        if !first.holds() {
            note += &format!("Does not hold: {}. ", first.failed().join("; "));
        }
        let others: Vec<String> = others
            .iter()
            .map(|of| {
                let failed = of.failed().len();
                format!("{}: {} of {} checks hold", of.setting.name(), of.checks.len() - failed, of.checks.len())
            })
            .collect();
        note += &format!("Verdict in the setting \"{}\". ", first.setting.name());
        if !others.is_empty() {
            note += &format!("In others: {}. ", others.join("; "));
        }
    }
    let checks = verdicts.first().into_iter().flat_map(|first| &first.checks);
    Claim {
        checks: checks.map(|check| (check.name.clone(), check.holds)).collect(),
        claim: stated.id.into(),
        text: stated.text.into(),
        paper: stated.paper,
        measured: json!({"verdicts": by_setting, "figures": figures}),
        holds: verdicts.first().is_some_and(InSetting::holds),
        note: format!("{note}{causes}").trim().to_string(),
    }
}
