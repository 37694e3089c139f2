//! `nandkit devices`

use nandkit_report::{Align, Table};
use nandkit_stack::presets;
use nandkit_units::format_bytes;
use serde_json::json;

use crate::args::DevicesArguments;
use crate::failure::Failure;
use crate::output;

/// Lists the presets, or shows one with the source of each figure.
pub fn devices(arguments: &DevicesArguments) -> Result<(), Failure> {
    match &arguments.name {
        Some(name) => one(name, arguments.json),
        None => all(arguments.json),
    }
}

fn all(as_json: bool) -> Result<(), Failure> {
    let mut table = Table::new([
        ("device", Align::Left),
        ("size", Align::Right),
        ("page", Align::Right),
        ("pages/block", Align::Right),
        ("blocks", Align::Right),
        ("what it is", Align::Left),
    ]);
    let mut list = Vec::new();
    for name in presets::names() {
        let chip = presets::chip(name).map_err(Failure::Input)?;
        let geometry = chip.geometry.build();
        list.push(json!({"name": name, "title": chip.title, "capacity_bytes": geometry.capacity()}));
        table.row([
            name.to_string(),
            format_bytes(geometry.capacity()),
            geometry.page_size.to_string(),
            geometry.pages_per_block.to_string(),
            geometry.blocks.to_string(),
            chip.title,
        ]);
    }
    if as_json { output::json(&list.into()) } else { output::text(&table.text()) }
}

fn one(name: &str, as_json: bool) -> Result<(), Failure> {
    let chip = presets::chip(name).map_err(Failure::Input)?;
    let figures = chip.figures().map_err(|error| Failure::Input(error.to_string()))?;
    if as_json {
        let figures: Vec<_> = figures
            .iter()
            .map(|figure| json!({"key": figure.key, "value": figure.value, "source": figure.source}))
            .collect();
        return output::json(&json!({"name": chip.name, "title": chip.title, "figures": figures}));
    }
    let mut table = Table::new([("figure", Align::Left), ("value", Align::Right), ("source", Align::Left)]);
    for figure in figures {
        table.row([figure.key, figure.value, figure.source.unwrap_or_else(|| "assumption".to_string())]);
    }
    let size = format_bytes(chip.geometry.build().capacity());
    output::text(&format!("{}: {}, {size}\n\n{}", chip.name, chip.title, table.text()))
}
