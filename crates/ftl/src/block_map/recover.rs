//! Rebuilding the map from the tags, and repairing what a power cut left (rules 11 to 18).

use std::cmp::Reverse;

use nandkit_cleaning::recycling::PeriodHistory;
use nandkit_flash::{ErrorKind, Flash};
use nandkit_units::{BlockIndex, Cause};

use super::BlockMapFtl;
use super::map::{Log, Map};
use super::mount::LAYER;
use crate::base::{Found, Kind, Mark, newest};
use crate::chain::Chain;
use crate::failure::{Failure, Outcome};
use crate::tag::{NO_BLOCK, Role, TagRead, flag};

/// What the scan makes of the flash.
struct Plan {
    /// Nothing to repair.
    clean: bool,
    /// The newest page of all.
    newest: u64,
    /// Blocks of which no page can be read: they prove nothing, and are erased first of all.
    junk: Vec<u32>,
    /// Blocks that an unfinished recovery condemned, by a mark that is no longer in doubt: erased next.
    condemned: Vec<u32>,
    /// The block that this cut left unfinished: erased once a mark says so.
    dead: Option<u32>,
    /// The block that was written last before a cut, although complete by its looks.
    suspect: Option<u32>,
    /// What the mark of this recovery says.
    mark: (Role, u32),
    /// The map block with the newest page: stays until the mark is written.
    evidence: Option<u32>,
    /// The map block with the mark of an unfinished recovery for the suspect: stays until recovery is finished.
    cover: Option<u32>,
    /// Data block by logical block.
    data: Vec<Found>,
    /// Log blocks.
    logs: Vec<Found>,
}

impl Plan {
    fn is_dead(&self, block: u32) -> bool {
        self.dead == Some(block) || self.condemned.contains(&block)
    }
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
        for data in &plan.data {
            self.load_data(chain, data)?;
        }
        for log in &plan.logs {
            self.load_log(chain, log, plan.clean)?;
        }
        match self.repair(chain, &plan) {
            // Nothing was changed that was not complete. What is there can still be read.
            Err(Failure::Full) => self.base.halted = Some(ErrorKind::ReadOnly),
            done => done?,
        }
        Ok(())
    }

    /// Rules 15 to 17.
    fn repair(&mut self, chain: &mut Chain, plan: &Plan) -> Outcome<()> {
        if plan.clean {
            plan.evidence.iter().for_each(|block| self.base.release(*block));
        } else {
            self.erase_dead(chain, &plan.junk)?;
            self.erase_dead(chain, &plan.condemned)?;
            // Rule 15: what is decided is on flash, in a fresh block, before anything that might count is erased.
            self.base.append_record(chain, Cause::Recovery, plan.mark.0, plan.mark.1)?;
            plan.evidence
                .iter()
                .filter(|block| plan.cover != Some(**block))
                .for_each(|block| self.base.put_into_pool(*block));
            self.erase_dead(chain, plan.dead.as_slice())?;
            self.rewrite_logs(chain, plan)?;
        }
        while self.map.open_logs() > self.log_limit {
            self.evict(chain)?;
        }
        self.base.append_record(chain, Cause::Recovery, Role::Open, LAYER)?;
        plan.cover.iter().for_each(|block| self.base.put_into_pool(*block));
        Ok(())
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

    fn plan(&self, found: &[Found], marks: &[Mark]) -> Plan {
        let top = newest(found);
        let newest_seq = top.map_or(0, |(sequence, _)| sequence);
        let mut plan = Plan {
            clean: top.map_or(found.iter().all(|f| f.kind == Kind::Blank), |(_, role)| role == Role::Close),
            newest: newest_seq,
            junk: Vec::new(),
            condemned: Vec::new(),
            dead: None,
            suspect: None,
            mark: (Role::Retire, NO_BLOCK),
            evidence: None,
            cover: None,
            data: Vec::new(),
            logs: Vec::new(),
        };
        let last = found.iter().find(|f| f.newest == newest_seq && newest_seq > 0);
        plan.evidence = last.filter(|f| f.kind == Kind::Record).map(|f| f.block);
        if !plan.clean {
            plan.junk = found.iter().filter(|f| f.kind == Kind::Junk).map(|f| f.block).collect();
            self.judge(found, marks, last, &mut plan);
        }
        self.choose_live(found, &mut plan);
        plan
    }

    /// What the cut, and unfinished recoveries, left in doubt (rule 12).
    fn judge(&self, found: &[Found], marks: &[Mark], last: Option<&Found>, plan: &mut Plan) {
        for mark in marks {
            let Some(named) = found.iter().find(|f| f.block == mark.block && f.kind == Kind::Member) else { continue };
            if named.newest > mark.sequence {
                continue;
            }
            // The newest page of all may be torn: a mark in it is written again.
            let firm = mark.sequence < plan.newest;
            match (mark.role, firm) {
                (Role::Kill, true) => plan.condemned.push(mark.block),
                (Role::Kill, false) => (plan.dead, plan.mark) = (Some(mark.block), (Role::Kill, mark.block)),
                (_, true) => (plan.suspect, plan.cover) = (Some(mark.block), Some(mark.holder)),
                (_, false) => (plan.suspect, plan.mark) = (Some(mark.block), (Role::Retire, mark.block)),
            }
        }
        plan.condemned.sort_unstable();
        plan.condemned.dedup();
        if plan.dead.is_some_and(|dead| plan.condemned.contains(&dead)) {
            (plan.dead, plan.mark) = (None, (Role::Retire, NO_BLOCK));
        }
        match last {
            Some(last) if last.is_unconfirmed(plan.newest) => {
                (plan.dead, plan.mark) = (Some(last.block), (Role::Kill, last.block));
            }
            Some(last) if last.kind == Kind::Member => {
                (plan.suspect, plan.mark) = (Some(last.block), (Role::Retire, last.block));
            }
            _ => {}
        }
    }

    /// For each logical block the newest complete data block, and the newest log block if that is newer still (rule 14).
    fn choose_live(&self, found: &[Found], plan: &mut Plan) {
        let mut members: Vec<&Found> =
            found.iter().filter(|f| f.kind == Kind::Member && !plan.is_dead(f.block)).collect();
        members.sort_by_key(|f| (f.lbn, Reverse(f.newest), f.block));
        for group in members.chunk_by(|a, b| a.lbn == b.lbn) {
            let mut log: Option<&Found> = None;
            for &block in group {
                let suspect = plan.suspect == Some(block.block);
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
        let kept = plan
            .junk
            .iter()
            .chain(&plan.condemned)
            .chain([&plan.dead, &plan.evidence, &plan.cover].into_iter().flatten());
        for block in live.chain(kept.copied()) {
            if let Some(entry) = free.get_mut(block as usize) {
                *entry = false;
            }
        }
        for f in found.iter().filter(|f| free.get(f.block as usize) == Some(&true)) {
            self.base.put_into_pool(f.block);
        }
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
        order.sort_by_key(|log| (plan.suspect != Some(log.block), log.lbn));
        for log in order {
            let Some(slot) = self.map.slot_of(log.lbn) else { continue };
            self.report.rewritten_logs += 1;
            let p = self.map.p(slot);
            // What looks like a data block must not lie below a newer log: only a new data block supersedes it.
            if p > 0 && p < self.base.shape.np && !log.is_in_order(self.base.shape.np) {
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
