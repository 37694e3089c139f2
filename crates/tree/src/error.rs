//! Errors of trees.

use std::io;

use nandkit_vfs::FsError;

/// Shorthand for results about trees.
pub type Result<T> = std::result::Result<T, TreeError>;

/// Why a tree could not be read or written as a whole. What concerns a single file of a tree on its
/// way out stands in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The host's operating system refused something.
    #[error("{path}: {doing}: {source}")]
    Host {
        /// The path on the host.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// An archive is not as tar archives are, or holds what no tree can.
    #[error("archive, entry {entry:?} at byte {offset}: {what}")]
    Archive {
        /// The entry's name as far as known.
        entry: String,
        /// Where its header begins in the uncompressed archive.
        offset: u64,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A line of a device table cannot be read or carried out.
    #[error("device table, line {line}: {what}")]
    DeviceTable {
        /// From 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A line of another file cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The target of an extraction cannot be used as it is.
    #[error("{path}: {what}")]
    Target {
        /// The path on the host.
        path: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A node of a tree is not as nodes are.
    #[error("{path}: {source}")]
    Node {
        /// The path within the tree.
        path: String,
        /// Why not.
        source: FsError,
    },
}

impl TreeError {
    #[cold]
    pub(crate) fn host(path: impl Into<String>, doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Host { path: path.into(), doing, source: source.into() }
    }

    /// What is wrong, without the path.
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

/// A path or name of a tree for messages: with a leading `/`, bytes that are no text or steer a
/// terminal escaped.
pub fn show(path: &[u8]) -> String {
    format!("/{}", escaped(path))
}

/// Bytes for messages: text as it is, all else escaped.
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
