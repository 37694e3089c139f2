//! The bytes of an image, wherever they are.

use memmap2::MmapMut;

use crate::resident::Mapped;

/// Bytes of a file or of memory.
#[derive(Debug)]
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mapped),
    /// Mapped, with changes of our own: a journal laid over a file that is only read.
    Private(MmapMut),
}

impl Bytes {
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
            Self::Private(map) => map,
        }
    }

    /// Fills `into` from `offset` on; what lies at or behind `end`, or behind the last byte, is erased.
    #[inline]
    pub fn copy(&self, offset: u64, end: u64, into: &mut [u8]) {
        let held = self.held(offset, end, into.len());
        let (there, missing) = into.split_at_mut(held.len());
        there.copy_from_slice(held);
        missing.fill(0xFF);
    }

    /// The bytes from `offset` on that are there, at most `length`.
    #[inline]
    pub fn held(&self, offset: u64, end: u64, length: usize) -> &[u8] {
        let bytes = self.as_slice();
        let limit = usize::try_from(end).unwrap_or(usize::MAX).min(bytes.len());
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(limit);
        let stop = start.saturating_add(length).min(limit);
        if let Self::Mapped(mapped) = self {
            mapped.note(stop.saturating_sub(start));
        }
        bytes.get(start..stop).unwrap_or(&[])
    }
}

/// Whether all bytes are 0xFF. Cost: a compare at memory speed.
#[inline]
pub(crate) fn is_erased(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0xFF; 64]) && rest.iter().all(|&byte| byte == 0xFF)
}
