//! Sharing ranges of files with other files, without reading or writing them.

use crate::{InodeNumber, Result};

/// A range of one file that another file is to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedRange {
    /// Offset in the target; a multiple of [`Adopt::unit`].
    pub offset: u64,
    /// The file that holds the bytes; not the target.
    pub source: InodeNumber,
    /// Offset in the source; a multiple of the unit.
    pub source_offset: u64,
    /// Length in bytes, at least one; the range ends within the source's last unit at the latest. A
    /// multiple of the unit, unless it ends at or past the target's size.
    pub length: u64,
}

/// Gives a file the content of other files by remapping on the device (P3). Source and target then
/// share the content.
///
/// Callers pass ranges of files, never addresses: cleaning could move the sources between looking
/// up an address and adopting it.
pub trait Adopt {
    /// The unit of ranges in bytes. Cost: none.
    fn unit(&mut self) -> u32;

    /// Makes `target` read, in each range, what its source reads there now; later changes of either
    /// do not affect the other. The sources' dirty content is written first. Holes of a source
    /// become holes of the target, and a source's last unit comes with its bytes past the end
    /// (zeroes on a healthy volume). The target grows to the end of its ranges. All or nothing for
    /// callers: after an error the target reads as before.
    ///
    /// Durable with the next [`crate::Changes::sync`] of the target or of everything. A power cut
    /// before that sync ends leaves the target wholly old or wholly new, and the sources unchanged.
    ///
    /// Errors: `NotFound`, `IsADirectory`, `InvalidArgument` (another kind; not a multiple of the
    /// unit; past the end of a source; overlapping ranges of the target; a file as its own source),
    /// `NotSupported` (the source's content has no unit of its own because it is inline or
    /// compressed: read and write it instead), `NoSpace` (also if the request is larger than can be
    /// reserved at once: fewer ranges at a time may fit), `FileTooBig`, `Corrupt`, `Device` (also
    /// if the device's table of shared units is full). Cost: an address lookup for each unit, and
    /// the remap commands; the only pages read or programmed are those of dirty content.
    fn adopt(&mut self, target: InodeNumber, places: &[AdoptedRange]) -> Result<()>;
}
