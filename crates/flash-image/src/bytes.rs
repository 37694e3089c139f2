//! The bytes of an image, in a file or in memory.

use std::io;
use std::ops::Range;

use memmap2::MmapMut;

use crate::backing::Backing;
use crate::pieces::{self, Piece};
use crate::resident::Mapped;
use crate::touched::Touched;

/// Bytes of a file or in memory.
#[derive(Debug)]
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mapped),
    /// A private map with changes.
    Private(Private),
}

/// A mapped file with changes that stay in memory: those of a command before they reach the file,
/// of an overlay, or of a journal over a read-only file.
#[derive(Debug)]
pub(crate) struct Private {
    map: MmapMut,
    touched: Touched,
    /// The file, if the map is long-lived.
    backing: Option<Backing>,
}

impl Private {
    pub fn new(map: MmapMut, backing: Option<Backing>) -> Self {
        Self { map, touched: Touched::default(), backing }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.map
    }

    /// Applies a piece to the bytes, as far as they reach.
    pub fn overwrite(&mut self, piece: &Piece<'_>) {
        self.touched.note(piece.offset, piece.end().min(self.map.len() as u64));
        pieces::overwrite(&mut self.map, piece);
    }

    /// The written parts in ascending order; all others are the file's own bytes. Cost: nothing for
    /// the others.
    pub fn touched(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let parts = self.touched.units(self.map.len() as u64);
        parts.map(|part| (part.start, self.map.get(part.start as usize..part.end as usize).unwrap_or_default()))
    }
}

impl Bytes {
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
            Self::Private(private) => private.as_slice(),
        }
    }

    /// Fills `into` from `offset` on; bytes at or past `end`, or past the last byte, are erased.
    /// Errors: those of the file.
    #[inline]
    pub fn copy(&self, offset: u64, end: u64, into: &mut [u8]) -> io::Result<()> {
        let range = self.range(offset, end, into.len());
        let (there, missing) = into.split_at_mut(range.len());
        missing.fill(0xFF);
        match self.backing() {
            Some(backing) if matches!(self, Self::Mapped(_)) => return backing.read(range.start as u64, there),
            Some(backing) => backing.check()?,
            None => {}
        }
        there.copy_from_slice(self.as_slice().get(range).unwrap_or(&[]));
        Ok(())
    }

    /// The existing bytes from `offset` on, at most `length`; empty if the file was shortened.
    #[inline]
    pub fn held(&self, offset: u64, end: u64, length: usize) -> &[u8] {
        if self.check().is_err() {
            return &[];
        }
        let range = self.range(offset, end, length);
        if let Self::Mapped(mapped) = self {
            mapped.note(range.len());
        }
        self.as_slice().get(range).unwrap_or(&[])
    }

    /// The existing range of `length` bytes at `offset`, cut at `end`.
    #[inline]
    fn range(&self, offset: u64, end: u64, length: usize) -> Range<usize> {
        let limit = usize::try_from(end).unwrap_or(usize::MAX).min(self.as_slice().len());
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(limit);
        start..start.saturating_add(length).min(limit)
    }

    /// Checks the file. Errors: it is shorter than before.
    pub fn check(&self) -> io::Result<()> {
        self.backing().map_or(Ok(()), Backing::check)
    }

    /// Extends bytes in memory to this length with erased bytes.
    pub(crate) fn lengthen(&mut self, length: u64) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.as_slice().len() {
            let mut longer = self.as_slice().to_vec();
            longer.resize(length, 0xFF);
            *self = Self::Owned(longer);
        }
    }

    /// Applies a piece to bytes in memory.
    pub(crate) fn patch(&mut self, piece: &Piece<'_>) {
        if let Self::Private(private) = self
            && piece.end() > private.as_slice().len() as u64
        {
            *self = Self::Owned(private.as_slice().to_vec());
        }
        match self {
            Self::Owned(bytes) => pieces::put(bytes, piece),
            Self::Private(private) => private.overwrite(piece),
            Self::Mapped(_) => {}
        }
    }

    fn backing(&self) -> Option<&Backing> {
        match self {
            Self::Owned(_) => None,
            Self::Mapped(map) => map.backing(),
            Self::Private(private) => private.backing.as_ref(),
        }
    }
}
