//! A claim of a paper beside what was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The verdict on a claim, over all settings in which it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// In every setting.
    #[serde(rename = "holds")]
    Holds,
    /// In at least one setting, and not in every one.
    #[serde(rename = "holds in some settings")]
    HoldsInSome,
    /// In no setting.
    #[serde(rename = "does not hold")]
    DoesNotHold,
}

impl Verdict {
    /// The verdict in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsInSome => "holds in some settings",
            Self::DoesNotHold => "does not hold",
        }
    }
}

/// A claim in one line of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimLine {
    /// What the claim says, in few words.
    pub words: String,
    /// The paper's figure; empty where it gives none.
    pub paper: String,
    /// The measured figure beside the paper's; `None` if it was not measured.
    pub ours: Option<f64>,
}

/// A claim of a paper beside what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its id: `P4.3`.
    pub claim: String,
    /// What the paper says.
    pub text: String,
    /// The claim in one line, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<ClaimLine>,
    /// The paper's figures.
    pub paper: Value,
    /// The measured figures for the same quantities.
    pub measured: Value,
    /// Whether the measured figures bear the claim out, in every setting that `settings` names.
    pub holds: bool,
    /// Whether the claim holds in each setting, by name; empty if it is judged in a single one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, bool>,
    /// The verdict of the last whole run on record, if this run was a quick one, whose own verdict
    /// does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Verdict>,
    /// A remark on the verdict: for a claim that does not hold, the reason if it is known.
    pub note: String,
    /// Its checks in the setting from which the verdict is taken, by name: whether each holds. Not
    /// printed.
    #[serde(skip)]
    pub checks: BTreeMap<String, bool>,
    /// The figure that each check measured, by the check's name, in the order of the checks. Not
    /// printed.
    #[serde(skip)]
    pub figures: Vec<(String, Option<f64>)>,
}

impl Claim {
    /// The verdict that counts: for a quick run the recorded one, else the verdict over all
    /// settings.
    pub fn verdict(&self) -> Verdict {
        match (self.recorded, self.holds) {
            (Some(recorded), _) => recorded,
            (None, true) => Verdict::Holds,
            (None, false) if self.settings.values().any(|holds| *holds) => Verdict::HoldsInSome,
            (None, false) => Verdict::DoesNotHold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_prints_as_the_manual_says() {
        let claim = Claim {
            claim: "P4.3".into(),
            text: "x".into(),
            paper: serde_json::json!({"gain": 0.22}),
            measured: serde_json::json!({"gain": 0.2}),
            holds: true,
            note: "n".into(),
            checks: BTreeMap::from([("c".into(), true)]),
            ..Claim::default()
        };
        let line =
            r#"{"claim":"P4.3","text":"x","paper":{"gain":0.22},"measured":{"gain":0.2},"holds":true,"note":"n"}"#;
        assert_eq!(serde_json::to_string(&claim).unwrap(), line);
        assert_eq!(claim.verdict(), Verdict::Holds);
        let in_some =
            Claim { holds: false, settings: BTreeMap::from([("a".into(), false), ("b".into(), true)]), ..claim };
        assert_eq!(in_some.verdict(), Verdict::HoldsInSome);
        let line = serde_json::to_string(&in_some).unwrap();
        assert!(line.contains(r#""holds":false,"settings":{"a":false,"b":true},"note""#), "{line}");
        let quick = Claim { recorded: Some(Verdict::DoesNotHold), ..in_some.clone() };
        assert_eq!(quick.verdict(), Verdict::DoesNotHold);
        assert!(serde_json::to_string(&quick).unwrap().contains(r#""recorded":"does not hold""#));
        let nowhere = Claim { settings: BTreeMap::from([("a".into(), false)]), ..in_some };
        assert_eq!(nowhere.verdict(), Verdict::DoesNotHold);
    }
}
