//! Rebuilding the map from the tags: the newest version of each page, wherever it lies.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, PageAddress};

use super::FastFtl;
use super::mount::LAYER;
use super::write::IN_PLACE;
use crate::base::{Doubt, Kind, ScannedBlock};
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{Role, Tag, TagRead, flag};

/// The newest version of a logical page.
#[derive(Clone, Copy, Debug, Default)]
struct Version {
    sequence: u64,
    /// Flash page + 1, or 0 for none.
    place: u64,
    /// The newest version says that the page has no content.
    tomb: bool,
}

/// What the tags say about the logical blocks.
struct Versions {
    np: u32,
    /// The pages of each logical block with content.
    pages: Vec<Option<Box<[Version]>>>,
    /// For each logical block: the newest merged block, as its block + 1 and the sequence number of
    /// its first copy. It voids all older versions of the logical block's pages, including those of
    /// pages that were trimmed at the merge.
    merged: Vec<(u32, u64)>,
    /// For each logical block: the newest block that was written page by page and holds every page.
    /// Older blocks no longer count.
    covering: BTreeMap<u32, (u64, u32)>,
    /// For each logical block: whether it must be merged because one of its blocks may hold a torn
    /// page.
    doubtful: Vec<bool>,
    poisoned: BTreeSet<(u32, u32)>,
    /// Blocks that hold pages of a single logical block, each at its offset, as (logical block,
    /// block).
    in_place: BTreeSet<(u32, u32)>,
}

impl Versions {
    fn new(lbns: u32, np: u32) -> Self {
        let lbns = lbns as usize;
        Self {
            np,
            pages: vec![None; lbns],
            merged: vec![(0, 0); lbns],
            covering: BTreeMap::new(),
            doubtful: vec![false; lbns],
            poisoned: BTreeSet::new(),
            in_place: BTreeSet::new(),
        }
    }

    fn floor(&self, lbn: u32) -> u64 {
        self.merged.get(lbn as usize).map_or(u64::MAX, |(_, floor)| *floor)
    }

    fn doubt(&mut self, lbn: u32) {
        if let Some(doubtful) = self.doubtful.get_mut(lbn as usize) {
            *doubtful = true;
        }
    }

    /// Records a version if it is the newest so far.
    fn enter(&mut self, lbn: u32, offset: u32, sequence: u64, at: PageAddress, flags: u8) {
        if offset >= self.np {
            return;
        }
        let np = self.np as usize;
        let Some(pages) = self.pages.get_mut(lbn as usize) else { return };
        let pages = pages.get_or_insert_with(|| vec![Version::default(); np].into_boxed_slice());
        let newer = |version: &&mut Version| version.sequence < sequence;
        let Some(version) = pages.get_mut(offset as usize).filter(newer) else { return };
        version.sequence = sequence;
        let place = u64::from(at.block.0) * u64::from(self.np) + u64::from(at.page) + 1;
        (version.place, version.tomb) = (place, flags & flag::TOMB != 0);
        if flags & flag::POISON != 0 {
            self.poisoned.insert((lbn, offset));
        } else {
            self.poisoned.remove(&(lbn, offset));
        }
    }

    /// The candidate for the data block, and whether it holds all current pages, each at its
    /// offset.
    fn home(&self, lbn: u32) -> Option<(u32, bool)> {
        let merged = self.merged.get(lbn as usize).and_then(|merged| merged.0.checked_sub(1));
        let merged = self.covering.get(&lbn).map(|(_, block)| *block).or(merged);
        let Some((_, first, _)) = self.of(lbn).next() else { return merged.map(|block| (block, true)) };
        let home = first.block.0;
        let together = self.of(lbn).all(|(offset, at, _)| at == BlockIndex(home).page(offset));
        // Only a block that covers every page may replace a merged block, which also voids older
        // versions of trimmed pages.
        let covers = merged.is_none_or(|merged| merged == home) || self.of(lbn).count() == self.np as usize;
        if together && covers && self.in_place.contains(&(lbn, home)) {
            return Some((home, true));
        }
        Some((merged.unwrap_or(home), false))
    }

    /// The newest versions of a logical block's pages: offset, address, and whether the page has no
    /// content.
    fn of(&self, lbn: u32) -> impl Iterator<Item = (u32, PageAddress, bool)> + '_ {
        let np = self.np;
        let pages = self.pages.get(lbn as usize).and_then(Option::as_deref).unwrap_or_default();
        (0u32..).zip(pages).filter_map(move |(offset, version)| {
            let place = version.place.checked_sub(1)?;
            let np = u64::from(np);
            Some((offset, BlockIndex((place / np) as u32).page((place % np) as u32), version.tomb))
        })
    }
}

impl<F: Flash> FastFtl<F> {
    /// Rebuilds the map, merges what the logs hold, and writes the record that the device is open.
    pub(super) fn recover(&mut self, chain: &mut Chain) -> LayerResult<()> {
        let found = self.base.scan(chain)?;
        let marks = self.base.pending_marks(chain, &found)?;
        self.base.check_owner(chain, &found, LAYER)?;
        let doubt = Doubt::new(&found, &marks);
        self.report.clean = doubt.clean;
        self.report.empty = doubt.newest == 0 && doubt.clean;
        self.base.sequence = doubt.newest + (1 << 16);
        let versions = self.versions(chain, &found, &doubt)?;
        let (live, mixed) = self.load(&versions, &doubt);
        self.base.fill_pool(&found, &doubt, live.iter().copied());
        match self.repair(chain, &doubt, &versions, &live, &mixed) {
            // Only complete changes were made. Existing data stay readable.
            Err(Failure::Full) => self.base.halt_full(),
            done => done?,
        }
        self.base.held.clear();
        Ok(())
    }

    /// Whether the block is the result of a merge beyond doubt.
    fn is_merged(found: &ScannedBlock, doubt: &Doubt) -> bool {
        let whole = found.first == Role::DataCopy || (found.first == Role::Host && found.in_place && found.last_seen);
        whole && doubt.suspect != Some(found.block)
    }

    fn versions(&mut self, chain: &mut Chain, found: &[ScannedBlock], doubt: &Doubt) -> LayerResult<Versions> {
        let mut versions = Versions::new(self.base.shape.lbns, self.base.shape.np);
        let members = || found.iter().filter(|f| f.kind == Kind::Member && !doubt.is_dead(f.block));
        for f in members().filter(|f| Self::is_merged(f, doubt)) {
            let first_copy = self.first_copy(chain, f)?;
            if let Some(merged) = versions.merged.get_mut(f.lbn as usize).filter(|merged| merged.1 < first_copy) {
                *merged = (f.block + 1, first_copy);
            }
        }
        for f in members() {
            let newest_merged = versions.merged.get(f.lbn as usize).is_some_and(|merged| merged.0 == f.block + 1);
            if Self::is_merged(f, doubt) {
                if newest_merged {
                    self.enter_merged(chain, f, &mut versions)?;
                }
            } else {
                self.enter_log(chain, f, doubt, &mut versions)?;
            }
        }
        Ok(versions)
    }

    fn first_copy(&mut self, chain: &mut Chain, found: &ScannedBlock) -> LayerResult<u64> {
        for page in 0..found.programmed {
            let read = self.base.read_tag(chain, BlockIndex(found.block).page(page))?;
            if let TagRead::Valid(Tag { role: Role::DataCopy, sequence, .. }) = read {
                return Ok(sequence);
            }
        }
        Ok(found.newest)
    }

    /// Enters a merged block, whose content counts from its first copy on.
    fn enter_merged(&mut self, chain: &mut Chain, found: &ScannedBlock, versions: &mut Versions) -> LayerResult<()> {
        let floor = versions.floor(found.lbn);
        versions.in_place.insert((found.lbn, found.block));
        for page in 0..found.programmed {
            let at = BlockIndex(found.block).page(page);
            let flags = match found.full {
                true => 0,
                false => match self.base.read_tag(chain, at)? {
                    TagRead::Valid(tag) => tag.flags,
                    // The page is lost, and reads will report it.
                    TagRead::Bad => 0,
                    TagRead::Blank => break,
                },
            };
            versions.enter(found.lbn, page, floor, at, flags);
        }
        Ok(())
    }

    /// Enters a block that was written page by page.
    fn enter_log(
        &mut self,
        chain: &mut Chain,
        found: &ScannedBlock,
        doubt: &Doubt,
        versions: &mut Versions,
    ) -> LayerResult<()> {
        let suspect = doubt.suspect == Some(found.block);
        let (mut before, mut in_place) = (None, 0);
        for page in 0..found.programmed {
            let at = BlockIndex(found.block).page(page);
            let last = page + 1 == found.programmed;
            let tag = if last && suspect {
                // The page may read differently next time: read it once, and hold it (rule 12).
                self.base.hold_page(chain, at)?
            } else {
                match self.base.read_tag(chain, at)? {
                    TagRead::Valid(tag) => Some(tag),
                    TagRead::Blank | TagRead::Bad => None,
                }
            };
            match tag {
                Some(tag) => {
                    if tag.has(IN_PLACE) && before.is_none() {
                        versions.in_place.insert((tag.block, found.block));
                    }
                    before = Some(tag);
                    in_place += u32::from(tag.has(IN_PLACE) && tag.offset == page);
                    if suspect {
                        versions.doubt(tag.block);
                    }
                    if tag.block < self.base.shape.lbns && tag.sequence > versions.floor(tag.block) {
                        versions.enter(tag.block, tag.offset, tag.sequence, at, tag.flags);
                    }
                }
                None if last => {
                    self.report.torn_pages += 1;
                    if let Some(before) = before {
                        versions.doubt(before.block);
                    }
                }
                None => {
                    self.report.lost_updates += 1;
                    // The offset is known because the page lies in place: it is lost, and reads
                    // will report it.
                    if let Some(before) =
                        before.filter(|tag| tag.has(IN_PLACE) && tag.sequence > versions.floor(tag.block))
                    {
                        versions.enter(before.block, page, before.sequence, at, 0);
                    }
                }
            }
        }
        if in_place == self.base.shape.np && !suspect && found.newest > versions.floor(found.lbn) {
            let covering = versions.covering.entry(found.lbn).or_default();
            *covering = (*covering).max((found.newest, found.block));
        }
        Ok(())
    }

    /// Fills the map. Returns the blocks with current content, and the logical blocks that must be
    /// merged.
    fn load(&mut self, versions: &Versions, doubt: &Doubt) -> (Vec<u32>, Vec<u32>) {
        let (mut live, mut mixed) = (Vec::new(), Vec::new());
        for &(lbn, offset) in &versions.poisoned {
            self.state.set_poisoned(lbn, offset, true);
        }
        for lbn in 0..self.base.shape.lbns {
            for (offset, at, tomb) in versions.of(lbn) {
                self.state.present.set(lbn, offset, !tomb);
                self.state.set_entry(self.state.page(lbn, offset), Some(at));
                live.push(at.block.0);
            }
            let doubtful = versions.doubtful.get(lbn as usize) == Some(&true);
            match versions.home(lbn) {
                None => {}
                Some((home, true)) if !doubtful && doubt.suspect != Some(home) => {
                    live.push(home);
                    self.state.clear_entries(lbn);
                    self.state.set_data(lbn, Some(home), self.state.np);
                }
                Some((home, _)) => {
                    // Kept until the merge, because it tells which older versions are void.
                    live.push(home);
                    mixed.push(lbn);
                }
            }
        }
        live.sort_unstable();
        live.dedup();
        (live, mixed)
    }

    /// Rules 15 to 17: merges every logical block whose pages are scattered or in doubt, the
    /// suspect's first.
    fn repair(
        &mut self,
        chain: &mut Chain,
        doubt: &Doubt,
        versions: &Versions,
        live: &[u32],
        mixed: &[u32],
    ) -> LayerResult<()> {
        self.report.erased_blocks = self.base.begin_repair(chain, doubt)?;
        let mut order = mixed.to_vec();
        order.sort_by_key(|lbn| (versions.doubtful.get(*lbn as usize) != Some(&true), *lbn));
        for lbn in order {
            self.report.rewritten_logs += 1;
            self.full_merge(chain, lbn, None)?;
            // Blocks that only this logical block uses.
            let own = versions
                .in_place
                .range((lbn, 0)..=(lbn, u32::MAX))
                .filter(|(_, block)| live.binary_search(block).is_ok());
            own.for_each(|(_, block)| self.base.release(*block));
        }
        let in_place: BTreeSet<u32> = versions.in_place.iter().map(|(_, block)| *block).collect();
        live.iter().filter(|block| !in_place.contains(block)).for_each(|block| self.base.release(*block));
        self.base.finish_repair(chain, doubt, LAYER)
    }
}
