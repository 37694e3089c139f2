//! Walks from the roots to everything they refer to: inodes in batches, their node trees, their
//! directories.

use nandkit_units::Cause;

use super::batch::{self, BATCH, Had};
use super::file::FileWalk;
use super::nat::Reach;
use super::report::{at, of};
use super::segments::Claimed;
use super::summaries::Claim;
use super::{Check, inodes};
use crate::findings::FindingKind;
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::layout::node::{FOOTER_BYTES, mark, word_of};
use crate::layout::{Footer, NodeOffset, word};

/// The offset of `i_xattr_nid`, the nid of the attribute node, in an inode.
const XATTR_NID: usize = 76;

/// A node to be read, and what it must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub nid: NodeId,
    pub ino: NodeId,
    pub offset: NodeOffset,
    pub at: BlockAddress,
    /// Its version in the NAT, for summaries.
    pub version: u8,
}

/// What a node below an inode holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// Extended attributes.
    Xattr,
    /// Addresses of pages, from `page` on.
    Direct { page: u64 },
    /// Nids: of direct nodes at level 1, of level-1 nodes at level 2. `first` is the number of the
    /// first direct node below, among all of the file.
    Indirect { level: u8, first: u64 },
}

/// A node below an inode that is to be read.
struct Child {
    file: usize,
    expected: Expected,
    role: Role,
    from: Reference,
}

/// The location of a nid.
#[derive(Clone, Copy)]
struct Reference {
    at: BlockAddress,
    byte: usize,
    in_inode: bool,
}

impl Check<'_> {
    /// Visits all pending inodes and everything they refer to.
    pub fn walk(&mut self) {
        while !self.pending.is_empty() {
            let batch = self.pending.split_off(self.pending.len().saturating_sub(BATCH));
            let wanted = batch.into_iter().map(|expected| (expected.at, expected)).collect();
            let mut files = Vec::new();
            for had in batch::read(self.blocks, Cause::Metadata, wanted) {
                let expected = had.tag;
                let found = self.had(had).filter(|block| self.is_node(&expected, block));
                let Some(block) = found else {
                    self.whole = false;
                    self.inodes.change(expected.nid).flags |= inodes::state::DAMAGED;
                    self.mend_nameless(expected.nid);
                    continue;
                };
                files.extend(self.look_at_inode(&expected, block));
            }
            self.trees(&mut files);
            for file in &mut files {
                self.finish_file(file);
            }
            self.directories(&files);
        }
    }

    /// Returns a block that was read; reports it if it could not be read.
    pub fn had<T>(&mut self, had: Had<T>) -> Option<Block> {
        match had.block {
            Ok(block) => Some(block),
            // A volume that was cut short has many of these, so they are reported together.
            Err(_) if !self.blocks.reaches(had.at) => {
                self.nodes_behind_end += 1;
                None
            }
            Err(error) => {
                self.report.fault(FindingKind::Unreadable, at(had.at), || error.to_string());
                None
            }
        }
    }

    /// Follows a reference to a node. Returns `None`, and reports it, if the node cannot be
    /// visited.
    pub fn reach(&mut self, nid: NodeId, ino: NodeId, offset: NodeOffset) -> Option<Expected> {
        let entry = match self.nat.reach(nid) {
            Reach::First(entry) => entry,
            Reach::Again => {
                self.report.fault(FindingKind::Tree, of(ino), || format!("{nid} is referred to more than once"));
                return None;
            }
            Reach::Free => {
                self.report.fault(FindingKind::Nat, of(ino), || format!("{nid} is free, and something refers to it"));
                return None;
            }
            Reach::Outside => {
                self.report.fault(FindingKind::Tree, of(ino), || {
                    format!("an invalid reference to {nid}; nids end at {}", self.geometry.nid_end())
                });
                return None;
            }
        };
        let DataAddress::At(here) = entry.address() else {
            let field = entry.address.get();
            self.report.fault(FindingKind::Nat, of(ino), || format!("{nid} has the address {field:#x}"));
            return None;
        };
        if self.geometry.main(here).is_none() {
            self.report.fault(FindingKind::Nat, of(ino), || {
                format!("{nid} has the address {:#x}, outside the main area", here.0)
            });
            return None;
        }
        if entry.ino() != ino {
            let owner = entry.ino.get();
            self.report.fault(FindingKind::Nat, of(ino).at(here), || {
                format!("the NAT has {nid} as one of inode {owner}; inode {} refers to it", ino.0)
            });
        }
        Some(Expected { nid, ino, offset, at: here, version: entry.version })
    }

    /// Whether a block is the expected node: at least two of nid, owner and position match, and the
    /// block has no other owner. Reports what does not match.
    pub fn is_node(&mut self, expected: &Expected, block: &[u8]) -> bool {
        let Some(footer) = Footer::of_block(block) else { return false };
        let Expected { nid, ino, offset, at: here, .. } = *expected;
        let (same_nid, same_ino, same_offset) = (footer.nid() == nid, footer.ino() == ino, footer.offset() == offset);
        let agree = u8::from(same_nid) + u8::from(same_ino) + u8::from(same_offset);
        if agree < 3 {
            let kind = if same_nid && same_ino { FindingKind::Tree } else { FindingKind::Footer };
            self.report.fault(kind, of(ino).at(here), || {
                let (found, owner, place) = (footer.nid.get(), footer.ino.get(), footer.offset().0);
                format!(
                    "the footer says node {found}, inode {owner}, place {place}; expected node {}, inode {}, place {}",
                    nid.0, ino.0, offset.0
                )
            });
        }
        if agree < 2 {
            return false;
        }
        if agree < 3 {
            self.mend_footer(expected, footer.flags.get());
        }
        let claim = Claim { at: here, nid, ino, index: 0, version: expected.version, is_node: true };
        let first = self.claim(claim);
        self.totals.nodes += u64::from(first);
        first
    }

    fn mend_footer(&mut self, expected: &Expected, flags: u32) {
        let Expected { nid, ino, offset, at, .. } = *expected;
        let start = self.geometry.block_size() - FOOTER_BYTES;
        let words = [nid.0, ino.0, Footer::flags_of(offset, flags & 7)];
        for (number, value) in words.into_iter().enumerate() {
            self.mend_word(at, start + number * 4, offset == NodeOffset::INODE, value);
        }
    }

    /// Claims a block of the main area; false if it is claimed already.
    pub fn claim(&mut self, claim: Claim) -> bool {
        match self.segments.claim(self.geometry, claim.at, claim.ino, claim.is_node) {
            Claimed::First => {
                if let Some(claimed) = &mut self.claimed {
                    claimed.take(self.geometry, &claim);
                }
                self.summaries.add(claim, self.blocks, self.state, &mut self.report);
                true
            }
            Claimed::Again => {
                self.summaries.add_again(claim);
                false
            }
            Claimed::Outside => false,
        }
    }

    /// Claims a block that no summary names; false if it is claimed already or outside the main
    /// area.
    pub fn claim_unnamed(&mut self, at: BlockAddress, ino: NodeId) -> bool {
        matches!(self.segments.claim(self.geometry, at, ino, false), Claimed::First)
    }

    /// Checks the cold mark: only nodes of directories lack it (f2fs.md, "Nodes"). Linux uses it
    /// only when it writes the node again.
    pub fn check_cold(&mut self, expected: &Expected, block: &[u8], is_directory: bool) {
        let cold = Footer::of_block(block).is_some_and(|footer| footer.has(mark::COLD));
        // mkfs.f2fs does not mark inodes of quota files.
        let marked_so = self.inodes.get(expected.ino).has(inodes::state::QUOTA);
        if cold == is_directory && !marked_so {
            self.report.harmless(FindingKind::Footer, of(expected.ino).at(expected.at), || {
                format!("{} is marked as {}", expected.nid, if cold { "no directory's" } else { "a directory's" })
            });
        }
    }

    /// Visits all nodes below these inodes.
    fn trees(&mut self, files: &mut [FileWalk]) {
        let mut stack = Vec::new();
        for (number, file) in files.iter_mut().enumerate() {
            self.below_inode(number, file, &mut stack);
        }
        while !stack.is_empty() {
            let batch = stack.split_off(stack.len().saturating_sub(BATCH));
            let wanted = batch.into_iter().map(|child: Child| (child.expected.at, child)).collect();
            for had in batch::read(self.blocks, Cause::Metadata, wanted) {
                let Had { at, tag: child, block } = had;
                let Some(file) = files.get_mut(child.file) else { continue };
                let block = self.had(Had { at, tag: (), block });
                match block.filter(|block| self.is_node(&child.expected, block)) {
                    Some(block) => self.child(file, &child, &block, &mut stack),
                    None => self.cut_off(file, child.from),
                }
            }
        }
    }

    /// Handles a reference to a node that cannot be visited.
    fn cut_off(&mut self, file: &mut FileWalk, from: Reference) {
        self.whole = false;
        file.whole = false;
        self.drop_of(file.inode.nid, || "a node that cannot be read, with everything below it".into());
        self.mend_word(from.at, from.byte, from.in_inode, 0);
    }

    fn below_inode(&mut self, number: usize, file: &mut FileWalk, stack: &mut Vec<Child>) {
        let xattrs = NodeId(file.inode.head.xattr_nid.get());
        let from = |byte| Reference { at: file.expected.at, byte, in_inode: true };
        let (at_xattrs, nids_from) = (from(XATTR_NID), from(0));
        if !self.push(number, file, xattrs, (NodeOffset::XATTR, Role::Xattr), at_xattrs, stack) {
            self.check_xattrs(&file.inode, None);
        }
        if !file.has_addresses {
            return;
        }
        let n = u32::from(self.geometry.addresses_per_node());
        let shape = file.inode.tree_shape(self.geometry);
        let direct = shape.direct_addresses;
        let places = [
            (1, Role::Direct { page: shape.inode_addresses }),
            (2, Role::Direct { page: shape.inode_addresses + direct }),
            (3, Role::Indirect { level: 1, first: 2 }),
            (4 + n, Role::Indirect { level: 1, first: 2 + u64::from(n) }),
            (5 + 2 * n, Role::Indirect { level: 2, first: 2 + 2 * u64::from(n) }),
        ];
        let nids = crate::layout::inode::nids_offset(self.geometry.block_size());
        for (index, (offset, role)) in places.into_iter().enumerate() {
            let nid = NodeId(word(&file.inode.block, nids + index * 4).unwrap_or(0));
            let from = Reference { byte: nids + index * 4, ..nids_from };
            self.push(number, file, nid, (NodeOffset(offset), role), from, stack);
        }
    }

    /// Queues a node to be read; returns false if there is none.
    fn push(
        &mut self,
        number: usize,
        file: &mut FileWalk,
        nid: NodeId,
        (offset, role): (NodeOffset, Role),
        from: Reference,
        stack: &mut Vec<Child>,
    ) -> bool {
        if nid == NodeId::NONE {
            return false;
        }
        file.blocks += 1;
        match self.reach(nid, file.inode.nid, offset) {
            Some(expected) => stack.push(Child { file: number, expected, role, from }),
            None => self.cut_off(file, from),
        }
        true
    }

    fn child(&mut self, file: &mut FileWalk, child: &Child, block: &Block, stack: &mut Vec<Child>) {
        self.check_cold(&child.expected, block, file.is_directory());
        match child.role {
            Role::Xattr => self.check_xattrs(&file.inode, Some(block)),
            Role::Direct { page } => {
                let count = file.inode.tree_shape(self.geometry).direct_addresses as u16;
                self.addresses(file, &child.expected, block, 0, count, page);
            }
            Role::Indirect { level, first } => {
                let shape = file.inode.tree_shape(self.geometry);
                let (n, own) = (self.geometry.addresses_per_node(), child.expected.offset.0);
                for index in 0..n {
                    let nid = NodeId(word_of(block, index).unwrap_or(0));
                    let (offset, role) = match level {
                        1 => {
                            let page = shape.inode_addresses + (first + u64::from(index)) * shape.direct_addresses;
                            (own + 1 + u32::from(index), Role::Direct { page })
                        }
                        _ => {
                            let first = first + u64::from(index) * u64::from(n);
                            (own + 1 + u32::from(index) * (u32::from(n) + 1), Role::Indirect { level: 1, first })
                        }
                    };
                    let from = Reference { at: child.expected.at, byte: usize::from(index) * 4, in_inode: false };
                    self.push(child.file, file, nid, (NodeOffset(offset), role), from, stack);
                }
            }
        }
    }
}
