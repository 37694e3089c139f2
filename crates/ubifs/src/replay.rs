//! The journal: what was written since the last commit, applied to the index in memory.
//!
//! The log names buds, the LEBs that hold nodes not yet in the index; their sequence numbers say
//! the order (facts: Linux `fs/ubifs/replay.c`, `recovery.c`).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nandkit_vfs::Result;
use nandkit_vfs::check::Findings;

use crate::damage::{self, DamageKind};
use crate::journal::{self, Log, tell_rest};
use crate::layout::{
    BLOCK_SIZE, COLLECTOR_HEAD, Data, Dentry, Inode, Key, Master, Superblock, Truncation, group, node_type,
};
use crate::lebs::Lebs;
use crate::node::{Node, Place};
use crate::recovery::{Sizes, entry_at, remove_inode};
use crate::tree::Tree;
use crate::walk::{Rest, nodes_of};

/// What a node of a bud changes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Inode { inode: u32, size: u64, is_deletion: bool },
    Data { key: Key, end: u64 },
    Name { key: Key, name: Vec<u8>, is_removal: bool },
    Truncation { inode: u32, new_size: u64 },
}

/// A bud as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bud {
    pub leb: u32,
    /// Where the bud begins in it.
    pub start: u32,
    /// The journal head.
    pub head: u32,
    /// Where its nodes that count end.
    pub end: u32,
    /// Whether something that does not count stands behind them.
    pub is_torn: bool,
}

/// What the journal held.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The log.
    pub log: Log,
    /// The buds, in the order of the log.
    pub buds: Vec<Bud>,
    /// The highest sequence number.
    pub sequence: u64,
    /// The highest number of an inode.
    pub highest_inode: u32,
    /// The number of nodes.
    pub nodes: u64,
    /// What they show of the sizes of files.
    pub sizes: Sizes,
}

/// Applies the journal to the index. Cost: a read per LEB of log and buds.
pub(crate) fn replay(
    lebs: &dyn Lebs,
    superblock: &Superblock,
    master: &Master,
    tree: &mut Tree,
    findings: &mut Findings,
) -> Result<Replayed> {
    let min_io_size = superblock.min_io_size.get();
    let mut changes: BTreeMap<u64, (Place, Change)> = BTreeMap::new();
    let log = journal::read(lebs, superblock, master, findings)?;
    let (mut buds, mut sequence, mut highest_inode) = (Vec::new(), log.sequence, 0);
    for bud in &log.buds {
        let (leb, start, head) = (bud.leb.get(), bud.offset.get(), bud.head.get());
        let mut nodes = nodes_of(lebs, leb, start)?;
        let (rest, mut end) = (nodes.rest(min_io_size), nodes.end());
        tell_rest(lebs, leb, rest, findings);
        // The collector moves nodes one by one, each with the mark of the group in which it was
        // written.
        let mut is_torn = rest != Rest::Erased;
        if head != COLLECTOR_HEAD
            && let Some(whole) = drop_incomplete_group(lebs, leb, &mut nodes.list, findings)
        {
            (end, is_torn) = (whole, true);
        }
        buds.push(Bud { leb, start, head, end, is_torn });
        for (at, node) in nodes.list {
            sequence = sequence.max(node.sequence);
            if let Some(change) = change_of(&node) {
                if let Change::Inode { inode, .. } = change {
                    highest_inode = highest_inode.max(inode);
                }
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
    Ok(Replayed { log, buds, sequence, highest_inode, nodes, sizes })
}

fn apply(
    lebs: &dyn Lebs,
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
            apply_name(lebs, tree, key, &name, (!is_removal).then_some(place));
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

/// Gives a name its entry, or removes it. Names with one hash stand in the order of their bytes:
/// Linux searches so.
fn apply_name(lebs: &dyn Lebs, tree: &mut Tree, key: Key, name: &[u8], mut place: Option<Place>) {
    // The leaves of this key that stay, and those of them in front of the name.
    let (mut kept, mut smaller) = (0, 0);
    for found in tree.get(key) {
        let other = entry_at(lebs, key, found).map(|(_, other)| other);
        match (other.as_deref().map(|other| other.cmp(name)), place) {
            (Some(Ordering::Less), _) => (kept, smaller) = (kept + 1, kept + 1),
            (Some(Ordering::Greater), _) => kept += 1,
            (Some(Ordering::Equal), Some(new)) => {
                tree.set_nth(key, kept, new);
                (kept, place) = (kept + 1, None);
            }
            // The place of an entry that the collector moved may hold anything: its LEB was
            // written again. The moved entry is in the journal too.
            (None | Some(Ordering::Equal), _) => {
                tree.remove_nth(key, kept);
            }
        }
    }
    if let Some(place) = place {
        tree.insert_nth(key, smaller, place);
    }
}

/// Removes an incomplete group at a bud's end: a group takes effect as a whole. Returns where it
/// began.
fn drop_incomplete_group(
    lebs: &dyn Lebs,
    leb: u32,
    nodes: &mut Vec<(u32, Node)>,
    findings: &mut Findings,
) -> Option<u32> {
    let whole = nodes.iter().rposition(|(_, node)| node.group() != group::GOES_ON).map_or(0, |last| last + 1);
    let began = nodes.get(whole).map(|(offset, _)| *offset);
    if let Some(offset) = began {
        let detail = format!("the last group of nodes in LEB {leb} is not whole: it does not count");
        let place = Place { leb, offset, length: 0 };
        findings.add(damage::at(DamageKind::TornJournal, lebs, place, &detail));
    }
    nodes.truncate(whole);
    began
}

/// What a node changes; `None` for a node that is none of the tree's.
pub(crate) fn change_of(node: &Node) -> Option<Change> {
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
