//! Finds nodes that exist but that nothing refers to.
//!
//! What they refer to is claimed as well; otherwise each of their blocks would be reported too.

use nandkit_units::Cause;
use nandkit_vfs::FileKind;

use super::Check;
use super::batch::{self, BATCH};
use super::inodes::state;
use super::nat::Reach;
use super::report::{WHOLE_VOLUME, at, of};
use super::summaries::Claim;
use super::walk::Expected;
use crate::findings::FindingKind;
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::layout::node::word_of;
use crate::layout::{Footer, InodeHead, NatEntry, NodeOffset};

/// What a node holds, by its position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Nids,
    Addresses,
    Attributes,
}

/// The role of a position in a file's tree, for nodes with room for `n` nids (f2fs.md, "Nodes",
/// "Offsets in the file").
fn holds(offset: NodeOffset, n: u32) -> Holds {
    let double = 5 + 2 * n;
    match offset.0 {
        _ if offset == NodeOffset::XATTR => Holds::Attributes,
        3 => Holds::Nids,
        place if place == 4 + n || place == double => Holds::Nids,
        place if place > double && (place - double - 1).is_multiple_of(n + 1) => Holds::Nids,
        _ => Holds::Addresses,
    }
}

impl Check<'_> {
    /// Reports all unreached nodes: inodes unless another lost inode contains them, other nodes
    /// unless a lost node refers to them.
    pub fn find_lost(&mut self) {
        let inodes = self.lost_inodes();
        let is_lost = |nid: u32| inodes.binary_search_by_key(&nid, |(nid, _)| nid.0).is_ok();
        // First those whose recorded parent is not lost; then the rest, such as cycles of
        // directories.
        let tops = inodes.iter().filter(|(nid, parent)| nid.0 == *parent || !is_lost(*parent));
        for (nid, _) in tops.chain(&inodes) {
            if let Reach::First(entry) = self.nat.reach(*nid) {
                self.lost_inode(*nid, &entry);
            }
        }
        self.lost_nodes();
    }

    /// All lost inodes whose block matches, ascending, with their recorded parents. A repair drops
    /// those that were deleted while open, as the next mount would.
    fn lost_inodes(&mut self) -> Vec<(NodeId, u32)> {
        let geometry = self.geometry;
        let deleted = self.mender.as_ref().map(|mender| mender.deleted.as_slice()).unwrap_or_default();
        let is_left_out = |nid| self.mender.as_ref().is_some_and(|mender| mender.left_out.contains(&nid));
        let mut found = Vec::new();
        let inodes = self.nat.unreached().filter(|(nid, entry)| entry.ino() == *nid && !is_left_out(*nid));
        let places = inodes.filter_map(|(nid, entry)| match entry.address() {
            DataAddress::At(here) if geometry.main(here).is_some() => Some((here, nid)),
            _ => None,
        });
        let places: Vec<(BlockAddress, NodeId)> = places.collect();
        for part in places.chunks(BATCH) {
            for had in batch::read(self.blocks, Cause::Metadata, part.to_vec()) {
                let Ok(block) = had.block else { continue };
                let is_it =
                    Footer::of_block(&block).is_some_and(|footer| footer.nid() == had.tag && footer.ino() == had.tag);
                let head = InodeHead::of_block(&block);
                let has_no_links = is_it && head.is_some_and(|head| head.links.get() == 0);
                let goes = has_no_links && deleted.binary_search(&had.tag).is_ok();
                if is_it && !goes && !self.segments.is_claimed(geometry, had.at) {
                    found.push((had.tag, head.map_or(0, |head| head.parent.get())));
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn lost_inode(&mut self, nid: NodeId, entry: &NatEntry) {
        let DataAddress::At(here) = entry.address() else { return };
        self.inodes.change(nid).flags |= state::LOST;
        self.pending.push(Expected { nid, ino: nid, offset: NodeOffset::INODE, at: here, version: entry.version });
        self.walk();
        let known = self.inodes.get(nid);
        if let Some(mender) = self.mender.as_mut().filter(|_| !known.has(state::DAMAGED)) {
            mender.lost.push(nid);
            // An inode that an earlier pass could not decode may be sound now, for example if
            // another file's address referred to its block.
            mender.hopeless.remove(&nid);
        }
        let what = crate::layout::dentry::kind_of(known.inode_type)
            .map_or_else(|| "inode".into(), |kind: FileKind| kind.to_string());
        self.report.fault(FindingKind::Unreached, of(nid).at(here), || {
            format!("no name refers to this {what} of {} links", known.links)
        });
    }

    /// Reports lost nodes that are not inodes, or whose block does not match.
    fn lost_nodes(&mut self) {
        let geometry = self.geometry;
        let n = u32::from(geometry.addresses_per_node());
        let mut lost: Vec<(Holds, NodeId, NatEntry, BlockAddress)> = Vec::new();
        let mut places = Vec::new();
        for (nid, entry) in self.nat.unreached() {
            match entry.address() {
                DataAddress::At(here) if geometry.main(here).is_some() => places.push((here, (nid, entry))),
                other => self.report.fault(FindingKind::Nat, WHOLE_VOLUME, || {
                    format!(
                        "{nid} of inode {} has the address {:#x}, and nothing refers to it",
                        entry.ino.get(),
                        other.field()
                    )
                }),
            }
        }
        for part in places.chunks(BATCH) {
            for had in batch::read(self.blocks, Cause::Metadata, part.to_vec()) {
                let (here, (nid, entry)) = (had.at, had.tag);
                let Some(block) = self.had(had) else { continue };
                let footer = Footer::of_block(&block);
                let own = footer.filter(|footer| footer.nid() == nid && !self.segments.is_claimed(geometry, here));
                match own {
                    Some(footer) => lost.push((holds(footer.offset(), n), nid, entry, here)),
                    None => self.report.fault(FindingKind::Nat, at(here), || {
                        format!(
                            "the NAT has {nid} of inode {} here, but the block is another, and nothing refers to it",
                            entry.ino.get()
                        )
                    }),
                }
            }
        }
        // Nodes that refer to others first: what a lost node refers to is reported with it.
        lost.sort_by_key(|(holds, nid, ..)| (*holds, *nid));
        for (_, nid, entry, here) in lost {
            if self.nat.reach(nid) == Reach::First(entry) {
                let below = self.claim_lost(nid, here, &entry);
                self.report.fault(FindingKind::Unreached, of(entry.ino()).at(here), || {
                    format!("nothing refers to {nid} of inode {}, nor to {below} nodes below it", entry.ino.get())
                });
            }
        }
    }

    /// Claims a lost node's block and what it refers to, at most two levels deep; returns the
    /// number of nodes below it.
    fn claim_lost(&mut self, nid: NodeId, here: BlockAddress, entry: &NatEntry) -> u64 {
        let mut stack = vec![(nid, here, *entry)];
        let mut nodes = 0;
        while let Some((nid, here, entry)) = stack.pop() {
            let Ok(block) = batch::one(self.blocks, Cause::Metadata, here) else { continue };
            let Some(footer) = Footer::of_block(&block).filter(|footer| footer.nid() == nid) else { continue };
            let claim = Claim { at: here, nid, ino: entry.ino(), index: 0, version: entry.version, is_node: true };
            if !self.claim(claim) {
                continue;
            }
            nodes += 1;
            self.totals.nodes += 1;
            let count = self.geometry.addresses_per_node();
            match holds(footer.offset(), u32::from(count)) {
                Holds::Attributes => {}
                Holds::Nids => stack.extend((0..count).rev().filter_map(|index| self.lost_child(&block, index))),
                Holds::Addresses => self.claim_lost_addresses(&claim, &block, count),
            }
        }
        nodes - nodes.min(1)
    }

    fn lost_child(&mut self, block: &Block, index: u16) -> Option<(NodeId, BlockAddress, NatEntry)> {
        let nid = NodeId(word_of(block, index)?).some()?;
        let Reach::First(entry) = self.nat.reach(nid) else { return None };
        match entry.address() {
            DataAddress::At(here) if self.geometry.main(here).is_some() => Some((nid, here, entry)),
            _ => None,
        }
    }

    fn claim_lost_addresses(&mut self, node: &Claim, block: &Block, count: u16) {
        for index in 0..count {
            match DataAddress::of(word_of(block, index).unwrap_or(0)) {
                DataAddress::Hole => {}
                DataAddress::Reserved | DataAddress::Compressed => self.totals.reserved += 1,
                DataAddress::At(here) => {
                    if self.geometry.main(here).is_some() {
                        self.claim(Claim { at: here, index, is_node: false, ..*node });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_nodes_of_nids_are_those_of_the_table() {
        let n = 1018;
        let nids: Vec<u32> =
            (0..3_200_000).filter(|&place| holds(NodeOffset(place), n) == Holds::Nids).take(8).collect();
        assert_eq!(
            nids,
            [
                3,
                4 + n,
                5 + 2 * n,
                6 + 2 * n,
                6 + 2 * n + n + 1,
                6 + 2 * n + 2 * (n + 1),
                6 + 2 * n + 3 * (n + 1),
                6 + 2 * n + 4 * (n + 1)
            ]
        );
        assert_eq!(holds(NodeOffset::XATTR, n), Holds::Attributes);
        assert_eq!(holds(NodeOffset(7 + 2 * n), n), Holds::Addresses);
    }
}
