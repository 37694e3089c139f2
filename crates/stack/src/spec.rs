//! The spec of a whole stack.

use serde::{Deserialize, Deserializer, Serialize};
use toml::Table;

use crate::SpecError;
use crate::device_spec::SECTOR_MAX;
use crate::named::table_or_name;
use crate::presets::DEFAULT_DEVICE;
use crate::{DeviceSpec, FsSpec, FtlSpec, HostSpec, StackError, StoreKind};

/// A stack: a device, a translation layer on it, a file system on that. Every part is optional and
/// has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct StackSpec {
    /// The device.
    pub device: DeviceSpec,
    /// The translation layer; none below a file system that works on bare flash.
    pub ftl: FtlSpec,
    /// The file system.
    pub fs: FsSpec,
    /// The host's cache, the same for every file system; `None`: each file system has the cache of
    /// its own options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
}

/// A stack as written in a spec: the defaults of missing parts depend on the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "default_device")]
    device: DeviceSpec,
    ftl: Option<WrittenLayer>,
    #[serde(default)]
    fs: FsSpec,
    host: Option<HostSpec>,
}

/// A layer as written in a spec: the defaults of missing options depend on the device.
struct WrittenLayer(Table);

impl<'de> Deserialize<'de> for WrittenLayer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        table_or_name(deserializer, "kind").map(Self)
    }
}

impl TryFrom<Written> for StackSpec {
    type Error = SpecError;

    fn try_from(Written { device, ftl, fs, host }: Written) -> Result<Self, SpecError> {
        let ftl = match ftl {
            Some(WrittenLayer(table)) => device.layer(table)?,
            None if fs.is_on_flash() => FtlSpec::None,
            None => device.default_layer(),
        };
        host.map_or(Ok(()), |host| host.check()).map_err(|error| error.within("host"))?;
        Ok(Self { device, ftl, fs, host })
    }
}

fn default_device() -> DeviceSpec {
    // Tests read the shipped preset, so that the fallback is never used.
    DeviceSpec::preset(DEFAULT_DEVICE).unwrap_or_default()
}

impl Default for StackSpec {
    fn default() -> Self {
        Self { device: default_device(), ftl: FtlSpec::default(), fs: FsSpec::default(), host: None }
    }
}

impl StackSpec {
    /// Refuses parts that do not fit together. Limits known only to the running parts (a file
    /// system too large for its device) are checked by [`crate::Stack::build`].
    pub fn check(&self) -> Result<(), StackError> {
        if self.fs == FsSpec::Model {
            return Ok(());
        }
        if let FsSpec::Format(spec) = &self.fs {
            spec.check_device(&self.device, &self.ftl)?;
        }
        if self.fs.is_on_flash() {
            return self.check_on_flash();
        }
        match (&self.device, &self.ftl) {
            (DeviceSpec::Card { preset, card }, FtlSpec::None)
                if self.fs != FsSpec::None && card.geometry.sector_size > SECTOR_MAX =>
            {
                let detail = format!(
                    "geometry.sector_size of {preset} is {}, and file systems write blocks of 512 to {SECTOR_MAX} bytes; expected a card of sectors up to {SECTOR_MAX}, or fs = \"none\"",
                    card.geometry.sector_size
                );
                return Err(StackError::new("stack.device", detail));
            }
            (DeviceSpec::Ram { .. } | DeviceSpec::Card { .. }, FtlSpec::None) => {}
            (DeviceSpec::Ram { .. } | DeviceSpec::Card { .. }, _) => {
                let detail = "a device in memory and a memory card take no translation layer; expected ftl = \"none\", or a flash device";
                return Err(StackError::new("stack.ftl", detail));
            }
            (DeviceSpec::Chip { .. } | DeviceSpec::Kept { .. }, FtlSpec::None) => {
                let detail = "flash needs a translation layer below a file system for block devices; expected block-map, fast or page-map";
                return Err(StackError::new("stack.ftl", detail));
            }
            (DeviceSpec::Chip { preset, chip, .. }, _) if chip.nor.is_some() => {
                let detail = format!(
                    "translation layers work on NAND, and {preset} is NOR; expected fs = \"jffs2\" or \"ubifs\" without one, or a NAND chip"
                );
                return Err(StackError::new("stack.ftl", detail));
            }
            (DeviceSpec::Chip { store, .. }, _) if self.fs != FsSpec::None && !store.keeps_content() => {
                return Err(without_content(*store));
            }
            (DeviceSpec::Chip { file: Some(file), .. } | DeviceSpec::Kept { file }, FtlSpec::PageMap(ftl))
                if !ftl.journal =>
            {
                let detail = format!(
                    "page-map without its journal does not find again what a chip holds, and the chip is kept in {file}; expected journal = true, or a chip in memory"
                );
                return Err(StackError::new("stack.ftl", detail));
            }
            (DeviceSpec::Chip { store: StoreKind::Shadow, file: Some(file), .. }, FtlSpec::PageMap(_)) => {
                let detail = format!(
                    "the store shadow keeps no bytes, so that page-map would not find its map again in {file}; expected store = \"described\" or \"content\", or a chip in memory"
                );
                return Err(StackError::new("stack.device.store", detail));
            }
            _ => {}
        }
        if let (DeviceSpec::Chip { chip, .. }, FtlSpec::PageMap(ftl), FsSpec::None) =
            (&self.device, &self.ftl, &self.fs)
        {
            let (geometry, bad) = (chip.geometry.build(), chip.bad_blocks.factory_max);
            // Half of the blocks may be the journal's or left over on a chip as small as that.
            let least = u64::from(geometry.blocks.saturating_sub(bad)) * geometry.block_size() / 2;
            ftl.check_cache(least, geometry.page_size).map_err(|detail| StackError::new("stack.ftl", detail))?;
        }
        Ok(())
    }

    fn check_on_flash(&self) -> Result<(), StackError> {
        if self.ftl != FtlSpec::None {
            let detail = "this file system works on flash itself; expected ftl = \"none\", or none given";
            return Err(StackError::new("stack.ftl", detail));
        }
        match &self.device {
            DeviceSpec::Ram { .. } => {
                Err(StackError::new("stack.device", "this file system works on flash; expected a chip"))
            }
            DeviceSpec::Card { preset, .. } | DeviceSpec::Chip { preset, interface: Some(_), .. } => {
                let detail = format!(
                    "this file system works on flash itself, and {preset} shows its host none; expected a chip, or fs = \"fat\""
                );
                Err(StackError::new("stack.device", detail))
            }
            DeviceSpec::Chip { store, .. } if !store.keeps_content() => Err(without_content(*store)),
            _ => Ok(()),
        }
    }

    /// This stack with every figure of the device: see [`DeviceSpec::resolved`]. The record of a
    /// stack that is not resolved would not say on what it ran.
    pub fn resolved(&self) -> Result<Self, StackError> {
        if self.fs == FsSpec::Model {
            return Ok(self.clone());
        }
        Ok(Self { device: self.device.resolved()?, ..self.clone() })
    }

    /// The file that its device is saved in.
    pub fn device_file(&self) -> Option<&str> {
        if self.fs == FsSpec::Model { None } else { self.device.file() }
    }

    /// Whether reads return the written data; false for stores of tags or addresses.
    pub fn keeps_content(&self) -> bool {
        self.fs == FsSpec::Model || !matches!(self.device, DeviceSpec::Chip { store, .. } if !store.keeps_content())
    }

    /// Whether its top is a block device.
    pub fn is_block_device(&self) -> bool {
        self.fs == FsSpec::None
    }

    /// The stack as one line of text: its parts from the top down, joined by ` | `.
    pub fn title(&self) -> String {
        if self.fs == FsSpec::Model {
            return self.fs.title();
        }
        let mut parts = match self.fs {
            FsSpec::None => vec![self.ftl.title(), self.device.title()],
            _ if self.fs.is_on_flash() => vec![self.fs.title(), self.device.title()],
            _ => vec![self.fs.title(), self.ftl.title(), self.device.title()],
        };
        parts.extend(self.host.map(|host| host.title()));
        parts.join(" | ")
    }
}

/// The error for a store that no file system can run on.
fn without_content(store: StoreKind) -> StackError {
    let name = store.name();
    let detail =
        format!("the store \"{name}\" keeps no content, which a file system needs; expected content or described");
    StackError::new("stack.device.store", detail)
}
