//! Counts available and used blocks: ENOSPC is decided here, before anything changes
//! (f2fs-writing.md, "Space").

use nandkit_vfs::{ErrorKind, FsError, Result};

/// Blocks reserved for something about to be written. [`SpaceCounters::refund`] returns unneeded
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "blocks that were counted and are not needed must be given back"]
pub struct Charge {
    /// Node blocks.
    pub nodes: u32,
    /// Data blocks.
    pub blocks: u32,
}

/// The block counts of a volume, as in the checkpoint: reserved addresses count, and moving a block
/// changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceCounters {
    /// Blocks available to users.
    pub user_blocks: u64,
    /// Blocks withheld from users (`reserved_blocks`).
    pub reserved_blocks: u64,
    /// Blocks in use: valid blocks and reserved addresses.
    pub valid_blocks: u64,
    /// Nodes in use.
    pub valid_nodes: u32,
    /// Inodes in use; the code that makes inodes maintains the count.
    pub valid_inodes: u32,
    /// The limit of nodes: all nids.
    pub nodes_end: u64,
    valid_at_checkpoint: u64,
    charged_since: u64,
    names_since: u64,
}

/// Blocks that a recovered name may take in its directory beyond those counted: the checkpoint's
/// directory may need a page where the current one had a freed slot, a page for which its inode had
/// no more room, and up to three nodes for it.
const NAME_BLOCKS: u64 = 5;

impl SpaceCounters {
    /// The counts of a checkpoint.
    pub fn new(user_blocks: u64, valid_blocks: u64, valid_nodes: u32, valid_inodes: u32, nodes_end: u64) -> Self {
        Self {
            user_blocks,
            reserved_blocks: 0,
            valid_blocks,
            valid_nodes,
            valid_inodes,
            nodes_end,
            valid_at_checkpoint: valid_blocks,
            charged_since: 0,
            names_since: 0,
        }
    }

    /// Blocks that users can still take.
    pub const fn free_blocks(&self) -> u64 {
        self.user_blocks.saturating_sub(self.reserved_blocks).saturating_sub(self.valid_blocks)
    }

    /// Implements [`super::Space::charge`].
    pub fn charge(&mut self, nodes: u32, blocks: u32) -> Result<Charge> {
        let wanted = u64::from(nodes) + u64::from(blocks);
        let free = self.free_blocks();
        if wanted > free {
            return Err(FsError::new(ErrorKind::NoSpace, format!("{wanted} blocks are needed and {free} are free")));
        }
        if u64::from(self.valid_nodes) + u64::from(nodes) > self.nodes_end {
            let detail = format!("{nodes} nodes are needed; {} of {} are in use", self.valid_nodes, self.nodes_end);
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        self.valid_blocks += wanted;
        self.valid_nodes += nodes;
        self.charged_since += wanted;
        Ok(Charge { nodes, blocks })
    }

    /// Reserves as many of `blocks` data blocks as are available, at least one: a write may be
    /// partial. Errors: `NoSpace` (none are).
    pub fn charge_part(&mut self, blocks: u32) -> Result<Charge> {
        let part = u64::from(blocks).min(self.free_blocks().max(1)) as u32;
        self.charge(0, part)
    }

    /// Returns blocks that were reserved but not needed, or that are freed.
    pub fn refund(&mut self, charge: Charge) {
        let blocks = u64::from(charge.nodes) + u64::from(charge.blocks);
        self.valid_blocks = self.valid_blocks.saturating_sub(blocks);
        self.valid_nodes = self.valid_nodes.saturating_sub(charge.nodes);
    }

    /// Whether an fsync may leave its blocks, and with `has_new_name` its file's name, to
    /// roll-forward: everything counted since the checkpoint, freed or not, must fit as well
    /// (checkpoint.c, `f2fs_space_for_roll_forward`), and so must the names. Linux does not check
    /// the latter, although a volume whose recovery finds no room cannot be mounted.
    pub fn has_room_for_roll_forward(&self, has_new_name: bool) -> bool {
        let names = (self.names_since + u64::from(has_new_name)).saturating_mul(NAME_BLOCKS);
        self.valid_at_checkpoint.saturating_add(self.charged_since).saturating_add(names) <= self.user_blocks
    }

    /// Notes that a name is left to roll-forward.
    pub const fn leave_name(&mut self) {
        self.names_since += 1;
    }

    /// Notes that a checkpoint completed.
    pub fn checkpointed(&mut self) {
        self.valid_at_checkpoint = self.valid_blocks;
        self.charged_since = 0;
        self.names_since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_where_nothing_is_left() {
        let mut space = SpaceCounters::new(100, 90, 10, 5, 12);
        assert!(space.charge(1, 10).is_err());
        assert!(space.charge(3, 0).is_err());
        assert_eq!(space, SpaceCounters::new(100, 90, 10, 5, 12));
        let charge = space.charge(2, 8).unwrap();
        assert_eq!((space.free_blocks(), space.valid_nodes), (0, 12));
        assert!(space.charge_part(3).is_err());
        space.refund(charge);
        assert_eq!(space.charge_part(30).unwrap(), Charge { nodes: 0, blocks: 10 });
        // Freed blocks are not subtracted: 90 + 10 + 10.
        assert!(!space.has_room_for_roll_forward(false));
        space.checkpointed();
        assert!(space.has_room_for_roll_forward(false) && !space.has_room_for_roll_forward(true));
        space.refund(Charge { nodes: 0, blocks: 7 });
        space.checkpointed();
        assert!(space.has_room_for_roll_forward(true));
        space.leave_name();
        assert!(space.has_room_for_roll_forward(false) && !space.has_room_for_roll_forward(true));
    }
}
