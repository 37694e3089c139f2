//! Presets of real cards, with a source for each figure.
//!
//! * The eight of P5's table 1 (Chung et al., IEMEK J. Embed. Sys. Appl. 2015, after Kim, Agrawal,
//!   Ungureanu, "Revisiting Storage for Smartphones", ACM Trans. Storage 8(4), 2012): four speeds
//!   per card, without request sizes or internals.
//! * Measured by request size: four from OLPC's table, eight on a Raspberry Pi 5, two of which the
//!   open units were measured too.
//! * Roles: P1's cards A, B and C. The paper says little more than their order; each role names one
//!   of the cards above.
//!
//! Each file, and `docs/design/15-cards.md`, says what follows from the tables by which rule, and
//! what is assumed.

use std::collections::BTreeMap;

use nandkit_units::suggest;
use serde::Deserialize;

use super::spec::CardSpec;
use super::spec_check::CardSpecError;

macro_rules! cards {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../specs/cards/", $name, ".toml")))),*]
    };
}

const ALL: [(&str, &str); 22] = cards![
    "sd-transcend-2",
    "sd-ridata-2",
    "sd-sandisk-4",
    "sd-kingston-4",
    "sd-wintec-6",
    "sd-a-data-6",
    "sd-patriot-10",
    "sd-pny-10",
    "sd-olpc-high",
    "sd-olpc-sandisk-2",
    "sd-olpc-toshiba-4",
    "sd-olpc-unusable",
    "sd-amazon-64",
    "sd-amazon-128",
    "sd-extreme-64",
    "sd-extreme-pro-128",
    "sd-pro-plus-128",
    "sd-raspberry-32",
    "sd-raspberry-64",
    "sd-raspberry-128",
    "sd-lexar-16",
    "sd-ultra-64",
];

const ROLES: [(&str, &str); 3] = cards!["card-a", "card-b", "card-c"];

/// A card that an experiment requires, and the measured card that represents it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardRole {
    /// Short name, as used for presets.
    pub name: String,
    /// A one-line title for people.
    pub title: String,
    /// The measured card that represents it.
    pub preset: String,
    /// Why this card was chosen.
    pub reason: String,
    /// Other candidates, with the arguments for and against each.
    pub alternatives: BTreeMap<String, String>,
}

/// The measured cards in display order: name, and TOML text.
pub const fn all() -> [(&'static str, &'static str); ALL.len()] {
    ALL
}

/// The names of all cards and roles, in display order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().chain(ROLES).map(|(name, _)| name)
}

/// The role with this name, if any. Errors: [`CardSpecError::Syntax`], which no built-in role
/// causes.
pub fn role(name: &str) -> Result<Option<CardRole>, CardSpecError> {
    let text = ROLES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| text);
    let read = |text: &&str| toml::from_str(text).map_err(|error| CardSpecError::Syntax(error.to_string()));
    text.map(read).transpose()
}

/// The preset with this name; for a role the card that represents it, with the role's name and
/// title. Errors: [`CardSpecError::UnknownPreset`] with the most similar name.
pub fn load(name: &str) -> Result<CardSpec, CardSpecError> {
    if let Some(CardRole { name, title, preset, .. }) = role(name)? {
        return Ok(CardSpec { name, title: format!("{title}: {preset}"), ..measured(&preset)? });
    }
    measured(name)
}

fn measured(name: &str) -> Result<CardSpec, CardSpecError> {
    match ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, text)) => CardSpec::from_toml(text),
        None => Err(CardSpecError::UnknownPreset {
            name: name.to_string(),
            nearest: suggest::nearest(name, names()).map(str::to_string),
            known: names().collect::<Vec<_>>().join(", "),
        }),
    }
}
