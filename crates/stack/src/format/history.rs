//! Old versions of files and deleted names that are still on the flash.

use nandkit_vfs::{FileKind, InodeNumber, Timestamp};

/// A version of a file whose data is at least partly still on the flash. Each write makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Number of the version; later ones are larger.
    pub number: u64,
    /// Its position: a data byte counted from the start of the opened part of the image.
    pub at: u64,
    /// First byte of the file that the version wrote.
    pub offset: u64,
    /// Bytes that the version wrote; 0 if only attributes changed.
    pub length: u64,
    /// Size of the file at that time, in bytes.
    pub size: u64,
    /// Time of modification.
    pub modified: Timestamp,
    /// Whether the written data is intact.
    pub intact: bool,
}

/// The content of a file at one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldContent {
    /// The version: the highest one on the flash up to the requested number.
    pub number: u64,
    /// Time of modification.
    pub modified: Timestamp,
    /// The content; lost ranges are zeroes.
    pub bytes: Vec<u8>,
    /// Lost ranges: start and end (exclusive). One that reaches the end of the file may be missing
    /// from the content.
    pub lost: Vec<(u64, u64)>,
    /// Why the rest may not be the file's content; `None` if it is certain.
    pub doubt: Option<&'static str>,
}

/// A deleted or replaced name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedName {
    /// The path without a leading `/`; `None` if the directory has no path any more.
    pub path: Option<Vec<u8>>,
    /// The name.
    pub name: Vec<u8>,
    /// The directory that held it.
    pub parent: InodeNumber,
    /// The inode that had this name.
    pub inode: InodeNumber,
    /// Its file type.
    pub kind: FileKind,
    /// Position of the name: a data byte counted from the start of the opened part of the image.
    pub at: u64,
    /// When it was deleted, if known.
    pub deleted: Option<Timestamp>,
    /// How much of the file's content is still readable; `None` if only reading can tell.
    pub content: Option<DeletedContent>,
    /// Whether the inode has another name now: it was renamed, or this was one of several names.
    pub lives: bool,
}

/// What is left of a deleted file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedContent {
    /// Size of the file in bytes.
    pub size: u64,
    /// Bytes that can be read.
    pub readable: u64,
    /// Why these may not be the file's bytes; `None` if it is certain.
    pub doubt: Option<&'static str>,
}

/// Access to old versions and deleted names that a format keeps.
pub trait History {
    /// The versions of a file that are still on the flash, the current one last. Errors:
    /// `NotFound`, `Device`.
    fn versions(&self, inode: InodeNumber) -> nandkit_vfs::Result<Vec<FileVersion>>;

    /// The content of a file at one of its versions. Errors: `NotFound`, `InvalidArgument` (not a
    /// regular file), `Device`.
    fn content_at(&self, inode: InodeNumber, number: u64) -> nandkit_vfs::Result<OldContent>;

    /// Names that were deleted or replaced and are still on the flash. Errors: `Device`.
    fn deleted(&self) -> nandkit_vfs::Result<Vec<DeletedName>>;
}
