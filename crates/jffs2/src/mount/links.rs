//! Counting names, and finding dead inodes.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::{Flash, FlashError};

use super::Collected;
use super::strays;
use crate::catalogue::NodeState;
use crate::damage::{Damage, DamageKind, DamageList};
use crate::inode::Inodes;
use crate::inode::Stray;
use crate::layout::ROOT;
use crate::medium::{Medium, Shape};
use crate::{Ino, NodeAddress};

/// `st_mode >> 12` of directories.
const DIRECTORY: u8 = 4;

/// Most second names of directories in a volume. A power cut during a rename leaves one
/// (fs/jffs2/dir.c writes the new name before it deletes the old one). More of them are no
/// accident, and would turn a small image into an endless tree.
const SECOND_NAMES: usize = 8;

/// Counts the names of all inodes, drops names of missing inodes, and finds the inodes without a
/// name; returns those that have lost it. Errors: those of the device.
pub(super) fn count<F: Flash>(
    collected: &mut Collected,
    damage: &DamageList,
    medium: &Medium<F>,
) -> Result<Vec<Stray>, FlashError> {
    let shape = medium.shape();
    let mut gone: Vec<(Named, Ino)> = Vec::new();
    let mut links: BTreeMap<Ino, u32> = BTreeMap::from([(ROOT, 1)]);
    for (parent, inode) in &collected.inodes {
        let entries = inode.entries.iter().flat_map(|entries| entries.with_cookies());
        for (cookie, _, entry) in entries.filter(|(_, _, entry)| entry.inode != Ino::NONE) {
            if collected.inodes.contains_key(&entry.inode) {
                *links.entry(entry.inode).or_default() += 1;
            } else {
                gone.push((Named { parent: *parent, node: entry.node, cookie }, entry.inode));
            }
        }
    }
    let strays = strays::find(collected, &links, medium, damage)?;
    let mut dangling = Vec::new();
    for (named, inode) in gone {
        let name = forget(collected, named, shape.erase_size);
        let detail = format!("the name {name:?} belongs to inode {inode}, which has no nodes");
        dangling.push((named.parent, named.node, detail));
    }
    for (number, inode) in &mut collected.inodes {
        inode.links = links.get(number).copied().unwrap_or(0);
    }
    bury(collected, shape.erase_size);
    // Old names of vanished inodes in a dead directory are normal.
    dangling.retain(|(parent, _, _)| collected.inodes.get(parent).is_some_and(|inode| inode.links > 0));
    damage.extend(dangling.into_iter().map(|(parent, node, detail)| reference(shape, node, parent, detail)));
    parents(collected, damage, shape);
    bind_attributes(collected, damage, shape);
    Ok(strays)
}

fn reference(shape: &Shape, at: NodeAddress, inode: Ino, detail: String) -> Damage {
    Damage { at, block: shape.block_of(at), kind: DamageKind::Reference, inode: Some(inode), detail }
}

/// The position of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    parent: Ino,
    node: NodeAddress,
    cookie: u64,
}

/// Removes a name from its directory; returns it for messages.
fn forget(collected: &mut Collected, Named { parent, node, cookie }: Named, erase_size: u32) -> String {
    collected.set_state(node, erase_size, NodeState::Obsolete);
    let entries = collected.inodes.get_mut(&parent).and_then(|inode| inode.entries.as_mut());
    let name = entries.and_then(|entries| entries.forget_node(cookie, node)).unwrap_or_default();
    String::from_utf8_lossy(&name).into_owned()
}

/// Buries dead inodes: those without a name, and those with names only in dead directories.
fn bury(collected: &mut Collected, erase_size: u32) {
    let mut dead: Vec<Ino> =
        collected.inodes.iter().filter(|(_, inode)| inode.links == 0).map(|(number, _)| *number).collect();
    while let Some(number) = dead.pop() {
        let Some(inode) = collected.inodes.get_mut(&number) else { continue };
        let (nodes, entries) = (inode.nodes.clone(), inode.entries.take());
        for at in nodes {
            collected.set_state(at, erase_size, NodeState::Obsolete);
        }
        for (_, entry) in entries.iter().flat_map(|entries| entries.iter()) {
            let Some(child) = collected.inodes.get_mut(&entry.inode).filter(|child| child.links > 0) else { continue };
            child.links -= 1;
            if child.links == 0 {
                dead.push(entry.inode);
            }
        }
    }
}

/// Sets the parent of each directory, and removes cycles.
fn parents(collected: &mut Collected, damage: &DamageList, shape: &Shape) {
    let mut second = Vec::new();
    let mut reached = BTreeSet::from([ROOT]);
    let mut next = vec![ROOT];
    let mut places: BTreeMap<Ino, Ino> = BTreeMap::new();
    let mut order = Vec::new();
    while let Some(parent) = next.pop() {
        order.push(parent);
        for (child, named) in directories(&collected.inodes, parent) {
            if reached.insert(child) {
                places.insert(child, parent);
                next.push(child);
            } else {
                second.push((named, child));
            }
        }
    }
    let below = Below::of(&order, &places);
    for (number, inode) in &mut collected.inodes {
        inode.parent = places.get(number).copied().unwrap_or(ROOT);
    }
    second.sort_unstable();
    let mut kept: Vec<(Ino, Ino)> = Vec::new();
    for (named, child) in second {
        let Named { parent, node, .. } = named;
        let what = format!("directory {child} is in {} and in {parent}", places.get(&child).copied().unwrap_or(ROOT));
        if child != ROOT && kept.len() < SECOND_NAMES && !below.leads_to(&kept, child, parent) {
            kept.push((parent, child));
            damage.add(reference(shape, node, child, format!("{what}: a rename that was cut off")));
        } else {
            let name = forget(collected, named, shape.erase_size);
            if let Some(inode) = collected.inodes.get_mut(&child) {
                inode.links = inode.links.saturating_sub(1);
            }
            damage.add(reference(shape, node, child, format!("{what}; the name {name:?} there is not shown")));
        }
    }
}

/// The directories in a directory, with the positions of their names; an inode with entries counts
/// as a directory, whatever its name's type.
fn directories(inodes: &Inodes, parent: Ino) -> Vec<(Ino, Named)> {
    let is_directory = |inode: Ino| inodes.get(&inode).is_some_and(|inode| inode.entries.is_some());
    let entries = inodes.get(&parent).and_then(|inode| inode.entries.as_ref());
    let all =
        entries.into_iter().flat_map(|entries| entries.with_cookies()).filter(|(_, _, entry)| entry.inode != Ino::NONE);
    all.filter(|(_, _, entry)| entry.kind == DIRECTORY || is_directory(entry.inode))
        .map(|(cookie, _, entry)| (entry.inode, Named { parent, node: entry.node, cookie }))
        .collect()
}

/// The tree over first names: for each directory its position in depth-first order, and the
/// position after its last descendant.
struct Below(BTreeMap<Ino, (usize, usize)>);

impl Below {
    /// Builds the tree from all directories in depth-first order, parents before children. Cost: n
    /// log n.
    fn of(order: &[Ino], places: &BTreeMap<Ino, Ino>) -> Self {
        let mut spans: BTreeMap<Ino, (usize, usize)> = BTreeMap::new();
        for (place, directory) in order.iter().enumerate() {
            spans.insert(*directory, (place, place + 1));
        }
        for directory in order.iter().rev() {
            let end = spans.get(directory).map_or(0, |(_, end)| *end);
            if let Some((_, above)) = places.get(directory).and_then(|parent| spans.get_mut(parent)) {
                *above = end.max(*above);
            }
        }
        Self(spans)
    }

    fn holds(&self, above: Ino, below: Ino) -> bool {
        let (Some((start, end)), Some((place, _))) = (self.0.get(&above), self.0.get(&below)) else { return false };
        (*start..*end).contains(place)
    }

    /// Whether one directory is reachable from another, over first names and the kept second ones
    /// (parent, child). Cost: quadratic in the number of kept ones.
    fn leads_to(&self, kept: &[(Ino, Ino)], from: Ino, to: Ino) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            if self.holds(at, to) {
                return true;
            }
            let over = kept.iter().filter(|(parent, _)| self.holds(at, *parent));
            next.extend(over.filter(|(_, child)| seen.insert(*child)).map(|(_, child)| *child));
        }
        false
    }
}

/// Drops references of dead inodes and to missing attributes, and counts the users of each
/// attribute.
fn bind_attributes(collected: &mut Collected, damage: &DamageList, shape: &Shape) {
    let (inodes, table) = (&collected.inodes, &mut collected.xattrs);
    for ((inode, id), found) in &mut table.references {
        if found.is_dead() {
            continue;
        }
        let lives = inodes.get(inode).is_some_and(|inode| inode.links > 0);
        match table.attributes.get_mut(id) {
            Some(attribute) if lives => attribute.users += 1,
            Some(_) => found.sequence |= 1,
            None => {
                found.sequence |= 1;
                if lives {
                    let detail = format!("inode {inode} refers to the extended attribute {id}, which is not there");
                    damage.add(reference(shape, found.node, *inode, detail));
                }
            }
        }
    }
}
