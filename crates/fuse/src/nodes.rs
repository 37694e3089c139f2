//! What the kernel knows: its references to inodes, and the numbers by which it calls them.

use std::collections::BTreeMap;

use fuser::INodeNo;
use nandkit_vfs::InodeNumber;

/// The kernel's number of the root.
const KERNEL_ROOT: u64 = 1;

/// An inode that the kernel holds.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// How often it was told of it, less how often it forgot.
    lookups: u64,
    /// The file system keeps it although its last name went.
    retained: bool,
    /// The directory through which it was found, for `..`.
    parent: Option<InodeNumber>,
}

/// The inodes that the kernel holds.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: InodeNumber,
    held: BTreeMap<u64, Node>,
}

impl Nodes {
    pub(crate) fn new(root: InodeNumber) -> Self {
        Self { root, held: BTreeMap::new() }
    }

    /// The kernel's number of an inode: the root is 1, and who is 1 has the root's number. `None`
    /// for 0, which means nothing to the kernel.
    pub(crate) fn outside(&self, inode: InodeNumber) -> Option<INodeNo> {
        let number = self.swapped(inode.0);
        (number != 0).then_some(INodeNo(number))
    }

    /// The file system's number of an inode.
    pub(crate) fn inside(&self, inode: INodeNo) -> InodeNumber {
        InodeNumber(self.swapped(inode.0))
    }

    fn swapped(&self, number: u64) -> u64 {
        match number {
            KERNEL_ROOT => self.root.0,
            number if number == self.root.0 => KERNEL_ROOT,
            number => number,
        }
    }

    /// The kernel is told of an inode, found in a directory.
    pub(crate) fn told(&mut self, inode: InodeNumber, parent: InodeNumber) {
        let node = self.held.entry(inode.0).or_default();
        node.lookups = node.lookups.saturating_add(1);
        node.parent = Some(parent);
    }

    /// The kernel forgets that it was told so often; true where the file system is to release the
    /// inode.
    #[must_use]
    pub(crate) fn forgotten(&mut self, inode: InodeNumber, times: u64) -> bool {
        let Some(node) = self.held.get_mut(&inode.0) else { return false };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups > 0 {
            return false;
        }
        self.held.remove(&inode.0).is_some_and(|node| node.retained)
    }

    /// Notes that the file system is to retain an inode, if the kernel holds it and that is not so
    /// already; true then. Asked and noted at once: another thread that forgets it meanwhile
    /// releases it, once it has the volume.
    #[must_use]
    pub(crate) fn retain(&mut self, inode: InodeNumber) -> bool {
        let Some(node) = self.held.get_mut(&inode.0).filter(|node| node.lookups > 0 && !node.retained) else {
            return false;
        };
        node.retained = true;
        true
    }

    /// The file system does not retain an inode after all; false where another thread forgot it,
    /// and releases it.
    #[must_use]
    pub(crate) fn undo_retain(&mut self, inode: InodeNumber) -> bool {
        let Some(node) = self.held.get_mut(&inode.0) else { return false };
        std::mem::replace(&mut node.retained, false)
    }

    /// An inode is in another directory now.
    pub(crate) fn moved(&mut self, inode: InodeNumber, parent: InodeNumber) {
        if let Some(node) = self.held.get_mut(&inode.0) {
            node.parent = Some(parent);
        }
    }

    /// The directory above one; the root where that is not known.
    pub(crate) fn parent(&self, inode: InodeNumber) -> InodeNumber {
        self.held.get(&inode.0).and_then(|node| node.parent).unwrap_or(self.root)
    }

    /// Forgets all; returns those that the file system is to release.
    pub(crate) fn take_retained(&mut self) -> Vec<InodeNumber> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().filter(|(_, node)| node.retained).map(|(inode, _)| InodeNumber(inode)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_one_for_the_kernel() {
        let nodes = Nodes::new(InodeNumber(3));
        for (inside, outside) in [(3, 1), (1, 3), (7, 7)] {
            assert_eq!(nodes.outside(InodeNumber(inside)), Some(INodeNo(outside)));
            assert_eq!(nodes.inside(INodeNo(outside)), InodeNumber(inside));
        }
        assert_eq!(nodes.outside(InodeNumber(0)), None);
    }

    #[test]
    fn an_inode_is_released_once_when_the_last_reference_goes() {
        let (file, root) = (InodeNumber(5), InodeNumber(1));
        let mut nodes = Nodes::new(root);
        assert!(!nodes.retain(file));
        nodes.told(file, root);
        nodes.told(file, root);
        assert!(nodes.retain(file) && !nodes.retain(file));
        assert!(nodes.undo_retain(file) && !nodes.undo_retain(file));
        assert!(nodes.retain(file));
        assert!(!nodes.forgotten(file, 1));
        assert!(nodes.forgotten(file, 1));
        assert!(!nodes.forgotten(file, 1));
        nodes.told(file, root);
        assert!(!nodes.forgotten(file, 1));
    }
}
