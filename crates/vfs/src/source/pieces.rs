//! The content of a tree's files in pieces, for builders that compress them on several threads.

use super::{SourceNode, SourceTree, to_read};
use crate::{FileKind, Result};

/// A batch ends with the piece that brings it to so many bytes of content: enough for many threads,
/// and little memory.
const BATCH: u64 = 8 << 20;

/// Large files are divided so that they too keep all threads busy; a multiple of every page size.
const PIECE: u64 = 256 << 10;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the node in the tree.
    pub node: usize,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Pieces that are read and compressed together, in the order of the tree.
pub type Batch = Vec<Piece>;

/// Divides the content of a tree's files into batches. Each piece begins at a multiple of 256 KiB.
pub fn batches(nodes: &[SourceNode]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let (mut batch, mut filled) = (Batch::new(), 0);
    for (node, found) in nodes.iter().enumerate() {
        if found.kind != FileKind::Regular || found.hard_link_of.is_some() {
            continue;
        }
        let mut offset = 0;
        while offset < found.size {
            let length = (found.size - offset).min(PIECE);
            batch.push(Piece { node, offset, length });
            offset += length;
            filled += length;
            if filled >= BATCH {
                batches.push(std::mem::take(&mut batch));
                filled = 0;
            }
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// Reads a piece into `content`, which gets its length; returns false, without reading, if all of
/// it is a hole. A file that became shorter while it was read keeps its size: what is missing reads
/// as zeroes. Errors: those of [`SourceTree::read`].
pub fn read_piece(tree: &dyn SourceTree, piece: &Piece, content: &mut Vec<u8>) -> Result<bool> {
    let Piece { node, offset, length } = *piece;
    if to_read(tree.data_after(node, offset), offset..offset.saturating_add(length)).is_empty() {
        return Ok(false);
    }
    content.resize(usize::try_from(length).unwrap_or(0), 0);
    let mut filled = 0;
    while let Some(rest) = content.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match tree.read(node, offset + filled as u64, rest)? {
            0 => break,
            read => filled += read,
        }
    }
    content.iter_mut().skip(filled).for_each(|byte| *byte = 0);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceNode;

    /// Pieces that ended with their batch began within a page, and so did all behind them.
    #[test]
    fn pieces_begin_at_multiples_of_all_page_sizes_and_cover_each_file() {
        let sizes = [1000, 9_000_001, 0, PIECE, 3 * BATCH + 5];
        let nodes = sizes.map(|size| SourceNode { size, ..SourceNode::new(FileKind::Regular, 0o644) });
        let mut covered = [0; 5];
        for piece in batches(&nodes).iter().flatten() {
            assert!(piece.offset.is_multiple_of(PIECE) && piece.offset == covered[piece.node], "{piece:?}");
            covered[piece.node] += piece.length;
        }
        assert_eq!(covered, sizes);
    }
}
