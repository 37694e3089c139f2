//! Shared parts of the commands that run experiments: the host's clock, Ctrl-C, the progress bar.

use nandkit_lab::{Experiment, Options, RunSpec};
use nandkit_record::{LayerValue, RunRecord};
use nandkit_stack::FlashTap;
use nandkit_workload::HostInputs;

use crate::args::Running;
use crate::failure::Failure;
use crate::host::Host;
use crate::progress::Bar;

/// Runs an experiment with a progress bar. The first Ctrl-C ends it with the finished runs; a
/// second one ends the process at once.
pub fn run(experiment: &Experiment, running: &Running) -> Result<Vec<RunRecord>, Failure> {
    run_tapped(experiment, running, None)
}

/// Runs an experiment like [`run`], with a tap that hears of every operation of the chips.
pub fn run_tapped(
    experiment: &Experiment,
    running: &Running,
    tap: Option<FlashTap>,
) -> Result<Vec<RunRecord>, Failure> {
    let experiment = &resolved(experiment)?;
    let records = with_tap(running, tap, |options| Ok(experiment.run(options)?))?;
    records.iter().filter_map(unsettled).for_each(|told| crate::output::message(&told));
    Ok(records)
}

/// A warning for a run whose device should have reached a steady state and has not.
fn unsettled(record: &RunRecord) -> Option<String> {
    let steady = record.layers.get("steady")?;
    let figure = |name: &str| steady.get(name).and_then(LayerValue::as_f64);
    if figure("steady_settled")? > 0.0 {
        return None;
    }
    let shown = |value: Option<f64>| value.map_or("unknown".to_string(), |value| format!("{value:.3}"));
    let (mean, half_width) = (shown(figure("steady_waf_mean")), shown(figure("steady_waf_half_width_95")));
    let turnovers = shown(figure("steady_turnovers_before"));
    Some(format!(
        "{} on {}, seed {}: not settled after writing {turnovers} times the capacity; WAF {mean} +- {half_width} is not a steady value",
        record.workload, record.stack, record.seed
    ))
}

/// Fills in the spec of chips given only by their file, so that the records name the device.
fn resolved(experiment: &Experiment) -> Result<Experiment, Failure> {
    let mut runs = Vec::with_capacity(experiment.runs().len());
    for run in experiment.runs() {
        let stack = run.stack.resolved().map_err(|error| Failure::Input(error.to_string()))?;
        let run = RunSpec { stack, ..run.clone() };
        run.check()?;
        runs.push(run);
    }
    Ok(Experiment::new(experiment.name.clone(), runs)?)
}

/// Calls `work` with the options of the lab.
pub fn with_options<T>(running: &Running, work: impl FnOnce(&Options<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    with_tap(running, None, work)
}

fn with_tap<T>(
    running: &Running,
    tap: Option<FlashTap>,
    work: impl FnOnce(&Options<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stop = crate::stop::on_signal();
    let host = Host::start();
    let bar = Bar::new();
    let show = |progress: &nandkit_lab::Progress| bar.show(progress);
    // Only stored records need the identity of the build.
    let program = running.out.as_ref().and_then(|_| crate::host::program());
    let options = Options {
        jobs: running.jobs,
        directory: running.out.clone(),
        program: program.as_deref(),
        notice: &crate::output::message,
        inputs: &HostInputs,
        host: &host,
        progress: &show,
        stop: &stop,
        tap,
    };
    let outcome = work(&options);
    bar.clear();
    outcome.map_err(|failure| match (failure, &running.out) {
        (Failure::Stopped(message), Some(out)) => Failure::Stopped(format!(
            "{message}; they are stored in {}: run the same command to continue",
            out.display()
        )),
        (failure, _) => failure,
    })
}
