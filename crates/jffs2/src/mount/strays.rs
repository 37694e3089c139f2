//! Unreachable inodes: lost, or deleted?
//!
//! A deletion leaves evidence: an entry that records it, or a mark in place. If a volume has no
//! such evidence, nothing was ever deleted, and inodes without a name have lost it. If it has, any
//! inode without a name may have been deleted: the nodes of dead inodes are erased in any order,
//! and so is the evidence. Even the last evidence may be gone, because that of a directory's
//! deletion removes those of all names in it: so a volume that otherwise shows signs of use counts
//! as one with deletions.
//! deleted.

use std::collections::BTreeMap;

use nandkit_flash::{Flash, FlashError};

use super::Collected;
use crate::catalogue::Block;
use crate::damage::{Damage, DamageKind, DamageList};
use crate::inode::kind_text;
use crate::inode::{Inode, Stray};
use crate::layout::format;
use crate::layout::{self, Header, INODE_SIZE, ROOT, node_type};
use crate::medium::MOUNT;
use crate::medium::Medium;
use crate::scan::node;
use crate::{Ino, NodeAddress};
use nandkit_vfs::FileKind;

/// Finds and reports the inodes that have lost their names. `links`: the names of each inode,
/// including those in dead directories. Errors: those of the device. Cost: a read for each node of
/// an inode without a name; nothing if anything was ever deleted.
pub(super) fn find<F: Flash>(
    collected: &Collected,
    links: &BTreeMap<Ino, u32>,
    medium: &Medium<F>,
    damage: &DamageList,
) -> Result<Vec<Stray>, FlashError> {
    let mut strays = Vec::new();
    if collected.may_lack_what_was_deleted() {
        return Ok(strays);
    }
    let nameless = |number: &Ino| *number != ROOT && !links.contains_key(number);
    for (number, inode) in collected.inodes.iter().filter(|(number, _)| nameless(number)) {
        match newest(collected, *number, inode, medium)? {
            Some((at, node)) => {
                if !is_cut_creation(collected, medium, inode, at, &node)? {
                    damage.add(orphan(medium, at, *number, inode, &node));
                    strays.push(Stray { inode: *number, at, mode: Some(node.mode) });
                }
            }
            None => {
                let first = names(inode).next().map(|(_, entry)| entry.node);
                strays.extend(first.map(|at| Stray { inode: *number, at, mode: None }));
                for (name, entry) in names(inode) {
                    let detail = format!(
                        "the name {:?} of inode {} is in directory {number}, of which there is neither a node nor a name",
                        String::from_utf8_lossy(name),
                        entry.inode
                    );
                    damage.add(told(medium, entry.node, entry.inode, detail));
                }
            }
        }
    }
    Ok(strays)
}

fn names(inode: &Inode) -> impl Iterator<Item = (&[u8], &crate::inode::Entry)> {
    inode.entries.iter().flat_map(|entries| entries.iter()).filter(|(_, entry)| entry.inode != Ino::NONE)
}

fn told<F: Flash>(medium: &Medium<F>, at: NodeAddress, inode: Ino, detail: String) -> Damage {
    Damage { at, block: medium.shape().block_of(at), kind: DamageKind::Orphan, inode: Some(inode), detail }
}

fn orphan<F: Flash>(medium: &Medium<F>, at: NodeAddress, number: Ino, inode: &Inode, node: &layout::Inode) -> Damage {
    let what = match node.mode & 0o170_000 {
        format::REGULAR => format!("a file of {} bytes", node.file_size),
        format::DIRECTORY => format!("a directory with {} names", names(inode).count()),
        _ => FileKind::of_mode(node.mode).map_or("of no possible type", kind_text).to_owned(),
    };
    told(medium, at, number, format!("it is {what}, and has no name; nothing was ever deleted in this volume"))
}

/// The newest valid inode node of an inode with an intact fixed part.
fn newest<F: Flash>(
    collected: &Collected,
    number: Ino,
    inode: &Inode,
    medium: &Medium<F>,
) -> Result<Option<(NodeAddress, layout::Inode)>, FlashError> {
    let order = medium.order();
    let mut newest: Option<(NodeAddress, layout::Inode)> = None;
    for at in inode.nodes.iter().filter(|at| collected.counts(**at, medium.shape().erase_size)) {
        let mut bytes = [0; INODE_SIZE as usize];
        // The checksums matter, not whether the page is sound.
        let _ = medium.read(*at, &mut bytes, MOUNT)?;
        let header = Header::decode(order, &bytes).filter(|header| header.check(order).is_ok());
        let Some(header) = header.filter(|header| header.node_type == node_type::INODE) else { continue };
        let found = node::inode(order, &bytes, header.total_length).ok().filter(|node| node.inode == number);
        if let Some(found) = found
            && newest.as_ref().is_none_or(|(_, known)| known.version <= found.version)
        {
            newest = Some((*at, found));
        }
    }
    Ok(newest)
}

/// Whether a power cut during a creation explains the inode: its first node, without file data, is
/// the last one written in its block. The name would have been written next (fs/jffs2/dir.c), and
/// the creation was never acknowledged.
fn is_cut_creation<F: Flash>(
    collected: &Collected,
    medium: &Medium<F>,
    inode: &Inode,
    at: NodeAddress,
    node: &layout::Inode,
) -> Result<bool, FlashError> {
    let is_file = node.mode & 0o170_000 == format::REGULAR;
    if inode.nodes.len() > 1 || is_file && node.data_size > 0 {
        return Ok(false);
    }
    let erase_size = medium.shape().erase_size;
    let block = collected.blocks.get(at.block(erase_size).index());
    let behind = |block: &Block| {
        block.place_of(at.offset(erase_size)).and_then(|place| block.nodes.get(place + 1..).map(<[_]>::to_vec))
    };
    // Padding after a sync is no node.
    Ok(block.and_then(behind).is_some_and(|behind| behind.iter().all(|node| node.is_obsolete())))
}
