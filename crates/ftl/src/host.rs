//! The host side of the translation layers with log blocks: splits requests into pages, checks
//! ranges, and reports errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_block::{BlockError, ErrorKind, Extent, Operation, Result};
use nandkit_flash::{Flash, PageRead};
use nandkit_units::{
    Assembly, Content, Context, Described, Description, Done, Lba, PageAddress, Payload, Pieces, ReadInto,
};

use crate::base::Base;
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::shape::{Piece, Shape};
use crate::statistics::FtlCounters;

/// Operations of a layer on single pages.
pub(crate) trait Pages {
    type Flash: Flash;

    fn base(&self) -> &Base<Self::Flash>;
    fn base_mut(&mut self) -> &mut Base<Self::Flash>;
    fn counters_mut(&mut self) -> &mut FtlCounters;
    fn host_reads(&self) -> &AtomicU64;
    /// The address of a page's current content; `None` if it has none.
    fn locate(&self, lbn: u32, offset: u32) -> Option<PageAddress>;
    fn is_poisoned(&self, lbn: u32, offset: u32) -> bool;
    /// Whether any page of the logical block has content.
    fn is_mapped(&self, lbn: u32) -> bool;
    /// Writes a whole page.
    fn write_page(&mut self, chain: &mut Chain, lbn: u32, offset: u32, data: &Payload<'_>) -> LayerResult<()>;
    /// Writes a whole page as a complete request, if a single program suffices; returns `None`,
    /// with nothing changed, if more may be needed.
    #[inline]
    fn append(
        &mut self,
        _context: &Context,
        (_lbn, _offset): (u32, u32),
        _data: &Payload<'_>,
    ) -> Option<LayerResult<Done>> {
        None
    }
    /// Drops a whole page, and records it among the unsaved trims (rule 8).
    fn forget(&mut self, lbn: u32, offset: u32);
    /// The trims that a power cut would undo.
    fn unsaved_mut(&mut self) -> &mut UnsavedTrims;
    /// Writes a marker that the page has no content.
    fn write_tomb(&mut self, chain: &mut Chain, lbn: u32, offset: u32) -> LayerResult<()>;
    /// Copies the pages of a logical block that have content into a new data block, leaving out
    /// trimmed ones.
    fn rewrite(&mut self, chain: &mut Chain, lbn: u32) -> LayerResult<()>;
}

/// Trimmed pages of which the flash still holds a version: offsets for each logical block.
/// Operations cost `O(log n)` in the logical blocks with such pages.
#[derive(Debug, Default)]
pub(crate) struct UnsavedTrims {
    offsets: BTreeMap<u32, BTreeSet<u32>>,
}

impl UnsavedTrims {
    pub fn insert(&mut self, lbn: u32, offset: u32) {
        self.offsets.entry(lbn).or_default().insert(offset);
    }

    /// Removes a page that was written again.
    #[inline]
    pub fn remove(&mut self, lbn: u32, offset: u32) {
        if !self.offsets.is_empty() {
            self.remove_one(lbn, offset);
        }
    }

    fn remove_one(&mut self, lbn: u32, offset: u32) {
        if let Some(offsets) = self.offsets.get_mut(&lbn) {
            offsets.remove(&offset);
            if offsets.is_empty() {
                self.offsets.remove(&lbn);
            }
        }
    }

    /// Removes a logical block that has a new data block without the trimmed pages.
    pub fn clear(&mut self, lbn: u32) {
        self.offsets.remove(&lbn);
    }

    /// The first logical block with unsaved trims, and their offsets.
    fn first(&self) -> Option<(u32, Vec<u32>)> {
        let (lbn, offsets) = self.offsets.first_key_value()?;
        Some((*lbn, offsets.iter().copied().collect()))
    }
}

/// Makes trims durable (rule 8): few pages of a logical block by one marker page each, many by a
/// new data block.
pub(crate) fn save_trims<L: Pages>(layer: &mut L, chain: &mut Chain) -> LayerResult<()> {
    while let Some((lbn, offsets)) = layer.unsaved_mut().first() {
        if offsets.len() as u32 * 4 >= layer.base().shape.np {
            layer.rewrite(chain, lbn)?;
        } else {
            for &offset in &offsets {
                layer.write_tomb(chain, lbn, offset)?;
                layer.unsaved_mut().remove(lbn, offset);
            }
        }
        layer.unsaved_mut().clear(lbn);
    }
    // A new data block counts only after a later program has completed (rule 5).
    layer.base_mut().confirm_now(chain)
}

/// Reads sectors.
pub(crate) fn read<L: Pages>(layer: &L, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
    let shape = &layer.base().shape;
    let mut done = Done::immediately(context);
    let mut pages = 0;
    let result = shape.read_pieces(at, into, |piece, mut part| {
        pages += 1;
        let Some(page) = layer.locate(piece.lbn, piece.offset) else {
            part.deliver_fill(0);
            return Ok(());
        };
        if layer.is_poisoned(piece.lbn, piece.offset) {
            let what = "the sector was lost before it could be moved";
            return Err(BlockError::new(ErrorKind::Unreadable, Operation::Read, shape.sector_of(at, piece), what));
        }
        let read = PageRead { column: piece.column, data: part, oob: &mut [] };
        let page_done = layer.base().flash.read(context, page, read);
        let fail = |error| Failure::from(error).at(Operation::Read, shape.sector_of(at, piece));
        done = done.and(page_done.map_err(fail)?);
        Ok(())
    });
    layer.host_reads().fetch_add(pages, Ordering::Relaxed);
    result.map(|()| done)
}

/// The extent of equal sectors: pages that are not mapped read as zeroes.
pub(crate) fn extent<L: Pages>(layer: &L, at: Lba, most: u64) -> Extent {
    let shape = &layer.base().shape;
    let per_page = u64::from(shape.page_size / shape.block.sector_size).max(1);
    let end = at.0.saturating_add(most).min(shape.block.sectors);
    let (mut sector, mut first) = (at.0, None);
    while sector < end {
        let page = sector / per_page;
        let (lbn, offset) = shape.place_of(page);
        // An unmapped logical block is one step.
        let (holds, pages) = match layer.is_mapped(lbn) {
            true => (layer.locate(lbn, offset).is_some(), 1),
            false => (false, u64::from(shape.np - offset)),
        };
        if *first.get_or_insert(holds) != holds {
            break;
        }
        sector = (page + pages) * per_page;
    }
    Extent { sectors: sector.min(end).saturating_sub(at.0).max(1), holds: first.unwrap_or(true) }
}

/// Writes sectors.
#[inline]
pub(crate) fn write<L: Pages>(layer: &mut L, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
    if let Some(place) = layer.base().shape.whole_page(at, data.len())
        && let Some(written) = layer.append(context, place, &data)
    {
        let counters = layer.counters_mut();
        counters.host_page_writes += 1;
        return match written {
            Ok(done) => {
                counters.host_bytes_written += data.len() as u64;
                Ok(done)
            }
            Err(failure) => Err(failure.at(Operation::Write, at)),
        };
    }
    // By value: passed by reference, both would be stored to memory on the fast path too.
    write_any(layer, *context, at, data)
}

/// Writes any number of sectors.
#[inline(never)]
fn write_any<L: Pages>(layer: &mut L, context: Context, at: Lba, data: Payload<'_>) -> Result<Done> {
    let context = &context;
    let total = data.len();
    let shape = &layer.base().shape;
    let first = shape.check(Operation::Write, at, total)?;
    layer.base().check_running().map_err(|failure| failure.at(Operation::Write, at))?;
    let mut chain = layer.base().begin(context);
    let written = match layer.base().shape.piece(first, total, 0) {
        Some(piece) if piece.length as usize == total => write_piece(layer, &mut chain, &piece, &data)
            .map_err(|failure| failure.at(Operation::Write, layer.base().shape.sector_of(at, &piece))),
        _ => write_pieces(layer, &mut chain, (at, first), &data),
    };
    layer.base_mut().end(&chain);
    written?;
    layer.counters_mut().host_bytes_written += total as u64;
    Ok(chain.done())
}

/// Writes the parts of a request, one after another.
pub(crate) fn write_parts<L: Pages>(layer: &mut L, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
    if let [one] = parts {
        return write(layer, context, at, *one);
    }
    let total = Pieces::total(parts);
    let first = layer.base().shape.check(Operation::Write, at, total)?;
    layer.base().check_running().map_err(|failure| failure.at(Operation::Write, at))?;
    let mut chain = layer.base().begin(context);
    let written = write_cut(layer, &mut chain, (at, first), parts);
    layer.base_mut().end(&chain);
    written?;
    layer.counters_mut().host_bytes_written += total as u64;
    Ok(chain.done())
}

fn write_cut<L: Pages>(layer: &mut L, chain: &mut Chain, (at, first): (Lba, u64), parts: &[Payload<'_>]) -> Result<()> {
    let (total, mut start) = (Pieces::total(parts), 0);
    let (mut pieces, mut buffer) = (Pieces::new(parts), Assembly::new());
    while let Some(piece) = layer.base().shape.piece(first, total, start) {
        let Some(part) = pieces.next(piece.length as usize, &mut buffer) else { break };
        let written = write_piece(layer, chain, &piece, &part);
        written.map_err(|failure| failure.at(Operation::Write, layer.base().shape.sector_of(at, &piece)))?;
        start += piece.length as usize;
    }
    Ok(())
}

/// Reads a content for each `unit` bytes, as one request. A chip page that spans several units is
/// read once.
pub(crate) fn read_parts<L: Pages>(
    layer: &L,
    context: &Context,
    at: Lba,
    unit: u32,
    into: &mut [Content],
) -> Result<Done> {
    let shape = &layer.base().shape;
    let length = nandkit_block::check::check_unit(&shape.block, at, unit, into.len())?;
    let sectors = u64::from(unit / shape.block.sector_size);
    let whole_pages = unit.is_multiple_of(shape.page_size)
        && at.0.saturating_mul(u64::from(shape.block.sector_size)).is_multiple_of(u64::from(shape.page_size));
    if !whole_pages {
        let mut whole = Content::new();
        let done = read(layer, context, at, ReadInto::Content { content: &mut whole, length })?;
        whole.deal(unit, into);
        return Ok(done);
    }
    let mut done = Done::immediately(context);
    for (number, content) in (0..).zip(into) {
        let part = ReadInto::Content { content, length: unit };
        done = done.and(read(layer, context, Lba(at.0 + number * sectors), part)?);
    }
    Ok(done)
}

/// Writes the bytes of a request that fall into one page.
#[inline]
fn write_piece<L: Pages>(layer: &mut L, chain: &mut Chain, piece: &Piece, data: &Payload<'_>) -> LayerResult<()> {
    layer.counters_mut().host_page_writes += 1;
    if piece.length == layer.base().shape.page_size {
        layer.write_page(chain, piece.lbn, piece.offset, data)
    } else {
        write_part(layer, chain, piece, data)
    }
}

/// Reads a page, changes a part of it, and writes it back.
fn write_part<L: Pages>(layer: &mut L, chain: &mut Chain, piece: &Piece, data: &Payload<'_>) -> LayerResult<()> {
    layer.counters_mut().read_modify_writes += 1;
    if layer.is_poisoned(piece.lbn, piece.offset) {
        return Err(Failure::Unreadable);
    }
    let at = layer.locate(piece.lbn, piece.offset);
    let mut page = std::mem::take(&mut layer.base_mut().read_modify);
    let result = layer.base_mut().compose(chain, at, piece, data, &mut page).and_then(|()| {
        let payload = if page.is_empty() { layer.base().empty_page() } else { page.payload() };
        layer.write_page(chain, piece.lbn, piece.offset, &payload)
    });
    layer.base_mut().read_modify = page;
    result
}

/// Writes the pages of a longer request, one after another. Separate from [`write`] so that a
/// single page does not pay for splitting a payload.
#[inline(never)]
fn write_pieces<L: Pages>(layer: &mut L, chain: &mut Chain, (at, first): (Lba, u64), data: &Payload<'_>) -> Result<()> {
    let (total, mut start) = (data.len(), 0);
    while let Some(piece) = layer.base().shape.piece(first, total, start) {
        let written = match data.part(start, piece.length as usize) {
            Some(part) => write_piece(layer, chain, &piece, &part),
            None => write_generated(layer, chain, &piece, data),
        };
        written.map_err(|failure| failure.at(Operation::Write, layer.base().shape.sector_of(at, &piece)))?;
        start += piece.length as usize;
    }
    Ok(())
}

/// Writes a part of a description as bytes because no description can name it (its offset would
/// exceed 32 bits).
#[cold]
fn write_generated<L: Pages>(layer: &mut L, chain: &mut Chain, piece: &Piece, data: &Payload<'_>) -> LayerResult<()> {
    let mut whole = vec![0; piece.start + piece.length as usize];
    data.copy_to(&mut whole);
    let part = whole.get(piece.start..).unwrap_or(&[]);
    write_piece(layer, chain, piece, &Payload::Bytes(part))
}

/// Makes everything durable. Completed writes already are; trims are not, and the flash may buffer
/// data.
pub(crate) fn flush<L: Pages>(layer: &mut L, context: &Context) -> Result<Done> {
    let mut chain = layer.base().begin(context);
    let flushed = flush_chain(layer, &mut chain);
    layer.base_mut().end(&chain);
    flushed.map_err(|failure| failure.at(Operation::Flush, Lba(0)))?;
    Ok(chain.done())
}

pub(crate) fn flush_chain<L: Pages>(layer: &mut L, chain: &mut Chain) -> LayerResult<()> {
    layer.base().check_running()?;
    save_trims(layer, chain)?;
    let done = layer.base_mut().flash.sync(&chain.next(None))?;
    chain.advance(done);
    Ok(())
}

/// Drops whole pages, and overwrites parts of pages with zeroes.
pub(crate) fn trim<L: Pages>(layer: &mut L, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
    let geometry = layer.base().shape.block;
    if at.0 > geometry.sectors || sectors > geometry.sectors - at.0 {
        let detail = format!("{sectors} sectors: expected sectors below {}", geometry.sectors);
        return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Trim, at, detail));
    }
    layer.base().check_running().map_err(|failure| failure.at(Operation::Trim, at))?;
    layer.counters_mut().trims += 1;
    let mut chain = layer.base().begin(context);
    let trimmed = trim_pieces(layer, &mut chain, at, sectors);
    layer.base_mut().end(&chain);
    trimmed.map(|()| chain.done())
}

fn trim_pieces<L: Pages>(layer: &mut L, chain: &mut Chain, at: Lba, sectors: u64) -> Result<()> {
    let geometry = layer.base().shape.block;
    let size = u64::from(geometry.sector_size);
    let (mut byte, end) = (at.0 * size, (at.0 + sectors) * size);
    while byte < end {
        let left = usize::try_from(end - byte).unwrap_or(usize::MAX);
        let Some(piece) = layer.base().shape.piece(byte, left, 0) else { break };
        if !layer.is_mapped(piece.lbn) {
            byte = (u64::from(piece.lbn) + 1) * geometry.recycling_size;
            continue;
        }
        trim_piece(layer, chain, &piece).map_err(|failure| failure.at(Operation::Trim, Lba(byte / size)))?;
        byte += u64::from(piece.length);
    }
    Ok(())
}

fn trim_piece<L: Pages>(layer: &mut L, chain: &mut Chain, piece: &Piece) -> LayerResult<()> {
    if layer.locate(piece.lbn, piece.offset).is_none() {
        return Ok(());
    }
    if piece.length == layer.base().shape.page_size {
        layer.forget(piece.lbn, piece.offset);
        return Ok(());
    }
    let zeroes = Payload::Described(Described { description: Description::default(), length: piece.length });
    write_piece(layer, chain, piece, &zeroes)
}

impl Shape {
    /// The first byte of a request inside the device. Checks the same as `BlockGeometry::holds`,
    /// but without division, because sectors are a power of two.
    #[inline]
    fn check(&self, operation: Operation, at: Lba, bytes: usize) -> Result<u64> {
        let shift = self.block.sector_size.trailing_zeros();
        let (bytes64, sectors) = (bytes as u64, self.block.sectors);
        if bytes64 & (u64::from(self.block.sector_size) - 1) == 0
            && at.0 <= sectors
            && bytes64 >> shift <= sectors - at.0
        {
            return Ok(at.0 << shift);
        }
        Err(self.out_of_range(operation, at, bytes))
    }

    #[cold]
    fn out_of_range(&self, operation: Operation, at: Lba, bytes: usize) -> BlockError {
        let detail = format!(
            "{bytes} bytes: expected whole sectors of {} bytes below sector {}",
            self.block.sector_size, self.block.sectors
        );
        BlockError::new(ErrorKind::OutOfRange, operation, at, detail)
    }

    /// The sector at which a piece of a request begins.
    fn sector_of(&self, at: Lba, piece: &Piece) -> Lba {
        at.plus(piece.start as u64 / u64::from(self.block.sector_size.max(1)))
    }

    /// Splits a read into pages; `read_page` reads one piece into its part of the buffer.
    fn read_pieces(
        &self,
        at: Lba,
        into: ReadInto<'_>,
        mut read_page: impl FnMut(&Piece, ReadInto<'_>) -> Result<()>,
    ) -> Result<()> {
        let total = into.len();
        let first = self.check(Operation::Read, at, total)?;
        let single = self.piece(first, total, 0).is_some_and(|piece| piece.length as usize == total);
        // Several pages have no common description.
        let mut into = match into {
            ReadInto::Content { content, .. } if !single => ReadInto::Bytes(content.set_bytes(total)),
            other => other,
        };
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

impl<F: Flash> Base<F> {
    /// Composes a page from a partial write and the rest at `at`. Stays empty if the chip stores no
    /// bytes.
    pub fn compose(
        &mut self,
        chain: &mut Chain,
        at: Option<PageAddress>,
        piece: &Piece,
        data: &Payload<'_>,
        page: &mut Content,
    ) -> LayerResult<()> {
        let size = self.shape.page_size as usize;
        match at {
            Some(at) => {
                // The caller's cause: this read is part of the host's request.
                let cause = chain.next(None).counted_cause();
                self.read_page(chain, cause, at, page)?;
                if page.is_empty() {
                    return Ok(());
                }
            }
            None => page.set_described(Described { description: Description::default(), length: self.shape.page_size }),
        }
        let (start, end) = (piece.column as usize, (piece.column + piece.length) as usize);
        // Bytes replace bytes in place; everything else keeps its form.
        if let (Payload::Bytes(_), Payload::Bytes(_)) = (data, page.payload()) {
            if let Some(part) = page.to_bytes().get_mut(start..end) {
                data.copy_to(part);
            }
            return Ok(());
        }
        // Any part of an assembly can be described, but only those parts of a description that 32
        // bits can address.
        let mut before = Assembly::new();
        before.push(page.payload());
        let (whole, all) = (before.payload(), page.set_assembly());
        let around = |start, end: usize| whole.part(start, end.saturating_sub(start)).unwrap_or(Payload::Bytes(&[]));
        all.push(around(0, start));
        all.push(*data);
        all.push(around(end, size));
        Ok(())
    }
}
