//! Errors of experiments, told apart by who can mend them.

use std::fmt;

use crate::ResultsError;

/// An error in an experiment's spec: where it is wrong, what stands there, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    at: String,
    detail: String,
}

impl SpecError {
    /// An error at `at`: a key, a file or a line.
    pub fn new(at: impl Into<String>, detail: impl Into<String>) -> Self {
        let (at, detail) = (at.into(), detail.into());
        Self { detail: if at.is_empty() { detail } else { format!(": {detail}") }, at }
    }

    /// An error for a value outside the allowed ones.
    pub(crate) fn value(at: &str, value: &toml::Value, expected: &str) -> Self {
        Self { at: at.to_string(), detail: format!(" is {value}; expected {expected}") }
    }

    /// Puts the key of the table `outer` before the error's own key, which lies in it.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.at = format!("{outer}.{}", self.at);
        self
    }

    /// Adds the file in which the error is.
    pub fn in_file(self, file: &str) -> Self {
        Self { at: file.to_string(), detail: format!(": {}{}", self.at, self.detail) }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.at, self.detail)
    }
}

impl std::error::Error for SpecError {}

/// Why an experiment ended without all its records.
#[derive(Debug)]
pub enum LabError {
    /// The input is wrong; other input mends it.
    Input(String),
    /// A run failed although its input was right: content differs, or a layer broke a promise.
    Failed(String),
    /// Results cannot be kept.
    Results(ResultsError),
    /// Stopped as asked; what was finished is kept.
    Stopped {
        /// How many runs were finished.
        finished: usize,
        /// How many there are.
        total: usize,
    },
}

impl LabError {
    /// Whether other input, or a disk with room, would mend the error.
    pub const fn is_input(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Results(_))
    }

    /// Adds the run in which the error happened.
    pub(crate) fn in_run(self, run: &str) -> Self {
        match self {
            Self::Input(detail) => Self::Input(format!("{run}: {detail}")),
            Self::Failed(detail) => Self::Failed(format!("{run}: {detail}")),
            other => other,
        }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(detail) | Self::Failed(detail) => f.write_str(detail),
            Self::Results(error) => error.fmt(f),
            Self::Stopped { finished, total } => {
                write!(f, "stopped after {finished} of {total} runs")
            }
        }
    }
}

impl std::error::Error for LabError {}

impl From<SpecError> for LabError {
    fn from(error: SpecError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<ResultsError> for LabError {
    fn from(error: ResultsError) -> Self {
        Self::Results(error)
    }
}
