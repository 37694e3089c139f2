//! Cleaning: the valid pages of a victim go to the copies' frontier.

use nandkit_cleaning::victim::Rule;
use nandkit_codec::page_tag::{TAG_BYTES, TagRead};
use nandkit_flash::{ErrorKind, Flash, Move, PageProgram, PageRead, PageRun};
use nandkit_units::{Cause, Content, Context, Nanos, PageAddress, ReadInto, prefetch};

use super::frontier::Frontier;
use super::{NOWHERE, PageMapFtl, role};
use crate::failure::{Failure, Outcome};

/// What cleaning one superblock needs, kept for its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct CleaningRun {
    slots: Vec<u32>,
    from: Vec<PageAddress>,
    /// The tags of the pages.
    tags: Vec<u8>,
    /// Their logical pages.
    pages: Vec<u32>,
    /// Their data, from the first page on that the flash could not relocate by itself.
    contents: Vec<Content>,
    moves: Vec<Move>,
    /// The tags that they get.
    oob: Vec<u8>,
}

/// How many pages ahead a line of the map is asked for.
const AHEAD: usize = 16;

impl<F: Flash> PageMapFtl<F> {
    /// The next victim. A rule that does not look at counts may take superblocks without a page to win, one after the other; after as many as there are the emptiest one is taken. Errors: `Full`
    /// where no superblock has a page to win.
    fn victim(&mut self) -> Outcome<u32> {
        let Self { index, random, .. } = self;
        let pages = self.superblocks.pages();
        let chosen = index.choose(&mut |n| random.below(n.into()) as u32).ok_or(Failure::Full)?;
        if index.valid(chosen) < pages {
            self.fruitless = 0;
            return Ok(chosen);
        }
        self.fruitless += 1;
        if self.fruitless <= self.superblocks.count() && self.options.victim != Rule::Greedy {
            return Ok(chosen);
        }
        self.fruitless = 0;
        self.index.emptiest().filter(|emptiest| self.index.valid(*emptiest) < pages).ok_or(Failure::Full)
    }

    /// Cleans one superblock: one with a block that fails, or the next victim. Errors: `Full` where no superblock has a page to win.
    pub(super) fn clean(&mut self, context: &Context) -> Outcome<()> {
        let (victim, failing) = match self.failing.next() {
            Some((superblock, block)) => (superblock, Some(block)),
            None => (self.victim()?, None),
        };
        self.index.leave(victim);
        let context = Context { device_cause: Some(Cause::Cleaning), ..*context };
        let mut run = std::mem::take(&mut self.run);
        let moved = self.gather(&context, victim, &mut run).and_then(|read| self.spread(&context, read, &mut run));
        self.run = run;
        let emptied = match moved {
            Ok(emptied) => emptied,
            Err(failure) => {
                // Some of its pages are still where they were.
                match failing {
                    Some(block) => self.abandon(victim, block.page(0)),
                    None => self.index.enter(victim),
                }
                return Err(failure);
            }
        };
        let at = victim as usize;
        if let Some(into) = self.emptied.get_mut(at) {
            *into = emptied;
        }
        self.counters.cleanings += 1;
        let is_whole = failing.map_or(Ok(true), |block| self.repair(&context, victim, block))?;
        if is_whole {
            self.free.push(victim, self.erases.get(at).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Reads the valid pages of a victim; returns when the last of them was read.
    fn gather(&mut self, context: &Context, victim: u32, run: &mut CleaningRun) -> Outcome<Nanos> {
        let (first, count) = (self.superblocks.slot(victim, 0), self.superblocks.pages());
        run.slots.clear();
        run.from.clear();
        self.valid.for_each(first, count, |slot| {
            run.slots.push(slot);
            run.from.push(self.superblocks.at(victim, slot - first));
        });
        run.tags.resize(run.from.len() * TAG_BYTES, 0);
        let fetched = match self.flash.relocation() {
            Some(relocation) => relocation.fetch(context, &run.from, &mut run.tags),
            None => PageRun::begin(context),
        };
        let mut end = fetched.done.completed;
        if let Some(error) = fetched.failed {
            return Err(self.halt(error));
        }
        let page_size = self.block.sector_size;
        let rest = run.from.len() - fetched.pages;
        run.contents.resize_with(rest, Content::new);
        let tags = run.tags.chunks_mut(TAG_BYTES).skip(fetched.pages);
        let singly = run.from.iter().enumerate().skip(fetched.pages).zip(&mut run.contents).zip(tags);
        let mut lost = Vec::new();
        for (((index, at), content), oob) in singly {
            let into = ReadInto::Content { content, length: page_size };
            match self.flash.read(context, *at, PageRead { column: 0, data: into, oob }) {
                Ok(done) => end = end.max(done.completed),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    end = end.max(error.completed);
                    lost.push(index);
                }
                Err(error) => return Err(self.halt(error)),
            }
        }
        lost.iter().rev().for_each(|index| self.lose(run, *index, fetched.pages));
        self.name_pages(run)?;
        Ok(end)
    }

    /// Takes a page that cannot be read out of a run: what it held is lost. Its tag cannot be trusted, so that the map says whose it was. Cost: a pass over the map.
    #[cold]
    fn lose(&mut self, run: &mut CleaningRun, index: usize, fetched: usize) {
        let slot = run.slots.remove(index);
        run.from.remove(index);
        run.tags.drain(index * TAG_BYTES..(index + 1) * TAG_BYTES);
        run.contents.remove(index - fetched);
        self.valid.clear(slot);
        self.index.subtract(self.superblocks.superblock(slot));
        if let Some(page) = self.map.iter().position(|entry| *entry == slot)
            && let Some(entry) = self.map.get_mut(page)
        {
            *entry = NOWHERE;
            self.failing.lost.insert(page as u32);
            self.counters.lost_pages += 1;
        }
    }

    /// Finds out which logical pages were read, and asks for their lines of the map.
    #[inline]
    fn name_pages(&self, run: &mut CleaningRun) -> Outcome<()> {
        run.pages.clear();
        for image in run.tags.as_chunks::<TAG_BYTES>().0 {
            let TagRead::Valid { payload, .. } = self.tag.decode(image) else { return Err(Failure::Unreadable) };
            let page = (payload >> 8) as u32;
            if run.pages.len() < AHEAD {
                prefetch(&self.map, page as usize);
            }
            run.pages.push(page);
        }
        Ok(())
    }

    /// Programs what was read, superblock by superblock of the frontier; returns when the last page was programmed.
    fn spread(&mut self, context: &Context, read: Nanos, run: &mut CleaningRun) -> Outcome<Nanos> {
        let context = Context { issued: read, ..*context };
        let (mut end, mut done) = (read, 0);
        while done < run.slots.len() {
            let mut frontier = self.copy_frontier();
            if Self::is_closed(&frontier) {
                frontier = self.open(&context)?;
            }
            let room = (self.superblocks.pages() - frontier.next) as usize;
            let part = done..run.slots.len().min(done + room);
            let place = (frontier.superblock, frontier.next);
            let (ended, programmed) = self.program_part(&context, run, part.clone(), place)?;
            end = end.max(ended);
            self.repoint(run, part.start..part.start + programmed, place);
            let next = if programmed < part.len() {
                let at = self.superblocks.at(frontier.superblock, frontier.next + programmed as u32);
                self.abandon(frontier.superblock, at);
                Frontier::CLOSED
            } else {
                self.advance(frontier, programmed as u32)
            };
            self.set_copy_frontier(next);
            done = part.start + programmed;
        }
        self.last_change = self.last_change.max(end);
        Ok(end)
    }

    /// Programs a part of what was read, from a page of a superblock on; returns when the last page was programmed, and how many were: fewer where a block failed.
    fn program_part(
        &mut self,
        context: &Context,
        run: &mut CleaningRun,
        part: std::ops::Range<usize>,
        (superblock, next): (u32, u32),
    ) -> Outcome<(Nanos, usize)> {
        run.moves.clear();
        run.oob.clear();
        let (Some(pages), Some(from)) = (run.pages.get(part.clone()), run.from.get(part.clone())) else {
            return Ok((context.issued, 0));
        };
        for ((&page, &from), target) in pages.iter().zip(from).zip(next..) {
            run.moves.push(Move { from, to: self.superblocks.at(superblock, target) });
            run.oob.extend_from_slice(&self.tag.image(u64::from(page) << 8 | role::COPY, self.sequence));
            self.sequence += 1;
        }
        let fetched = run.from.len() - run.contents.len();
        let relocated = fetched.saturating_sub(part.start).min(run.moves.len());
        let mut end = context.issued;
        let mut placed = 0;
        if let (Some(relocation), true) = (self.flash.relocation(), relocated > 0) {
            let moves = run.moves.get(..relocated).unwrap_or(&[]);
            let done = relocation.place(context, moves, run.oob.get(..relocated * TAG_BYTES).unwrap_or(&[]));
            (end, placed) = (end.max(done.done.completed), done.pages);
            if let Some(error) = done.failed {
                self.note_failure(error)?;
                self.counters.copied_pages += placed as u64;
                return Ok((end, placed));
            }
        }
        while placed < run.moves.len() {
            match self.program_singly(context, run, (part.start, placed))? {
                Ok(ended) => end = end.max(ended),
                Err(error) => {
                    end = end.max(error.completed);
                    self.note_failure(error)?;
                    break;
                }
            }
            placed += 1;
        }
        self.counters.copied_pages += placed as u64;
        Ok((end, placed))
    }

    /// Programs one page of a part; a page that was fetched and could not be placed is read once more.
    fn program_singly(
        &mut self,
        context: &Context,
        run: &mut CleaningRun,
        (start, index): (usize, usize),
    ) -> Outcome<nandkit_flash::Result<Nanos>> {
        let Some(&Move { from, to }) = run.moves.get(index) else { return Ok(Ok(context.issued)) };
        let oob = run.oob.get(index * TAG_BYTES..(index + 1) * TAG_BYTES).unwrap_or(&[]);
        let fetched = run.from.len() - run.contents.len();
        let mut context = *context;
        let mut fresh = Content::new();
        let content = match (start + index).checked_sub(fetched).and_then(|at| run.contents.get(at)) {
            Some(content) => content,
            None => {
                let into = ReadInto::Content { content: &mut fresh, length: self.block.sector_size };
                let read = PageRead { column: 0, data: into, oob: &mut [] };
                match self.flash.read(&context, from, read) {
                    Ok(done) => context.issued = done.completed,
                    Err(error) => return Err(self.halt(error)),
                }
                &fresh
            }
        };
        let programmed = self.flash.program(&context, to, PageProgram::new(content.payload(), oob));
        Ok(programmed.map(|done| done.completed))
    }

    /// The map points at the copies.
    #[inline]
    fn repoint(&mut self, run: &CleaningRun, part: std::ops::Range<usize>, (superblock, next): (u32, u32)) {
        let (Some(pages), Some(slots)) = (run.pages.get(part.clone()), run.slots.get(part)) else { return };
        let first = self.superblocks.slot(superblock, next);
        for (index, ((&page, &old), new)) in pages.iter().zip(slots).zip(first..).enumerate() {
            if let Some(later) = pages.get(index + AHEAD) {
                prefetch(&self.map, *later as usize);
            }
            self.valid.clear(old);
            // A page that the map does not know under this name is none that anybody could read.
            if let Some(entry) = self.map.get_mut(page as usize).filter(|entry| **entry == old) {
                *entry = new;
                self.valid.set(new);
                self.index.add(superblock);
            }
            self.index.subtract(self.superblocks.superblock(old));
        }
    }
}
