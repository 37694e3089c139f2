//! A file as memory. The only file of the project with unsafe code: there is no safe way to map a
//! file.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapMut, MmapOptions, UncheckedAdvice};

/// Maps a whole file for reading. Empty files cannot be mapped.
///
/// Safety. The bytes may change under a reader only if some process writes the file meanwhile.
/// Every opener of this crate holds the file's lock (shared to read, exclusive to write), and the
/// writing opener writes only where `&mut self` excludes every borrow of the bytes. A program that
/// ignores the lock and *shortens* the file makes reads of the lost part end the process (SIGBUS);
/// one that changes bytes makes reads deliver a mix. Bytes of any value are valid `u8`, and what
/// they say is checked by whoever interprets them. Callers who cannot rule such programs out ask
/// for a copy ([`DumpOptions::copy`](crate::DumpOptions::copy)).
pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: see above.
    unsafe { MmapOptions::new().map(file) }
}

/// Maps a whole file with changes that stay in this process, page by page. Needs no permission to
/// write, and no memory in advance: the file may be longer than there is. Safety: as [`map`].
pub fn map_private(file: &File) -> io::Result<MmapMut> {
    // SAFETY: see above.
    unsafe { MmapOptions::new().no_reserve_swap().map_copy(file) }
}

/// Gives the pages of a file that is mapped for reading back to the kernel; it may keep them all
/// the same.
pub fn give_back(map: &Mmap) {
    // SAFETY: the pages are those of a file, shared and never written through this map: whoever
    // reads them again, also through a borrow that lives now, gets the file's bytes once more. That
    // the kernel refuses harms nothing.
    let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
}
