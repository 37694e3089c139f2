//! Cards that exist, each figure with its source: the eight of P5's table 1.
//!
//! P5 (Chung et al., IEMEK J. Embed. Sys. Appl. 2015) prints four speeds a card and cites Kim, Agrawal, Ungureanu, "Revisiting Storage for Smartphones" (ACM Trans. Storage 8(4), 2012).
//! It tells neither the size of the requests nor anything of the card's inside: what follows from the four speeds and what is assumed stands in each file.

use nandkit_units::suggest;

use super::spec::CardSpec;
use super::spec_check::CardSpecError;

const ALL: [(&str, &str); 8] = [
    ("sd-transcend-2", include_str!("../../../../specs/cards/sd-transcend-2.toml")),
    ("sd-ridata-2", include_str!("../../../../specs/cards/sd-ridata-2.toml")),
    ("sd-sandisk-4", include_str!("../../../../specs/cards/sd-sandisk-4.toml")),
    ("sd-kingston-4", include_str!("../../../../specs/cards/sd-kingston-4.toml")),
    ("sd-wintec-6", include_str!("../../../../specs/cards/sd-wintec-6.toml")),
    ("sd-a-data-6", include_str!("../../../../specs/cards/sd-a-data-6.toml")),
    ("sd-patriot-10", include_str!("../../../../specs/cards/sd-patriot-10.toml")),
    ("sd-pny-10", include_str!("../../../../specs/cards/sd-pny-10.toml")),
];

/// The presets in the order of P5's table: name, and TOML text.
pub const fn all() -> [(&'static str, &'static str); ALL.len()] {
    ALL
}

/// The preset of this name. Errors: [`CardSpecError::UnknownPreset`] with the name most like it.
pub fn load(name: &str) -> Result<CardSpec, CardSpecError> {
    match ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, text)) => CardSpec::from_toml(text),
        None => Err(CardSpecError::UnknownPreset {
            name: name.to_string(),
            nearest: suggest::nearest(name, ALL.iter().map(|(known, _)| *known)).map(str::to_string),
            known: ALL.map(|(known, _)| known).join(", "),
        }),
    }
}
