//! The file system of a stack.

use serde::de::{Deserializer, Error};
use serde::ser::{Error as _, SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::SpecError;
use crate::format::emulate::FormatSpec;
use crate::format::{self, FORMATS, MediumKind};
use crate::named::{table_or_name, take};
use crate::suggest;

/// The file system. In a spec: its kind as a name, or a table with the key `kind` and the options
/// of that kind.
#[derive(Clone, Debug, PartialEq)]
pub enum FsSpec {
    /// No file system: block workloads run directly on the device.
    None,
    /// The model file system in memory, without a device: it takes no time and never fails.
    Model,
    /// A format, with its options.
    Format(Box<dyn FormatSpec>),
}

impl Default for FsSpec {
    fn default() -> Self {
        Self::Format(format::default_spec())
    }
}

impl<S: FormatSpec> From<S> for FsSpec {
    fn from(options: S) -> Self {
        Self::Format(Box::new(options))
    }
}

impl FsSpec {
    /// The names of all kinds, in the order of the alphabet.
    pub fn kinds() -> Vec<&'static str> {
        let formats = FORMATS.iter().filter(|format| format.emulate().is_some());
        let mut kinds: Vec<_> = formats.map(|format| format.name()).chain(["model", "none"]).collect();
        kinds.sort_unstable();
        kinds
    }

    /// The names of the formats that stand on a device, in the order of the alphabet.
    pub fn formats() -> Vec<&'static str> {
        Self::kinds().into_iter().filter(|name| !["model", "none"].contains(name)).collect()
    }

    /// The names of [`Self::formats`], joined by "or".
    pub fn on_devices() -> String {
        Self::formats().join(" or ")
    }

    /// The file system of this kind with its defaults.
    pub fn kind(name: &str) -> Result<Self, SpecError> {
        Self::from_table(Table::from_iter([("kind".to_string(), name.into())]))
    }

    fn from_table(mut table: Table) -> Result<Self, SpecError> {
        let kind: String = take(&mut table, "kind")?.unwrap_or_else(|| Self::default().name().to_string());
        let no_options = |spec: Self, table: Table| match table.keys().next() {
            None => Ok(spec),
            Some(key) => Err(SpecError::unknown(format!("unknown key \"{key}\": fs = \"{kind}\" has no options"))),
        };
        match kind.as_str() {
            "model" => no_options(Self::Model, table),
            "none" => no_options(Self::None, table),
            other => match format::named(other).and_then(|format| format.emulate()) {
                Some(format) => format.parse(table).map(Self::Format),
                None => Err(SpecError::unknown(suggest::unknown("file system", other, &Self::kinds()))),
            },
        }
    }

    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Model => "model",
            Self::Format(spec) => spec.format().name(),
        }
    }

    /// Whether it works on bare flash, without a translation layer.
    pub fn is_on_flash(&self) -> bool {
        matches!(self, Self::Format(spec) if spec.format().medium() == MediumKind::Flash)
    }

    /// Whether file names are more restricted than in POSIX, by case or characters.
    pub fn restricts_names(&self) -> bool {
        matches!(self, Self::Format(spec) if spec.format().emulate().is_some_and(|format| format.restricts_names()))
    }

    /// A short text, its parts joined by ` | `.
    pub fn title(&self) -> String {
        match self {
            Self::None => "no file system".to_string(),
            Self::Model => "model file system".to_string(),
            Self::Format(spec) => spec.title(),
        }
    }
}

impl<'de> Deserialize<'de> for FsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_table(table_or_name(deserializer, "kind")?).map_err(D::Error::custom)
    }
}

impl Serialize for FsSpec {
    /// A map: `kind`, then the options in the order of their definition.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = match self {
            Self::Format(spec) => spec.table().map_err(S::Error::custom)?,
            Self::None | Self::Model => Table::new(),
        };
        let mut map = serializer.serialize_map(Some(options.len() + 1))?;
        map.serialize_entry("kind", self.name())?;
        options.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_file_systems_are_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("kind = 'vfat'", "did you mean \"fat\""),
            ("kind = 'btrfs'", "expected one of: f2fs, fat, jffs2, model, none, ubifs"),
            ("cache_sectrs = 3", "did you mean `cache_sectors`"),
            // An unknown option: FAT's cache has no replacement policy to choose.
            ("cache_sectors = 3\nreplacement = 'clean-first'", "unknown"),
            ("cluster_size = 1000", "power of two"),
            ("root_entries = 0", "root_entries is 0"),
            ("alignment = 'block'", "erase-block"),
            ("label = 'twelve chars'", "up to 11 characters"),
            ("write_back = 'back'", "cache_sectors above 0"),
            ("kind = 'model'\ncache_sectors = 3", "has no options"),
            ("kind = 'f2fs'\nactive_logs = 5", "expected 2, 4 or 6"),
            ("kind = 'f2fs'\nvictim = 'dog'", "no victim policy `dog`"),
            ("kind = 'f2fs'\nmode = 'log'", "lfs"),
            ("kind = 'f2fs'\nfeatures = 'extras'", "extra_attr"),
            ("kind = 'jffs2'\nvictm = 'cat'", "did you mean `victim`"),
            ("kind = 'jffs2'\nvictim = 'dog'", "no victim policy `dog`"),
            ("kind = 'jffs2'\nseparation = 'dac:regions=99'", "separation"),
            ("kind = 'ubifs'\ncompression = 'rtime'", "zstd"),
            ("kind = 'ubifs'\nfanout = 2", "fanout is 2"),
            ("kind = 'ubifs'\nsub_pages = 500", "a power of two"),
            ("kind = 'ubifs'\nwear_threshold = 0", "wear_threshold is 0"),
            ("kind = 'ubifs'\nvolume = ''", "1 to 127 bytes"),
        ] {
            let error = FsSpec::from_table(toml::from_str(text).unwrap()).unwrap_err();
            assert!(error.detail.contains(expected), "{text}: {error}");
        }
    }

    /// Names from specs and records of version 0.1.
    #[test]
    fn old_keys_and_names_of_victims_become_the_present_ones() {
        for (old, now) in [
            ("kind = 'jffs2'", "kind = 'jffs2'\nvictim = 'jffs2-lists'"),
            ("kind = 'jffs2'\ncollector = 'linux'", "kind = 'jffs2'\nvictim = 'jffs2-lists'"),
            ("kind = 'jffs2'\nvictim = 'linux:open-clean=no'", "kind = 'jffs2'\nvictim = 'jffs2-lists:open-clean=no'"),
            ("kind = 'f2fs'\ncollector = 'linux'", "kind = 'f2fs'\nvictim = 'f2fs-search'"),
            ("kind = 'f2fs'", "kind = 'f2fs'\nvictim = 'f2fs-search'"),
            (
                "kind = 'f2fs'\ncollector = 'cost-benefit-linux'\nbackground_collector = 'linux'",
                "kind = 'f2fs'\nvictim = 'f2fs-cost-benefit'\nbackground_victim = 'f2fs-search'",
            ),
        ] {
            let [old, now] = [old, now].map(|text| FsSpec::from_table(toml::from_str(text).unwrap()).unwrap());
            assert_eq!(old, now);
            assert_eq!(serde_json::to_string(&old).unwrap(), serde_json::to_string(&now).unwrap());
        }
    }
}
