//! Recycling a log block by swap, partial merge, merge or migration.

use nandkit_cleaning::recycling::{AlphaEstimator, Recycling, RecyclingState};
use nandkit_flash::Flash;

use super::BlockMapFtl;
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::statistics::{RecyclingEvent, RecyclingKind};

impl<F: Flash> BlockMapFtl<F> {
    /// Recycles a full log block by the policy's choice.
    pub(super) fn recycle(&mut self, chain: &mut Chain, slot: usize) -> LayerResult<()> {
        let Some(log) = self.map.log(slot) else { return Ok(()) };
        if log.in_order && log.next == self.base.shape.np {
            return self.swap(chain, slot);
        }
        let p = self.map.p(slot);
        let state = RecyclingState { p, migrations_in_row: log.migrations, history: log.history, costs: self.costs() };
        match self.options.policy.decide(&state) {
            Recycling::Merge => {
                self.note(slot, p, RecyclingKind::Merge, false);
                self.merge(chain, slot)
            }
            Recycling::Migrate => {
                self.migrate(chain, slot, false)?;
                self.note(slot, p, RecyclingKind::Migration, false);
                Ok(())
            }
        }
    }

    /// Empties a log block, full or not, because another logical block needs it.
    pub(super) fn give_up(&mut self, chain: &mut Chain, slot: usize) -> LayerResult<()> {
        let Some(log) = self.map.log(slot) else { return Ok(()) };
        let in_order = log.in_order;
        if in_order && log.next == self.base.shape.np {
            return self.swap(chain, slot);
        }
        let p = self.map.p(slot);
        self.counters.forced_merges += 1;
        if self.options.partial_merge && in_order {
            self.note(slot, p, RecyclingKind::Partial, true);
            return self.fill_up(chain, slot);
        }
        self.note(slot, p, RecyclingKind::Merge, true);
        self.merge(chain, slot)
    }

    /// Records a recycling. Call it after a migration (`history` and `migrations` then include it),
    /// but before a merge drops its log block.
    pub(super) fn note(&mut self, slot: usize, p: u32, kind: RecyclingKind, forced: bool) {
        if kind != RecyclingKind::Swap
            && let Some(count) = self.histogram.get_mut(p as usize)
        {
            *count += 1;
        }
        let Some(log) = self.map.log(slot) else { return };
        if self.events.len() < self.options.events {
            let history = if kind == RecyclingKind::Migration { log.history } else { log.history.with(p) };
            let alpha = history.alpha(AlphaEstimator::Origin).unwrap_or(0.0);
            self.events.push(RecyclingEvent { lbn: log.lbn, kind, p, migrations: log.migrations, alpha, forced });
        }
    }

    /// Makes a log block that holds every page in order the data block (rule 6).
    #[inline(never)]
    pub(super) fn swap(&mut self, chain: &mut Chain, slot: usize) -> LayerResult<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        self.note(slot, self.base.shape.np, RecyclingKind::Swap, false);
        self.counters.swap_merges += 1;
        self.become_data(chain, slot, log.lbn, log.block)
    }

    /// Makes `block` the data block instead of the old one, and frees the log slot.
    pub(super) fn become_data(&mut self, chain: &mut Chain, slot: usize, lbn: u32, block: u32) -> LayerResult<()> {
        if let Some(old) = self.map.data(lbn) {
            self.base.release(old);
        }
        self.map.set_data(lbn, block);
        self.map.close_log(slot);
        self.base.append_map_pages(chain, self.options.map_pages_per_recycling)
    }
}
