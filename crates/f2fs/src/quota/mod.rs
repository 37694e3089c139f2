//! Quota files: usage and limits by user, group and project (f2fs.md, "Quota files").
//!
//! The format ([`layout`]), the tree of blocks that leads to an id's record ([`tree`]), whole files
//! ([`mod@file`]), and the state of a writable mount ([`usage`]).

pub mod file;
pub mod layout;
pub mod tree;
pub mod usage;

use std::collections::BTreeMap;

use crate::layout::{ExtraAttributes, Features, InodeHead};
pub use layout::Record;

/// The kind of owners whose usage a quota file counts.
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
    /// All kinds, in the order of the superblock's inodes.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// The index in the superblock.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }
}

/// The usage of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of inodes.
    pub inodes: u64,
    /// Bytes of blocks, without the inode blocks themselves.
    pub bytes: u64,
}

/// Usage by id.
pub type Usages = BTreeMap<u32, Usage>;

/// The IDs that an inode counts for, by kind.
pub type Owners = [u32; 3];

/// What an inode counts, and for which owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The owners.
    pub owners: Owners,
    /// The usage: one inode, and its blocks except the inode block.
    pub usage: Usage,
}

impl Share {
    /// The share of the inode in this block; `None` if the block is not an inode yet. It trusts the
    /// inode's block count, as Linux does, minus the inode block itself (f2fs.h,
    /// `inc_valid_node_count`).
    pub fn of_block(block: &[u8], features: Features) -> Option<Self> {
        let head = InodeHead::of_block(block).filter(|head| head.mode.get() != 0)?;
        let project = ExtraAttributes::of_block(block).and_then(|extra| extra.project_id(features)).unwrap_or(0);
        let bytes = head.blocks.get().saturating_sub(1).saturating_mul(block.len() as u64);
        Some(Self { owners: [head.uid.get(), head.gid.get(), project], usage: Usage { inodes: 1, bytes } })
    }
}
