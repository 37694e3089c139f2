//! Pieces of files, compressed by several threads; the result does not depend on their number.

use nandkit_codec::compression::{Compression, Compressor};
use nandkit_vfs::source::{SourceNode, SourceTree, to_read};
use nandkit_vfs::{FileKind, Result};
use rayon::prelude::*;

use super::BuildOptions;

/// Bytes of content compressed per batch: enough for many threads, and little memory.
pub(super) const BATCH: u64 = 8 << 20;

/// A piece of a file, at most a page.
pub(super) struct Page {
    /// Offset in the file.
    pub offset: u32,
    /// The uncompressed bytes.
    pub bytes: Vec<u8>,
    /// The compressed bytes, if shorter.
    pub packed: Option<(Compression, Vec<u8>)>,
}

/// The content of a file, or a part of it.
pub(super) struct Part {
    /// The index of the node in the tree.
    pub node: usize,
    /// Its pages in order, without all-zero ranges.
    pub pages: Vec<Page>,
}

/// Ranges of files compressed together, in tree order.
pub(super) struct Batch {
    ranges: Vec<(usize, u64, u64)>,
}

/// Divides the content of a tree's files into batches.
pub(super) fn batches(nodes: &[SourceNode]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let (mut ranges, mut filled) = (Vec::new(), 0);
    for (index, node) in nodes.iter().enumerate() {
        if node.kind != FileKind::Regular || node.hard_link_of.is_some() {
            continue;
        }
        let mut from = 0;
        while from < node.size {
            let length = (node.size - from).min(BATCH - filled);
            ranges.push((index, from, length));
            from += length;
            filled += length;
            if filled >= BATCH {
                batches.push(Batch { ranges: std::mem::take(&mut ranges) });
                filled = 0;
            }
        }
    }
    if !ranges.is_empty() {
        batches.push(Batch { ranges });
    }
    batches
}

/// Reads and compresses a batch.
pub(super) fn compress(tree: &dyn SourceTree, batch: &Batch, options: &BuildOptions) -> Result<Vec<Part>> {
    // Large files are divided so that they too keep all threads busy; a multiple of every page
    // size.
    const PIECE: u64 = 256 << 10;
    let pieces: Vec<(usize, u64, u64)> = batch
        .ranges
        .iter()
        .flat_map(|&(node, from, length)| {
            (0..length.div_ceil(PIECE))
                .map(move |piece| (node, from + piece * PIECE, PIECE.min(length - piece * PIECE)))
        })
        .collect();
    pieces
        .into_par_iter()
        .with_max_len(8)
        .map_init(Worker::default, |worker, (node, from, length)| worker.part(tree, node, from, length, options))
        .collect()
}

/// A thread's working memory.
#[derive(Default)]
struct Worker {
    compressor: Compressor,
    content: Vec<u8>,
    packed: Vec<u8>,
    best: Vec<u8>,
}

impl Worker {
    fn part(
        &mut self,
        tree: &dyn SourceTree,
        node: usize,
        from: u64,
        length: u64,
        options: &BuildOptions,
    ) -> Result<Part> {
        if to_read(tree.data_after(node, from), from..from.saturating_add(length)).is_empty() {
            return Ok(Part { node, pages: Vec::new() });
        }
        self.content.resize(usize::try_from(length).unwrap_or(0), 0);
        let mut filled = 0;
        while filled < self.content.len() {
            match tree.read(node, from + filled as u64, &mut self.content[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        // A file that became shorter while it was read keeps its size: the missing part reads as
        // zeroes.
        self.content[filled..].fill(0);
        let mut pages = Vec::new();
        let content = std::mem::take(&mut self.content);
        for (index, bytes) in content.chunks(options.page_size as usize).enumerate() {
            if nandkit_units::is_zeroed(bytes) {
                continue;
            }
            let offset = from + index as u64 * u64::from(options.page_size);
            let packed = self.pack(bytes, options);
            pages.push(Page { offset: u32::try_from(offset).unwrap_or(u32::MAX), bytes: bytes.to_vec(), packed });
        }
        self.content = content;
        Ok(Part { node, pages })
    }

    fn pack(&mut self, bytes: &[u8], options: &BuildOptions) -> Option<(Compression, Vec<u8>)> {
        let mut found: Option<Compression> = None;
        for &method in options.compressions.iter().filter(|method| **method != Compression::None) {
            self.packed.resize(bytes.len(), 0);
            let Some(length) = self.compressor.compress(method, options.level, bytes, &mut self.packed) else {
                continue;
            };
            if found.is_none() || length < self.best.len() {
                self.best.clear();
                self.best.extend_from_slice(&self.packed[..length]);
                found = Some(method);
            }
            if !options.smallest {
                break;
            }
        }
        found.map(|method| (method, self.best.clone()))
    }
}
