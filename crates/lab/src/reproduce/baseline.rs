//! Which claims held when the baseline was shipped.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Claim, Verdict};

/// The shipped baseline: `specs/experiments/claims.toml`.
const SHIPPED: &str = include_str!("../../../../specs/experiments/claims.toml");

/// For each claim, and for each check of a claim, whether it held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Whether each claim held, by id.
    pub holds: BTreeMap<String, bool>,
    /// For claims that are judged in several settings: whether each held in each setting, by id and
    /// the setting's name.
    #[serde(default)]
    pub settings: BTreeMap<String, BTreeMap<String, bool>>,
    /// Whether each check held, by the claim's id and the check's name. A claim without a whole run
    /// on record has no checks here.
    #[serde(default)]
    pub checks: BTreeMap<String, BTreeMap<String, bool>>,
}

/// Differences from the baseline: ids of claims, and checks as `P4.3: order on fax: merge < limit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Claims and checks that held and no longer do.
    pub broken: Vec<String>,
    /// Claims and checks that did not hold and do now.
    pub mended: Vec<String>,
}

/// The baseline that ships with nandkit.
pub fn shipped_baseline() -> Result<Baseline, String> {
    toml::from_str(SHIPPED).map_err(|error| format!("the shipped baseline of claims is damaged: {error}"))
}

impl Baseline {
    /// The verdict on record; `None` for a claim without a whole run on record.
    pub fn verdict(&self, id: &str) -> Option<Verdict> {
        let in_some = self.settings.get(id).is_some_and(|settings| settings.values().any(|held| *held));
        self.holds.get(id).map(|held| match held {
            true => Verdict::Holds,
            false if in_some => Verdict::HoldsInSome,
            false => Verdict::DoesNotHold,
        })
    }

    /// How these claims differ from the baseline. A claim or check that the baseline does not name
    /// is not a change; a check that it names and the claim no longer has counts as broken.
    pub fn changes(&self, claims: &[Claim]) -> Changes {
        let mut changes = Changes::default();
        let mut compare = |name: String, held: Option<&bool>, holds: bool| match (held, holds) {
            (Some(true), false) => changes.broken.push(name),
            (Some(false), true) => changes.mended.push(name),
            _ => {}
        };
        for claim in claims {
            compare(claim.claim.clone(), self.holds.get(&claim.claim), claim.holds);
            for (check, held) in self.checks.get(&claim.claim).into_iter().flatten() {
                let holds = claim.checks.get(check).copied().unwrap_or(false);
                compare(format!("{}: {check}", claim.claim), Some(held), holds);
            }
            for (setting, held) in self.settings.get(&claim.claim).into_iter().flatten() {
                let holds = claim.settings.get(setting).copied().unwrap_or(false);
                compare(format!("{} in \"{setting}\"", claim.claim), Some(held), holds);
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn claim(id: &str, holds: bool, checks: &[(&str, bool)]) -> Claim {
        Claim {
            claim: id.into(),
            text: String::new(),
            paper: 0.into(),
            measured: 0.into(),
            holds,
            checks: checks.iter().map(|(name, holds)| ((*name).to_string(), *holds)).collect(),
            ..Claim::default()
        }
    }

    #[test]
    fn only_what_held_can_break() {
        let baseline: Baseline = toml::from_str("[holds]\n\"P4.1\" = true\n\"P4.2\" = true\n\"P4.3\" = false").unwrap();
        let claims = [("P4.1", false), ("P4.2", true), ("P4.3", true), ("P4.9", false)];
        let changes = baseline.changes(&claims.map(|(id, holds)| claim(id, holds, &[])));
        assert_eq!((changes.broken, changes.mended), (vec!["P4.1".to_string()], vec!["P4.3".to_string()]));
    }

    #[test]
    fn a_check_breaks_where_its_claim_never_held() {
        let text = "[holds]\n\"P4.3\" = false\n[checks.\"P4.3\"]\na = true\nb = false\nc = true\nd = true";
        let baseline: Baseline = toml::from_str(text).unwrap();
        let changes =
            baseline.changes(&[claim("P4.3", false, &[("a", false), ("b", true), ("c", true), ("e", false)])]);
        assert_eq!(changes.broken, ["P4.3: a", "P4.3: d"]);
        assert_eq!(changes.mended, ["P4.3: b"]);
    }

    #[test]
    fn a_setting_breaks_where_its_claim_never_held() {
        let baseline: Baseline =
            toml::from_str("[holds]\n\"P4.3\" = false\n[settings.\"P4.3\"]\na = true\nb = false\nc = true").unwrap();
        let settings = BTreeMap::from([("a".to_string(), false), ("b".to_string(), true)]);
        let changes = baseline.changes(&[Claim { settings, ..claim("P4.3", false, &[]) }]);
        assert_eq!(changes.broken, ["P4.3 in \"a\"", "P4.3 in \"c\""]);
        assert_eq!(changes.mended, ["P4.3 in \"b\""]);
        assert_eq!(baseline.verdict("P4.3"), Some(Verdict::HoldsInSome));
        assert_eq!(baseline.verdict("P4.9"), None);
    }

    #[test]
    fn the_shipped_baseline_names_every_check_of_its_claims() {
        let baseline = shipped_baseline().unwrap();
        let everything = |_: &str| true;
        let mut claims = super::super::p4::judge(&Default::default(), &everything);
        claims.extend(super::super::p2::judge(&Default::default(), &everything));
        claims.extend(super::super::p3::judge(&Default::default(), &everything));
        claims.extend(super::super::p1::judge(&Default::default(), &everything));
        let mut seen = 0;
        for (id, named) in &baseline.checks {
            let claim = claims.iter().find(|claim| claim.claim == *id).unwrap();
            assert!(named.keys().eq(claim.checks.keys()), "{id}: {named:?} {:?}", claim.checks.keys());
            let settings = baseline.settings.get(id).cloned().unwrap_or_default();
            assert!(settings.keys().eq(claim.settings.keys()), "{id}: {settings:?} {:?}", claim.settings.keys());
            let all_held = named.values().chain(settings.values()).all(|held| *held);
            assert_eq!(baseline.holds[id], all_held, "{id}");
            seen += named.len();
        }
        assert!(seen > 50, "{seen}");
    }

    #[test]
    fn the_shipped_baseline_names_the_claims_of_every_paper() {
        let baseline = shipped_baseline().unwrap();
        let claims = super::super::papers().iter().flat_map(|paper| paper.claims()).copied();
        assert_eq!(baseline.holds.keys().map(String::as_str).collect::<BTreeSet<_>>(), claims.collect());
    }
}
