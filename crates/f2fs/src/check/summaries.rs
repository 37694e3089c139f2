//! Checks what the summaries say of each claimed block.
//!
//! Claims are collected and compared in ascending order, so that each summary block is read once
//! for many of them.

use std::collections::BTreeMap;

use nandkit_units::Cause;

use super::batch;
use super::report::{Draft, at, of};
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::findings::FindingKind;
use crate::ids::{Block, BlockAddress, NodeId, SegmentIndex};
use crate::layout::summary::SummaryView;
use crate::layout::{BLOCKS_PER_SEGMENT, Features, Geometry, SummaryEntry};

/// Claims collected before they are compared: 24 MiB.
const GATHERED: usize = 1 << 20;
/// The most wrong summaries and repeated claims remembered in detail; further ones are only
/// counted.
const REMEMBERED: usize = 1 << 16;

/// A use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub at: BlockAddress,
    /// The node that refers to the block; for a node, the node itself.
    pub nid: NodeId,
    /// The inode that the node belongs to.
    pub ino: NodeId,
    /// The index of the address in the node.
    pub index: u16,
    /// The node's version in the NAT.
    pub version: u8,
    pub is_node: bool,
}

impl Claim {
    fn is_named_by(&self, entry: &SummaryEntry) -> bool {
        let (nid, version, index) = (entry.nid.get(), entry.version, entry.index.get());
        // For nodes the other fields are zero and mean nothing.
        nid == self.nid.0 && (self.is_node || (version == self.version && index == self.index))
    }
}

/// Pending claims, and what was wrong with earlier ones.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    waiting: Vec<Claim>,
    /// First claims that do not match the summary, with the summary's entry.
    foreign: BTreeMap<BlockAddress, (Claim, SummaryEntry)>,
    foreign_more: u64,
    /// Second and later claims.
    again: Vec<Claim>,
    again_more: u64,
    /// Segments whose summary footer was reported as wrong.
    wrong_footers: BTreeMap<SegmentIndex, u8>,
}

impl Summaries {
    /// Adds the first claim of a block.
    pub fn add(&mut self, claim: Claim, blocks: &dyn Blocks, state: &CheckpointState, report: &mut Draft) {
        self.waiting.push(claim);
        if self.waiting.len() >= GATHERED {
            self.compare(blocks, state, report);
        }
    }

    /// Adds another claim of a block.
    pub fn add_again(&mut self, claim: Claim) {
        if self.again.len() < REMEMBERED {
            self.again.push(claim);
        } else {
            self.again_more += 1;
        }
    }

    /// Compares the pending claims.
    fn compare(&mut self, blocks: &dyn Blocks, state: &CheckpointState, report: &mut Draft) {
        let geometry = blocks.geometry();
        let mut claims = std::mem::take(&mut self.waiting);
        if geometry.features.has(Features::READ_ONLY) {
            return;
        }
        claims.sort_unstable_by_key(|claim| claim.at);
        let of_segment = |claim: &Claim| geometry.main(claim.at).map_or(SegmentIndex(0), |(segment, _)| segment);
        let mut groups = claims.chunk_by(|a, b| of_segment(a) == of_segment(b)).peekable();
        while groups.peek().is_some() {
            let groups: Vec<&[Claim]> = groups.by_ref().take(batch::BATCH).collect();
            let mut wanted = Vec::new();
            for group in groups {
                let Some(segment) = group.first().map(of_segment) else { continue };
                match state.logs.iter().position(|log| log.segment == segment) {
                    // The checkpoint holds the summaries of the logs' segments; those of node logs
                    // may be missing (f2fs.md, "Checkpoint pack").
                    Some(log) => {
                        if let Some(summary) = state.summaries.get(log).filter(|summary| !summary.entries.is_empty()) {
                            self.compare_segment(geometry, group, &summary.entries);
                        }
                    }
                    None => wanted.push((geometry.ssa(segment), (segment, group))),
                }
            }
            for had in batch::read(blocks, Cause::Metadata, wanted) {
                let (segment, group) = had.tag;
                match had.block {
                    Ok(block) => self.compare_block(geometry, segment, group, &block, report),
                    Err(error) => report
                        .fault(FindingKind::Unreadable, at(had.at), || format!("the summaries of {segment}: {error}")),
                }
            }
        }
    }

    fn compare_block(
        &mut self,
        geometry: &Geometry,
        segment: SegmentIndex,
        group: &[Claim],
        block: &Block,
        report: &mut Draft,
    ) {
        let view = SummaryView(geometry.summary_in(segment, block));
        let nodes = group.iter().filter(|claim| claim.is_node).count() * 2 > group.len();
        let kind = view.footer().map_or(0, |footer| footer.kind);
        if kind != u8::from(nodes)
            && self.wrong_footers.len() < REMEMBERED
            && self.wrong_footers.insert(segment, kind).is_none()
        {
            let what = if nodes { "nodes" } else { "data" };
            report.fault(FindingKind::Summary, at(geometry.ssa(segment)), || {
                format!("the summaries of {segment} are of kind {kind}; it holds {what}")
            });
        }
        let entries: Vec<SummaryEntry> = view.entries().collect();
        self.compare_segment(geometry, group, &entries);
    }

    fn compare_segment(&mut self, geometry: &Geometry, group: &[Claim], entries: &[SummaryEntry]) {
        for claim in group {
            let number = geometry.main(claim.at).map_or(0, |(_, block)| usize::from(block));
            let entry = entries.get(number).copied().unwrap_or_default();
            if claim.is_named_by(&entry) {
                continue;
            }
            if self.foreign.len() < REMEMBERED {
                self.foreign.insert(claim.at, (*claim, entry));
            } else {
                self.foreign_more += 1;
            }
        }
    }

    /// Compares the remaining claims and reports all faults: blocks with two owners, whose summary
    /// names the right one, and summaries that name none of the block's owners.
    pub fn finish(mut self, blocks: &dyn Blocks, state: &CheckpointState, report: &mut Draft) {
        self.compare(blocks, state, report);
        self.tell_owners(report);
        let mut by_segment: BTreeMap<u32, (u32, Claim, SummaryEntry)> = BTreeMap::new();
        for (here, (claim, entry)) in &self.foreign {
            let segment = here.0.wrapping_sub(blocks.geometry().main_address().0) / BLOCKS_PER_SEGMENT;
            by_segment.entry(segment).or_insert((0, *claim, *entry)).0 += 1;
        }
        for (segment, (number, claim, entry)) in by_segment {
            let (nid, version, index) = (entry.nid.get(), entry.version, entry.index.get());
            report.fault(FindingKind::Summary, of(claim.ino).at(claim.at), || {
                let segment = SegmentIndex(segment);
                format!(
                    "{number} summaries of {segment} are wrong, first that of this block: node {nid}, version {version}, index {index}; expected {}, version {}, index {}",
                    claim.nid, claim.version, claim.index
                )
            });
        }
        for (number, kind, what) in [
            (self.foreign_more, FindingKind::Summary, "summaries are wrong"),
            (self.again_more, FindingKind::Owners, "blocks have two owners"),
        ] {
            if number > 0 {
                report.fault(kind, super::report::WHOLE_VOLUME, || {
                    format!("{number} more {what}, not listed one by one")
                });
            }
        }
    }

    fn tell_owners(&mut self, report: &mut Draft) {
        let mut again = std::mem::take(&mut self.again);
        again.sort_by_key(|claim| (claim.at, claim.nid, claim.index));
        for claim in again {
            let first = self.foreign.get(&claim.at).copied();
            let wrong = match first {
                // The first claimant has no right to the block.
                Some((wrong, entry)) if claim.is_named_by(&entry) => {
                    self.foreign.remove(&claim.at);
                    wrong
                }
                _ => claim,
            };
            report.fault(FindingKind::Owners, of(wrong.ino).at(wrong.at), || match wrong.is_node {
                true => format!("{} is at a block that has another owner too", wrong.nid),
                false => format!("address {} of {} is a block that has another owner too", wrong.index, wrong.nid),
            });
        }
    }
}
