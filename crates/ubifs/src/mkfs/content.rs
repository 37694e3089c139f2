//! Blocks of files, compressed by several threads; the result does not depend on their number.

use nandkit_codec::compression::{Compression, Compressor};
use nandkit_vfs::Result;
use nandkit_vfs::source::{Piece, SourceTree, read_piece};
use rayon::prelude::*;

use super::BuildOptions;
use crate::layout::{BLOCK_SIZE, compression};

/// Data of fewer bytes are not compressed (Linux `UBIFS_MIN_COMPR_LEN`).
const COMPRESSED_MIN: usize = 128;
/// What a compression has to spare (Linux `UBIFS_MIN_COMPRESS_DIFF`).
const SPARED_MIN: usize = 64;
/// Bytes of the header and of the checksum of a zlib stream, which UBIFS leaves out.
const ZLIB_FRAME: (usize, usize) = (2, 4);

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
    compressor: Compressor,
    content: Vec<u8>,
    packed: Vec<u8>,
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
                let (compression, packed) = self.pack(bytes, options);
                blocks.push(Block { node: piece.node, number, size: bytes.len() as u32, compression, bytes: packed });
            }
        }
        self.content = content;
        Ok(blocks)
    }

    /// The bytes as they are stored, and how.
    fn pack(&mut self, bytes: &[u8], options: &BuildOptions) -> (u16, Vec<u8>) {
        let plain = || (compression::NONE, bytes.to_vec());
        let (before, behind) = if options.compression == Compression::Zlib { ZLIB_FRAME } else { (0, 0) };
        if options.compression == Compression::None || bytes.len() < COMPRESSED_MIN {
            return plain();
        }
        self.packed.resize(bytes.len(), 0);
        let packed = self.compressor.compress(options.compression, options.level, bytes, &mut self.packed);
        let packed = packed.and_then(|length| self.packed.get(before..length.saturating_sub(behind)));
        match packed.filter(|packed| packed.len() + SPARED_MIN <= bytes.len()) {
            Some(packed) => (code_of(options.compression), packed.to_vec()),
            None => plain(),
        }
    }
}

/// The code of a compression on flash.
pub(super) const fn code_of(method: Compression) -> u16 {
    match method {
        Compression::Lzo => compression::LZO,
        Compression::Zlib => compression::ZLIB,
        Compression::Zstd => compression::ZSTD,
        _ => compression::NONE,
    }
}
