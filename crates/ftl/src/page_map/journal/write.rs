//! Writing the journal: groups of lines, and the switch to the other half.

use nandkit_flash::{Flash, FlashError, PageProgram};
use nandkit_units::{BlockIndex, Cause, Context, Nanos, Payload, Ticket};

use super::layout::{Change, HEADER_BYTES, Kind, Line, PagePlace, Snapshot, page};
use super::{Journal, good_of};
use crate::failure::{Failure, Halt, LayerResult, is_block_failure};
use crate::page_map::PageMapFtl;

impl<F: Flash> PageMapFtl<F> {
    /// Records a change that no tag records, if there is a journal.
    pub(in crate::page_map) fn note(&mut self, change: Change) {
        if let Some(journal) = &mut self.journal {
            journal.add(Line { stamp: self.sequence, change });
            self.sequence += 1;
        }
    }

    /// Writes the pending lines to flash, if there are any.
    pub(in crate::page_map) fn write_waiting(&mut self, context: &Context) -> LayerResult<()> {
        let waits = self.journal.as_ref().is_some_and(|journal| !journal.waiting().is_empty());
        if waits { self.write_lines(context) } else { Ok(()) }
    }

    /// Writes the pending lines to flash, and takes over a journal found at start. Afterwards
    /// `last_change` is the completion time.
    pub(in crate::page_map) fn write_lines(&mut self, context: &Context) -> LayerResult<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        if journal.is_stale {
            return self.move_journal(context);
        }
        let waiting = journal.waiting();
        if waiting.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        waiting.iter().for_each(|line| line.put(&mut bytes));
        let pages = bytes.len().div_ceil(self.flash.geometry().page_size as usize - HEADER_BYTES) as u32;
        let good: Vec<BlockIndex> = good_of(&self.flash, &journal.blocks, journal.half).collect();
        let room = (good.len() as u32 * self.flash.geometry().pages_per_block).saturating_sub(journal.next_page);
        if pages > room {
            return self.move_journal(context);
        }
        let place = (journal.generation, journal.group, journal.next_page);
        let context = Context { device_cause: Some(Cause::Mapping), ..*context };
        match self.program_group(&context, &good, place, Kind::Lines, &bytes)? {
            Ok(next_page) => {
                if let Some(journal) = &mut self.journal {
                    (journal.next_page, journal.group) = (next_page, journal.group + 1);
                    journal.written = journal.lines.len();
                }
                self.settle_lines();
                Ok(())
            }
            Err((block, _)) => {
                // The current half stays valid until the other one counts.
                self.move_journal(&context)?;
                self.give_up_block(&context, block)
            }
        }
    }

    /// Writes a snapshot and its seal to the other half, which then becomes valid, with the same
    /// base and all lines above it.
    pub(in crate::page_map) fn move_journal(&mut self, context: &Context) -> LayerResult<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.leave_out_superseded();
        let (half, generation) = (1 - journal.half, journal.generation + 1);
        let context = Context { device_cause: Some(Cause::Checkpoint), ticket: Ticket::NONE, ..*context };
        let snapshot = self.snapshot().put();
        loop {
            let blocks = self.journal.as_ref().map(|journal| journal.blocks.clone()).unwrap_or_default();
            let good: Vec<BlockIndex> = good_of(&self.flash, &blocks, half).collect();
            match self.write_half(&context, &good, generation, &snapshot)? {
                Ok(next_page) => {
                    if let Some(journal) = &mut self.journal {
                        (journal.half, journal.generation) = (half, generation);
                        (journal.next_page, journal.group) = (next_page, 2);
                        journal.written = journal.lines.len();
                        journal.is_stale = false;
                    }
                    self.counters.snapshots += 1;
                    self.settle_lines();
                    return Ok(());
                }
                // Nothing in this half counts.
                Err((block, _)) => self.give_up_block(&context, block)?,
            }
        }
    }

    /// Erases both halves.
    pub(in crate::page_map) fn erase_journal(&mut self, context: &Context) -> LayerResult<()> {
        let blocks = self.journal.as_ref().map(|journal| journal.blocks.clone()).unwrap_or_default();
        for block in blocks.into_iter().filter(|block| !self.flash.is_bad(*block)).collect::<Vec<_>>() {
            match self.flash.erase(context, block) {
                Ok(done) => self.last_change = self.last_change.max(done.completed),
                Err(error) if is_block_failure(error.kind) => self.give_up_block(context, block)?,
                Err(error) => return Err(self.halt(error)),
            }
        }
        Ok(())
    }

    /// Erases a half, and writes the snapshot and the seal.
    fn write_half(
        &mut self,
        context: &Context,
        good: &[BlockIndex],
        generation: u64,
        snapshot: &[u8],
    ) -> LayerResult<Written> {
        let geometry = *self.flash.geometry();
        let pages = snapshot.len().div_ceil(geometry.page_size as usize - HEADER_BYTES) + 2;
        if pages > good.len() * geometry.pages_per_block as usize {
            let lines = self.journal.as_ref().map_or(0, |journal| journal.lines.len());
            let planned = self.journal.as_ref().map_or(0, |journal| journal.half_blocks);
            let room = good.len() * geometry.pages_per_block as usize;
            let reason = match good.len() < planned {
                true => format!(
                    "{} of the {planned} good blocks that it needs are left: too many have gone bad",
                    good.len()
                ),
                false => format!(
                    "it has room for {room}: {lines} changes wait in it for a checkpoint, more than were planned for"
                ),
            };
            let why = format!("the journal's snapshot takes {pages} pages, and {reason}");
            self.halted = Some(Halt { kind: nandkit_flash::ErrorKind::BadBlock, why });
            return Err(Failure::Full);
        }
        let begin = context.issued.max(self.last_change);
        for &block in good {
            match self.flash.erase(&Context { issued: begin, ..*context }, block) {
                Ok(done) => self.last_change = self.last_change.max(done.completed),
                Err(error) => return self.block_failed(block, error),
            }
        }
        match self.program_group(context, good, (generation, 0, 0), Kind::Snapshot, snapshot)? {
            Ok(next) => self.program_group(context, good, (generation, 1, next), Kind::Seal, &[]),
            Err(failed) => Ok(Err(failed)),
        }
    }

    /// Programs the pages of a group, each after all before it have completed; returns the next
    /// page number.
    fn program_group(
        &mut self,
        context: &Context,
        good: &[BlockIndex],
        (generation, group, mut next_page): (u64, u32, u32),
        kind: Kind,
        bytes: &[u8],
    ) -> LayerResult<Written> {
        let geometry = *self.flash.geometry();
        let size = geometry.page_size as usize;
        let room = size - HEADER_BYTES;
        let count = bytes.len().div_ceil(room).max(1) as u32;
        for (index, part) in (0..count).zip(bytes.chunks(room).chain(std::iter::repeat(&[][..]))) {
            let image = page(PagePlace { kind, generation, group, index, count }, part, size);
            let block = good.get((next_page / geometry.pages_per_block) as usize).copied().ok_or(Failure::Full)?;
            let at = block.page(next_page % geometry.pages_per_block);
            let context = Context { issued: context.issued.max(self.last_change), ..*context };
            match self.flash.program(&context, at, PageProgram::new(Payload::Bytes(&image), &[])) {
                Ok(done) => self.last_change = self.last_change.max(done.completed),
                Err(error) => return self.block_failed(block, error),
            }
            self.counters.journal_pages += 1;
            next_page += 1;
        }
        Ok(Ok(next_page))
    }

    fn block_failed(&mut self, block: BlockIndex, error: FlashError) -> LayerResult<Written> {
        if is_block_failure(error.kind) {
            self.last_change = self.last_change.max(error.completed);
            return Ok(Err((block, error.completed)));
        }
        Err(self.halt(error))
    }

    fn give_up_block(&mut self, context: &Context, block: BlockIndex) -> LayerResult<()> {
        let context = Context { issued: context.issued.max(self.last_change), ..*context };
        let done = self.flash.mark_bad(&context, block).map_err(|error| self.halt(error))?;
        self.last_change = self.last_change.max(done.completed);
        self.counters.retired_blocks += 1;
        Ok(())
    }

    /// The current state above the journal's base.
    fn snapshot(&self) -> Snapshot {
        let (user, stripe) = (self.block.sectors as usize, self.superblocks.stripe());
        let journal = self.journal.as_ref();
        Snapshot {
            base: journal.map_or(0, |journal| journal.base),
            next: self.sequence,
            rows: journal.map_or(0, |journal| journal.rows),
            sector_size: self.block.sector_size,
            stripe,
            user: user as u32,
            aliases_max: journal.map_or(0, |journal| journal.aliases_max),
            fills: journal.map(|journal| journal.fills.clone()).unwrap_or_default(),
            members: self.superblocks.all_members().iter().map(|block| block.0).collect(),
            erases: self.erases.clone(),
            directory: self.map.get(user..).unwrap_or(&[]).to_vec(),
            aliases: self.aliases.pages(),
            lines: journal.map(|journal| journal.lines.clone()).unwrap_or_default(),
        }
    }
}

/// The next page of the half; or the block that failed, and the time of the failure.
type Written = Result<u32, (BlockIndex, Nanos)>;

impl Journal {
    /// Drops the lines up to the new base, which are in the map pages.
    pub(in crate::page_map) fn rebase(&mut self, base: u64, fills: Vec<[u32; 2]>) {
        self.lines.retain(|line| line.stamp > base);
        self.written = 0;
        (self.base, self.fills) = (base, fills);
    }
}
