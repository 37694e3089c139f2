//! `nandkit run`

use std::path::Path;

use nandkit_lab::{Experiment, parse_setting};
use nandkit_record::{METRICS as DEFINED, RunRecord, csv, has_path, metric};
use nandkit_report::listing;
use nandkit_report::page::page;
use nandkit_stack::suggest;
use nandkit_units::Cause;
use nandkit_workload::OperationKind;

use crate::args::RunArguments;
use crate::failure::Failure;
use crate::texts::read_spec;
use crate::tracing::Tracing;
use crate::{output, report, session};

const METRICS: [&str; 5] = ["write_mb_per_s", "read_mb_per_s", "waf", "erases", "latency_ns.write.p99"];
/// Metrics shown in addition if reads may overtake other operations of their die.
const OF_DIES: [&str; 3] =
    ["layers.dies.die_reads_ahead", "layers.dies.die_suspensions", "layers.dies.die_reads_in_flight"];

/// The parts of a record besides its metrics; dotted paths lead into them.
const GROUPS: [&str; 7] = [
    "bytes_programmed_by_area",
    "bytes_programmed_by_cause",
    "device_time_ns_by_cause",
    "erases_per_block",
    "latency_ns",
    "layers",
    "phases",
];

const AREAS: [&str; 2] = ["main", "metadata"];
const ERASES: [&str; 6] = ["min", "p10", "p50", "p90", "max", "never"];
const LATENCIES: [&str; 5] = ["count", "p50", "p99", "p999", "max"];
const PHASES: [&str; 3] = ["format", "fill", "age"];

/// Refuses unknown metrics before a run. Paths below `layers` depend on the stack and are checked
/// by [`check_layers`].
pub fn check_metrics(asked: &[String]) -> Result<(), Failure> {
    asked.iter().try_for_each(|path| check_path(path, path))
}

/// Checks `rest`, the part of the path `whole` below the record or a phase.
fn check_path(whole: &str, rest: &str) -> Result<(), Failure> {
    let unknown = |what: &str, name: &str, known: &[&str]| {
        let told = suggest::unknown(what, name, known);
        Err(Failure::Input(format!(
            "--metrics: {}{told}",
            if name == whole { String::new() } else { format!("{whole}: ") }
        )))
    };
    if metric(rest).is_some() {
        return Ok(());
    }
    let Some((group, below)) = rest.split_once('.').filter(|(group, _)| GROUPS.contains(group)) else {
        let known: Vec<&str> = DEFINED.iter().map(|metric| metric.name).chain(GROUPS).collect();
        return unknown("metric", rest, &known);
    };
    let causes = Cause::ALL.map(Cause::name);
    let leaf = |known: &[&str], name: &str| if known.contains(&name) { Ok(()) } else { unknown("value", name, known) };
    match group {
        "bytes_programmed_by_area" => leaf(&AREAS, below),
        "bytes_programmed_by_cause" | "device_time_ns_by_cause" => leaf(&causes, below),
        "erases_per_block" => leaf(&ERASES, below),
        "latency_ns" => {
            let (kind, part) = below.split_once('.').unwrap_or((below, ""));
            leaf(&OperationKind::ALL.map(OperationKind::name), kind)?;
            leaf(&LATENCIES, part)
        }
        "phases" => {
            let (phase, below) = below.split_once('.').unwrap_or((below, ""));
            leaf(&PHASES, phase)?;
            check_path(whole, below)
        }
        _ => Ok(()),
    }
}

/// Refuses paths below `layers` that none of the records has. They are known only after the run.
pub fn check_layers(asked: &[String], records: &[RunRecord]) -> Result<(), Failure> {
    let is_open = |path: &str| path.strip_prefix("layers.").is_some();
    match asked.iter().find(|path| is_open(path) && !records.iter().any(|record| has_path(record, path))) {
        Some(path) => Err(Failure::Input(format!(
            "--metrics: no record has a value at {path}; expected a path below layers, see the output of --json"
        ))),
        None => Ok(()),
    }
}

/// Runs an experiment.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let path = &arguments.spec;
    check_metrics(&arguments.metrics)?;
    report::check(&arguments.page)?;
    let text = read_spec(path).map_err(|error| {
        Failure::Input(format!(
            "cannot read {}: {error}; expected an experiment in TOML, see nandkit run --help",
            path.display()
        ))
    })?;
    let settings = arguments.settings.iter().map(|text| parse_setting(text)).collect::<Result<Vec<_>, _>>();
    let mut settings = settings.map_err(|error| Failure::Input(format!("--set {error}")))?;
    settings.extend(arguments.device_file.iter().map(|file| ("stack.device.file".to_string(), file.clone().into())));
    let seeds = arguments.seed.map(|seed| vec![seed]);
    let experiment = Experiment::parse(&text, &path.display().to_string(), &settings, seeds.as_deref())?;
    let tracing = arguments.trace.as_deref().map(|path| traced(path, &experiment)).transpose()?;
    let records = session::run_tapped(&experiment, &arguments.running, tracing.as_ref().map(Tracing::tap))?;
    tracing.map_or(Ok(()), Tracing::finish)?;
    report::write(&arguments.page, || page(&format!("Results of {}", path.display()), &records, &[]))?;
    if arguments.format.json {
        return output::json(&to_json(&records)?);
    }
    if arguments.format.csv {
        return output::text(&csv(&records));
    }
    let asked: Vec<&str> = arguments.metrics.iter().map(String::as_str).collect();
    let metrics = if asked.is_empty() { usual_metrics(&records) } else { asked };
    output::text(&listing(&records, &metrics, output::style()))?;
    if let [record] = records.as_slice() {
        crate::summary::stalls(record).iter().for_each(|line| output::message(line));
    }
    check_layers(&arguments.metrics, &records)
}

/// Begins the trace of an experiment of one run.
fn traced(path: &Path, experiment: &Experiment) -> Result<Tracing, Failure> {
    match experiment.runs() {
        [run] => Tracing::begin(path, &run.stack),
        runs => Err(Failure::Input(format!("--trace: {} runs; expected one, see --set and --seed", runs.len()))),
    }
}

/// The default columns.
fn usual_metrics(records: &[RunRecord]) -> Vec<&'static str> {
    let has_queues = records.iter().any(|record| record.layers.contains_key("dies"));
    METRICS.into_iter().chain(OF_DIES.into_iter().filter(|_| has_queues)).collect()
}

/// Records as a JSON list.
pub fn to_json(records: &[RunRecord]) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(records).map_err(|error| Failure::Input(format!("cannot print the records: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_that_no_record_has_are_refused_before_the_run() {
        for good in [
            "waf",
            "latency_ns.write.p999",
            "latency_ns.make_directory.max",
            "erases_per_block.p90",
            "bytes_programmed_by_cause.wear_levelling",
            "bytes_programmed_by_area.metadata",
            "phases.fill.latency_ns.write.p50",
            "phases.format.erases",
            "layers.ftl.merges",
        ] {
            assert!(check_metrics(&[good.to_string()]).is_ok(), "{good}");
        }
        for (bad, expected) in [
            ("waff", "did you mean \"waf\""),
            ("layers", "layers"),
            ("latency_ns.write.p98", "did you mean \"p99\""),
            ("latency_ns.wrote.p99", "did you mean \"write\""),
            ("latency_ns.write", "p999"),
            ("erases_per_block.p51", "p50"),
            ("bytes_programmed_by_cause.userdata", "user_data"),
            ("bytes_programmed_by_area.man", "main"),
            ("phases.measure.waf", "format"),
            ("phases.fill.wuf", "waf"),
        ] {
            let error = check_metrics(&[bad.to_string()]).unwrap_err();
            assert!(error.status() == 2 && error.message().unwrap().contains(expected), "{bad}: {error:?}");
        }
    }

    #[test]
    fn a_layers_value_that_no_record_has_is_refused_after_the_run() {
        for (path, is_there) in [("waf", true), ("layers.ftl.merges", false)] {
            assert_eq!(check_layers(&[path.to_string()], &[]).is_ok(), is_there, "{path}");
        }
    }
}
