//! Blocks that fail: their superblock is cleaned before all others, the block is marked bad, and what is left of the superblock is paired anew.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::{ErrorKind, Flash, FlashError};
use nandkit_units::{BlockIndex, Context, PageAddress};

use super::PageMapFtl;
use crate::failure::{Failure, Halt, Outcome, is_block_failure};

/// What has failed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failing {
    /// Superblocks in which a program failed, with the block: to be cleaned before all others.
    waiting: Vec<(u32, BlockIndex)>,
    /// Good blocks without a superblock, by die.
    loose: BTreeMap<u32, Vec<BlockIndex>>,
    /// Superblocks that are no more.
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

    /// The next superblock to be cleaned before all others, which then waits no longer.
    pub fn next(&mut self) -> Option<(u32, BlockIndex)> {
        self.waiting.pop()
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Notes a failure of the flash: where one block is at fault the caller goes on elsewhere (`Ok`), all else stops the layer.
    #[cold]
    pub(super) fn note_failure(&mut self, error: FlashError) -> Outcome<()> {
        if is_block_failure(error.kind) {
            match error.kind {
                ErrorKind::EraseFailed => self.counters.erase_failures += 1,
                _ => self.counters.program_failures += 1,
            }
            return Ok(());
        }
        Err(self.halt(error))
    }

    /// What stops the layer.
    #[cold]
    pub(super) fn halt(&mut self, error: FlashError) -> Failure {
        let why = format!("an earlier operation failed half-way: {error}");
        self.halted = Some(Halt { kind: error.kind, why });
        error.into()
    }

    /// Gives up an open superblock in which a program failed. What it holds is moved before anything else is cleaned.
    pub(super) fn abandon(&mut self, superblock: u32, at: PageAddress) {
        self.close(superblock);
        self.failing.waiting.push((superblock, at.block));
    }

    /// Marks a block of an empty superblock bad, and puts a loose block of the same die into its place. Whether there was one: without, the superblock is no more, and its other blocks are loose.
    pub(super) fn repair(&mut self, context: &Context, superblock: u32, bad: BlockIndex) -> Outcome<bool> {
        let done = self.flash.mark_bad(context, bad).map_err(|error| self.halt(error))?;
        self.last_change = self.last_change.max(done.completed);
        self.counters.retired_blocks += 1;
        let geometry = *self.flash.geometry();
        let die = geometry.die_of(bad);
        if let Some(block) = self.failing.loose.get_mut(&die).and_then(Vec::pop) {
            self.superblocks.replace(superblock, bad, block);
            return Ok(true);
        }
        for &block in self.superblocks.members(superblock).iter().filter(|block| **block != bad) {
            self.failing.loose.entry(geometry.die_of(block)).or_default().push(block);
        }
        self.failing.gone += 1;
        Ok(false)
    }
}
