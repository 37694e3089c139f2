//! What was, as far as it is still on the flash.

use nandkit_vfs::{FileKind, InodeNumber, Timestamp};

/// A state of a file of which something is still on the flash: each write made one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Counts up.
    pub number: u64,
    /// The data byte of the part of the image that was opened where it stands.
    pub at: u64,
    /// First byte of the file that was written.
    pub offset: u64,
    /// Bytes that were written; 0 where only attributes were changed.
    pub length: u64,
    /// Bytes of the file at that time.
    pub size: u64,
    /// Time of modification.
    pub modified: Timestamp,
    /// Whether what was written is whole.
    pub intact: bool,
}

/// A file's content as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldContent {
    /// The version: the highest that is still there up to the one asked for.
    pub number: u64,
    /// Time of modification.
    pub modified: Timestamp,
    /// The content; lost ranges are zeroes.
    pub bytes: Vec<u8>,
    /// Ranges that are lost: start and the byte behind. One that reaches to the end may be left out
    /// of the content.
    pub lost: Vec<(u64, u64)>,
    /// What speaks against the rest being what the file held, where that is not sure.
    pub doubt: Option<&'static str>,
}

/// A name that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedName {
    /// The path without a leading `/`, where the directory still has one.
    pub path: Option<Vec<u8>>,
    /// The name.
    pub name: Vec<u8>,
    /// The directory that held it.
    pub parent: InodeNumber,
    /// The inode that was so called.
    pub inode: InodeNumber,
    /// What it was.
    pub kind: FileKind,
    /// The data byte of the part of the image that was opened where the name stands.
    pub at: u64,
    /// When it was taken away, where that is known.
    pub deleted: Option<Timestamp>,
    /// How much of a file's content can still be had; `None` where only reading it tells.
    pub content: Option<DeletedContent>,
    /// The inode has another name now: it was renamed, or this was one of several.
    pub lives: bool,
}

/// What is left of a deleted file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedContent {
    /// Bytes that the file had.
    pub size: u64,
    /// Bytes that can be read.
    pub readable: u64,
    /// What speaks against these being the file's, where that is not sure.
    pub doubt: Option<&'static str>,
}

/// What a format keeps of the past.
pub trait History {
    /// The states of a file of which something is still on the flash, the present one last. Errors:
    /// `NotFound`, `Device`.
    fn versions(&self, inode: InodeNumber) -> nandkit_vfs::Result<Vec<FileVersion>>;

    /// What a file held at one of its versions. Errors: `NotFound`, `InvalidArgument` (no file),
    /// `Device`.
    fn content_at(&self, inode: InodeNumber, number: u64) -> nandkit_vfs::Result<OldContent>;

    /// Names that were deleted or replaced and are still on the flash. Errors: `Device`.
    fn deleted(&self) -> nandkit_vfs::Result<Vec<DeletedName>>;
}
