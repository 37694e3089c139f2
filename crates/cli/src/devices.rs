//! `nandkit devices`

use std::fmt::Display;

use nandkit_block::card::presets::{CardRole, role as card_role};
use nandkit_report::{Align, Table};
use nandkit_stack::{presets, ssds, suggest};
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
    for name in presets::names().into_iter().chain(ssds::names()) {
        let chip = match ssds::load(name) {
            Some(drive) => drive.map_err(wrong)?.chip,
            None => presets::chip(name).map_err(wrong)?,
        };
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
    for name in presets::cards() {
        let Some(card) = presets::card(name) else { continue };
        let geometry = &card.geometry;
        list.push(json!({"name": name, "title": card.title, "capacity_bytes": geometry.capacity}));
        let (size, page) = (format_bytes(geometry.capacity), geometry.page_size.to_string());
        table.row([name.to_string(), size, page, String::new(), String::new(), card.title]);
    }
    if as_json { output::json(&list.into()) } else { output::text(&table.text()) }
}

/// A device with its figures.
struct Shown {
    name: String,
    title: String,
    capacity: u64,
    figures: Vec<(String, String, Option<String>)>,
}

fn wrong(error: impl Display) -> Failure {
    Failure::Input(error.to_string())
}

fn shown(name: &str) -> Result<Shown, Failure> {
    if let Some(card) = presets::card(name) {
        let figures = card.figures().map_err(wrong)?;
        let figures = figures.into_iter().map(|figure| (figure.key, figure.value, figure.source)).collect();
        return Ok(Shown { name: card.name, title: card.title, capacity: card.geometry.capacity, figures });
    }
    let (chip, figures) = match ssds::load(name) {
        Some(drive) => {
            let drive = drive.map_err(wrong)?;
            let figures = drive.figures().map_err(wrong)?;
            (drive.chip, figures)
        }
        None if presets::names().iter().any(|known| known.eq_ignore_ascii_case(name)) => {
            let chip = presets::chip(name).map_err(wrong)?;
            let figures = chip.figures().map_err(wrong)?;
            (chip, figures)
        }
        None => return Err(wrong(suggest::unknown("device", name, &presets::all_names()))),
    };
    let figures = figures.into_iter().map(|figure| (figure.key, figure.value, figure.source)).collect();
    let capacity = chip.geometry.build().capacity();
    Ok(Shown { name: chip.name, title: chip.title, capacity, figures })
}

/// Why a role uses its card, and which other cards could serve.
fn reasons(role: &CardRole) -> String {
    let mut text = format!("\nplayed by {}: {}\n", role.preset, role.reason);
    for (name, why) in &role.alternatives {
        text += &format!("  not {name}: {why}\n");
    }
    text
}

fn one(name: &str, as_json: bool) -> Result<(), Failure> {
    let role = card_role(name).map_err(wrong)?;
    let Shown { name, title, capacity, figures } = shown(name)?;
    if as_json {
        let figures: Vec<_> =
            figures.iter().map(|(key, value, source)| json!({"key": key, "value": value, "source": source})).collect();
        return output::json(&json!({"name": name, "title": title, "figures": figures}));
    }
    let mut table = Table::new([("figure", Align::Left), ("value", Align::Right), ("source", Align::Left)]);
    for (key, value, source) in figures {
        table.row([key, value, source.unwrap_or_else(|| "assumption".to_string())]);
    }
    let reasons = role.as_ref().map_or_else(String::new, reasons);
    output::text(&format!("{name}: {title}, {}\n{reasons}\n{}", format_bytes(capacity), table.text()))
}
