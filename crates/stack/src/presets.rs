//! The device presets of nandkit: chips, memory cards, and drives ([`crate::ssds`]).

use crate::SpecError;
use nandkit_block::card::{self, CardSpec};
use nandkit_nand_sim::{ChipSpec, presets};

pub use nandkit_nand_sim::Figure;

/// The default device: that of paper P4, with which comparisons of translation layers start.
pub const DEFAULT_DEVICE: &str = "k9l8g08u0m";

/// The NOR part that a device of `kind = "nor"` is where it names no preset.
pub(crate) const NOR_DEVICE: &str = presets::NOR;

/// The names of all chips, in the order in which they are shown.
pub fn names() -> Vec<&'static str> {
    presets::all().iter().map(|(name, _)| *name).collect()
}

/// The chip of this name, with the source of each of its figures. The error for an unknown name
/// suggests the nearest known one.
pub fn chip(name: &str) -> Result<ChipSpec, SpecError> {
    presets::load(name).map_err(SpecError::form)
}

/// The TOML text of a chip, with the source of each figure.
pub fn text(name: &str) -> Option<&'static str> {
    presets::all().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| text)
}

/// The names of all memory cards that are described by request times, in the order in which they
/// are shown. Cards built from parts are drives: [`crate::ssds::names`].
pub fn cards() -> Vec<&'static str> {
    card::presets::names().collect()
}

/// The card of this name, if it exists.
pub fn card(name: &str) -> Option<CardSpec> {
    card::presets::load(name).ok()
}

/// The names of all devices: chips, drives, cards.
pub fn all_names() -> Vec<&'static str> {
    names().into_iter().chain(crate::ssds::names()).chain(cards()).collect()
}
