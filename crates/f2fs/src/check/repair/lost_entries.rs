//! Finds nodes whose NAT entries are lost by what their blocks say.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::mend::Overlay;
use super::standing::{Standing, StandingNode, Witness};
use crate::check::Check;
use crate::check::report::Draft;
use crate::checkpoint_state::CheckpointState;
use crate::ids::NodeId;
use crate::layout::{NatEntry, Superblock};

/// The part of a NAT block, in bytes, that may be lost on its own. If none of its entries leads to
/// its node, all count as lost, including free ones.
const SECTOR: u32 = 512;

/// Adds entries to the NAT's journal for nodes that are missing from the NAT but lie in a node
/// segment, valid in the SIT. Among several blocks of a node the one named by its summary wins,
/// then the newest. Returns the nodes found. Cost: reads all nodes.
pub(super) fn restore(overlay: &Overlay<'_>, superblock: &Superblock, state: &mut CheckpointState) -> Vec<NodeId> {
    let entries = {
        let check = Check::new(overlay, superblock, state, Draft::default());
        let standing = check.standing_nodes();
        check.lost_entries(standing)
    };
    let changed: BTreeSet<NodeId> = entries.iter().map(|(nid, _)| *nid).collect();
    state.nat_journal.retain(|(nid, _)| !changed.contains(nid));
    let found = entries.iter().filter(|(_, entry)| !entry.is_free()).map(|(nid, _)| *nid).collect();
    state.nat_journal.extend(entries);
    found
}

impl Check<'_> {
    /// The NAT entries to add or clear. If the nodes found make up the checkpoint's count, all
    /// others that the NAT refers to were deleted.
    fn lost_entries(&self, standing: Standing) -> Vec<(NodeId, NatEntry)> {
        let Standing { led_to, mut others } = standing;
        others.retain(|node| node.witness != Witness::Denies);
        let mut elsewhere = self.led_elsewhere(&led_to);
        let counted = u64::from(self.state.head.valid_nodes.get());
        // The SIT has no more nodes than the checkpoint, so none of them was deleted.
        let all_live = self.segments.valid_node_count() <= counted;
        let any_missing = ((led_to.len() + elsewhere.len()) as u64) < counted;
        let sound = self.sound_sectors(&led_to);
        let was_deleted = |nid| {
            let in_journal = self.state.nat_journal.iter().any(|(other, _)| *other == nid);
            in_journal || self.sectors(nid).iter().all(|sector| sound.contains(sector))
        };
        others.sort_by_key(|node| (node.nid, Reverse((node.witness, node.version))));
        let lost = others.chunk_by(|a, b| a.nid == b.nid).filter_map(newest).filter(|node| {
            match elsewhere.get(&node.nid) {
                // An old NAT block leads to old node blocks.
                Some(version) => node.version > *version,
                None if self.is_free(node.nid) => all_live || any_missing && !was_deleted(node.nid),
                None => true,
            }
        });
        let mut entries: Vec<_> = lost.map(|node| (node.nid, NatEntry::new(0, node.ino, node.at))).collect();
        if all_live && (led_to.len() + entries.len()) as u64 == counted {
            entries.iter().for_each(|(nid, _)| _ = elsewhere.remove(nid));
            entries.extend(elsewhere.into_keys().map(|nid| (nid, NatEntry::default())));
        }
        entries
    }

    fn is_free(&self, nid: NodeId) -> bool {
        self.nat.entry(nid).unwrap_or_default().is_free()
    }

    /// Sectors of the NAT in which an entry leads to its node, ignoring nodes in the journal.
    fn sound_sectors(&self, led_to: &BTreeSet<NodeId>) -> BTreeSet<u32> {
        let journal: BTreeSet<NodeId> = self.state.nat_journal.iter().map(|(nid, _)| *nid).collect();
        let sectors = led_to.difference(&journal).map(|nid| self.sectors(*nid));
        sectors.filter(|[first, last]| first == last).map(|[first, _]| first).collect()
    }

    /// The sectors of the NAT in which a nid's entry starts and ends.
    fn sectors(&self, nid: NodeId) -> [u32; 2] {
        let per_block = self.geometry.nat_entries() as u32;
        let bytes = size_of::<NatEntry>() as u32;
        let first = nid.0 % per_block * bytes;
        let block = nid.0 / per_block * (self.geometry.block_size() as u32 / SECTOR);
        [first, first + bytes - 1].map(|byte| block.saturating_add(byte / SECTOR))
    }
}

/// The best block of a node, which is sorted first; `None` if two are equally good.
fn newest(blocks: &[StandingNode]) -> Option<StandingNode> {
    let first = *blocks.first()?;
    let is_as_good = |other: &StandingNode| (other.witness, other.version) == (first.witness, first.version);
    (!blocks.get(1).is_some_and(is_as_good)).then_some(first)
}
