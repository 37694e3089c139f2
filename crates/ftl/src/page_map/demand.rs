//! Lookups of a map that is not wholly in device memory: which map pages they read and evict.

use std::ops::Range;

use nandkit_flash::{ErrorKind, Flash, FlashError, PageRead};
use nandkit_units::{Cause, Context, Done, Nanos, ReadInto};
use smallvec::SmallVec;

use super::gather::CleaningRun;
use super::mapping_cache::MappingCounters;
use super::write::Parts;
use super::{NOWHERE, PageMapFtl};
use crate::failure::LayerResult;

/// Map pages, each with the number of its logical pages that are looked up.
type LookedUp = SmallVec<[(u32, u64); 4]>;

impl<F> PageMapFtl<F> {
    /// Counters of the mapping cache since the device was made or attached; `None` if the whole map
    /// is in memory.
    pub fn mapping_counters(&self) -> Option<MappingCounters> {
        Some(self.mapping.as_ref()?.lock().counters)
    }

    /// Queues a map page for writing if it was changed outside the cache or must be rewritten.
    pub(super) fn owe(&mut self, map_page: u32) {
        if let Some(mapping) = &mut self.mapping {
            mapping.get_mut().owe(map_page);
        }
    }

    /// Records that the journal lines so far describe the map, and are complete when the last
    /// change is.
    pub(super) fn settle_lines(&mut self) {
        let end = self.last_change;
        if let Some(mapping) = &mut self.mapping {
            mapping.get_mut().settle_lines(end);
        }
    }

    /// After a start, takes over the replayed changes; those without room in the cache are written
    /// with the first change.
    pub(super) fn adopt_changed(&mut self, now: Nanos) {
        let Some(mapping) = &mut self.mapping else { return };
        let cached = mapping.get_mut();
        let map_pages = (self.map.len() as u64 - self.block.sectors) as u32;
        let changed = (0..map_pages).filter(|map_page| self.changed.has(*map_page));
        for map_page in changed {
            cached.look_up(map_page, 0, |_| true);
            cached.settle(map_page, now);
        }
        cached.counters = MappingCounters::default();
    }

    /// Groups logical pages by map page, in order; neighbours in one map page are one lookup.
    fn by_map_page(&self, pages: impl Iterator<Item = u32>) -> LookedUp {
        let mut looked_up = LookedUp::new();
        for page in pages {
            let map_page = self.changed.map_page(page);
            match looked_up.last_mut() {
                Some((last, count)) if *last == map_page => *count += 1,
                _ => looked_up.push((map_page, 1)),
            }
        }
        looked_up
    }

    /// Records that these logical pages point elsewhere since the program that ended at `end`.
    pub(super) fn note_changed(&mut self, pages: impl Iterator<Item = u32>, end: Nanos) {
        if self.mapping.is_none() {
            return;
        }
        let changed = self.by_map_page(pages);
        if let Some(mapping) = &mut self.mapping {
            let cached = mapping.get_mut();
            for (map_page, _) in changed {
                cached.settle(map_page, end);
                cached.owe(map_page);
            }
        }
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Looks up logical pages; returns when all their entries are available. Errors: flash errors
    /// other than uncorrectable data.
    #[inline(never)]
    pub(super) fn look_up(&self, context: &Context, pages: impl Iterator<Item = u32>) -> Result<Nanos, FlashError> {
        let mut end = context.issued;
        for (map_page, count) in self.by_map_page(pages) {
            end = end.max(self.look_up_in(context, map_page, count, true)?);
        }
        Ok(end)
    }

    /// Looks up logical pages of one map page. Reads nothing if all of its entries will be
    /// replaced.
    fn look_up_in(&self, context: &Context, map_page: u32, pages: u64, reads: bool) -> Result<Nanos, FlashError> {
        let Some(mapping) = &self.mapping else { return Ok(context.issued) };
        let mut cached = mapping.lock();
        if cached.look_up(map_page, pages, |page| self.changed.has(page)) {
            return Ok(context.issued.max(cached.ready(map_page)));
        }
        drop(cached);
        let end = if reads { self.read_map_page(context, map_page, false)? } else { context.issued };
        mapping.lock().set_ready(map_page, end);
        Ok(end)
    }

    /// Reads a map page if it is on flash; returns the completion time.
    fn read_map_page(&self, context: &Context, map_page: u32, for_cleaning: bool) -> Result<Nanos, FlashError> {
        let entry = self.map.get(self.block.sectors as usize + map_page as usize);
        let Some(&slot) = entry.filter(|slot| **slot != NOWHERE) else { return Ok(context.issued) };
        let Some(mapping) = &self.mapping else { return Ok(context.issued) };
        let (at, part) = self.superblocks.address(slot);
        let length = self.block.sector_size;
        let read = PageRead { column: part * length, data: ReadInto::Nothing { length }, oob: &mut [] };
        let context = Context { device_cause: Some(Cause::Mapping), ..*context };
        let done = self.flash.read(&context, at, read);
        self.note_read(at, slot);
        let mut cached = mapping.lock();
        match for_cleaning {
            true => cached.counters.pages_read_for_cleaning += 1,
            false => cached.counters.pages_read += 1,
        }
        match done {
            Ok(done) => Ok(done.completed),
            Err(error) if error.kind == ErrorKind::Uncorrectable => {
                cached.note_unreadable(map_page);
                Ok(error.completed)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes host pages with a demand-loaded map: looks up the entries first, and afterwards
    /// writes the map pages that this evicted.
    #[inline(never)]
    pub(super) fn write_looked_up(
        &mut self,
        context: &Context,
        region: u8,
        parts: &Parts<'_>,
        role: u64,
    ) -> LayerResult<Done> {
        let pages = || parts.iter().map(|(page, _)| *page);
        let issued = self.look_up(context, pages())?;
        let done = self.append_or_elsewhere(&Context { issued, ..*context }, region, parts, role)?;
        self.note_changed(pages(), done.completed);
        // Only now, so that the host's data do not wait for these writes.
        self.write_owed(context)?;
        Ok(done)
    }

    /// Looks up the pages of a trim; a map page that is trimmed entirely is not read. Returns the
    /// context in which the trim continues.
    pub(super) fn look_up_trimmed(&self, context: &Context, pages: &Range<u32>) -> LayerResult<Context> {
        if self.mapping.is_none() {
            return Ok(*context);
        }
        let mut issued = context.issued;
        for (map_page, count) in self.by_map_page(pages.clone()) {
            let is_part = count < self.changed.pages_of(map_page);
            issued = issued.max(self.look_up_in(context, map_page, count, is_part)?);
        }
        Ok(Context { issued, ..*context })
    }

    /// Looks up the pages of a remap. Returns the context in which the remap continues.
    pub(super) fn look_up_pairs(&self, context: &Context, pairs: &[(u32, u32)]) -> LayerResult<Context> {
        if self.mapping.is_none() {
            return Ok(*context);
        }
        let issued = self.look_up(context, pairs.iter().flat_map(|(source, target)| [*source, *target]))?;
        Ok(Context { issued, ..*context })
    }

    /// Writes the queued map pages. Pages that cleaning queues meanwhile wait for the next change,
    /// so that this terminates.
    pub(super) fn write_owed(&mut self, context: &Context) -> LayerResult<()> {
        let Some(cached) = self.mapping.as_mut().map(|mapping| mapping.get_mut()) else { return Ok(()) };
        if !cached.owes() {
            return Ok(());
        }
        let (owed, unreadable) = cached.take_owed();
        unreadable.iter().for_each(|map_page| self.changed.note_map(*map_page));
        let mut all = owed;
        all.extend(unreadable);
        all.retain(|map_page| self.changed.has(*map_page));
        // A checkpoint in between would name the old slots of the pages about to be written.
        let was_checkpointing = self.set_checkpointing(true);
        let mut written = Ok(());
        for some in all.chunks(self.superblocks.slots_per_page() as usize) {
            if written.is_ok() {
                written = self.write_evicted(context, some);
            }
        }
        self.set_checkpointing(was_checkpointing);
        // Queue again what was not written, or changed while it was.
        for map_page in all {
            if self.changed.has(map_page) {
                self.owe(map_page);
            }
        }
        written
    }

    fn set_checkpointing(&mut self, to: bool) -> bool {
        self.journal.as_mut().is_some_and(|journal| std::mem::replace(&mut journal.is_checkpointing, to))
    }

    /// Writes one chip page of map pages, once everything that they refer to has completed.
    fn write_evicted(&mut self, context: &Context, some: &[u32]) -> LayerResult<()> {
        let mut issued = context.issued;
        if let Some(mapping) = &mut self.mapping {
            let cached = mapping.get_mut();
            issued = some.iter().fold(issued, |at, map_page| at.max(cached.settled(*map_page)));
            cached.counters.pages_written += some.len() as u64;
        }
        // Cleaning that makes room for them may change them again.
        some.iter().for_each(|map_page| self.changed.clear_map(*map_page));
        let context = Context { issued, device_cause: Some(Cause::Mapping), ..*context };
        let written = self.write_map_pages(&context, some);
        if written.is_err() {
            some.iter().for_each(|map_page| self.changed.note_map(*map_page));
        }
        written
    }

    /// The map pages that refer to the slots that a cleaning run will move, if the map is
    /// demand-loaded.
    pub(super) fn maps_of(&self, run: &CleaningRun) -> Vec<u32> {
        if self.mapping.is_none() {
            return Vec::new();
        }
        let user = self.block.sectors as u32;
        let sharers = run.slots.iter().filter_map(|slot| self.aliases.get(*slot)).flat_map(|sharers| sharers.pages());
        let pages = run.pages.iter().copied().chain(sharers).filter(|page| *page < user);
        let mut maps: Vec<u32> = pages.map(|page| self.changed.map_page(page)).collect();
        maps.sort_unstable();
        maps.dedup();
        maps
    }

    /// Records that cleaning has moved slots that these map pages refer to. Map pages outside the
    /// cache are read, changed, and written with the next host change, with all entries of one map
    /// page at once.
    pub(super) fn note_cleaned(&mut self, context: &Context, maps: &[u32]) -> LayerResult<()> {
        for &map_page in maps {
            let holds = self.mapping.as_ref().is_some_and(|mapping| mapping.lock().holds(map_page));
            let end = if holds { Nanos::ZERO } else { self.read_map_page(context, map_page, true)? };
            let end = end.max(self.last_change);
            if let Some(mapping) = &mut self.mapping {
                mapping.get_mut().settle(map_page, end);
                mapping.get_mut().owe(map_page);
            }
        }
        Ok(())
    }
}
