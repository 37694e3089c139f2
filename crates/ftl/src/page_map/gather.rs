//! The first half of cleaning: reading a victim's valid slots, and identifying them by their tags.

use nandkit_codec::page_tag::{TAG_BYTES, TagRead};
use nandkit_flash::{ErrorKind, Flash, Move, PageRead, PageRun};
use nandkit_units::{Content, Context, Nanos, PageAddress, ReadInto, prefetch};

use super::journal::layout::Change;
use super::{NOWHERE, PageMapFtl};
use crate::failure::{Failure, LayerResult};

/// How many slots ahead the map's cache lines are prefetched.
pub(super) const AHEAD: usize = 16;

/// Buffers for cleaning one superblock, kept to reuse their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct CleaningRun {
    /// The valid slots, each with its position in `tags`: the index in `from`, and the part within
    /// that page.
    pub slots: Vec<u32>,
    pub places: Vec<u32>,
    /// The chip pages that hold the slots.
    pub from: Vec<PageAddress>,
    /// The tags of these chip pages.
    pub tags: Vec<u8>,
    /// The logical page of each slot.
    pub pages: Vec<u32>,
    /// Groups of slots for one region: the region, and the number of slots.
    pub groups: Vec<(u8, usize)>,
    /// The content of the pages from the first one on that the flash could not fetch by itself.
    pub contents: Vec<Content>,
    pub moves: Vec<Move>,
    /// The tags of the copies.
    pub oob: Vec<u8>,
}

impl CleaningRun {
    /// The number of pages that the flash fetched by itself.
    pub fn fetched(&self) -> usize {
        self.from.len() - self.contents.len()
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Reads the valid slots of a victim; returns the completion time of the last read.
    pub(super) fn gather(&mut self, context: &Context, victim: u32, run: &mut CleaningRun) -> LayerResult<Nanos> {
        self.list_slots(victim, run);
        let tags = TAG_BYTES << self.superblocks.slot_shift();
        run.tags.resize(run.from.len() * tags, 0);
        let fetched = match self.flash.relocation() {
            Some(relocation) => relocation.fetch(context, &run.from, &mut run.tags),
            None => PageRun::begin(context),
        };
        let mut end = fetched.done.completed;
        if let Some(error) = fetched.failed {
            return Err(self.halt(error));
        }
        let page_size = self.block.preferred_size;
        let rest = run.from.len() - fetched.pages;
        run.contents.resize_with(rest, Content::new);
        let images = run.tags.chunks_mut(tags).skip(fetched.pages);
        let singly = run.from.iter().enumerate().skip(fetched.pages).zip(&mut run.contents).zip(images);
        let mut lost = Vec::new();
        for (((index, at), content), oob) in singly {
            let into = ReadInto::Content { content, length: page_size };
            match self.flash.read(context, *at, PageRead { column: 0, data: into, oob }) {
                Ok(done) => end = end.max(done.completed),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    end = end.max(error.completed);
                    lost.push(index as u32);
                }
                Err(error) => return Err(self.halt(error)),
            }
        }
        if !lost.is_empty() {
            self.lose(run, &lost);
        }
        self.name_pages(run)?;
        Ok(end)
    }

    /// Lists the valid slots of a superblock, and the pages that hold them.
    #[inline]
    fn list_slots(&self, victim: u32, run: &mut CleaningRun) {
        let (first, count) = (self.superblocks.slot(victim, 0), self.superblocks.slots());
        let (shift, part) = (self.superblocks.slot_shift(), self.superblocks.slots_per_page() - 1);
        run.slots.clear();
        run.places.clear();
        run.from.clear();
        if shift == 0 {
            self.valid.for_each(first, count, |slot| run.slots.push(slot));
            run.from.extend(run.slots.iter().map(|slot| self.superblocks.at(victim, slot - first)));
            run.places.extend(0..run.slots.len() as u32);
            return;
        }
        let mut last = u32::MAX;
        self.valid.for_each(first, count, |slot| {
            let page = (slot - first) >> shift;
            if page != last {
                last = page;
                run.from.push(self.superblocks.at(victim, page));
            }
            run.slots.push(slot);
            run.places.push((run.from.len() as u32 - 1) << shift | (slot - first) & part);
        });
    }

    /// Removes the slots of unreadable pages from a run: their content is lost. Their tags cannot
    /// be trusted, so the map tells which logical pages they held. Cost: a pass over the map.
    #[cold]
    fn lose(&mut self, run: &mut CleaningRun, lost: &[u32]) {
        let shift = self.superblocks.slot_shift();
        let (slots, places) = (std::mem::take(&mut run.slots), std::mem::take(&mut run.places));
        let mut gone = std::collections::BTreeSet::new();
        for (slot, place) in slots.into_iter().zip(places) {
            if lost.contains(&(place >> shift)) {
                gone.insert(slot);
                self.valid.clear(slot);
                self.index.subtract(self.superblocks.superblock(slot));
            } else {
                run.slots.push(slot);
                run.places.push(place);
            }
        }
        gone.iter().for_each(|slot| {
            self.aliases.take(*slot);
        });
        let user = self.block.sectors as u32;
        let mut pages = Vec::new();
        for (entry, page) in self.map.iter_mut().zip(0..).filter(|(entry, _)| gone.contains(entry)) {
            *entry = NOWHERE;
            pages.push(page);
        }
        for page in pages {
            if page >= user {
                // The map page's content is in memory, and goes to flash with the next checkpoint.
                self.changed.note_map(page - user);
                self.owe(page - user);
                continue;
            }
            self.changed.note(page);
            self.owe(self.changed.map_page(page));
            self.failing.lost.insert(page);
            self.counters.lost_pages += 1;
            self.note(Change::Lost { page });
        }
    }

    /// Determines which logical pages were read, and prefetches their map entries.
    #[inline]
    fn name_pages(&self, run: &mut CleaningRun) -> LayerResult<()> {
        let (images, _) = run.tags.as_chunks::<TAG_BYTES>();
        run.pages.clear();
        run.pages.resize(run.places.len(), NOWHERE);
        for (page, &place) in run.pages.iter_mut().zip(&run.places) {
            let Some(TagRead::Valid { payload, .. }) = images.get(place as usize).map(|image| self.tag.decode(image))
            else {
                return Err(Failure::Unreadable);
            };
            *page = (payload >> 8) as u32;
        }
        if !self.aliases.is_empty() {
            for (page, &slot) in run.pages.iter_mut().zip(&run.slots) {
                *page = self.first_sharer(slot).unwrap_or(*page);
            }
        }
        run.pages.iter().take(AHEAD).for_each(|page| prefetch(&self.map, *page as usize));
        Ok(())
    }

    /// The page with which the copy of a shared slot is tagged.
    fn first_sharer(&self, slot: u32) -> Option<u32> {
        self.aliases.get(slot)?.pages().next()
    }

    /// Groups slots by region, and keeps the reading order within each group.
    #[inline]
    pub(super) fn sort_by_region(&mut self, context: &Context, victim: u32, run: &mut CleaningRun) {
        run.groups.clear();
        let user = self.block.sectors as u32;
        match self.streams.of_all_copies() {
            Some(region) if run.pages.iter().all(|page| *page < user) => run.groups.push((region, run.slots.len())),
            _ if self.streams.region(victim) == self.streams.map_region()
                && run.pages.iter().all(|page| *page >= user) =>
            {
                run.groups.push((self.streams.map_region(), run.slots.len()));
            }
            _ => self.sort_by_several_regions(context, run),
        }
    }

    #[inline(never)]
    fn sort_by_several_regions(&mut self, context: &Context, run: &mut CleaningRun) {
        let (user, maps) = (self.block.sectors as u32, self.streams.map_region());
        let region = |page: &u32| {
            if *page < user { self.streams.of_copy(*page, context.issued) } else { maps }
        };
        let regions: Vec<u8> = run.pages.iter().map(region).collect();
        let mut order: Vec<usize> = (0..regions.len()).collect();
        order.sort_by_key(|index| regions.get(*index).copied());
        let sorted = |from: &[u32]| order.iter().filter_map(|index| from.get(*index).copied()).collect::<Vec<u32>>();
        (run.slots, run.places, run.pages) = (sorted(&run.slots), sorted(&run.places), sorted(&run.pages));
        for region in order.iter().filter_map(|index| regions.get(*index).copied()) {
            match run.groups.last_mut() {
                Some((last, count)) if *last == region => *count += 1,
                _ => run.groups.push((region, 1)),
            }
        }
    }
}
