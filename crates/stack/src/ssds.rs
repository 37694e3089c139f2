//! The drive presets of nandkit, and memory cards built from parts: a chip array, a host interface
//! and a translation layer, each figure with its source.

use std::collections::BTreeMap;

use nandkit_block::HostLinkSpec;
use nandkit_nand_sim::{ChipSpec, Figure};
use toml::{Table, Value};

use crate::FtlSpec;
use crate::SpecError;
use crate::named::{take, whole};

const ALL: [(&str, &str); 7] = [
    ("p3-ssd", include_str!("../../../specs/ssds/p3-ssd.toml")),
    ("sata-tlc", include_str!("../../../specs/ssds/sata-tlc.toml")),
    ("nvme-tlc", include_str!("../../../specs/ssds/nvme-tlc.toml")),
    ("dramless-tlc", include_str!("../../../specs/ssds/dramless-tlc.toml")),
    ("card-parts-block-map", include_str!("../../../specs/cards/card-parts-block-map.toml")),
    ("card-parts-fast", include_str!("../../../specs/cards/card-parts-fast.toml")),
    ("card-parts-page-map", include_str!("../../../specs/cards/card-parts-page-map.toml")),
];

/// The sections of a drive that a chip does not have.
const INTERFACE: &str = "interface";
const FTL: &str = "ftl";

/// A drive: its chips, its host interface, and its default translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdPreset {
    /// The chip array.
    pub chip: ChipSpec,
    /// The host interface.
    pub interface: HostLinkSpec,
    /// The translation layer.
    pub ftl: FtlSpec,
    /// The layer's table from its file, without defaults.
    layer: Table,
    /// Sources of the figures of interface and layer, in the form of [`ChipSpec::sources`].
    pub sources: BTreeMap<String, String>,
}

/// The names of all drives, in the order in which they are shown.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// The drive of this name, if it exists. Error: its file is not a valid drive, which does not
/// happen for shipped files.
pub fn load(name: &str) -> Option<Result<SsdPreset, SpecError>> {
    ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| SsdPreset::from_toml(text))
}

/// The layer's table in the file of this drive.
pub(crate) fn layer(name: &str) -> Option<Table> {
    load(name).and_then(Result::ok).map(|drive| drive.layer)
}

impl SsdPreset {
    /// Reads a drive: a chip's spec with the sections `interface` and `ftl`. Error: names the key,
    /// its value, and what was expected.
    fn from_toml(text: &str) -> Result<Self, SpecError> {
        let mut table: Table = toml::from_str(text).map_err(|error| SpecError::form(error.to_string().trim_end()))?;
        let interface = interface_of(take(&mut table, INTERFACE)?.unwrap_or_default())?;
        let layer: Table = take(&mut table, FTL)?.unwrap_or_default();
        let mut sources = BTreeMap::new();
        if let Some(Value::Table(all)) = table.get_mut("sources") {
            let own: Vec<String> = all.keys().filter(|key| is_own(key)).cloned().collect();
            for key in own {
                if let Some(Value::String(text)) = all.remove(&key) {
                    sources.insert(key, text);
                }
            }
        }
        let chip = ChipSpec::from_table(&table).map_err(SpecError::form)?;
        let ftl = FtlSpec::from_table(layer.clone())?;
        Ok(Self { chip, interface, ftl, layer, sources })
    }

    /// Every figure with its value and source: those of the chip, then interface and layer.
    pub fn figures(&self) -> Result<Vec<Figure>, SpecError> {
        let mut figures = self.chip.figures().map_err(SpecError::form)?;
        let interface = Table::try_from(&self.interface).map_err(SpecError::form)?;
        for (section, entries) in [(INTERFACE, &interface), (FTL, &self.layer)] {
            figures.extend(entries.iter().map(|(name, value)| {
                let key = format!("{section}.{name}");
                let source = self.sources.get(&key).or_else(|| self.sources.get(section)).cloned();
                Figure { key, value: value.to_string(), source }
            }));
        }
        Ok(figures)
    }
}

/// Whether a source belongs to the interface or the layer.
fn is_own(key: &str) -> bool {
    [INTERFACE, FTL].contains(&key.split('.').next().unwrap_or_default())
}

/// Reads an interface. Errors name the key with its section.
pub(crate) fn interface_of(table: Table) -> Result<HostLinkSpec, SpecError> {
    let spec: HostLinkSpec = whole(table).map_err(|error: SpecError| error.within(INTERFACE))?;
    spec.check().map_err(|detail| SpecError::range(format!("{INTERFACE}.{detail}")))?;
    Ok(spec)
}
