//! Walking through a dump from node to node.

use std::collections::BTreeMap;
use std::ops::Range;

use nandkit_flash::Look;
use nandkit_units::BlockIndex;

use super::borders::{Border, Conflict, Opening, are_two_volumes, borders};
use crate::layout::{ACCURATE, ByteOrder, Header, node_type};
use crate::probe::survey::Held;
use crate::probe::{ERASE_SIZE_MIN, any_node, stored_length};
use crate::scan::node;

/// Most subjects that are remembered: a volume has one for each node of a file or name.
const SUBJECTS_MAX: usize = 1 << 20;
/// Shorter foreign stretches are page padding, or a truncated node.
const FOREIGN_MIN: u64 = 512;
/// Volumes begin at multiples of this.
const UNIT: u64 = ERASE_SIZE_MIN as u64;

/// The subject of a version: an inode's content, or a directory's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    is_big_endian: bool,
    is_name: bool,
    inode: u32,
    version: u32,
}

/// A stretch of nodes in one byte order, from the first to the end of the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) nodes: Range<u64>,
    pub(super) order: ByteOrder,
    pub(super) doubt: Option<String>,
}

/// The nodes found in a dump.
#[derive(Default)]
pub(super) struct Walk {
    /// Stretches of one byte order each, in ascending order.
    runs: Vec<Stretch>,
    openings: Vec<Opening>,
    conflicts: Vec<Conflict>,
    /// For each subject: checksums of its last node's content, and the node's address.
    said: BTreeMap<Subject, ((u32, u32), u64)>,
}

impl Walk {
    pub(super) fn over(device: &dyn Look) -> Self {
        let mut walk = Self::default();
        let mut held = Held::of(device);
        let (end, mut at) = (device.geometry().capacity(), 0);
        // The end of the last node, and whether it was followed by anything other than nodes or
        // blank flash.
        let (mut ended, mut is_foreign) = (0, false);
        let block_bytes = device.geometry().block_size().max(1);
        let mut sound_to = 0;
        while at < end {
            if at >= sound_to {
                let block = at / block_bytes;
                sound_to = (block + 1).saturating_mul(block_bytes);
                // The content of a bad block belongs to no volume, and shows no foreign content
                // between volumes.
                if u32::try_from(block).is_ok_and(|block| device.is_bad(BlockIndex(block))) {
                    at = sound_to;
                    continue;
                }
            }
            let bytes = held.from(at);
            if let Some((order, header)) = any_node(bytes) {
                let next = at.saturating_add(stored_length(&header)).min(end);
                if walk.run(at, next, order) {
                    let begins_block = at > ended || header.node_type | ACCURATE == node_type::CLEANMARKER;
                    if at.is_multiple_of(UNIT) && at >= ended && begins_block {
                        walk.openings.push(Opening { at, gap: at - ended, is_foreign });
                    }
                    walk.node(&mut held, at, order, &header);
                    (ended, is_foreign) = (next, false);
                }
                at = next;
            } else if bytes.starts_with(&[0xFF; 4]) {
                at = held.end_of_erased(at);
            } else {
                let next = held.end_of_junk(at, end);
                is_foreign |= next - at >= FOREIGN_MIN;
                at = next;
            }
        }
        walk
    }

    /// Adds a node to the stretch that it continues, or starts another. `false`: it belongs to no
    /// volume, because damage exposed it in a file's content.
    fn run(&mut self, at: u64, next: u64, order: ByteOrder) -> bool {
        match self.runs.last_mut() {
            Some(run) if run.order == order => run.nodes.end = next,
            Some(_) if !at.is_multiple_of(UNIT) => return false,
            _ => self.runs.push(Stretch { nodes: at..next, order, doubt: None }),
        }
        true
    }

    /// Compares a node with earlier nodes about the same version.
    fn node(&mut self, held: &mut Held<'_>, at: u64, order: ByteOrder, header: &Header) {
        if header.is_obsolete() || !matches!(header.node_type, node_type::INODE | node_type::DIRENT) {
            return;
        }
        let Some((subject, sums)) = held.node(at, header.total_length).and_then(|bytes| says(order, header, bytes))
        else {
            return;
        };
        if self.said.len() >= SUBJECTS_MAX && !self.said.contains_key(&subject) {
            return;
        }
        if let Some((before, earlier)) = self.said.insert(subject, (sums, at))
            && before != sums
        {
            self.conflicts.push(Conflict { earlier, later: at, is_name: subject.is_name });
        }
    }

    /// The stretches that are separate volumes.
    pub(super) fn stretches(self) -> Vec<Stretch> {
        let run_of = |place: u64| self.runs.iter().rposition(|run| run.nodes.start <= place);
        let (inside, across): (Vec<Conflict>, Vec<Conflict>) =
            self.conflicts.iter().copied().partition(|conflict| run_of(conflict.earlier) == run_of(conflict.later));
        // Each stretch separately: blocks of another byte order's volumes are irrelevant here.
        let of_run = |run: &Stretch| {
            let conflicts = inside.iter().filter(|conflict| run.nodes.contains(&conflict.later)).copied();
            let openings = self.openings.iter().filter(|opening| run.nodes.contains(&opening.at)).copied();
            borders(conflicts.collect(), &openings.collect::<Vec<_>>())
        };
        let borders: Vec<Border> = self.runs.iter().flat_map(of_run).collect();
        let runs = if comes_back(&self.runs, &across) { joined(&self.runs) } else { self.runs };
        let mut found = Vec::new();
        for mut rest in runs {
            for border in &borders {
                if border.at <= rest.nodes.start || border.at >= rest.nodes.end {
                    continue;
                }
                let doubt = rest.doubt.clone().or_else(|| border.doubt.clone());
                found.push(Stretch { nodes: rest.nodes.start..border.before, order: rest.order, doubt });
                rest = Stretch { nodes: border.at..rest.nodes.end, doubt: border.doubt.clone(), ..rest };
            }
            found.push(rest);
        }
        for stretch in &mut found {
            stretch.doubt = stretch.doubt.take().or_else(|| contradiction(stretch, &self.conflicts));
        }
        found
    }
}

/// Reports two names of one version within an assumed single volume: too little evidence to split
/// it, but too much to ignore.
fn contradiction(stretch: &Stretch, conflicts: &[Conflict]) -> Option<String> {
    let is_inside = |conflict: &&Conflict| {
        let nodes = [conflict.earlier, conflict.later];
        conflict.is_name && nodes.iter().all(|node| stretch.nodes.contains(node))
    };
    let Conflict { earlier, later, .. } = conflicts.iter().find(is_inside)?;
    Some(format!(
        "the nodes at {earlier:#x} and {later:#x} give one version of a directory two names: two volumes may meet between them, and files in them may be missing or the other volume's"
    ))
}

/// Whether a byte order reappears without proof that it is another volume: then it is unknown which
/// blocks belong together.
fn comes_back(runs: &[Stretch], across: &[Conflict]) -> bool {
    runs.iter().zip(runs.iter().skip(2)).any(|(one, other)| {
        let between: Vec<Conflict> = across
            .iter()
            .filter(|conflict| one.nodes.contains(&conflict.earlier) && other.nodes.contains(&conflict.later))
            .copied()
            .collect();
        !are_two_volumes(&between)
    })
}

/// Joins all stretches to one, in the byte order of most bytes.
fn joined(runs: &[Stretch]) -> Vec<Stretch> {
    let bytes = |order| {
        let of_order = runs.iter().filter(|run| run.order == order);
        of_order.map(|run| run.nodes.end - run.nodes.start).sum::<u64>()
    };
    let order = ByteOrder::ALL.into_iter().max_by_key(|order| bytes(*order)).unwrap_or(ByteOrder::Little);
    let range = runs.first().zip(runs.last()).map(|(first, last)| first.nodes.start..last.nodes.end);
    range.map(|nodes| Stretch { nodes, order, doubt: None }).into_iter().collect()
}

/// The subject of a valid node, and checksums of its content.
fn says(order: ByteOrder, header: &Header, bytes: &[u8]) -> Option<(Subject, (u32, u32))> {
    let is_big_endian = order == ByteOrder::Big;
    match header.node_type {
        node_type::INODE => {
            let inode = node::inode(order, bytes, header.total_length).ok()?;
            node::data(&inode, bytes).ok()?;
            let subject = Subject { is_big_endian, is_name: false, inode: inode.inode.0, version: inode.version };
            Some((subject, (inode.node_crc, inode.data_crc)))
        }
        _ => {
            let (dirent, _) = node::dirent(order, bytes, header.total_length).ok()?;
            let subject = Subject { is_big_endian, is_name: true, inode: dirent.parent.0, version: dirent.version };
            Some((subject, (dirent.node_crc, dirent.name_crc)))
        }
    }
}
