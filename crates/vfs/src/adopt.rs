//! Places of files that become another file's without being read or written.

use crate::{InodeNumber, Result};

/// Bytes of one file that another file is to have as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedRange {
    /// Where the target has them; a multiple of [`Adopt::unit`].
    pub offset: u64,
    /// The file that holds them, another one than the target.
    pub source: InodeNumber,
    /// Where the source has them; a multiple of the unit.
    pub source_offset: u64,
    /// Bytes, at least one; they end within the source's last unit at the latest. A multiple of the
    /// unit, but where they end at or behind the target's size.
    pub length: u64,
}

/// Giving a file the content that other files have, by the device's remapping alone (P3): it is
/// shared, and stays the sources' too.
///
/// What is handed over are places in files, never addresses: between asking for addresses and
/// adopting them, a collection could have moved the sources.
pub trait Adopt {
    /// Bytes of the pieces of which places are made. Cost: none.
    fn unit(&mut self) -> u32;

    /// Lets `target` read, at each place, what its source reads there now; both may be changed
    /// afterwards without the other. Content of the sources that waits in memory is written first;
    /// holes of a source are holes of the target, and the last unit of a source comes with what
    /// lies behind its end (zeroes, on a volume that is whole). The target grows to the end of its
    /// places. All or nothing for the callers: behind an error the target reads as before.
    ///
    /// Durable with the next [`crate::Changes::sync`] of the target or of everything; across a
    /// power cut before its end, the target is wholly old or wholly new, and sources are as without
    /// it.
    ///
    /// Errors: `NotFound`, `IsADirectory`, `InvalidArgument` (another kind; no unit; behind the end
    /// of a source; places of the target that overlap; a file as its own source), `NotSupported` (a
    /// source whose content has no unit of its own, in its inode or compressed: it is to be read
    /// and written), `NoSpace` (also for what is more than can be had at once: fewer places at a
    /// time may fit), `FileTooBig`, `Corrupt`, `Device` (the device's own memory for what is shared
    /// is full, too). Cost: a look at each unit's address, and the remap commands; no page is read
    /// or programmed but what waited in memory.
    fn adopt(&mut self, target: InodeNumber, places: &[AdoptedRange]) -> Result<()>;
}
