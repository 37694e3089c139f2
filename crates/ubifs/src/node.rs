//! Reading nodes: header, length and checksum are verified before anything else is believed.

use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::FromBytes;

use crate::layout::{HEADER_SIZE, Header, MAGIC, checksum, length_max};
use crate::lebs::Lebs;

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub leb: u32,
    pub offset: u32,
    pub length: u32,
}

/// A node that was verified.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub sequence: u64,
    pub node_type: u8,
    group: u8,
    bytes: Vec<u8>,
}

impl Node {
    /// Bytes of the node.
    pub fn length(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Its place in a group of nodes.
    pub fn group(&self) -> u8 {
        self.group
    }

    /// The structure behind the header, and what follows it; `None` if the node is too short.
    pub fn body<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + Clone>(&self) -> Option<(T, &[u8])> {
        let (body, rest) = T::read_from_prefix(self.bytes.get(HEADER_SIZE..)?).ok()?;
        Some((body, rest))
    }
}

/// The header at the beginning of bytes, if they are a whole node with a right checksum.
pub(crate) fn verified(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (header, _) = Header::read_from_prefix(bytes).ok()?;
    let length = header.length.get() as usize;
    let node = bytes.get(..length).filter(|_| length >= HEADER_SIZE)?;
    (header.magic.get() == MAGIC && checksum(node) == header.checksum.get()).then_some((header, node))
}

/// The node in these bytes, which it fills.
pub(crate) fn decode(bytes: Vec<u8>) -> Option<Node> {
    let (header, node) = verified(&bytes)?;
    if node.len() != bytes.len() {
        return None;
    }
    Some(Node { sequence: header.sequence.get(), node_type: header.node_type, group: header.group, bytes })
}

/// Reads the node at a place. Errors: `Corrupt` if it is not of this type and length, or has a
/// wrong checksum.
pub(crate) fn read(lebs: &dyn Lebs, place: Place, node_type: u8) -> Result<Node> {
    let wrong = |what: &str| {
        let detail = format!("the node at LEB {} + {:#x}: {what}", place.leb, place.offset);
        Err(FsError::new(ErrorKind::Corrupt, detail))
    };
    let Place { leb, offset, length } = place;
    let fits = leb < lebs.leb_count() && offset.checked_add(length).is_some_and(|end| end <= lebs.leb_size());
    if !fits {
        return wrong("its place is outside the volume");
    }
    if (length as usize) < HEADER_SIZE || length_max(node_type).is_some_and(|most| length > most) {
        return wrong(&format!("{length} bytes, which no node of type {node_type} has"));
    }
    let mut bytes = vec![0; length as usize];
    lebs.read(leb, offset, &mut bytes)?;
    match decode(bytes) {
        Some(node) if node.node_type == node_type => Ok(node),
        Some(node) => wrong(&format!("a node of type {}; expected {node_type}", node.node_type)),
        None => wrong("a wrong magic number, length or checksum"),
    }
}
