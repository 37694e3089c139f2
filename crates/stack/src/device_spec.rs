//! The device of a stack: a preset, with whatever the spec changes of it.

use std::collections::BTreeMap;
use std::path::Path;

use nandkit_block::HostLinkSpec;
use nandkit_block::card::CardSpec;
use nandkit_nand_sim::{ChipKind, ChipSpec};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::SpecError;
use crate::named::{overlay, table_or_name, take};
use crate::presets::{DEFAULT_DEVICE, NOR_DEVICE};
use crate::{FtlSpec, StackError, StoreKind, ssds};

/// The largest sector that every file system on blocks takes.
pub(crate) const SECTOR_MAX: u32 = 4096;

/// The device of a stack. In a spec: the name of a preset, or a table with the keys `preset`,
/// `blocks`, `store` and any key of a chip's spec (`timing.read_ns`, ...), which goes over the
/// preset's. `preset = "ram"` with `size` is a block device in memory, without flash. A drive's
/// preset has the table `interface` besides, and a layer of its own
/// ([`DeviceSpec::default_layer`]); a memory card's has a card's keys instead. A table with
/// `curves` is a memory card whatever its name is: a card file is a device.
///
/// `kind = "nor"` is the NOR part that ships with nandkit, where no preset is named; `erase_size`
/// chooses between the sizes of erase that a NOR part has.
///
/// `file = "PATH"` keeps the chip in a file: it is made if there is none, and must be the chip
/// asked for if there is. `file` alone takes the chip as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceSpec {
    /// An emulated chip.
    Chip {
        /// The preset's name; `custom` where the spec names none.
        preset: String,
        /// What the chip stores of written data.
        store: StoreKind,
        /// Every figure of the chip. The texts on their sources stay with the preset.
        chip: Box<ChipSpec>,
        /// The file that it is kept in; `None` for a new chip in memory.
        file: Option<String>,
        /// What lies before the translation layer, which makes the chip a drive; `None` for a bare
        /// chip.
        interface: Option<HostLinkSpec>,
    },
    /// A memory card in time, its content in memory: no flash below.
    Card {
        /// The preset's name.
        preset: String,
        /// Every figure of the card. The texts on their sources stay with the preset.
        card: Box<CardSpec>,
    },
    /// The chip that a file holds, whatever it is; where there is no file, a new one with P4's
    /// chip. See [`DeviceSpec::resolved`].
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
/// The key of a card's curves, which no chip has.
const CURVES: &str = "curves";
const RAM_SIZE: u64 = 64 << 20;

impl DeviceSpec {
    /// A preset as it is.
    pub fn preset(name: &str) -> Result<Self, SpecError> {
        Self::from_table(Table::from_iter([("preset".to_string(), Value::String(name.to_string()))]))
    }

    fn from_table(mut table: Table) -> Result<Self, SpecError> {
        let file: Option<String> = take(&mut table, "file")?;
        match &file {
            Some(file) if file.is_empty() => return Err(SpecError::range("file is \"\"; expected a path")),
            Some(file) if table.is_empty() => return Ok(Self::Kept { file: file.clone() }),
            _ => {}
        }
        let is_nor = table.get("kind").and_then(Value::as_str) == Some("nor");
        let default = if is_nor { NOR_DEVICE } else { CUSTOM };
        let preset: String = take(&mut table, "preset")?.unwrap_or_else(|| default.to_string());
        if preset == RAM {
            return match file {
                None => Self::ram_from(table),
                Some(_) => {
                    Err(SpecError::conflict("a device in memory is kept in no file; expected a chip with the key file"))
                }
            };
        }
        let card = crate::presets::card(&preset);
        if let Some(card) = card.or_else(|| table.contains_key(CURVES).then(CardSpec::default)) {
            return match file {
                None => Self::card_from(&preset, card, table),
                Some(_) => {
                    Err(SpecError::conflict("a memory card is kept in no file; expected a chip with the key file"))
                }
            };
        }
        let store = take(&mut table, "store")?.unwrap_or_default();
        if let (StoreKind::Address, Some(file)) = (store, &file) {
            return Err(SpecError::conflict(format!(
                "store is \"address\", and the chip is kept in {file}: chips of this store are in memory only; expected content, described or shadow, or no file"
            )));
        }
        let blocks: Option<u32> = take(&mut table, "blocks")?;
        let mut base = base_of(&preset)?;
        base.remove("sources");
        check_kind(&preset, &base, take(&mut table, "kind")?)?;
        if let Some(size) = table.remove("erase_size") {
            let over = with_erase_size(&preset, &base, size)?;
            overlay(&mut base, over);
        }
        overlay(&mut base, table);
        let interface = take::<Table>(&mut base, "interface")?.map(ssds::interface_of).transpose()?;
        if let Some(blocks) = blocks {
            let over = resized(&base, blocks);
            overlay(&mut base, over);
        }
        let mut chip = ChipSpec::from_table(&base).map_err(SpecError::form)?;
        chip.sources.clear();
        Ok(Self::Chip { preset, store, chip: Box::new(chip), file, interface })
    }

    /// A card with other figures here and there, or one that the table describes in full.
    fn card_from(preset: &str, card: CardSpec, mut table: Table) -> Result<Self, SpecError> {
        // Texts for people, as those of presets.
        table.remove("sources");
        // Curves are whole lists of points: a missing one is told, not filled in.
        let plain = CardSpec { sources: BTreeMap::new(), ..card };
        let mut base = Table::try_from(plain).map_err(SpecError::form)?;
        overlay(&mut base, table);
        let card = CardSpec::from_toml(&base.to_string()).map_err(SpecError::form)?;
        let named = [card.name.as_str(), preset].into_iter().find(|name| !name.is_empty());
        let preset = if preset == CUSTOM { named.unwrap_or(CUSTOM) } else { preset };
        Ok(Self::Card { preset: preset.to_string(), card: Box::new(card) })
    }

    /// The layer of a stack on this device that names none: a drive's own, none on memory and
    /// cards, else the block-mapped one.
    pub fn default_layer(&self) -> FtlSpec {
        match self {
            Self::Ram { .. } | Self::Card { .. } => FtlSpec::None,
            Self::Chip { .. } => self.layer(Table::new()).unwrap_or_default(),
            Self::Kept { .. } => FtlSpec::default(),
        }
    }

    /// The layer that a table describes on this device. If the table names no kind, or the kind of
    /// the drive's own layer, values that it leaves out come from that layer. Errors: those of
    /// [`FtlSpec`].
    pub fn layer(&self, table: Table) -> Result<FtlSpec, SpecError> {
        let own = match self {
            Self::Chip { preset, interface: Some(_), .. } => ssds::layer(preset),
            _ => None,
        };
        FtlSpec::over(own, table)
    }

    /// Whether its host sees flash, on which a file system for flash can work.
    pub const fn shows_flash(&self) -> bool {
        matches!(self, Self::Chip { interface: None, .. } | Self::Kept { .. })
    }

    fn ram_from(mut table: Table) -> Result<Self, SpecError> {
        let size = match table.remove("size") {
            None => RAM_SIZE,
            Some(size) => {
                crate::named::size(size).map_err(|error| SpecError::form(format!("size: {}", error.message())))?
            }
        };
        let sector_size: u32 = take(&mut table, "sector_size")?.unwrap_or(512);
        if let Some(key) = table.keys().next() {
            return Err(SpecError::unknown(crate::suggest::unknown(
                "key of a device in memory",
                key,
                &["preset", "size", "sector_size"],
            )));
        }
        if !sector_size.is_power_of_two() || !(512..=65_536).contains(&sector_size) {
            return Err(SpecError::range(format!(
                "sector_size is {sector_size}; expected a power of two from 512 to 65536"
            )));
        }
        if size == 0 || !size.is_multiple_of(u64::from(sector_size)) || size > 1 << 40 {
            return Err(SpecError::range(format!("size is {size}; expected a multiple of sector_size, at most 1 TiB")));
        }
        Ok(Self::Ram { size, sector_size })
    }

    /// The file that it is kept in.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Chip { file, .. } => file.as_deref(),
            Self::Kept { file } => Some(file),
            Self::Ram { .. } | Self::Card { .. } => None,
        }
    }

    /// This spec with every figure: if the spec names only a file, the chip is looked up in that
    /// file. Without such a file it is the default device.
    pub fn resolved(&self) -> Result<Self, StackError> {
        let Self::Kept { file } = self else { return Ok(self.clone()) };
        if !Path::new(file).exists() {
            return match Self::preset(DEFAULT_DEVICE) {
                Ok(Self::Chip { preset, store, chip, interface, .. }) => {
                    Ok(Self::Chip { preset, store, chip, file: Some(file.clone()), interface })
                }
                Ok(other) => Ok(other),
                Err(error) => Err(StackError::new("stack.device", error)),
            };
        }
        let (chip, store) = crate::chip_file::spec_of(Path::new(file))?;
        let drive = ssds::load(&chip.name).and_then(Result::ok);
        let known = drive.is_some() || crate::presets::names().contains(&chip.name.as_str());
        let preset = if known { chip.name.clone() } else { CUSTOM.to_string() };
        // The file holds chips; what stands before them is the preset's.
        let interface = drive.map(|drive| drive.interface);
        Ok(Self::Chip { preset, store, chip: Box::new(chip), file: Some(file.clone()), interface })
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
            Self::Card { preset, card } => {
                format!("{preset} {}", nandkit_units::format_bytes(card.geometry.capacity))
            }
            Self::Ram { size, .. } => format!("ram {}", nandkit_units::format_bytes(*size)),
        }
    }
}

/// What a device of this name has that is a chip or a drive. Errors: an unknown name, with the
/// nearest right one.
fn base_of(preset: &str) -> Result<Table, SpecError> {
    if preset == CUSTOM {
        return Ok(Table::new());
    }
    let Some(drive) = ssds::load(preset) else {
        if !crate::presets::names().iter().any(|known| known.eq_ignore_ascii_case(preset)) {
            return Err(SpecError::unknown(crate::suggest::unknown(
                "device",
                preset,
                &[&crate::presets::all_names()[..], &[RAM]].concat(),
            )));
        }
        return Table::try_from(crate::presets::chip(preset)?).map_err(SpecError::form);
    };
    let drive = drive?;
    let mut base = Table::try_from(drive.chip).map_err(SpecError::form)?;
    let interface = Table::try_from(drive.interface).map_err(SpecError::form)?;
    base.insert("interface".to_string(), Value::Table(interface));
    Ok(base)
}

fn number_in(base: &Table, section: &str, key: &str) -> i64 {
    base.get(section).and_then(|section| section.get(key)).and_then(Value::as_integer).unwrap_or(0)
}

/// Refuses a kind that the device is not of.
fn check_kind(preset: &str, base: &Table, kind: Option<ChipKind>) -> Result<(), SpecError> {
    let is_nor = base.contains_key("nor");
    match kind {
        Some(ChipKind::Nor) if !is_nor => Err(SpecError::conflict(format!(
            "kind is \"nor\", and {preset} is NAND; expected preset = \"{NOR_DEVICE}\""
        ))),
        Some(ChipKind::Nand) if is_nor => {
            Err(SpecError::conflict(format!("kind is \"nand\", and {preset} is NOR; expected kind = \"nor\"")))
        }
        _ => Ok(()),
    }
}

/// What to lay over a NOR part's spec so that its blocks are its erase units of this size.
fn with_erase_size(preset: &str, base: &Table, size: Value) -> Result<Table, SpecError> {
    let shown = size.to_string();
    let page = number_in(base, "geometry", "page_size").max(1);
    let block = page * number_in(base, "geometry", "pages_per_block");
    let sector = number_in(base, "nor", "sector_size");
    if sector == 0 {
        let detail = format!("erase_size is {shown}, and {preset} has one size of erase; expected no such key");
        return Err(SpecError::conflict(detail));
    }
    let bytes =
        crate::named::size(size).map_err(|error| SpecError::form(format!("erase_size: {}", error.message())))?;
    match i64::try_from(bytes) {
        Ok(bytes) if bytes == block => Ok(Table::new()),
        Ok(bytes) if bytes == sector => {
            let blocks = number_in(base, "geometry", "blocks") * (block / sector);
            let section = |pairs: &[(&str, i64)]| {
                Value::Table(pairs.iter().map(|(key, value)| ((*key).to_string(), Value::Integer(*value))).collect())
            };
            Ok(Table::from_iter([
                ("geometry".to_string(), section(&[("pages_per_block", sector / page), ("blocks", blocks)])),
                ("timing".to_string(), section(&[("erase_ns", number_in(base, "nor", "sector_erase_ns"))])),
                ("nor".to_string(), section(&[("sector_size", 0)])),
            ]))
        }
        _ => Err(SpecError::range(format!("erase_size is {shown}; {preset} erases {sector} or {block} bytes"))),
    }
}

/// What to lay over a chip's spec for another number of blocks: the number, and with it the share
/// of blocks that the maker allows to be bad.
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
        Self::Chip {
            preset: CUSTOM.to_string(),
            store: StoreKind::default(),
            chip: Box::default(),
            file: None,
            interface: None,
        }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a HostLinkSpec>,
}

#[derive(Serialize)]
struct CardView<'a> {
    preset: &'a str,
    #[serde(flatten)]
    card: &'a CardSpec,
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
            Self::Chip { preset, store, chip, file, interface } => {
                let interface = interface.as_ref();
                ChipView { preset, store: *store, file: file.as_deref(), chip, interface }.serialize(serializer)
            }
            Self::Card { preset, card } => CardView { preset, card }.serialize(serializer),
            Self::Kept { file } => KeptView { file }.serialize(serializer),
            Self::Ram { size, sector_size } => {
                RamView { preset: RAM, size: *size, sector_size: *sector_size }.serialize(serializer)
            }
        }
    }
}
