//! Reads many single blocks in few requests.

use nandkit_units::Cause;
use nandkit_vfs::{FsError, Result};

use crate::blocks::Blocks;
use crate::ids::{Block, BlockAddress};

/// The most blocks per call; all of them are held in memory.
pub const BATCH: usize = 1024;
/// The most blocks per request.
const REQUEST: u32 = 256;
/// A request reads along up to this many unwanted blocks between two wanted ones.
const GAP: u32 = 4;

/// A requested block, or the error that prevented reading it.
pub struct Had<T> {
    pub at: BlockAddress,
    pub tag: T,
    pub block: std::result::Result<Block, FsError>,
}

/// Reads blocks in ascending order, nearby ones in one request; if a request fails, its blocks are
/// read one by one. Each block is returned with its tag.
pub fn read<T>(blocks: &dyn Blocks, cause: Cause, mut wanted: Vec<(BlockAddress, T)>) -> Vec<Had<T>> {
    wanted.sort_by_key(|(at, _)| *at);
    let mut had = Vec::with_capacity(wanted.len());
    let mut buffer = Vec::new();
    let mut wanted = wanted.into_iter().peekable();
    while let Some((first, tag)) = wanted.next() {
        let (mut run, mut last) = (vec![(first, tag)], first);
        while let Some((next, tag)) =
            wanted.next_if(|(next, _)| next.0 - last.0 <= 1 + GAP && next.0 - first.0 < REQUEST)
        {
            last = next;
            run.push((next, tag));
        }
        let size = blocks.geometry().block_size();
        buffer.resize((last.0 - first.0 + 1) as usize * size, 0);
        let whole = blocks.read(cause, first, &mut buffer);
        for (at, tag) in run {
            let start = (at.0 - first.0) as usize * size;
            let part = buffer.get(start..start + size).unwrap_or_default();
            let block = match &whole {
                Ok(()) => Ok(Block::from(part)),
                Err(_) => one(blocks, cause, at),
            };
            had.push(Had { at, tag, block });
        }
    }
    had
}

/// Reads one block.
pub fn one(blocks: &dyn Blocks, cause: Cause, at: BlockAddress) -> Result<Block> {
    let mut block = vec![0; blocks.geometry().block_size()];
    blocks.read(cause, at, &mut block)?;
    Ok(block.into())
}
