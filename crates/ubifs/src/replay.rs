//! The journal: what was written since the last commit, applied to the index in memory.
//!
//! The log names buds, the LEBs that hold nodes not yet in the index; their sequence numbers say
//! the order (facts: Linux `fs/ubifs/replay.c`, `recovery.c`).

use std::collections::BTreeMap;

use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings};

use crate::damage::DamageKind;
use crate::layout::{
    BLOCK_SIZE, Data, Dentry, Inode, Key, LOG_LEB, Master, Reference, Superblock, Truncation, node_type,
};
use crate::lebs::Lebs;
use crate::node::{self, Node, Place};
use crate::tree::Tree;
use crate::walk::nodes_of;

/// The mark of a node whose group goes on with the next node.
const IN_GROUP: u8 = 1;

/// What a node of a bud changes.
enum Change {
    Inode { inode: u32, is_deletion: bool },
    Data(Key),
    Name { key: Key, name: Vec<u8>, is_removal: bool },
    Truncation { inode: u32, new_size: u64 },
}

/// Applies the journal to the index. Returns the number of nodes. Cost: a read per LEB of log and
/// buds.
pub(crate) fn replay<L: Lebs>(
    lebs: &L,
    superblock: &Superblock,
    master: &Master,
    tree: &mut Tree,
    findings: &mut Findings,
) -> Result<u64> {
    let mut changes: BTreeMap<u64, (Place, Change)> = BTreeMap::new();
    for (leb, offset) in buds(lebs, superblock, master)? {
        for (at, node) in whole_groups(lebs, leb, nodes_of(lebs, leb, offset)?, findings) {
            if let Some(change) = change_of(&node) {
                changes.insert(node.sequence, (Place { leb, offset: at, length: node.length() }, change));
            }
        }
    }
    // A file without a name that got one later was never deleted.
    let mut last_links: BTreeMap<u32, bool> = BTreeMap::new();
    for (_, change) in changes.values() {
        if let Change::Inode { inode, is_deletion } = change {
            last_links.insert(*inode, *is_deletion);
        }
    }
    let count = changes.len() as u64;
    for (place, change) in changes.into_values() {
        match change {
            Change::Inode { inode, is_deletion } => {
                if is_deletion && last_links.get(&inode) != Some(&false) {
                    tree.remove(Key::new(inode, 0)..=Key::new(inode, u32::MAX));
                } else {
                    tree.set(Key::inode(inode), place);
                }
            }
            Change::Data(key) => tree.set(key, place),
            Change::Name { key, name, is_removal } => {
                let others =
                    tree.get(key).iter().copied().filter(|other| name_at(lebs, *other).as_ref() != Some(&name));
                let mut places: Vec<Place> = others.collect();
                if !is_removal {
                    places.push(place);
                }
                tree.replace(key, places);
            }
            Change::Truncation { inode, new_size } => {
                let first = new_size.div_ceil(BLOCK_SIZE.into());
                if let (Some(first), Some(last)) = (Key::data(inode, first), Key::data(inode, (1 << 29) - 1)) {
                    tree.remove(first..=last);
                }
            }
        }
    }
    Ok(count)
}

/// The buds that the log names since the last commit.
fn buds<L: Lebs>(lebs: &L, superblock: &Superblock, master: &Master) -> Result<Vec<(u32, u32)>> {
    let log_lebs = superblock.log_lebs.get().min(lebs.leb_count());
    let first = master.log_leb.get();
    if !(LOG_LEB..LOG_LEB.saturating_add(log_lebs)).contains(&first) {
        return Ok(Vec::new());
    }
    let (mut buds, mut commit) = (Vec::new(), None);
    for index in 0..log_lebs {
        let leb = LOG_LEB + (first - LOG_LEB + index) % log_lebs;
        let nodes = nodes_of(lebs, leb, 0)?;
        let Some((_, start)) = nodes.first() else { break };
        match commit {
            None if start.node_type == node_type::COMMIT_START => commit = Some(start.sequence),
            None => break,
            // What the log held before it went round.
            Some(commit) if start.sequence < commit => break,
            Some(_) => {}
        }
        let references = nodes.iter().filter(|(_, node)| node.node_type == node_type::REFERENCE);
        buds.extend(references.filter_map(|(_, node)| {
            let (reference, _) = node.body::<Reference>()?;
            Some((reference.leb.get(), reference.offset.get()))
        }));
    }
    Ok(buds)
}

/// The nodes of a bud without an incomplete group at its end: a group takes effect as a whole.
fn whole_groups<L: Lebs>(lebs: &L, leb: u32, mut nodes: Vec<(u32, Node)>, findings: &mut Findings) -> Vec<(u32, Node)> {
    let whole = nodes.iter().rposition(|(_, node)| node.group() != IN_GROUP).map_or(0, |last| last + 1);
    if let Some((at, _)) = nodes.get(whole) {
        let detail = format!("the last group of nodes in LEB {leb} is not whole: it does not count");
        let at = u64::from(leb) * u64::from(lebs.leb_size()) + u64::from(*at);
        findings.add(Finding::new(DamageKind::TornJournal, detail).at(at));
    }
    nodes.truncate(whole);
    nodes
}

/// What a node changes; `None` for a node that is none of the tree's.
fn change_of(node: &Node) -> Option<Change> {
    match node.node_type {
        node_type::INODE => {
            let (inode, _) = node.body::<Inode>()?;
            Some(Change::Inode { inode: inode.key.key().inode, is_deletion: inode.links.get() == 0 })
        }
        node_type::DATA => Some(Change::Data(node.body::<Data>()?.0.key.key())),
        node_type::DENTRY | node_type::XENTRY => {
            let (entry, rest) = node.body::<Dentry>()?;
            let name = rest.get(..entry.name_size.get().into())?.to_vec();
            Some(Change::Name { key: entry.key.key(), name, is_removal: entry.inode.get() == 0 })
        }
        node_type::TRUNCATION => {
            let (truncation, _) = node.body::<Truncation>()?;
            Some(Change::Truncation { inode: truncation.inode.get(), new_size: truncation.new_size.get() })
        }
        _ => None,
    }
}

/// The name in an entry.
fn name_at<L: Lebs>(lebs: &L, place: Place) -> Option<Vec<u8>> {
    let read = |node_type| node::read(lebs, place, node_type).ok();
    let node = read(node_type::DENTRY).or_else(|| read(node_type::XENTRY))?;
    let (entry, rest) = node.body::<Dentry>()?;
    Some(rest.get(..entry.name_size.get().into())?.to_vec())
}
