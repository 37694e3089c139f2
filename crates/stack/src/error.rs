//! Why a stack, or an image, cannot be had.

/// A stack that cannot be: which parts do not fit, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {detail}")]
pub struct StackError {
    /// The part, as in the spec: `stack.ftl`.
    pub at: &'static str,
    /// What is wrong with it, and what would be right.
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
    /// A name that nobody knows: of a preset, of a kind, of a key.
    Unknown,
    /// It cannot be read as what is wanted there.
    Form,
    /// It is outside what is possible.
    Range,
    /// It does not go with another value.
    Conflict,
}

/// A value of a spec that cannot be, before anything is built of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct SpecError {
    /// In what way it is wrong.
    pub kind: SpecErrorKind,
    /// The key, its value, and what would be right.
    pub detail: String,
}

impl SpecError {
    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::Unknown, detail: detail.into() }
    }

    /// What a reader of the value says of it.
    pub(crate) fn form(detail: impl ToString) -> Self {
        Self { kind: SpecErrorKind::Form, detail: detail.to_string() }
    }

    pub(crate) fn range(detail: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::Range, detail: detail.into() }
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::Conflict, detail: detail.into() }
    }

    /// Puts the table that holds the key before it.
    pub(crate) fn within(self, table: &str) -> Self {
        Self { detail: format!("in {table}: {}", self.detail), ..self }
    }
}

impl From<SpecError> for String {
    fn from(error: SpecError) -> Self {
        error.detail
    }
}
