//! Gathers whole files in idle time (future work in P3). [`nandkit_cleaning::gather`] chooses;
//! moving works as in the collector, for the pages of a file instead of those of a segment.

use nandkit_block::BlockDevice;
use nandkit_cleaning::gather::{Candidate, GatherCosts, Gathering, Window, choose, decide};
use nandkit_vfs::{ErrorKind, FileKind, Result};

use super::WritableVolume;
use super::read_counts::ReadCounts;
use super::tree::Slot;
use crate::blocks::Blocks;
use crate::clean::collect::carry;
use crate::clean::mover::{BlockMover, CopyMover, LiveBlock, RemapMover};
use crate::device::Pair;
use crate::ids::{BlockAddress, Log, NodeId};
use crate::inode::Inode;
use crate::layout::inode::inline;
use crate::runs::run_at;
use crate::segments::{Space, SpaceOn, Summary};

/// Pages per window: one segment.
const WINDOW: u64 = 512;
/// Files considered per round: those read most.
const FILES: usize = 64;
/// Gathering stops when this many free sections beside the reserve are left: one for each log.
const SPARE_SECTIONS: u32 = 6;

/// Options for gathering files.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherOptions {
    /// What reads, requests and remaps cost on the volume's device.
    pub costs: GatherCosts,
    /// The most pages moved between two checkpoints.
    pub budget: u32,
}

/// State of the gathering.
#[derive(Debug)]
pub(crate) struct Gather {
    options: GatherOptions,
    /// The pages that may still be moved before the next checkpoint, with the version of the last
    /// one.
    left: (u64, u32),
}

/// Counts of one round of gathering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Windows that were moved.
    pub windows: u32,
    /// Pages that were remapped.
    pub remapped: u32,
    /// Pages that were copied.
    pub copied: u32,
}

/// The allocated pages of a window and their blocks.
struct Placed {
    pages: Vec<(u64, BlockAddress)>,
    runs: Vec<u32>,
}

/// Treats inconsistent data as absent; the check reports it. A failing device remains an error.
fn or_none<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == ErrorKind::Device => Err(error),
        Err(_) => Ok(None),
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Enables gathering in idle time, weighted by how often files are read; `None` disables it.
    pub fn set_gather(&mut self, options: Option<GatherOptions>) {
        if options.is_some() {
            self.count_reads();
        }
        self.writer.gather = options.map(|options| Gather { options, left: (0, 0) });
    }

    /// Starts counting reads per file.
    pub(super) fn count_reads(&mut self) {
        self.writer.reads.get_or_insert_with(ReadCounts::default);
    }

    /// Runs one round: considers the most-read files and gathers the most valuable windows within
    /// the budget. Reads of earlier rounds count half each time. Does nothing while logs fill gaps
    /// or free sections are few. Errors: those of a collection. Cost: a pass over the addresses of
    /// at most 64 files, and the moves.
    pub fn gather_files(&mut self) -> Result<Gathered> {
        self.expect_running()?;
        let version = self.state.head.version.get();
        let Some(gather) = &mut self.writer.gather else { return Ok(Gathered::default()) };
        if gather.left.0 != version {
            gather.left = (version, gather.options.budget);
        }
        let (budget, costs) = (gather.left.1, gather.options.costs.clone());
        let reads = self.writer.reads.as_ref().map(|reads| reads.most_read(FILES)).unwrap_or_default();
        if budget == 0 || reads.is_empty() || !self.has_room_to_gather(0) {
            return Ok(Gathered::default());
        }
        self.balance()?;
        let mut candidates = Vec::new();
        for (inode, bytes) in reads {
            self.candidates_of(inode, bytes, &costs, &mut candidates)?;
        }
        let mut gathered = Gathered::default();
        for candidate in choose(candidates, budget) {
            if !self.has_room_to_gather(candidate.pages) {
                break;
            }
            let moved = self.gather_window(&candidate);
            let (remapped, copied) = match self.or_stop(moved) {
                Ok(moved) => moved,
                Err(error) if error.kind == ErrorKind::NoSpace => break,
                Err(error) => return Err(error),
            };
            gathered.windows += 1;
            gathered.remapped += remapped;
            gathered.copied += copied;
        }
        if let Some(gather) = &mut self.writer.gather {
            let spent = gathered.remapped + gathered.copied;
            gather.left = (version, budget.saturating_sub(spent));
        }
        self.writer.reads.iter().for_each(ReadCounts::fade);
        self.writer.counters.gathered([gathered.windows, gathered.remapped, gathered.copied]);
        Ok(gathered)
    }

    fn has_room_to_gather(&mut self, pages: u32) -> bool {
        let segments = &self.writer.segments;
        let sections = pages.div_ceil(segments.section_blocks().max(1));
        let kept = segments.options.reserved_sections + segments.options.min_ssr_sections + SPARE_SECTIONS;
        !segments.needs_ssr() && segments.free_map().sections() > kept + sections
    }

    /// Collects the windows of a file that are worth gathering; none if its pages may not be moved.
    fn candidates_of(
        &mut self,
        file: NodeId,
        bytes: u64,
        costs: &GatherCosts,
        into: &mut Vec<Candidate>,
    ) -> Result<()> {
        // The file may have been removed.
        let Ok(inode) = self.inode_at(file) else { return Ok(()) };
        if !self.may_be_gathered(&inode) {
            return Ok(());
        }
        let block = self.geometry().block_size() as u64;
        let reads = bytes as f64 / inode.head.size.get().max(1) as f64;
        let mut offset = 0;
        while let Some(first) = or_none(self.data_after(&inode, offset))?.flatten() {
            let page = first.start / block / WINDOW * WINDOW;
            offset = (page + WINDOW).saturating_mul(block);
            let Some(placed) = or_none(self.placed(&inode, page, WINDOW))? else { break };
            let count = placed.pages.len() as u32;
            if count < 2 {
                continue;
            }
            let places: Vec<_> = placed.pages.iter().map(|(_, at)| self.device.placement(*at)).collect();
            let dies: Vec<Option<u32>> = places.iter().map(|place| place.map(|place| place.die)).collect();
            let of_dies = places.iter().flatten().next().map_or(0, |place| place.dies);
            let decision = decide(&Window { runs: &placed.runs, dies: &dies, of_dies }, reads, costs);
            if decision.gathering != Gathering::Leave {
                into.push(Candidate { file: file.0.into(), page, pages: count, decision });
            }
        }
        Ok(())
    }

    fn may_be_gathered(&self, inode: &Inode) -> bool {
        inode.kind == FileKind::Regular
            && inode.inline_data().is_none()
            && !inode.is_compressed()
            && !inode.is_device_alias()
            && !inode.head.has_inline(inline::PINNED)
            && self.drafted(inode.nid).is_none()
            && inode.head.links.get() > 0
    }

    /// The locations of the pages that are on the device, and the number of runs they form.
    fn placed(&self, inode: &Inode, first: u64, count: u64) -> Result<Placed> {
        let mut placed = Placed { pages: Vec::new(), runs: Vec::new() };
        let (mut page, end) = (first, first + count);
        while page < end {
            let run = run_at(self, inode, page, end - page)?;
            let pages = run.pages.clamp(1, end - page);
            if let Some(at) = run.at {
                let follows = placed.pages.last().is_some_and(|(last, block)| last + 1 == page && block.0 + 1 == at.0);
                match placed.runs.last_mut() {
                    Some(run) if follows => *run += pages as u32,
                    _ => placed.runs.push(pages as u32),
                }
                placed.pages.extend((0..pages).map(|n| (page + n, BlockAddress(at.0 + n as u32))));
            }
            page += pages;
        }
        Ok(placed)
    }

    /// Moves a window. Returns the numbers of pages remapped and copied.
    fn gather_window(&mut self, candidate: &Candidate) -> Result<(u32, u32)> {
        let inode = self.inode_at(NodeId(candidate.file as u32))?;
        let placed = self.placed(&inode, candidate.page, WINDOW)?;
        let mut leaf: Option<(u64, Slot, u8)> = None;
        let mut live = Vec::with_capacity(placed.pages.len());
        for (page, from) in placed.pages {
            let (slot, version) = self.leaf_of(&inode, page, &mut leaf)?;
            let owner = Summary { nid: slot.nid, version, offset: slot.index };
            let in_use = self.geometry().main(from);
            let in_use = in_use.is_some_and(|(segment, block)| self.writer.segments.sit().is_valid(segment, block));
            let Some(page) = u32::try_from(page).ok().filter(|_| in_use) else { continue };
            live.push(LiveBlock { from, inode: inode.nid, page, owner });
        }
        let now = self.elapsed_seconds();
        let mut pairs: Vec<Pair> = Vec::with_capacity(live.len());
        for block in &live {
            let mut space = SpaceOn { segments: &mut self.writer.segments, device: &self.device };
            match space.allocate(Log::ColdData, block.owner, now) {
                Ok(to) => pairs.push((block.from, to.at)),
                Err(error) => {
                    pairs.iter().for_each(|&(_, to)| self.writer.segments.free(to, now));
                    return Err(error);
                }
            }
        }
        let (mut remaps, mut copies) = (RemapMover::as_they_lie(), CopyMover);
        let mover: &mut dyn BlockMover =
            if candidate.decision.gathering == Gathering::Remap { &mut remaps } else { &mut copies };
        let mut mapped = Vec::new();
        carry(self, mover, (&live, &pairs), &mut |_, source| mapped.extend(source))?;
        let remapped = mapped.len() as u32;
        self.writer.mapped.extend(mapped);
        Ok((remapped, live.len() as u32 - remapped))
    }
}
