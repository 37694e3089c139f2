//! The plan of a repair, and the intact nodes that it can choose from.

use std::collections::{BTreeMap, BTreeSet};

use crate::damage::Damage;
use crate::{Ino, NodeAddress};

/// What a repair keeps and what it drops.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairPlan {
    /// Kept nodes in address order, each with its length.
    pub(super) kept: Vec<(NodeAddress, u32)>,
    /// Kept names that get the type of their inode, as `st_mode >> 12`.
    pub(super) retyped: BTreeMap<NodeAddress, u8>,
    /// Inodes without a name that get a new one.
    pub(super) attached: Vec<Attached>,
    /// The nodes for the new names, written in addition to the kept ones.
    pub(super) made: Vec<Made>,
    /// Dropped nodes by address, with the reason. Summaries, padding and nodes marked obsolete are
    /// not listed.
    pub(super) dropped: Vec<Damage>,
}

/// A directory entry that could be kept.
pub(super) struct Name {
    pub(super) at: NodeAddress,
    pub(super) parent: Ino,
    pub(super) version: u32,
    pub(super) name: Box<[u8]>,
    pub(super) inode: Ino,
}

/// All intact nodes, by kind.
#[derive(Default)]
pub(super) struct Whole {
    /// Address, length, and inode.
    pub(super) inodes: Vec<(NodeAddress, u32, Ino)>,
    pub(super) names: Vec<(Name, u32)>,
    /// Address, length, inode, and attribute.
    pub(super) references: Vec<(NodeAddress, u32, Ino, u32)>,
    /// Address, length, and attribute.
    pub(super) attributes: Vec<(NodeAddress, u32, u32)>,
    pub(super) others: Vec<(NodeAddress, u32)>,
    /// Inodes whose nodes without a valid type are dropped.
    pub(super) typeless: BTreeSet<Ino>,
    /// Nodes without a valid type, with their inodes.
    pub(super) impossible: Vec<(NodeAddress, Ino)>,
}

/// An inode that gets a new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    /// A node that proves its existence.
    pub(super) at: NodeAddress,
    /// The inode that gets the name.
    pub(super) inode: Ino,
    /// Its new path, with a leading `/`.
    pub(super) path: Vec<u8>,
}

/// A node made by the repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// The node that is the reason for it.
    pub(super) at: NodeAddress,
    /// Its bytes, without padding to a multiple of four.
    pub(super) bytes: Vec<u8>,
}
