//! The search for power cuts that break a promise: every plan of one cut, and sampled plans of any
//! depth. A failure names its plan.

use std::fmt;

use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};
use nandkit_units::random::Random;

use crate::rounds::REPLAY_VARIABLE;

/// A cut that broke a promise. Its text names the plan that repeats it.
#[derive(Clone, PartialEq, Eq)]
pub struct CutFailure {
    /// The plan.
    pub plan: CutPlan,
    /// What was wrong after the cut.
    pub detail: String,
}

impl fmt::Display for CutFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  again with {REPLAY_VARIABLE}='{}'", self.detail, self.plan)
    }
}

impl fmt::Debug for CutFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CutFailure {}

/// Every cut of a run of `steps` programs, copies and erases: before, inside in each torn state,
/// and after each.
pub fn exhaustive(steps: u64) -> impl Iterator<Item = CutPlan> {
    (1..=steps).flat_map(|step| CutMoment::ALL.into_iter().map(move |moment| CutPlan::at(step, moment)))
}

/// `count` plans of `depth` cuts each: the first anywhere in the first `steps`, each further one
/// within `recovery_steps` of the one before, so that it falls into the recovery.
pub fn sampled(seed: u64, steps: u64, recovery_steps: u64, depth: u32, count: u64) -> impl Iterator<Item = CutPlan> {
    let mut random = Random::new(seed, "sampled cuts");
    (0..count).map(move |_| {
        let mut step = random.between(1, steps.max(1));
        let cuts = (0..depth.max(1)).map(|_| {
            let moment = CutMoment::ALL[random.below(CutMoment::ALL.len() as u64) as usize];
            let cut = Cut { step, moment };
            step += random.between(1, recovery_steps.max(1));
            cut
        });
        CutPlan::List(cuts.collect())
    })
}

/// Runs each plan until one fails, and returns how many were run. With [`REPLAY_VARIABLE`] set,
/// only the plan that it names is run.
pub fn search(
    plans: impl IntoIterator<Item = CutPlan>,
    mut run: impl FnMut(&CutPlan) -> Result<(), String>,
) -> Result<u64, CutFailure> {
    let mut attempt = |plan: CutPlan| run(&plan).map_err(|detail| CutFailure { plan, detail });
    if let Ok(text) = std::env::var(REPLAY_VARIABLE) {
        let plan: CutPlan = text
            .parse()
            .map_err(|error| CutFailure { plan: CutPlan::None, detail: format!("{REPLAY_VARIABLE}: {error}") })?;
        return attempt(plan).map(|()| 1);
    }
    let mut count = 0;
    for plan in plans {
        attempt(plan)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_cover_every_step_and_moment_and_sampled_ones_ascend() {
        let plans: Vec<CutPlan> = exhaustive(3).collect();
        assert_eq!(plans.len(), 18);
        assert!(plans.contains(&"at:2@garbage-weak".parse().unwrap()));
        for plan in sampled(1, 100, 10, 3, 50) {
            let CutPlan::List(cuts) = &plan else { panic!("{plan}") };
            assert!(cuts.len() == 3 && cuts[0].step <= 100 && cuts.is_sorted_by(|a, b| a.step < b.step), "{plan}");
        }
        assert!(sampled(1, 100, 10, 2, 9).eq(sampled(1, 100, 10, 2, 9)));
    }

    #[test]
    fn a_failure_names_its_plan() {
        let run = |plan: &CutPlan| {
            if plan.moment_at(2) == Some(CutMoment::After) { Err("lost a page".to_string()) } else { Ok(()) }
        };
        let failure = search(exhaustive(3), run).unwrap_err();
        assert_eq!(failure.to_string(), "lost a page\n  again with NANDKIT_REPLAY='at:2@after'");
        assert_eq!(search(exhaustive(1), run), Ok(6));
    }
}
