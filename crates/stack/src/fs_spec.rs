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
