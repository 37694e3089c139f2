//! `nandkit workloads`

use nandkit_report::{Align, Table};
use nandkit_workload::{WorkloadDescription, WorkloadSpec};
use serde_json::{Value, json};

use crate::args::WorkloadsArguments;
use crate::failure::Failure;
use crate::output;

/// Lists the workloads, or shows one with its parameters.
pub fn workloads(arguments: &WorkloadsArguments) -> Result<(), Failure> {
    let all = WorkloadSpec::list();
    let Some(name) = &arguments.name else {
        if arguments.json {
            return output::json(&all.iter().map(as_json).collect());
        }
        let mut table = Table::new([("workload", Align::Left), ("on", Align::Left), ("what it does", Align::Left)]);
        for workload in &all {
            table.row([workload.name, runs_on(workload), workload.summary]);
        }
        return output::text(&table.text());
    };
    let spec = WorkloadSpec::named(name).map_err(|error| Failure::Input(error.to_string()))?;
    let Some(workload) = all.iter().find(|workload| workload.name == spec.name()) else {
        return Err(Failure::Input(format!("the workload {name} has no description")));
    };
    if arguments.json {
        return output::json(&as_json(workload));
    }
    let mut text = format!("{}: {}\nruns on {}\n", workload.name, workload.summary, runs_on(workload));
    if let Some(positional) = workload.positional {
        text += &format!(
            "{}:{} is short for {}:{positional}=...\n",
            workload.name,
            positional.to_uppercase(),
            workload.name
        );
    }
    let mut table = Table::new([("parameter", Align::Left), ("default", Align::Right), ("what it is", Align::Left)]);
    for parameter in &workload.parameters {
        table.row([parameter.name.to_string(), parameter.default.to_string(), parameter.help.clone()]);
        table.row([String::new(), String::new(), format!("  {}", parameter.expected)]);
    }
    text += &format!("\n{}", table.text());
    output::text(&text)
}

fn runs_on(workload: &WorkloadDescription) -> &'static str {
    match (workload.on_files, workload.on_blocks) {
        (true, true) => "files, blocks",
        (false, true) => "blocks",
        _ => "files",
    }
}

fn as_json(workload: &WorkloadDescription) -> Value {
    let parameters: Vec<Value> = workload
        .parameters
        .iter()
        .map(|parameter| {
            json!({
                "name": parameter.name,
                "help": parameter.help,
                "expected": parameter.expected,
                "default": parameter.default,
            })
        })
        .collect();
    json!({
        "name": workload.name,
        "summary": workload.summary,
        "on_files": workload.on_files,
        "on_blocks": workload.on_blocks,
        "positional": workload.positional,
        "parameters": parameters,
    })
}
