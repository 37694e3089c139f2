//! Nodes in images for tests that change them.

use nandkit_ubifs::layout::{HEADER_SIZE, MAGIC, checksum, node_type};

/// The offsets of all nodes, with their lengths.
pub fn nodes(image: &[u8]) -> Vec<(usize, usize)> {
    let at =
        |place: usize| image.get(place..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word));
    let places = (0..image.len()).step_by(8).filter(|place| at(*place) == Some(MAGIC));
    let sized = places.filter_map(|place| Some((place, at(place + 16)? as usize)));
    sized.filter(|(place, length)| *length >= HEADER_SIZE && place + length <= image.len()).collect()
}

/// Writes the checksum that fits the rest of a node.
pub fn mend(node: &mut [u8]) {
    let sum = checksum(node).to_le_bytes();
    node[4..8].copy_from_slice(&sum);
}

/// Whether bytes are a node of this type with its checksum. mkfs.ubifs writes a node of 64 bytes
/// behind the superblock, whose type is that of inodes, but is none.
pub fn is_of_type(node: &[u8], node_type: u8) -> bool {
    let is_inode = node_type != node_type::INODE || node.len() >= 160;
    node[20] == node_type && is_inode && node[4..8] == checksum(node).to_le_bytes()
}
