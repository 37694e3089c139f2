//! Node blocks that are valid in the SIT, and what NAT and summaries say of them.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;

use crate::check::Check;
use crate::check::batch::{self, BATCH};
use crate::checkpoint_state::SummaryBlock;
use crate::ids::{Block, BlockAddress, DataAddress, NodeId, SegmentIndex};
use crate::layout::summary::SummaryView;
use crate::layout::{Features, Footer, Geometry, NodeOffset, SummaryEntry};

/// What a block's summary says of the node in its footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Witness {
    /// The summary names data of another node: file data may look like a node.
    Denies,
    Silent,
    /// The summary names this node.
    Confirms,
}

/// A node block that is valid in the SIT but that the NAT does not refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandingNode {
    pub nid: NodeId,
    pub at: BlockAddress,
    pub ino: NodeId,
    /// The version of the last checkpoint before it was written.
    pub version: u32,
    pub witness: Witness,
}

/// The node blocks in the main area.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Nodes that the NAT refers to.
    pub led_to: BTreeSet<NodeId>,
    /// The other node blocks.
    pub others: Vec<StandingNode>,
}

impl Check<'_> {
    /// Reads all node blocks that are valid in the SIT. Skips blocks that cannot be nodes of this
    /// volume at its checkpoint.
    pub(super) fn standing_nodes(&self) -> Standing {
        let mut found = Standing::default();
        let newest = self.state.head.version.get() as u32;
        let mut places = self.segments.valid_nodes(self.blocks).map(|place| (place, ())).peekable();
        while places.peek().is_some() {
            let part = places.by_ref().take(BATCH).collect();
            for had in batch::read(self.blocks, Cause::Metadata, part) {
                let Some(footer) = had.block.ok().as_deref().and_then(Footer::of_block) else { continue };
                let (nid, ino, version) = (footer.nid(), footer.ino(), footer.checkpoint.get() as u32);
                let is_inode = footer.offset() == NodeOffset::INODE;
                if nid < NodeId::ROOT || ino < NodeId::ROOT || is_inode != (nid == ino) {
                    continue;
                }
                let (Some(entry), Some(_)) = (self.nat.entry(nid), self.nat.entry(ino)) else { continue };
                if entry.address() == DataAddress::At(had.at) {
                    found.led_to.insert(nid);
                } else if version <= newest {
                    found.others.push(StandingNode { nid, at: had.at, ino, version, witness: Witness::Silent });
                }
            }
        }
        let Standing { led_to, others } = &mut found;
        others.retain(|node| !led_to.contains(&node.nid));
        self.ask_summaries(others);
        found
    }

    /// Adds what the summaries say. Volumes that are never written have none.
    fn ask_summaries(&self, nodes: &mut [StandingNode]) {
        if self.geometry.features.has(Features::READ_ONLY) {
            return;
        }
        let segment_of = |node: &StandingNode| self.geometry.main(node.at).map(|(segment, _)| segment);
        let mut segments = nodes.chunk_by_mut(|a, b| segment_of(a) == segment_of(b)).peekable();
        while segments.peek().is_some() {
            let mut wanted = Vec::new();
            for nodes in segments.by_ref().take(BATCH) {
                let Some(segment) = nodes.first().and_then(segment_of) else { continue };
                match self.summary_of_log(segment) {
                    Some(summary) => ask(self.geometry, nodes, &summary.entries, true),
                    None => wanted.push((self.geometry.ssa(segment), nodes)),
                }
            }
            for had in batch::read(self.blocks, Cause::Metadata, wanted) {
                if let Ok(block) = had.block {
                    ask_block(self.geometry, had.tag, &block);
                }
            }
        }
    }

    /// The checkpoint's summary of a node segment that a log uses; the one in the SSA is older.
    fn summary_of_log(&self, segment: SegmentIndex) -> Option<&SummaryBlock> {
        let log = self.state.logs.iter().position(|log| log.segment == segment)?;
        self.state.summaries.get(log).filter(|summary| !summary.entries.is_empty())
    }

    /// Nodes whose NAT address is free in the SIT, with the version of the checkpoint before they
    /// were written.
    pub fn led_elsewhere(&self, led_to: &BTreeSet<NodeId>) -> BTreeMap<NodeId, u32> {
        let mut found = BTreeMap::new();
        let places = self.nat.entries().filter_map(|(nid, entry)| match entry.address() {
            DataAddress::At(at) if self.geometry.main(at).is_some() && self.blocks.reaches(at) => Some((at, nid)),
            _ => None,
        });
        let mut places = places.filter(|(_, nid)| !led_to.contains(nid)).peekable();
        while places.peek().is_some() {
            let part = places.by_ref().take(BATCH).collect();
            for had in batch::read(self.blocks, Cause::Metadata, part) {
                let footer = had.block.ok().as_deref().and_then(Footer::of_block);
                if let Some(footer) = footer.filter(|footer| footer.nid() == had.tag) {
                    found.insert(had.tag, footer.checkpoint.get() as u32);
                }
            }
        }
        found
    }
}

fn ask_block(geometry: &Geometry, nodes: &mut [StandingNode], block: &Block) {
    let view = SummaryView(block);
    let entries: Vec<SummaryEntry> = view.entries().collect();
    ask(geometry, nodes, &entries, view.footer().is_some_and(|footer| footer.kind == 1));
}

/// Compares nodes of one segment with its summaries. `are_of_nodes`: whether these are summaries of
/// nodes.
fn ask(geometry: &Geometry, nodes: &mut [StandingNode], entries: &[SummaryEntry], are_of_nodes: bool) {
    for node in nodes {
        let Some((_, number)) = geometry.main(node.at) else { continue };
        let named = entries.get(usize::from(number)).map_or(NodeId::NONE, |entry| NodeId(entry.nid.get()));
        node.witness = match are_of_nodes {
            true if named == node.nid => Witness::Confirms,
            false if named != NodeId::NONE => Witness::Denies,
            _ => Witness::Silent,
        };
    }
}
