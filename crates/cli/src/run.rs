//! `nandkit run`

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nandkit_lab::{Experiment, parse_setting};
use nandkit_record::{METRICS as DEFINED, RunRecord, csv, metric};
use nandkit_report::listing;
use nandkit_stack::suggest;

use crate::args::RunArguments;
use crate::failure::Failure;
use crate::{output, session};

const METRICS: [&str; 5] = ["write_mb_per_s", "read_mb_per_s", "waf", "erases", "latency_ns.write.p99"];

/// What a record holds besides its metrics, each with dotted paths below it.
const GROUPS: [&str; 7] = [
    "bytes_programmed_by_area",
    "bytes_programmed_by_cause",
    "device_time_ns_by_cause",
    "erases_per_block",
    "latency_ns",
    "layers",
    "phases",
];

/// Bytes of a spec at the most: what is larger is something else.
const SPEC_MAX: u64 = 16 << 20;

/// Reads a spec, which is text of a sensible size.
pub fn read_spec(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(SPEC_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > SPEC_MAX {
        return Err(io::Error::other(format!("it has more than {SPEC_MAX} bytes")));
    }
    Ok(text)
}

/// Refuses metrics that no record has. What stands below a group depends on the stack.
fn check_metrics(asked: &[String]) -> Result<(), Failure> {
    let below_group = |name: &str| name.split_once('.').is_some_and(|(group, _)| GROUPS.contains(&group));
    match asked.iter().find(|name| metric(name).is_none() && !below_group(name)) {
        Some(name) => {
            let known: Vec<&str> = DEFINED.iter().map(|metric| metric.name).chain(GROUPS).collect();
            Err(Failure::Input(format!("--metrics: {}", suggest::unknown("metric", name, &known))))
        }
        None => Ok(()),
    }
}

/// Runs an experiment.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let path = &arguments.spec;
    check_metrics(&arguments.metrics)?;
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
