//! Why a command ends without success, and with which exit status.

use nandkit_lab::{LabError, SpecError};

/// Why a command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// A check or a claim failed: exit status 1.
    Check(String),
    /// The input is unusable (what, where, what would be right): exit status 2.
    Input(String),
    /// Stopped by Ctrl-C: exit status 130, as shells have it.
    Stopped(String),
    /// Another process said why: this exit status, no message.
    Told(u8),
    /// Whoever reads our output went away: no message, exit status 0.
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

    /// What to tell.
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
