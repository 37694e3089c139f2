//! A volume in another shape, over the existing one.

use std::collections::BTreeMap;

use nandkit_units::{Cause, is_zeroed};
use nandkit_vfs::Result;

use crate::blocks::Blocks;
use crate::check::batch;
use crate::encode::put;
use crate::ids::{Block, BlockAddress};
use crate::layout::Geometry;

/// A volume with another shape and some changed blocks. Blocks that the device does not have yet
/// are zeroes.
pub(super) struct Reshaped<'a> {
    /// The existing volume.
    pub inner: &'a dyn Blocks,
    /// The new shape.
    pub geometry: Geometry,
    /// Changed blocks.
    pub blocks: BTreeMap<BlockAddress, Block>,
}

impl Blocks for Reshaped<'_> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        let size = self.geometry.block_size();
        let count = (into.len() / size) as u32;
        let end = BlockAddress(at.0.saturating_add(count));
        let last = BlockAddress(end.0.saturating_sub(1).max(at.0));
        if self.blocks.range(at..end).count() < count as usize {
            if self.holds(at) && self.holds(last) {
                self.inner.read(cause, at, into)?;
            } else {
                for (number, block) in into.chunks_exact_mut(size).enumerate() {
                    match at.checked_add(number as u32).filter(|here| self.holds(*here)) {
                        Some(here) => self.inner.read(cause, here, block)?,
                        None => block.fill(0),
                    }
                }
            }
        }
        for (changed, block) in self.blocks.range(at..end) {
            put(into, (changed.0 - at.0) as usize * size, block);
        }
        Ok(())
    }
}

impl Reshaped<'_> {
    /// Whether the old volume includes the block; the device's content past its end is not the
    /// volume's.
    fn holds(&self, at: BlockAddress) -> bool {
        u64::from(at.0) < self.inner.geometry().main_end() && self.inner.reaches(at)
    }

    /// Stores a block unless the volume holds the same content. Errors: `Corrupt`, `Device`.
    pub fn put_if_other(&mut self, at: BlockAddress, bytes: Vec<u8>) -> Result<()> {
        let before = batch::one(self, Cause::Metadata, at)?;
        if *before != *bytes || !self.holds(at) && !is_zeroed(&bytes) {
            self.blocks.insert(at, bytes.into());
        }
        Ok(())
    }

    /// Zeroes a range of blocks. Errors: `Corrupt`, `Device`.
    pub fn clear(&mut self, range: std::ops::Range<BlockAddress>) -> Result<()> {
        let size = self.geometry.block_size();
        for at in range.start.0..range.end.0 {
            self.put_if_other(BlockAddress(at), vec![0; size])?;
        }
        Ok(())
    }
}
