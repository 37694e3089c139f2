//! Quota files: who uses how much, by user, group and project (f2fs.md, "Quota files").
//!
//! The format ([`layout`]), the tree of blocks that leads to an id's record ([`tree`]), whole files
//! ([`mod@file`]), and what a mount that writes keeps in memory ([`usage`]).

pub mod file;
pub mod layout;
pub mod tree;
pub mod usage;

use std::collections::BTreeMap;

use crate::layout::{ExtraAttributes, Features, InodeHead};
pub use layout::Record;

/// Whose usage a quota file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaKind {
    /// By user.
    User,
    /// By group.
    Group,
    /// By project.
    Project,
}

impl QuotaKind {
    /// In the order of the superblock's inodes.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// Its place in the superblock.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }
}

/// What an id uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Inodes.
    pub inodes: u64,
    /// Bytes of blocks, the inodes' own not counted.
    pub bytes: u64,
}

/// Usage by id.
pub type Usages = BTreeMap<u32, Usage>;

/// The ids to which an inode counts, by kind.
pub type Owners = [u32; 3];

/// What an inode counts, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// For whom.
    pub owners: Owners,
    /// How much: one inode, and its blocks but its own.
    pub usage: Usage,
}

impl Share {
    /// What the inode in this block counts; `None` for a block that is no inode yet. Its count of
    /// blocks is what is believed, as Linux does, the inode's own left out (f2fs.h,
    /// `inc_valid_node_count`).
    pub fn of_block(block: &[u8], features: Features) -> Option<Self> {
        let head = InodeHead::of_block(block).filter(|head| head.mode.get() != 0)?;
        let project = ExtraAttributes::of_block(block).and_then(|extra| extra.project_id(features)).unwrap_or(0);
        let bytes = head.blocks.get().saturating_sub(1).saturating_mul(block.len() as u64);
        Some(Self { owners: [head.uid.get(), head.gid.get(), project], usage: Usage { inodes: 1, bytes } })
    }
}
