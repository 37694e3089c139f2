//! Every byte of a volume held against what the format says of it.

mod block;
mod paths;
mod reattach;
pub mod repair;
mod tree;

use std::collections::BTreeMap;

use nandkit_flash::Flash;
use nandkit_units::BlockIndex;
use nandkit_vfs::Result;
use nandkit_vfs::path::PathBudget;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::NodeAddress;
use crate::catalogue::Queue;
use crate::volume::{Damage, DamageKind, Jffs2};
pub(crate) use paths::Paths;

/// Something wrong, and the file that it concerns where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What and where.
    pub damage: Damage,
    /// The path of the inode, from the root, with `/` in front; `None` where the inode is not known or has no name. Where the paths of all findings take more than
    /// [`nandkit_vfs::path::PathBudget`] allows, the last components behind `/...`.
    pub path: Option<Vec<u8>>,
}

/// Bytes of a volume by what they are: what the checksums stand behind, and what they do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteClasses {
    /// Fixed parts of nodes, their headers included. Any flipped bit is found.
    pub fixed: u64,
    /// Data, names and values. Any flipped bit is found.
    pub content: u64,
    /// Summaries. Any flipped bit is found.
    pub summaries: u64,
    /// Cleanmarkers. Any flipped bit is found; one that is gone altogether is not missed.
    pub cleanmarkers: u64,
    /// Padding. A flipped bit is found by its not being like the rest.
    pub padding: u64,
    /// Nodes that were marked obsolete in place: only their headers are looked at.
    pub obsolete: u64,
    /// Blank flash. A cleared bit is found; a block that was blanked is not told from one that never held anything.
    pub blank: u64,
    /// What is none of these.
    pub damaged: u64,
}

impl ByteClasses {
    fn add(&mut self, other: &Self) {
        self.fixed += other.fixed;
        self.content += other.content;
        self.summaries += other.summaries;
        self.cleanmarkers += other.cleanmarkers;
        self.padding += other.padding;
        self.obsolete += other.obsolete;
        self.blank += other.blank;
        self.damaged += other.damaged;
    }
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What is wrong, by address.
    pub findings: Vec<Finding>,
    /// Nodes that are whole.
    pub nodes: u64,
    /// Inodes with a name.
    pub inodes: u64,
    /// Bytes by class.
    pub bytes: ByteClasses,
}

impl CheckReport {
    /// How many findings of each kind there are.
    pub fn counts(&self) -> BTreeMap<DamageKind, usize> {
        let mut counts = BTreeMap::new();
        for finding in &self.findings {
            *counts.entry(finding.damage.kind).or_default() += 1;
        }
        counts
    }
}

/// What a check of one block found.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockReport {
    pub(crate) damage: Vec<Damage>,
    pub(crate) nodes: u64,
    pub(crate) bytes: ByteClasses,
    pub(crate) nameless: tree::Nameless,
}

impl<F: Flash> Jffs2<F> {
    /// Reads every byte: checksums of headers, nodes, names, data and values, data decompressed, summaries held against their blocks, cleanmarkers, free flash, references; and
    /// loads every inode, and holds it against its names. What waits in write buffers is looked at as if it were on the flash.
    ///
    /// `parallel` as in [`crate::MountOptions`]; the result does not depend on it. Errors: `Device`. Cost: one pass over the device and one over the inodes' nodes.
    pub fn check(&self, parallel: bool) -> Result<CheckReport> {
        let blocks = self.catalogue.blocks.len() as u32;
        let check = |buffer: &mut Vec<u8>, block| self.check_block(BlockIndex(block), buffer);
        let reports: Vec<BlockReport> = if parallel {
            (0..blocks).into_par_iter().map_init(Vec::new, check).collect::<Result<_>>()?
        } else {
            let mut buffer = Vec::new();
            (0..blocks).map(|block| check(&mut buffer, block)).collect::<Result<_>>()?
        };
        let mut report = CheckReport::default();
        let mut found: Vec<Damage> = Vec::new();
        let mut nameless = tree::Nameless::default();
        for block in reports {
            report.nodes += block.nodes;
            report.bytes.add(&block.bytes);
            found.extend(block.damage);
            nameless.add(block.nameless);
        }
        for (number, inode) in &self.inodes {
            if inode.links > 0 {
                report.inodes += 1;
                self.body(*number)?;
            }
        }
        for id in self.xattrs.attributes.keys() {
            self.attribute_content(*id)?;
        }
        // What the mount and the inodes say of a node that the pass over the blocks found bad is the same once more.
        let known: BTreeMap<NodeAddress, ()> =
            found.iter().filter(|damage| of_bytes(damage.kind)).map(|damage| (damage.at, ())).collect();
        found.extend(
            self.damage().into_iter().filter(|damage| !of_bytes(damage.kind) || !known.contains_key(&damage.at)),
        );
        found.extend(self.tree_faults()?.into_iter().map(|fault| fault.damage));
        found.extend(nameless.remains(self));
        found.sort();
        found.dedup();
        let paths = Paths::of(&self.inodes);
        let mut budget = PathBudget::default();
        let mut named = |damage: Damage| Finding {
            path: damage.inode.and_then(|inode| paths.path_within(inode, &mut budget)),
            damage,
        };
        report.findings = found.into_iter().map(&mut named).collect();
        Ok(report)
    }

    /// The path of an inode from the root, with `/` in front; of one with several names, one of them. `None` where it has none. Cost: a pass over all names.
    pub fn path_of(&self, inode: u32) -> Option<Vec<u8>> {
        Paths::of(&self.inodes).path(inode)
    }

    fn check_block(&self, block: BlockIndex, buffer: &mut Vec<u8>) -> Result<BlockReport> {
        let bad = self.catalogue.block(block).is_some_and(|block| block.queue == Queue::Bad);
        if bad || self.medium.is_bad(block) {
            return Ok(BlockReport::default());
        }
        block::check(self, block, buffer)
    }
}

/// Whether damage of this kind is in the bytes of the node itself.
pub(crate) const fn of_bytes(kind: DamageKind) -> bool {
    !matches!(
        kind,
        DamageKind::Inode
            | DamageKind::Reference
            | DamageKind::Orphan
            | DamageKind::Missing
            | DamageKind::Uncorrectable
            | DamageKind::Remains
    )
}
