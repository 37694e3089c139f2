//! Reading and checking card specs.

use std::fmt;

use nandkit_units::suggest;
use nandkit_units::toml_depth::nests_too_deep;
use toml::{Table, Value};

use super::spec::CardSpec;
use crate::check::CAPACITY_MAX;

/// Why a card spec cannot be used: where, what it says, what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardSpecError {
    /// The text is not TOML, or a value has the wrong type: the message names the line, the value,
    /// and what is expected.
    Syntax(String),
    /// A key that card specs do not have.
    UnknownKey {
        /// The key with its section.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// An impossible value.
    Impossible {
        /// The key with its section.
        field: String,
        /// The given value.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// A figure without a source.
    NoSource {
        /// The figure with its section.
        figure: String,
    },
    /// No preset has this name.
    UnknownPreset {
        /// The requested name.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
}

impl fmt::Display for CardSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suggestion = |nearest: &Option<String>| {
            nearest.as_ref().map(|nearest| format!(", did you mean \"{nearest}\"?")).unwrap_or_default()
        };
        match self {
            Self::Syntax(detail) => write!(f, "unreadable card spec: {detail}"),
            Self::UnknownKey { key, nearest } => {
                write!(f, "unknown key \"{key}\" in the card spec{}", suggestion(nearest))
            }
            Self::Impossible { field, value, expected } => {
                write!(f, "impossible card: {field} is {value}, expected {expected}")
            }
            Self::NoSource { figure } => write!(
                f,
                "{figure} has no source: expected a text under \"{figure}\" or under its section in [sources], or the word \"assumption\""
            ),
            Self::UnknownPreset { name, nearest, known } => {
                write!(f, "unknown card \"{name}\"{}; known are {known}", suggestion(nearest))
            }
        }
    }
}

impl std::error::Error for CardSpecError {}

/// A figure of a card's spec.
#[derive(Clone, Debug, PartialEq)]
pub struct CardFigure {
    /// The key with its section: `timing.command_ns`.
    pub key: String,
    /// The value in TOML syntax.
    pub value: String,
    /// The source; `None` if the spec names none.
    pub source: Option<String>,
}

/// Longest time (one hour): larger values are typing errors.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// The smallest allocation unit of an SD card (Physical Layer Specification, table 4-46).
const SMALLEST_UNIT: u64 = 16 << 10;
/// Far more open units than any card has; each costs a comparison per write.
const MOST_UNITS: u32 = 1024;

type Checked = Result<(), CardSpecError>;

fn require(holds: bool, field: &str, value: impl ToString, expected: &str) -> Checked {
    if holds {
        return Ok(());
    }
    Err(CardSpecError::Impossible {
        field: field.to_string(),
        value: value.to_string(),
        expected: expected.to_string(),
    })
}

impl CardSpec {
    /// Reads a spec and checks it. Errors: [`CardSpecError::Syntax`], `UnknownKey`, `Impossible`.
    pub fn from_toml(text: &str) -> Result<Self, CardSpecError> {
        if nests_too_deep(text) {
            let what = "brackets and keys stand in each other deeper than any spec needs; expected plain tables";
            return Err(CardSpecError::Syntax(what.to_string()));
        }
        let table: Table = text.parse().map_err(|error| in_words(&error, text))?;
        refuse_unknown_keys(&table, &table_of(&Self::default())?, "")?;
        let spec: Self = toml::from_str(text).map_err(|error| in_words(&error, text))?;
        spec.check()?;
        Ok(spec)
    }

    /// The spec as TOML, with every value written out.
    pub fn to_toml(&self) -> Result<String, CardSpecError> {
        toml::to_string(self).map_err(|error| CardSpecError::Syntax(error.to_string()))
    }

    /// Refuses impossible values. Errors: [`CardSpecError::Impossible`].
    pub fn check(&self) -> Checked {
        let (geometry, timing, units) = (&self.geometry, &self.timing, &self.open_units);
        let (sector, page) = (geometry.sector_size, geometry.page_size);
        let power = |bytes: u32| bytes.is_power_of_two() && (512..=65_536).contains(&bytes);
        require(power(sector), "geometry.sector_size", sector, "a power of two from 512 to 65536")?;
        require(
            page.is_power_of_two() && page >= sector && page <= 1 << 20,
            "geometry.page_size",
            page,
            "a power of two from geometry.sector_size to 1048576",
        )?;
        let capacity = geometry.capacity;
        require(
            capacity > 0 && capacity <= CAPACITY_MAX && capacity.is_multiple_of(u64::from(sector)),
            "geometry.capacity",
            capacity,
            "whole sectors, at least one and at most 2^50 bytes",
        )?;
        for (name, curve) in [
            ("curves.read_sequential", &self.curves.read_sequential),
            ("curves.read_random", &self.curves.read_random),
            ("curves.write_sequential", &self.curves.write_sequential),
            ("curves.write_random", &self.curves.write_random),
        ] {
            if let Some((found, expected)) = curve.fault(LONGEST_NS) {
                return require(false, name, found, &expected);
            }
            // Times for another block size: no request to this card has such a size.
            if let Some((bytes, time_ns)) = curve.points().iter().find(|(bytes, _)| bytes % u64::from(sector) != 0) {
                let expected = format!("sizes of whole sectors, which geometry.sector_size says are of {sector} bytes");
                return require(false, name, format!("[{bytes}, {time_ns}]"), &expected);
            }
        }
        for (field, time_ns) in [
            ("timing.command_ns", timing.command_ns),
            ("timing.trim_ns", timing.trim_ns),
            ("open_units.merge_ns", units.merge_ns),
        ] {
            require(time_ns <= LONGEST_NS, field, time_ns, "at most an hour (3600000000000)")?;
        }
        let bus_ps = timing.bus_ps_per_byte;
        require(bus_ps <= 1_000_000_000, "timing.bus_ps_per_byte", bus_ps, "at most a millisecond (1000000000)")?;
        require(
            (SMALLEST_UNIT..=1 << 30).contains(&units.size) && units.size.is_multiple_of(u64::from(sector)),
            "open_units.size",
            units.size,
            "whole sectors, 16384 (16 KiB) to 1073741824 (1 GiB) bytes",
        )?;
        require((1..=MOST_UNITS).contains(&units.count), "open_units.count", units.count, "1 to 1024")
    }

    /// Every figure with its value and source, sorted by key.
    pub fn figures(&self) -> Result<Vec<CardFigure>, CardSpecError> {
        let mut figures = Vec::new();
        for (section, entries) in table_of(self)?.into_iter().filter(|(section, _)| section != "sources") {
            let Value::Table(entries) = entries else { continue };
            figures.extend(entries.into_iter().map(|(name, value)| {
                let key = format!("{section}.{name}");
                let source = self.sources.get(&key).or_else(|| self.sources.get(&section)).cloned();
                CardFigure { key, value: value.to_string(), source }
            }));
        }
        figures.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(figures)
    }

    /// Refuses a spec with a figure without source, or a source without figure. Errors:
    /// [`CardSpecError::NoSource`], `UnknownKey`.
    pub fn check_sources(&self) -> Checked {
        let figures = self.figures()?;
        let told = |figure: &CardFigure| figure.source.as_deref().is_some_and(|source| !source.trim().is_empty());
        if let Some(figure) = figures.iter().find(|figure| !told(figure)) {
            return Err(CardSpecError::NoSource { figure: figure.key.clone() });
        }
        let sections = figures.iter().filter_map(|figure| figure.key.split('.').next());
        let known: Vec<&str> = figures.iter().map(|figure| figure.key.as_str()).chain(sections).collect();
        match self.sources.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(CardSpecError::UnknownKey {
                key: format!("sources.{key}"),
                nearest: suggest::nearest(key, known.iter().copied()).map(str::to_string),
            }),
            None => Ok(()),
        }
    }
}

fn table_of(spec: &CardSpec) -> Result<Table, CardSpecError> {
    Table::try_from(spec).map_err(|error| CardSpecError::Syntax(error.to_string()))
}

/// Formats an error with its line, the text found there, and what is expected.
fn in_words(error: &toml::de::Error, text: &str) -> CardSpecError {
    let message = match error.message().rsplit_once("expected ") {
        Some((_, expected)) => format!("expected {}", suggest::expected_in_words(expected.trim())),
        None => error.message().to_string(),
    };
    let before = error.span().and_then(|span| text.get(..span.start));
    CardSpecError::Syntax(match before {
        Some(before) => {
            let line = before.matches('\n').count();
            let found = text.lines().nth(line).unwrap_or_default().trim();
            format!("line {}: `{found}`: {message}", line + 1)
        }
        None => message,
    })
}

fn refuse_unknown_keys(given: &Table, known: &Table, prefix: &str) -> Checked {
    for (key, value) in given {
        let Some(known_value) = known.get(key) else {
            return Err(CardSpecError::UnknownKey {
                key: format!("{prefix}{key}"),
                nearest: nearest_key(key, known, prefix),
            });
        };
        if let (Value::Table(given), Value::Table(known)) = (value, known_value)
            && key != "sources"
        {
            refuse_unknown_keys(given, known, &format!("{prefix}{key}."))?;
        }
    }
    Ok(())
}

/// The most similar known key in this table, or one table deeper.
fn nearest_key(wrong: &str, known: &Table, prefix: &str) -> Option<String> {
    let here = suggest::nearest(wrong, known.keys().map(String::as_str)).map(|near| format!("{prefix}{near}"));
    here.or_else(|| {
        known.iter().find_map(|(section, entries)| {
            let keys = entries.as_table()?.keys().map(String::as_str);
            suggest::nearest(wrong, keys).map(|near| format!("{section}.{near}"))
        })
    })
}
