//! Failing blocks: their superblock is cleaned before all others, the block is marked bad, and the
//! superblock's other blocks are regrouped.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::{ErrorKind, Flash, FlashError};
use nandkit_units::{BlockIndex, Context, PageAddress};

use super::PageMapFtl;
use super::journal::blocks_by_die;
use super::journal::layout::Change;
use crate::failure::{Failure, Halt, LayerResult, is_block_failure};

/// Marks a position in a superblock that has no block.
pub(crate) const NO_BLOCK: BlockIndex = BlockIndex(u32::MAX);

/// The failures so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failing {
    /// Superblocks with a failed program, and the failed block: cleaned before all others.
    waiting: Vec<(u32, BlockIndex)>,
    /// Good blocks without a superblock, for each die.
    pub loose: BTreeMap<u32, Vec<BlockIndex>>,
    /// The number of superblocks that were dissolved.
    pub gone: u32,
    /// Logical pages whose content was lost before it could be moved.
    pub lost: BTreeSet<u32>,
}

impl Failing {
    /// Whether a superblock waits to be cleaned.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the next superblock that must be cleaned before all others.
    pub fn next(&mut self) -> Option<(u32, BlockIndex)> {
        self.waiting.pop()
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Records a flash failure. If a single block is at fault, returns `Ok` and the caller
    /// continues elsewhere; any other failure stops the layer.
    #[cold]
    pub(super) fn note_failure(&mut self, error: FlashError) -> LayerResult<()> {
        if is_block_failure(error.kind) {
            match error.kind {
                ErrorKind::EraseFailed => self.counters.erase_failures += 1,
                _ => self.counters.program_failures += 1,
            }
            return Ok(());
        }
        Err(self.halt(error))
    }

    /// Stops the layer.
    #[cold]
    pub(super) fn halt(&mut self, error: FlashError) -> Failure {
        let why = format!("an earlier operation failed half-way: {error}");
        self.halted = Some(Halt { kind: error.kind, why });
        error.into()
    }

    /// Gives up an open superblock with a failed program. Its content is moved before anything else
    /// is cleaned.
    pub(super) fn abandon(&mut self, superblock: u32, at: PageAddress) {
        self.close_superblock(superblock);
        self.failing.waiting.push((superblock, at.block));
    }

    /// Marks a block of an empty superblock bad once everything that emptied it has completed: a
    /// start reads no marked block, and the copies go to other dies.
    pub(super) fn mark_bad(&mut self, context: &Context, bad: BlockIndex) -> LayerResult<()> {
        let context = &Context { issued: context.issued.max(self.last_change), ..*context };
        let done = self.flash.mark_bad(context, bad).map_err(|error| self.halt(error))?;
        self.last_change = self.last_change.max(done.completed);
        self.counters.retired_blocks += 1;
        Ok(())
    }

    /// Replaces a failed block by a loose block of the same die; returns whether there was one.
    /// Without a replacement, the superblock is dissolved and its other blocks become loose.
    pub(super) fn replace(&mut self, superblock: u32, bad: BlockIndex) -> bool {
        let geometry = *self.flash.geometry();
        let die = geometry.die_of(bad);
        let members = self.superblocks.members(superblock).to_vec();
        if let Some(block) = self.failing.loose.get_mut(&die).and_then(Vec::pop) {
            let lane = members.iter().position(|member| *member == bad).unwrap_or(0) as u32;
            self.set_member(superblock, lane, block);
            return true;
        }
        for (lane, block) in (0..).zip(members) {
            self.set_member(superblock, lane, NO_BLOCK);
            if block != bad {
                self.failing.loose.entry(geometry.die_of(block)).or_default().push(block);
            }
        }
        self.failing.gone += 1;
        false
    }

    /// Puts a block into a superblock, and notes it in the journal: that line is written before the
    /// superblock is programmed.
    fn set_member(&mut self, superblock: u32, lane: u32, block: BlockIndex) {
        self.superblocks.set_member(superblock, lane, block);
        self.note(Change::Member { superblock, lane, block: block.0 });
    }

    /// Collects the loose blocks: good blocks that belong neither to the journal nor to a
    /// superblock.
    pub(super) fn find_loose_blocks(&mut self) {
        let geometry = *self.flash.geometry();
        let used: BTreeSet<BlockIndex> = self.superblocks.all_members().iter().copied().collect();
        let rows = self.journal.as_ref().map_or(0, |journal| journal.rows) as usize;
        for (die, blocks) in (0..).zip(blocks_by_die(&geometry)) {
            let loose =
                blocks.into_iter().skip(rows).filter(|block| !used.contains(block) && !self.flash.is_bad(*block));
            self.failing.loose.insert(die, loose.collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use nandkit_block::BlockDevice;
    use nandkit_nand_sim::{ChipSpec, ContentChip, FailureScript};
    use nandkit_units::random::Random;
    use nandkit_units::{Lba, Payload};

    use super::*;
    use crate::page_map::{JournalOptions, PageMapOptions, Spare};

    /// Blocks fail on dies with and without spare blocks: the blocks without a superblock must be
    /// the same before and after a start, including those that a dissolved superblock left.
    #[test]
    fn blocks_without_a_superblock_are_the_same_behind_a_start() {
        let mut spec = ChipSpec::default();
        let geometry = &mut spec.geometry;
        (geometry.page_size, geometry.write_unit, geometry.oob_size) = (512, 512, 16);
        (geometry.blocks, geometry.pages_per_block, geometry.dies) = (96, 8, 4);
        let options = PageMapOptions {
            spare: Spare::Capacity(60 * 512),
            stripe: 2,
            journal: Some(JournalOptions { checkpoint_every: 1 << 30, aliases: 16 }),
            ..PageMapOptions::default()
        };
        let context = Context::default();
        let (mut gone, mut loose) = (0, 0);
        for seed in 0..20 {
            let mut random = Random::new(seed, "loose");
            let mut chip = ContentChip::new(&spec, 1).unwrap();
            for _ in 0..3 {
                chip.mark_bad(&context, BlockIndex(random.between(24, 95) as u32)).unwrap();
            }
            let programs = (0..4).map(|_| random.between(200, 700)).collect();
            chip.script_failures(FailureScript { programs, ..FailureScript::default() });
            let mut device = PageMapFtl::format(chip, options).unwrap();
            for _ in 0..700 {
                let at = Lba(random.below(60));
                device.write(&context, at, Payload::Bytes(&[1; 512])).unwrap();
            }
            device.flush(&context).unwrap();
            let sorted =
                |failing: &Failing| -> BTreeSet<BlockIndex> { failing.loose.values().flatten().copied().collect() };
            let before = (sorted(&device.failing), device.failing.gone, device.failing.is_waiting());
            let reserved = device.reserved_pages();
            gone += before.1;
            loose += before.0.len();
            let device = PageMapFtl::attach(device.into_flash(), options).unwrap();
            assert!(before.2 || (sorted(&device.failing), device.failing.gone) == (before.0, before.1), "seed {seed}");
            assert_eq!(device.reserved_pages(), reserved, "seed {seed}");
        }
        assert!(gone > 10 && loose > 20, "{gone} superblocks gone, {loose} blocks loose");
    }
}
