//! Pieces of files, compressed by several threads; the result does not depend on their number.

use nandkit_codec::compression::{Compression, Compressor};
use nandkit_vfs::Result;
use nandkit_vfs::source::{Piece, SourceTree, read_piece};
use rayon::prelude::*;

use super::BuildOptions;

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

/// Reads and compresses a batch.
pub(super) fn compress(tree: &dyn SourceTree, batch: &[Piece], options: &BuildOptions) -> Result<Vec<Part>> {
    batch
        .par_iter()
        .with_max_len(8)
        .map_init(Worker::default, |worker, piece| worker.part(tree, piece, options))
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
    fn part(&mut self, tree: &dyn SourceTree, piece: &Piece, options: &BuildOptions) -> Result<Part> {
        let Piece { node, offset: from, .. } = *piece;
        if !read_piece(tree, piece, &mut self.content)? {
            return Ok(Part { node, pages: Vec::new() });
        }
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
