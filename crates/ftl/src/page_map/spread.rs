//! The second half of cleaning: programming the slots at the frontiers, and updating the map.

use std::ops::Range;

use nandkit_codec::page_tag::TAG_BYTES;
use nandkit_flash::{Flash, Move, PageProgram, PageRead};
use nandkit_units::{Assembly, BlockIndex, Content, Context, Nanos, PageAddress, Payload, ReadInto, prefetch};

use super::frontier::Frontier;
use super::gather::{AHEAD, CleaningRun};
use super::journal::layout::Change;
use super::{PageMapFtl, role};
use crate::failure::LayerResult;

/// An address that is no page of any chip.
const NO_PAGE: PageAddress = PageAddress { block: BlockIndex(u32::MAX), page: u32::MAX };

impl<F: Flash> PageMapFtl<F> {
    /// Programs the gathered slots region by region; returns the completion time of the last
    /// program.
    pub(super) fn spread(&mut self, context: &Context, read: Nanos, run: &mut CleaningRun) -> LayerResult<Nanos> {
        let context = Context { issued: read, ..*context };
        let (mut end, mut done) = (read, 0);
        for (region, count) in std::mem::take(&mut run.groups) {
            end = end.max(self.spread_region(&context, region, done..done + count, run)?);
            done += count;
        }
        self.last_change = self.last_change.max(end);
        Ok(end)
    }

    /// Programs the slots of one region, superblock by superblock.
    fn spread_region(
        &mut self,
        context: &Context,
        region: u8,
        row: Range<usize>,
        run: &mut CleaningRun,
    ) -> LayerResult<Nanos> {
        let per_page = self.superblocks.slots_per_page() as usize;
        let (mut end, mut done) = (context.issued, row.start);
        while done < row.end {
            let region = self.region_with_room(region);
            let mut frontier = self.frontier(region);
            if Self::is_closed(&frontier) {
                frontier = self.open(context, region)?;
            }
            let context = &Context { issued: context.issued.max(frontier.ready), ..*context };
            let room = (self.superblocks.pages() - frontier.next) as usize * per_page;
            let part = done..row.end.min(done + room);
            let place = (frontier.superblock, frontier.next);
            let (ended, programmed) = self.program_part(context, run, part.clone(), place)?;
            end = end.max(ended);
            // If the superblock ends here, it ends at that time.
            self.last_change = self.last_change.max(end);
            let slots = part.len().min(programmed * per_page);
            self.counters.copied_pages += slots as u64;
            self.counters.filled_pages += (programmed * per_page - slots) as u64;
            self.repoint(run, part.start..part.start + slots, place);
            let next = if slots < part.len() {
                let at = self.superblocks.at(frontier.superblock, frontier.next + programmed as u32);
                self.abandon(frontier.superblock, at);
                Frontier::CLOSED
            } else {
                self.advance(frontier, programmed as u32)
            };
            self.set_frontier(region, next);
            done = part.start + slots;
        }
        Ok(end)
    }

    /// The region that receives copies meant for `region`: another open one if this one is closed
    /// and only the last free superblock is left. Progress is worth more than separation.
    fn region_with_room(&self, region: u8) -> u8 {
        if !Self::is_closed(&self.frontier(region)) || self.free.len() > 1 {
            return region;
        }
        let mut open = (0..).zip(&self.streams.frontiers).filter(|(_, frontier)| !Self::is_closed(frontier));
        open.next().map_or(region, |(open, _)| open)
    }

    /// Programs a part of the gathered slots from a page of a superblock on; returns the completion
    /// time, and the number of pages programmed: fewer if a block failed.
    fn program_part(
        &mut self,
        context: &Context,
        run: &mut CleaningRun,
        part: Range<usize>,
        place: (u32, u32),
    ) -> LayerResult<(Nanos, usize)> {
        let per_page = self.superblocks.slots_per_page() as usize;
        let tags = TAG_BYTES * per_page;
        let fetched = self.list_moves(run, part, place);
        let pages = run.moves.len() / per_page;
        let mut end = context.issued;
        let mut placed = 0;
        if let (Some(relocation), true) = (self.flash.relocation(), fetched > 0) {
            let moves = run.moves.get(..fetched * per_page).unwrap_or(&[]);
            let oob = run.oob.get(..fetched * tags).unwrap_or(&[]);
            let done = relocation.place(context, moves, per_page as u32, oob);
            (end, placed) = (end.max(done.done.completed), done.pages);
            if let Some(error) = done.failed {
                self.note_failure(error)?;
                return Ok((end, placed));
            }
        }
        while placed < pages {
            match self.program_singly(context, run, placed)? {
                Ok(ended) => end = end.max(ended),
                Err(error) => {
                    end = end.max(error.completed);
                    self.note_failure(error)?;
                    break;
                }
            }
            placed += 1;
        }
        Ok((end, placed))
    }

    /// Lists the moves of a part with the new tags; returns the number of leading pages that
    /// consist of fetched slots.
    #[inline]
    fn list_moves(&mut self, run: &mut CleaningRun, part: Range<usize>, (superblock, next): (u32, u32)) -> usize {
        let (shift, per_page) = (self.superblocks.slot_shift(), self.superblocks.slots_per_page() as usize);
        run.moves.clear();
        run.oob.clear();
        let fetched = run.fetched();
        // Without a journal, nothing reads the cleaning's number.
        let role = if self.journal.is_some() { role::of_copy(self.counters.cleanings) } else { role::COPY };
        if shift == 0 {
            return self.list_whole_moves(run, part, (superblock, next), role);
        }
        let (Some(pages), Some(places)) = (run.pages.get(part.clone()), run.places.get(part)) else { return 0 };
        let mut all_fetched = 0;
        for ((pages, places), target) in pages.chunks(per_page).zip(places.chunks(per_page)).zip(next..) {
            let to = self.superblocks.at(superblock, target);
            let mut is_fetched = true;
            for (&page, &place) in pages.iter().zip(places) {
                let index = (place >> shift) as usize;
                let Some(&from) = run.from.get(index) else { continue };
                is_fetched &= index < fetched;
                run.moves.push(Move { from, part: place & (per_page as u32 - 1), to });
                run.oob.extend_from_slice(&self.tag.image(u64::from(page) << 8 | role, self.sequence));
                self.sequence += 1;
            }
            // A page that is not full is filled with its last part, tagged as empty.
            for _ in pages.len()..per_page {
                if let Some(&last) = run.moves.last() {
                    run.moves.push(last);
                }
                run.oob.extend_from_slice(&self.tag.image(u64::from(self.nothing()) << 8 | role, self.sequence));
                self.sequence += 1;
            }
            if is_fetched && all_fetched * per_page + per_page == run.moves.len() {
                all_fetched += 1;
            }
        }
        all_fetched
    }

    /// Lists the moves if a chip page is one logical page.
    #[inline]
    fn list_whole_moves(
        &mut self,
        run: &mut CleaningRun,
        part: Range<usize>,
        (superblock, next): (u32, u32),
        role: u64,
    ) -> usize {
        let fetched = run.fetched();
        let CleaningRun { pages, places, from, moves, oob, .. } = run;
        let (Some(pages), Some(places)) = (pages.get(part.clone()), places.get(part)) else { return 0 };
        moves.extend(places.iter().zip(next..).map(|(place, target)| Move {
            from: from.get(*place as usize).copied().unwrap_or(NO_PAGE),
            part: 0,
            to: self.superblocks.at(superblock, target),
        }));
        oob.resize(pages.len() * TAG_BYTES, 0);
        let (images, _) = oob.as_chunks_mut::<TAG_BYTES>();
        for ((image, page), sequence) in images.iter_mut().zip(pages).zip(self.sequence..) {
            *image = self.tag.image(u64::from(*page) << 8 | role, sequence);
        }
        self.sequence += pages.len() as u64;
        places.iter().take_while(|place| (**place as usize) < fetched).count()
    }

    /// Programs one page of a part; fetched parts that could not be placed are read again.
    fn program_singly(
        &mut self,
        context: &Context,
        run: &CleaningRun,
        index: usize,
    ) -> LayerResult<nandkit_flash::Result<Nanos>> {
        let per_page = self.superblocks.slots_per_page() as usize;
        let (size, tags) = (self.block.sector_size, TAG_BYTES * per_page);
        let Some(moves) = run.moves.get(index * per_page..(index + 1) * per_page) else {
            return Ok(Ok(context.issued));
        };
        let Some(to) = moves.first().map(|first| first.to) else { return Ok(Ok(context.issued)) };
        let oob = run.oob.get(index * tags..(index + 1) * tags).unwrap_or(&[]);
        let mut context = *context;
        let issued = context.issued;
        let mut again = vec![Content::new(); per_page];
        for (one, content) in moves.iter().zip(&mut again) {
            if self.read_before(run, one).is_none() {
                let into = ReadInto::Content { content, length: size };
                let read = PageRead { column: one.part * size, data: into, oob: &mut [] };
                match self.flash.read(&Context { issued, ..context }, one.from, read) {
                    Ok(done) => context.issued = context.issued.max(done.completed),
                    Err(error) => return Err(self.halt(error)),
                }
            }
        }
        let parts: Vec<Payload<'_>> = moves
            .iter()
            .zip(&again)
            .map(|(one, content)| self.read_before(run, one).unwrap_or_else(|| content.payload()))
            .collect();
        let mut buffer = Assembly::new();
        let data = match parts.as_slice() {
            [whole] => *whole,
            parts => self.joined(parts, &mut buffer),
        };
        Ok(self.flash.program(&context, to, PageProgram::new(data, oob)).map(|done| done.completed))
    }

    /// The content of a part that was read page by page.
    fn read_before<'a>(&self, run: &'a CleaningRun, one: &Move) -> Option<Payload<'a>> {
        let size = self.block.sector_size as usize;
        let index = run.from.iter().position(|from| *from == one.from)?;
        let content = run.contents.get(index.checked_sub(run.fetched())?)?;
        content.payload().part(one.part as usize * size, size)
    }

    /// Makes the map point at the copies of a part of one victim's slots.
    #[inline]
    fn repoint(&mut self, run: &CleaningRun, part: Range<usize>, (superblock, next): (u32, u32)) {
        let (Some(pages), Some(slots)) = (run.pages.get(part.clone()), run.slots.get(part)) else { return };
        let first = self.superblocks.slot(superblock, next);
        if !self.aliases.is_empty() {
            slots.iter().zip(first..).for_each(|(old, new)| self.repoint_sharers(*old, new));
        }
        let Self { map, valid, changed, .. } = self;
        let (map, mut moved): (&mut [u32], u32) = (map, 0);
        for (index, ((&page, &old), new)) in pages.iter().zip(slots).zip(first..).enumerate() {
            if let Some(later) = pages.get(index + AHEAD) {
                prefetch(map, *later as usize);
            }
            valid.clear(old);
            changed.note(page);
            // A page that the map does not have at this slot is one that nothing could read.
            if let Some(entry) = map.get_mut(page as usize).filter(|entry| **entry == old) {
                *entry = new;
                valid.set(new);
                moved += 1;
            }
        }
        // Once for all slots: the victim is no candidate, and nothing uses its count in between.
        self.index.add_many(superblock, moved);
        if let Some(old) = slots.first() {
            self.index.subtract_many(self.superblocks.superblock(*old), slots.len() as u32);
        }
    }

    /// Makes the sharers of a slot, except the first one, which is in the copy's tag, point at the
    /// copy as well.
    #[cold]
    #[inline(never)]
    fn repoint_sharers(&mut self, old: u32, new: u32) {
        let Some(sharers) = self.aliases.take(old) else { return };
        let mut pages = sharers.pages();
        let owner = pages.next();
        for page in pages {
            self.aliases.add(new, owner, page);
            if let Some(entry) = self.map.get_mut(page as usize) {
                *entry = new;
            }
            self.changed.note(page);
            self.note(Change::Point { page, slot: new });
        }
    }
}
