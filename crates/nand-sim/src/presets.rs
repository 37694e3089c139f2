//! Presets of real chips, with a source for each figure.

use nandkit_units::suggest;

use crate::spec::ChipSpec;
use crate::spec_error::SpecError;

const ALL: [(&str, &str); 8] = [
    ("k9l8g08u0m", include_str!("../../../specs/devices/k9l8g08u0m.toml")),
    ("slc-256m", include_str!("../../../specs/devices/slc-256m.toml")),
    ("nandsim-32m-128k", include_str!("../../../specs/devices/nandsim-32m-128k.toml")),
    ("nandsim-32m-16k", include_str!("../../../specs/devices/nandsim-32m-16k.toml")),
    ("nandsim-256m", include_str!("../../../specs/devices/nandsim-256m.toml")),
    ("slc-embedded-2g", include_str!("../../../specs/devices/slc-embedded-2g.toml")),
    ("tlc-16k", include_str!("../../../specs/devices/tlc-16k.toml")),
    (NOR, include_str!("../../../specs/devices/w25q128jv.toml")),
];

/// The preset that a NOR part is where a spec names none.
pub const NOR: &str = "w25q128jv";

/// The presets in the order in which they are shown: name, and TOML text.
pub const fn all() -> [(&'static str, &'static str); ALL.len()] {
    ALL
}

/// Loads the preset with this name; the error for an unknown name suggests the most similar one.
pub fn load(name: &str) -> Result<ChipSpec, SpecError> {
    match ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, text)) => ChipSpec::from_toml(text),
        None => Err(SpecError::UnknownPreset {
            name: name.to_string(),
            nearest: suggest::nearest(name, ALL.iter().map(|(known, _)| *known)).map(str::to_string),
            known: ALL.map(|(known, _)| known).join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContentChip;

    #[test]
    fn every_preset_loads_and_every_figure_has_a_source() {
        for (name, _) in all() {
            let spec = load(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(spec.name, name);
            assert!(!spec.title.is_empty());
            spec.check_sources().unwrap_or_else(|error| panic!("{name}: {error}"));
            ContentChip::new(&spec, 1).unwrap();
        }
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_name() {
        let error = load("k9l8g08u0").unwrap_err();
        assert!(error.to_string().contains("did you mean \"k9l8g08u0m\""), "{error}");
        assert!(load("zzz").unwrap_err().to_string().contains("known are k9l8g08u0m, slc-256m"));
    }

    #[test]
    fn p4_chip_has_the_papers_times() {
        let spec = load("K9L8G08U0M").unwrap();
        let times = crate::timing::Times::new(&spec);
        let found = (times.read(0), times.program(0), times.copy(0, 0), times.erase, times.transfer(2112));
        assert_eq!(found, (113_000, 1_013_000, 1_128_000, 1_500_000, 0));
        let geometry = spec.geometry.build();
        assert_eq!((geometry.page_size, geometry.oob_size, geometry.pages_per_block), (2048, 64, 128));
    }
}
