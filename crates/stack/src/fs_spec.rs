//! The file system of a stack.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::named::{table_or_name, take};
use crate::suggest;

/// The file system. In a spec: its kind as a name, or a table with the key `kind` and the options of that kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FsSpec {
    /// None: workloads on blocks run on the device itself.
    None,
    /// FAT12, FAT16 or FAT32, as the size of the device asks for.
    Fat(FatSpec),
    /// The model file system in memory, which has no device: what takes no time and cannot go wrong.
    Model,
}

/// When the sector cache writes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackName {
    /// At once.
    #[default]
    Through,
    /// When too many sectors are dirty, when they are old, or at a sync.
    Back,
}

/// Options of FAT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FatSpec {
    /// Bytes of a cluster; 0 stands for what the size of the device asks for.
    pub cluster_size: u32,
    /// Sectors that the cache holds; 0 for none.
    pub cache_sectors: u32,
    /// When the cache writes back.
    pub write_back: WriteBackName,
}

impl Default for FatSpec {
    fn default() -> Self {
        Self { cluster_size: 0, cache_sectors: 64, write_back: WriteBackName::Through }
    }
}

impl Default for FsSpec {
    fn default() -> Self {
        Self::Fat(FatSpec::default())
    }
}

impl FsSpec {
    /// The names of all kinds.
    pub const KINDS: &'static [&'static str] = &["fat", "model", "none"];

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
                let wrong = |error: toml::de::Error| format!("in fat: {}", suggest::explain(error.message()));
                Ok(Self::Fat(table.try_into().map_err(wrong)?))
            }
            "model" => no_options(Self::Model, table),
            "none" => no_options(Self::None, table),
            other => Err(suggest::unknown("file system", other, Self::KINDS)),
        }
    }

    /// In few words, for people; the parts joined by ` | `.
    pub fn title(&self) -> String {
        match self {
            Self::None => "no file system".to_string(),
            Self::Model => "model file system".to_string(),
            Self::Fat(spec) => {
                let mut title = "fat".to_string();
                if spec.cluster_size > 0 {
                    title += &format!(" | clusters of {}", nandkit_units::format_bytes(u64::from(spec.cluster_size)));
                }
                if spec.cache_sectors != FatSpec::default().cache_sectors {
                    title += &format!(" | cache of {} sectors", spec.cache_sectors);
                }
                if spec.write_back == WriteBackName::Back {
                    title += " | write-back";
                }
                title
            }
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
            ("kind = 'btrfs'", "expected one of: fat, model, none"),
            ("cache_sectrs = 3", "did you mean `cache_sectors`"),
            ("kind = 'model'\ncache_sectors = 3", "has no options"),
        ] {
            let error = FsSpec::from_table(toml::from_str(text).unwrap()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
