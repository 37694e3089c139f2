//! The device of a stack: a preset, with whatever the spec changes of it.

use std::path::Path;

use nandkit_nand_sim::ChipSpec;
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::StackError;
use crate::named::{overlay, table_or_name, take};

/// What the emulated chip keeps of the bytes that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// Every byte.
    Content,
    /// Descriptions of what workloads generate, and every other byte.
    #[default]
    Described,
    /// A tag for each page: for block workloads on large devices. File systems cannot run on it.
    Shadow,
    /// The logical page that each page holds, in a few bytes, and no content: for block workloads on the largest devices, in memory. File systems cannot run on it.
    Address,
}

impl StoreKind {
    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Described => "described",
            Self::Shadow => "shadow",
            Self::Address => "address",
        }
    }

    /// Whether reads deliver what was written.
    pub const fn keeps_content(self) -> bool {
        matches!(self, Self::Content | Self::Described)
    }
}

/// The device of a stack. In a spec: the name of a preset, or a table with the keys `preset`, `blocks`, `store` and any key of a chip's spec
/// (`timing.read_ns`, ...), which goes over the preset's. `preset = "ram"` with `size` is a block device in memory, without flash.
///
/// `file = "PATH"` keeps the chip in a file: it is made if there is none, and must be the chip asked for if there is. `file` alone takes the
/// chip as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceSpec {
    /// An emulated chip.
    Chip {
        /// The preset's name; `custom` where the spec names none.
        preset: String,
        /// What the chip keeps.
        store: StoreKind,
        /// Every figure of the chip. The texts on their sources stay with the preset.
        chip: Box<ChipSpec>,
        /// The file that it is kept in; `None` for a new chip in memory.
        file: Option<String>,
    },
    /// The chip that a file holds, whatever it is; where there is no file, a new one with P4's chip. See [`DeviceSpec::resolved`].
    Kept {
        /// The file.
        file: String,
    },
    /// Memory.
    Ram {
        /// Bytes.
        size: u64,
        /// Bytes of a sector.
        sector_size: u32,
    },
}

const RAM: &str = "ram";
const CUSTOM: &str = "custom";
const RAM_SIZE: u64 = 64 << 20;

impl DeviceSpec {
    /// A preset as it is.
    pub fn preset(name: &str) -> Result<Self, String> {
        Self::from_table(Table::from_iter([("preset".to_string(), Value::String(name.to_string()))]))
    }

    fn from_table(mut table: Table) -> Result<Self, String> {
        let file: Option<String> = take(&mut table, "file")?;
        match &file {
            Some(file) if file.is_empty() => return Err("file is \"\"; expected a path".to_string()),
            Some(file) if table.is_empty() => return Ok(Self::Kept { file: file.clone() }),
            _ => {}
        }
        let preset: String = take(&mut table, "preset")?.unwrap_or_else(|| CUSTOM.to_string());
        if preset == RAM {
            return match file {
                None => Self::ram_from(table),
                Some(_) => Err("a device in memory is kept in no file; expected a chip with the key file".to_string()),
            };
        }
        let store = take(&mut table, "store")?.unwrap_or_default();
        if let (StoreKind::Address, Some(file)) = (store, &file) {
            return Err(format!(
                "store is \"address\", and the chip is kept in {file}: chips of this store are in memory only; expected content, described or shadow, or no file"
            ));
        }
        let blocks: Option<u32> = take(&mut table, "blocks")?;
        let mut base = match preset.as_str() {
            CUSTOM => Table::new(),
            name => Table::try_from(crate::presets::chip(name)?).map_err(|error| error.to_string())?,
        };
        base.remove("sources");
        overlay(&mut base, table);
        if let Some(blocks) = blocks {
            let over = resized(&base, blocks);
            overlay(&mut base, over);
        }
        let mut chip = ChipSpec::from_table(&base).map_err(|error| error.to_string())?;
        chip.sources.clear();
        Ok(Self::Chip { preset, store, chip: Box::new(chip), file })
    }

    fn ram_from(mut table: Table) -> Result<Self, String> {
        let size = match table.remove("size") {
            None => RAM_SIZE,
            Some(size) => crate::named::size(size).map_err(|error| format!("size: {}", error.message()))?,
        };
        let sector_size: u32 = take(&mut table, "sector_size")?.unwrap_or(512);
        if let Some(key) = table.keys().next() {
            return Err(crate::suggest::unknown("key of a device in memory", key, &["preset", "size", "sector_size"]));
        }
        if !sector_size.is_power_of_two() || !(512..=65_536).contains(&sector_size) {
            return Err(format!("sector_size is {sector_size}; expected a power of two from 512 to 65536"));
        }
        if size == 0 || !size.is_multiple_of(u64::from(sector_size)) || size > 1 << 40 {
            return Err(format!("size is {size}; expected a multiple of sector_size, at most 1 TiB"));
        }
        Ok(Self::Ram { size, sector_size })
    }

    /// The file that it is kept in.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Chip { file, .. } => file.as_deref(),
            Self::Kept { file } => Some(file),
            Self::Ram { .. } => None,
        }
    }

    /// The same with every figure: a chip of which only the file is named is looked up there. Where there is no such file it is the default device.
    pub fn resolved(&self) -> Result<Self, StackError> {
        let Self::Kept { file } = self else { return Ok(self.clone()) };
        if !Path::new(file).exists() {
            return match Self::preset(crate::DEFAULT_DEVICE) {
                Ok(Self::Chip { preset, store, chip, .. }) => {
                    Ok(Self::Chip { preset, store, chip, file: Some(file.clone()) })
                }
                Ok(other) => Ok(other),
                Err(error) => Err(StackError::new("stack.device", error)),
            };
        }
        let (chip, store) = crate::chip_file::spec_of(Path::new(file))?;
        let known = crate::presets::names().contains(&chip.name.as_str());
        let preset = if known { chip.name.clone() } else { CUSTOM.to_string() };
        Ok(Self::Chip { preset, store, chip: Box::new(chip), file: Some(file.clone()) })
    }

    /// In few words, for people: the preset and its size, and the file.
    pub fn title(&self) -> String {
        match self {
            Self::Chip { preset, chip, file, .. } => {
                let size = nandkit_units::format_bytes(chip.geometry.build().capacity());
                match file {
                    None => format!("{preset} {size}"),
                    Some(file) => format!("{preset} {size} in {file}"),
                }
            }
            Self::Kept { file } => format!("the chip in {file}"),
            Self::Ram { size, .. } => format!("ram {}", nandkit_units::format_bytes(*size)),
        }
    }
}

/// What to lay over a chip's spec for another number of blocks: the number, and with it the share of blocks that the maker allows to be bad.
fn resized(base: &Table, blocks: u32) -> Table {
    let number = |section: &str, key: &str| {
        base.get(section).and_then(|section| section.get(key)).and_then(Value::as_integer).filter(|number| *number > 0)
    };
    let mut over = Table::new();
    let mut put = |section: &str, key: &str, value: i64| {
        let section = over.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(section) = section {
            section.insert(key.to_string(), Value::Integer(value));
        }
    };
    let blocks = i64::from(blocks);
    put("geometry", "blocks", blocks);
    if let (Some(bad), Some(before)) = (number("bad_blocks", "factory_max"), number("geometry", "blocks")) {
        put("bad_blocks", "factory_max", (i128::from(bad) * i128::from(blocks) / i128::from(before)) as i64);
    }
    if let Some(good) = number("bad_blocks", "good_at_start") {
        put("bad_blocks", "good_at_start", good.min(blocks));
    }
    over
}

impl Default for DeviceSpec {
    /// The chip of which a spec says nothing.
    fn default() -> Self {
        Self::Chip { preset: CUSTOM.to_string(), store: StoreKind::default(), chip: Box::default(), file: None }
    }
}

impl<'de> Deserialize<'de> for DeviceSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_table(table_or_name(deserializer, "preset")?).map_err(D::Error::custom)
    }
}

#[derive(Serialize)]
struct ChipView<'a> {
    preset: &'a str,
    store: StoreKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(flatten)]
    chip: &'a ChipSpec,
}

#[derive(Serialize)]
struct KeptView<'a> {
    file: &'a str,
}

#[derive(Serialize)]
struct RamView {
    preset: &'static str,
    size: u64,
    sector_size: u32,
}

impl Serialize for DeviceSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Chip { preset, store, chip, file } => {
                ChipView { preset, store: *store, file: file.as_deref(), chip }.serialize(serializer)
            }
            Self::Kept { file } => KeptView { file }.serialize(serializer),
            Self::Ram { size, sector_size } => {
                RamView { preset: RAM, size: *size, sector_size: *sector_size }.serialize(serializer)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DeviceSpec, String> {
        #[derive(Deserialize)]
        struct Holder {
            device: DeviceSpec,
        }
        toml::from_str::<Holder>(text).map(|holder| holder.device).map_err(|error| error.to_string())
    }

    #[test]
    fn a_device_is_a_preset_with_changes() {
        let plain = read("device = 'k9l8g08u0m'").unwrap();
        let changed =
            read("[device]\npreset = 'k9l8g08u0m'\nblocks = 64\nstore = 'shadow'\ntiming.erase_ns = 7").unwrap();
        let (DeviceSpec::Chip { chip: plain, .. }, DeviceSpec::Chip { chip, store, .. }) = (&plain, &changed) else {
            panic!("two chips");
        };
        assert_eq!((chip.geometry.blocks, chip.timing.erase_ns, *store), (64, 7, StoreKind::Shadow));
        assert_eq!(chip.timing.read_ns, plain.timing.read_ns);
    }

    #[test]
    fn a_resolved_device_reads_as_itself() {
        for text in [
            "device = 'k9l8g08u0m'",
            "[device]\ngeometry.blocks = 9",
            "[device]\nstore = 'address'",
            "[device]\npreset = 'ram'\nsize = '1M'",
            "[device]\nfile = 'chip.nand'",
            "[device]\npreset = 'k9l8g08u0m'\nfile = 'chip.nand'",
        ] {
            let device = read(text).unwrap();
            let line = serde_json::to_string(&device).unwrap();
            let again: DeviceSpec = serde_json::from_str(&line).unwrap();
            assert_eq!(again, device, "{line}");
        }
    }

    #[test]
    fn wrong_devices_are_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("device = 'k9l8g08u0n'", "k9l8g08u0m"),
            ("device = 3", "expected a name or a table"),
            ("[device]\npreset = 'k9l8g08u0m'\nblokcs = 3", "blocks"),
            ("[device]\ntiming.raed_ns = 3", "timing.read_ns"),
            ("[device]\nstore = 'shadwo'", "did you mean `shadow`"),
            ("[device]\nstore = 'address'\nfile = 'x'", "in memory only"),
            ("[device]\ngeometry.page_size = 1000", "page_size is 1000"),
            ("[device]\nblocks = 0", "expected at least 1"),
            ("[device]\npreset = 'ram'\nsize = '1X'", "is no size"),
            ("[device]\npreset = 'ram'\nblocks = 3", "expected one of"),
            ("[device]\npreset = 'ram'\nfile = 'x'", "expected a chip"),
            ("[device]\nfile = ''", "expected a path"),
            ("[device]\nfile = 3", "file is 3"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
