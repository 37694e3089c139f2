//! Encodes structures into blocks: pure functions shared by mkfs, checkpoints and repairs.

pub mod directory;
pub mod inode;
pub mod node;
pub mod pack;
pub mod sit_nat;
pub mod xattr;

pub use pack::Pack;

/// Copies bytes into a block at `at`; bytes past its end are dropped.
pub(crate) fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = block.get_mut(at..) {
        to.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    }
}
