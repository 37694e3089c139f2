//! Building a volume from a tree: without device or clock, and with the same bytes for the same
//! tree and options.
//!
//! Order on flash: data of files, then inodes and names, a LEB for the collector, the index; then
//! the areas in front of them, whose content follows.

mod content;
mod finish;
mod index;
mod inode;
mod lpt_area;
mod main_area;
mod options;

use nandkit_vfs::path::check_readable;
use nandkit_vfs::source::{self, SourceNode, SourceTree};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

pub use options::BuildOptions;

use crate::encode::{self, EntryOf, device_bytes, entry_bytes, type_of, value_bytes};
use crate::layout::{INLINE_MAX, INODE_COMPRESSED, INODE_XATTR, Key, NAME_MAX, ROOT, XATTR_MODE};
use crate::pack::code_of;
use content::Block;
pub(crate) use finish::{Identity, NewVolume};
use inode::InodeExtra;

/// Where the LEBs of a new volume go.
pub trait LebSink: Send {
    /// Writes a LEB from its beginning; what is missing of it is erased. Each LEB is written once
    /// at most; those that are never written are unmapped. Errors: `Device`.
    fn put(&mut self, leb: u32, bytes: &[u8]) -> Result<()>;
}

/// Statistics of a built volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildReport {
    /// Inodes of every kind, without those of attributes.
    pub inodes: u64,
    /// Names.
    pub names: u64,
    /// Nodes with file data.
    pub data_nodes: u64,
    /// Total size of files in bytes.
    pub content_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// LEBs of the volume.
    pub leb_count: u32,
    /// The most LEBs to which it grows.
    pub leb_count_max: u32,
    /// Bytes per LEB.
    pub leb_size: u32,
}

/// The first inode number behind those that the format reserves.
const FIRST_INODE: u32 = 64;

/// Writes the volume of a tree to `sink`. Calls `progress` with the number of processed file bytes.
///
/// Errors: `InvalidArgument` (an option, or a tree that breaks its promises), `NameTooLong`,
/// `NotSupported` (an attribute or a link that the format cannot hold, with its path), `NoSpace`
/// (the tree does not fit into the most LEBs), and those of the tree and the sink. Cost: the
/// compression on `options.threads` threads; memory: a few batches of 8 MiB of content, and about
/// 40 bytes a block of 4 KiB for the index.
pub fn build(
    tree: &dyn SourceTree,
    options: &BuildOptions,
    sink: &mut dyn LebSink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<BuildReport> {
    options.check()?;
    // Linux takes 8 bytes as the smallest unit of devices that can write single ones.
    let options = &BuildOptions { min_io_size: options.min_io_size.max(8), ..options.clone() };
    source::check(tree.nodes())?;
    check_readable(tree.nodes())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build().map_err(|error| {
        FsError::new(ErrorKind::InvalidArgument, format!("cannot start {} threads: {error}", options.threads))
    })?;
    let mut builder = Builder::new(tree.nodes(), options, sink)?;
    let batches = source::batches(tree.nodes());
    let mut blocks: Vec<Vec<Block>> = Vec::new();
    let mut done = 0;
    for batch in batches.iter().map(Some).chain([None]) {
        // While one batch is written, the next one is compressed.
        let (next, written) = pool.install(|| {
            rayon::join(
                || batch.map_or(Ok(Vec::new()), |batch| content::compress(tree, batch, options)),
                || builder.data(std::mem::take(&mut blocks)),
            )
        });
        written?;
        blocks = next?;
        done += batch.map_or(0, |batch| batch.iter().map(|piece| piece.length).sum());
        progress(done);
    }
    builder.inodes_and_names()?;
    builder.finish()
}

/// The state of the volume under construction.
struct Builder<'a> {
    nodes: &'a [SourceNode],
    options: &'a BuildOptions,
    volume: NewVolume<'a>,
    /// The inode number of each node.
    numbers: Vec<u32>,
    report: BuildReport,
    node: Vec<u8>,
}

impl<'a> Builder<'a> {
    fn new(nodes: &'a [SourceNode], options: &'a BuildOptions, sink: &'a mut dyn LebSink) -> Result<Self> {
        let mut numbers = Vec::with_capacity(nodes.len());
        let mut highest = FIRST_INODE;
        for (index, node) in nodes.iter().enumerate() {
            check_node(nodes, index)?;
            numbers.push(match node.hard_link_of {
                Some(first) => numbers.get(first).copied().unwrap_or(ROOT),
                None if index == 0 => ROOT,
                None => {
                    highest += 1;
                    highest
                }
            });
        }
        let mut volume = NewVolume::new(options, sink);
        volume.highest = highest;
        Ok(Self { nodes, options, volume, numbers, report: BuildReport::default(), node: Vec::new() })
    }

    /// Writes the node that was encoded, which is found by this key.
    fn put(&mut self, key: Key, name: &[u8]) -> Result<()> {
        self.volume.put(key, name, &self.node)?;
        self.node.clear();
        Ok(())
    }

    fn data(&mut self, pieces: Vec<Vec<Block>>) -> Result<()> {
        for block in pieces.into_iter().flatten() {
            let number = self.numbers.get(block.node).copied().unwrap_or(ROOT);
            let too_big = || refused(self.nodes, block.node, ErrorKind::FileTooBig, "the file is too large");
            let key = Key::data(number, block.number).ok_or_else(too_big)?;
            let sequence = self.volume.next_sequence();
            encode::data(key, block.size, block.compression, &block.bytes, sequence, &mut self.node);
            self.put(key, &[])?;
            self.report.data_nodes += 1;
        }
        Ok(())
    }

    fn inodes_and_names(&mut self) -> Result<()> {
        let links = source::link_counts(self.nodes);
        let mut sizes = vec![encode::INODE_SIZE; self.nodes.len()];
        for node in self.nodes.iter().skip(1) {
            if let Some(size) = sizes.get_mut(node.parent) {
                *size += entry_bytes(node.name.len());
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let number = self.numbers.get(index).copied().unwrap_or(ROOT);
            if index > 0 {
                let parent = self.numbers.get(node.parent).copied().unwrap_or(ROOT);
                let file_type = type_of(node.kind);
                let name = &node.name;
                self.entry(&EntryOf { key_hash: 0, parent, name, inode: number, file_type, is_xattr: false })?;
                self.report.names += 1;
            }
            if node.hard_link_of.is_none() {
                let links = links.get(index).copied().unwrap_or(1);
                self.inode(node, number, links, sizes.get(index).copied().unwrap_or(0))?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, of: &EntryOf<'_>) -> Result<()> {
        let sequence = self.volume.next_sequence();
        encode::entry(of, sequence, &mut self.node);
        self.put(of.key(), of.name)
    }

    fn inode(&mut self, node: &SourceNode, number: u32, links: u32, directory_size: u64) -> Result<()> {
        self.report.inodes += 1;
        let xattrs: &[(Vec<u8>, Vec<u8>)] = if self.options.xattrs { &node.xattrs } else { &[] };
        for (name, value) in xattrs {
            self.attribute(node, number, name, value)?;
        }
        let (size, data) = match node.kind {
            FileKind::Regular => (node.size, Vec::new()),
            FileKind::Directory => (directory_size, Vec::new()),
            FileKind::Symlink => (node.target.len() as u64, node.target.clone()),
            FileKind::BlockDevice | FileKind::CharacterDevice => (0, device_bytes(node.device)),
            FileKind::Fifo | FileKind::Socket => (0, Vec::new()),
        };
        if node.kind == FileKind::Regular {
            self.report.content_bytes += size;
        }
        let bytes = |(name, value): &(Vec<u8>, Vec<u8>)| entry_bytes(name.len()) + value_bytes(value.len());
        let compression = code_of(self.options.compression);
        let extra = InodeExtra {
            number,
            sequence: self.volume.next_sequence(),
            size,
            links,
            mode: node.kind.mode() | u32::from(node.mode),
            flags: if compression == 0 { 0 } else { INODE_COMPRESSED },
            xattrs: xattrs.len() as u32,
            xattr_bytes: xattrs.iter().map(bytes).sum::<u64>() as u32,
            xattr_name_bytes: xattrs.iter().map(|(name, _)| name.len() as u32).sum(),
            compression,
        };
        inode::inode(node, &extra, &data, &mut self.node);
        self.put(Key::inode(number), &[])
    }

    /// Writes an attribute: an inode with the value, and an entry that leads from the file to it.
    fn attribute(&mut self, node: &SourceNode, number: u32, name: &[u8], value: &[u8]) -> Result<()> {
        self.volume.highest += 1;
        let value_inode = self.volume.highest;
        self.entry(&EntryOf {
            key_hash: 0,
            parent: number,
            name,
            inode: value_inode,
            file_type: type_of(FileKind::Regular),
            is_xattr: true,
        })?;
        let extra = InodeExtra {
            number: value_inode,
            sequence: self.volume.next_sequence(),
            size: value.len() as u64,
            links: 1,
            mode: XATTR_MODE,
            flags: INODE_XATTR,
            ..InodeExtra::default()
        };
        inode::inode(node, &extra, value, &mut self.node);
        self.put(Key::inode(value_inode), &[])
    }
}

impl Builder<'_> {
    fn finish(self) -> Result<BuildReport> {
        let (index_bytes, leb_count) = self.volume.finish(&Identity::default())?;
        let BuildOptions { leb_count_max, leb_size, .. } = *self.options;
        Ok(BuildReport { index_bytes, leb_count, leb_count_max, leb_size, ..self.report })
    }
}

/// The refusal of a node, with its path.
fn refused(nodes: &[SourceNode], node: usize, kind: ErrorKind, what: &str) -> FsError {
    FsError::new(kind, format!("/{}: {what}", String::from_utf8_lossy(&source::path(nodes, node))))
}

/// Refuses what the format cannot hold.
fn check_node(nodes: &[SourceNode], index: usize) -> Result<()> {
    let Some(node) = nodes.get(index) else { return Ok(()) };
    let too_long = |name: &[u8]| name.len() > NAME_MAX;
    if too_long(&node.name) {
        return Err(refused(nodes, index, ErrorKind::NameTooLong, "a name of more than 255 bytes"));
    }
    if node.target.len() > INLINE_MAX {
        return Err(refused(nodes, index, ErrorKind::NotSupported, "a link to more than 4096 bytes"));
    }
    for (name, value) in &node.xattrs {
        if too_long(name) || value.len() > INLINE_MAX {
            let what = "an attribute with a name of more than 255 bytes, or a value of more than 4096";
            return Err(refused(nodes, index, ErrorKind::NotSupported, what));
        }
    }
    Ok(())
}
