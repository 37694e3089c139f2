//! Files of images of which no volume can be opened any more.

use nandkit_flash_image::Image;
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};

use super::detected::Within;
use super::{FormatError, Opening};

/// What a format has for images whose superblocks or tables are lost.
pub trait RescueFormat: Sync {
    /// The files that a part of an image holds, found by their own blocks. Errors: the part holds
    /// none, or it cannot be read.
    fn rescue(&self, image: Image, within: Within, how: &Opening<'_>) -> Result<Box<dyn RescuedFiles>, FormatError>;
}

/// Files that were found by their own blocks.
pub trait RescuedFiles: Send + Sync {
    /// The tree that they make.
    fn fs(&self) -> &dyn FileSystem;

    /// Everything that was found, by inode; what speaks against it is known for each.
    fn files(&self) -> Vec<RescuedFile>;

    /// What people should know of the whole: a sentence each.
    fn notes(&self) -> Vec<String>;
}

/// An inode that was found by its own blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescuedFile {
    /// Its number in the file system.
    pub inode: InodeNumber,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of its content.
    pub size: u64,
    /// Why it may not be what it was; nothing where it is sure.
    pub doubts: Vec<Doubt>,
}

/// Why a rescued file may not be what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// A short name for programs: `incomplete`.
    pub kind: &'static str,
    /// A sentence for people.
    pub detail: String,
}
