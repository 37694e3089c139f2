//! Replays the chain from its beginning: takes over its nodes into the volume's (recovery.c,
//! `recover_data`, `do_recover_data`).

use std::collections::BTreeSet;

use nandkit_block::BlockDevice;
use nandkit_vfs::{FileKind, Result};

use super::chain::{Chain, ChainNode};
use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::inode::{advise, inline};
use crate::layout::{NodeOffset, word};
use crate::node::cache::is_indirect;
use crate::node::checked::decode_inode;
use crate::segments::{Charge, Space, SpaceOn, Summary};
use crate::write::{Slot, WritableVolume};

impl<D: BlockDevice> WritableVolume<D> {
    /// Takes over the whole chain; returns how many files were created. Errors: `Corrupt`,
    /// `NoSpace`, `Device`.
    pub(super) fn replay(&mut self, chain: &Chain) -> Result<u64> {
        let mut made = 0;
        for (&ino, owner) in &chain.owners {
            if let Some(node) = owner.made_from.and_then(|index| chain.nodes.get(index)) {
                let block = self.chain_block(node.at)?;
                self.make_from(&decode_inode(self.geometry(), ino, block)?)?;
                made += 1;
            }
        }
        let named_in = self.directories_of(chain)?;
        for (index, node) in chain.nodes.iter().enumerate() {
            let ino = node.footer.ino();
            let Some(owner) = chain.owners.get(&ino).filter(|owner| index <= owner.last) else { continue };
            let block = self.chain_block(node.at)?;
            if node.footer.nid() != ino {
                self.take_node(node, &block)?;
                continue;
            }
            let from = decode_inode(self.geometry(), ino, block)?;
            self.expect_same_kind(&from)?;
            self.take_fields(&from)?;
            if owner.last_dentry == Some(index) {
                self.enter_name(&from, &named_in)?;
            }
            self.take_inline_xattrs(&from)?;
            self.cut_behind_the_end(&from)?;
            if !self.take_inline_data(ino, Some(&from))? {
                let shape = from.shape.addresses.clone();
                self.take_addresses(ino, &from.block, (shape.start, from.shape.count), 0)?;
            }
        }
        Ok(made)
    }

    /// The directories in which files of the chain are to be named.
    fn directories_of(&self, chain: &Chain) -> Result<BTreeSet<NodeId>> {
        let named = chain.owners.iter().filter_map(|(ino, owner)| Some((ino, chain.nodes.get(owner.last_dentry?)?)));
        named
            .map(|(ino, node)| {
                let from = decode_inode(self.geometry(), *ino, self.chain_block(node.at)?)?;
                Ok(NodeId(from.head.parent.get()))
            })
            .collect()
    }

    /// Truncates a file that had become shorter: drops what the checkpoint or earlier nodes have
    /// past its end. Linux leaves it.
    fn cut_behind_the_end(&mut self, from: &Inode) -> Result<()> {
        let here = self.inode_at(from.nid)?;
        if from.head.has_advise(advise::KEEP_SIZE) || here.head.has_inline(inline::DATA) {
            return Ok(());
        }
        let pages = from.head.size.get().div_ceil(self.geometry().block_size() as u64);
        self.free_pages_from(from.nid, pages)
    }

    /// Checks the kind of a file; only regular files are fsynced by marked nodes.
    fn expect_same_kind(&self, from: &Inode) -> Result<()> {
        let here = self.inode_at(from.nid)?;
        // The fsync of a compressed file is a checkpoint (file.c, `need_do_checkpoint`).
        let is_plain = from.kind == FileKind::Regular && !from.is_compressed();
        if is_plain && here.kind == from.kind && here.shape.count == from.shape.count {
            return Ok(());
        }
        let detail = format!("a {} that was fsynced as a {} with another layout", here.kind, from.kind);
        Err(Defect::new(FindingKind::State, detail).of(from.nid).into_error())
    }

    fn take_node(&mut self, node: &ChainNode, block: &Block) -> Result<()> {
        let (ino, offset) = (node.footer.ino(), node.footer.offset());
        if offset == NodeOffset::XATTR {
            return self.take_xattr_node(ino, block);
        }
        if is_indirect(self.geometry(), offset) {
            return Ok(());
        }
        self.take_inline_data(ino, None)?;
        let here = self.inode_at(ino)?;
        let Some(first) = self.first_page_of(&here, offset) else {
            let detail = format!("an fsynced node claims position {} of its tree", offset.0);
            return Err(Defect::new(FindingKind::Tree, detail).of(ino).at(node.at).into_error());
        };
        let count = here.tree_shape(self.geometry()).direct_addresses as u16;
        self.take_addresses(ino, block, (0, count), first)
    }

    /// Takes over the addresses of pages from `first` on, which a node of the chain holds from byte
    /// `start` on.
    fn take_addresses(&mut self, ino: NodeId, block: &Block, (start, count): (usize, u16), first: u64) -> Result<()> {
        let keeps_size = self.inode_at(ino)?.head.has_advise(advise::KEEP_SIZE);
        let mut known: Option<(Slot, u8)> = None;
        for index in 0..count {
            let wanted = DataAddress::of(word(block, start + usize::from(index) * 4).unwrap_or(0));
            let page = first + u64::from(index);
            if known.is_none() {
                let inode = self.inode_at(ino)?;
                known = match self.slot(&inode, page)? {
                    Some(slot) => Some((slot, self.entry(slot.nid)?.version)),
                    None if wanted == DataAddress::Hole => continue,
                    None => {
                        self.reserve(ino, page, 1)?;
                        let inode = self.inode_at(ino)?;
                        match self.slot(&inode, page)? {
                            Some(slot) => Some((slot, self.entry(slot.nid)?.version)),
                            None => continue,
                        }
                    }
                };
                // The slot of the first page, from which others follow.
                if let Some((slot, _)) = &mut known {
                    (slot.index, slot.byte) = (slot.index - index, slot.byte - usize::from(index) * 4);
                }
            }
            let Some((base, version)) = known else { continue };
            let slot = Slot { index: base.index + index, byte: base.byte + usize::from(index) * 4, ..base };
            self.take_address(ino, slot, version, wanted)?;
            let end = (page + 1) << self.geometry().log_block_size();
            let behind = self.inode_at(ino)?.head.size.get() <= page << self.geometry().log_block_size();
            if wanted != DataAddress::Hole && !keeps_size && behind {
                self.edit_head(ino, |head| head.size = end.into())?;
            }
        }
        Ok(())
    }

    fn take_address(&mut self, ino: NodeId, slot: Slot, version: u8, wanted: DataAddress) -> Result<()> {
        let found = DataAddress::of(word(&self.node(slot.nid)?, slot.byte).unwrap_or(0));
        if found == wanted {
            return Ok(());
        }
        let now = self.elapsed_seconds();
        let wanted = match wanted {
            DataAddress::At(at) if self.geometry().main(at).is_none() => {
                let detail = format!("an fsynced node refers to {at}, outside the main area");
                return Err(Defect::new(FindingKind::Address, detail).of(ino).into_error());
            }
            wanted => wanted,
        };
        match (found, wanted) {
            (DataAddress::Hole, _) => {
                let _ = self.writer.segments.space.charge(0, 1)?;
                self.count_blocks(ino, 1)?;
            }
            (_, DataAddress::Hole) => {
                self.writer.segments.space.refund(Charge { nodes: 0, blocks: 1 });
                self.count_blocks(ino, -1)?;
            }
            _ => {}
        }
        if let DataAddress::At(old) = found {
            self.writer.segments.free(old, now);
        }
        if let DataAddress::At(at) = wanted {
            self.take_block(at, Summary { nid: slot.nid, version, offset: slot.index }, now)?;
        }
        self.set_address(ino, &slot, wanted)
    }

    /// Gives a block to the file. If another file has it in the checkpoint, that one loses it
    /// (recovery.c, `check_index_in_prev_nodes`).
    fn take_block(&mut self, at: BlockAddress, owner: Summary, now: u64) -> Result<()> {
        let place = self.geometry().main(at);
        if place.is_some_and(|(segment, block)| self.writer.segments.sit().is_valid(segment, block)) {
            let before = self.writer.segments.owner(&self.device, at)?;
            if let Some(found) = self.owner_of(at, before)? {
                self.set_address(found.inode, &found.slot, DataAddress::Hole)?;
                self.writer.segments.space.refund(Charge { nodes: 0, blocks: 1 });
                self.count_blocks(found.inode, -1)?;
            }
            self.writer.segments.free(at, now);
        }
        let mut space = SpaceOn { segments: &mut self.writer.segments, device: &self.device };
        space.adopt(at, owner, now)
    }
}
