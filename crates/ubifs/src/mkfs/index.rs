//! The index of a new volume, from its leaves to its root.

use nandkit_vfs::Result;

use super::main_area::MainArea;
use crate::encode::{aligned, bytes_of, node};
use crate::layout::{Branch, Index, Key, node_type};
use crate::node::Place;

/// A node that the index finds. Names with one hash stand in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    pub key: Key,
    /// The name of an entry, else empty.
    pub name: Box<[u8]>,
    pub leb: u32,
    pub offset: u32,
    pub length: u32,
}

impl Leaf {
    pub fn new(key: Key, name: &[u8], place: Place) -> Self {
        Self { key, name: name.into(), leb: place.leb, offset: place.offset, length: place.length }
    }
}

/// The index as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub root: Place,
    /// Bytes of all index nodes, with their alignment.
    pub bytes: u64,
}

/// Writes the index of these leaves, of which there is at least one; each call of `sequence` gives
/// the number of the next node.
pub(super) fn write(
    leaves: &mut [Leaf],
    fanout: u32,
    area: &mut MainArea<'_>,
    sequence: &mut dyn FnMut() -> u64,
) -> Result<Written> {
    leaves.sort_unstable();
    let place = |leaf: &Leaf| Place { leb: leaf.leb, offset: leaf.offset, length: leaf.length };
    let mut below: Vec<(Key, Place)> = leaves.iter().map(|leaf| (leaf.key, place(leaf))).collect();
    let (mut bytes, mut level) = (0, 0_u16);
    loop {
        let mut level_nodes = Vec::with_capacity(below.len().div_ceil(fanout as usize));
        for children in below.chunks(fanout as usize) {
            let mut body = bytes_of(&Index { children: (children.len() as u16).into(), level: level.into() }).to_vec();
            for (key, place) in children {
                let branch = Branch {
                    leb: place.leb.into(),
                    offset: place.offset.into(),
                    length: place.length.into(),
                    inode: key.inode.into(),
                    word: key.word().into(),
                };
                body.extend_from_slice(bytes_of(&branch));
            }
            let mut encoded = Vec::new();
            node(node_type::INDEX, sequence(), &[&body], &mut encoded);
            bytes += aligned(encoded.len()) as u64;
            let first = children.first().map_or(Key::inode(0), |(key, _)| *key);
            level_nodes.push((first, area.put(&encoded, true)?));
        }
        if let [(_, root)] = level_nodes.as_slice() {
            return Ok(Written { root: *root, bytes });
        }
        below = level_nodes;
        level += 1;
    }
}
