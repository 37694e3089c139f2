//! Nodes whose entries in the NAT are lost, found by what their blocks say of themselves.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;

use super::Check;
use super::batch::{self, BATCH};
use super::mend::Overlay;
use super::report::Collector;
use crate::checkpoint_state::CheckpointState;
use crate::ids::{BlockAddress, DataAddress, NodeId};
use crate::layout::{Footer, NatEntry, NodeOffset, Superblock};

/// Bytes of a NAT block that may be lost by themselves. Where no entry in them leads to its node, all are taken for lost, free ones too; a free one beside others that are right is of a node that was deleted.
const SECTOR: u32 = 512;

/// A node's block that the SIT has as valid.
#[derive(Clone, Copy, Debug)]
struct Standing {
    at: BlockAddress,
    ino: NodeId,
    /// The last checkpoint before it was written.
    version: u32,
}

/// What stands in the main area, by the nodes' own numbers.
#[derive(Debug, Default)]
struct Found {
    /// Nodes that the NAT leads to.
    led_to: BTreeSet<NodeId>,
    others: BTreeMap<NodeId, Vec<Standing>>,
}

/// Puts entries into the NAT's journal for nodes that the NAT has lost and that stand in a segment of nodes, valid by the SIT: of several blocks of a node the one written last. The nodes.
/// Cost: a read of all nodes.
pub(super) fn restore(overlay: &Overlay<'_>, superblock: &Superblock, state: &mut CheckpointState) -> Vec<NodeId> {
    let entries = {
        let check = Check::new(overlay, superblock, state, Collector::default());
        let found = check.standing_nodes();
        check.lost_entries(&found)
    };
    let nids: BTreeSet<NodeId> = entries.iter().map(|(nid, _)| *nid).collect();
    state.nat_journal.retain(|(nid, _)| !nids.contains(nid));
    state.nat_journal.extend(entries);
    nids.into_iter().collect()
}

impl Check<'_> {
    fn standing_nodes(&self) -> Found {
        let mut found = Found::default();
        let mut places = self.segments.valid_nodes(self.geometry).map(|place| (place, ())).peekable();
        while places.peek().is_some() {
            let part = places.by_ref().take(BATCH).collect();
            for had in batch::read(self.blocks, Cause::Metadata, part) {
                let Some(footer) = had.block.ok().as_deref().and_then(Footer::of_block) else { continue };
                let (nid, ino) = (footer.nid(), footer.ino());
                let is_inode = footer.offset() == NodeOffset::INODE;
                if nid < NodeId::ROOT || ino < NodeId::ROOT || is_inode != (nid == ino) {
                    continue;
                }
                let (Some(entry), Some(_)) = (self.nat.entry(nid), self.nat.entry(ino)) else { continue };
                if entry.address() == DataAddress::At(had.at) {
                    found.led_to.insert(nid);
                } else {
                    let version = footer.checkpoint.get() as u32;
                    found.others.entry(nid).or_default().push(Standing { at: had.at, ino, version });
                }
            }
        }
        found
    }

    fn lost_entries(&self, found: &Found) -> Vec<(NodeId, NatEntry)> {
        // What the journal says of a node, no sector of the table has.
        let journal: BTreeSet<NodeId> = self.state.nat_journal.iter().map(|(nid, _)| *nid).collect();
        let by_table = found.led_to.difference(&journal);
        let whole = by_table.map(|nid| self.sectors(*nid)).filter(|[first, last]| first == last);
        let sound: BTreeSet<u32> = whole.map(|[first, _]| first).collect();
        let mut lost = Vec::new();
        for (nid, standing) in &found.others {
            let entry = self.nat.entry(*nid).unwrap_or_default();
            let was_deleted = entry.is_free() && self.sectors(*nid).iter().all(|sector| sound.contains(sector));
            if was_deleted || found.led_to.contains(nid) || self.leads_to(*nid, entry) {
                continue;
            }
            let mut standing = standing.clone();
            standing.sort_by_key(|block| std::cmp::Reverse(block.version));
            let (first, second) = (standing.first(), standing.get(1));
            // Of two of the same age nobody knows which it is.
            if let Some(first) = first.filter(|first| second.is_none_or(|second| second.version < first.version)) {
                lost.push((*nid, NatEntry::new(0, first.ino, first.at)));
            }
        }
        lost
    }

    /// The sectors of the NAT in which a nid's entry begins and ends.
    fn sectors(&self, nid: NodeId) -> [u32; 2] {
        let per_block = self.geometry.nat_entries() as u32;
        let bytes = size_of::<NatEntry>() as u32;
        let first = nid.0 % per_block * bytes;
        let block = nid.0 / per_block * (self.geometry.block_size() as u32 / SECTOR);
        [first, first + bytes - 1].map(|byte| block.saturating_add(byte / SECTOR))
    }

    /// Whether the block that an entry names is the node, though the SIT does not say so.
    fn leads_to(&self, nid: NodeId, entry: NatEntry) -> bool {
        let DataAddress::At(at) = entry.address() else { return false };
        self.geometry.main(at).is_some()
            && batch::one(self.blocks, Cause::Metadata, at)
                .ok()
                .and_then(|block| Footer::of_block(&block))
                .is_some_and(|footer| footer.nid() == nid)
    }
}
