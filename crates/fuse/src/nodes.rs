//! The kernel's references to inodes, and its inode numbers.

use std::collections::BTreeMap;

use fuser::INodeNo;
use nandkit_vfs::InodeNumber;

/// The kernel's number of the root.
const KERNEL_ROOT: u64 = 1;

/// An inode with references by the kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Number of references: lookups minus forgets.
    lookups: u64,
    /// Whether the file system retains it without a name.
    retained: bool,
    /// The directory in which it was looked up, for `..`.
    parent: Option<InodeNumber>,
}

/// All inodes with references by the kernel.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: InodeNumber,
    held: BTreeMap<u64, Node>,
}

impl Nodes {
    pub(crate) fn new(root: InodeNumber) -> Self {
        Self { root, held: BTreeMap::new() }
    }

    /// The kernel's number of an inode. The root is 1 there, and the inode with number 1 gets the
    /// root's number. `None` for 0, which is invalid for the kernel.
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

    /// Records that the kernel gets a reference to an inode found in a directory.
    pub(crate) fn told(&mut self, inode: InodeNumber, parent: InodeNumber) {
        let node = self.held.entry(inode.0).or_default();
        node.lookups = node.lookups.saturating_add(1);
        node.parent = Some(parent);
    }

    /// Drops references of the kernel; returns true if the file system must release the inode.
    #[must_use]
    pub(crate) fn forgotten(&mut self, inode: InodeNumber, times: u64) -> bool {
        let Some(node) = self.held.get_mut(&inode.0) else { return false };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups > 0 {
            return false;
        }
        self.held.remove(&inode.0).is_some_and(|node| node.retained)
    }

    /// Marks an inode as retained if the kernel holds it and it is not marked yet; returns whether
    /// it did. Both happen atomically: another thread that forgets the inode meanwhile releases it
    /// once it has the volume.
    #[must_use]
    pub(crate) fn retain(&mut self, inode: InodeNumber) -> bool {
        let Some(node) = self.held.get_mut(&inode.0).filter(|node| node.lookups > 0 && !node.retained) else {
            return false;
        };
        node.retained = true;
        true
    }

    /// Undoes [`Nodes::retain`]; returns false if another thread forgot the inode and releases it.
    #[must_use]
    pub(crate) fn undo_retain(&mut self, inode: InodeNumber) -> bool {
        let Some(node) = self.held.get_mut(&inode.0) else { return false };
        std::mem::replace(&mut node.retained, false)
    }

    /// Records that an inode moved to another directory.
    pub(crate) fn moved(&mut self, inode: InodeNumber, parent: InodeNumber) {
        if let Some(node) = self.held.get_mut(&inode.0) {
            node.parent = Some(parent);
        }
    }

    /// The parent of a directory; the root if it is unknown.
    pub(crate) fn parent(&self, inode: InodeNumber) -> InodeNumber {
        self.held.get(&inode.0).and_then(|node| node.parent).unwrap_or(self.root)
    }

    /// Forgets all inodes; returns those that the file system must release.
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
