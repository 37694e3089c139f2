//! The block device that the host sees.

use std::sync::atomic::Ordering;

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result, Trim};
use nandkit_flash::{Flash, PageRead};
use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

use super::BlockMapFtl;
use crate::chain::Chain;
use crate::failure::Failure;
use crate::shape::{Piece, Shape};

impl Shape {
    pub(crate) fn check(&self, operation: Operation, at: Lba, bytes: usize) -> Result<u64> {
        if self.block.holds(at, bytes) {
            return Ok(at.0 * u64::from(self.block.sector_size));
        }
        let detail = format!(
            "{bytes} bytes: expected whole sectors of {} bytes below sector {}",
            self.block.sector_size, self.block.sectors
        );
        Err(BlockError::new(ErrorKind::OutOfRange, operation, at, detail))
    }

    /// The sector at which a piece of a request begins.
    pub(crate) fn sector_of(&self, at: Lba, piece: &Piece) -> Lba {
        at.plus(piece.start as u64 / u64::from(self.block.sector_size.max(1)))
    }

    /// Splits a read into pages. `read_page` reads one piece into its part of the buffer.
    pub(crate) fn read_pieces(
        &self,
        at: Lba,
        mut into: ReadInto<'_>,
        mut read_page: impl FnMut(&Piece, ReadInto<'_>) -> Result<()>,
    ) -> Result<()> {
        let total = into.len();
        let first = self.check(Operation::Read, at, total)?;
        let single = self.piece(first, total, 0).is_some_and(|piece| piece.length as usize == total);
        if let (ReadInto::Content { content, .. }, false) = (&mut into, single) {
            let bytes = content.set_bytes(total);
            return self.read_pieces(at, ReadInto::Bytes(bytes), read_page);
        }
        let mut start = 0;
        while let Some(piece) = self.piece(first, total, start) {
            let length = piece.length as usize;
            let part = match &mut into {
                ReadInto::Bytes(bytes) => match bytes.get_mut(start..start + length) {
                    Some(part) => ReadInto::Bytes(part),
                    None => break,
                },
                ReadInto::Content { content, .. } => ReadInto::Content { content, length: piece.length },
                ReadInto::Nothing { .. } => ReadInto::Nothing { length: piece.length },
            };
            read_page(&piece, part)?;
            start += length;
        }
        Ok(())
    }
}

impl<F: Flash> BlockDevice for BlockMapFtl<F> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.base.shape.block
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        let shape = &self.base.shape;
        let mut done = Done::immediately(context);
        let mut pages = 0;
        let result = shape.read_pieces(at, into, |piece, mut part| {
            pages += 1;
            let fail = |failure: Failure| failure.at(Operation::Read, shape.sector_of(at, piece));
            let Some(page) = self.map.locate(piece.lbn, piece.offset) else {
                part.deliver_fill(0);
                return Ok(());
            };
            if self.is_poisoned(piece.lbn, piece.offset) {
                let what = "the sector was lost before it could be moved";
                return Err(BlockError::new(ErrorKind::Unreadable, Operation::Read, shape.sector_of(at, piece), what));
            }
            let read = PageRead { column: piece.column, data: part, oob: &mut [] };
            done = done.and(self.base.flash.read(context, page, read).map_err(|error| fail(error.into()))?);
            Ok(())
        });
        self.host_reads.fetch_add(pages, Ordering::Relaxed);
        result.map(|()| done)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let total = data.len();
        let first = self.base.shape.check(Operation::Write, at, total)?;
        self.base.check_running().map_err(|failure| failure.at(Operation::Write, at))?;
        let mut chain = Chain::new(context);
        let mut start = 0;
        while let Some(piece) = self.base.shape.piece(first, total, start) {
            let written = match data.part(start, piece.length as usize) {
                Some(part) => self.write_piece(&mut chain, &piece, part),
                None => self.write_generated(&mut chain, &piece, data),
            };
            written.map_err(|failure| failure.at(Operation::Write, self.base.shape.sector_of(at, &piece)))?;
            start += piece.length as usize;
        }
        self.counters.host_bytes_written += total as u64;
        Ok(chain.done())
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.base.check_running().map_err(|failure| failure.at(Operation::Flush, Lba(0)))?;
        self.base.flash.sync(context).map_err(|error| Failure::from(error).at(Operation::Flush, Lba(0)))
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }
}

impl<F: Flash> BlockMapFtl<F> {
    /// A part of a description that a description cannot name (its offset would leave 32 bits): as bytes.
    #[cold]
    fn write_generated(&mut self, chain: &mut Chain, piece: &Piece, data: Payload<'_>) -> crate::failure::Outcome<()> {
        let mut whole = vec![0; piece.start + piece.length as usize];
        data.copy_to(&mut whole);
        let part = whole.get(piece.start..).unwrap_or(&[]);
        self.write_piece(chain, piece, Payload::Bytes(part))
    }
}

impl<F: Flash> Trim for BlockMapFtl<F> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let geometry = self.base.shape.block;
        if at.0 > geometry.sectors || sectors > geometry.sectors - at.0 {
            let detail = format!("{sectors} sectors: expected sectors below {}", geometry.sectors);
            return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Trim, at, detail));
        }
        self.base.check_running().map_err(|failure| failure.at(Operation::Trim, at))?;
        self.counters.trims += 1;
        let size = u64::from(geometry.sector_size);
        let mut chain = Chain::new(context);
        self.trim_bytes(&mut chain, at.0 * size, sectors * size).map_err(|failure| failure.at(Operation::Trim, at))?;
        Ok(chain.done())
    }
}
