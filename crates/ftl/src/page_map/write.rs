//! Host writes and trims of logical pages.

use nandkit_codec::page_tag::TAG_BYTES;
use nandkit_flash::{Flash, FlashError, PageProgram};
use nandkit_units::{Assembly, Context, Described, Done, PageAddress, Payload, Pieces};

use super::frontier::Frontier;
use super::journal::layout::Change;
use super::{NOWHERE, PageMapFtl, role};
use crate::failure::{Failure, LayerResult};

/// Logical pages with their data, at most as many as one chip page holds.
pub(crate) type Parts<'a> = [(u32, Payload<'a>)];

/// A flash failure that changed nothing.
type Failed = Box<FlashError>;

impl<F: Flash> PageMapFtl<F> {
    /// Writes whole existing logical pages, filling each chip page as far as their regions allow.
    pub(super) fn write_pages(&mut self, context: &Context, first: u32, data: &[Payload<'_>]) -> LayerResult<Done> {
        let (size, per_page) = (self.block.sector_size as usize, self.superblocks.slots_per_page() as usize);
        let mut done = Done::immediately(context);
        let mut parts: Vec<(u32, Payload<'_>)> = Vec::with_capacity(per_page);
        let mut open = 0;
        self.counters.host_page_writes += (Pieces::total(data) / size) as u64;
        let sectors =
            data.iter().flat_map(|data| (0..data.len()).step_by(size).map_while(move |at| data.part(at, size)));
        for (part, page) in sectors.zip(first..) {
            let region = self.streams.of_write(page, context.issued);
            if !parts.is_empty() && (region != open || parts.len() == per_page) {
                done = done.and(self.write_page(context, open, &parts, role::HOST)?);
                parts.clear();
            }
            open = region;
            parts.push((page, part));
        }
        if parts.is_empty() {
            return Ok(done);
        }
        Ok(done.and(self.write_page(context, open, &parts, role::HOST)?))
    }

    /// Writes one chip page: its parts, and nothing in the rest.
    #[inline(always)]
    pub(super) fn write_page(
        &mut self,
        context: &Context,
        region: u8,
        parts: &Parts<'_>,
        role: u64,
    ) -> LayerResult<Done> {
        if self.mapping.is_some() && role != role::MAP {
            return self.write_looked_up(context, region, parts, role);
        }
        self.append_or_elsewhere(context, region, parts, role)
    }

    /// Writes one chip page once the map entries are available.
    #[inline(always)]
    pub(super) fn append_or_elsewhere(
        &mut self,
        context: &Context,
        region: u8,
        parts: &Parts<'_>,
        role: u64,
    ) -> LayerResult<Done> {
        match self.append(context, region, parts, role)? {
            Ok(done) => Ok(done),
            Err(failed) => self.write_elsewhere(*context, (region, role), parts, *failed),
        }
    }

    /// Programs a page at a region's frontier.
    #[inline(always)]
    fn append(
        &mut self,
        context: &Context,
        region: u8,
        parts: &Parts<'_>,
        role: u64,
    ) -> LayerResult<Result<Done, Failed>> {
        if Self::is_closed(&self.frontier(region)) {
            self.open_for_host(context, region)?;
        }
        let frontier = self.frontier(region);
        let (slot, at) = self.place(&frontier);
        if frontier.ready > context.issued {
            self.note_wait(region, context.issued, frontier.ready);
        }
        let context = &Context { issued: context.issued.max(frontier.ready), ..*context };
        match self.program_parts(context, at, parts, role) {
            Ok(done) => {
                self.sequence += u64::from(self.superblocks.slots_per_page());
                self.last_change = self.last_change.max(done.completed);
                for (&(page, _), slot) in parts.iter().zip(slot..) {
                    self.point(page, slot, frontier.superblock);
                }
                let next = self.advance(frontier, 1);
                self.set_frontier(region, next);
                match role {
                    role::MAP => self.counters.map_pages += parts.len() as u64,
                    _ => self.counters.programmed_pages += parts.len() as u64,
                }
                self.counters.filled_pages += u64::from(self.superblocks.slots_per_page()) - parts.len() as u64;
                Ok(Ok(done))
            }
            Err(error) => Ok(Err(Box::new(error))),
        }
    }

    /// Programs a chip page with a tag for each of its parts.
    #[inline(always)]
    pub(super) fn program_parts(
        &mut self,
        context: &Context,
        at: PageAddress,
        parts: &Parts<'_>,
        role: u64,
    ) -> nandkit_flash::Result<Done> {
        match parts {
            [(page, data)] if self.superblocks.slot_shift() == 0 => {
                let oob = self.tag.image(u64::from(*page) << 8 | role, self.sequence);
                self.flash.program(context, at, PageProgram::new(*data, &oob))
            }
            _ => self.program_joined(context, at, parts, role),
        }
    }

    #[inline(never)]
    fn program_joined(
        &mut self,
        context: &Context,
        at: PageAddress,
        parts: &Parts<'_>,
        role: u64,
    ) -> nandkit_flash::Result<Done> {
        let per_page = self.superblocks.slots_per_page() as usize;
        let zeroes = vec![0; self.block.sector_size as usize];
        let mut data: Vec<Payload<'_>> = parts.iter().map(|(_, data)| *data).collect();
        // Described parts are padded by repeating the last one, which costs a store of descriptions
        // least.
        let filler = data.last().copied().unwrap_or(Payload::Bytes(&zeroes));
        data.resize(per_page, filler);
        let mut oob = Vec::with_capacity(per_page * TAG_BYTES);
        let nothing = self.nothing();
        let pages = parts.iter().map(|(page, _)| *page).chain(std::iter::repeat(nothing));
        for (page, sequence) in pages.take(per_page).zip(self.sequence..) {
            oob.extend_from_slice(&self.tag.image(u64::from(page) << 8 | role, sequence));
        }
        let mut buffer = Assembly::new();
        let data = self.joined(&data, &mut buffer);
        self.flash.program(context, at, PageProgram::new(data, &oob))
    }

    /// The data of a page; generated as bytes if they are described and the flash stores no
    /// descriptions.
    pub(super) fn joined<'a>(&self, parts: &[Payload<'_>], buffer: &'a mut Assembly) -> Payload<'a> {
        if !self.keeps_described && parts.iter().all(|part| matches!(part, Payload::Described(_))) {
            return Payload::Described(Described { length: self.flash.geometry().page_size, ..Described::default() });
        }
        Payload::joined(parts, buffer)
    }

    /// The page number in the tag of an empty slot: the first number that is no logical page, so
    /// that stores that pack numbers need no wider ones.
    #[inline]
    pub(super) fn nothing(&self) -> u32 {
        self.map.len() as u32
    }

    /// Writes a page to another superblock after its program failed, and again if that fails too:
    /// each failure leaves one good block fewer, so this terminates.
    #[cold]
    #[inline(never)]
    fn write_elsewhere(
        &mut self,
        mut context: Context,
        (region, role): (u8, u64),
        parts: &Parts<'_>,
        mut failed: FlashError,
    ) -> LayerResult<Done> {
        loop {
            context.issued = context.issued.max(failed.completed);
            let Frontier { superblock, next, .. } = self.frontier(region);
            self.note_failure(failed)?;
            // Tags that may be on flash are not reused.
            self.sequence += u64::from(self.superblocks.slots_per_page());
            self.abandon(superblock, self.superblocks.at(superblock, next));
            self.set_frontier(region, Frontier::CLOSED);
            match self.append(&context, region, parts, role)? {
                Ok(done) => return Ok(done),
                Err(again) => failed = *again,
            }
        }
    }

    /// Makes the map point at a newly written slot; the old slot becomes invalid.
    #[inline(always)]
    pub(super) fn point(&mut self, page: u32, slot: u32, superblock: u32) {
        let Some(entry) = self.map.get_mut(page as usize) else { return };
        let old = std::mem::replace(entry, slot);
        self.changed.note(page);
        if old != NOWHERE && (self.aliases.is_empty() || !self.aliases.remove(old, page)) {
            self.valid.clear(old);
            self.index.subtract(self.superblocks.superblock(old));
        }
        self.valid.set(slot);
        self.index.add(superblock);
        if !self.failing.lost.is_empty() {
            self.failing.lost.remove(&page);
        }
    }

    /// Trims existing logical pages.
    pub(super) fn trim_pages(&mut self, context: &Context, pages: std::ops::Range<u32>) -> LayerResult<()> {
        self.checkpoint_if_due(context)?;
        let mut forgotten = 0;
        for page in pages.clone() {
            if self.buffer.is_used() {
                self.buffer.remove(page);
            }
            forgotten += u64::from(self.forget_page(page));
        }
        self.counters.trimmed_pages += forgotten;
        if forgotten > 0 {
            // One line for all pages, even those without content.
            self.note(Change::Trim { first: pages.start, count: pages.end - pages.start });
        }
        Ok(())
    }

    /// Drops the content of a logical page. Returns whether it had any, or had lost it.
    #[inline]
    pub(super) fn forget_page(&mut self, page: u32) -> bool {
        let Some(entry) = self.map.get_mut(page as usize) else { return false };
        let old = std::mem::replace(entry, NOWHERE);
        if old != NOWHERE && (self.aliases.is_empty() || !self.aliases.remove(old, page)) {
            self.valid.clear(old);
            self.index.subtract(self.superblocks.superblock(old));
        }
        self.changed.note(page);
        self.streams.forget(page);
        self.failing.lost.remove(&page) || old != NOWHERE
    }

    /// Cleans until a superblock can be opened for host writes to a region, and opens it.
    #[inline(never)]
    fn open_for_host(&mut self, context: &Context, region: u8) -> LayerResult<()> {
        let mut has_cleaned = false;
        loop {
            // Also between two victims: cleaning writes a line for each page that it finds lost.
            self.checkpoint_if_due(context)?;
            // Copies may have opened one for this region meanwhile, and then no other is opened.
            let needed = self.free_min + usize::from(Self::is_closed(&self.frontier(region)));
            if self.free_count() >= needed && !self.failing.is_waiting() {
                break;
            }
            self.clean(context)?;
            has_cleaned = true;
        }
        if Self::is_closed(&self.frontier(region)) {
            let opened = self.open(context, region)?;
            self.set_frontier(region, opened);
        }
        if has_cleaned {
            self.stalls.note_opened(region, true);
        }
        Ok(())
    }

    /// Cleans until as many superblocks are free as cleaning any victim may need.
    pub(super) fn make_room(&mut self, context: &Context) -> LayerResult<()> {
        while self.free_count() < self.free_min || self.failing.is_waiting() {
            self.clean(context)?;
            self.checkpoint_if_due(context)?;
        }
        Ok(())
    }

    /// Called before a host change: checks that the layer runs, and does due refresh and levelling.
    #[inline]
    pub(super) fn begin_change(&mut self, context: &Context) -> LayerResult<()> {
        self.check_running()?;
        if self.cares { self.take_care(context) } else { Ok(()) }
    }

    #[inline(never)]
    fn take_care(&mut self, context: &Context) -> LayerResult<()> {
        if self.idle.is_some() {
            self.end_idle(context)?;
        }
        if self.refresh.is_some() {
            self.refresh_due(context, false)?;
        }
        if self.leveling.is_some() {
            self.level_due(context)?;
        }
        Ok(())
    }

    /// Refuses changes if the state in memory lags behind the flash.
    #[inline]
    pub(super) fn check_running(&self) -> LayerResult<()> {
        match &self.halted {
            None => Ok(()),
            Some(halt) => Err(Failure::Halted(Box::new(halt.clone()))),
        }
    }
}
