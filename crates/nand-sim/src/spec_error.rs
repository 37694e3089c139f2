//! Why a spec cannot be used.

use nandkit_units::GeometryError;

/// A spec that cannot be used: where, what it says, what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The text is no TOML, or a value has the wrong type. The message shows line and column.
    #[error("unreadable chip spec: {0}")]
    Syntax(String),
    /// A value of another type than the key's, or out of its range.
    #[error("unreadable chip spec: {}{key} is {value}, expected {expected}", line_of(.line))]
    WrongType {
        /// Where, in a text.
        line: Option<usize>,
        /// The key with its section.
        key: String,
        /// What it was.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// A key that no chip has.
    #[error("unknown key \"{key}\" in the chip spec{}", suggestion(.nearest))]
    UnknownKey {
        /// The key with its section.
        key: String,
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// A value that no chip can have.
    #[error("impossible chip: {field} is {value}, expected {expected}")]
    Impossible {
        /// The key with its section.
        field: String,
        /// What it was.
        value: String,
        /// What would be right.
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
        /// What was asked for.
        name: String,
        /// The known name that is most like it.
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
