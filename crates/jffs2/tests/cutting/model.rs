//! What a volume holds: as the model says, and as it shows itself.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::Flash;
use nandkit_jffs2::Jffs2;
use nandkit_units::ReadInto;
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};

pub const PAGE: usize = 4096;

/// The root's number in the model.
pub const ROOT: usize = 0;

/// A file or directory: what belongs to it under whatever names. Its number is its owner on the volume, so that each one found is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub directory: bool,
    pub mode: u16,
    /// Extended attributes: the number of the value by that of the name.
    pub xattrs: BTreeMap<u64, u32>,
    /// The version of each page's content; 0 reads as zeroes.
    pub pages: Vec<u32>,
}

impl Node {
    pub const fn new(directory: bool) -> Self {
        Self { directory, mode: if directory { 0o755 } else { 0o644 }, xattrs: BTreeMap::new(), pages: Vec::new() }
    }
}

/// A name: the directory's number and the name in it.
pub type Name = (usize, String);

/// Names, and what they are of.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub names: BTreeMap<Name, usize>,
    pub nodes: BTreeMap<usize, Node>,
    /// Numbers and versions up to these were given; what was there may be there still, and is told by them.
    pub given: (usize, u32),
}

impl State {
    pub fn empty() -> Self {
        Self { names: BTreeMap::new(), nodes: BTreeMap::from([(ROOT, Node::new(true))]), given: (ROOT, 0) }
    }

    /// Whether a volume holds just this.
    pub fn is(&self, found: &Found) -> bool {
        self.fits(found, None)
    }

    /// The same; one page of one file may be as in `next` up to a place.
    pub fn fits(&self, found: &Found, next: Option<&Self>) -> bool {
        let node = |(number, found): (&usize, &FoundNode)| {
            let node = &self.nodes[number];
            let pages = next.and_then(|next| next.nodes.get(number)).map(|node| &node.pages);
            (node.directory, node.mode) == (found.directory, found.mode)
                && node.xattrs.iter().map(|(name, value)| (*name, value_of(*value))).eq(found.xattrs.clone())
                && is(&found.bytes, &node.pages, pages)
        };
        self.names == found.names && self.nodes.keys().eq(found.nodes.keys()) && found.nodes.iter().all(node)
    }

    pub fn holds_names(&self, directory: usize) -> bool {
        self.names.keys().any(|(parent, _)| *parent == directory)
    }

    /// Whether a way down leads from one directory to another.
    pub fn leads_to(&self, from: usize, to: usize) -> bool {
        let mut below = self.names.iter().filter(|((parent, _), _)| *parent == from);
        from == to || below.any(|(_, node)| self.nodes[node].directory && self.leads_to(*node, to))
    }

    pub fn put(&mut self, name: &Name, node: usize) {
        self.names.insert(name.clone(), node);
        self.forget_nameless();
    }

    pub fn take(&mut self, name: &Name) {
        self.names.remove(name);
        self.forget_nameless();
    }

    fn forget_nameless(&mut self) {
        let named: BTreeSet<usize> = self.names.values().copied().chain([ROOT]).collect();
        self.nodes.retain(|number, _| named.contains(number));
    }

    pub fn change(&self, node: usize, change: impl FnOnce(&mut Node)) -> Self {
        let mut after = self.clone();
        change(after.nodes.get_mut(&node).unwrap());
        after
    }
}

/// What a page of a version holds: the version, again and again.
pub fn page(version: u32) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 4)
}

/// An extended attribute's value, of a length of its own. There are few of them, so that inodes share them.
pub fn value_of(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + 9 * number as usize)
}

pub fn xattr_name(number: u64) -> String {
    format!("user.attribute-{number}")
}

/// The inodes of a volume, by their numbers in the model.
pub fn inodes<F: Flash>(fs: &Jffs2<F>) -> BTreeMap<usize, InodeNumber> {
    let mut inodes = BTreeMap::from([(ROOT, fs.root())]);
    let mut next = vec![fs.root()];
    while let Some(directory) = next.pop() {
        fs.read_dir(directory, 0, &mut |entry| {
            let stat = fs.stat(entry.inode).unwrap();
            match inodes.insert(stat.uid as usize, entry.inode) {
                None if stat.kind == FileKind::Directory => next.push(entry.inode),
                other => assert!(other.is_none_or(|other| other == entry.inode), "two inodes are number {}", stat.uid),
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    }
    inodes
}

/// A file or directory as a volume shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundNode {
    pub directory: bool,
    mode: u16,
    xattrs: BTreeMap<u64, Vec<u8>>,
    bytes: Vec<u8>,
}

/// What a volume holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub names: BTreeMap<Name, usize>,
    pub nodes: BTreeMap<usize, FoundNode>,
}

/// What a volume holds. The links that it counts are those that there are.
pub fn found<F: Flash>(fs: &Jffs2<F>) -> Found {
    let inodes = inodes(fs);
    let mut found = Found { names: BTreeMap::new(), nodes: BTreeMap::new() };
    for (number, inode) in &inodes {
        let stat = fs.stat(*inode).unwrap();
        let directory = stat.kind == FileKind::Directory;
        let mut bytes = vec![0; if directory { 0 } else { stat.size as usize }];
        if directory {
            fs.read_dir(*inode, 0, &mut |entry| {
                let of = fs.stat(entry.inode).unwrap().uid as usize;
                found.names.insert((*number, String::from_utf8(entry.name.to_vec()).unwrap()), of);
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        } else {
            assert_eq!(fs.read(*inode, 0, ReadInto::Bytes(&mut bytes)).unwrap(), bytes.len());
        }
        let (xattrs, mut values) = (fs.xattrs().unwrap(), BTreeMap::new());
        for name in xattrs.xattr_names(*inode).unwrap() {
            let known = (0..2).find(|number| xattr_name(*number).as_bytes() == name).unwrap();
            values.insert(known, xattrs.xattr(*inode, &name).unwrap());
        }
        found.nodes.insert(*number, FoundNode { directory, mode: stat.mode, xattrs: values, bytes });
    }
    for (number, inode) in inodes.iter().filter(|(number, _)| !found.nodes[number].directory) {
        let links = found.names.values().filter(|of| *of == number).count();
        assert_eq!(fs.stat(*inode).unwrap().links as usize, links, "links of number {number}");
    }
    found
}

/// Names, attributes, sizes, and the versions that pages begin and end with.
pub fn shown(found: &Found) -> Vec<String> {
    let word = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let ends = |page: &[u8]| (word(page.first_chunk()), word(page.last_chunk()));
    let show = |(number, node): (&usize, &FoundNode)| {
        let xattrs: Vec<_> = node.xattrs.iter().map(|(name, value)| (name, word(value.first_chunk()))).collect();
        let pages: Vec<_> = node.bytes.chunks(PAGE).map(ends).collect();
        format!("{number}: {:o} {xattrs:?} {} {pages:?}", node.mode, node.bytes.len())
    };
    found.names.iter().map(|name| format!("{name:?}")).chain(found.nodes.iter().map(show)).collect()
}

/// Whether bytes are these pages, the last of which may be new only up to the place where a block ended.
pub fn is(bytes: &[u8], pages: &[u32], next: Option<&Vec<u32>>) -> bool {
    let whole = bytes.len() == pages.len() * PAGE
        && bytes.chunks(PAGE).zip(pages).all(|(bytes, version)| bytes == page(*version));
    whole || next.is_some_and(|next| is_between(bytes, pages, next))
}

/// Whether one page of `next` is there in part: its beginning new, its rest as in `pages`.
fn is_between(bytes: &[u8], pages: &[u32], next: &[u32]) -> bool {
    bytes.len() <= next.len() * PAGE
        && bytes.chunks(PAGE).enumerate().all(|(number, bytes)| {
            let old = pages.get(number).copied().map(page).unwrap_or_default();
            let new = page(next[number]);
            let split = bytes.iter().zip(&new).take_while(|(found, new)| found == new).count();
            bytes[split..] == *old.get(split..bytes.len()).unwrap_or_default()
                && (split == bytes.len() || bytes.len() == PAGE || old.is_empty())
        })
}

/// With several write buffers what was written later may be there without what was written before it. Still each name is there or not as in one of these states and
/// stands for what it stood for in one of them, and each page, mode and attribute is as it was in one of them.
pub fn mixed(found: &Found, states: &[State]) -> Result<State, String> {
    for name in states.iter().flat_map(|state| state.names.keys()).filter(|name| !found.names.contains_key(*name)) {
        if states.iter().all(|state| state.names.contains_key(name)) {
            return Err(format!("{name:?} is gone"));
        }
    }
    for (name, number) in &found.names {
        if states.iter().all(|state| state.names.get(name) != Some(number)) {
            return Err(format!("{name:?} was never {number}"));
        }
    }
    let mut state = State { names: found.names.clone(), nodes: BTreeMap::new(), given: (0, 0) };
    for (number, node) in &found.nodes {
        let known: Vec<&Node> = states.iter().filter_map(|state| state.nodes.get(number)).collect();
        // A file that comes to be in these states has no size before.
        let lengths: Vec<usize> = known.iter().map(|known| known.pages.len() * PAGE).collect();
        let sized = lengths.iter().min() <= Some(&node.bytes.len()) && Some(&node.bytes.len()) <= lengths.iter().max();
        let paged = node.bytes.chunks(PAGE).enumerate().all(|(page, bytes)| {
            is_of(bytes, &known.iter().map(|known| known.pages.get(page).copied().unwrap_or(0)).collect())
        });
        let typed = known.iter().any(|known| (known.directory, known.mode) == (node.directory, node.mode));
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let xattrs: BTreeMap<u64, u32> = node.xattrs.iter().map(|(name, value)| (*name, word(value))).collect();
        let with_values = (0..2).all(|name| {
            node.xattrs.get(&name).is_none_or(|value| *value == value_of(word(value)))
                && known.iter().any(|known| known.xattrs.get(&name) == xattrs.get(&name))
        });
        if !(sized && paged && typed && with_values) {
            return Err(format!("{number} is not as it was in {known:?}"));
        }
        let pages = node.bytes.chunks(PAGE).map(word).collect();
        state.nodes.insert(*number, Node { directory: node.directory, mode: node.mode, xattrs, pages });
    }
    Ok(state)
}

/// Whether a page holds these versions only: several where a piece that ended with its block was lost.
fn is_of(bytes: &[u8], versions: &BTreeSet<u32>) -> bool {
    let pages: Vec<Vec<u8>> = versions.iter().map(|version| page(*version)).collect();
    let within =
        |at: usize| pages.iter().any(|page| bytes[at..bytes.len().min(at + 4)] == page[at..bytes.len().min(at + 4)]);
    let changes = bytes
        .windows(4)
        .step_by(4)
        .zip(bytes.windows(4).skip(4).step_by(4))
        .filter(|(one, other)| one != other)
        .count();
    (0..bytes.len()).step_by(4).all(within) && changes <= 2
}
