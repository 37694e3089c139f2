//! The block-device interface of the layer.

use nandkit_block::{
    BlockDevice, BlockError, BlockGeometry, ErrorKind, Extent, Operation, Placement, Remap, Result, Trim, check,
};
use nandkit_flash::{Flash, PageRead};
use nandkit_units::{Assembly, Content, Context, Done, Lba, Nanos, Pacing, Payload, Pieces, ReadInto};

use super::{NOWHERE, PageMapFtl, role};
use crate::failure::{Failure, LayerResult};

impl<F: Flash> BlockDevice for PageMapFtl<F> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.block
    }

    /// Pages that were never written, or were trimmed, read as zeroes. Logical pages that are
    /// consecutive in a chip page share one read.
    fn read(&self, context: &Context, at: Lba, mut into: ReadInto<'_>) -> Result<Done> {
        check::check_range(&self.block, Operation::Read, at, into.len())?;
        let size = self.block.sector_size as usize;
        let pages = at.0..at.0 + (into.len() / size) as u64;
        self.note_active(context.issued);
        let context = &self.looked_up(context, pages.clone())?;
        let mut done = Done::immediately(context);
        let mut next = pages.start;
        while next < pages.end {
            let together = self.together(next, pages.end);
            let start = (next - pages.start) as usize * size;
            let Some(part) = part_of(&mut into, start, together as usize * size) else { break };
            let read = match self.read_together(context, next, part) {
                // Read each page alone to find out which ones are unreadable.
                Err(_) if together > 1 => (next..next + together).zip((start..).step_by(size)).try_fold(
                    Done::immediately(context),
                    |done, (page, start)| match part_of(&mut into, start, size) {
                        Some(part) => Ok(done.and(self.read_together(context, page, part)?)),
                        None => Ok(done),
                    },
                ),
                read => read,
            };
            done = done.and(read?);
            next += together;
        }
        self.note_active(done.completed);
        Ok(done)
    }

    #[inline]
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check::check_range(&self.block, Operation::Write, at, data.len())?;
        self.begin_change(context).map_err(|failure| failure.at(Operation::Write, at))?;
        if data.len() == self.block.sector_size as usize && !self.buffer.is_used() {
            self.counters.host_page_writes += 1;
            let region = self.streams.of_write(at.0 as u32, context.issued);
            let written = self.write_page(context, region, &[(at.0 as u32, data)], role::HOST);
            return written.map_err(|failure| failure.at(Operation::Write, at));
        }
        let buffered = self.buffer.is_used();
        self.write_data(context, at.0 as u32, &[data], buffered).map_err(|failure| failure.at(Operation::Write, at))
    }

    /// Logical pages that are consecutive in a chip page share one read.
    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let length = check::check_unit(&self.block, at, unit, into.len())?;
        if unit != self.block.sector_size {
            let mut whole = Content::new();
            let done = self.read(context, at, ReadInto::Content { content: &mut whole, length })?;
            whole.deal(unit, into);
            return Ok(done);
        }
        self.read_each(context, at, into)
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        check::check_range(&self.block, Operation::Write, at, Pieces::total(parts))?;
        let size = self.block.sector_size as usize;
        if parts.iter().any(|part| !part.len().is_multiple_of(size)) {
            return self.write(context, at, Payload::joined(parts, &mut Assembly::new()));
        }
        self.begin_change(context).map_err(|failure| failure.at(Operation::Write, at))?;
        let buffered = self.buffer.is_used();
        let written = self.write_data(context, at.0 as u32, parts, buffered);
        written.map_err(|failure| failure.at(Operation::Write, at))
    }

    /// Bypasses the write buffer, and replaces its content for these pages.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check::check_range(&self.block, Operation::Write, at, data.len())?;
        self.begin_change(context).map_err(|failure| failure.at(Operation::Write, at))?;
        if self.options.power_loss_protection {
            let done = self.write(context, at, data)?;
            self.save_at_flush(context).map_err(|failure| failure.at(Operation::Write, at))?;
            return Ok(done);
        }
        let written = self.write_data(context, at.0 as u32, &[data], false);
        let done = written.map_err(|failure| failure.at(Operation::Write, at))?;
        let pages = at.0..at.0 + (data.len() / self.block.sector_size as usize) as u64;
        pages.for_each(|page| self.buffer.remove(page as u32));
        let synced = self.flash.sync(&Context { issued: done.completed, ..*context });
        synced.map_err(|error| Failure::from(error).at(Operation::Write, at))?;
        Ok(done)
    }

    /// Written data are durable when complete: a flush waits for the last write, and writes the
    /// journal lines of trims.
    fn flush(&mut self, context: &Context) -> Result<Done> {
        let failed = |failure: Failure| failure.at(Operation::Flush, Lba(0));
        self.check_running().map_err(failed)?;
        self.stalls.note_flush();
        if self.idle.is_some() {
            self.end_idle(context).map_err(failed)?;
        }
        self.refresh_due(context, true).map_err(failed)?;
        if self.options.power_loss_protection {
            self.save_at_flush(context).map_err(failed)?;
            return Ok(Done::immediately(context));
        }
        self.drain(context, 0).map_err(failed)?;
        self.checkpoint_if_due(context).map_err(failed)?;
        self.write_waiting(context).map_err(failed)?;
        let mut done = Done::immediately(context);
        done.completed = done.completed.max(self.last_change);
        self.flash.sync(&Context { issued: done.completed, ..*context }).map_err(|error| failed(error.into()))?;
        Ok(done)
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        let end = at.0.saturating_add(most).min(self.block.sectors);
        // Lost pages do not read as zeroes.
        let lost = |page: u64| self.failing.lost.contains(&(page as u32));
        let on_flash = |page: u64| self.map.get(page as usize).is_some_and(|slot| *slot != NOWHERE);
        let holds = |page: u64| on_flash(page) || self.buffer.holds(page as u32) || lost(page);
        let first = holds(at.0);
        let same = (at.0..end).take_while(|page| holds(*page) == first).count() as u64;
        Extent { sectors: same.max(1), holds: first }
    }

    fn placement(&self, at: Lba) -> Option<Placement> {
        if at.0 >= self.block.sectors || self.buffer.is_used() && self.buffer.holds(at.0 as u32) {
            return None;
        }
        let slot = self.map.get(usize::try_from(at.0).ok()?).copied().filter(|slot| *slot != NOWHERE)?;
        let geometry = self.flash.geometry();
        let (address, _) = self.superblocks.address(slot);
        Some(Placement { die: geometry.die_of(address.block), dies: geometry.dies })
    }

    #[inline]
    fn expect_write(&mut self, at: Lba) {
        self.expect_page(at.0 as u32);
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        Some(self)
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        if self.idle.is_some() || self.flash.pacing().is_some() { Some(self) } else { None }
    }

    fn remap(&mut self) -> Option<&mut dyn Remap> {
        if self.journal.is_some() { Some(self) } else { None }
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Writes whole existing logical pages. Each is a part of its payload; if some parts cannot be
    /// described, because their offset would exceed 32 bits, pages are written one by one, those
    /// parts as bytes.
    fn write_data(&mut self, context: &Context, first: u32, data: &[Payload<'_>], buffered: bool) -> LayerResult<Done> {
        let size = self.block.sector_size as usize;
        let has_parts = |data: &Payload<'_>| data.is_empty() || data.part(data.len() - size, size).is_some();
        if !data.iter().all(has_parts) {
            return self.write_one_by_one(context, first, data, buffered);
        }
        if buffered { self.write_to_buffer(context, first, data) } else { self.write_pages(context, first, data) }
    }

    #[cold]
    fn write_one_by_one(
        &mut self,
        context: &Context,
        first: u32,
        data: &[Payload<'_>],
        buffered: bool,
    ) -> LayerResult<Done> {
        let (mut pieces, mut buffer) = (Pieces::new(data), Assembly::new());
        let mut done = Done::immediately(context);
        for page in first.. {
            let Some(piece) = pieces.next(self.block.sector_size as usize, &mut buffer) else { break };
            done = done.and(match buffered {
                true => self.write_to_buffer(context, page, &[piece])?,
                false => self.write_pages(context, page, &[piece])?,
            });
        }
        Ok(done)
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Reads as one request whose pages each go into their own content.
    fn read_each(&self, context: &Context, at: Lba, into: &mut [Content]) -> Result<Done> {
        let size = self.block.sector_size;
        let pages = at.0..at.0 + into.len() as u64;
        self.note_active(context.issued);
        let context = &self.looked_up(context, pages.clone())?;
        let (mut done, mut next) = (Done::immediately(context), pages.start);
        let mut scratch = Content::new();
        while next < pages.end {
            let together = self.together(next, pages.end);
            let start = (next - pages.start) as usize;
            let Some(contents) = into.get_mut(start..start + together as usize) else { break };
            let part = ReadInto::Content { content: &mut scratch, length: size * together as u32 };
            match self.read_together(context, next, part) {
                Ok(read) => {
                    scratch.deal(size, contents);
                    done = done.and(read);
                }
                Err(error) if together == 1 => return Err(error),
                Err(_) => {
                    for (page, content) in (next..).zip(contents) {
                        let part = ReadInto::Content { content, length: size };
                        done = done.and(self.read_together(context, page, part)?);
                    }
                }
            }
            next += together;
        }
        self.note_active(done.completed);
        Ok(done)
    }

    /// The context in which a read continues once the map entries are available; buffered pages
    /// need no lookup.
    #[inline]
    fn looked_up(&self, context: &Context, pages: std::ops::Range<u64>) -> Result<Context> {
        if self.mapping.is_none() {
            return Ok(*context);
        }
        let at = Lba(pages.start);
        let on_flash = pages.map(|page| page as u32).filter(|page| !self.buffer.holds(*page));
        let issued = self.look_up(context, on_flash).map_err(|error| Failure::from(error).at(Operation::Read, at))?;
        Ok(Context { issued, ..*context })
    }
}

impl<F: Flash> Trim for PageMapFtl<F> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        check::sectors_of(&self.block, Operation::Trim, at, sectors)?;
        self.begin_change(context).map_err(|failure| failure.at(Operation::Trim, at))?;
        let pages = at.0 as u32..(at.0 + sectors) as u32;
        let looked_up = self.look_up_trimmed(context, &pages);
        let context = &looked_up.map_err(|failure| failure.at(Operation::Trim, at))?;
        let trimmed = self.trim_pages(context, pages.clone());
        self.note_changed(pages, Nanos::ZERO);
        trimmed.and_then(|()| self.write_owed(context)).map_err(|failure| failure.at(Operation::Trim, at))?;
        Ok(Done::immediately(context))
    }
}

/// A part of the read's target. Several parts form one content of bytes.
fn part_of<'a>(into: &'a mut ReadInto<'_>, start: usize, length: usize) -> Option<ReadInto<'a>> {
    Some(match into {
        ReadInto::Bytes(bytes) => ReadInto::Bytes(bytes.get_mut(start..start + length)?),
        ReadInto::Content { content, length: whole } => {
            if *whole as usize == length {
                return Some(ReadInto::Content { content, length: *whole });
            }
            let bytes = if start == 0 { content.set_bytes(*whole as usize) } else { content.to_bytes() };
            ReadInto::Bytes(bytes.get_mut(start..start + length)?)
        }
        ReadInto::Nothing { .. } => ReadInto::Nothing { length: length as u32 },
    })
}

impl<F: Flash> PageMapFtl<F> {
    /// The number of logical pages from `page` on, up to `end`, that are consecutive in one chip
    /// page; at least one.
    fn together(&self, page: u64, end: u64) -> u64 {
        let in_buffer = |page: u64| self.buffer.is_used() && self.buffer.holds(page as u32);
        let slot = self.map.get(page as usize).copied().unwrap_or(NOWHERE);
        if self.superblocks.slot_shift() == 0 || slot == NOWHERE || in_buffer(page) {
            return 1;
        }
        let (_, part) = self.superblocks.address(slot);
        let most = u64::from(self.superblocks.slots_per_page() - part).min(end - page);
        let follows = |ahead: &u64| {
            let there = self.map.get((page + ahead) as usize).copied().unwrap_or(NOWHERE);
            there != NOWHERE && u64::from(there) == u64::from(slot) + ahead && !in_buffer(page + ahead)
        };
        1 + (1..most).take_while(follows).count() as u64
    }

    /// Reads one logical page, or several that are consecutive in a chip page.
    fn read_together(&self, context: &Context, page: u64, mut into: ReadInto<'_>) -> Result<Done> {
        let done = Done::immediately(context);
        if self.buffer.is_used() && self.buffer.read(page as u32, &mut into) {
            return Ok(done);
        }
        let slot = self.map.get(page as usize).copied().unwrap_or(NOWHERE);
        if slot == NOWHERE && self.failing.lost.contains(&(page as u32)) {
            let what = "the sector was lost before it could be moved";
            return Err(BlockError::new(ErrorKind::Unreadable, Operation::Read, Lba(page), what));
        }
        if slot == NOWHERE {
            into.deliver_fill(0);
            return Ok(done);
        }
        let (address, part) = self.superblocks.address(slot);
        let read = PageRead { column: part * self.block.sector_size, data: into, oob: &mut [] };
        let done = self.flash.read(context, address, read);
        self.note_read(address, slot);
        done.map_err(|error| Failure::from(error).at(Operation::Read, Lba(page)))
    }
}
