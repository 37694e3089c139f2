//! Errors of trees.

use std::io;

use nandkit_vfs::FsError;

/// Shorthand for results of tree operations.
pub type Result<T> = std::result::Result<T, TreeError>;

/// Why a tree could not be read or written as a whole. Problems with single files during extraction
/// are in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// An operation of the host failed.
    #[error("{path}: {doing}: {source}")]
    Host {
        /// The path on the host.
        path: String,
        /// The operation.
        doing: &'static str,
        /// The host's error.
        source: io::Error,
    },
    /// An archive is no valid tar archive, or contains what no tree can.
    #[error("archive, entry {entry:?} at byte {offset}: {what}")]
    Archive {
        /// The entry's name, as far as known.
        entry: String,
        /// Offset of its header in the uncompressed archive.
        offset: u64,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A line of a device table is invalid or cannot be executed.
    #[error("device table, line {line}: {what}")]
    DeviceTable {
        /// The line number, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A line of another file is invalid.
    #[error("line {line}: {what}")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// The target of an extraction cannot be used.
    #[error("{path}: {what}")]
    Target {
        /// The path on the host.
        path: String,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A node of a tree is invalid.
    #[error("{path}: {source}")]
    Node {
        /// The path within the tree.
        path: String,
        /// The reason.
        source: FsError,
    },
}

impl TreeError {
    #[cold]
    pub(crate) fn host(path: impl Into<String>, doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Host { path: path.into(), doing, source: source.into() }
    }

    /// The problem, without the path.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Host { doing, source, .. } => format!("{doing}: {source}"),
            Self::Node { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    }

    #[cold]
    pub(crate) fn node(path: &[u8], source: FsError) -> Self {
        Self::Node { path: show(path), source }
    }
}

/// A path or name for messages: with a leading `/`, and with bytes escaped that are no text or
/// control a terminal.
pub fn show(path: &[u8]) -> String {
    format!("/{}", escaped(path))
}

/// Bytes for messages: text unchanged, everything else escaped.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}
