//! Loading an inode: from its nodes to its attributes and content.
//!
//! The rules are those of Linux (fs/jffs2/readinode.c): nodes count in version order, a node with
//! damaged data is ignored, the newest remaining node gives the attributes, and the file's size is
//! limited to that in the newest node and to the range of its nodes. The method differs: the newest
//! node is read first, and nodes hidden by newer ones are not read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::catalogue::{NodeRef, NodeState, Owner};
use crate::damage::{Damage, DamageKind};
use crate::fragments::{Fragment, Fragments};
use crate::inode::{Body, Inode};
use crate::layout::format;
use crate::layout::{self, Dirent, Header, INODE_SIZE, PAGE_SIZE, node_type};
use crate::medium::Soundness;
use crate::scan::node::{self, Bad};
use crate::stored_data::decompressed;
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};

/// An inode node of the inode being loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) at: NodeAddress,
    pub(crate) node: layout::Inode,
    /// How reliably its fixed part was read.
    pub(crate) soundness: Soundness,
}

impl Piece {
    /// Number of file bytes in the node.
    pub(crate) const fn size(&self) -> u32 {
        self.node.span()
    }

    const fn range(&self) -> (u32, u32) {
        (self.node.offset, self.node.offset.saturating_add(self.size()))
    }
}

/// Covered ranges from start to end, none touching another.
#[derive(Default)]
struct Covered(BTreeMap<u32, u32>);

impl Covered {
    /// The parts of `start..end` that are not covered, in order.
    fn gaps(&self, start: u32, end: u32) -> Vec<(u32, u32)> {
        let before = self.0.range(..=start).next_back().map_or(start, |(_, last)| *last);
        let mut from = start.max(before);
        let mut gaps = Vec::new();
        for (next, last) in self.0.range(from..end.max(from)) {
            if *next > from {
                gaps.push((from, *next));
            }
            from = *last;
        }
        if from < end {
            gaps.push((from, end));
        }
        gaps
    }

    fn holds(&self, start: u32, end: u32) -> bool {
        self.0.range(..=start).next_back().is_some_and(|(_, last)| *last >= end)
    }

    fn add(&mut self, mut start: u32, mut end: u32) {
        if start >= end {
            return;
        }
        while let Some((from, to)) = self.0.range(..=end).next_back().map(|(from, to)| (*from, *to))
            && to >= start
        {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }
}

/// The pieces of an inode, selected from all its nodes.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Valid nodes by version, newest first; the first gives the attributes.
    pub(crate) valid: Vec<Piece>,
    /// Nodes that are hidden by newer ones, or only held attributes.
    pub(crate) hidden: Vec<NodeAddress>,
    /// Nodes with damaged data.
    pub(crate) bad: Vec<(NodeAddress, Bad)>,
}

impl<F: Flash> Jffs2<F> {
    /// The body of an inode, loaded at its first use. An inode without a valid node has mode 0.
    /// Errors: `NotFound`, `Device`.
    pub(crate) fn body(&self, number: Ino) -> Result<&Body> {
        let inode = self.inodes.get(&number);
        let inode = inode.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("inode {number} does not exist")))?;
        if let Some(body) = inode.body.get() {
            return Ok(body);
        }
        let body = self.load(number, inode)?;
        Ok(get_or_set(&inode.body, body))
    }

    /// The bytes of a node in the catalogue; empty if shorter than a header.
    pub(crate) fn node_bytes(&self, at: NodeAddress, cause: Cause) -> Result<Vec<u8>> {
        let length = self.catalogue.node(at).map_or(0, |node| node.length);
        self.bytes_at(at, length, cause)
    }

    /// Reads bytes of the device, and reports uncorrectable pages.
    pub(crate) fn bytes_at(&self, at: NodeAddress, length: u32, cause: Cause) -> Result<Vec<u8>> {
        self.bytes_as_read(at, length, cause).map(|(bytes, _)| bytes)
    }

    /// Like [`Jffs2::bytes_at`], and returns how reliable they are.
    pub(crate) fn bytes_as_read(&self, at: NodeAddress, length: u32, cause: Cause) -> Result<(Vec<u8>, Soundness)> {
        let mut bytes = vec![0; length as usize];
        let read = self.medium.read(at, &mut bytes, cause);
        let soundness = read.map_err(|error| FsError::device("the flash", error))?;
        if soundness == Soundness::Uncorrectable {
            let owner = self.catalogue.node(at).map(NodeRef::owner);
            let inode = if let Some(Owner::Inode(inode)) = owner { Some(inode) } else { None };
            let damage = crate::scan::uncorrectable(self.medium.shape().block_of(at), at);
            self.damage.add(Damage { inode, ..damage });
        }
        Ok((bytes, soundness))
    }

    pub(crate) fn note(&self, at: NodeAddress, inode: Ino, kind: DamageKind, detail: impl Into<String>) {
        let block = self.medium.shape().block_of(at);
        self.damage.add(Damage { at, block, kind, inode: Some(inode), detail: detail.into() });
    }

    fn load(&self, number: Ino, inode: &Inode) -> Result<Body> {
        let mut body = Body::default();
        let mut pieces = Vec::new();
        let mut newest_name = (0, 0);
        let mut bad_nodes = Vec::new();
        for at in &inode.nodes {
            let Some(node) = self.catalogue.node(*at).filter(|node| !node.is_obsolete()) else { continue };
            let length = node.length;
            match self.load_node(number, *at, length)? {
                Ok(Loaded::Piece(piece)) => pieces.push(piece),
                Ok(Loaded::Name(dirent)) => {
                    if dirent.version > newest_name.0 && dirent.made != 0 {
                        newest_name = (dirent.version, dirent.made);
                    }
                    let state = if dirent.inode == Ino::NONE { NodeState::Normal } else { NodeState::Pristine };
                    body.states.push((*at, state));
                }
                Err(bad) => {
                    self.note(*at, number, bad.kind, &*bad.detail);
                    body.states.push((*at, NodeState::Obsolete));
                    bad_nodes.push(*at);
                }
            }
        }
        if !bad_nodes.is_empty() {
            bad_nodes.sort_unstable();
            let entries = inode.entries.iter().flat_map(|entries| entries.with_cookies());
            let mut kept = BTreeSet::new();
            for (cookie, _, entry) in entries.filter(|(_, _, entry)| bad_nodes.binary_search(&entry.node).is_ok()) {
                if entry.inode == Ino::NONE {
                    // A deletion stays valid and is moved from memory: without it the deleted name
                    // would reappear.
                    kept.insert(entry.node);
                } else {
                    body.dropped.insert(entry.node, cookie);
                }
            }
            body.states
                .iter_mut()
                .filter(|(at, _)| kept.contains(at))
                .for_each(|(_, state)| *state = NodeState::Normal);
        }
        if number == layout::ROOT {
            self.drop_impossible_roots(&mut pieces, &mut body);
        }
        let mut reader = |at: NodeAddress, length: u32| self.bytes_as_read(at, length, Cause::UserData);
        let chosen = choose(pieces, &mut reader)?;
        for (at, bad) in &chosen.bad {
            self.note(*at, number, self.kind_at(*at, bad.kind)?, bad.detail.clone());
            body.states.push((*at, NodeState::Obsolete));
        }
        body.states.extend(chosen.hidden.iter().map(|at| (*at, NodeState::Obsolete)));
        match chosen.valid.first().copied() {
            Some(latest) => self.build(number, &latest, &chosen, newest_name, &mut body)?,
            None if number == layout::ROOT || inode.entries.is_some() => {
                // Its own nodes are lost, but names in it remain (fs/jffs2/readinode.c uses the
                // same mode).
                body.mode = format::DIRECTORY | 0o755;
                if number != layout::ROOT {
                    let at = inode.nodes.first().copied().unwrap_or_default();
                    self.note(at, number, DamageKind::Missing, "no node with the directory's attributes is left");
                }
            }
            None if inode.links == 0 => {}
            None => {
                let at = inode.nodes.first().copied().unwrap_or_default();
                self.note(at, number, DamageKind::Missing, "no valid node of it is left");
            }
        }
        Ok(body)
    }

    /// Loads a node of an inode: its fixed part and its name.
    fn load_node(&self, number: Ino, at: NodeAddress, length: u32) -> Result<std::result::Result<Loaded, Bad>> {
        // Up to the end of the page with the fixed part: the device reads whole pages anyway.
        let page = self.medium.shape().page_size.max(1);
        let fixed = length.min(INODE_SIZE.max(layout::DIRENT_SIZE + 255));
        let first = if page > 1 { (at.0 % page + INODE_SIZE).next_multiple_of(page) - at.0 % page } else { INODE_SIZE };
        let (mut bytes, soundness) = self.bytes_as_read(at, first.min(length), Cause::UserData)?;
        let order = self.medium.order();
        let bad = |detail: &str| Ok(Err(Bad { kind: DamageKind::Header, inode: Some(number), detail: detail.into() }));
        let Some(header) = Header::decode(order, &bytes) else { return bad("too short for a node") };
        if header.check(order).is_err() || layout::padded(header.total_length) != length {
            return bad("the summary lists a node here, but its header is damaged");
        }
        Ok(match header.node_type {
            node_type::INODE => node::inode(order, &bytes, header.total_length).and_then(|found| {
                if found.inode == number {
                    return Ok(Loaded::Piece(Piece { at, node: found, soundness }));
                }
                let detail = format!("the summary says that this node belongs to inode {number}");
                Err(Bad { kind: DamageKind::Summary, inode: Some(found.inode), detail })
            }),
            node_type::DIRENT => {
                if (bytes.len() as u32) < fixed {
                    bytes = self.bytes_at(at, fixed, Cause::UserData)?;
                }
                node::dirent(order, &bytes, header.total_length).and_then(|(dirent, name)| {
                    let entries = self.inodes.get(&number).and_then(|inode| inode.entries.as_ref());
                    let entry = entries.and_then(|entries| entries.get(&name.name));
                    if dirent.parent == number
                        && entry.is_some_and(|entry| entry.node == at && entry.inode == dirent.inode)
                    {
                        return Ok(Loaded::Name(dirent));
                    }
                    let detail = "the summary tells of another name".into();
                    Err(Bad { kind: DamageKind::Summary, inode: Some(dirent.parent), detail })
                })
            }
            _ => return bad("the summary tells of another type of node"),
        })
    }

    /// Builds attributes and fragments from the valid pieces.
    fn build(
        &self,
        number: Ino,
        latest: &Piece,
        chosen: &Chosen,
        newest_name: (u32, u32),
        body: &mut Body,
    ) -> Result<()> {
        let node = &latest.node;
        body.mode = node.mode;
        (body.uid, body.gid, body.size) = (node.uid, node.gid, node.file_size);
        (body.accessed, body.modified, body.changed) = (node.accessed, node.modified, node.changed);
        let mut fragments = fragments_of(chosen);
        match body.format() {
            format::REGULAR => {
                fragments.clear(node.file_size, u32::MAX, &mut Vec::new());
                self.fit_size(number, latest, body, &fragments);
                // A truncation or a mode change holds no file bytes, but the newest attributes: it
                // is valid until a newer node is written.
                let (start, end) = latest.range();
                if fragments.of_node(latest.at, start, end).next().is_none() {
                    body.metadata = Some(latest.at);
                }
            }
            format::SYMLINK | format::CHARACTER | format::BLOCK => {
                self.special(number, latest, chosen, body, &fragments)?;
                fragments = Fragments::default();
            }
            _ => {
                if body.format() == format::DIRECTORY && newest_name.0 > node.version {
                    (body.modified, body.changed) = (newest_name.1, newest_name.1);
                }
                body.metadata = Some(latest.at);
            }
        }
        states(chosen, &fragments, body);
        body.fragments = fragments;
        Ok(())
    }

    /// Limits the file's size to the range of its nodes; missing data were lost.
    fn fit_size(&self, number: Ino, latest: &Piece, body: &mut Body, fragments: &Fragments) {
        let mut end = 0;
        for fragment in fragments.all() {
            if fragment.start > end {
                let detail =
                    format!("bytes {end:#x} to {:#x} of the file are in no node and read as zeroes", fragment.start);
                self.note(fragment.node, number, DamageKind::Missing, detail);
            }
            end = fragment.end;
        }
        if end < body.size {
            let detail = format!("the file had {:#x} bytes, its nodes hold {end:#x}", body.size);
            self.note(latest.at, number, DamageKind::Missing, detail);
            body.size = end;
        }
    }

    /// Links and devices have one node with data, which also gives the attributes.
    fn special(
        &self,
        number: Ino,
        latest: &Piece,
        chosen: &Chosen,
        body: &mut Body,
        fragments: &Fragments,
    ) -> Result<()> {
        let alone = matches!(fragments.all(), [only] if only.node == latest.at);
        let bytes =
            self.bytes_at(latest.at, INODE_SIZE.saturating_add(latest.node.compressed_size), Cause::UserData)?;
        let content = alone.then(|| content(&latest.node, &bytes, latest.at)).transpose();
        let lost = |body: &mut Body, detail: &str| {
            self.note(latest.at, number, DamageKind::Node, detail);
            body.mode = 0;
        };
        let content = match content {
            Ok(Some(content)) => content,
            Ok(None) => {
                lost(
                    body,
                    if chosen.valid.len() > 1 {
                        "a link or device with more than one node"
                    } else {
                        "a link or device without content"
                    },
                );
                return Ok(());
            }
            Err(error) => {
                lost(body, &error.detail);
                return Ok(());
            }
        };
        body.metadata = Some(latest.at);
        if body.format() == format::SYMLINK {
            body.size = u32::try_from(content.len()).unwrap_or(0);
            body.target = content;
            return Ok(());
        }
        match device(self.medium.order(), &content) {
            Some(device) => body.device = device,
            None => lost(body, "a device number has two or four bytes"),
        }
        Ok(())
    }

    /// The file bytes of a fragment's node, verified and decompressed; empty if they are zeroes.
    /// Errors: `Corrupt` with the address, also if the node differs from the one found when the
    /// inode was loaded; `Device`.
    pub(crate) fn node_content(&self, number: Ino, fragment: &Fragment, cause: Cause) -> Result<Vec<u8>> {
        let at = fragment.node;
        let bytes = self.node_bytes(at, cause)?;
        let order = self.medium.order();
        let length = Header::decode(order, &bytes).map_or(0, |header| header.total_length);
        let node = node::inode(order, &bytes, length).map_err(|bad| corrupt(at, &bad))?;
        let held = (node.offset, node.offset.saturating_add(node.span()));
        if (node.inode, held) != (number, (fragment.node_start, fragment.node_end)) {
            let detail = format!(
                "it holds bytes {:#x} to {:#x} of inode {}; expected {:#x} to {:#x} of inode {number}",
                held.0, held.1, node.inode, fragment.node_start, fragment.node_end
            );
            return Err(corrupt(at, &Bad { kind: DamageKind::Node, inode: Some(number), detail }));
        }
        content(&node, &bytes, at)
    }
}

enum Loaded {
    Piece(Piece),
    Name(Dirent),
}

fn get_or_set(cell: &OnceLock<Box<Body>>, body: Body) -> &Body {
    cell.get_or_init(|| Box::new(body))
}

fn corrupt(at: NodeAddress, bad: &Bad) -> FsError {
    FsError::new(ErrorKind::Corrupt, format!("the node at {at}: {}", bad.detail))
}

/// The uncompressed data of an inode node. `bytes` is the whole node.
pub(crate) fn content(node: &layout::Inode, bytes: &[u8], at: NodeAddress) -> Result<Vec<u8>> {
    let data = node::data(node, bytes).map_err(|bad| corrupt(at, &bad))?;
    decompressed(node, data).map_err(|what| FsError::new(ErrorKind::Corrupt, format!("the node at {at}: {what}")))
}

/// Major << 32 | minor from a device node's content: 16 bits in old nodes, or 32 in new ones
/// (linux/kdev_t.h).
fn device(order: layout::ByteOrder, content: &[u8]) -> Option<u64> {
    let (major, minor) = match *content {
        [a, b] => {
            let number = u32::from(order.u16([a, b]));
            (number >> 8 & 0xFF, number & 0xFF)
        }
        [a, b, c, d] => {
            let number = order.u32([a, b, c, d]);
            (number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xF_FF00)
        }
        _ => return None,
    };
    Some(u64::from(major) << 32 | u64::from(minor))
}

/// Selects the valid pieces: the newest first, then always the newest that is not hidden. Data are
/// read through `read` if they count.
///
/// Among equal versions the last one counts, as in Linux, whose list of nodes starts with the last.
/// But a node in an uncorrectable page ranks behind a sound copy of it; otherwise the copy would be
/// erased, and the page might read differently next time.
pub(crate) fn choose(
    mut pieces: Vec<Piece>,
    read: &mut dyn FnMut(NodeAddress, u32) -> Result<(Vec<u8>, Soundness)>,
) -> Result<Chosen> {
    pieces.sort_by_key(|piece| Reverse((piece.node.version, piece.soundness == Soundness::Sound, piece.at)));
    let mut chosen = Chosen::default();
    let mut covered = Covered::default();
    // Nodes examined in vain, so that each is examined once.
    let mut alone = None;
    for (place, piece) in pieces.iter().enumerate() {
        let (start, end) = piece.range();
        let is_latest = chosen.valid.is_empty();
        if !is_latest && (start == end || covered.holds(start, end)) {
            chosen.hidden.push(piece.at);
            continue;
        }
        if piece.node.compressed_size > 0 {
            let (bytes, soundness) = read(piece.at, INODE_SIZE.saturating_add(piece.node.compressed_size))?;
            if let Err(bad) = node::data(&piece.node, &bytes) {
                chosen.bad.push((piece.at, bad));
                continue;
            }
            if soundness == Soundness::Uncorrectable && alone != Some((piece.node.version, piece.range())) {
                if has_sound_copy(piece, pieces.get(place + 1..).unwrap_or(&[]), read)? {
                    chosen.hidden.push(piece.at);
                    continue;
                }
                alone = Some((piece.node.version, piece.range()));
            }
        }
        covered.add(start, end);
        if is_latest && piece.node.mode & 0o170_000 == format::REGULAR {
            // Content of older nodes past the end of the file does not count.
            covered.add(piece.node.file_size, u32::MAX);
        }
        chosen.valid.push(*piece);
    }
    Ok(chosen)
}

/// Whether one of the later pieces is an identical copy with sound data.
fn has_sound_copy(
    piece: &Piece,
    behind: &[Piece],
    read: &mut dyn FnMut(NodeAddress, u32) -> Result<(Vec<u8>, Soundness)>,
) -> Result<bool> {
    let same = |next: &&Piece| (next.node.version, next.range()) == (piece.node.version, piece.range());
    for copy in behind.iter().take_while(same) {
        let (bytes, soundness) = read(copy.at, INODE_SIZE.saturating_add(copy.node.compressed_size))?;
        if soundness == Soundness::Sound && node::data(&copy.node, &bytes).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The fragments of valid pieces: the newest piece has all its bytes, older ones what newer ones
/// leave. Cost: n log n, whatever the order of pieces in the file.
pub(crate) fn fragments_of(chosen: &Chosen) -> Fragments {
    let mut list = Vec::with_capacity(chosen.valid.len());
    let mut covered = Covered::default();
    for piece in &chosen.valid {
        let (node_start, node_end) = piece.range();
        let whole = Fragment::whole(piece.at, node_start, node_end);
        list.extend(covered.gaps(node_start, node_end).into_iter().map(|(start, end)| Fragment {
            start,
            end,
            ..whole
        }));
        covered.add(node_start, node_end);
    }
    Fragments::of(list)
}

/// How the collector may handle each valid node: copy nodes that are alone in their pages, rewrite
/// the others (fs/jffs2/nodelist.c).
fn states(chosen: &Chosen, fragments: &Fragments, body: &mut Body) {
    let all = fragments.all();
    // The first fragment of each node, and whether there are more. Only used for lookups, so its
    // order does not matter.
    let mut own: HashMap<NodeAddress, (&Fragment, bool)> = HashMap::with_capacity(chosen.valid.len());
    for fragment in all {
        own.entry(fragment.node).and_modify(|(_, more)| *more = true).or_insert((fragment, false));
    }
    for piece in &chosen.valid {
        let (start, end) = piece.range();
        let (first, more) = own.get(&piece.at).map_or((None, false), |(first, more)| (Some(*first), *more));
        let state = match first {
            None if body.metadata == Some(piece.at) && body.format() != format::REGULAR && piece.size() > 0 => {
                NodeState::Pristine
            }
            None if body.metadata == Some(piece.at) => NodeState::Normal,
            None => NodeState::Obsolete,
            Some(first) => {
                let is_last = all.last() == Some(first);
                let whole =
                    !more && (first.start, first.end) == (start, end) && (is_last || end.is_multiple_of(PAGE_SIZE));
                // Linux copies the last piece of a file whatever its size.
                let copies = start.is_multiple_of(PAGE_SIZE) && (whole || is_last && first.start == start && !more);
                if copies && piece.node.compressed_size > 0 { NodeState::Pristine } else { NodeState::Normal }
            }
        };
        body.states.push((piece.at, state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three copies of a node: copies whose pages read correctly once more must not rank before a
    /// sound one.
    #[test]
    fn a_sound_copy_goes_before_what_could_not_be_corrected() {
        let data = [7; 16];
        let fixed = layout::Inode {
            version: 5,
            file_size: 16,
            compressed_size: 16,
            data_size: 16,
            data_crc: layout::crc(&data),
            ..layout::Inode::default()
        };
        let whole = [&[0; INODE_SIZE as usize][..], &data].concat();
        let chosen = |spoilt: &[u32], decayed: &[u32]| {
            let soundness = Soundness::Sound;
            let pieces = [0, 500, 1000].map(|at| Piece { at: NodeAddress(at), node: fixed, soundness }).to_vec();
            let chosen = choose(pieces, &mut |at, _| {
                let bytes = if decayed.contains(&at.0) { vec![0; whole.len()] } else { whole.clone() };
                Ok((bytes, if spoilt.contains(&at.0) { Soundness::Uncorrectable } else { Soundness::Sound }))
            });
            let chosen = chosen.unwrap();
            let places = |list: &[NodeAddress]| list.iter().map(|at| at.0).collect::<Vec<_>>();
            let valid: Vec<_> = chosen.valid.iter().map(|piece| piece.at).collect();
            (places(&valid), places(&chosen.hidden), chosen.bad.len())
        };
        assert_eq!(chosen(&[], &[]), (vec![1000], vec![500, 0], 0));
        assert_eq!(chosen(&[1000], &[]), (vec![500], vec![1000, 0], 0));
        assert_eq!(chosen(&[500, 1000], &[]), (vec![0], vec![1000, 500], 0));
        assert_eq!(chosen(&[0, 500, 1000], &[]), (vec![1000], vec![500, 0], 0));
        assert_eq!(chosen(&[500, 1000], &[0]), (vec![1000], vec![500, 0], 0));
        assert_eq!(chosen(&[1000], &[1000]), (vec![500], vec![0], 1));
    }

    /// Directories, empty files and truncations have no data: only the fixed part counts.
    #[test]
    fn of_nodes_without_data_the_sound_copy_goes_first() {
        let fixed = layout::Inode { version: 5, ..layout::Inode::default() };
        let pieces = [(0, Soundness::Sound), (1000, Soundness::Uncorrectable)].map(|(at, soundness)| Piece {
            at: NodeAddress(at),
            node: fixed,
            soundness,
        });
        let chosen = choose(pieces.to_vec(), &mut |_, _| unreachable!("there are no data")).unwrap();
        assert_eq!((chosen.valid[0].at, &*chosen.hidden), (NodeAddress(0), &[NodeAddress(1000)][..]));
    }
}
