//! Steps 4 to 6: replaying tags and lines in stamp order, undoing unfinished cleanings, counting
//! references.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::Flash;

use super::damaged;
use super::scan::{Scanned, Tag};
use crate::failure::LayerResult;
use crate::page_map::failing::NO_BLOCK;
use crate::page_map::journal::layout::{Change, Line, Snapshot};
use crate::page_map::{NOWHERE, PageMapFtl};

/// A copy, and the previous slot of its page.
struct Moved {
    tag: Tag,
    old: u32,
    was_alias: bool,
}

/// Pages that differ from the page in their slot's tag, during the replay.
type AliasSet = BTreeSet<u32>;

impl<F: Flash> PageMapFtl<F> {
    /// Advances the map from the base to the newest state on flash.
    pub(super) fn replay(&mut self, snapshot: &Snapshot, lines: &[Line], scanned: Scanned) -> LayerResult<()> {
        self.check_lines(snapshot, lines)?;
        let mut aliases: AliasSet = snapshot.aliases.iter().copied().collect();
        let mut moved = Vec::new();
        let newer: Vec<Line> = lines.iter().filter(|line| line.stamp > snapshot.base).copied().collect();
        let mut next = newer.iter().copied().peekable();
        self.recovery.replayed = (newer.len() + scanned.tags.len()) as u64;
        for tag in &scanned.tags {
            while let Some(line) = next.next_if(|line| line.stamp < tag.stamp) {
                self.replay_line(&line, &mut aliases);
            }
            self.replay_tag(*tag, &mut aliases, &mut moved);
        }
        next.collect::<Vec<_>>().iter().for_each(|line| self.replay_line(line, &mut aliases));
        self.sequence = scanned.tags.last().map_or(0, |tag| tag.stamp).max(lines.last().map_or(0, |line| line.stamp));
        let settled = snapshot.next.saturating_sub(1).max(lines.last().map_or(0, |line| line.stamp));
        let void = self.take_back(&moved, (&scanned, settled), &mut aliases);
        if let Some(journal) = &mut self.journal {
            journal.lines = newer;
            // If nothing was undone, write a line that voids nothing: with it after the last
            // copies, no later start undoes them after their victim was erased.
            let (first, last) = void.unwrap_or((0, 0));
            self.sequence = self.sequence.saturating_add(1);
            journal.lines.push(Line { stamp: self.sequence, change: Change::Void { first, last } });
        }
        self.count_references(&aliases);
        self.sort_superblocks(&scanned);
        Ok(())
    }

    /// Checks that lines refer to existing things, in ascending order.
    fn check_lines(&self, snapshot: &Snapshot, lines: &[Line]) -> LayerResult<()> {
        let (user, all) = (self.block.sectors, self.map.len() as u64);
        let slots = u64::from(self.superblocks.count()) * u64::from(self.superblocks.slots());
        let pages_are_right = snapshot.aliases.iter().all(|page| u64::from(*page) < user);
        let is_right = |line: &Line| match line.change {
            Change::Trim { first, count } => u64::from(first) + u64::from(count) <= user,
            Change::Point { page, slot } => u64::from(page) < user && u64::from(slot) < slots,
            Change::Lost { page } => u64::from(page) < all,
            Change::Member { superblock, lane, .. } => {
                superblock < self.superblocks.count() && lane < self.superblocks.stripe()
            }
            Change::Void { first, last } => first <= last,
        };
        if !pages_are_right || !lines.iter().all(is_right) {
            return Err(damaged("a line names what the device does not have"));
        }
        if lines.windows(2).any(|two| matches!(two, [one, next] if one.stamp >= next.stamp)) {
            return Err(damaged("its lines are not in order"));
        }
        Ok(())
    }

    fn replay_tag(&mut self, tag: Tag, aliases: &mut AliasSet, moved: &mut Vec<Moved>) {
        let Some(entry) = self.map.get_mut(tag.page as usize) else { return };
        let old = std::mem::replace(entry, tag.slot);
        let was_alias = aliases.remove(&tag.page);
        if tag.is_copy() && old != NOWHERE {
            moved.push(Moved { tag, old, was_alias });
        }
        self.failing.lost.remove(&tag.page);
        self.changed.note(tag.page);
    }

    fn replay_line(&mut self, line: &Line, aliases: &mut AliasSet) {
        let pages = match line.change {
            Change::Trim { first, count } => first..first + count,
            Change::Point { page, .. } | Change::Lost { page } => page..page + 1,
            Change::Member { .. } | Change::Void { .. } => return,
        };
        for page in pages {
            let slot = if let Change::Point { slot, .. } = line.change { slot } else { NOWHERE };
            if let Some(entry) = self.map.get_mut(page as usize) {
                *entry = slot;
            }
            self.changed.note(page);
            self.failing.lost.remove(&page);
            match line.change {
                Change::Point { .. } => aliases.insert(page),
                _ => aliases.remove(&page),
            };
            if matches!(line.change, Change::Lost { .. }) {
                self.failing.lost.insert(page);
            }
        }
    }

    /// Undoes the copies of the last cleaning if its victim still holds a page: it was not
    /// released, so the originals are intact. Returns the stamps of these copies, which no later
    /// start may count.
    ///
    /// This can be decided only for copies that are followed by nothing, neither a program nor a
    /// journal line. A victim is erased only after something was programmed, and that program is
    /// still there, or a journal line says why not. So the originals are what the replay saw before
    /// the copies.
    /// Up to the stamp `settled`, the journal tells what became of a cleaning. Cleaning numbers
    /// restart at each start, whose line separates the copies before it from those after it. If a
    /// block failed during a cleaning, the lines that replace it, or a snapshot, lie between its
    /// copies: those before them stay, because the journal's aliases reflect them.
    fn take_back(
        &mut self,
        moved: &[Moved],
        (scanned, settled): (&Scanned, u64),
        aliases: &mut AliasSet,
    ) -> Option<(u64, u64)> {
        let last = scanned.tags.last().filter(|tag| tag.is_copy())?;
        let of_last = |tag: &&Tag| tag.role == last.role && tag.stamp > settled;
        let first = scanned.tags.iter().rev().take_while(of_last).last()?.stamp;
        let copies: Vec<&Moved> = moved.iter().filter(|moved| moved.tag.stamp >= first).collect();
        let victim = self.superblocks.superblock(copies.first()?.old);
        let holds = |slot: &u32| *slot != NOWHERE && self.superblocks.superblock(*slot) == victim;
        let is_unfinished = copies.iter().all(|copy| holds(&copy.old)) && self.map.iter().any(holds);
        if !is_unfinished {
            return None;
        }
        for Moved { tag, old, was_alias } in copies {
            let Some(entry) = self.map.get_mut(tag.page as usize).filter(|entry| **entry == tag.slot) else { continue };
            *entry = *old;
            if *was_alias {
                aliases.insert(tag.page);
            }
            self.recovery.taken_back += 1;
        }
        Some((first, last.stamp))
    }

    /// Counts the references to each slot.
    fn count_references(&mut self, aliases: &AliasSet) {
        let mut owners = BTreeMap::new();
        for page in aliases {
            let Some(&slot) = self.map.get(*page as usize).filter(|slot| **slot != NOWHERE) else { continue };
            self.aliases.add(slot, None, *page);
            owners.insert(slot, None);
        }
        for (page, &slot) in (0u32..).zip(self.map.iter()) {
            if slot == NOWHERE {
                continue;
            }
            if !aliases.contains(&page)
                && let Some(owner) = owners.get_mut(&slot)
            {
                *owner = Some(page);
            }
            if !self.valid.holds(slot) {
                self.valid.set(slot);
                self.index.add(self.superblocks.superblock(slot));
            }
        }
        for (slot, owner) in owners {
            self.aliases.set_owner(slot, owner);
        }
    }

    /// Frees the superblocks without a valid slot, and closes all others, in the order in which
    /// they were opened.
    fn sort_superblocks(&mut self, scanned: &Scanned) {
        for superblock in &scanned.opened {
            if let Some(erases) = self.erases.get_mut(*superblock as usize) {
                *erases = erases.saturating_add(1);
            }
        }
        let mut order: Vec<u32> = (0..self.superblocks.count()).collect();
        order.sort_by_key(|superblock| scanned.lives.get(*superblock as usize).copied().flatten());
        self.free = nandkit_cleaning::allocation::FreePool::new(self.options.allocation, order.len());
        for superblock in order {
            let members = self.superblocks.members(superblock);
            if members.contains(&NO_BLOCK) {
                self.failing.gone += 1;
            } else if self.index.valid(superblock) > 0 {
                self.index.enter(superblock);
            } else {
                let erases = self.erases.get(superblock as usize).copied().unwrap_or(0);
                self.free.push(superblock, erases);
            }
        }
    }
}
