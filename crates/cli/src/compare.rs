//! `nandkit compare`: compares stacks on workloads.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use nandkit_lab::{Experiment, Precondition, RunSpec};
use nandkit_record::{RunRecord, csv, layer_legend, legend, read_lines};
use nandkit_report::page::page;
use nandkit_report::{Style, comparison, fold, listing, verdicts, words};
use nandkit_stack::format::FORMATS;
use nandkit_workload::{SpecError, Value, WorkloadSpec};
use serde_json::json;

use crate::args::{CompareArguments, Format, Printed};
use crate::failure::Failure;
use crate::run::{check_layers, check_metrics, to_json};
use crate::stacks::Compared;
use crate::{output, report, session, stacks};

/// The default workloads: PostMark with large files and a mail server, then P4's three embedded
/// workloads. Each exceeds the host's memory or syncs.
const DEFAULT_WORKLOADS: [&str; 5] = ["postmark-large", "varmail", "fax", "phone", "event-recorder"];

const DEFAULT_SEEDS: u64 = 2;

/// Compares stacks on workloads, or existing records.
pub fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    check_metrics(&arguments.metrics)?;
    report::check(&arguments.page)?;
    let (records, notes) =
        if arguments.records.is_empty() { measure(arguments)? } else { (read(&arguments.records)?, Vec::new()) };
    show(&records, &notes, arguments)?;
    report::write(&arguments.page, || page("Comparison", &records, &notes))
}

/// Reads the records of these files.
fn read(files: &[PathBuf]) -> Result<Vec<RunRecord>, Failure> {
    let mut records = Vec::new();
    for file in files {
        let wrong = |error: String| Failure::Input(format!("{}: {error}", file.display()));
        let found = if file.as_os_str() == "-" {
            read_lines(std::io::stdin().lock())
        } else {
            read_lines(BufReader::new(File::open(file).map_err(|error| wrong(error.to_string()))?))
        };
        let found = found.map_err(|error| wrong(error.to_string()))?;
        if found.is_empty() {
            return Err(wrong(
                "the file holds no record; expected lines written by exec --json or run --out".to_owned(),
            ));
        }
        records.extend(found);
    }
    Ok(records)
}

/// Runs the comparison; returns the records, and notes about the stacks.
fn measure(arguments: &CompareArguments) -> Result<(Vec<RunRecord>, Vec<String>), Failure> {
    let Compared { stacks, mut notes, precondition: by_itself } = stacks::stacks(arguments)?;
    let names: Vec<&str> = match arguments.workloads.as_slice() {
        [] => DEFAULT_WORKLOADS.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let restricted = stacks.iter().any(|stack| stack.fs.restricts_names());
    let workloads: Vec<WorkloadSpec> = names
        .iter()
        .map(|text| workload(text, restricted))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::Input(format!("--workload: {error}")))?;
    // A chip in a file allows one run at a time.
    let by_default = if arguments.device_file.is_some() { 1 } else { DEFAULT_SEEDS };
    let seeds: Vec<u64> = (1..=arguments.seeds.unwrap_or(by_default)).collect();
    let runs = Experiment::product(&stacks, &workloads, &seeds)?;
    let verify = !arguments.no_verify;
    let precondition = arguments.precondition.as_deref().map_or(Ok(by_itself), Precondition::named);
    let precondition = precondition.map_err(|error| Failure::Input(format!("--precondition: {error}")))?;
    notes.extend(precondition.told());
    let runs: Vec<RunSpec> = runs.runs().iter().map(|run| RunSpec { verify, precondition, ..run.clone() }).collect();
    runs.iter().try_for_each(RunSpec::check)?;
    Ok((session::run(&Experiment::new("", runs)?, &arguments.running)?, notes))
}

/// The requested output format.
fn printed(arguments: &CompareArguments) -> Printed {
    match (arguments.printed, &arguments.format) {
        (Some(printed), _) => printed,
        (None, Format { json: true, .. }) => Printed::Json,
        (None, Format { csv: true, .. }) => Printed::Csv,
        (None, _) => Printed::Text,
    }
}

fn show(records: &[RunRecord], notes: &[String], arguments: &CompareArguments) -> Result<(), Failure> {
    let style = match printed(arguments) {
        Printed::Csv => return output::text(&csv(records)),
        Printed::Json => return show_json(records, notes),
        Printed::Text => output::style(),
        Printed::Md => Style { markdown: true, colour: false, ..output::style() },
    };
    if !arguments.metrics.is_empty() {
        let asked: Vec<&str> = arguments.metrics.iter().map(String::as_str).collect();
        output::text(&listing(records, &asked, style))?;
        return check_layers(&arguments.metrics, records);
    }
    let mut text = comparison(records, style);
    if !notes.is_empty() {
        text += &format!("{}\n", fold(&notes.join("\n")));
    }
    output::text(&text)
}

fn show_json(records: &[RunRecord], notes: &[String]) -> Result<(), Failure> {
    let verdicts = verdicts(records);
    let list: Vec<_> = verdicts
        .iter()
        .map(|verdict| {
            json!({
                "workload": verdict.workload,
                "metric": verdict.metric,
                "best": verdict.best,
                "first": verdict.first,
                "gain_over_first": verdict.gain_over_first,
                "about_equal": verdict.about_equal,
            })
        })
        .collect();
    output::json(&json!({
        "verdicts": list,
        "words": words(&verdicts),
        "notes": notes,
        "records": to_json(records)?,
        "metrics": metrics(records),
    }))
}

/// The metrics of every record, and those of the file systems in these records.
fn metrics(records: &[RunRecord]) -> Vec<serde_json::Value> {
    let mut all = legend().as_array().cloned().unwrap_or_default();
    for format in FORMATS {
        let is_of = |record: &RunRecord| record.spec["stack"]["fs"]["kind"] == format.name();
        if let Some(emulated) = format.emulate().filter(|_| records.iter().any(is_of)) {
            all.extend(layer_legend("fs", format.name(), &emulated.statistics()));
        }
    }
    all
}

/// Parses a workload. If FAT takes part, files copied from a directory get names that FAT can hold,
/// on all stacks alike, unless the user sets the names.
fn workload(text: &str, restricted: bool) -> Result<WorkloadSpec, SpecError> {
    let (mut spec, given) = WorkloadSpec::parse_with_keys(text)?;
    if restricted && matches!(spec, WorkloadSpec::Tree(_)) && !given.contains(&"names") {
        spec.set("names", &Value::Text("portable".to_string()))?;
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_restricted_are_portable_unless_the_user_says_otherwise() {
        for (text, restricted, expected) in [
            ("tree:td", true, "portable"),
            ("tree:dir=td", true, "portable"),
            ("tree:names=keep,dir=td", true, "keep"),
            ("tree:td,names=keep", true, "keep"),
            ("tree:td", false, "keep"),
        ] {
            let values = workload(text, restricted).unwrap().values();
            let names = values.iter().find(|(key, _)| *key == "names").unwrap();
            assert_eq!(names.1.to_string(), expected, "{text}");
        }
    }
}
