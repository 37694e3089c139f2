//! Plans a volume from a tree: inodes with their numbers, pages and nodes, counted before anything
//! gets an address.

use std::ops::Range;

use nandkit_vfs::source::{self, Children, SourceNode, SourceTree};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::MkfsOptions;
use super::logs::{LogBlocks, shared};
use super::names::{EntryAddress, NamePlaces};
use super::runs::{NodeCount, count};
use crate::directory::hash;
use crate::encode::inode::{address_words, check_device};
use crate::encode::xattr;
use crate::ids::{Log, NodeId};
use crate::layout::dentry::slots_of;
use crate::layout::inode::{DEFAULT_XATTR_WORDS, advise, inline};
use crate::layout::{DentryRoom, Features, NAME_MAX};
use crate::names::temperature;
use crate::quota::{QuotaKind, Usage, Usages, file};

/// Block size of new volumes in bytes.
pub const BLOCK_SIZE: usize = 4096;
/// Addresses or nids per node.
pub const PER_NODE: u32 = 1018;
/// The name of the directory that [`Features::LOST_FOUND`] requires.
pub const LOST_FOUND: &[u8] = b"lost+found";
/// Linux limits the file size to what the nodes can hold, without the inode's own addresses
/// (super.c, `max_file_blocks`).
const FILE_SIZE_MAX: u64 = {
    let n = PER_NODE as u64;
    (2 * n + 2 * n * n + n * n * n) * BLOCK_SIZE as u64
};
/// The longest symlink target: a block including its NUL.
const TARGET_MAX: usize = BLOCK_SIZE - 1;

/// Owner and group of `lost+found`.
const LOST_FOUND_OWNER: (u32, u32) = (0, 0);

/// The origin of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A node of the tree.
    Tree(usize),
    /// A quota file: 0 user, 1 group, 2 project.
    Quota(usize),
    /// The directory that the feature requires.
    LostFound,
}

/// The content of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// None: an empty file, a fifo, a socket.
    Nothing,
    /// A device number.
    Device,
    /// Inline content.
    Inline,
    /// Inline entries.
    InlineEntries,
    /// Pages.
    Pages,
}

/// An inode of the new volume.
#[derive(Clone, Debug)]
pub struct PlannedInode {
    /// The source of the inode.
    pub origin: Origin,
    /// Its number.
    pub ino: NodeId,
    /// The link count.
    pub links: u32,
    /// Bits of [`inline`], except the one for extra attributes.
    pub inline: u8,
    /// Bits of [`advise`].
    pub advise: u8,
    /// Its content.
    pub body: Body,
    /// Whether it has an attribute node, which follows the inode.
    pub has_xattr_node: bool,
    /// For a directory, its number of levels.
    pub depth: u32,
    /// Its runs of pages, in [`Plan::runs`].
    pub runs: Range<usize>,
    /// The size of its pages and nodes.
    pub count: NodeCount,
    /// The log for its pages.
    pub data_log: Log,
}

impl PlannedInode {
    /// Blocks including all nodes.
    pub const fn blocks(&self) -> u64 {
        1 + self.has_xattr_node as u64 + self.count.pages + self.count.direct + self.count.indirect
    }

    /// The log for the inode and its direct nodes: hot for directories and internal inodes.
    pub fn node_log(&self, nodes: &[SourceNode]) -> Log {
        match self.origin {
            Origin::Tree(index) if nodes.get(index).is_none_or(|node| node.kind != FileKind::Directory) => {
                Log::WarmNode
            }
            _ => Log::HotNode,
        }
    }

    /// Words that it reserves for inline attributes if the volume has FLEXIBLE_INLINE_XATTR.
    pub const fn own_xattr_words(&self) -> u16 {
        if self.inline & (inline::XATTR | inline::DENTRY) != 0 { DEFAULT_XATTR_WORDS } else { 0 }
    }

    /// The number of addresses that fit in the inode.
    pub const fn address_words(&self, features: Features) -> u16 {
        address_words(BLOCK_SIZE, features, self.inline, self.own_xattr_words())
    }
}

/// Everything about a new volume except addresses.
pub struct Plan<'a> {
    /// The tree.
    pub tree: &'a dyn SourceTree,
    /// The options.
    pub options: MkfsOptions,
    /// Inodes in the order of their numbers.
    pub inodes: Vec<PlannedInode>,
    /// Runs of pages of all inodes.
    pub runs: Vec<Range<u32>>,
    /// The nodes in each directory of the tree.
    pub children: Children,
    /// Where each node's entry is in its directory.
    pub places: Vec<EntryAddress>,
    /// The inode number of each node.
    pub numbers: Vec<NodeId>,
    /// The entry of `lost+found` in the root and its inode number, if the feature is on.
    pub lost_found: Option<(EntryAddress, NodeId)>,
    /// Quota files by kind.
    pub quota_files: [Vec<u8>; 3],
    /// Quota inodes for users, groups and projects; [`NodeId::NONE`] for none.
    pub quota_inodes: [NodeId; 3],
    /// The first free nid.
    pub next_nid: u32,
    /// Blocks of each log.
    pub logs: LogBlocks,
}

fn at(nodes: &[SourceNode], index: usize, error: FsError) -> FsError {
    let path = String::from_utf8_lossy(&source::path(nodes, index)).into_owned();
    FsError { detail: format!("/{path}: {}", error.detail), ..error }
}

impl<'a> Plan<'a> {
    /// Plans a tree. Errors: `InvalidArgument` (an option, or a tree that breaks its contract),
    /// `NameTooLong`, `FileTooBig`, `NotSupported`, `NoSpace` (what F2FS cannot hold, with its
    /// path), and those of the tree. Cost: a pass over the nodes; reads no content.
    pub fn new(tree: &'a dyn SourceTree, options: MkfsOptions) -> Result<Self> {
        options.check()?;
        let nodes = tree.nodes();
        source::check(nodes)?;
        nandkit_vfs::path::check_readable(nodes)?;
        let mut plan = Self {
            tree,
            options,
            inodes: Vec::with_capacity(nodes.len()),
            runs: Vec::new(),
            children: Children::of(nodes),
            places: vec![EntryAddress::default(); nodes.len()],
            numbers: vec![NodeId::NONE; nodes.len()],
            lost_found: None,
            quota_files: Default::default(),
            quota_inodes: [NodeId::NONE; 3],
            next_nid: NodeId::ROOT.0,
            logs: [0; Log::COUNT],
        };
        plan.add_all()?;
        plan.count_quotas();
        plan.count_logs();
        Ok(plan)
    }

    /// Adds the path of a tree's node to an error.
    pub fn at(&self, index: usize, error: FsError) -> FsError {
        at(self.tree.nodes(), index, error)
    }

    /// All node and data blocks.
    pub fn valid_blocks(&self) -> u64 {
        self.logs.iter().sum()
    }

    fn add_all(&mut self) -> Result<()> {
        let nodes = self.tree.nodes();
        let links = source::link_counts(nodes);
        let features = self.options.features;
        let has_lost_found = features.has(Features::LOST_FOUND)
            && !self.children.get(0).iter().any(|&child| nodes.get(child).is_some_and(|node| node.name == LOST_FOUND));
        for index in 0..nodes.len() {
            self.add_node(index, &links, has_lost_found).map_err(|error| at(nodes, index, error))?;
            if index > 0 {
                continue;
            }
            // Internal inodes follow the root and its nodes (f2fs-mkfs.md, "What is written").
            let wanted = [Features::QUOTA_INODES, Features::QUOTA_INODES, Features::PROJECT_QUOTA];
            for (kind, feature) in QuotaKind::ALL.into_iter().zip(wanted) {
                if features.has(feature) {
                    let planned = self.quota(kind);
                    let inode = self.add(planned);
                    if let Some(place) = self.quota_inodes.get_mut(kind as usize) {
                        *place = inode;
                    }
                }
            }
            if has_lost_found {
                let number = self.add(Self::lost_found(self.runs.len()));
                self.runs.push(0..1);
                if let Some((_, lost_found)) = &mut self.lost_found {
                    *lost_found = number;
                }
            }
        }
        Ok(())
    }

    /// Numbers an inode and its nodes.
    fn add(&mut self, mut inode: PlannedInode) -> NodeId {
        inode.ino = NodeId(self.next_nid);
        let nodes = 1 + u64::from(inode.has_xattr_node) + inode.count.direct + inode.count.indirect;
        // No volume has that many nodes: the sum is compared with its nids before anything is
        // written.
        self.next_nid = self.next_nid.saturating_add(u32::try_from(nodes).unwrap_or(u32::MAX));
        self.inodes.push(inode);
        NodeId(self.inodes.last().map_or(0, |inode| inode.ino.0))
    }

    fn add_node(&mut self, index: usize, links: &[u32], has_lost_found: bool) -> Result<()> {
        let nodes = self.tree.nodes();
        let Some(node) = nodes.get(index) else { return Ok(()) };
        if node.name.len() > NAME_MAX {
            let detail = format!("a name of {} bytes; F2FS holds up to {NAME_MAX}", node.name.len());
            return Err(FsError::new(ErrorKind::NameTooLong, detail));
        }
        if let Some(first) = node.hard_link_of {
            let number = self.numbers.get(first).copied().unwrap_or(NodeId::NONE);
            if let Some(to) = self.numbers.get_mut(index) {
                *to = number;
            }
            return Ok(());
        }
        let is_root = index == 0;
        let features = self.options.features;
        let area = xattr::area(&node.xattrs, xattr::room(DEFAULT_XATTR_WORDS, BLOCK_SIZE))?;
        let mut inode = PlannedInode {
            origin: Origin::Tree(index),
            ino: NodeId::NONE,
            links: links.get(index).copied().unwrap_or(1) + u32::from(is_root && has_lost_found),
            // Linux reserves attribute words in each new inode; mkfs.f2fs makes its root without.
            inline: if is_root && area.is_empty() { 0 } else { inline::XATTR },
            advise: 0,
            body: Body::Nothing,
            has_xattr_node: area.len() > usize::from(DEFAULT_XATTR_WORDS) * 4,
            depth: 0,
            runs: self.runs.len()..self.runs.len(),
            count: NodeCount::default(),
            data_log: Log::WarmData,
        };
        if inode.links > 1 && node.kind != FileKind::Directory {
            // Which of its names the inode records is only a hint (namei.c, `f2fs_link`).
            inode.advise |= advise::LOST_PARENT;
        }
        match node.kind {
            FileKind::Directory => self.plan_directory(index, &mut inode, has_lost_found)?,
            FileKind::Regular => self.plan_file(index, node, &mut inode)?,
            FileKind::Symlink => self.plan_link(node, &mut inode)?,
            FileKind::BlockDevice | FileKind::CharacterDevice => {
                check_device(node.device)?;
                inode.body = Body::Device;
            }
            FileKind::Fifo | FileKind::Socket => {}
        }
        inode.runs.end = self.runs.len();
        let runs = self.runs.get(inode.runs.clone()).unwrap_or(&[]);
        inode.count = count(runs, inode.address_words(features).into(), PER_NODE);
        let number = self.add(inode);
        if let Some(to) = self.numbers.get_mut(index) {
            *to = number;
        }
        Ok(())
    }

    /// Inline capacity, in bytes, of an inode with these flags.
    fn inline_bytes(&self, inode: &PlannedInode, more: u8) -> usize {
        let inode = PlannedInode { inline: inode.inline | more, ..inode.clone() };
        usize::from(inode.address_words(self.options.features) - 1) * 4
    }

    fn plan_file(&mut self, index: usize, node: &SourceNode, inode: &mut PlannedInode) -> Result<()> {
        if node.size > FILE_SIZE_MAX {
            let detail = format!("{} bytes; F2FS holds files of up to {FILE_SIZE_MAX}", node.size);
            return Err(FsError::new(ErrorKind::FileTooBig, detail));
        }
        let (cold, hot) = self.options.extensions();
        if cold.iter().any(|extension| temperature::has_extension(&node.name, extension)) {
            (inode.advise, inode.data_log) = (inode.advise | advise::COLD, Log::ColdData);
        } else if hot.iter().any(|extension| temperature::has_extension(&node.name, extension)) {
            (inode.advise, inode.data_log) = (inode.advise | advise::HOT, Log::HotData);
        }
        if node.size <= self.inline_bytes(inode, 0) as u64 {
            inode.inline |= inline::DATA;
            if node.size > 0 {
                (inode.inline, inode.body) = (inode.inline | inline::DATA_EXISTS, Body::Inline);
            }
            return Ok(());
        }
        inode.body = Body::Pages;
        let size = node.size;
        let mut offset = 0;
        while offset < size {
            let found = source::to_read(self.tree.data_after(index, offset), offset..size);
            if found.is_empty() {
                break;
            }
            let block = BLOCK_SIZE as u64;
            let (start, end) = ((found.start / block) as u32, found.end.div_ceil(block) as u32);
            self.add_run(inode, start..end);
            offset = found.end.max(offset + 1);
        }
        Ok(())
    }

    fn plan_link(&mut self, node: &SourceNode, inode: &mut PlannedInode) -> Result<()> {
        if node.target.is_empty() || node.target.len() > TARGET_MAX {
            let detail = format!("a symlink target of {} bytes; F2FS holds 1 to {TARGET_MAX}", node.target.len());
            return Err(FsError::new(ErrorKind::NameTooLong, detail));
        }
        if node.target.len() <= self.inline_bytes(inode, 0) {
            (inode.inline, inode.body) = (inode.inline | inline::DATA | inline::DATA_EXISTS, Body::Inline);
        } else {
            inode.body = Body::Pages;
            self.runs.push(0..1);
        }
        Ok(())
    }

    fn plan_directory(&mut self, index: usize, inode: &mut PlannedInode, has_lost_found: bool) -> Result<()> {
        let nodes = self.tree.nodes();
        let children = self.children.get(index).iter().filter_map(|&child| Some((child, nodes.get(child)?)));
        (inode.depth, inode.data_log) = (1, Log::HotData);
        let used = 2 + children.clone().map(|(_, child)| slots_of(child.name.len())).sum::<usize>();
        // The root always has a block, as in mkfs.f2fs.
        if index > 0 && used <= DentryRoom::of(self.inline_bytes(inode, inline::DENTRY)).slots {
            (inode.inline, inode.body) = (inode.inline | inline::DENTRY, Body::InlineEntries);
            let mut slot = 2;
            for (child, node) in children {
                if let Some(place) = self.places.get_mut(child) {
                    *place = EntryAddress { page: 0, slot };
                }
                slot += slots_of(node.name.len()) as u16;
            }
            return Ok(());
        }
        let mut names = NamePlaces::new()?;
        if index == 0 && has_lost_found {
            let place = names.put(hash(LOST_FOUND), slots_of(LOST_FOUND.len()) as u32)?;
            self.lost_found = Some((place, NodeId::NONE));
        }
        for (child, node) in children {
            let found = names.put(hash(&node.name), slots_of(node.name.len()) as u32)?;
            if let Some(place) = self.places.get_mut(child) {
                *place = found;
            }
        }
        (inode.body, inode.depth) = (Body::Pages, names.depth());
        for page in names.pages() {
            self.add_run(inode, page..page + 1);
        }
        Ok(())
    }

    /// Adds pages of the inode being planned; adjacent runs merge.
    fn add_run(&mut self, inode: &PlannedInode, run: Range<u32>) {
        match self.runs.get_mut(inode.runs.start..).and_then(<[_]>::last_mut).filter(|last| last.end >= run.start) {
            Some(last) => last.end = last.end.max(run.end),
            None => self.runs.push(run),
        }
    }

    /// The IDs for each kind of quota; all projects are 0.
    fn quota_ids(&self) -> [Usages; 3] {
        let mut usages: [Usages; 3] = Default::default();
        let own = self.lost_found.map(|_| LOST_FOUND_OWNER);
        let owners = self.tree.nodes().iter().map(|node| (node.uid, node.gid)).chain(own);
        for (uid, gid) in owners {
            for (usages, id) in usages.iter_mut().zip([uid, gid, 0]) {
                usages.entry(id).or_default();
            }
        }
        usages
    }

    fn quota(&mut self, kind: QuotaKind) -> PlannedInode {
        let usages = self.quota_ids();
        let bytes = usages.get(kind.index()).map_or(0, |usages| file::of_usages(kind, usages).len());
        let pages = bytes.div_ceil(BLOCK_SIZE) as u32;
        self.runs.push(0..pages);
        let runs = self.runs.len() - 1..self.runs.len();
        let words = address_words(BLOCK_SIZE, self.options.features, 0, 0);
        PlannedInode {
            origin: Origin::Quota(kind.index()),
            links: 1,
            depth: 0,
            count: count(std::slice::from_ref(&(0..pages)), words.into(), PER_NODE),
            runs,
            ..Self::lost_found(0)
        }
    }

    /// Computes the content of the quota files. Quota files themselves do not count, nor do the
    /// inode blocks of other inodes.
    fn count_quotas(&mut self) {
        let mut usages = self.quota_ids();
        for inode in &self.inodes {
            let (uid, gid) = match inode.origin {
                Origin::Quota(_) => continue,
                Origin::LostFound => LOST_FOUND_OWNER,
                Origin::Tree(index) => self.tree.nodes().get(index).map_or((0, 0), |node| (node.uid, node.gid)),
            };
            for (usages, id) in usages.iter_mut().zip([uid, gid, 0]) {
                let usage = usages.entry(id).or_default();
                *usage =
                    Usage { inodes: usage.inodes + 1, bytes: usage.bytes + (inode.blocks() - 1) * BLOCK_SIZE as u64 };
            }
        }
        for ((kind, file), usages) in QuotaKind::ALL.into_iter().zip(&mut self.quota_files).zip(&usages) {
            *file = file::of_usages(kind, usages);
        }
    }

    fn count_logs(&mut self) {
        let features = self.options.features;
        for inode in &self.inodes {
            let count = inode.count;
            let own = 1 + u64::from(inode.has_xattr_node) + count.direct;
            let parts = [
                (inode.node_log(self.tree.nodes()), own),
                (Log::ColdNode, count.indirect),
                (inode.data_log, count.pages),
            ];
            for (log, blocks) in parts {
                if let Some(sum) = self.logs.get_mut(shared(log, features).index()) {
                    *sum += blocks;
                }
            }
        }
    }

    fn lost_found(runs: usize) -> PlannedInode {
        PlannedInode {
            origin: Origin::LostFound,
            ino: NodeId::NONE,
            links: 2,
            inline: 0,
            advise: 0,
            body: Body::Pages,
            has_xattr_node: false,
            depth: 1,
            runs: runs..runs + 1,
            count: NodeCount { pages: 1, ..NodeCount::default() },
            data_log: Log::HotData,
        }
    }
}
