//! Writes inodes, their nodes and their pages into the logs in one pass.

use nandkit_vfs::source::SourceNode;
use nandkit_vfs::{FileKind, FsError, Result, Timestamp};
use zerocopy::FromZeros;

use super::logs::shared;
use super::output::LogWriter;
use super::plan::{BLOCK_SIZE, Body, LOST_FOUND, Origin, PER_NODE, Plan, PlannedInode};
use super::runs::{Indirect, indirect_of};
use crate::directory::hash;
use crate::encode::directory::{put_dots, put_entry};
use crate::encode::inode::{InodeRest, device_words, extra_bytes, inode_block, seal, set_name, set_times};
use crate::encode::node::{
    Direct, FooterFields, direct_offset, double_indirect_offset, double_offset, indirect_offset, put_footer,
};
use crate::encode::{put, xattr};
use crate::ids::{BlockAddress, Log, NodeId};
use crate::layout::inode::{DEFAULT_XATTR_WORDS, Extent, NIDS, checksum_seed, flag};
use crate::layout::node::NodeOffset;
use crate::layout::{InodeHead, NatEntry, SummaryEntry};

/// The version in node footers written before the first checkpoint (f2fs-mkfs.md, "What is
/// written").
const FOOTER_VERSION: u64 = 1;
/// Mode of quota files and of `lost+found`.
const QUOTA_MODE: u16 = 0o100_600;
const LOST_FOUND_MODE: u16 = 0o040_700;

/// Fills the logs.
pub struct Filler<'a, 'b> {
    plan: &'b Plan<'b>,
    writer: LogWriter<'a>,
    /// NAT entries by nid.
    nat: Vec<NatEntry>,
    seed: u32,
    done: u64,
    progress: &'b dyn Fn(u64),
}

/// The state of one file's tree while it is written.
struct Tree {
    ino: NodeId,
    is_directory: bool,
    next_nid: u32,
    words: Vec<u32>,
    nids: [NodeId; NIDS],
    direct: Option<OpenNode>,
    indirect: Option<(Indirect, OpenNode)>,
    double: Option<OpenNode>,
    extent: Extent,
    run: Extent,
}

/// A node being filled.
struct OpenNode {
    nid: NodeId,
    number: u32,
    offset: NodeOffset,
    words: Vec<u32>,
}

impl OpenNode {
    fn new(nid: NodeId, number: u32, offset: NodeOffset) -> Self {
        Self { nid, number, offset, words: vec![0; PER_NODE as usize] }
    }
}

impl Tree {
    fn nid(&mut self) -> NodeId {
        let nid = NodeId(self.next_nid);
        self.next_nid += 1;
        nid
    }

    /// Notes the address of a page and tracks the longest run.
    fn note(&mut self, page: u32, address: BlockAddress) {
        let (start, length) = (self.run.address.get(), self.run.length.get());
        let goes_on = length > 0 && self.run.page.get() + length == page && start + length == address.0;
        self.run = match goes_on {
            true => Extent { length: (length + 1).into(), ..self.run },
            false => Extent { page: page.into(), address: address.0.into(), length: 1.into() },
        };
        if self.run.length.get() > self.extent.length.get() {
            self.extent = self.run;
        }
    }
}

impl<'a, 'b> Filler<'a, 'b> {
    /// A filler that has written nothing yet.
    pub fn new(plan: &'b Plan<'b>, writer: LogWriter<'a>, progress: &'b dyn Fn(u64)) -> Self {
        let mut nat = vec![NatEntry::default(); plan.next_nid as usize];
        for nid in [NodeId::NODES, NodeId::META] {
            if let Some(entry) = nat.get_mut(nid.0 as usize) {
                *entry = NatEntry::new(0, nid, BlockAddress(1));
            }
        }
        Self { plan, writer, nat, seed: checksum_seed(&plan.options.uuid), done: 0, progress }
    }

    /// Writes all inodes; returns the NAT entries by nid.
    pub fn run(mut self) -> Result<(Vec<NatEntry>, LogWriter<'a>)> {
        for inode in &self.plan.inodes {
            self.inode(inode).map_err(|error| match inode.origin {
                Origin::Tree(index) => self.plan.at(index, error),
                _ => error,
            })?;
        }
        Ok((self.nat, self.writer))
    }

    fn source(&self, inode: &PlannedInode) -> Option<&'b SourceNode> {
        match inode.origin {
            Origin::Tree(index) => self.plan.tree.nodes().get(index),
            _ => None,
        }
    }

    fn shared(&self, log: Log) -> Log {
        shared(log, self.plan.options.features)
    }

    /// Appends a node, given without its footer, to a log.
    fn node(&mut self, log: Log, tree: (NodeId, bool), nid: NodeId, offset: NodeOffset, block: &[u8]) -> Result<()> {
        let log = self.shared(log);
        let (ino, is_directory) = tree;
        let footer = FooterFields {
            nid,
            ino,
            offset,
            marks: FooterFields::cold(is_directory),
            checkpoint: FOOTER_VERSION,
            next: self.writer.after_next(log),
        };
        let (features, seed) = (self.plan.options.features, self.seed);
        let (at, _) = self.writer.append(log, 1, &mut |_| SummaryEntry::of_node(nid), &mut |bytes| {
            put(bytes, 0, block);
            put_footer(bytes, &footer);
            if offset == NodeOffset::INODE {
                seal(bytes, features, seed);
            }
            Ok(())
        })?;
        if let Some(entry) = self.nat.get_mut(nid.0 as usize) {
            *entry = NatEntry::new(0, ino, at);
        }
        Ok(())
    }

    fn words_node(&mut self, log: Log, tree: (NodeId, bool), node: &OpenNode) -> Result<()> {
        let bytes: Vec<u8> = node.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.node(log, tree, node.nid, node.offset, &bytes)
    }

    fn inode(&mut self, inode: &PlannedInode) -> Result<()> {
        let source = self.source(inode);
        let features = self.plan.options.features;
        let is_directory = match inode.origin {
            Origin::Tree(_) => source.is_some_and(|node| node.kind == FileKind::Directory),
            Origin::LostFound => true,
            // mkfs.f2fs does not set the cold mark in quota files.
            Origin::Quota(_) => true,
        };
        let log = inode.node_log(self.plan.tree.nodes());
        let mut tree = Tree {
            ino: inode.ino,
            is_directory,
            next_nid: inode.ino.0 + 1 + u32::from(inode.has_xattr_node),
            words: Vec::new(),
            nids: [NodeId::NONE; NIDS],
            direct: None,
            indirect: None,
            double: None,
            extent: Extent::default(),
            run: Extent::default(),
        };
        let attributes = match source {
            Some(node) => xattr::area(&node.xattrs, xattr::room(DEFAULT_XATTR_WORDS, BLOCK_SIZE))?,
            None => Vec::new(),
        };
        if inode.has_xattr_node {
            let rest = attributes.get(usize::from(DEFAULT_XATTR_WORDS) * 4..).unwrap_or(&[]);
            let nid = NodeId(inode.ino.0 + 1);
            self.node(log, (inode.ino, is_directory), nid, NodeOffset::XATTR, rest)?;
        }
        let mut content = Vec::new();
        match inode.body {
            Body::Nothing => {}
            Body::Device => {
                let device = source.map_or(0, |node| node.device);
                tree.words = device_words((device >> 32) as u32, device as u32).to_vec();
            }
            Body::Inline => content = self.inline_content(inode, source)?,
            Body::InlineEntries => content = self.inline_entries(inode),
            Body::Pages => self.pages(inode, &mut tree, log)?,
        }
        let head = self.head(inode, source, content.len());
        let rest = InodeRest {
            extra_bytes: extra_bytes(features),
            project_id: 0,
            compression: (0, 0, 0),
            xattr_words: inode.own_xattr_words(),
            created: match inode.origin {
                Origin::Quota(_) => Timestamp(0),
                _ => source.map_or(Timestamp(self.volume_time()), |node| node.modified),
            },
            inline: &content,
            words: &tree.words,
            xattrs: &attributes,
            nids: tree.nids,
            extent: if is_directory { Extent::default() } else { tree.extent },
        };
        let block = inode_block(BLOCK_SIZE, features, &head, &rest);
        self.node(log, (inode.ino, is_directory), inode.ino, NodeOffset::INODE, &block)
    }

    fn volume_time(&self) -> i64 {
        i64::try_from(self.plan.options.time_seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
    }

    fn head(&self, inode: &PlannedInode, source: Option<&SourceNode>, inline_bytes: usize) -> InodeHead {
        let mut head = InodeHead::new_zeroed();
        (head.inline, head.advise) = (inode.inline, inode.advise);
        (head.links, head.blocks) = (inode.links.into(), inode.blocks().into());
        if inode.has_xattr_node {
            head.xattr_nid = (inode.ino.0 + 1).into();
        }
        head.depth = inode.depth.into();
        let pages_end = self.plan.runs.get(inode.runs.clone()).and_then(<[_]>::last).map_or(0, |run| run.end);
        let own_time = Timestamp(self.volume_time());
        match (inode.origin, source) {
            (Origin::Tree(index), Some(node)) => {
                head.mode = (node.kind.mode() as u16 | node.mode & 0o7777).into();
                (head.uid, head.gid) = (node.uid.into(), node.gid.into());
                set_times(&mut head, node.accessed, node.modified, node.changed);
                set_name(&mut head, &node.name);
                if index > 0 {
                    head.parent = self.plan.numbers.get(node.parent).map_or(0, |parent| parent.0).into();
                }
                let is_directory = node.kind == FileKind::Directory;
                if is_directory && index > 0 {
                    head.flags = flag::INDEX.into();
                }
                head.size = match (is_directory, inode.body) {
                    (true, Body::InlineEntries) => inline_bytes as u64,
                    (true, _) => u64::from(pages_end) * BLOCK_SIZE as u64,
                    (false, _) => node.size,
                }
                .into();
            }
            (Origin::Quota(kind), _) => {
                head.mode = QUOTA_MODE.into();
                head.flags = flag::IMMUTABLE.into();
                head.size = self.plan.quota_files.get(kind).map_or(0, |file| file.len() as u64).into();
                set_times(&mut head, own_time, own_time, own_time);
            }
            _ => {
                head.mode = LOST_FOUND_MODE.into();
                head.size = (BLOCK_SIZE as u64).into();
                head.parent = NodeId::ROOT.0.into();
                set_name(&mut head, LOST_FOUND);
                set_times(&mut head, own_time, own_time, own_time);
            }
        }
        head
    }

    fn inline_content(&mut self, inode: &PlannedInode, source: Option<&SourceNode>) -> Result<Vec<u8>> {
        let Some(node) = source else { return Ok(Vec::new()) };
        if node.kind == FileKind::Symlink {
            return Ok(node.target.clone());
        }
        let mut content = vec![0; usize::try_from(node.size).unwrap_or(0)];
        self.read(inode, 0, &mut content)?;
        Ok(content)
    }

    fn read(&mut self, inode: &PlannedInode, offset: u64, into: &mut [u8]) -> Result<()> {
        if let Origin::Tree(index) = inode.origin {
            read_whole(self.plan, index, offset, into)?;
        }
        self.done += into.len() as u64;
        (self.progress)(self.done);
        Ok(())
    }

    fn inline_entries(&self, inode: &PlannedInode) -> Vec<u8> {
        let Origin::Tree(index) = inode.origin else { return Vec::new() };
        let words = inode.address_words(self.plan.options.features);
        let mut area = vec![0; usize::from(words - 1) * 4];
        put_dots(&mut area, inode.ino, self.parent(index));
        for &child in self.plan.children.get(index) {
            put_child(self.plan, &mut area, child);
        }
        area
    }

    fn parent(&self, index: usize) -> NodeId {
        let parent = self.plan.tree.nodes().get(index).map_or(0, |node| node.parent);
        self.plan.numbers.get(parent).copied().unwrap_or(NodeId::ROOT)
    }
}

/// Fills `into` from a file; if the file became shorter, the rest reads as zeroes.
fn read_whole(plan: &Plan<'_>, index: usize, offset: u64, into: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match plan.tree.read(index, offset + filled as u64, rest)? {
            0 => break,
            read => filled += read,
        }
    }
    if let Some(rest) = into.get_mut(filled..) {
        rest.fill(0);
    }
    Ok(())
}

/// Writes pages of files and directories.
impl Filler<'_, '_> {
    fn pages(&mut self, inode: &PlannedInode, tree: &mut Tree, log: Log) -> Result<()> {
        let own = inode.address_words(self.plan.options.features);
        tree.words = vec![0; usize::from(own)];
        let own = u32::from(own);
        let names = self.names_by_page(inode);
        for run in self.plan.runs.get(inode.runs.clone()).unwrap_or(&[]) {
            let mut page = run.start;
            while page < run.end {
                // Up to the end of the node that holds the addresses.
                let number = page.checked_sub(own).map(|page| page / PER_NODE);
                let (base, end) = match number {
                    None => (0, own),
                    Some(number) => {
                        (own + number * PER_NODE, own.saturating_add((number + 1).saturating_mul(PER_NODE)))
                    }
                };
                let holder = match number {
                    None => inode.ino,
                    Some(number) => self.open_direct(tree, number, log)?,
                };
                page += self.some_pages(inode, tree, &names, (page, end.min(run.end)), (holder, base))?;
            }
        }
        self.close_direct(tree, log)?;
        self.close_indirect(tree)?;
        if let Some(double) = tree.double.take() {
            self.words_node(Log::ColdNode, (tree.ino, tree.is_directory), &double)?;
        }
        Ok(())
    }

    /// The tree's nodes whose names are in a directory's pages, sorted by page.
    fn names_by_page(&self, inode: &PlannedInode) -> Vec<(u32, usize)> {
        let Origin::Tree(index) = inode.origin else { return Vec::new() };
        let children = self.plan.children.get(index).iter();
        let mut names: Vec<(u32, usize)> =
            children.map(|&child| (self.plan.places.get(child).map_or(0, |place| place.page), child)).collect();
        names.sort_unstable();
        names
    }

    /// Writes pages starting at `from`, as many as fit together, and notes their addresses; returns
    /// how many.
    fn some_pages(
        &mut self,
        inode: &PlannedInode,
        tree: &mut Tree,
        names: &[(u32, usize)],
        (from, end): (u32, u32),
        (holder, base): (NodeId, u32),
    ) -> Result<u32> {
        let log = self.shared(inode.data_log);
        let index = (from - base) as u16;
        let mut entry = |number: u32| SummaryEntry::of_data(holder, 0, index + number as u16);
        let (plan, mut read) = (self.plan, 0);
        let (numbers, lost_found) = (&plan.numbers, plan.lost_found);
        let nodes = plan.tree.nodes();
        let mut fill = |bytes: &mut [u8]| -> Result<()> {
            match inode.origin {
                Origin::Tree(node) if tree.is_directory => {
                    for (page, block) in (from..).zip(bytes.chunks_mut(BLOCK_SIZE)) {
                        if page == 0 {
                            let parent = nodes.get(node).map_or(0, |node| node.parent);
                            put_dots(block, inode.ino, numbers.get(parent).copied().unwrap_or(inode.ino));
                        }
                        if let Some((place, number)) = lost_found.filter(|(place, _)| node == 0 && place.page == page) {
                            let slot = usize::from(place.slot);
                            put_entry(block, slot, hash(LOST_FOUND), LOST_FOUND, number, FileKind::Directory);
                        }
                        let first = names.partition_point(|(at, _)| *at < page);
                        for (_, child) in names.iter().skip(first).take_while(|(at, _)| *at == page) {
                            put_child(plan, block, *child);
                        }
                    }
                }
                Origin::Tree(node) => match nodes.get(node) {
                    Some(link) if link.kind == FileKind::Symlink => put(bytes, 0, &link.target),
                    Some(file) => {
                        let start = u64::from(from) * BLOCK_SIZE as u64;
                        let length = file.size.saturating_sub(start).min(bytes.len() as u64) as usize;
                        read = length as u64;
                        read_whole(plan, node, start, bytes.get_mut(..length).unwrap_or(&mut []))?;
                    }
                    None => {}
                },
                Origin::Quota(kind) => {
                    let file = plan.quota_files.get(kind).map_or(&[][..], |file| file);
                    put(bytes, 0, file.get(from as usize * BLOCK_SIZE..).unwrap_or(&[]));
                }
                Origin::LostFound => put_dots(bytes, inode.ino, NodeId::ROOT),
            }
            Ok(())
        };
        let (address, count) = self.writer.append(log, end - from, &mut entry, &mut fill)?;
        for number in 0..count {
            let at = BlockAddress(address.0 + number);
            tree.note(from + number, at);
            let words = tree.direct.as_mut().map_or(&mut tree.words, |direct| &mut direct.words);
            if let Some(word) = words.get_mut(usize::from(index) + number as usize) {
                *word = at.0;
            }
        }
        if read > 0 {
            self.done += read;
            (self.progress)(self.done);
        }
        Ok(count)
    }

    /// The direct node with this number; starts it if another one is open.
    fn open_direct(&mut self, tree: &mut Tree, number: u32, log: Log) -> Result<NodeId> {
        if let Some(direct) = tree.direct.as_ref().filter(|direct| direct.number == number) {
            return Ok(direct.nid);
        }
        self.close_direct(tree, log)?;
        let above = indirect_of(number, PER_NODE);
        if tree.indirect.as_ref().map(|(place, _)| *place) != above {
            self.close_indirect(tree)?;
            if let Some(place) = above {
                self.open_indirect(tree, place);
            }
        }
        let nid = tree.nid();
        let offset = direct_offset(number.into(), PER_NODE.into()).ok_or_else(too_big)?;
        match Direct::of(number.into(), PER_NODE.into()).ok_or_else(too_big)? {
            Direct::Inode(slot) => set(&mut tree.nids, slot, nid),
            Direct::Indirect { index, .. } | Direct::Double { index, .. } => {
                if let Some(word) =
                    tree.indirect.as_mut().and_then(|(_, indirect)| indirect.words.get_mut(index as usize))
                {
                    *word = nid.0;
                }
            }
        }
        tree.direct = Some(OpenNode::new(nid, number, offset));
        Ok(nid)
    }

    fn open_indirect(&mut self, tree: &mut Tree, place: Indirect) {
        let per_node = PER_NODE.into();
        let (nid, offset) = match place {
            Indirect::Inode(slot) => {
                let nid = tree.nid();
                set(&mut tree.nids, 2 + slot, nid);
                (nid, indirect_offset(slot, per_node))
            }
            Indirect::Double(slot) => {
                if tree.double.is_none() {
                    let nid = tree.nid();
                    set(&mut tree.nids, 4, nid);
                    tree.double = Some(OpenNode::new(nid, 0, double_offset(per_node)));
                }
                let nid = tree.nid();
                if let Some(word) = tree.double.as_mut().and_then(|double| double.words.get_mut(slot as usize)) {
                    *word = nid.0;
                }
                (nid, double_indirect_offset(slot, per_node))
            }
        };
        tree.indirect = Some((place, OpenNode::new(nid, 0, offset)));
    }

    fn close_direct(&mut self, tree: &mut Tree, log: Log) -> Result<()> {
        match tree.direct.take() {
            Some(direct) => self.words_node(log, (tree.ino, tree.is_directory), &direct),
            None => Ok(()),
        }
    }

    fn close_indirect(&mut self, tree: &mut Tree) -> Result<()> {
        match tree.indirect.take() {
            Some((_, indirect)) => self.words_node(Log::ColdNode, (tree.ino, tree.is_directory), &indirect),
            None => Ok(()),
        }
    }
}

fn put_child(plan: &Plan<'_>, block: &mut [u8], child: usize) {
    let (Some(node), Some(place)) = (plan.tree.nodes().get(child), plan.places.get(child)) else { return };
    let number = plan.numbers.get(child).copied().unwrap_or(NodeId::NONE);
    put_entry(block, usize::from(place.slot), hash(&node.name), &node.name, number, node.kind);
}

fn set(nids: &mut [NodeId; NIDS], slot: u64, nid: NodeId) {
    if let Some(place) = nids.get_mut(slot as usize) {
        *place = nid;
    }
}

fn too_big() -> FsError {
    FsError::new(nandkit_vfs::ErrorKind::FileTooBig, "a page that no node can point to")
}
