//! Errors of chip specs.

use nandkit_units::GeometryError;

/// Why a spec cannot be used: where, what it says, what was expected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The text is not TOML, or a value has the wrong type. The message shows line and column.
    #[error("unreadable chip spec: {0}")]
    Syntax(String),
    /// A value of the wrong type, or out of its type's range.
    #[error("unreadable chip spec: {}{key} is {value}, expected {expected}", line_of(.line))]
    WrongType {
        /// The line in the text, if known.
        line: Option<usize>,
        /// The key with its section.
        key: String,
        /// The given value.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// A key that chip specs do not have.
    #[error("unknown key \"{key}\" in the chip spec{}", suggestion(.nearest))]
    UnknownKey {
        /// The key with its section.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// An impossible value.
    #[error("impossible chip: {field} is {value}, expected {expected}")]
    Impossible {
        /// The key with its section.
        field: String,
        /// The given value.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// A figure without a source.
    #[error(
        "{figure} has no source: expected a text under \"{figure}\" or under its section in [sources], or the word \"assumption\""
    )]
    NoSource {
        /// The figure with its section.
        figure: String,
    },
    /// No preset has this name.
    #[error("unknown device \"{name}\"{}; known are {known}", suggestion(.nearest))]
    UnknownPreset {
        /// The requested name.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!(", did you mean \"{nearest}\"?")).unwrap_or_default()
}

fn line_of(line: &Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl From<GeometryError> for SpecError {
    fn from(error: GeometryError) -> Self {
        Self::impossible(&format!("geometry.{}", error.field), error.value, error.expected)
    }
}

impl SpecError {
    pub(crate) fn impossible(field: &str, value: impl ToString, expected: &str) -> Self {
        Self::Impossible { field: field.to_string(), value: value.to_string(), expected: expected.to_string() }
    }
}
