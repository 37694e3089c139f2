//! Checkpoints: changed map pages go to flash, and a snapshot names them, so that the next start
//! reads only what was written since.

use nandkit_flash::Flash;
use nandkit_units::{Cause, Context, Payload, Priority, Ticket};

use super::write::Parts;
use super::{LOST, NOWHERE, PageMapFtl, role};
use crate::failure::LayerResult;

impl<F: Flash> PageMapFtl<F> {
    /// Makes a checkpoint if one is due. Called at the beginning of a host command and between two
    /// victims, never while a victim is being cleaned.
    pub(super) fn checkpoint_if_due(&mut self, context: &Context) -> LayerResult<()> {
        let programmed = self.counters.programmed_pages + self.counters.copied_pages;
        let Some(journal) = &self.journal else { return Ok(()) };
        let is_due = programmed - journal.programmed_before >= journal.checkpoint_every
            || journal.lines.len() >= journal.lines_due;
        if is_due && !journal.is_checkpointing { self.checkpoint(context) } else { Ok(()) }
    }

    /// Writes the changed map pages and a snapshot.
    #[inline(never)]
    pub(super) fn checkpoint(&mut self, context: &Context) -> LayerResult<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.is_checkpointing = true;
        let begun = context.issued.max(self.last_change);
        let changed = self.changed.take();
        // Taken together, and before the first map page: later changes are replayed.
        let base = self.sequence;
        self.sequence += 1;
        let fills = self.fills();
        let written = self.write_maps(context, &changed);
        let programmed = self.counters.programmed_pages + self.counters.copied_pages;
        if let Some(journal) = &mut self.journal {
            journal.is_checkpointing = false;
            if written.is_ok() {
                journal.rebase(base, fills);
                journal.programmed_before = programmed;
            }
        }
        if let Err(failure) = written {
            changed.into_iter().for_each(|map_page| self.changed.note_map(map_page));
            return Err(failure);
        }
        self.counters.checkpoints += 1;
        let moved = self.move_journal(context);
        if context.priority != Priority::Background {
            self.stalls.note_checkpoint(self.last_change.since(begun));
        }
        moved
    }

    /// The open superblocks, and the number of pages written in each.
    pub(super) fn fills(&self) -> Vec<[u32; 2]> {
        let open = self.streams.frontiers.iter().filter(|frontier| !Self::is_closed(frontier));
        open.map(|frontier| [frontier.superblock, frontier.next]).collect()
    }

    fn write_maps(&mut self, context: &Context, changed: &[u32]) -> LayerResult<()> {
        let context = Context { device_cause: Some(Cause::Mapping), ticket: Ticket::NONE, ..*context };
        for some in changed.chunks(self.superblocks.slots_per_page() as usize) {
            // By then, everything that the map pages refer to has completed.
            let context = Context { issued: context.issued.max(self.last_change), ..context };
            self.write_map_pages(&context, some)?;
        }
        Ok(())
    }

    /// Writes the current content of as many map pages as one chip page holds.
    pub(super) fn write_map_pages(&mut self, context: &Context, some: &[u32]) -> LayerResult<()> {
        let (user, entries) = (self.block.sectors as u32, self.block.sector_size as usize / 4);
        let images: Vec<Vec<u8>> = some.iter().map(|map_page| self.map_image(*map_page, entries)).collect();
        let parts: Vec<(u32, Payload<'_>)> =
            some.iter().zip(&images).map(|(map_page, image)| (user + map_page, Payload::Bytes(image))).collect();
        let parts: &Parts<'_> = &parts;
        self.write_page(context, self.streams.map_region(), parts, role::MAP).map(|_| ())
    }

    /// The bytes of a map page: its entries as little-endian 32-bit numbers. Lost pages get a
    /// special value.
    pub(super) fn map_image(&self, map_page: u32, entries: usize) -> Vec<u8> {
        let first = map_page as usize * entries;
        let last = (first + entries).min(self.block.sectors as usize);
        let lost = &self.failing.lost;
        let entry = |(slot, page): (&u32, u32)| match *slot {
            NOWHERE if lost.contains(&page) => LOST,
            slot => slot,
        };
        let held = self.map.get(first..last).unwrap_or(&[]).iter().zip(first as u32..).map(entry);
        let all = held.chain(std::iter::repeat(NOWHERE)).take(entries);
        all.flat_map(u32::to_le_bytes).collect()
    }
}
