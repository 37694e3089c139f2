//! Where a file's bytes lie on the device.

use std::ops::Range;

use crate::{InodeNumber, Result};

/// How the device stores the bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtentKind {
    /// Plain bytes, at an address that is a multiple of the allocation unit.
    Written,
    /// Plain bytes among metadata, at any byte address.
    Inline,
    /// Compressed or encrypted bytes; the address is that of the first block that holds them. Fewer
    /// blocks than the extent's length may hold them.
    Encoded,
    /// Allocated to the file but never written; reads as zeroes.
    Unwritten,
    /// The newest bytes are in memory only, without an address until they are written back.
    Delayed,
}

impl ExtentKind {
    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Inline => "inline",
            Self::Encoded => "encoded",
            Self::Unwritten => "unwritten",
            Self::Delayed => "delayed",
        }
    }

    /// Whether the extent's bytes may be other than zero.
    pub const fn is_data(self) -> bool {
        !matches!(self, Self::Unwritten)
    }
}

/// A run of consecutive bytes of a file, and their address on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Length in bytes, at least one. A multiple of the allocation unit except for
    /// [`ExtentKind::Inline`]: the last extent may reach past the file's size, and reserved space
    /// may lie wholly past it.
    pub length: u64,
    /// The device address of the first byte; the others follow it. If the volume spans several
    /// devices, addresses run through all of them in order. `None` if there is no address: always
    /// for [`ExtentKind::Delayed`]; for other kinds if the format reserves space without choosing
    /// it, or if the holding block waits in memory.
    pub address: Option<u64>,
    /// How the bytes are stored.
    pub kind: ExtentKind,
}

impl FileExtent {
    /// The file offset just past the extent.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The extent's byte range in the file.
    pub const fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }

    /// Whether `next` directly continues this extent.
    fn goes_on(&self, next: &Self) -> bool {
        let follows = match (self.address, next.address) {
            (Some(here), Some(there)) => here.checked_add(self.length) == Some(there),
            (None, None) => true,
            _ => false,
        };
        let joins = !matches!(self.kind, ExtentKind::Inline | ExtentKind::Encoded);
        joins && follows && self.kind == next.kind && self.end() == next.offset
    }
}

/// The mapping from a file's bytes to the device (like Linux' FIEMAP).
///
/// Reading [`ExtentKind::Written`] and [`ExtentKind::Inline`] extents at their address yields the
/// file's bytes, as long as the file system changes nothing. Within the file's size, all kinds
/// except [`ExtentKind::Unwritten`] are data in the sense of [`crate::FileSystem::data_after`].
pub trait Extents {
    /// The next extent of a regular file that holds a byte at or after `offset`; `None` if none
    /// follows.
    ///
    /// If `offset` lies within an extent, the result is the extent's rest, from the allocation unit
    /// that holds that byte. Repeated calls, each starting at the previous extent's end, visit all
    /// extents in ascending order. The format decides how it splits bytes into extents.
    ///
    /// Errors: `NotFound`, `IsADirectory`, `InvalidArgument` (another kind), `NotSupported` (the
    /// format's map does not describe its content), `Corrupt`, `Device`. Cost: a search for the
    /// offset, and a look at each piece of the extent and of the hole before it.
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>>;
}

/// All extents of a file, adjacent ones joined. Errors and cost: those of
/// [`Extents::extent_after`]; memory for the extents.
pub fn all_extents(extents: &dyn Extents, inode: InodeNumber) -> Result<Vec<FileExtent>> {
    let mut all: Vec<FileExtent> = Vec::new();
    let mut offset = 0;
    while let Some(next) = extents.extent_after(inode, offset)? {
        if next.end() <= offset {
            break;
        }
        offset = next.end();
        match all.last_mut() {
            Some(last) if last.goes_on(&next) => last.length = last.length.saturating_add(next.length),
            _ => all.push(next),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Listed(Vec<FileExtent>);

    impl Extents for Listed {
        fn extent_after(&self, _: InodeNumber, offset: u64) -> Result<Option<FileExtent>> {
            Ok(self.0.iter().find(|extent| extent.end() > offset).copied())
        }
    }

    #[test]
    fn neighbours_are_joined_where_they_go_on_on_the_device() {
        let extent = |offset, length, address, kind| FileExtent { offset, length, address, kind };
        let listed = Listed(vec![
            extent(0, 10, Some(100), ExtentKind::Written),
            extent(10, 10, Some(110), ExtentKind::Written),
            extent(20, 10, Some(130), ExtentKind::Written),
            extent(30, 10, Some(140), ExtentKind::Unwritten),
            extent(50, 10, None, ExtentKind::Delayed),
            extent(60, 10, None, ExtentKind::Delayed),
            extent(70, 10, Some(10), ExtentKind::Encoded),
            extent(80, 10, Some(20), ExtentKind::Encoded),
        ]);
        let all = all_extents(&listed, InodeNumber(1)).unwrap();
        let short: Vec<_> = all.iter().map(|extent| (extent.offset, extent.length)).collect();
        assert_eq!(short, [(0, 20), (20, 10), (30, 10), (50, 20), (70, 10), (80, 10)]);
    }
}
