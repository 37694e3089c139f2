//! Moves pages of files into another file by the device's remapping (P3; docs/design/10-f2fs.md,
//! "Doors").
//!
//! The order: check everything that can be refused; reserve addresses for the target's pages;
//! allocate blocks from the log that a write-back would use; let the device share; only then point
//! the target's map at the new blocks. A block in the last checkpoint is never allocated before the
//! next one, so sharing harms nothing that a power cut could bring back.

use std::collections::BTreeSet;
use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{AdoptedRange, ErrorKind, FsError, Result};

use super::WritableVolume;
use super::back::Why;
use super::tree::Slot;
use crate::blocks::{Blocks, Nodes};
use crate::ids::{BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::inode::advise;
use crate::layout::word;
use crate::runs::run_at;
use crate::segments::Summary;
use crate::segments::classes::DataFacts;

/// Consecutive pages of the target, and the first of the adjacent blocks that hold the source's
/// content; `None` for a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub page: u64,
    pub pages: u64,
    pub from: Option<BlockAddress>,
}

/// A source block and the block allocated for a page of the target.
#[derive(Clone, Copy, Debug)]
struct Pair {
    slot: Slot,
    from: BlockAddress,
    to: BlockAddress,
}

#[cold]
fn refused(kind: ErrorKind, detail: String) -> FsError {
    FsError::new(kind, detail)
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Whether the device can remap single blocks.
    pub(crate) fn can_adopt(&mut self) -> bool {
        self.device.remap_units().is_some_and(|units| units.blocks == 1)
    }

    /// Implements [`nandkit_vfs::Adopt::adopt`]; the caller sets times.
    pub(crate) fn adopt_places(&mut self, target: NodeId, places: &[AdoptedRange]) -> Result<()> {
        self.expect_running()?;
        if !self.can_adopt() {
            return Err(refused(ErrorKind::NotSupported, "the volume's device cannot remap single blocks".into()));
        }
        self.balance()?;
        let sources = self.expect_places(target, places)?;
        self.write_back(&sources, Why::BACKGROUND)?;
        self.drop_unwritten(&self.inode_at(target)?)?;
        self.convert_inline(target)?;
        let (size, longest) =
            (self.inode_at(target)?.head.size.get(), places.iter().map(|place| place.offset + place.length).max());
        if longest.is_some_and(|end| end > size) {
            self.clear_behind(target, size)?;
        }
        // The last step that may collect, discard or make a checkpoint: addresses stay valid from
        // here on.
        self.balance()?;
        let (runs, end) = self.runs_of(places)?;
        self.expect_room(target, &runs)?;
        let reserved = self.reserve_for(target, &runs)?;
        let pairs = match self.pair_up(target, &runs) {
            Ok(pairs) => pairs,
            Err(error) => {
                self.unreserve(target, &reserved)?;
                return Err(error);
            }
        };
        if let Err(error) = self.share(&pairs) {
            self.unreserve(target, &reserved)?;
            return Err(error);
        }
        let taken = self.take_pairs(target, &runs, &pairs);
        self.or_stop(taken)?;
        // Roll-forward would recover an fsync's nodes one by one, without knowing whether the
        // device shared every block.
        self.writer.since_checkpoint.pruned(target);
        self.edit_head(target, |head| {
            if head.size.get() < end {
                head.size = end.into();
            }
        })
    }

    /// Refuses unsuitable ranges. Returns the source inodes.
    fn expect_places(&self, target: NodeId, places: &[AdoptedRange]) -> Result<Vec<NodeId>> {
        let file = self.inode_at(target)?;
        self.expect_writable(&file)?;
        let unit = self.geometry().block_size() as u64;
        let wrong = |detail: String| Err(refused(ErrorKind::InvalidArgument, detail));
        let mut sources = BTreeSet::new();
        let mut taken: Vec<Range<u64>> = Vec::with_capacity(places.len());
        for place in places {
            let source = self.regular(place.source)?;
            let number = source.nid.0;
            if source.nid == target {
                return wrong(format!("inode {number} is source and target"));
            }
            if source.inline_data().is_some() && source.head.size.get() > 0 {
                let detail = format!("the content of inode {number} is inline and has no page; read it instead");
                return Err(refused(ErrorKind::NotSupported, detail));
            }
            self.expect_no_draft(source.nid)?;
            self.expect_writable(&source)?;
            let (end, source_end) =
                (place.offset.checked_add(place.length), place.source_offset.checked_add(place.length));
            let (Some(end), Some(source_end)) = (end, source_end) else {
                return wrong(format!("{} bytes at {}: past the largest file size", place.length, place.offset));
            };
            self.expect_size(&file, end)?;
            let aligned = place.offset.is_multiple_of(unit) && place.source_offset.is_multiple_of(unit);
            if !aligned || !place.length.is_multiple_of(unit) && end < file.head.size.get() || place.length == 0 {
                return wrong(format!(
                    "{} bytes from {} of inode {number} to {}; expected whole pages of {unit}",
                    place.length, place.source_offset, place.offset
                ));
            }
            if source_end.div_ceil(unit) > source.head.size.get().div_ceil(unit) {
                let size = source.head.size;
                return wrong(format!("up to byte {source_end} of inode {number}, whose size is {size}"));
            }
            sources.insert(source.nid);
            taken.push(place.offset..end.div_ceil(unit).saturating_mul(unit));
        }
        taken.sort_unstable_by_key(|range| range.start);
        if taken.windows(2).any(|pair| matches!(pair, [one, other] if one.end > other.start)) {
            return wrong("two ranges of the target overlap".into());
        }
        Ok(sources.into_iter().collect())
    }

    /// The runs of the ranges, and the target's size with them.
    fn runs_of(&self, places: &[AdoptedRange]) -> Result<(Vec<Run>, u64)> {
        let unit = self.geometry().block_size() as u64;
        let (mut runs, mut end) = (Vec::new(), 0);
        for place in places {
            let source = self.regular(place.source)?;
            let (mut page, mut from) = (place.offset / unit, place.source_offset / unit);
            let mut left = place.length.div_ceil(unit);
            end = end.max(place.offset + place.length);
            while left > 0 {
                let run = run_at(self, &source, from, left)?;
                let pages = run.pages.clamp(1, left);
                self.expect_in_use(&source, run.at, pages)?;
                runs.push(Run { page, pages, from: run.at });
                (page, from, left) = (page + pages, from + pages, left - pages);
            }
        }
        Ok((runs, end))
    }

    /// Refuses a source block that the SIT calls free: it might be allocated for the target.
    /// Errors: `Corrupt`.
    fn expect_in_use(&self, source: &Inode, at: Option<BlockAddress>, pages: u64) -> Result<()> {
        let Some(at) = at else { return Ok(()) };
        for block in (at.0..).take(pages as usize).map(BlockAddress) {
            let place = self.geometry().main(block);
            if !place.is_some_and(|(segment, block)| self.writer.segments.sit().is_valid(segment, block)) {
                let detail = format!("a page is at {block}, which is free");
                let finding = crate::Defect::new(crate::FindingKind::Address, detail);
                return Err(finding.of(source.nid).into_error());
            }
        }
        Ok(())
    }

    /// Makes sure that there is room for all blocks and their nodes without collecting in between.
    /// Errors: `NoSpace`, before any change.
    fn expect_room(&mut self, target: NodeId, runs: &[Run]) -> Result<()> {
        let inode = self.inode_at(target)?;
        let mut pages: Vec<Range<u64>> = Vec::new();
        for run in runs.iter().filter(|run| run.from.is_some()) {
            match pages.last_mut() {
                Some(last) if last.end == run.page => last.end += run.pages,
                _ => pages.push(run.page..run.page + run.pages),
            }
        }
        let mut charged = 0;
        for pages in pages {
            charged += self.blocks_needed(&inode, pages.start, pages.end)?;
        }
        let free = self.writer.segments.space.free_blocks();
        if charged > free {
            return Err(refused(ErrorKind::NoSpace, format!("{charged} blocks are needed and {free} are free")));
        }
        let blocks: u64 = runs.iter().filter(|run| run.from.is_some()).map(|run| run.pages).sum();
        let per_section = u64::from(self.writer.segments.section_blocks());
        // Keep the reserve and the sections that all dirty pages may take.
        let kept = u64::from(self.writer.segments.options.reserved_sections) + 6;
        let sections = u64::from(self.writer.segments.free_map().sections()).saturating_sub(kept);
        let at_once = sections * per_section;
        // Room left in the logs' sections is ignored, except that a few pages always fit.
        if blocks > at_once.max(per_section / 2) {
            let detail = format!("{blocks} blocks at once; the free sections beside the reserve have {at_once}");
            return Err(refused(ErrorKind::NoSpace, detail));
        }
        Ok(())
    }

    /// Reserves addresses for pages of the target. Returns the pages that had none. Errors:
    /// `NoSpace`, `Device`; the reserved pages become holes again.
    pub(super) fn reserve_for(&mut self, target: NodeId, runs: &[Run]) -> Result<Vec<Range<u64>>> {
        let mut reserved = Vec::new();
        for run in runs.iter().filter(|run| run.from.is_some()) {
            let holes = self.holes_of(target, run)?;
            reserved.extend(holes);
            let had = self.reserve(target, run.page, run.pages);
            if had.as_ref().is_ok_and(|had| *had == run.pages) {
                continue;
            }
            self.unreserve(target, &reserved)?;
            had?;
            return Err(refused(ErrorKind::NoSpace, format!("no block is free for inode {}", target.0)));
        }
        Ok(reserved)
    }

    /// The pages of a run that are holes in the target.
    fn holes_of(&self, target: NodeId, run: &Run) -> Result<Vec<Range<u64>>> {
        let inode = self.inode_at(target)?;
        let (mut page, end, mut holes) = (run.page, run.page + run.pages, Vec::new());
        while page < end {
            let found = run_at(self, &inode, page, end - page)?;
            let behind = page + found.pages.clamp(1, end - page);
            if found.is_hole {
                holes.push(page..behind);
            }
            page = behind;
        }
        Ok(holes)
    }

    pub(super) fn unreserve(&mut self, target: NodeId, pages: &[Range<u64>]) -> Result<()> {
        pages.iter().try_for_each(|pages| self.free_pages(target, pages.start, pages.end))
    }

    /// Allocates a block for each page. Errors: `NoSpace`, `Device`; then none stays allocated.
    fn pair_up(&mut self, target: NodeId, runs: &[Run]) -> Result<Vec<Pair>> {
        let inode = self.inode_at(target)?;
        let pages: u64 = runs.iter().filter(|run| run.from.is_some()).map(|run| run.pages).sum();
        let log = self.writer.options.logs.of_data(DataFacts {
            cold: inode.head.has_advise(advise::COLD),
            hot: inode.head.has_advise(advise::HOT) || pages <= crate::pages::HOT_PAGES as u64,
            ..DataFacts::default()
        });
        let now = self.elapsed_seconds();
        let mut pairs = Vec::with_capacity(pages as usize);
        let mut leaf: Option<(u64, Slot, u8)> = None;
        for run in runs {
            let Some(from) = run.from else { continue };
            for number in 0..run.pages {
                let page = run.page + number;
                let placed = self.leaf_of(&inode, page, &mut leaf).and_then(|(slot, version)| {
                    let owner = Summary { nid: slot.nid, version, offset: slot.index };
                    Ok((slot, self.writer.segments.allocate(&self.device, log, owner, now)?.at))
                });
                match placed {
                    Ok((slot, to)) => {
                        pairs.push(Pair { slot, from: BlockAddress(from.0 + number as u32), to });
                    }
                    Err(error) => {
                        self.give_back(&pairs, 0);
                        return Err(error);
                    }
                }
            }
        }
        Ok(pairs)
    }

    /// The slot of a page's address and the version of its node; `leaf` caches the last node looked
    /// up.
    pub(super) fn leaf_of(&self, inode: &Inode, page: u64, leaf: &mut Option<(u64, Slot, u8)>) -> Result<(Slot, u8)> {
        let known = leaf.filter(|(first, slot, _)| page >= *first && page - first < u64::from(slot.count));
        let (first, slot, version) = match known {
            Some(known) => known,
            None => {
                let slot = self.slot(inode, page)?.ok_or_else(|| {
                    let detail = format!("page {page} of inode {} has no address", inode.nid.0);
                    refused(ErrorKind::Corrupt, detail)
                })?;
                (page, slot, self.entry(slot.nid)?.version)
            }
        };
        *leaf = Some((first, slot, version));
        Ok((slot.ahead((page - first) as u16), version))
    }

    /// Lets the device share all pairs. Errors: `Device`; then the blocks are freed and the device
    /// is told.
    fn share(&mut self, pairs: &[Pair]) -> Result<()> {
        let most = self.device.remap_units().map_or(1, |units| units.pairs_max);
        for (number, command) in pairs.chunks(most).enumerate() {
            let addresses: Vec<_> = command.iter().map(|pair| (pair.from, pair.to)).collect();
            if let Err(error) = self.device.share(Cause::UserData, &addresses) {
                self.give_back(pairs, number * most);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Frees allocated blocks after a failure; the device already maps the first `shared` of them.
    fn give_back(&mut self, pairs: &[Pair], shared: usize) {
        let now = self.elapsed_seconds();
        self.writer.mapped.extend(pairs.iter().take(shared).map(|pair| pair.to));
        pairs.iter().for_each(|pair| self.writer.segments.free(pair.to, now));
    }

    /// Points the target's map at the new blocks; blocks that it had there become free with the
    /// next checkpoint.
    fn take_pairs(&mut self, target: NodeId, runs: &[Run], pairs: &[Pair]) -> Result<()> {
        let narrow = |page: u64| u32::try_from(page).unwrap_or(u32::MAX);
        for run in runs {
            self.writer.pages().punch(target, narrow(run.page)..narrow(run.page + run.pages));
            if run.from.is_none() {
                self.free_pages(target, run.page, run.page + run.pages)?;
            }
        }
        let now = self.elapsed_seconds();
        for pair in pairs {
            let old = DataAddress::of(word(&self.node(pair.slot.nid)?, pair.slot.byte).unwrap_or(0));
            self.set_address(target, &pair.slot, DataAddress::At(pair.to))?;
            if let DataAddress::At(old) = old {
                self.writer.segments.free(old, now);
            }
        }
        Ok(())
    }
}
