//! Rebuilding the map from the tags, and repairing the effects of a power cut (rules 11 to 18).

use std::cmp::Reverse;

use nandkit_cleaning::recycling::PeriodHistory;
use nandkit_flash::Flash;
use nandkit_units::BlockIndex;

use super::BlockMapFtl;
use super::map::{Log, Map};
use super::mount::LAYER;
use crate::base::{Doubt, Kind, ScannedBlock};
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{Role, TagRead, flag};

/// The live blocks.
#[derive(Default)]
struct Live {
    /// The data blocks, at most one per logical block.
    data: Vec<ScannedBlock>,
    /// The log blocks.
    logs: Vec<ScannedBlock>,
}

impl<F: Flash> BlockMapFtl<F> {
    /// Rebuilds the map, repairs, and writes the record that the device is open.
    pub(super) fn recover(&mut self, chain: &mut Chain) -> LayerResult<()> {
        let found = self.base.scan(chain)?;
        let marks = self.base.pending_marks(chain, &found)?;
        self.base.check_owner(chain, &found, LAYER)?;
        let doubt = Doubt::new(&found, &marks);
        let live = self.choose_live(&found, &doubt);
        self.report.clean = doubt.clean;
        self.report.empty = doubt.newest == 0 && doubt.clean;
        // Rule 11: a torn page may have a sequence number that could not be read.
        self.base.sequence = doubt.newest + (1 << 16);
        self.base.fill_pool(&found, &doubt, live.data.iter().chain(&live.logs).map(|f| f.block));
        self.map = Map::new(self.base.shape.lbns, self.base.shape.np, self.log_slots(live.logs.len()));
        for data in &live.data {
            self.load_data(chain, data)?;
        }
        for log in &live.logs {
            self.load_log(chain, log, doubt.clean)?;
        }
        match self.repair(chain, &doubt, &live) {
            // Only complete changes were made. Existing data stay readable.
            Err(Failure::Full) => self.base.halt_full(),
            done => done?,
        }
        Ok(())
    }

    /// Carries out rules 15 to 17.
    fn repair(&mut self, chain: &mut Chain, doubt: &Doubt, live: &Live) -> LayerResult<()> {
        self.report.erased_blocks = self.base.begin_repair(chain, doubt)?;
        if !doubt.clean {
            self.rewrite_logs(chain, doubt, live)?;
        }
        while self.map.open_logs() > self.log_limit {
            self.evict(chain)?;
        }
        self.base.finish_repair(chain, doubt, LAYER)
    }

    fn log_slots(&self, logs: usize) -> usize {
        self.log_limit.max(logs).min(usize::from(u16::MAX) - 1)
    }

    /// Chooses for each logical block the newest complete data block, and the newest log block if
    /// that is newer still (rule 14).
    fn choose_live(&self, found: &[ScannedBlock], doubt: &Doubt) -> Live {
        let mut live = Live::default();
        let mut members: Vec<&ScannedBlock> =
            found.iter().filter(|f| f.kind == Kind::Member && !doubt.is_dead(f.block)).collect();
        members.sort_by_key(|f| (f.lbn, Reverse(f.newest), f.block));
        for group in members.chunk_by(|a, b| a.lbn == b.lbn) {
            let mut log: Option<&ScannedBlock> = None;
            for &block in group {
                let suspect = doubt.suspect == Some(block.block);
                // A block older than a log that succeeded no other log was the data block at that
                // time, even if a page at its end is no longer readable.
                let was_data =
                    log.is_some_and(|log| !log.migrated) && block.in_place && block.programmed == self.base.shape.np;
                let is_data =
                    block.first == Role::DataCopy || (block.is_in_order(self.base.shape.np) && !suspect) || was_data;
                if is_data {
                    live.data.push(*block);
                    break;
                }
                log = log.or(Some(block));
            }
            live.logs.extend(log.copied());
        }
        live
    }

    fn load_data(&mut self, chain: &mut Chain, found: &ScannedBlock) -> LayerResult<()> {
        let lbn = found.lbn;
        self.map.set_data(lbn, found.block);
        for offset in 0..found.programmed {
            if found.full {
                self.map.set_present(lbn, offset, true);
                continue;
            }
            match self.base.read_tag(chain, BlockIndex(found.block).page(offset))? {
                TagRead::Blank => {}
                // The page is lost, and reads will report it.
                TagRead::Bad => self.map.set_present(lbn, offset, true),
                TagRead::Valid(tag) => {
                    self.map.set_present(lbn, offset, !tag.has(flag::TOMB));
                    self.set_poisoned(lbn, offset, tag.has(flag::POISON));
                }
            }
        }
        Ok(())
    }

    fn load_log(&mut self, chain: &mut Chain, found: &ScannedBlock, clean: bool) -> LayerResult<()> {
        self.stamp += 1;
        let log = Log {
            lbn: found.lbn,
            block: found.block,
            next: found.programmed,
            in_order: found.in_place && !found.migrated && found.first == Role::Host,
            migrated: found.migrated,
            opened: self.stamp,
            last_write: self.stamp,
            migrations: 0,
            history: PeriodHistory::default(),
        };
        let slot = self.map.open_log(log).ok_or(Failure::Full)?;
        for page in 0..found.programmed {
            let at = BlockIndex(found.block).page(page);
            let last = page + 1 == found.programmed;
            // The last page may be torn and read differently each time, so it is read only once
            // (rule 12).
            let tag = if last && !clean {
                self.base.hold_page(chain, at)?
            } else {
                match self.base.read_tag(chain, at)? {
                    TagRead::Valid(tag) => Some(tag),
                    TagRead::Blank | TagRead::Bad => None,
                }
            };
            match tag {
                Some(tag) if tag.block == found.lbn && tag.offset < self.base.shape.np => {
                    if let Some(entry) = self.map.table_mut(slot).get_mut(tag.offset as usize) {
                        *entry = page as u16 + 1;
                    }
                    self.map.set_present(found.lbn, tag.offset, !tag.has(flag::TOMB));
                    self.set_poisoned(found.lbn, tag.offset, tag.has(flag::POISON));
                }
                _ if last && !clean => self.report.torn_pages += 1,
                _ => {
                    self.report.lost_updates += 1;
                    if let Some(log) = self.map.log_mut(slot) {
                        log.in_order = false;
                    }
                }
            }
        }
        Ok(())
    }

    /// Rule 16: rewrites every log block, so that no page that was ever in flight during a cut
    /// stays in use.
    fn rewrite_logs(&mut self, chain: &mut Chain, doubt: &Doubt, live: &Live) -> LayerResult<()> {
        let mut order: Vec<&ScannedBlock> = live.logs.iter().collect();
        order.sort_by_key(|log| (doubt.suspect != Some(log.block), log.lbn));
        for log in order {
            let Some(slot) = self.map.slot_of(log.lbn) else { continue };
            self.report.rewritten_logs += 1;
            let p = self.map.p(slot);
            // A log block that looks like a data block must not lie below a newer log: only a new
            // data block supersedes it.
            if p > 0 && p < self.base.shape.np && !log.is_in_order(self.base.shape.np) {
                self.migrate(chain, slot, false)?;
            } else {
                self.merge(chain, slot)?;
            }
        }
        self.base.held.clear();
        // Periods from before the cut have ended.
        for log in self.map.logs.iter_mut().flatten() {
            (log.migrations, log.history) = (0, PeriodHistory::default());
        }
        Ok(())
    }
}
