//! Parts of whole dumps, made by hand.

use crate::common::jffs2::{dirent, inode_node};
use crate::common::noise::splitmix64;

/// A cleanmarker of NOR; `obsolete`: with the bit ACCURATE cleared, as Linux leaves it in a block
/// that it writes to.
pub fn cleanmarker(obsolete: bool) -> Vec<u8> {
    let mut node = vec![0x85, 0x19, 0x03, 0x20, 12, 0, 0, 0, 0xB1, 0xB0, 0x1E, 0xE4];
    if obsolete {
        node[3] = 0;
    }
    node
}

/// A file in the root: its name and its content, each of this version in the root and of version 1.
pub fn file(name: &str, inode: u32, version: u32, content: &[u8]) -> Vec<u8> {
    let mut nodes = dirent(1, version, inode, 8, name.as_bytes());
    nodes.resize(nodes.len().next_multiple_of(4), 0xFF);
    nodes.extend(inode_node(inode, 1, content.len() as u32, 0, content));
    nodes.resize(nodes.len().next_multiple_of(4), 0xFF);
    nodes
}

/// A block of an erase size, blank behind its content.
pub fn block(erase_size: usize, content: &[&[u8]]) -> Vec<u8> {
    let mut block = content.concat();
    assert!(block.len() <= erase_size, "{} bytes in a block of {erase_size}", block.len());
    block.resize(erase_size, 0xFF);
    block
}

/// Something that is no file system.
pub fn code(length: usize) -> Vec<u8> {
    let mut state = length as u64;
    (0..length.div_ceil(8)).flat_map(|_| splitmix64(&mut state).to_le_bytes()).take(length).collect()
}
