//! Memory-mapped files. The only module of the project with unsafe code for files: there is no safe
//! way to map a file.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapMut, MmapOptions, UncheckedAdvice};

/// Maps a whole file for reading. Empty files cannot be mapped.
///
/// Safety. The bytes may change under a reader only if another process writes the file. Every
/// opener in this crate holds the file's lock (shared for reading, exclusive for writing), and a
/// writer writes only where `&mut self` excludes every borrow of the bytes. If a program ignores
/// the lock and *shortens* the file, reads of the lost part kill the process (SIGBUS); if it
/// changes bytes, reads return a mix. Bytes of any value are valid `u8`, and their interpreters
/// check their content. Callers that cannot rule out such programs should request a copy
/// ([`DumpOptions::copy`](crate::DumpOptions::copy)).
pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: see above.
    unsafe { MmapOptions::new().map(file) }
}

/// Maps a whole file with changes that stay in this process, page by page. Needs no write
/// permission, and no memory in advance: the file may exceed the available memory. Safety: as for
/// [`map`].
pub fn map_private(file: &File) -> io::Result<MmapMut> {
    // SAFETY: see above.
    unsafe { MmapOptions::new().no_reserve_swap().map_copy(file) }
}

/// Releases the pages of a file mapped for reading to the kernel, which may keep them anyway.
pub fn give_back(map: &Mmap) {
    // SAFETY: the pages are those of a shared file map that is never written through: later reads,
    // also through existing borrows, get the file's bytes again. A refusal by the kernel does no
    // harm.
    let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
}
