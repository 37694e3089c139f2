//! Blocks of files, compressed by several threads; the result does not depend on their number.

use nandkit_vfs::Result;
use nandkit_vfs::source::{Piece, SourceTree, read_piece};
use rayon::prelude::*;

use super::BuildOptions;
use crate::layout::BLOCK_SIZE;
use crate::pack::Packer;

/// A block of a file.
pub(super) struct Block {
    /// Index of the node in the tree.
    pub node: usize,
    /// Number of the block in its file.
    pub number: u64,
    /// Bytes before compression.
    pub size: u32,
    /// The compression that was used.
    pub compression: u16,
    /// The bytes on flash.
    pub bytes: Vec<u8>,
}

/// Reads and compresses a batch; holes are left out.
pub(super) fn compress(tree: &dyn SourceTree, batch: &[Piece], options: &BuildOptions) -> Result<Vec<Vec<Block>>> {
    let pieces = batch.par_iter().with_max_len(8);
    pieces.map_init(Worker::default, |worker, piece| worker.blocks(tree, piece, options)).collect()
}

/// A thread's working memory.
#[derive(Default)]
struct Worker {
    packer: Packer,
    content: Vec<u8>,
}

impl Worker {
    fn blocks(&mut self, tree: &dyn SourceTree, piece: &Piece, options: &BuildOptions) -> Result<Vec<Block>> {
        let mut content = std::mem::take(&mut self.content);
        let mut blocks = Vec::new();
        if read_piece(tree, piece, &mut content)? {
            let first = piece.offset / u64::from(BLOCK_SIZE);
            for (number, bytes) in (first..).zip(content.chunks(BLOCK_SIZE as usize)) {
                if nandkit_units::is_zeroed(bytes) {
                    continue;
                }
                let (compression, packed) = self.packer.pack(bytes, options.compression, options.level);
                let (size, bytes) = (bytes.len() as u32, packed.to_vec());
                blocks.push(Block { node: piece.node, number, size, compression, bytes });
            }
        }
        self.content = content;
        Ok(blocks)
    }
}
