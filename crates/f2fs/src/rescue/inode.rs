//! What is known of an inode that was found.

use std::collections::BTreeSet;

use nandkit_vfs::FileKind;

use super::doubt::Doubt;
use crate::ids::NodeId;

/// The number of the directory that stands for those without a name; no inode has it.
pub(super) const LOST_AND_FOUND: u64 = 2 << 32;
/// The number of a directory of which only its own number is known.
pub(super) const fn missing_directory(nid: NodeId) -> u64 {
    (1 << 32) | nid.0 as u64
}

/// What is known of an inode that was found.
#[derive(Clone, Debug)]
pub(super) struct RescuedInode {
    pub kind: FileKind,
    pub size: u64,
    pub parent: NodeId,
    pub name: Vec<u8>,
    /// The name is ciphertext.
    pub has_hidden_name: bool,
    pub doubts: BTreeSet<Doubt>,
}

impl RescuedInode {
    pub fn doubt(&mut self, doubt: Doubt) {
        self.doubts.insert(doubt);
    }
}
