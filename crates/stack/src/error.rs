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
