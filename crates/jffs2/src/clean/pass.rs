//! One step of the collector.

use nandkit_cleaning::separation::Stamp;
use nandkit_flash::Flash;
use nandkit_units::BlockIndex;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::view::views;
use crate::catalogue::{NodeState, Owner, Queue};
use crate::volume::Jffs2;

impl<F: Flash> Jffs2<F> {
    /// Erases one block that is waiting for it, or moves one node (fs/jffs2/gc.c,
    /// `jffs2_garbage_collect_pass`).
    ///
    /// Errors: `NoSpace` if nothing can be collected; `Device`.
    pub(crate) fn pass(&mut self) -> Result<()> {
        self.check_all()?;
        if self.catalogue.count(Queue::ErasePending) > 0 {
            return self.erase_pending();
        }
        self.writer()?.counters.passes += 1;
        let victim = match self.catalogue.head(Queue::Collecting) {
            Some(victim) => victim,
            None => match self.choose()? {
                Some(victim) => victim,
                // Flushing has left blocks to erase.
                None => return Ok(()),
            },
        };
        self.step(victim)
    }

    /// Reads the inodes that have not been read since the mount.
    ///
    /// After that, [`nandkit_vfs::FileSystem::volume`] counts as free the space of nodes that newer
    /// nodes have made obsolete. [`Jffs2::damage`] reports the damage found on the way.
    ///
    /// Cost: reading the headers of all nodes that are not superseded, and all attributes; nothing
    /// from the second call on.
    ///
    /// Errors: `ReadOnly`, `Device`.
    pub fn account(&mut self) -> Result<()> {
        self.check_all()?;
        let used = self.xattrs.attributes.iter().filter(|(_, attribute)| attribute.users > 0);
        used.map(|(id, _)| *id).try_for_each(|id| self.attribute_content(id).map(drop))
    }

    /// Reads all inodes, which must be known before any node is moved: otherwise obsolete nodes
    /// would be copied and valid nodes could be lost.
    fn check_all(&mut self) -> Result<()> {
        if self.writer()?.all_checked {
            return Ok(());
        }
        if self.catalogue.sums.unchecked == 0 {
            self.writer()?.all_checked = true;
            return Ok(());
        }
        for inode in self.inodes.keys().copied().collect::<Vec<_>>() {
            match self.settle(inode) {
                Err(error) if error.kind == ErrorKind::Device => return Err(error),
                // An inode that cannot be read is copied as it is.
                _ => {}
            }
        }
        let erase_size = self.catalogue.erase_size;
        let mut left = Vec::new();
        for (number, block) in self.catalogue.blocks.iter().enumerate() {
            for node in block.nodes.iter().filter(|node| node.state == NodeState::Unchecked) {
                left.push(crate::NodeAddress(number as u32 * erase_size + node.offset));
            }
        }
        for at in left {
            self.catalogue.set_state(at, NodeState::Normal);
        }
        // Set only now, so that inodes are read again after a device failure in the loop above.
        self.writer()?.all_checked = true;
        Ok(())
    }

    /// Asks the policy for a victim block. If fewer blocks are ready than deletions need, the
    /// victim is the block with the least data to move, whatever the policy. `None`: there is no
    /// victim, but there are blocks to erase.
    fn choose(&mut self) -> Result<Option<BlockIndex>> {
        let now = self.medium.now();
        let programmed = self.medium.programmed_bytes();
        loop {
            let writer = self.writer()?;
            let (policy, bad, deletion) = (writer.options().policy, writer.levels().bad, writer.levels().deletion);
            // The remaining space must not be spent on a block that gives little back, nor before
            // the blocks already emptied can be used.
            let few = self.catalogue.ready() < deletion;
            if few && self.catalogue.count(Queue::ErasableAfterFlush) > 0 && self.medium.is_waiting() {
                self.flush_all()?;
                if self.catalogue.count(Queue::ErasePending) > 0 {
                    return Ok(None);
                }
            }
            let with_bad = self.catalogue.count(Queue::Free) > bad;
            let Some(writer) = self.writer.as_deref_mut() else { return Err(crate::write::read_only()) };
            let all = views(&self.catalogue, with_bad);
            let dirty = all.clone().filter(|view| few && view.invalid > 0);
            let least = dirty.min_by_key(|view| view.valid).map(|view| view.block);
            let all = all.filter(move |view| least.is_none_or(|least| least == view.block));
            let Some(choice) = policy.choose(all, now, &mut |bound| writer.draw(bound, now, programmed)) else {
                if self.catalogue.count(Queue::ErasableAfterFlush) > 0 && self.medium.is_waiting() {
                    self.flush_all()?;
                    continue;
                }
                if self.catalogue.count(Queue::ErasePending) > 0 {
                    return Ok(None);
                }
                return Err(FsError::new(ErrorKind::NoSpace, "no block is left to collect"));
            };
            let victim = BlockIndex(choice.block);
            writer.counters.victim(choice.reason, choice.evaluated);
            writer.cursor = 0;
            if let Some(block) = self.catalogue.block(victim) {
                writer.separator.on_victim(block.region, Stamp(block.opened), now);
            }
            self.catalogue.file(victim, Queue::Collecting);
            self.catalogue.waste_to_dirty(victim);
            return Ok(Some(victim));
        }
    }

    /// Moves the victim's next valid node.
    fn step(&mut self, victim: BlockIndex) -> Result<()> {
        let Some(block) = self.catalogue.block(victim) else { return Ok(()) };
        let cursor = self.writer.as_deref().map_or(0, |writer| writer.cursor);
        let next = block.nodes.iter().enumerate().skip(cursor).find(|(_, node)| !node.is_obsolete());
        let Some((place, node)) = next.map(|(place, node)| (place, *node)) else {
            self.catalogue.file(victim, Queue::ErasePending);
            return Ok(());
        };
        self.writer()?.cursor = place;
        let at = self.catalogue.address(victim, node.offset);
        match node.owner() {
            Owner::None if node.state != NodeState::Pristine => self.obsolete(at),
            Owner::None => self.copy(at, &node, None)?,
            Owner::Inode(inode) => self.collect_of_inode(inode, at, &node)?,
            Owner::Xattr(id) => self.collect_attribute(id, at, &node)?,
            Owner::Xref(inode) => self.collect_reference(inode, at, &node)?,
        }
        if self.catalogue.node(at).is_some_and(|node| !node.is_obsolete()) {
            return Err(FsError::new(ErrorKind::NoSpace, format!("the node at {at} cannot be moved")));
        }
        Ok(())
    }
}
