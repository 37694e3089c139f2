//! Which pieces of files are shared, and their position in the temporary file.

use nandkit_vfs::{
    AdoptedRange, Attributes, ExtentKind, FileKind, FileSystem, InodeNumber, Result, Timestamp, all_extents,
};

/// Attributes by which a change of a file is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub size: u64,
    modified: Timestamp,
    changed: Timestamp,
}

impl Version {
    pub fn of(attributes: &Attributes) -> Self {
        Self { size: attributes.size, modified: attributes.modified, changed: attributes.changed }
    }
}

/// A run of data in whole units, with its offsets in the file and in the temporary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub offset: u64,
    pub at: u64,
    pub length: u64,
}

impl Piece {
    pub const fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// The data runs of a file, to be placed from `at`; `None` if some of its content has no whole
/// unit. Errors: those of reading extents.
pub fn pieces_of(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    version: &Version,
    unit: u64,
    at: u64,
) -> Result<Option<Vec<Piece>>> {
    let Some(extents) = fs.extents() else { return Ok(None) };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = at;
    for extent in all_extents(extents, inode)? {
        match extent.kind {
            ExtentKind::Inline | ExtentKind::Encoded => return Ok(None),
            ExtentKind::Unwritten => continue,
            ExtentKind::Written | ExtentKind::Delayed => {}
        }
        let start = extent.offset - extent.offset % unit;
        let most = version.size.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        let end = extent.end().checked_next_multiple_of(unit).unwrap_or(u64::MAX).min(most);
        let start = pieces.last().map_or(start, |last| start.max(last.end()));
        if start >= end {
            continue;
        }
        let length = end - start;
        match pieces.last_mut() {
            Some(last) if last.end() == start => last.length += length,
            _ => pieces.push(Piece { offset: start, at, length }),
        }
        at = at.saturating_add(length);
    }
    Ok(Some(pieces))
}

/// The arguments of an adoption.
pub fn places(inode: InodeNumber, pieces: &[Piece]) -> impl Iterator<Item = AdoptedRange> {
    pieces.iter().map(move |piece| AdoptedRange {
        offset: piece.at,
        source: inode,
        source_offset: piece.offset,
        length: piece.length,
    })
}

/// The attributes of a regular file. Errors: those of `stat`. The attributes of another file type
/// say that it has no content.
pub fn look(fs: &dyn FileSystem, inode: InodeNumber) -> Result<Attributes> {
    let attributes = fs.stat(inode)?;
    let size = if attributes.kind == FileKind::Regular { attributes.size } else { 0 };
    Ok(Attributes { size, ..attributes })
}
