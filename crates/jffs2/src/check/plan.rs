//! What a repair is going to do, and the whole nodes that it chooses from.

use std::collections::{BTreeMap, BTreeSet};

use crate::damage::Damage;
use crate::{Ino, NodeAddress};

/// What a repair keeps and what it leaves out.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairPlan {
    /// Nodes that are kept, in the order of their addresses: where and how many bytes.
    pub(super) kept: Vec<(NodeAddress, u32)>,
    /// Names that get the type of their inode: which, and `st_mode >> 12`. They are among the kept
    /// nodes.
    pub(super) retyped: BTreeMap<NodeAddress, u8>,
    /// Inodes that had lost their names, and get new ones.
    pub(super) attached: Vec<Attached>,
    /// The nodes that say so, and are written besides those that are kept.
    pub(super) made: Vec<Made>,
    /// Nodes that are left out, and why, by address. Summaries, padding and nodes that were marked
    /// obsolete are not mentioned.
    pub(super) dropped: Vec<Damage>,
}

/// A directory entry that might be kept.
pub(super) struct Name {
    pub(super) at: NodeAddress,
    pub(super) parent: Ino,
    pub(super) version: u32,
    pub(super) name: Box<[u8]>,
    pub(super) inode: Ino,
}

/// All nodes that are whole, by what they are.
#[derive(Default)]
pub(super) struct Whole {
    /// Address, length, inode.
    pub(super) inodes: Vec<(NodeAddress, u32, Ino)>,
    pub(super) names: Vec<(Name, u32)>,
    /// Address, length, inode, attribute.
    pub(super) references: Vec<(NodeAddress, u32, Ino, u32)>,
    /// Address, length, attribute.
    pub(super) attributes: Vec<(NodeAddress, u32, u32)>,
    pub(super) others: Vec<(NodeAddress, u32)>,
    /// Inodes of which nodes without a possible type are left out.
    pub(super) typeless: BTreeSet<Ino>,
    /// Such nodes, and their inodes.
    pub(super) impossible: Vec<(NodeAddress, Ino)>,
}

/// An inode that gets a name again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    /// The node that tells of it.
    pub(super) at: NodeAddress,
    /// Which.
    pub(super) inode: Ino,
    /// Where it is now, with `/` in front.
    pub(super) path: Vec<u8>,
}

/// A node that no volume had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// The node that tells of what it is made for.
    pub(super) at: NodeAddress,
    /// All of it, without what fills up to a multiple of four.
    pub(super) bytes: Vec<u8>,
}
