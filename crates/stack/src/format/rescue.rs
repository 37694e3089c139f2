//! Rescue of files from images whose volume cannot be opened.

use nandkit_flash_image::Image;
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};

use super::detected::Within;
use super::{FormatError, Opening};

/// The rescue operation of a format, for images whose superblocks or tables are lost.
pub trait RescueFormat: Sync {
    /// Finds the files in a part of an image by their own blocks. Errors: the part holds none, or
    /// cannot be read.
    fn rescue(&self, image: Image, within: Within, how: &Opening<'_>) -> Result<Box<dyn RescuedFiles>, FormatError>;
}

/// Files found by their own blocks.
pub trait RescuedFiles: Send + Sync {
    /// The tree of the files.
    fn fs(&self) -> &dyn FileSystem;

    /// All rescued inodes, each with its doubts.
    fn files(&self) -> Vec<RescuedFile>;

    /// Notes about the rescue, a sentence each.
    fn notes(&self) -> Vec<String>;
}

/// An inode found by its own blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescuedFile {
    /// Its number in the file system.
    pub inode: InodeNumber,
    /// Its file type.
    pub kind: FileKind,
    /// Size of its content in bytes.
    pub size: u64,
    /// Reasons why it may not be the original; empty if it is certain.
    pub doubts: Vec<Doubt>,
}

/// A reason why a rescued file may not be the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// A short name for JSON: `incomplete`.
    pub kind: &'static str,
    /// An explanation in a sentence.
    pub detail: String,
}
