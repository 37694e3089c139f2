//! Rebuilding the map from the tags, and repairing what a power cut left (rules 11 to 18).

use std::cmp::Reverse;

use nandkit_cleaning::recycling::PeriodHistory;
use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause};

use super::BlockMapFtl;
use super::map::{Log, Map};
use super::mount::LAYER;
use crate::base::{Found, Kind, Marks, newest};
use crate::chain::Chain;
use crate::failure::{Failure, Outcome};
use crate::tag::{NO_BLOCK, Role, TagRead, flag};

/// What the scan makes of the flash.
struct Plan {
    /// Nothing to repair.
    clean: bool,
    /// The newest page of all.
    newest: u64,
    /// Blocks to erase before anything else is programmed but the marks that say so.
    dead: Vec<u32>,
    /// Blocks written last before a cut, although complete by their looks.
    suspect: Vec<u32>,
    /// Map blocks that must stay until the marks are written.
    floor: Vec<u32>,
    /// Data block by logical block.
    data: Vec<Found>,
    /// Log blocks.
    logs: Vec<Found>,
}

impl<F: Flash> BlockMapFtl<F> {
    /// Finds the map, repairs, and leaves a record that the device is open.
    pub(super) fn recover(&mut self, chain: &mut Chain) -> Outcome<()> {
        let found = self.base.scan(chain)?;
        let marks = self.base.pending_marks(chain, &found)?;
        self.check_owner(chain, &found)?;
        let plan = self.plan(&found, &marks);
        self.report.clean = plan.clean;
        self.report.empty = plan.newest == 0 && plan.clean;
        // Rule 11: a torn page may carry a number that nobody could read.
        self.base.sequence = plan.newest + (1 << 16);
        self.fill_pool(&found, &plan);
        self.map = Map::new(self.base.shape.lbns, self.base.shape.np, self.log_slots(plan.logs.len()));
        if !plan.clean {
            self.write_marks(chain, &plan)?;
            self.erase_dead(chain, &plan.dead)?;
        }
        for data in &plan.data {
            self.load_data(chain, data)?;
        }
        for log in &plan.logs {
            self.load_log(chain, log, plan.clean)?;
        }
        if plan.clean {
            plan.floor.iter().for_each(|block| self.base.release(*block));
        } else {
            self.rewrite_logs(chain, &plan)?;
        }
        self.base.append_record(chain, Cause::Recovery, Role::Open, LAYER)
    }

    fn log_slots(&self, logs: usize) -> usize {
        self.log_limit.max(logs).min(usize::from(u16::MAX) - 1)
    }

    /// Refuses chips that another layer wrote, or that hold more than the capacity.
    fn check_owner(&mut self, chain: &mut Chain, found: &[Found]) -> Outcome<()> {
        let beyond = found.iter().find(|f| f.kind == Kind::Member && f.lbn >= self.base.shape.lbns);
        if let Some(block) = beyond {
            return Err(Failure::Unfit(format!(
                "block {} of the chip holds logical block {}: expected a capacity of more than {} logical blocks, or another format",
                block.block, block.lbn, self.base.shape.lbns
            )));
        }
        self.base.check_layer(chain, found, LAYER)
    }

    fn plan(&self, found: &[Found], marks: &Marks) -> Plan {
        let top = newest(found);
        let newest_seq = top.map_or(0, |(sequence, _)| sequence);
        let mut plan = Plan {
            clean: top.map_or(found.iter().all(|f| f.kind == Kind::Blank), |(_, role)| role == Role::Close),
            newest: newest_seq,
            dead: Vec::new(),
            suspect: Vec::new(),
            floor: Vec::new(),
            data: Vec::new(),
            logs: Vec::new(),
        };
        let holder = found.iter().find(|f| f.newest == newest_seq && newest_seq > 0);
        if let Some(record) = holder.filter(|f| f.kind == Kind::Record) {
            plan.floor.push(record.block);
        }
        if !plan.clean {
            plan.floor.extend(marks.held_by.iter().filter(|block| Some(**block) != holder.map(|f| f.block)));
            let killed = |f: &Found| marks.kill.iter().any(|(block, at)| *block == f.block && f.newest < *at);
            let named = found.iter().filter(|f| killed(f) || f.is_unconfirmed(newest_seq));
            let junk = found.iter().filter(|f| f.kind == Kind::Junk && !killed(f));
            plan.dead = named.chain(junk).map(|f| f.block).filter(|block| !plan.floor.contains(block)).collect();
            let retired = |f: &Found| marks.retire.iter().any(|(block, at)| *block == f.block && f.newest < *at);
            let last_written = |f: &Found| f.kind == Kind::Member && f.newest == newest_seq && f.first == Role::Host;
            let suspect = found.iter().filter(|f| retired(f) || last_written(f));
            plan.suspect = suspect.map(|f| f.block).filter(|block| !plan.dead.contains(block)).collect();
        }
        self.choose_live(found, &mut plan);
        plan
    }

    /// For each logical block the newest complete data block, and the newest log block if that is newer still (rule 14).
    fn choose_live(&self, found: &[Found], plan: &mut Plan) {
        let mut members: Vec<&Found> =
            found.iter().filter(|f| f.kind == Kind::Member && !plan.dead.contains(&f.block)).collect();
        members.sort_by_key(|f| (f.lbn, Reverse(f.newest), f.block));
        for group in members.chunk_by(|a, b| a.lbn == b.lbn) {
            let mut log: Option<&Found> = None;
            for &block in group {
                let suspect = plan.suspect.contains(&block.block);
                // What is older than a log that followed no other log was the data block then, if a page at its end can no longer be read.
                let was_data =
                    log.is_some_and(|log| !log.migrated) && block.in_place && block.programmed == self.base.shape.np;
                let is_data =
                    block.first == Role::DataCopy || (block.is_in_order(self.base.shape.np) && !suspect) || was_data;
                if is_data {
                    plan.data.push(*block);
                    break;
                }
                log = log.or(Some(block));
            }
            plan.logs.extend(log.copied());
        }
    }

    /// Everything that is neither live nor dead nor needed as evidence is free.
    fn fill_pool(&mut self, found: &[Found], plan: &Plan) {
        let mut free = vec![true; self.base.shape.blocks as usize];
        let live = plan.data.iter().chain(&plan.logs).map(|f| f.block);
        for block in live.chain(plan.dead.iter().copied()).chain(plan.floor.iter().copied()) {
            if let Some(entry) = free.get_mut(block as usize) {
                *entry = false;
            }
        }
        for f in found.iter().filter(|f| free.get(f.block as usize) == Some(&true)) {
            self.base.put_into_pool(f.block);
        }
    }

    /// Rule 15: what is decided is on flash, in a fresh block, before anything is erased.
    fn write_marks(&mut self, chain: &mut Chain, plan: &Plan) -> Outcome<()> {
        let suspect = plan.suspect.iter().map(|block| (Role::Retire, *block));
        let dead = plan.dead.iter().map(|block| (Role::Kill, *block));
        // All in one map block. One cut leaves at most two blocks to name; more is junk that decayed, and is only erased.
        let marks: Vec<(Role, u32)> = suspect.chain(dead).take(self.base.shape.np as usize).collect();
        let none = [(Role::Retire, NO_BLOCK)];
        for &(role, block) in if marks.is_empty() { &none[..] } else { &marks } {
            self.base.append_record(chain, Cause::Recovery, role, block)?;
        }
        plan.floor.iter().for_each(|block| self.base.put_into_pool(*block));
        Ok(())
    }

    fn erase_dead(&mut self, chain: &mut Chain, dead: &[u32]) -> Outcome<()> {
        for &block in dead {
            self.report.erased_blocks += 1;
            if self.base.erase(chain, Cause::Recovery, block)? {
                self.base.put_into_pool(block);
            }
        }
        Ok(())
    }

    fn load_data(&mut self, chain: &mut Chain, found: &Found) -> Outcome<()> {
        let lbn = found.lbn;
        self.map.set_data(lbn, found.block);
        for offset in 0..found.programmed {
            if found.full {
                self.map.set_present(lbn, offset, true);
                continue;
            }
            match self.base.read_tag(chain, BlockIndex(found.block).page(offset))? {
                TagRead::Blank => {}
                // The page is lost, and reading it will say so.
                TagRead::Bad => self.map.set_present(lbn, offset, true),
                TagRead::Valid(tag) => {
                    self.map.set_present(lbn, offset, !tag.has(flag::TOMB));
                    self.set_poisoned(lbn, offset, tag.has(flag::POISON));
                }
            }
        }
        Ok(())
    }

    fn load_log(&mut self, chain: &mut Chain, found: &Found, clean: bool) -> Outcome<()> {
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
            // The last page may be torn, and read now as good and now as lost: it is read once (rule 12).
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

    /// Rule 16: every log block is written anew, so that no page that was ever in flight at a cut stays in use.
    fn rewrite_logs(&mut self, chain: &mut Chain, plan: &Plan) -> Outcome<()> {
        let mut order: Vec<&Found> = plan.logs.iter().collect();
        order.sort_by_key(|log| (!plan.suspect.contains(&log.block), log.lbn));
        for log in order {
            let Some(slot) = self.map.slot_of(log.lbn) else { continue };
            self.report.rewritten_logs += 1;
            let p = self.map.p(slot);
            if p > 0 && p < self.base.shape.np {
                self.migrate(chain, slot, false)?;
            } else {
                self.merge(chain, slot)?;
            }
        }
        self.base.held.clear();
        // The periods of before the cut are over.
        for log in self.map.logs.iter_mut().flatten() {
            (log.migrations, log.history) = (0, PeriodHistory::default());
        }
        Ok(())
    }
}
