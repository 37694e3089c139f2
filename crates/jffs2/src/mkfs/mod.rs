//! Building an image from a tree: without device or clock, and with the same bytes for the same
//! tree and options.

mod attributes;
mod content;
mod options;
mod place;
#[cfg(test)]
mod tests;

use std::io::Write;

use nandkit_codec::compression::{Compression, Compressor};
use nandkit_vfs::path::check_readable;
use nandkit_vfs::source::{self, SourceNode, SourceTree};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

pub use options::{BuildOptions, OobPages};

use crate::Ino;
use crate::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use crate::layout::FILE_SIZE_MAX;
use crate::layout::{INODE_SIZE, MIN_DATA, NAME_MAX, ROOT, compression, padded};
use crate::write::INODE_ENTRY;
use crate::write::attributes::attachment;
use attributes::{Attributes, fields_of};
use content::{Page, Part};
use place::Placer;

/// Statistics of a built image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildReport {
    /// Inodes of every kind.
    pub inodes: u64,
    /// Names.
    pub names: u64,
    /// Nodes with file data.
    pub data_nodes: u64,
    /// Total size of files in bytes.
    pub content_bytes: u64,
    /// Size of the image in bytes, without OOB.
    pub image_bytes: u64,
    /// Bytes of OOB in the image.
    pub oob_bytes: u64,
    /// Blocks with a summary.
    pub summary_blocks: u64,
    /// Unused bytes at the ends of blocks.
    pub lost_bytes: u64,
    /// Times before 1970 or after 2106, which the format cannot hold: they were clamped.
    pub times_clamped: u64,
    /// Size of an erase block in bytes.
    pub erase_size: u32,
}

/// Writes the image of a tree to `sink`. Calls `progress` with the number of processed file bytes.
///
/// Errors: `InvalidArgument` (an option, or a tree that breaks its promises), `NameTooLong` (also
/// for paths that nandkit could not read, see [`check_readable`]), `FileTooBig`, `NotSupported` (an
/// owner or an attribute that the format cannot hold, with its path), `NoSpace` (the image would
/// exceed its limit), and those of the tree and the sink. Cost: the compression on
/// `options.threads` threads; memory: a few batches of 8 MiB of content.
pub fn build(
    tree: &dyn SourceTree,
    options: &BuildOptions,
    sink: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<BuildReport> {
    options.check()?;
    source::check(tree.nodes())?;
    check_readable(tree.nodes())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build().map_err(|error| {
        FsError::new(ErrorKind::InvalidArgument, format!("cannot start {} threads: {error}", options.threads))
    })?;
    let mut builder = Builder::new(tree, options, sink)?;
    let batches = source::batches(tree.nodes());
    let mut parts: Vec<Part> = Vec::new();
    let mut done = 0;
    for batch in batches.iter().map(Some).chain([None]) {
        // While one batch is placed, the next one is compressed.
        let (next, placed) = pool.install(|| {
            rayon::join(
                || batch.map_or(Ok(Vec::new()), |batch| content::compress(tree, batch, options)),
                || builder.place(std::mem::take(&mut parts)),
            )
        });
        done += placed?;
        progress(done);
        parts = next?;
    }
    builder.finish()
}

/// The state of the image under construction.
struct Builder<'a> {
    nodes: &'a [SourceNode],
    options: &'a BuildOptions,
    placer: Placer<'a>,
    attributes: Attributes,
    compressor: Compressor,
    /// The inode number of each node.
    numbers: Vec<Ino>,
    /// The last version used in each inode.
    versions: Vec<u32>,
    /// The next node whose name and attributes will be placed.
    next: usize,
    /// Bytes of the current file that have nodes.
    covered: u32,
    report: BuildReport,
    node: Vec<u8>,
}

impl<'a> Builder<'a> {
    fn new(tree: &'a dyn SourceTree, options: &'a BuildOptions, sink: &'a mut (dyn Write + Send + 'a)) -> Result<Self> {
        let nodes = tree.nodes();
        let mut numbers = Vec::with_capacity(nodes.len());
        let mut last = ROOT.0 - 1;
        for (index, node) in nodes.iter().enumerate() {
            check_node(options, nodes, index)?;
            numbers.push(match node.hard_link_of {
                Some(first) => numbers.get(first).copied().unwrap_or(ROOT),
                None => {
                    last += 1;
                    Ino(last)
                }
            });
        }
        Ok(Self {
            nodes,
            options,
            placer: Placer::new(options, sink),
            attributes: Attributes::default(),
            compressor: Compressor::new(),
            versions: vec![0; nodes.len()],
            numbers,
            next: 0,
            covered: 0,
            report: BuildReport::default(),
            node: Vec::new(),
        })
    }

    fn version(&mut self, node: usize) -> u32 {
        match self.versions.get_mut(node) {
            Some(version) => {
                *version += 1;
                *version
            }
            None => 1,
        }
    }

    /// Places names and attributes of all nodes up to and including `node`.
    fn names_up_to(&mut self, node: usize) -> Result<()> {
        while self.next <= node && self.next < self.nodes.len() {
            let index = self.next;
            self.next += 1;
            self.covered = 0;
            self.name(index)?;
            if self.nodes[index].hard_link_of.is_none() {
                self.inode(index)?;
            }
        }
        Ok(())
    }

    fn name(&mut self, index: usize) -> Result<()> {
        if index == 0 {
            return Ok(());
        }
        let node = &self.nodes[index];
        let fields = DirentFields {
            parent: self.numbers[node.parent],
            version: self.version(node.parent),
            inode: self.numbers[index],
            // The directory's own time: a mount takes it from the newest name
            // (fs/jffs2/readinode.c), and the files in it may be much newer.
            made: attributes::seconds(self.nodes[node.parent].modified),
            kind: node.kind.dirent(),
        };
        self.node.clear();
        dirent_node(self.options.order, &fields, &node.name, &mut self.node);
        self.report.names += 1;
        self.placer.put(&self.node)
    }

    /// Places the inode node of a node without pages: everything except files with content, whose
    /// data nodes hold the attributes.
    fn inode(&mut self, index: usize) -> Result<()> {
        let node = &self.nodes[index];
        self.report.inodes += 1;
        self.report.times_clamped += attributes::clamped(node);
        if node.kind != FileKind::Regular || node.size == 0 {
            let data = attachment(self.options.order, node.kind, &node.target, node.device)?;
            let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let piece = Piece { offset: 0, size, compression: compression::NONE, bytes: &data };
            let file_size = if node.kind == FileKind::Symlink { size } else { 0 };
            let fields = InodeFields { file_size, ..self.fields(index) };
            self.node.clear();
            inode_node(self.options.order, &fields, &piece, &mut self.node);
            self.placer.put(&self.node)?;
        }
        if self.options.xattrs {
            let (order, number) = (self.options.order, self.numbers[index]);
            for (name, value) in &node.xattrs {
                self.attributes
                    .nodes(order, number, name, value, &mut |node| self.placer.put(node))
                    .map_err(|error| at(self.nodes, index, error))?;
            }
        }
        Ok(())
    }

    fn fields(&mut self, index: usize) -> InodeFields {
        let version = self.version(index);
        fields_of(&self.nodes[index], self.numbers[index], version)
    }

    /// Places compressed parts, and all names before them; returns the number of processed file
    /// bytes.
    fn place(&mut self, parts: Vec<Part>) -> Result<u64> {
        let before = self.report.content_bytes;
        for part in parts {
            if part.node >= self.next {
                self.end_of_file()?;
                self.names_up_to(part.node)?;
            }
            for page in &part.pages {
                self.hole_up_to(part.node, page.offset)?;
                self.page(part.node, page)?;
                self.report.content_bytes += page.bytes.len() as u64;
            }
        }
        Ok(self.report.content_bytes - before)
    }

    /// Adds a hole at the end of a file that ends in zeroes: otherwise an all-zero file would have
    /// no node, and would not exist.
    fn end_of_file(&mut self) -> Result<()> {
        let Some(last) = self.next.checked_sub(1) else { return Ok(()) };
        let node = &self.nodes[last];
        if node.kind == FileKind::Regular && node.hard_link_of.is_none() {
            self.hole_up_to(last, u32::try_from(node.size).unwrap_or(u32::MAX))?;
        }
        Ok(())
    }

    fn hole_up_to(&mut self, index: usize, offset: u32) -> Result<()> {
        if self.covered >= offset {
            return Ok(());
        }
        let piece = Piece::hole(self.covered, offset - self.covered);
        let fields = self.fields(index);
        self.data_node(&fields, &piece)?;
        self.covered = offset;
        Ok(())
    }

    fn data_node(&mut self, fields: &InodeFields, piece: &Piece<'_>) -> Result<()> {
        self.node.clear();
        inode_node(self.options.order, fields, piece, &mut self.node);
        self.report.data_nodes += 1;
        self.placer.put(&self.node)
    }

    /// Places a page, split at the ends of blocks.
    fn page(&mut self, index: usize, page: &Page) -> Result<()> {
        let mut packed = page.packed.clone();
        let mut from = 0;
        loop {
            let rest = &page.bytes[from..];
            let offset = page.offset + from as u32;
            let (method, bytes) = match &packed {
                Some((method, bytes)) => (compression::number_of(*method), bytes.as_slice()),
                None => (compression::NONE, rest),
            };
            let whole = INODE_SIZE + bytes.len() as u32;
            let room = self.placer.room(INODE_ENTRY);
            if whole > room && room < padded(INODE_SIZE + MIN_DATA) {
                self.placer.close_block()?;
            }
            let room = self.placer.room(INODE_ENTRY);
            if whole <= room {
                return self.piece(index, offset, rest.len(), method, bytes);
            }
            let method = packed.as_ref().map(|(method, _)| *method);
            from += self.beginning(index, offset, rest, method, (room - INODE_SIZE) as usize)?;
            packed = self.pack(&page.bytes[from..]);
        }
    }

    /// Compresses the rest of a page after a block's end.
    fn pack(&mut self, rest: &[u8]) -> Option<(Compression, Vec<u8>)> {
        let mut packed = vec![0; rest.len()];
        let methods = self.options.compressions.iter().filter(|method| **method != Compression::None);
        let (method, length) = methods
            .filter_map(|method| {
                Some((*method, self.compressor.compress(*method, self.options.level, rest, &mut packed)?))
            })
            .next()?;
        packed.truncate(length);
        Some((method, packed))
    }

    /// Places the longest prefix of `bytes` that fits in `room` bytes of data; returns its length:
    /// at least one byte, but not all.
    fn beginning(
        &mut self,
        index: usize,
        offset: u32,
        bytes: &[u8],
        method: Option<Compression>,
        room: usize,
    ) -> Result<usize> {
        let mut packed = vec![0; room];
        let found = method.and_then(|method| {
            let (consumed, produced) =
                self.compressor.compress_prefix(method, self.options.level, bytes, &mut packed)?;
            (consumed < bytes.len() && consumed > room).then_some((method, consumed, produced))
        });
        let Some((method, consumed, produced)) = found else {
            let consumed = room.min(bytes.len() - 1);
            self.piece(index, offset, consumed, compression::NONE, &bytes[..consumed])?;
            return Ok(consumed);
        };
        self.piece(index, offset, consumed, compression::number_of(method), &packed[..produced])?;
        Ok(consumed)
    }

    fn piece(&mut self, index: usize, offset: u32, size: usize, method: u8, bytes: &[u8]) -> Result<()> {
        let end = offset + size as u32;
        let piece = Piece { offset, size: size as u32, compression: method, bytes };
        let fields = self.fields(index);
        self.covered = end;
        self.data_node(&fields, &piece)
    }

    fn finish(mut self) -> Result<BuildReport> {
        self.end_of_file()?;
        // All-zero files have no pages, so they were not placed yet.
        while self.next < self.nodes.len() {
            self.names_up_to(self.next)?;
            self.end_of_file()?;
        }
        let placed = self.placer.finish()?;
        Ok(BuildReport {
            image_bytes: placed.bytes,
            oob_bytes: placed.oob_bytes,
            summary_blocks: placed.summaries,
            lost_bytes: placed.lost,
            erase_size: self.options.erase_size,
            ..self.report
        })
    }
}

fn at(nodes: &[SourceNode], index: usize, error: FsError) -> FsError {
    let path = String::from_utf8_lossy(&source::path(nodes, index)).into_owned();
    FsError { detail: format!("/{path}: {}", error.detail), ..error }
}

/// Refuses nodes that the format cannot hold.
fn check_node(options: &BuildOptions, nodes: &[SourceNode], index: usize) -> Result<()> {
    let node = &nodes[index];
    let wrong = |kind, text: String| Err(at(nodes, index, FsError::new(kind, text)));
    if node.name.len() > NAME_MAX {
        return wrong(
            ErrorKind::NameTooLong,
            format!("a name of {} bytes; JFFS2 holds up to {NAME_MAX}", node.name.len()),
        );
    }
    if node.size > u64::from(FILE_SIZE_MAX) {
        return wrong(
            ErrorKind::FileTooBig,
            format!("{} bytes; JFFS2 holds files of up to {FILE_SIZE_MAX} bytes", node.size),
        );
    }
    attachment(options.order, node.kind, &node.target, node.device).map_err(|error| at(nodes, index, error))?;
    for (what, number) in [("owner", node.uid), ("group", node.gid)] {
        if number > u32::from(u16::MAX) {
            return wrong(
                ErrorKind::NotSupported,
                format!("the {what} is {number}; JFFS2 holds numbers up to {}", u16::MAX),
            );
        }
    }
    Ok(())
}
