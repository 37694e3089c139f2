//! Nodes as bytes.

use nandkit_vfs::{FileKind, Timestamp};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

use crate::layout::{ALIGNMENT, Data, Dentry, HEADER_SIZE, Header, Key, MAGIC, RawKey, checksum, name_hash, node_type};

/// Bytes that fill less than a padding node.
const PADDING_BYTE: u8 = 0xCE;
/// Bytes of a padding node without what it pads.
const PADDING_SIZE: usize = HEADER_SIZE + 4;
/// Bytes of an inode's node without its data.
pub(crate) const INODE_SIZE: u64 = 160;
/// Bytes of an entry's node without its name.
const ENTRY_SIZE: u64 = 56;

/// Appends a node.
pub(crate) fn node(node_type: u8, sequence: u64, parts: &[&[u8]], into: &mut Vec<u8>) {
    let start = begin(node_type, sequence, parts, into);
    if let Some(node) = into.get_mut(start..) {
        seal(node);
    }
}

/// Appends a node whose checksum is missing; returns where it begins.
pub(crate) fn begin(node_type: u8, sequence: u64, parts: &[&[u8]], into: &mut Vec<u8>) -> usize {
    let start = into.len();
    let length = HEADER_SIZE + parts.iter().map(|part| part.len()).sum::<usize>();
    let header = Header {
        magic: MAGIC.into(),
        checksum: 0.into(),
        sequence: sequence.into(),
        length: (length as u32).into(),
        node_type,
        group: 0,
        padding: [0; 2],
    };
    into.extend_from_slice(header.as_bytes());
    parts.iter().for_each(|part| into.extend_from_slice(part));
    start
}

/// Sets the checksum of a node.
pub(crate) fn seal(node: &mut [u8]) {
    let sum = checksum(node).to_le_bytes();
    node.iter_mut().skip(4).zip(sum).for_each(|(to, from)| *to = from);
}

/// Numbers a node, sets its place in its group and its checksum.
pub(crate) fn number(node: &mut [u8], sequence: u64, group: u8) {
    /// Offset of the sequence number in a header, and of the group.
    const SEQUENCE: usize = 8;
    const GROUP: usize = 21;
    node.iter_mut().skip(SEQUENCE).zip(sequence.to_le_bytes()).for_each(|(to, from)| *to = from);
    node.iter_mut().skip(GROUP).take(1).for_each(|to| *to = group);
    seal(node);
}

/// Pads bytes to a length.
pub(crate) fn pad(into: &mut Vec<u8>, length: usize) {
    let missing = length.saturating_sub(into.len());
    if missing < PADDING_SIZE {
        into.resize(into.len() + missing, PADDING_BYTE);
        return;
    }
    let behind = (missing - PADDING_SIZE) as u32;
    node(node_type::PADDING, 0, &[&behind.to_le_bytes()], into);
    into.resize(into.len() + behind as usize, 0);
}

/// A length with its padding.
pub(crate) const fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT as usize)
}

/// The bytes that an entry counts for in the size of its directory, or of its file's attributes.
pub(crate) const fn entry_bytes(name: usize) -> u64 {
    (ENTRY_SIZE + name as u64 + 1).next_multiple_of(ALIGNMENT as u64)
}

/// The bytes that the value of an attribute counts for.
pub(crate) const fn value_bytes(value: usize) -> u64 {
    (INODE_SIZE + value as u64 + 1).next_multiple_of(ALIGNMENT as u64)
}

/// The type of an entry for a kind of file (`UBIFS_ITYPE_*`).
pub(crate) const fn type_of(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular => 0,
        FileKind::Directory => 1,
        FileKind::Symlink => 2,
        FileKind::BlockDevice => 3,
        FileKind::CharacterDevice => 4,
        FileKind::Fifo => 5,
        FileKind::Socket => 6,
    }
}

/// A device number (major << 32 | minor) as Linux encodes it: in 32 bits where it fits, else in 64.
pub(crate) fn device_bytes(device: u64) -> Vec<u8> {
    let (major, minor) = (device >> 32, device & 0xFFFF_FFFF);
    let code = minor & 0xFF | major << 8 | (minor & !0xFF) << 12;
    if major < 1 << 12 && minor < 1 << 20 { (code as u32).to_le_bytes().to_vec() } else { code.to_le_bytes().to_vec() }
}

/// Sets a time of an inode.
pub(crate) fn set_time(seconds: &mut U64, nanoseconds: &mut U32, time: Timestamp) {
    seconds.set(time.0.div_euclid(1_000_000_000) as u64);
    nanoseconds.set(time.0.rem_euclid(1_000_000_000) as u32);
}

/// A key as a node has it.
pub(crate) fn raw(key: Key) -> RawKey {
    RawKey { inode: key.inode.into(), word: key.word().into(), padding: [0; 8] }
}

/// An entry of a directory, or of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryOf<'a> {
    pub key_hash: u8,
    pub parent: u32,
    pub name: &'a [u8],
    pub inode: u32,
    pub file_type: u8,
    pub is_xattr: bool,
}

impl EntryOf<'_> {
    /// Its key.
    pub fn key(&self) -> Key {
        Key::name(self.parent, name_hash(self.key_hash, self.name), self.is_xattr)
    }
}

/// Appends the node of an entry.
pub(crate) fn entry(of: &EntryOf<'_>, sequence: u64, into: &mut Vec<u8>) {
    let body = Dentry {
        key: raw(of.key()),
        inode: u64::from(of.inode).into(),
        padding1: 0,
        file_type: of.file_type,
        name_size: (of.name.len() as u16).into(),
        cookie: 0.into(),
    };
    let node_type = if of.is_xattr { node_type::XENTRY } else { node_type::DENTRY };
    node(node_type, sequence, &[body.as_bytes(), of.name, &[0]], into);
}

/// Appends the node of a block of data.
pub(crate) fn data(key: Key, size: u32, compression: u16, bytes: &[u8], sequence: u64, into: &mut Vec<u8>) {
    let body = Data { key: raw(key), size: size.into(), compression: compression.into(), compressed_size: 0.into() };
    node(node_type::DATA, sequence, &[body.as_bytes(), bytes], into);
}

/// Bytes of any structure, for [`node`].
pub(crate) fn bytes_of<T: IntoBytes + Immutable>(body: &T) -> &[u8] {
    body.as_bytes()
}
