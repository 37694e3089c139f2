//! The built-in layouts, each with its sources.

use std::sync::{Arc, OnceLock};

use nandkit_units::suggest;

use super::layout::OobLayout;
use crate::error::{ImageError, Result};

const TEXTS: [(&str, &str); 18] = [
    ("linux-hamming-512-16", include_str!("../../../../specs/oob/linux-hamming-512-16.toml")),
    ("linux-hamming-2048-64", include_str!("../../../../specs/oob/linux-hamming-2048-64.toml")),
    ("linux-hamming-4096-128", include_str!("../../../../specs/oob/linux-hamming-4096-128.toml")),
    ("smartmedia-512-16", include_str!("../../../../specs/oob/smartmedia-512-16.toml")),
    ("linux-bch4-2048-64", include_str!("../../../../specs/oob/linux-bch4-2048-64.toml")),
    ("linux-bch8-2048-64", include_str!("../../../../specs/oob/linux-bch8-2048-64.toml")),
    ("linux-bch8-4096-224", include_str!("../../../../specs/oob/linux-bch8-4096-224.toml")),
    ("omap-bch8-2048-64", include_str!("../../../../specs/oob/omap-bch8-2048-64.toml")),
    ("gpmi-bch8-2048-64", include_str!("../../../../specs/oob/gpmi-bch8-2048-64.toml")),
    ("gpmi-bch16-4096-224", include_str!("../../../../specs/oob/gpmi-bch16-4096-224.toml")),
    ("gpmi-bch18-4096-256", include_str!("../../../../specs/oob/gpmi-bch18-4096-256.toml")),
    ("qcom-bch4-2048-64", include_str!("../../../../specs/oob/qcom-bch4-2048-64.toml")),
    ("qcom-bch8-2048-128", include_str!("../../../../specs/oob/qcom-bch8-2048-128.toml")),
    ("brcm-bch4-2048-64", include_str!("../../../../specs/oob/brcm-bch4-2048-64.toml")),
    ("marvell-bch16-2048-64", include_str!("../../../../specs/oob/marvell-bch16-2048-64.toml")),
    ("sunxi-bch16-2048-64", include_str!("../../../../specs/oob/sunxi-bch16-2048-64.toml")),
    ("mtk-bch12-4096-256", include_str!("../../../../specs/oob/mtk-bch12-4096-256.toml")),
    ("mtk-bch32-4096-256", include_str!("../../../../specs/oob/mtk-bch32-4096-256.toml")),
];

/// The built-in layouts in display order. Cost: some milliseconds, once.
pub fn all() -> &'static [Arc<OobLayout>] {
    static ALL: OnceLock<Vec<Arc<OobLayout>>> = OnceLock::new();
    ALL.get_or_init(|| TEXTS.iter().filter_map(|(_, text)| OobLayout::from_toml(text).ok().map(Arc::new)).collect())
}

/// The built-in layout with this name. Errors: `Layout` for an unknown name, with the most similar
/// one.
pub fn named(name: &str) -> Result<Arc<OobLayout>> {
    if let Some(found) = all().iter().find(|layout| layout.name().eq_ignore_ascii_case(name)) {
        return Ok(Arc::clone(found));
    }
    let names = TEXTS.map(|(known, _)| known);
    let nearest = suggest::nearest(name, names);
    let meant = nearest.map_or_else(String::new, |nearest| format!(" (did you mean \"{nearest}\"?)"));
    Err(ImageError::layout(format!(
        "no layout is called \"{name}\"{meant}; expected a TOML file, \"none\", or one of {}",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_layout_adds_up_and_names_its_sources() {
        for (name, text) in TEXTS {
            let layout = OobLayout::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(layout.name(), name);
            assert!(!layout.title().is_empty() && !layout.sources().is_empty(), "{name}");
            assert!(name.ends_with(&format!("-{}-{}", layout.page_size(), layout.oob_size())), "{name}");
        }
        assert_eq!(all().len(), TEXTS.len());
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_name() {
        let error = named("linux-bch4-2048-46").unwrap_err().to_string();
        assert!(error.contains("did you mean \"linux-bch4-2048-64\""), "{error}");
        assert_eq!(named("QCOM-bch8-2048-128").unwrap().name(), "qcom-bch8-2048-128");
    }
}
