//! A volume of mkfs.ubifs that was mounted and not unmounted: tests write its journal, node by
//! node.

use std::path::Path;

use nandkit_testkit::listing::{Listing, of_volume};
use nandkit_ubifs::layout::{BLOCK_SIZE, HEADER_SIZE, Key, LOG_LEB, MAGIC, checksum, name_hash, node_type};
use nandkit_ubifs::{LebBytes, Ubifs};
use nandkit_vfs::{FileSystem, InodeNumber};

use crate::images::made;

/// Bytes per LEB.
pub const LEB_SIZE: u32 = 15_360;
/// Bytes per page.
const PAGE: usize = 512;
/// The mark of a node whose group goes on.
pub const IN_GROUP: u8 = 1;
/// Journal head of the garbage collector.
pub const COLLECTOR: u32 = 0;
/// Journal head of names and inodes.
pub const BASE: u32 = 1;
/// Journal head of file data.
pub const DATA: u32 = 2;

/// A volume whose bytes the test changes.
#[derive(Clone, Debug)]
pub struct Volume {
    pub image: LebBytes,
    sequence: u64,
    log_at: usize,
}

impl Volume {
    /// The volume of a tree, marked as not unmounted.
    pub fn dirty(root: &Path) -> Self {
        let image = made(root, None, &["-m", "512", "-e", "15360", "-c", "60", "-x", "none"], LEB_SIZE);
        let mut volume = Self { image, sequence: 1 << 20, log_at: 0 };
        let log = LOG_LEB as usize * LEB_SIZE as usize;
        let used = volume.image.bytes[log..][..LEB_SIZE as usize].iter().rposition(|byte| *byte != 0xFF);
        volume.log_at = log + (used.expect("a log") + 1).next_multiple_of(PAGE);
        volume.set_dirty(true);
        volume
    }

    /// Whether the volume was not unmounted.
    pub fn set_dirty(&mut self, is_dirty: bool) {
        for leb in [1, 2] {
            // The flags stand behind two numbers of 64 bits.
            self.patch(leb * LEB_SIZE as usize, HEADER_SIZE + 16, &[u8::from(is_dirty)]);
        }
    }

    /// Changes bytes of a node.
    pub fn patch(&mut self, at: usize, offset: usize, bytes: &[u8]) {
        let length = self.word(at + 16) as usize;
        let node = &mut self.image.bytes[at..at + length];
        node[offset..][..bytes.len()].copy_from_slice(bytes);
        let sum = checksum(node).to_le_bytes();
        node[4..8].copy_from_slice(&sum);
    }

    fn word(&self, at: usize) -> u32 {
        self.image.bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
    }

    /// Where the node of this type with this key stands, for names also with this name.
    pub fn find(&self, node_type: u8, key: Key, name: &[u8]) -> usize {
        let key = key_bytes(key);
        let mut places = (0..self.image.bytes.len()).step_by(8).filter(|at| self.word(*at) == MAGIC);
        let is_it = |at: &usize| {
            let body = &self.image.bytes[at + HEADER_SIZE..];
            self.image.bytes[at + 20] == node_type
                && body[..8] == key[..8]
                && (name.is_empty() || body[32..].starts_with(name))
        };
        places.rfind(is_it).expect("a node")
    }

    /// The bytes of the node at a place.
    pub fn node_at(&self, at: usize) -> Vec<u8> {
        self.image.bytes[at..][..self.word(at + 16) as usize].to_vec()
    }

    /// A node with the next sequence number.
    pub fn node(&mut self, node_type: u8, group: u8, body: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let length = (HEADER_SIZE + body.len()) as u32;
        let mut node = MAGIC.to_le_bytes().to_vec();
        node.extend([0; 4]);
        node.extend(self.sequence.to_le_bytes());
        node.extend(length.to_le_bytes());
        node.extend([node_type, group, 0, 0]);
        node.extend(body);
        let sum = checksum(&node).to_le_bytes();
        node[4..8].copy_from_slice(&sum);
        node
    }

    /// Adds a LEB with these bytes, and names it in the log as a bud of this head. Returns the LEB.
    pub fn add_bud(&mut self, head: u32, content: &[u8]) -> u32 {
        let leb = self.add_leb(content);
        let words = [leb, 0, head, 0, 0, 0, 0, 0, 0, 0];
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let reference = self.node(node_type::REFERENCE, 0, &body);
        self.image.bytes[self.log_at..][..reference.len()].copy_from_slice(&reference);
        let rest = PAGE - reference.len();
        let padding = self.node(node_type::PADDING, 0, &((rest - HEADER_SIZE - 4) as u32).to_le_bytes());
        self.image.bytes[self.log_at + reference.len()..][..padding.len()].copy_from_slice(&padding);
        self.log_at += PAGE;
        leb
    }

    fn add_leb(&mut self, content: &[u8]) -> u32 {
        let leb = self.image.bytes.len().div_ceil(LEB_SIZE as usize);
        self.image.bytes.resize((leb + 1) * LEB_SIZE as usize, 0xFF);
        self.image.bytes[leb * LEB_SIZE as usize..][..content.len()].copy_from_slice(content);
        leb as u32
    }

    /// Where the orphan area begins.
    pub fn orphan_area(&self) -> usize {
        // LEBs of the log and of the table of properties, in the superblock.
        let lebs = self.word(HEADER_SIZE + 32) + self.word(HEADER_SIZE + 36);
        (LOG_LEB + lebs) as usize * LEB_SIZE as usize
    }

    /// Mounts the volume: its tree, and what mounting and the check tell.
    pub fn read(&self) -> (Listing, Vec<String>) {
        let volume = Ubifs::mount(Box::new(self.image.clone())).expect("a volume");
        let report = volume.check().expect("a report");
        (
            of_volume(&volume),
            report.findings.iter().map(|finding| format!("{}: {}", finding.kind, finding.detail)).collect(),
        )
    }

    /// The number of a file in the root, and its size.
    pub fn file(&self, name: &str) -> (u32, u64) {
        let volume = Ubifs::mount(Box::new(self.image.clone())).expect("a volume");
        let inode = volume.lookup(InodeNumber(1), name.as_bytes()).expect("a file");
        (inode.0 as u32, volume.stat(inode).expect("attributes").size)
    }
}

/// A key as nodes store it.
pub fn key_bytes(key: Key) -> Vec<u8> {
    let kind = match key.key_type() {
        Some(kind) => kind as u32,
        None => panic!("a key without a type"),
    };
    let mut bytes = key.inode.to_le_bytes().to_vec();
    bytes.extend((kind << 29 | key.low()).to_le_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// The body of a data node of a whole block.
pub fn data(inode: u32, block: u64, content: &[u8]) -> Vec<u8> {
    let mut body = key_bytes(Key::data(inode, block).expect("a block"));
    assert!(content.len() <= BLOCK_SIZE as usize);
    body.extend((content.len() as u32).to_le_bytes());
    body.extend([0; 4]);
    body.extend(content);
    body
}

/// The body of an entry in a directory or among the attributes of a file; inode 0 removes it.
pub fn entry(parent: u32, name: &str, inode: u32, is_xattr: bool) -> Vec<u8> {
    let mut body = key_bytes(Key::name(parent, name_hash(0, name.as_bytes()), is_xattr));
    body.extend(u64::from(inode).to_le_bytes());
    body.extend([0, 0]);
    body.extend((name.len() as u16).to_le_bytes());
    body.extend([0; 4]);
    body.extend(name.as_bytes());
    body.push(0);
    body
}

/// The body of an inode node: a file, or the value of an attribute.
pub fn inode(number: u32, links: u32, flags: u32, value: &[u8]) -> Vec<u8> {
    let mut body = key_bytes(Key::inode(number));
    body.resize(160 - HEADER_SIZE, 0);
    for (offset, word) in [(68, links), (80, 0o100_644), (84, flags), (88, value.len() as u32)] {
        body[offset..][..4].copy_from_slice(&word.to_le_bytes());
    }
    body.extend(value);
    body
}

/// Nodes one behind the other, each at a multiple of 8.
pub fn joined(nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for node in nodes {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(node);
    }
    bytes
}
