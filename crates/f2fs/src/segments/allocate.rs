//! Allocates and frees blocks (segment.c, `f2fs_allocate_data_block`, `need_new_seg`,
//! `get_ssr_segment`; f2fs-writing.md, "Allocation").

use std::ops::Range;

use nandkit_cleaning::search::{Costs, Search};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::sit::Sit;
use super::ssa::{self, Entries, SummaryCache};
use super::{BLOCKS, NO_BLOCK, OpenLog, Placed, Segments, Summary, Way};
use crate::blocks::Blocks;
use crate::ids::{BlockAddress, Log, SegmentIndex};

/// The segment chosen for a log, before it is taken.
enum Next {
    /// A free segment.
    Free(SegmentIndex),
    /// A used segment whose gaps are filled, with its summary.
    Gaps(SegmentIndex, Entries),
}

/// The cost of filling the gaps of segments: their valid blocks at the checkpoint.
struct GapCosts<'a>(&'a Segments);

impl Costs for GapCosts<'_> {
    fn cost(&mut self, segment: u32) -> u64 {
        u64::from(self.0.sit.valid_at_checkpoint(SegmentIndex(segment)))
    }

    fn may(&self, segment: u32) -> bool {
        let section = self.0.free.section(SegmentIndex(segment));
        !self.0.is_busy(section) && !self.0.dirty.chosen().has(section)
    }

    fn least_of(&self, segments: Range<u32>) -> u64 {
        u64::from(self.0.sit.least_valid_at_checkpoint(segments))
    }
}

#[cold]
fn corrupt(detail: String) -> FsError {
    FsError::new(ErrorKind::Corrupt, detail)
}

impl Segments {
    /// Implements [`super::Space::allocate`].
    #[inline]
    pub fn allocate(&mut self, device: &dyn Blocks, log: Log, owner: Summary, now: u64) -> Result<Placed> {
        if self.logs[log.index()].next >= NO_BLOCK {
            self.renew(device, log)?;
        }
        let OpenLog { segment, next: block, ssr, .. } = self.logs[log.index()];
        let next =
            if ssr { self.sit.next_usable(segment, block + 1) } else { Some(block + 1).filter(|&next| next < BLOCKS) };
        let chosen = if next.is_none() { Some(self.choose(device, log)?) } else { None };
        if self.sit.in_last_checkpoint(segment, block) == Some(true) || !self.sit.take(segment, block, now) {
            return Err(corrupt(format!(
                "the next block of the {log} log, block {block} of {segment}, is in use; expected a free one"
            )));
        }
        let open = &mut self.logs[log.index()];
        open.entries[usize::from(block)] = owner.into();
        open.next = next.unwrap_or(NO_BLOCK);
        self.usage.count(log, if ssr { Way::Gaps } else { Way::Append });
        if let Some(chosen) = chosen {
            self.switch(log, chosen);
        }
        let open = &self.logs[log.index()];
        Ok(Placed { at: self.address(segment, block), next: self.address(open.segment, open.next) })
    }

    /// Implements [`super::Space::claim`].
    pub fn claim(&mut self, device: &dyn Blocks, at: BlockAddress, owner: Summary, now: u64) -> Result<()> {
        let (segment, block) = Sit::door(&self.geometry, at)?;
        if !self.sit.is_usable(segment, block) {
            return Err(corrupt(format!(
                "{at} is in use or not writable before the next checkpoint; expected a free block"
            )));
        }
        self.place(device, at, owner, now)
    }

    /// Implements [`super::Space::adopt`].
    pub fn adopt(&mut self, device: &dyn Blocks, at: BlockAddress, owner: Summary, now: u64) -> Result<()> {
        self.place(device, at, owner, now)
    }

    fn place(&mut self, device: &dyn Blocks, at: BlockAddress, owner: Summary, now: u64) -> Result<()> {
        let (segment, block) = Sit::door(&self.geometry, at)?;
        if self.sit.is_valid(segment, block) {
            return Err(corrupt(format!("{at} is in use; expected a free block")));
        }
        let of_nodes = self.sit.kind(segment).is_node();
        let held = self.sit.valid(segment) > 0 || self.sit.valid_at_checkpoint(segment) > 0;
        if let Some(log) = self.log_of(segment) {
            if log.is_node() {
                return Err(corrupt(format!("{at} is in {segment} of the {log} log; expected a segment of data")));
            }
            self.sit.take(segment, block, now);
            self.logs[log.index()].entries[usize::from(block)] = owner.into();
            self.step_over(log, block);
            self.usage.count(log, Way::Claim);
            return Ok(());
        }
        if of_nodes && held {
            return Err(corrupt(format!("{at} is in {segment}, which holds nodes; expected a segment of data")));
        }
        let free = self.free.is_free(segment);
        if self.summaries.get(segment).is_none() {
            // Blocks that the last checkpoint uses keep their entries, since a power cut brings
            // them back.
            let entries = if free { ssa::blank() } else { SummaryCache::read(device, segment, None)? };
            self.summaries.put(segment, entries);
        }
        let prepared = self.held.iter().any(|held| held.segment == segment);
        self.dirty.take(&self.sit, segment);
        if of_nodes || free {
            self.sit.set_kind(segment, Log::WarmData);
        }
        self.free.take(segment);
        self.sit.take(segment, block, now);
        self.summaries.change(segment, block, owner.into());
        if !prepared {
            self.locate(segment);
        }
        self.usage.count(self.sit.kind(segment), Way::Claim);
        Ok(())
    }

    /// Implements [`super::Space::free`].
    #[inline]
    pub fn free(&mut self, at: BlockAddress, now: u64) {
        match self.geometry.main(at) {
            Some((segment, block)) if self.sit.release(segment, block, now) => self.locate(segment),
            _ => self.faults += 1,
        }
    }

    /// Implements [`super::Space::owner`].
    pub fn owner(&self, device: &dyn Blocks, at: BlockAddress) -> Result<Summary> {
        let (segment, block) = Sit::door(&self.geometry, at)?;
        let of = |entries: &Entries| entries.get(usize::from(block)).copied().map(Summary::from);
        let known = match self.known_summaries(segment) {
            Some(entries) => of(entries),
            None => of(&SummaryCache::read(device, segment, None)?),
        };
        known.ok_or_else(|| corrupt(format!("the summary of {segment} ends before block {block}")))
    }

    /// The summary of a segment, if it is in memory: of a log, or changed since the checkpoint.
    pub fn known_summaries(&self, segment: SegmentIndex) -> Option<&Entries> {
        match self.log_of(segment) {
            Some(log) => Some(&self.logs[log.index()].entries),
            None => self.summaries.get(segment),
        }
    }

    /// The summary of a segment: what [`super::Space::owner`] gives for each block.
    pub fn summaries(&self, device: &dyn Blocks, segment: SegmentIndex) -> Result<Entries> {
        match self.known_summaries(segment) {
            Some(entries) => Ok(entries.clone()),
            None => SummaryCache::read(device, segment, Some(self.sit.kind(segment).is_node())),
        }
    }

    /// Implements [`super::Space::pin`].
    pub fn pin(&mut self, addresses: &[BlockAddress]) {
        for &at in addresses {
            let Some((segment, block)) = self.geometry.main(at) else { continue };
            if !self.sit.hold(segment, block) {
                continue;
            }
            if let Some(log) = self.log_of(segment) {
                self.step_over(log, block);
            } else if self.free.take(segment) {
                self.dirty.locate(&self.sit, segment);
            }
        }
    }

    /// Moves a log to a free segment, whatever is left of its own, as roll-forward needs before it
    /// writes. Errors: `NoSpace`; then nothing has changed.
    pub fn move_log(&mut self, log: Log) -> Result<()> {
        let segment = self.find_free(log)?;
        self.switch(log, Next::Free(segment));
        Ok(())
    }

    /// Skips the log's next block if it was claimed by address or pinned; an appending log fills
    /// gaps from then on, so that it skips it.
    fn step_over(&mut self, log: Log, block: u16) {
        let open = &mut self.logs[log.index()];
        if block >= open.next {
            open.ssr = true;
            open.next = self.sit.next_usable(open.segment, open.next).unwrap_or(NO_BLOCK);
        }
    }

    /// Gives the log its next segment.
    pub(super) fn renew(&mut self, device: &dyn Blocks, log: Log) -> Result<()> {
        let chosen = self.choose(device, log)?;
        self.switch(log, chosen);
        Ok(())
    }

    #[cold]
    fn choose(&mut self, device: &dyn Blocks, log: Log) -> Result<Next> {
        let open = &self.logs[log.index()];
        let appends = log == Log::WarmNode && !self.options.crc_recovery
            || !open.ssr && self.free.following(open.segment).is_some();
        let plugs = log == Log::ColdData && self.options.plugs_holes;
        if let Some(segment) = self.emptied_for(log) {
            return Ok(Next::Free(segment));
        }
        if plugs || !appends && self.needs_ssr() {
            let segment = self.prepared_for(log).or_else(|| self.ssr_victim(log));
            if let Some(segment) = segment {
                let entries = match self.summaries.get(segment) {
                    Some(entries) => entries.clone(),
                    None => SummaryCache::read(device, segment, Some(log.is_node()))?,
                };
                return Ok(Next::Gaps(segment, entries));
            }
        }
        self.find_free(log).map(Next::Free)
    }

    fn find_free(&self, log: Log) -> Result<SegmentIndex> {
        let own = self.logs[log.index()].segment;
        let hint = if self.sit.per_section() > 1 {
            own
        } else if log == Log::HotData || log.is_node() {
            SegmentIndex(0)
        } else {
            self.data_hint.unwrap_or(if self.options.reuse { SegmentIndex(0) } else { own })
        };
        let zones = std::array::from_fn(|log| self.free.zone(self.logs[log].segment));
        self.free.find(hint, &zones).ok_or_else(|| {
            let prefree = self.dirty.prefree().count();
            let detail = format!(
                "no section is free for the {log} log; {prefree} segments become free with the next checkpoint"
            );
            FsError::new(ErrorKind::NoSpace, detail)
        })
    }

    /// The segment whose gaps a log fills next: of its own type first, then of the other data or
    /// node types; for warm and cold logs, colder ones first. The choice depends only on the
    /// tables; the search's cursor advances.
    pub fn ssr_victim(&mut self, log: Log) -> Option<SegmentIndex> {
        let (first, class) =
            if log.is_node() { (Log::HotNode, &Log::ALL[3..]) } else { (Log::HotData, &Log::ALL[..3]) };
        let mut others = [class[0], class[1], class[2]];
        if log != first {
            others.reverse();
        }
        let own = self.options.own_gaps && self.free.sections() > self.options.reserved_sections;
        let kinds = std::iter::once(log).chain(others.into_iter().filter(|&other| other != log && !own));
        kinds.into_iter().find_map(|kind| self.ssr_search(kind))
    }

    fn ssr_search(&mut self, kind: Log) -> Option<SegmentIndex> {
        let candidates = self.dirty.of(kind);
        let search = Search {
            candidates: candidates.marked(),
            unit: 1,
            start: (kind == Log::HotData || kind.is_node()).then_some(0),
            most: candidates.count().min(self.options.max_search),
            limit: u64::from(BLOCKS),
        };
        let mut cursor = self.greedy_cursor;
        let found = search.run(&mut cursor, &mut GapCosts(self));
        self.greedy_cursor = cursor;
        found.map(SegmentIndex)
    }

    /// Moves the log to the next segment.
    fn switch(&mut self, log: Log, next: Next) {
        let (segment, ssr, entries) = match next {
            Next::Free(segment) => (segment, false, ssa::blank()),
            Next::Gaps(segment, entries) => (segment, true, entries),
        };
        self.summaries.take(segment);
        self.held.retain(|held| held.segment != segment);
        self.emptied.taken(segment);
        self.dirty.take(&self.sit, segment);
        self.free.take(segment);
        self.sit.set_kind(segment, log);
        let next = if ssr { self.sit.next_usable(segment, 0).unwrap_or(NO_BLOCK) } else { 0 };
        let left = std::mem::replace(&mut self.logs[log.index()], OpenLog { segment, next, ssr, entries });
        self.summaries.put(left.segment, left.entries);
        self.locate(left.segment);
        self.usage.segment(log, ssr);
    }
}
