//! Which claims held when the baseline was shipped.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Claim;

/// The shipped baseline: `specs/experiments/claims.toml`.
const SHIPPED: &str = include_str!("../../../../specs/experiments/claims.toml");

/// For each claim whether it held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// By id.
    pub holds: BTreeMap<String, bool>,
}

/// The baseline that ships with nandkit.
pub fn shipped_baseline() -> Result<Baseline, String> {
    toml::from_str(SHIPPED).map_err(|error| format!("the shipped baseline of claims is damaged: {error}"))
}

impl Baseline {
    /// The claims that held in the baseline and no longer do.
    pub fn broken<'a>(&self, claims: &'a [Claim]) -> Vec<&'a Claim> {
        let held = |claim: &&Claim| self.holds.get(&claim.claim) == Some(&true);
        claims.iter().filter(|claim| !claim.holds).filter(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &str, holds: bool) -> Claim {
        Claim { claim: id.into(), text: String::new(), paper: 0.into(), measured: 0.into(), holds, note: String::new() }
    }

    #[test]
    fn only_claims_that_held_can_break() {
        let baseline: Baseline = toml::from_str("[holds]\n\"P4.1\" = true\n\"P4.2\" = true\n\"P4.3\" = false").unwrap();
        let claims = [claim("P4.1", false), claim("P4.2", true), claim("P4.3", false), claim("P4.9", false)];
        let broken: Vec<&str> = baseline.broken(&claims).iter().map(|claim| claim.claim.as_str()).collect();
        assert_eq!(broken, ["P4.1"]);
    }

    #[test]
    fn the_shipped_baseline_reads() {
        shipped_baseline().unwrap();
    }
}
