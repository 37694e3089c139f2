//! The chain: nodes written to the warm node log since the last checkpoint, whose files were
//! fsynced (recovery.c, `find_fsync_dnodes`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, DataAddress, Log, NodeId};
use crate::layout::checkpoint::flag;
use crate::layout::node::mark;
use crate::layout::{Footer, Geometry, NodeOffset, word};
use crate::node::cache::is_indirect;
use crate::node::checked::decode_inode;
use crate::write::WritableVolume;

/// From this many named blocks on, duplicates are worth removing.
const COMPACT_FROM: usize = 1 << 16;

/// A node of the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainNode {
    pub at: BlockAddress,
    pub footer: Footer,
}

/// A file that was fsynced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// Index of its last node with the fsync mark.
    pub last: usize,
    /// Index of its last node with the dentry mark, which names the file.
    pub last_dentry: Option<usize>,
    /// Index of the node to create the file from, if the checkpoint does not have it.
    pub made_from: Option<usize>,
}

/// The chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub nodes: Vec<ChainNode>,
    pub owners: BTreeMap<NodeId, Owner>,
    /// Data blocks that its nodes name, possibly with duplicates.
    pub named: Vec<BlockAddress>,
    /// The number of blocks at which duplicates are removed next.
    compact_at: usize,
}

impl Chain {
    /// Follows the chain from the position of the checkpoint's warm node log. Errors: `Corrupt` (it
    /// is a cycle), `Device`.
    pub fn find<D: BlockDevice>(volume: &WritableVolume<D>) -> Result<Self> {
        let mut chain = Self::default();
        let state = &volume.state;
        if state.head.has(flag::DISABLED) {
            return Ok(chain);
        }
        let geometry = volume.geometry();
        let mut seen = BTreeSet::new();
        let log = state.logs[Log::WarmNode.index()];
        let mut at = geometry.segment_start(log.segment).checked_add(u32::from(log.next));
        while let Some(here) = at.filter(|&at| geometry.main(at).is_some()) {
            let block = volume.chain_block(here)?;
            let Some(footer) = Footer::of_block(&block).filter(|footer| volume.is_recent(footer)) else { break };
            if footer.next() == here || !seen.insert(here.0) {
                let detail = format!("the chain of fsynced nodes becomes a cycle after {} nodes", chain.nodes.len());
                return Err(Defect::new(FindingKind::State, detail).at(here).into_error());
            }
            chain.add(volume, here, footer, &block)?;
            at = Some(footer.next());
        }
        Ok(chain)
    }

    fn add<D: BlockDevice>(
        &mut self,
        volume: &WritableVolume<D>,
        at: BlockAddress,
        footer: Footer,
        block: &Block,
    ) -> Result<()> {
        let index = self.nodes.len();
        self.nodes.push(ChainNode { at, footer });
        self.named.extend(named(volume.geometry(), &footer, block));
        // A file that is fsynced repeatedly names the same blocks in each of its nodes.
        if self.named.len() > self.compact_at {
            self.named.sort_unstable();
            self.named.dedup();
            self.compact_at = (2 * self.named.len()).max(COMPACT_FROM);
        }
        if !footer.has(mark::FSYNC) {
            return Ok(());
        }
        let ino = footer.ino();
        let names_it = footer.nid() == ino && footer.has(mark::DENTRY);
        let owner = match self.owners.entry(ino) {
            Entry::Occupied(owner) => owner.into_mut(),
            Entry::Vacant(place) => {
                if ino < NodeId::ROOT || volume.geometry().nat_block(ino).is_none() {
                    return Ok(());
                }
                let exists = !volume.entry(ino)?.is_free();
                if !exists && !names_it {
                    // Part of a file that does not exist yet.
                    return Ok(());
                }
                let made_from = (!exists).then_some(index);
                place.insert(Owner { last: index, last_dentry: None, made_from })
            }
        };
        owner.last = index;
        if names_it {
            owner.last_dentry = Some(index);
        }
        Ok(())
    }
}

/// The data blocks that a node names.
fn named(geometry: &Geometry, footer: &Footer, block: &Block) -> Vec<BlockAddress> {
    let range = if footer.nid() == footer.ino() {
        match decode_inode(geometry, footer.nid(), block.clone()) {
            Ok(inode) if inode.inline_data().is_none() => inode.shape.addresses,
            _ => return Vec::new(),
        }
    } else if footer.offset() == NodeOffset::XATTR || is_indirect(geometry, footer.offset()) {
        return Vec::new();
    } else {
        0..usize::from(geometry.addresses_per_node()) * 4
    };
    let words = range.step_by(4).filter_map(|at| word(block, at));
    words
        .filter_map(|field| match DataAddress::of(field) {
            DataAddress::At(at) if geometry.main(at).is_some() => Some(at),
            _ => None,
        })
        .collect()
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Whether a node was written after the last checkpoint and before the next (node.h,
    /// `is_recoverable_dnode`).
    fn is_recent(&self, footer: &Footer) -> bool {
        if self.state.head.has(flag::NO_CRC_RECOVERY) {
            return self.state.head.version.get() as u32 == footer.checkpoint.get() as u32;
        }
        self.footer_key() == footer.checkpoint.get()
    }

    /// Reads a block of the chain. Errors: `Device`, `Corrupt`.
    pub(super) fn chain_block(&self, at: BlockAddress) -> Result<Block> {
        let mut block = vec![0; self.geometry().block_size()];
        self.read(Cause::Recovery, at, &mut block)?;
        Ok(block.into())
    }
}
