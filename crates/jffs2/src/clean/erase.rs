//! Erasing blocks, and retiring failed ones.

use std::collections::BTreeSet;

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause};
use nandkit_vfs::Result;

use crate::NodeAddress;
use crate::catalogue::{NodeRef, NodeState, Owner, Queue};
use crate::layout::ROOT;
use crate::volume::Jffs2;
use crate::write::allocate::is_failure;
use crate::write::device;

impl<F: Flash> Jffs2<F> {
    /// Erases the first block that waits for it, or retires it if it failed. Does nothing if none
    /// waits.
    pub(crate) fn erase_pending(&mut self) -> Result<()> {
        let Some(number) = self.catalogue.head(Queue::ErasePending) else { return Ok(()) };
        let nodes = self.catalogue.clear(number);
        self.forget(number, &nodes);
        if self.catalogue.block(number).is_some_and(|block| block.failed) {
            return self.retire(number);
        }
        let unclean = self.catalogue.blocks.get_mut(number.index()).map(|block| std::mem::take(&mut block.unclean));
        let cause = if unclean == Some(true) { Cause::Recovery } else { Cause::Cleaning };
        match self.medium.erase(number, cause) {
            Ok(()) => {}
            Err(error) if is_failure(error.kind) => return self.retire(number),
            Err(error) => return Err(device(error)),
        }
        let marker = self.medium.shape().cleanmarker.size();
        if marker > 0 {
            let node = NodeRef::new(0, marker, Owner::None, NodeState::Normal, self.medium.now());
            self.catalogue.link(number, node);
        }
        if let Some(block) = self.catalogue.blocks.get_mut(number.index()) {
            block.erases = block.erases.saturating_add(1);
        }
        self.catalogue.file(number, Queue::Free);
        self.writer()?.counters.erases += 1;
        Ok(())
    }

    fn retire(&mut self, number: BlockIndex) -> Result<()> {
        self.catalogue.retire(number);
        self.writer()?.counters.retired += 1;
        self.medium.mark_bad(number).map_err(device)
    }

    /// Forgets nodes that are gone from the flash, including obsolete ones, which cannot reappear
    /// now. Also drops inodes, attributes and references without nodes that are not in use.
    fn forget(&mut self, number: BlockIndex, nodes: &[NodeRef]) {
        let erase_size = self.catalogue.erase_size;
        let elsewhere = |at: &NodeAddress| at.block(erase_size) != number;
        let owners: BTreeSet<Owner> = nodes.iter().map(NodeRef::owner).collect();
        for inode in owners.iter().filter_map(|owner| if let Owner::Inode(inode) = owner { Some(*inode) } else { None })
        {
            let Some(found) = self.inodes.get_mut(&inode) else { continue };
            found.nodes.retain(elsewhere);
            if found.nodes.is_empty() && found.links == 0 && found.retained == 0 && inode != ROOT {
                self.inodes.remove(&inode);
            }
        }
        for id in owners.iter().filter_map(|owner| if let Owner::Xattr(id) = owner { Some(*id) } else { None }) {
            let Some(found) = self.xattrs.attributes.get_mut(&id) else { continue };
            found.nodes.retain(elsewhere);
            if found.nodes.is_empty() && found.users == 0 {
                self.xattrs.attributes.remove(&id);
            }
        }
        for inode in owners.iter().filter_map(|owner| if let Owner::Xref(inode) = owner { Some(*inode) } else { None })
        {
            let mut gone = Vec::new();
            for (key, reference) in self.xattrs.references.range_mut((inode, 0)..=(inode, u32::MAX)) {
                reference.nodes.retain(elsewhere);
                if reference.nodes.is_empty() && reference.is_dead() {
                    gone.push(*key);
                }
            }
            for key in gone {
                self.xattrs.references.remove(&key);
            }
        }
    }
}
