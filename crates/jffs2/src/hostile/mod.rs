//! Images with valid checksums that try to exhaust time, memory, or inode numbers.

mod load;
mod mount;

use nandkit_testkit::flash_memory::RamFlash;
use nandkit_units::Clock;

use crate::Ino;
use crate::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use crate::layout::{
    ByteOrder, Header, SUMMARY_MAGIC, SUMMARY_MARKER_SIZE, SUMMARY_SIZE, Summary, covered, crc, node_type,
};
use crate::{Jffs2, MountOptions};

const ERASE_SIZE: usize = 64 << 10;
const ORDER: ByteOrder = ByteOrder::Little;

/// Consecutive nodes in blocks without summaries.
#[derive(Default)]
struct Image(Vec<u8>);

impl Image {
    fn add(&mut self, node: &[u8]) {
        let left = ERASE_SIZE - self.0.len() % ERASE_SIZE;
        if left < node.len() {
            self.0.resize(self.0.len() + left, 0xFF);
        }
        self.0.extend_from_slice(node);
        self.0.resize(self.0.len().next_multiple_of(4), 0xFF);
    }

    fn name(&mut self, parent: u32, version: u32, name: &str, inode: u32, kind: u8) {
        self.add(&name_node(parent, version, name, inode, kind));
    }

    /// A node of a regular file that holds a hole.
    fn hole(&mut self, inode: u32, version: u32, offset: u32, size: u32, file_size: u32) {
        let fields = InodeFields { inode: Ino(inode), version, mode: 0o100_644, file_size, ..InodeFields::default() };
        let mut node = Vec::new();
        inode_node(ORDER, &fields, &Piece::hole(offset, size), &mut node);
        self.add(&node);
    }

    fn directory(&mut self, inode: u32) {
        let fields = InodeFields { inode: Ino(inode), version: 1, mode: 0o040_755, ..InodeFields::default() };
        let mut node = Vec::new();
        inode_node(ORDER, &fields, &Piece::NOTHING, &mut node);
        self.add(&node);
    }

    /// The image on a flash with some free blocks.
    fn flash(mut self) -> RamFlash {
        self.0.resize(self.0.len().next_multiple_of(ERASE_SIZE) + 8 * ERASE_SIZE, 0xFF);
        RamFlash::nor(self.0, ERASE_SIZE as u32)
    }
}

fn name_node(parent: u32, version: u32, name: &str, inode: u32, kind: u8) -> Vec<u8> {
    let mut node = Vec::new();
    dirent_node(
        ORDER,
        &DirentFields { parent: Ino(parent), version, inode: Ino(inode), made: 1, kind },
        name.as_bytes(),
        &mut node,
    );
    node
}

/// A block with a summary whose entries may differ from its nodes.
#[derive(Default)]
struct Summed {
    nodes: Vec<u8>,
    entries: Vec<u8>,
    count: u32,
}

impl Summed {
    fn add(&mut self, kind: u16, node: &[u8], words: impl FnOnce(u32) -> Vec<u32>, rest: &[u8]) {
        self.entries.extend_from_slice(&ORDER.bytes16(kind));
        for word in words(self.nodes.len() as u32) {
            self.entries.extend_from_slice(&ORDER.bytes32(word));
        }
        self.entries.extend_from_slice(rest);
        self.count += 1;
        self.nodes.extend_from_slice(node);
        self.nodes.resize(self.nodes.len().next_multiple_of(4), 0xFF);
    }

    fn inode(&mut self, inode: u32, version: u32, node: &[u8], length: u32) {
        self.add(node_type::INODE, node, |offset| vec![inode, version, offset, length], &[]);
    }

    fn name(&mut self, (parent, version, inode, kind): (u32, u32, u32, u8), name: &str, node: &[u8]) {
        let length = node.len() as u32;
        let rest = [&[name.len() as u8, kind], name.as_bytes()].concat();
        self.add(node_type::DIRENT, node, |offset| vec![length, offset, parent, version, inode], &rest);
    }

    /// Whether there is no room for another name of the same length.
    fn is_full(&self) -> bool {
        self.nodes.len() + self.entries.len() + 200 > ERASE_SIZE
    }

    fn block(self) -> Vec<u8> {
        let mut block = self.nodes;
        let offset = block.len();
        let room = (ERASE_SIZE - offset) as u32;
        let mut node = vec![0; SUMMARY_SIZE as usize];
        node.extend_from_slice(&self.entries);
        node.resize((room - SUMMARY_MARKER_SIZE) as usize, 0xFF);
        node.extend_from_slice(&ORDER.bytes32(offset as u32));
        node.extend_from_slice(&ORDER.bytes32(SUMMARY_MAGIC));
        let header = Header::new(ORDER, node_type::SUMMARY, room);
        let mut summary = Summary {
            magic: header.magic,
            node_type: header.node_type,
            total_length: room,
            header_crc: header.header_crc,
            entries: self.count,
            cleanmarker: 0,
            padded: 0,
            summary_crc: crc(&node[SUMMARY_SIZE as usize..]),
            node_crc: 0,
        };
        summary.node_crc = crc(&summary.encode(ORDER)[..covered::SUMMARY]);
        node[..SUMMARY_SIZE as usize].copy_from_slice(&summary.encode(ORDER));
        block.extend_from_slice(&node);
        block
    }
}

fn mount(flash: RamFlash, read_only: bool) -> Jffs2<RamFlash> {
    Jffs2::mount(flash, Clock::default(), MountOptions { read_only, ..MountOptions::default() }).unwrap()
}
