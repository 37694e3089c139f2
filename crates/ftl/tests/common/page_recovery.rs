//! All cuts during recovery: after every possible cut of a run, the power is cut again at every
//! step of what the next start writes and erases.

use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};

use super::page_causes::CauseFlash;
use super::page_model::Script;
use super::page_runs::{Shape, failing_chip, shifted, survives_on};

/// Runs a script once for every cut and every cut in the recovery after it. Returns the number of
/// both; `Err` names the plan that lost something.
pub fn survives_cut_recoveries(shape: &Shape, script: &Script) -> Result<(u64, u64), String> {
    let (steps, _) = run(shape, script, &CutPlan::None)?;
    let (mut firsts, mut seconds) = (0, 0);
    for first in (1..=steps).flat_map(|step| CutMoment::ALL.map(|moment| Cut { step, moment })) {
        let (_, recovery) = run(shape, script, &CutPlan::List(vec![first]))?;
        firsts += 1;
        let behind = recovery.into_iter().filter(|step| *step > first.step);
        for second in behind.flat_map(|step| CutMoment::ALL.map(|moment| Cut { step, moment })) {
            run(shape, script, &CutPlan::List(vec![first, second]))?;
            seconds += 1;
        }
    }
    Ok((firsts, seconds))
}

/// Does one run. Returns its number of steps, and which of them were recovery's, counted from the
/// end of the format.
fn run(shape: &Shape, script: &Script, plan: &CutPlan) -> Result<(u64, Vec<u64>), String> {
    let mut flash = CauseFlash::new(failing_chip(shape, script.seed));
    let mut formatted = 0;
    survives_on(&mut flash, shape, script, |flash| {
        formatted = flash.inner.steps();
        flash.inner.set_plan(shifted(plan, formatted));
    })
    .map_err(|what| format!("{what}: plan {plan} with {shape:?}, {script:?}"))?;
    let recovery = flash.recovery.iter().filter_map(|step| step.checked_sub(formatted)).collect();
    Ok((flash.inner.steps() - formatted, recovery))
}
