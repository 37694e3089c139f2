//! Errors of specs, stacks and images.

/// Why a stack cannot be built or an image cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {detail}")]
pub struct StackError {
    /// The key of the part in the spec: `stack.ftl`.
    pub at: &'static str,
    /// What is wrong, and what was expected.
    pub detail: String,
}

impl StackError {
    /// An error in a part of a spec.
    pub fn new(at: &'static str, detail: impl Into<String>) -> Self {
        Self { at, detail: detail.into() }
    }
}

/// In what way a value of a spec is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecErrorKind {
    /// An unknown name of a preset, kind or key.
    Unknown,
    /// The value has the wrong form or type.
    Form,
    /// The value is out of range.
    Range,
    /// The value conflicts with another one.
    Conflict,
}

/// An invalid value in a spec, found before anything is built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct SpecError {
    /// In what way it is wrong.
    pub kind: SpecErrorKind,
    /// The key, its value, and what was expected.
    pub detail: String,
}

impl SpecError {
    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::Unknown, detail: detail.into() }
    }

    /// An error of the kind [`SpecErrorKind::Form`] from a parser's message.
    pub(crate) fn form(detail: impl ToString) -> Self {
        Self { kind: SpecErrorKind::Form, detail: detail.to_string() }
    }

    pub(crate) fn range(detail: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::Range, detail: detail.into() }
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::Conflict, detail: detail.into() }
    }

    /// Adds the name of the table in front of the key.
    pub(crate) fn within(self, table: &str) -> Self {
        Self { detail: format!("in {table}: {}", self.detail), ..self }
    }
}

impl From<SpecError> for String {
    fn from(error: SpecError) -> Self {
        error.detail
    }
}
