//! Where a file's bytes lie on the device.

use std::ops::Range;

use crate::{InodeNumber, Result};

/// What stands where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtentKind {
    /// The file's bytes, at an address that is whole units of allocation.
    Written,
    /// The file's bytes, among metadata: at any byte.
    Inline,
    /// The file's bytes in another form, compressed or encrypted; the address is that of the first
    /// of the blocks that hold them, which may be fewer than the extent has.
    Encoded,
    /// Nothing yet: the place belongs to the file, and reads as zeroes.
    Unwritten,
    /// The newest bytes are in memory, and have no place until they are written back.
    Delayed,
}

impl ExtentKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Inline => "inline",
            Self::Encoded => "encoded",
            Self::Unwritten => "unwritten",
            Self::Delayed => "delayed",
        }
    }

    /// Whether its bytes may be anything but zeroes.
    pub const fn is_data(self) -> bool {
        !matches!(self, Self::Unwritten)
    }
}

/// Bytes of a file that follow one another, and where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// The first byte in the file.
    pub offset: u64,
    /// Bytes, at least one. Whole units of allocation but for [`ExtentKind::Inline`]: the last one
    /// may reach behind the file's size, and what is reserved there may lie wholly behind it.
    pub length: u64,
    /// The byte of the device at which the first one stands, the others behind it; of all devices
    /// one behind the other, where the volume lies on several. `None` where there is none: always
    /// of [`ExtentKind::Delayed`]; of others where the format reserves without choosing, or what
    /// holds them waits in memory.
    pub address: Option<u64>,
    /// What stands there.
    pub kind: ExtentKind,
}

impl FileExtent {
    /// The first byte in the file behind it.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The bytes of the file.
    pub const fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }

    /// Whether `next` is more of the same.
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

/// Where a file's bytes lie on the device (what FIEMAP of Linux tells).
///
/// Who reads [`ExtentKind::Written`] and [`ExtentKind::Inline`] at their address reads the file's
/// bytes, as long as the file system changes nothing. Within the file's size, extents of all kinds
/// but [`ExtentKind::Unwritten`] are what [`crate::FileSystem::data_after`] calls data.
pub trait Extents {
    /// The next extent of a regular file that holds a byte at or behind `offset`: where `offset`
    /// lies within one, its part from the unit of allocation on that holds the byte. `None` where
    /// none follows. Who goes on at an extent's end meets all, in ascending order; what is one
    /// extent and what several is the format's. Errors: `NotFound`, `IsADirectory`,
    /// `InvalidArgument` (another kind), `NotSupported` (the format's map says nothing of its
    /// content), `Corrupt`, `Device`. Cost: a search for the offset, and a look at each piece of
    /// the extent and of the hole in front of it.
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>>;
}

/// All extents of a file, neighbours joined. Errors: those of [`Extents::extent_after`]. Cost:
/// theirs; memory for the extents.
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
