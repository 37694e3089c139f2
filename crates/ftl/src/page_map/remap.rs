//! Remap (P3): makes pages point at the content of others. Nothing is read or written except a
//! journal line for each.

use std::collections::BTreeSet;

use nandkit_block::{BlockError, ErrorKind, Operation, Remap, RemapLimits, Result};
use nandkit_flash::Flash;
use nandkit_units::{Context, Done, Lba, Nanos};

use super::journal::layout::Change;
use super::{NOWHERE, PageMapFtl};
use crate::failure::{Failure, LayerResult};

impl<F: Flash> Remap for PageMapFtl<F> {
    fn limits(&self) -> RemapLimits {
        RemapLimits { unit: self.block.sector_size, pairs_max: self.pairs_max(false) as u32 }
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.remap_pairs(context, pairs, false)
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.remap_pairs(context, pairs, true)
    }
}

impl<F: Flash> PageMapFtl<F> {
    fn remap_pairs(&mut self, context: &Context, pairs: &[(Lba, Lba)], moves: bool) -> Result<Done> {
        let first = pairs.first().map_or(Lba(0), |(source, _)| *source);
        let pairs = self.checked_pairs(pairs, moves)?;
        self.remap_checked(context, &pairs, moves).map_err(|failure| failure.at(Operation::Remap, first))
    }

    /// Most pairs of one command: limited by what one group of lines holds, and by the size of the
    /// alias log.
    fn pairs_max(&self, moves: bool) -> usize {
        let Some(journal) = &self.journal else { return 0 };
        if moves { journal.lines_due / 2 } else { journal.lines_due.min(journal.aliases_max as usize) }
    }

    /// Converts the pairs to page numbers, after checking them.
    fn checked_pairs(&self, pairs: &[(Lba, Lba)], moves: bool) -> Result<Vec<(u32, u32)>> {
        let refuse = |kind, at, detail: String| Err(BlockError::new(kind, Operation::Remap, at, detail));
        let most = self.pairs_max(moves);
        if pairs.len() > most {
            let detail = format!("{} pairs; expected at most {most} in one command", pairs.len());
            return refuse(ErrorKind::OutOfRange, pairs.first().map_or(Lba(0), |(source, _)| *source), detail);
        }
        let mut targets = BTreeSet::new();
        let sources: BTreeSet<u64> = pairs.iter().map(|(source, _)| source.0).collect();
        for (source, target) in pairs {
            for at in [source, target] {
                nandkit_block::check::sectors_of(&self.block, Operation::Remap, *at, 1)?;
            }
            let on_flash = self.map.get(source.0 as usize).is_some_and(|slot| *slot != NOWHERE);
            if !on_flash && !self.buffer.holds(source.0 as u32) {
                return refuse(ErrorKind::Unmapped, *source, "the source holds nothing".into());
            }
            if !targets.insert(target.0) {
                return refuse(ErrorKind::Overlap, *target, "the address is a target twice".into());
            }
            if sources.contains(&target.0) {
                return refuse(ErrorKind::Overlap, *target, "the address is both a source and a target".into());
            }
        }
        if moves && sources.len() < pairs.len() {
            let at = pairs.first().map_or(Lba(0), |(source, _)| *source);
            return refuse(ErrorKind::Overlap, at, "an address is moved twice".into());
        }
        Ok(pairs.iter().map(|(source, target)| (source.0 as u32, target.0 as u32)).collect())
    }

    fn remap_checked(&mut self, context: &Context, pairs: &[(u32, u32)], moves: bool) -> LayerResult<Done> {
        self.begin_change(context)?;
        self.checkpoint_if_due(context)?;
        if pairs.iter().any(|(source, _)| self.buffer.holds(*source)) {
            self.drain(context, 0)?;
        }
        let context = &self.look_up_pairs(context, pairs)?;
        let begun = context.issued.max(self.last_change);
        let most = self.journal.as_ref().map_or(0, |journal| journal.aliases_max as usize);
        self.fold_aliases(context, (pairs.len(), most))?;
        let folded = self.last_change.max(begun);
        if self.aliases.len() + pairs.len() > most {
            return Err(Failure::TooManyAliases(most));
        }
        // Work done since the check may have found a source unreadable.
        let is_there = |source: u32| self.map.get(source as usize).is_some_and(|slot| *slot != NOWHERE);
        if !pairs.iter().all(|(source, _)| is_there(*source)) {
            return Err(Failure::SourceLost);
        }
        for &(source, target) in pairs {
            let Some(&slot) = self.map.get(source as usize) else { continue };
            self.buffer.remove(target);
            self.forget_page(target);
            self.share_slot(source, target, slot);
            self.note(Change::Point { page: target, slot });
            if moves {
                self.forget_page(source);
                self.note(Change::Trim { first: source, count: 1 });
            }
        }
        self.write_lines(context)?;
        let end = self.last_change.max(folded);
        let counters = &mut self.counters;
        counters.remaps += 1;
        counters.remapped_pages += pairs.len() as u64;
        counters.remap_time = Nanos(counters.remap_time.0 + end.since(begun).0);
        counters.remap_fold_time = Nanos(counters.remap_fold_time.0 + folded.since(begun).0);
        self.note_changed(pairs.iter().flat_map(|(source, target)| [*source, *target]), self.last_change);
        let mut done = Done::immediately(context);
        done.completed = done.completed.max(self.last_change);
        self.write_owed(context)?;
        Ok(done)
    }

    /// Makes a page point at the slot of another one.
    fn share_slot(&mut self, source: u32, target: u32, slot: u32) {
        let is_alias = self.aliases.get(slot).is_some_and(|sharers| sharers.others.contains(&source));
        let owner = if is_alias { None } else { Some(source) };
        self.aliases.add(slot, owner, target);
        if let Some(entry) = self.map.get_mut(target as usize) {
            *entry = slot;
        }
        self.changed.note(target);
        self.streams.share(source, target);
    }

    /// Cleans the superblocks with the most aliases until `more` fit, or it no longer helps: a slot
    /// whose only reference is an alias gets a tag of its own.
    fn fold_aliases(&mut self, context: &Context, (more, most): (usize, usize)) -> LayerResult<()> {
        while self.aliases.len() + more > most {
            let before = self.aliases.len();
            // Only slots with a single reference reduce the number of aliases.
            let mut foldable = std::collections::BTreeMap::new();
            for (slot, sharers) in self.aliases.iter().filter(|(_, sharers)| sharers.owner.is_none()) {
                let _ = sharers;
                *foldable.entry(self.superblocks.superblock(slot)).or_insert(0u32) += 1;
            }
            let candidates = foldable.into_iter().filter(|(superblock, _)| self.index.is_candidate(*superblock));
            let Some((victim, _)) =
                candidates.max_by_key(|(superblock, count)| (*count, std::cmp::Reverse(*superblock)))
            else {
                return Ok(());
            };
            self.make_room(context)?;
            if self.index.is_candidate(victim) {
                self.clean_superblock(context, victim)?;
            }
            if self.aliases.len() >= before {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nandkit_block::BlockDevice;
    use nandkit_nand_sim::{ChipSpec, ContentChip};
    use nandkit_units::Payload;

    use super::*;
    use crate::page_map::{PageMapOptions, Spare};

    /// Superblocks are cleaned between the check of the sources and the writing of the lines. A
    /// page that becomes unreadable then has no slot, and a line naming it would make the device
    /// unusable at the next start.
    #[test]
    fn a_source_that_was_lost_while_room_was_made_is_refused_and_the_device_is_found_again() {
        let mut spec = ChipSpec::default();
        let geometry = &mut spec.geometry;
        (geometry.page_size, geometry.write_unit, geometry.oob_size) = (512, 512, 16);
        (geometry.blocks, geometry.pages_per_block) = (64, 8);
        let options = PageMapOptions { spare: Spare::Ratio(1.0), ..PageMapOptions::default() };
        let mut device = PageMapFtl::format(ContentChip::new(&spec, 1).unwrap(), options).unwrap();
        let context = Context::default();
        device.write(&context, Lba(0), Payload::Bytes(&[1; 512])).unwrap();
        let lost = device.remap_checked(&context, &[(0, 2), (1, 3)], false);
        assert!(matches!(lost, Err(Failure::SourceLost)), "{lost:?}");
        assert!(device.remap_checked(&context, &[(0, 2)], false).is_ok());
        device.flush(&context).unwrap();
        let device = PageMapFtl::attach(device.into_flash(), options).unwrap();
        let mut found = [0; 512];
        device.read(&context, Lba(2), nandkit_units::ReadInto::Bytes(&mut found)).unwrap();
        assert_eq!(found, [1; 512]);
        device.check().unwrap();
    }
}
