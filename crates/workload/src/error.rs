//! Errors of workloads: those of the spec, which the user can correct, and those of preparing and
//! running.

use nandkit_block::BlockError;
use nandkit_vfs::FsError;

/// A specification that cannot be used; says which key, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SpecError {
    #[error("there is no workload \"{name}\"{nearest}; known are {known}")]
    UnknownWorkload { name: String, nearest: Nearest, known: String },
    #[error("workload {workload} has no parameter \"{key}\"{nearest}; it has {known}")]
    UnknownParameter { workload: &'static str, key: String, nearest: Nearest, known: String },
    #[error("workload {workload}: {key} = {value} is not possible: expected {expected}")]
    BadValue { workload: &'static str, key: &'static str, value: String, expected: String },
    #[error("workload {workload} needs {key}: write {workload}:{placeholder} or give the key {key}")]
    Missing { workload: &'static str, key: &'static str, placeholder: &'static str },
    #[error("workload {workload}: {detail}")]
    Conflict { workload: &'static str, detail: String },
    #[error(
        "\"{text}\" is no workload: expected NAME or NAME:key=value,key=value, for example overwrite:pattern=rnd,files=104; {detail}"
    )]
    Syntax { text: String, detail: String },
}

/// The known name that is most similar, if one is similar enough; prints as `, did you mean "..."?`
/// or as nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest(pub Option<&'static str>);

impl Nearest {
    /// Finds the candidate that `name` most likely means.
    pub fn of(name: &str, candidates: &[&'static str]) -> Self {
        Self(nandkit_units::suggest::nearest(name, candidates.iter().copied()))
    }
}

impl std::fmt::Display for Nearest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(name) => write!(f, ", did you mean \"{name}\"?"),
            None => Ok(()),
        }
    }
}

/// A workload that cannot be prepared, or a run that failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WorkloadError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("workload {workload} does not run on {target}: {expected}")]
    WrongTarget { workload: &'static str, target: &'static str, expected: &'static str },
    #[error("workload {workload} does not fit: it needs {needed} bytes and there are {available}; {advice}")]
    DoesNotFit { workload: &'static str, needed: u64, available: u64, advice: String },
    #[error("{file}, line {line}: {found}: expected {expected}")]
    Trace { file: String, line: u64, found: String, expected: String },
    #[error("{path}: {detail}")]
    Input { path: String, detail: String, source: Option<std::io::Error> },
    #[error("operation {index} ({operation}) failed: {source}")]
    File { index: u64, operation: String, source: FsError },
    #[error("operation {index} ({operation}) failed: {source}")]
    Block { index: u64, operation: String, source: BlockError },
    #[error("content differs at {place}: {detail}")]
    Mismatch { place: String, detail: String },
    #[error("the workload itself is wrong: {detail}")]
    Inconsistent { detail: String },
    #[error("stopped after {operations} operations, as asked")]
    Cancelled { operations: u64 },
}

impl WorkloadError {
    /// Whether the input (spec, trace, directory, size of the device) is at fault, so that other
    /// input avoids the error.
    pub const fn is_input(&self) -> bool {
        matches!(
            self,
            Self::Spec(_)
                | Self::WrongTarget { .. }
                | Self::DoesNotFit { .. }
                | Self::Trace { .. }
                | Self::Input { .. }
        )
    }

    pub(crate) fn inconsistent(detail: impl Into<String>) -> Self {
        Self::Inconsistent { detail: detail.into() }
    }
}

/// Shorthand for results of workloads.
pub type Result<T> = std::result::Result<T, WorkloadError>;
