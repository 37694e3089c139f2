//! Writing changes to the file, to an overlay, or to bytes in memory.

use std::io;
use std::sync::Arc;

use super::DumpFlash;
use crate::bytes::Bytes;
use crate::changes::Changes;
use crate::pieces::{self, Piece};

impl DumpFlash {
    /// Applies the changes to bytes in memory. Mapped files are not touched.
    pub(super) fn apply_in_memory(&mut self) {
        // Determine the bad blocks first: marks come from the factory and earlier owners, not from
        // bytes programmed since.
        self.table();
        // Bytes in memory are always readable.
        let _ = self.make_ecc();
        let lengths = self.lengths();
        let pieces = self.changes.pieces(&self.shape, lengths);
        if pieces.is_empty() {
            return;
        }
        if self.oob.is_none()
            && let Some(Bytes::Private(private)) = Arc::get_mut(&mut self.bytes)
            && pieces.iter().all(|piece| piece.end() <= private.as_slice().len() as u64)
        {
            pieces.iter().for_each(|piece| private.overwrite(piece));
            self.changes = Changes::default();
            return;
        }
        let mut image = owned(&mut self.bytes);
        let mut oob = self.oob.as_mut().map(owned);
        for piece in pieces {
            let into = match piece.file {
                0 => Some(&mut image),
                _ => oob.as_mut(),
            };
            if let Some(into) = into {
                pieces::put(into, &piece);
            }
        }
        self.settle(lengths, Bytes::Owned(image), oob.map(Bytes::Owned));
    }

    /// The first half of a sync, as a crash would leave it.
    #[cfg(test)]
    pub(crate) fn journal_only(&mut self) -> io::Result<()> {
        self.make_ecc()?;
        let pieces = self.changes.pieces(&self.shape, self.lengths());
        let sources = [self.bytes.as_slice(), self.oob.as_deref().map_or(&[][..], Bytes::as_slice)];
        self.store.as_mut().map_or(Ok(()), |store| store.write_journal(&pieces, sources))
    }

    fn lengths(&self) -> [u64; 2] {
        [self.bytes.as_slice().len() as u64, self.oob.as_ref().map_or(0, |oob| oob.as_slice().len() as u64)]
    }

    /// Replaces the bytes by ones that contain the changes.
    fn settle(&mut self, before: [u64; 2], bytes: Bytes, oob: Option<Bytes>) {
        let length = bytes.as_slice().len() as u64;
        if length > before[0] {
            self.shape.end = length;
            self.shape.tail = 0;
        }
        self.bytes = Arc::new(bytes);
        self.oob = oob.map(Arc::new);
        self.changes = Changes::default();
    }

    pub(super) fn sync_changes(&mut self) -> io::Result<()> {
        self.table();
        self.bytes.check()?;
        self.oob.as_ref().map_or(Ok(()), |oob| oob.check())?;
        self.make_ecc()?;
        let lengths = self.lengths();
        if let Some(overlay) = &mut self.overlay {
            let pieces = self.changes.pieces(&self.shape, lengths);
            overlay.write(&pieces, self.bytes.as_slice())?;
            let Some(bytes) = Arc::get_mut(&mut self.bytes) else {
                self.apply_in_memory();
                return Ok(());
            };
            pieces.iter().for_each(|piece| bytes.patch(piece));
            let length = bytes.as_slice().len() as u64;
            if length > lengths[0] {
                (self.shape.end, self.shape.tail) = (length, 0);
            }
            self.changes = Changes::default();
            return Ok(());
        }
        let Some(store) = &mut self.store else {
            self.apply_in_memory();
            return Ok(());
        };
        let pieces = self.changes.pieces(&self.shape, lengths);
        let sources = [self.bytes.as_slice(), self.oob.as_deref().map_or(&[][..], Bytes::as_slice)];
        store.write_journal(&pieces, sources)?;
        self.poisoned = true;
        store.apply(&pieces)?;
        // A map shows what was written to its file, as far as it reaches; a copy must be updated.
        let grown =
            pieces.iter().any(|piece| lengths.get(usize::from(piece.file)).is_none_or(|&length| piece.end() > length));
        let copies = !grown
            && tell_copies(&mut self.bytes, 0, &pieces)
            && self.oob.as_mut().is_none_or(|oob| tell_copies(oob, 1, &pieces));
        if copies {
            self.changes = Changes::default();
        } else {
            let (bytes, oob) = store.load(false)?;
            self.settle(lengths, bytes, oob);
        }
        self.poisoned = false;
        Ok(())
    }
}

/// Applies pieces to bytes that are a copy of a file; returns `false` if they must be read again.
fn tell_copies(bytes: &mut Arc<Bytes>, file: u8, pieces: &[Piece<'_>]) -> bool {
    match Arc::get_mut(bytes) {
        Some(Bytes::Owned(bytes)) => {
            pieces.iter().filter(|piece| piece.file == file).for_each(|piece| pieces::put(bytes, piece))
        }
        Some(Bytes::Mapped(_)) => {}
        _ => return false,
    }
    true
}

/// Takes the bytes in memory out of the share.
fn owned(bytes: &mut Arc<Bytes>) -> Vec<u8> {
    match Arc::get_mut(bytes) {
        Some(Bytes::Owned(owned)) => std::mem::take(owned),
        _ => bytes.as_slice().to_vec(),
    }
}
