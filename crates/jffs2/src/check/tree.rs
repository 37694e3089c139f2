//! Checking inodes and names against each other: contradictions that no checksum detects.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::Flash;
use nandkit_units::BlockIndex;
use nandkit_vfs::{FileKind, Result};

use crate::damage::{Damage, DamageKind};
use crate::inode::kind_text;
use crate::inode::{Body, Entry};
use crate::layout::format;
use crate::scan::ScannedRange;
use crate::scan::node::{FoundName, What};
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};

/// How a repair handles a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Drops the inode's nodes without a valid type.
    DropTypeless(Ino),
    /// Drops the node.
    DropNode,
    /// Drops the name, including older entries.
    DropName,
    /// Changes the type in the name's node.
    Retype(u8),
}

/// A node that contradicts another one, or is impossible.
pub(crate) struct Fault {
    pub(crate) damage: Damage,
    pub(crate) remedy: Remedy,
}

/// Inodes without a name, as the pass over the blocks found them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nameless {
    /// Directory entries whose directory has no name.
    names: Vec<(NodeAddress, FoundName)>,
    /// Inodes without a name that have an inode node.
    with_nodes: Vec<Ino>,
}

/// A directory, and a name in it.
type ParentAndName = (Ino, Box<[u8]>);
/// A name's version, address and inode.
type NameClaim = (u32, NodeAddress, Ino);

impl Nameless {
    /// Records the node at an address.
    pub(super) fn note<F: Flash>(&mut self, volume: &Jffs2<F>, at: NodeAddress, found: &ScannedRange) {
        let dead = |inode: Ino| volume.inodes.get(&inode).is_none_or(|inode| inode.links == 0);
        match &found.what {
            What::Dirent(name) if dead(name.parent) => self.names.push((at, (**name).clone())),
            What::Inode { inode, .. } if dead(*inode) => self.with_nodes.push(*inode),
            _ => {}
        }
    }

    pub(super) fn add(&mut self, mut other: Self) {
        self.names.append(&mut other.names);
        self.with_nodes.append(&mut other.with_nodes);
    }

    /// Names in directories of which nothing is left, in a volume where something was deleted: they
    /// may be remains of a removed directory, whose nodes are erased in any order. If nothing was
    /// deleted, the mount has already reported them.
    pub(super) fn remains<F: Flash>(self, volume: &Jffs2<F>) -> Vec<Damage> {
        if !volume.may_lack_deleted {
            return Vec::new();
        }
        let with_nodes: BTreeSet<Ino> = self.with_nodes.into_iter().collect();
        let mut newest: BTreeMap<ParentAndName, NameClaim> = BTreeMap::new();
        for (at, name) in self.names.into_iter().filter(|(_, name)| !with_nodes.contains(&name.parent)) {
            let known = newest.entry((name.parent, name.name)).or_default();
            *known = (*known).max((name.version, at, name.inode));
        }
        let shape = volume.medium.shape();
        let told = |((parent, name), (_, at, inode)): (ParentAndName, NameClaim)| {
            let name = String::from_utf8_lossy(&name);
            let detail = format!(
                "the name {name:?} of inode {inode} is in directory {parent}, of which there is neither a node nor a name; things may have been deleted in this volume, the directory too"
            );
            Damage { at, block: shape.block_of(at), kind: DamageKind::Remains, inode: Some(inode), detail }
        };
        newest.into_iter().filter(|(_, (_, _, inode))| *inode != Ino::NONE).map(told).collect()
    }
}

impl<F: Flash> Jffs2<F> {
    /// Inodes without a type, links that no system can follow, names where none are possible, and
    /// names with a type other than their inode's. Errors: `Device`.
    pub(super) fn tree_faults(&self) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        let told: BTreeSet<NodeAddress> = self
            .damage
            .sorted()
            .into_iter()
            .filter(|damage| damage.kind == DamageKind::Node)
            .map(|damage| damage.at)
            .collect();
        for (number, inode) in self.inodes.iter().filter(|(_, inode)| inode.links > 0) {
            let body = self.body(*number)?;
            if let Some(at) = body.metadata.filter(|at| !told.contains(at)) {
                faults.extend(self.own_fault(*number, at, body));
            }
            let entries = inode.entries.iter().flat_map(|entries| entries.iter());
            for (name, entry) in
                entries.filter(|(_, entry)| entry.inode != Ino::NONE && !body.dropped.contains_key(&entry.node))
            {
                faults.extend(self.name_fault(*number, body, name, entry)?);
            }
        }
        Ok(faults)
    }

    fn fault(&self, at: NodeAddress, kind: DamageKind, inode: Ino, detail: String, remedy: Remedy) -> Fault {
        let block: BlockIndex = self.medium.shape().block_of(at);
        Fault { damage: Damage { at, block, kind, inode: Some(inode), detail }, remedy }
    }

    /// What is wrong with an inode itself. `at` is the node with its attributes.
    pub(crate) fn own_fault(&self, number: Ino, at: NodeAddress, body: &Body) -> Option<Fault> {
        if FileKind::of_mode(body.mode).is_none() {
            let what = if body.format() == 0 { "no type" } else { "a type that does not exist" };
            let detail = format!(
                "its mode is {:#o}, which has {what}; expected that of a file, directory, link, device, pipe or socket",
                body.mode
            );
            return Some(self.fault(at, DamageKind::Inode, number, detail, Remedy::DropTypeless(number)));
        }
        let nul = body.target.iter().position(|byte| *byte == 0).filter(|_| body.format() == format::SYMLINK)?;
        let detail = format!(
            "the link's target of {} bytes has a NUL at byte {nul}, where it ends for every system; expected none",
            body.target.len()
        );
        Some(self.fault(at, DamageKind::Inode, number, detail, Remedy::DropNode))
    }

    /// What is wrong with a name in inode `parent`.
    pub(crate) fn name_fault(&self, parent: Ino, body: &Body, name: &[u8], entry: &Entry) -> Result<Option<Fault>> {
        let (name, at) = (String::from_utf8_lossy(name), entry.node);
        if let Some(kind) = FileKind::of_mode(body.mode).filter(|kind| *kind != FileKind::Directory) {
            let detail = format!(
                "the name {name:?} of inode {} is in inode {parent}, which is {}; expected a directory",
                entry.inode,
                kind_text(kind)
            );
            return Ok(Some(self.fault(at, DamageKind::Reference, parent, detail, Remedy::DropName)));
        }
        let child = self.body(entry.inode)?;
        let Some(kind) = FileKind::of_mode(child.mode).filter(|_| child.format() != u32::from(entry.kind) << 12) else {
            return Ok(None);
        };
        let says = FileKind::of_mode(u32::from(entry.kind) << 12).map_or("of no type", kind_text);
        let detail = format!(
            "the name {name:?} says that its inode is {says} ({}), the inode itself that it is {}",
            entry.kind,
            kind_text(kind)
        );
        let remedy = Remedy::Retype((child.format() >> 12) as u8);
        Ok(Some(self.fault(at, DamageKind::Reference, entry.inode, detail, remedy)))
    }
}
