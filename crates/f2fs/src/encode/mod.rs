//! Structures into blocks: pure functions, shared by mkfs, by checkpoints and by repairs.

pub mod directory;
pub mod inode;
pub mod node;
pub mod pack;
pub mod sit_nat;
pub mod xattr;

pub use pack::Pack;

/// Puts bytes at a place of a block; what would lie behind its end is left out.
pub(crate) fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = block.get_mut(at..) {
        to.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    }
}
