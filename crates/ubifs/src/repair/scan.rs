//! All nodes of the main area, whether anything leads to them or not.

use nandkit_vfs::Result;
use zerocopy::FromBytes;

use crate::layout::{ALIGNMENT, HEADER_SIZE, Header, Key, KeyType, MAGIC, RawKey, length_max, name_hash, node_type};
use crate::lebs::Lebs;
use crate::node::{self, Node, Place};
use crate::replay::{Change, change_of};

/// Sequence numbers from here on are refused by Linux (`SQNUM_WATERMARK`).
const SEQUENCE_END: u64 = 0xFFFF_FFFF_FF00_0000;
/// Bytes of a LEB that are summed, as a multiple of its size: a hostile one has a header that
/// claims much at every step.
const SUMMED_MAX: usize = 4;

/// A node that means something for the index.
pub(super) struct Found {
    pub sequence: u64,
    pub place: Place,
    pub change: Change,
}

/// A leaf with a wrong checksum, by what its header and its key say.
pub(super) struct DamagedLeaf {
    pub place: Place,
    pub sequence: u64,
    pub key: Key,
}

/// What a scan found.
#[derive(Default)]
pub(super) struct Scan {
    /// Whole nodes, in the order of their sequence numbers.
    pub found: Vec<Found>,
    /// Damaged ones.
    pub damaged: Vec<DamagedLeaf>,
}

/// The nodes of the LEBs from `first` on. What stands inside the data of a node is no node. Errors:
/// `Device`. Cost: reads every LEB once.
pub(super) fn nodes(lebs: &dyn Lebs, first: u32, key_hash: u8) -> Result<Scan> {
    let mut scan = Scan::default();
    let mut bytes = vec![0; lebs.leb_size() as usize];
    for leb in first..lebs.leb_count() {
        lebs.read(leb, 0, &mut bytes)?;
        if !nandkit_units::is_erased(&bytes) {
            nodes_in(leb, &bytes, key_hash, &mut scan);
        }
    }
    // The collector copies nodes with their numbers: either copy will do.
    scan.found.sort_by_key(|found| found.sequence);
    Ok(scan)
}

fn nodes_in(leb: u32, bytes: &[u8], key_hash: u8, scan: &mut Scan) {
    let (mut at, mut budget) = (0, bytes.len().saturating_mul(SUMMED_MAX));
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_SIZE) {
        let step = ALIGNMENT as usize;
        let Some(length) = claimed_length(rest) else {
            at += step;
            continue;
        };
        budget = budget.saturating_sub(length);
        if budget == 0 {
            return;
        }
        let next = at + length.next_multiple_of(step);
        let place = Place { leb, offset: at as u32, length: length as u32 };
        match rest.get(..length).map(<[u8]>::to_vec).and_then(node::decode) {
            Some(node) => {
                scan.found.extend(meaning(&node, key_hash).map(|change| Found {
                    sequence: node.sequence,
                    place,
                    change,
                }));
                at = next;
            }
            // A damaged node may hold an image of UBIFS: it is skipped if something follows it.
            None if is_boundary(bytes, next) => {
                scan.damaged.extend(damaged_leaf(rest, place));
                at = next;
            }
            None => at += step,
        }
    }
}

/// The length that a header claims, if a node of its type can have it.
fn claimed_length(bytes: &[u8]) -> Option<usize> {
    let (header, _) = Header::read_from_prefix(bytes).ok().filter(|(header, _)| header.magic.get() == MAGIC)?;
    let length = header.length.get();
    let is_possible = length_max(header.node_type).is_none_or(|most| length <= most)
        && header.node_type <= node_type::ORPHANS
        && length as usize >= HEADER_SIZE;
    (is_possible && length as usize <= bytes.len()).then_some(length as usize)
}

/// The leaf that a damaged node was.
fn damaged_leaf(bytes: &[u8], place: Place) -> Option<DamagedLeaf> {
    let (header, body) = Header::read_from_prefix(bytes).ok()?;
    let (raw, _) = RawKey::read_from_prefix(body).ok()?;
    let is_leaf = header.node_type <= node_type::XENTRY;
    is_leaf.then_some(DamagedLeaf { place, sequence: header.sequence.get(), key: raw.key() })
}

/// Whether a node, padding, erased flash or the end stands here.
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let begins = |with: &[u8]| rest.starts_with(with);
    rest.is_empty() || begins(&MAGIC.to_le_bytes()) || begins(&[0xCE; 8]) || begins(&[0xFF; 8])
}

/// What a node means for the index; `None` if nothing, or if it is not what Linux takes.
fn meaning(node: &Node, key_hash: u8) -> Option<Change> {
    let change = change_of(node).filter(|_| node.sequence < SEQUENCE_END)?;
    let is_right = match &change {
        Change::Inode { inode, .. } => *inode != 0,
        Change::Data { key, .. } => key.key_type() == Some(KeyType::Data),
        Change::Name { key, name, .. } => {
            let is_xattr = node.node_type == node_type::XENTRY;
            *key == Key::name(key.inode, name_hash(key_hash, name), is_xattr)
        }
        Change::Truncation { .. } => true,
    };
    is_right.then_some(change)
}
