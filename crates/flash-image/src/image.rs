//! An image before its layout is known.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use nandkit_block::Access;

use crate::bytes::Bytes;
use crate::error::{ImageError, ImageErrorKind, Result};
use crate::options::DumpOptions;
use crate::overlay::Overlay;
use crate::pieces::{Piece, PieceContent};
use crate::store::{self, OpenedFiles, Store};

/// An opened image, whose layout is still to be given or detected.
#[derive(Debug)]
pub struct Image {
    pub(crate) bytes: Arc<Bytes>,
    pub(crate) oob: Option<Arc<Bytes>>,
    pub(crate) store: Option<Store>,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) access: Access,
    pub(crate) notes: Vec<String>,
    /// Byte ranges that the source file of an unpacked image does not define.
    pub(crate) left_out: Vec<Range<u64>>,
}

impl Image {
    /// Opens and locks a file (and the OOB file, if one is named).
    ///
    /// A journal next to it, left by a crash, is completed: in the file if it is opened for
    /// writing, else in memory only. With an overlay the image is only read, and `access` applies
    /// to the overlay. Errors: `Io`, `InUse` (another process writes it, or reads it while this one
    /// wants to write), `Empty`, `Corrupt` (a journal of another image).
    pub fn open(path: &Path, options: &DumpOptions) -> Result<Self> {
        match &options.overlay {
            None => store::open(path, options).map(|opened| Self::of(opened, options.access)),
            Some(overlay) => Self::open_over(path, overlay, options),
        }
    }

    fn of(opened: OpenedFiles, access: Access) -> Self {
        let OpenedFiles { bytes, oob, store, notes } = opened;
        let (bytes, oob) = (Arc::new(bytes), oob.map(Arc::new));
        Self { bytes, oob, store: Some(store), overlay: None, access, notes, left_out: Vec::new() }
    }

    /// Opens an image read-only under an overlay, whose changes are applied to it and which
    /// receives further changes.
    fn open_over(path: &Path, overlay: &Path, options: &DumpOptions) -> Result<Self> {
        if options.oob_file.is_some() {
            let detail = "an overlay holds the changes of one file; expected no OOB in a file of its own";
            return Err(ImageError::new(ImageErrorKind::Layout, detail));
        }
        let base = store::open(path, &DumpOptions { access: Access::ReadOnly, overlay: None, ..options.clone() })?;
        let overlay = match options.access {
            Access::ReadWrite => Overlay::open_or_create(overlay, base.bytes.as_slice())?,
            Access::ReadOnly => Overlay::open_of(overlay, base.bytes.as_slice(), Access::ReadOnly)?,
        };
        let failed = |error| ImageError::io("read", path, error);
        let mut bytes = match base.bytes {
            // Mapped, so that the overlay's pieces stay in memory.
            Bytes::Mapped(_) => base.store.load(true).map_err(failed)?.0,
            bytes => bytes,
        };
        bytes.lengthen(overlay.length());
        overlay
            .for_each(|offset, found| bytes.patch(&Piece { file: 0, offset, content: PieceContent::Bytes(found) }))
            .map_err(failed)?;
        let image = Self::of(OpenedFiles { bytes, ..base }, options.access);
        Ok(Self { overlay: Some(overlay), ..image })
    }

    /// Makes an image in memory; changes stay there. Errors: `Empty`.
    pub fn from_bytes(bytes: Vec<u8>, oob: Option<Vec<u8>>) -> Result<Self> {
        if bytes.is_empty() {
            return Err(ImageError::new(ImageErrorKind::Empty, "the image is empty, expected at least a byte"));
        }
        let oob = oob.map(|oob| Arc::new(Bytes::Owned(oob)));
        let bytes = Arc::new(Bytes::Owned(bytes));
        Ok(Self::in_memory(bytes, oob, Vec::new()))
    }

    /// A second, read-only image on the same bytes. Cost: none.
    pub fn shared(&self) -> Self {
        Self {
            bytes: Arc::clone(&self.bytes),
            oob: self.oob.clone(),
            store: None,
            overlay: None,
            access: Access::ReadOnly,
            notes: self.notes.clone(),
            left_out: self.left_out.clone(),
        }
    }

    fn in_memory(bytes: Arc<Bytes>, oob: Option<Arc<Bytes>>, notes: Vec<String>) -> Self {
        let access = Access::ReadWrite;
        Self { bytes, oob, store: None, overlay: None, access, notes, left_out: Vec::new() }
    }

    /// A copy whose changes stay in memory; of a mapped file, only changed bytes take memory. The
    /// image stays locked while it exists. Errors: `Io`.
    pub fn private_copy(&self, path: &Path) -> Result<Self> {
        let failed = |error| ImageError::io("read", path, error);
        let bytes = match (&self.store, &*self.bytes) {
            (Some(store), Bytes::Mapped(_)) => store.load(true).map_err(failed)?.0,
            // Changes that an overlay or a journal applied to the file's bytes apply to the copy
            // too.
            (Some(store), Bytes::Private(private)) => {
                let mut bytes = store.load(true).map_err(failed)?.0;
                let laid = private.touched();
                laid.for_each(|(offset, part)| {
                    bytes.patch(&Piece { file: 0, offset, content: PieceContent::Bytes(part) });
                });
                bytes
            }
            _ => Bytes::Owned(self.bytes().to_vec()),
        };
        let (bytes, oob) = (Arc::new(bytes), self.oob_bytes().map(|oob| Arc::new(Bytes::Owned(oob.to_vec()))));
        Ok(Self::in_memory(bytes, oob, self.notes.clone()))
    }

    /// Extends the bytes to this length with erased bytes. Only for images in memory: files do not
    /// change. Cost: a copy.
    pub fn lengthen(&mut self, length: u64) {
        if self.store.is_none() && length > self.bytes().len() as u64 {
            let mut bytes = Bytes::Owned(self.bytes().to_vec());
            bytes.lengthen(length);
            self.bytes = Arc::new(bytes);
        }
    }

    /// Writes the changes made in a copy of this image to its overlay, atomically. Errors: `Io`;
    /// `Layout` for an image without an overlay. Cost: proportional to the changes, if the copy is
    /// a [`Self::private_copy`] of the same length; otherwise both are compared completely.
    pub fn keep_in_overlay(&mut self, changed: &Self) -> Result<()> {
        let Some(overlay) = &mut self.overlay else {
            return Err(ImageError::layout("the image was opened without an overlay"));
        };
        let pieces = differences(self.bytes.as_slice(), &changed.bytes);
        if pieces.is_empty() { Ok(()) } else { overlay.keep(&pieces, self.bytes.as_slice()) }
    }

    /// Writes the changes made in a copy of this image to the file through its journal, atomically.
    /// Cost: as for [`Self::keep_in_overlay`]. Errors: `Layout` for an image that is no file, or
    /// has its OOB in another one, and for a copy of another length; `Io`, after which nothing has
    /// changed, or, if the message says so, the journal stays and the next opening for changes
    /// completes it.
    pub fn keep_in_file(&mut self, changed: &Self) -> Result<()> {
        let length = changed.bytes().len();
        let Some(store) = self.store.as_mut().filter(|_| self.oob.is_none() && length == self.bytes.as_slice().len())
        else {
            return Err(ImageError::layout("the changes do not fit the file as it is: it has to be written anew"));
        };
        let bytes = self.bytes.as_slice();
        let pieces = differences(bytes, &changed.bytes);
        if pieces.is_empty() { Ok(()) } else { store.change(&pieces, bytes) }
    }

    /// Makes an empty journal next to the image and removes it again, so that an unwritable
    /// directory is detected now and not at the first sync. Errors: `Io`.
    pub fn check_journal(&self) -> Result<()> {
        self.store.as_ref().map_or(Ok(()), Store::check_journal)
    }

    /// Byte ranges that the source of an unpacked image does not define, in ascending order; they
    /// read as zeroes. In an Android sparse image: don't-care content, or content in another part
    /// of a split image.
    pub fn left_out(&self) -> &[Range<u64>] {
        &self.left_out
    }

    /// The bytes of the (first) file. Cost: none.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The bytes of the OOB file.
    pub fn oob_bytes(&self) -> Option<&[u8]> {
        self.oob.as_ref().map(|oob| oob.as_slice())
    }
}

/// Bytes per comparison step.
const UNIT: usize = 4096;

/// Differences from `before`, in units of 4 KiB, adjacent ones joined.
fn differences<'a>(before: &[u8], changed: &'a Bytes) -> Vec<Piece<'a>> {
    let differs = |(offset, part): &(u64, &[u8])| {
        let start = usize::try_from(*offset).unwrap_or(usize::MAX);
        before.get(start..start.saturating_add(part.len())) != Some(*part)
    };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut take = |(offset, part): (u64, &[u8])| {
        let end = offset + part.len() as u64;
        match ranges.last_mut().filter(|last| last.end == offset) {
            Some(last) => last.end = end,
            None => ranges.push(offset..end),
        }
    };
    match changed {
        // Untouched bytes are the file's own, which equal `before`.
        Bytes::Private(private) => private.touched().filter(differs).for_each(&mut take),
        other => {
            let units = (0..).step_by(UNIT).zip(other.as_slice().chunks(UNIT));
            units.filter(differs).for_each(&mut take);
        }
    }
    let bytes = changed.as_slice();
    let content = |range: &Range<u64>| bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
    let piece = |range: &Range<u64>| (range.start, PieceContent::Bytes(content(range)));
    ranges.iter().map(piece).map(|(offset, content)| Piece { file: 0, offset, content }).collect()
}
