//! The journal: what was written since the last commit, applied to the index in memory.
//!
//! The log names buds, the LEBs that hold nodes not yet in the index; their sequence numbers say
//! the order (facts: Linux `fs/ubifs/replay.c`, `recovery.c`).

use std::collections::BTreeMap;

use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings};

use crate::damage::{self, DamageKind};
use crate::layout::{
    BLOCK_SIZE, COLLECTOR_HEAD, CommitStart, Data, Dentry, Inode, Key, LOG_LEB, Master, Reference, Superblock,
    Truncation, node_type,
};
use crate::lebs::Lebs;
use crate::node::{Node, Place};
use crate::recovery::{Sizes, entry_at, remove_inode};
use crate::tree::Tree;
use crate::walk::{Rest, nodes_of};

/// The mark of a node whose group goes on with the next node.
const IN_GROUP: u8 = 1;

/// What a node of a bud changes.
enum Change {
    Inode { inode: u32, size: u64, is_deletion: bool },
    Data { key: Key, end: u64 },
    Name { key: Key, name: Vec<u8>, is_removal: bool },
    Truncation { inode: u32, new_size: u64 },
}

/// What the journal held.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The number of nodes.
    pub nodes: u64,
    /// What they show of the sizes of files.
    pub sizes: Sizes,
}

/// Applies the journal to the index. Cost: a read per LEB of log and buds.
pub(crate) fn replay<L: Lebs>(
    lebs: &L,
    superblock: &Superblock,
    master: &Master,
    tree: &mut Tree,
    findings: &mut Findings,
) -> Result<Replayed> {
    let min_io_size = superblock.min_io_size.get();
    let mut changes: BTreeMap<u64, (Place, Change)> = BTreeMap::new();
    for bud in buds(lebs, superblock, master, findings)? {
        let leb = bud.leb.get();
        let mut nodes = nodes_of(lebs, leb, bud.offset.get())?;
        tell_rest(lebs, leb, nodes.rest(min_io_size), findings);
        // The collector moves nodes one by one, each with the mark of the group in which it was
        // written.
        if bud.head.get() != COLLECTOR_HEAD {
            drop_incomplete_group(lebs, leb, &mut nodes.list, findings);
        }
        for (at, node) in nodes.list {
            if let Some(change) = change_of(&node) {
                changes.insert(node.sequence, (Place { leb, offset: at, length: node.length() }, change));
            }
        }
    }
    // A file without a name that got one later was never deleted.
    let mut last_links: BTreeMap<u32, bool> = BTreeMap::new();
    for (_, change) in changes.values() {
        if let Change::Inode { inode, is_deletion, .. } = change {
            last_links.insert(*inode, *is_deletion);
        }
    }
    let (nodes, mut sizes) = (changes.len() as u64, Sizes::default());
    for (place, change) in changes.into_values() {
        let is_linked_later = |inode| last_links.get(&inode) == Some(&false);
        apply(lebs, tree, &mut sizes, place, change, is_linked_later);
    }
    Ok(Replayed { nodes, sizes })
}

fn apply<L: Lebs>(
    lebs: &L,
    tree: &mut Tree,
    sizes: &mut Sizes,
    place: Place,
    change: Change,
    is_linked_later: impl Fn(u32) -> bool,
) {
    match change {
        Change::Inode { inode, size, is_deletion: false } => {
            sizes.inode(inode, size);
            tree.set(Key::inode(inode), place);
        }
        Change::Inode { inode, .. } => {
            sizes.deletion(inode);
            if !is_linked_later(inode) {
                remove_inode(lebs, tree, inode);
            }
        }
        Change::Data { key, end } => {
            sizes.data(key.inode, end);
            tree.set(key, place);
        }
        Change::Name { key, name, is_removal } => {
            // The place of an entry that the collector moved may hold anything: its LEB was written
            // again. The moved entry is in the journal too.
            let is_other = |place: &Place| entry_at(lebs, key, *place).is_some_and(|(_, other)| other != name);
            let mut places: Vec<Place> = tree.get(key).iter().copied().filter(is_other).collect();
            if !is_removal {
                places.push(place);
            }
            tree.replace(key, places);
        }
        Change::Truncation { inode, new_size } => {
            sizes.truncation(inode, new_size);
            let first = new_size.div_ceil(BLOCK_SIZE.into());
            if let (Some(first), Some(last)) = (Key::data(inode, first), Key::data(inode, (1 << 29) - 1)) {
                tree.remove(first..=last);
            }
        }
    }
}

/// The buds that the log names since the last commit.
fn buds<L: Lebs>(
    lebs: &L,
    superblock: &Superblock,
    master: &Master,
    findings: &mut Findings,
) -> Result<Vec<Reference>> {
    let log_lebs = superblock.log_lebs.get().min(lebs.leb_count());
    let first = master.log_leb.get();
    let lost = |findings: &mut Findings| {
        let detail = format!("the log does not begin in LEB {first} with commit {}", master.commit);
        findings.add(Finding::new(DamageKind::Journal, detail));
    };
    if !(LOG_LEB..LOG_LEB.saturating_add(log_lebs)).contains(&first) {
        lost(findings);
        return Ok(Vec::new());
    }
    let (mut buds, mut commit) = (Vec::new(), None);
    for index in 0..log_lebs {
        let leb = LOG_LEB + (first - LOG_LEB + index) % log_lebs;
        let nodes = nodes_of(lebs, leb, 0)?;
        let begin = nodes.list.first().map(|(_, node)| node);
        match (commit, begin) {
            (None, Some(start)) if begins_commit(start, master) => commit = Some(start.sequence),
            (None, _) => {
                lost(findings);
                break;
            }
            (Some(_), None) => {
                tell_rest(lebs, leb, nodes.rest(superblock.min_io_size.get()), findings);
                break;
            }
            // What the log held before it went round.
            (Some(commit), Some(start)) if start.sequence < commit => break,
            (Some(_), Some(_)) => {}
        }
        tell_rest(lebs, leb, nodes.rest(superblock.min_io_size.get()), findings);
        let references = nodes.list.iter().filter(|(_, node)| node.node_type == node_type::REFERENCE);
        buds.extend(references.filter_map(|(_, node)| Some(node.body::<Reference>()?.0)));
    }
    Ok(buds)
}

/// Whether a node of the log starts the commit of the master node.
fn begins_commit(start: &Node, master: &Master) -> bool {
    let body = start.body::<CommitStart>().filter(|_| start.node_type == node_type::COMMIT_START);
    body.is_some_and(|(body, _)| body.commit == master.commit)
}

/// Tells what stands behind the nodes of a LEB.
fn tell_rest<L: Lebs>(lebs: &L, leb: u32, rest: Rest, findings: &mut Findings) {
    let (kind, offset, detail) = match rest {
        Rest::Erased => return,
        Rest::Torn(at) => (DamageKind::TornJournal, at, "the last write was cut: it does not count"),
        Rest::Damaged(at) => (DamageKind::Journal, at, "what stands from here on cannot be read"),
    };
    let detail = format!("LEB {leb} of the journal: {detail}");
    findings.add(damage::at(kind, lebs, Place { leb, offset, length: 0 }, &detail));
}

/// Removes an incomplete group at a bud's end: a group takes effect as a whole.
fn drop_incomplete_group<L: Lebs>(lebs: &L, leb: u32, nodes: &mut Vec<(u32, Node)>, findings: &mut Findings) {
    let whole = nodes.iter().rposition(|(_, node)| node.group() != IN_GROUP).map_or(0, |last| last + 1);
    if let Some((offset, _)) = nodes.get(whole) {
        let detail = format!("the last group of nodes in LEB {leb} is not whole: it does not count");
        let place = Place { leb, offset: *offset, length: 0 };
        findings.add(damage::at(DamageKind::TornJournal, lebs, place, &detail));
    }
    nodes.truncate(whole);
}

/// What a node changes; `None` for a node that is none of the tree's.
fn change_of(node: &Node) -> Option<Change> {
    match node.node_type {
        node_type::INODE => {
            let (inode, _) = node.body::<Inode>()?;
            let (number, size) = (inode.key.key().inode, inode.size.get());
            Some(Change::Inode { inode: number, size, is_deletion: inode.links.get() == 0 })
        }
        node_type::DATA => {
            let (data, _) = node.body::<Data>()?;
            let key = data.key.key();
            let end = u64::from(key.low()) * u64::from(BLOCK_SIZE) + u64::from(data.size.get());
            Some(Change::Data { key, end })
        }
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
