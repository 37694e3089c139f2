//! The chips that ship with nandkit.

use nandkit_nand_sim::{ChipSpec, presets};

pub use nandkit_nand_sim::Figure;

/// The names of all presets, in the order in which they are shown.
pub fn names() -> Vec<&'static str> {
    presets::all().iter().map(|(name, _)| *name).collect()
}

/// The preset of this name, with the source of each of its figures. An unknown name is answered with the nearest right one.
pub fn chip(name: &str) -> Result<ChipSpec, String> {
    presets::load(name).map_err(|error| error.to_string())
}

/// A preset's text, in which each figure stands with its source.
pub fn text(name: &str) -> Option<&'static str> {
    presets::all().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| text)
}
