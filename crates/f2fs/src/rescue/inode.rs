//! The state of a rescued inode.

use std::collections::BTreeSet;

use nandkit_vfs::FileKind;

use super::doubt::Doubt;
use crate::ids::NodeId;

/// The number of the invented directory for files without a name; no inode has it.
pub(super) const LOST_AND_FOUND: u64 = 2 << 32;
/// The number of an invented directory that stands for a lost one.
pub(super) const fn missing_directory(nid: NodeId) -> u64 {
    (1 << 32) | nid.0 as u64
}

/// A rescued inode.
#[derive(Clone, Debug)]
pub(super) struct RescuedInode {
    pub kind: FileKind,
    pub size: u64,
    pub parent: NodeId,
    pub name: Vec<u8>,
    /// Whether its name is encrypted.
    pub has_hidden_name: bool,
    pub doubts: BTreeSet<Doubt>,
}

impl RescuedInode {
    pub fn doubt(&mut self, doubt: Doubt) {
        self.doubts.insert(doubt);
    }
}
