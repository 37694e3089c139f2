//! Nodes of JFFS2 by hand: what no tool writes. Layout: linux/jffs2.h, little-endian.

/// The CRC of JFFS2: that of zlib without the inversions.
pub fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(u32::MAX);
    hasher.update(bytes);
    !hasher.finalize()
}

fn header(kind: u16, length: usize) -> Vec<u8> {
    let mut node = vec![0x85, 0x19];
    node.extend(kind.to_le_bytes());
    node.extend((length as u32).to_le_bytes());
    node.extend(crc(&node).to_le_bytes());
    node
}

/// A name in a directory; `kind` is `st_mode >> 12`.
pub fn dirent(parent: u32, version: u32, inode: u32, kind: u8, name: &[u8]) -> Vec<u8> {
    let mut node = header(0xE001, 40 + name.len());
    for number in [parent, version, inode, 1_600_000_000] {
        node.extend(number.to_le_bytes());
    }
    node.extend([name.len() as u8, kind, 0, 0]);
    node.extend(crc(&node).to_le_bytes());
    node.extend(crc(name).to_le_bytes());
    node.extend(name);
    node
}

/// Says that a directory holds a name no more.
pub fn deletion(parent: u32, version: u32, name: &[u8]) -> Vec<u8> {
    dirent(parent, version, 0, 0, name)
}

/// A regular file's data, uncompressed.
pub fn inode_node(inode: u32, version: u32, size: u32, offset: u32, data: &[u8]) -> Vec<u8> {
    let mut node = header(0xE002, 68 + data.len());
    for number in [inode, version, 0o100_644] {
        node.extend(number.to_le_bytes());
    }
    node.extend([0; 4]);
    for number in [size, 1_600_000_000, 1_600_000_000, 1_600_000_000, offset, data.len() as u32, data.len() as u32] {
        node.extend(number.to_le_bytes());
    }
    node.extend([0; 4]);
    node.extend(crc(data).to_le_bytes());
    node.extend(crc(&node[..60]).to_le_bytes());
    node.extend(data);
    node
}

/// The node of a file or directory that holds no byte, of `size` bytes of hole if it is a file.
pub fn bare_node(inode: u32, mode: u32, size: u32) -> Vec<u8> {
    let mut node = inode_node(inode, 1, size, 0, b"");
    node[52..56].copy_from_slice(&size.to_le_bytes());
    // Zero: nothing is stored.
    node[56] = u8::from(size > 0);
    set_mode(&mut node, mode);
    node
}

/// Gives an inode's node another mode, with the right checksum.
pub fn set_mode(node: &mut [u8], mode: u32) {
    node[20..24].copy_from_slice(&mode.to_le_bytes());
    let sum = crc(&node[..60]);
    node[64..68].copy_from_slice(&sum.to_le_bytes());
}

/// Blocks of `erase_size` bytes with these nodes, one behind the other, and a blank block.
pub fn blocks(erase_size: usize, nodes: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut image = Vec::new();
    for node in nodes {
        let room = erase_size - image.len() % erase_size;
        if node.len() > room {
            image.resize(image.len() + room, 0xFF);
        }
        image.extend(node);
        image.resize(image.len().next_multiple_of(4), 0xFF);
    }
    image.resize(image.len().next_multiple_of(erase_size) + erase_size, 0xFF);
    image
}

/// Puts a node behind the last one of an image that has free space at its end.
pub fn append(image: &mut [u8], node: &[u8]) {
    let end = image.iter().rposition(|byte| *byte != 0xFF).expect("not blank") + 1;
    let at = end.next_multiple_of(4);
    image[at..at + node.len()].copy_from_slice(node);
}

/// Flips a bit of the only place that holds these bytes; returns where.
pub fn flip(image: &mut [u8], bytes: &[u8]) -> usize {
    let at = image.windows(bytes.len()).position(|window| window == bytes).expect("the bytes are there");
    image[at] ^= 0x10;
    at
}

/// Gives a name of an image, which is there once, another one that is no longer, with right
/// checksums.
pub fn rename_in_image(image: &mut [u8], from: &[u8], to: &[u8]) {
    let name = image.windows(from.len()).position(|window| window == from).expect("the name is there");
    let start = name - 40;
    let number = |at: usize| u32::from_le_bytes(image[start + at..start + at + 4].try_into().expect("four bytes"));
    let node = dirent(number(12), number(16), number(20), image[start + 29], to);
    let old = 40 + from.len().next_multiple_of(4);
    image[start..start + old].fill(0xFF);
    image[start..start + node.len()].copy_from_slice(&node);
}
