//! `nandkit run`

use std::fs;

use nandkit_lab::{Experiment, parse_setting};
use nandkit_record::{RunRecord, csv};
use nandkit_report::listing;

use crate::args::RunArguments;
use crate::failure::Failure;
use crate::{output, session};

const METRICS: [&str; 5] = ["write_mb_per_s", "read_mb_per_s", "waf", "erases", "latency_ns.write.p99"];

/// Runs an experiment.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let path = &arguments.spec;
    let text = fs::read_to_string(path).map_err(|error| {
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
    let records = session::run(&experiment, &arguments.running)?;
    if arguments.format.json {
        return output::json(&to_json(&records)?);
    }
    if arguments.format.csv {
        return output::text(&csv(&records));
    }
    let asked: Vec<&str> = arguments.metrics.iter().map(String::as_str).collect();
    let metrics = if asked.is_empty() { METRICS.as_slice() } else { &asked };
    output::text(&listing(&records, metrics, output::style()))
}

/// Records as a JSON list.
pub fn to_json(records: &[RunRecord]) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(records).map_err(|error| Failure::Input(format!("cannot print the records: {error}")))
}
