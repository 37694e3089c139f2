//! The file system of a stack.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::named::{table_or_name, take, whole};
use crate::{F2fsSpec, Jffs2Spec, suggest};

/// The file system. In a spec: its kind as a name, or a table with the key `kind` and the options of that kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FsSpec {
    /// None: workloads on blocks run on the device itself.
    None,
    /// FAT12, FAT16 or FAT32, as the size of the device asks for.
    Fat(FatSpec),
    /// F2FS.
    F2fs(F2fsSpec),
    /// JFFS2, on the flash itself.
    Jffs2(Jffs2Spec),
    /// The model file system in memory, which has no device: what takes no time and cannot go wrong.
    Model,
}

/// When the sector cache writes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackName {
    /// After each operation.
    #[default]
    Through,
    /// When more than `dirty_sectors` are dirty, when a change is older than `age_ms`, and at a sync.
    Back,
}

/// Which FAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FatTypeName {
    /// As mkfs.vfat chooses for the size of the device.
    #[default]
    Auto,
    /// Entries of 12 bits.
    Fat12,
    /// Entries of 16 bits.
    Fat16,
    /// Entries of 28 bits.
    Fat32,
}

/// Where FAT's data area begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlignmentName {
    /// Directly behind the root directory or the FATs.
    None,
    /// On a multiple of the cluster size, as mkfs.vfat has it.
    #[default]
    Cluster,
    /// On an erase block, as memory cards are formatted: no block holds both metadata and files.
    EraseBlock,
}

/// Options of FAT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FatSpec {
    /// Which FAT.
    pub fat_type: FatTypeName,
    /// Bytes of a cluster; 0 stands for what the size of the device asks for.
    pub cluster_size: u32,
    /// Where the data area begins.
    pub alignment: AlignmentName,
    /// Slots of the root directory of FAT12 and FAT16.
    pub root_entries: u16,
    /// The volume's label, up to 11 characters; empty for none.
    pub label: String,
    /// Clean sectors that the cache holds, of which the least recently used one leaves it; 0 for no cache.
    pub cache_sectors: u32,
    /// When the cache writes back.
    pub write_back: WriteBackName,
    /// Dirty sectors that are kept with `write_back = "back"`; 0 stands for half of `cache_sectors`.
    pub dirty_sectors: u32,
    /// How long a change is kept with `write_back = "back"`, in simulated milliseconds.
    pub age_ms: u64,
    /// Whether the cache holds file data too, or only metadata.
    pub cache_data: bool,
    /// Whether the steps of a change are kept apart by flushes of the device.
    pub barriers: bool,
}

impl Default for FatSpec {
    fn default() -> Self {
        Self {
            fat_type: FatTypeName::Auto,
            cluster_size: 0,
            alignment: AlignmentName::Cluster,
            root_entries: 512,
            label: String::new(),
            cache_sectors: 0,
            write_back: WriteBackName::default(),
            dirty_sectors: 0,
            age_ms: 5_000,
            cache_data: false,
            barriers: true,
        }
    }
}

impl FatSpec {
    fn check(&self) -> Result<(), String> {
        let size = self.cluster_size;
        if size != 0 && (!size.is_power_of_two() || !(512..=32_768).contains(&size)) {
            return Err(format!("cluster_size is {size}; expected 0, or a power of two from 512 to 32768"));
        }
        if self.root_entries == 0 {
            return Err("root_entries is 0; expected 1 to 65535".to_string());
        }
        if self.label.chars().count() > 11 {
            return Err(format!("label is \"{}\"; expected up to 11 characters", self.label));
        }
        if self.cache_sectors > 1 << 24 {
            return Err(format!("cache_sectors is {}; expected 0 to {}", self.cache_sectors, 1 << 24));
        }
        if self.cache_sectors == 0 && (self.write_back == WriteBackName::Back || self.cache_data) {
            return Err(
                "there is no cache (cache_sectors is 0) to write back or to hold data; expected cache_sectors above 0"
                    .into(),
            );
        }
        Ok(())
    }

    fn title(&self) -> String {
        let standard = Self::default();
        let mut title = match self.fat_type {
            FatTypeName::Auto => "fat",
            FatTypeName::Fat12 => "fat12",
            FatTypeName::Fat16 => "fat16",
            FatTypeName::Fat32 => "fat32",
        }
        .to_string();
        if self.cluster_size > 0 {
            title += &format!(" | clusters of {}", nandkit_units::format_bytes(u64::from(self.cluster_size)));
        }
        if self.root_entries != standard.root_entries {
            title += &format!(" | {} root entries", self.root_entries);
        }
        match self.alignment {
            AlignmentName::None => title += " | not aligned",
            AlignmentName::Cluster => {}
            AlignmentName::EraseBlock => title += " | aligned on erase blocks",
        }
        if self.cache_sectors > 0 {
            title += &format!(" | cache of {} sectors", self.cache_sectors);
            if self.cache_data {
                title += " with data";
            }
        }
        if self.write_back == WriteBackName::Back {
            title += " | write-back";
            if self.dirty_sectors > 0 {
                title += &format!(" over {} dirty", self.dirty_sectors);
            }
            if self.age_ms != standard.age_ms {
                title += &format!(" after {} ms", self.age_ms);
            }
        }
        if !self.barriers {
            title += " | no barriers";
        }
        title
    }
}

impl Default for FsSpec {
    fn default() -> Self {
        Self::Fat(FatSpec::default())
    }
}

impl FsSpec {
    /// The names of all kinds.
    pub const KINDS: &'static [&'static str] = &["f2fs", "fat", "jffs2", "model", "none"];

    /// The file system of this kind with its defaults.
    pub fn kind(name: &str) -> Result<Self, String> {
        Self::from_table(Table::from_iter([("kind".to_string(), name.into())]))
    }

    fn from_table(mut table: Table) -> Result<Self, String> {
        let kind: String = take(&mut table, "kind")?.unwrap_or_else(|| "fat".to_string());
        let no_options = |spec: Self, table: Table| match table.keys().next() {
            None => Ok(spec),
            Some(key) => Err(format!("unknown key \"{key}\": fs = \"{kind}\" has no options")),
        };
        match kind.as_str() {
            "fat" => {
                let spec: FatSpec = whole(table).map_err(|error| format!("in fat: {error}"))?;
                spec.check()?;
                Ok(Self::Fat(spec))
            }
            "f2fs" => {
                let spec: F2fsSpec = whole(table).map_err(|error| format!("in f2fs: {error}"))?;
                spec.check().map_err(|error| format!("in f2fs: {error}"))?;
                Ok(Self::F2fs(spec))
            }
            "jffs2" => {
                let spec: Jffs2Spec = whole(table).map_err(|error| format!("in jffs2: {error}"))?;
                spec.check().map_err(|error| format!("in jffs2: {error}"))?;
                Ok(Self::Jffs2(spec))
            }
            "model" => no_options(Self::Model, table),
            "none" => no_options(Self::None, table),
            other => Err(suggest::unknown("file system", other, Self::KINDS)),
        }
    }

    /// The name of its kind.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Model => "model",
            Self::F2fs(_) => "f2fs",
            Self::Fat(_) => "fat",
            Self::Jffs2(_) => "jffs2",
        }
    }

    /// Whether it works on flash itself, without a translation layer.
    pub const fn is_on_flash(&self) -> bool {
        matches!(self, Self::Jffs2(_))
    }

    /// In few words, for people; the parts joined by ` | `.
    pub fn title(&self) -> String {
        match self {
            Self::None => "no file system".to_string(),
            Self::Model => "model file system".to_string(),
            Self::F2fs(spec) => spec.title(),
            Self::Fat(spec) => spec.title(),
            Self::Jffs2(spec) => spec.title(),
        }
    }
}

impl<'de> Deserialize<'de> for FsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_table(table_or_name(deserializer, "kind")?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_file_systems_are_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("kind = 'vfat'", "did you mean \"fat\""),
            ("kind = 'btrfs'", "expected one of: f2fs, fat, jffs2, model, none"),
            ("cache_sectrs = 3", "did you mean `cache_sectors`"),
            // No sector of the cache is ever dirty: there is nothing to prefer.
            ("cache_sectors = 3\nreplacement = 'clean-first'", "unknown"),
            ("cluster_size = 1000", "power of two"),
            ("root_entries = 0", "root_entries is 0"),
            ("alignment = 'block'", "erase-block"),
            ("label = 'twelve chars'", "up to 11 characters"),
            ("write_back = 'back'", "cache_sectors above 0"),
            ("kind = 'model'\ncache_sectors = 3", "has no options"),
            ("kind = 'f2fs'\nactive_logs = 5", "expected 2, 4 or 6"),
            ("kind = 'f2fs'\ncollector = 'dog'", "no victim policy `dog`"),
            ("kind = 'f2fs'\nmode = 'log'", "lfs"),
            ("kind = 'f2fs'\nfeatures = 'extras'", "extra_attr"),
            ("kind = 'jffs2'\ncolector = 'cat'", "did you mean `collector`"),
            ("kind = 'jffs2'\ncollector = 'dog'", "no victim policy `dog`"),
            ("kind = 'jffs2'\nseparation = 'dac:regions=99'", "separation"),
        ] {
            let error = FsSpec::from_table(toml::from_str(text).unwrap()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
