//! A claim judged in every setting that was measured, none of which decides for the others.
//!
//! The paper names neither device nor fill, layout or state of the volume. So a claim *holds* where
//! all its checks hold in every setting, it *holds in some settings*, which are named, or it *does
//! not hold*.

use serde_json::{Map, Value, json};

use super::super::check::{Judged, Stated, Verdict};
use super::super::{Claim, Verdict as Word};

fn failed<J>(verdict: &Verdict<J>) -> Vec<&str> {
    verdict.checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect()
}

fn holds<J>(verdict: &Verdict<J>) -> bool {
    !verdict.checks.is_empty() && failed(verdict).is_empty()
}

/// A check in all settings that have it.
struct Counted<'a> {
    name: &'a str,
    held: usize,
    all: usize,
}

/// The claim with its verdict over all of `verdicts`; what was measured is `figures` and what each
/// setting gives. A check holds where it does in every setting.
pub fn over_settings<J: Judged>(stated: Stated<'_>, verdicts: &[Verdict<J>], figures: Value, causes: &str) -> Claim {
    let each = |verdict: &Verdict<J>| {
        (verdict.of.name(), json!({"holds": holds(verdict), "checks": verdict.checks.len(), "fails": failed(verdict)}))
    };
    let by_name: Map<String, Value> = verdicts.iter().map(each).collect();
    let checks = by_check(verdicts);
    let mut claim = Claim {
        claim: stated.id.into(),
        text: stated.text.into(),
        paper: stated.paper,
        measured: json!({"verdicts": by_name, "figures": figures}),
        holds: !verdicts.is_empty() && verdicts.iter().all(holds),
        settings: verdicts.iter().map(|verdict| (verdict.of.name(), holds(verdict))).collect(),
        figures: verdicts.first().map(Verdict::figures).unwrap_or_default(),
        checks: checks.iter().map(|check| (check.name.to_string(), check.held == check.all)).collect(),
        ..Claim::default()
    };
    claim.note = format!("{} {causes}", note(&claim, verdicts, &checks)).trim().to_string();
    claim
}

/// Each check, in the order in which the settings name them.
fn by_check<J>(verdicts: &[Verdict<J>]) -> Vec<Counted<'_>> {
    let mut counts: Vec<Counted<'_>> = Vec::new();
    for check in verdicts.iter().flat_map(|verdict| &verdict.checks) {
        let held = usize::from(check.holds);
        match counts.iter_mut().find(|counted| counted.name == check.name) {
            Some(counted) => (counted.held, counted.all) = (counted.held + held, counted.all + 1),
            None => counts.push(Counted { name: &check.name, held, all: 1 }),
        }
    }
    counts
}

/// Where the claim holds, and in how many settings each check does.
fn note<J: Judged>(claim: &Claim, verdicts: &[Verdict<J>], checks: &[Counted<'_>]) -> String {
    let all = verdicts.len();
    let where_it_holds = match claim.verdict() {
        Word::Holds => format!("Holds in all settings, {all}."),
        Word::HoldsInSome => {
            let names: Vec<String> =
                verdicts.iter().filter(|verdict| holds(verdict)).map(|verdict| verdict.of.name()).collect();
            format!("Holds in some settings, {} of {all}: {}.", names.len(), names.join("; "))
        }
        Word::DoesNotHold => format!("Does not hold in any of {all} settings."),
    };
    let counts = checks.iter().map(|check| format!("{}: {} of {}", check.name, check.held, check.all));
    format!("{where_it_holds} Settings by check: {}.", counts.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::super::check::{Check, judge_in};
    use super::*;

    struct Size(u32);

    impl Judged for Size {
        const KIND: &'static str = "setting";
        fn name(&self) -> String {
            format!("size {}", self.0)
        }
    }

    fn judged(sizes: &[u32]) -> Claim {
        let sizes: Vec<Size> = sizes.iter().copied().map(Size).collect();
        let verdicts = judge_in(sizes, |size| vec![Check::new("it is small", Some(f64::from(size.0)), |x| x < 3.0)]);
        let stated = Stated { id: "P2.1", text: "t", paper: Value::Null };
        over_settings(stated, &verdicts, Value::Null, "Why.")
    }

    #[test]
    fn a_claim_holds_in_all_settings_in_some_or_in_none() {
        for (sizes, word, told) in [
            (&[1, 2][..], Word::Holds, "Holds in all settings, 2. Settings by check: it is small: 2 of 2. Why."),
            (&[1, 5], Word::HoldsInSome, "Holds in some settings, 1 of 2: size 1. Settings by check:"),
            (&[4, 5], Word::DoesNotHold, "Does not hold in any of 2 settings. Settings by check: it is small: 0 of 2."),
            (&[], Word::DoesNotHold, "Does not hold in any of 0 settings."),
        ] {
            let claim = judged(sizes);
            assert_eq!((claim.verdict(), claim.holds), (word, word == Word::Holds), "{sizes:?}");
            assert!(claim.note.starts_with(told), "{}", claim.note);
        }
        let claim = judged(&[1, 5]);
        assert_eq!(claim.settings, [("size 1".to_string(), true), ("size 5".to_string(), false)].into());
        assert_eq!(claim.checks, [("it is small".to_string(), false)].into());
    }
}
