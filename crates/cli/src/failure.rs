//! Why a command failed, and its exit status.

use nandkit_lab::{LabError, SpecError};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// A check or a claim failed: exit status 1.
    Check(String),
    /// The input is unusable: exit status 2. The message says what, where, and what was expected.
    Input(String),
    /// Stopped by Ctrl-C: exit status 130, as in shells.
    Stopped(String),
    /// The reason was already reported: this exit status, no message.
    Told(u8),
    /// The reader of the output closed the pipe: no message, exit status 0.
    ReaderGone,
}

impl Failure {
    /// The exit status.
    pub const fn status(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Check(_) => 1,
            Self::Input(_) => 2,
            Self::Stopped(_) => 130,
            Self::Told(status) => *status,
        }
    }

    /// The message, if there is one.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Check(message) | Self::Input(message) | Self::Stopped(message) => Some(message),
            Self::Told(_) | Self::ReaderGone => None,
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Stopped { .. } => Self::Stopped(error.to_string()),
            error if error.is_input() => Self::Input(error.to_string()),
            error => Self::Check(error.to_string()),
        }
    }
}
