//! How the content of live blocks gets to its new place.

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Content, Payload};
use nandkit_vfs::Result;

use crate::device::{Submission, WritableBlocks};
use crate::ids::{BlockAddress, Log, NodeId};
use crate::segments::Summary;

/// Blocks of a request at most.
const RUN: usize = 256;

/// A live block of data of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// Where it is.
    pub from: BlockAddress,
    /// Whose.
    pub inode: NodeId,
    /// The page of the file.
    pub page: u32,
    /// The node that points to it.
    pub owner: Summary,
}

/// What becomes of the blocks that were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sources {
    /// They are free from the next checkpoint on, as what is overwritten.
    Free,
    /// The device still maps them, and is told after the next checkpoint that they are without use.
    TrimAfterCheckpoint,
}

/// What a device offers to who moves blocks.
pub trait Mover {
    /// Copies blocks, neighbours in few requests; written to the log of cold data. Errors:
    /// `Device`.
    fn copy(&mut self, pairs: &[(BlockAddress, BlockAddress)]) -> Result<()>;

    /// Blocks that are remapped together, at addresses that are multiples of it; `None` where the
    /// device cannot remap.
    fn remap_blocks(&mut self) -> Option<u32>;

    /// Makes each second block read what the first holds, `remap_blocks` of them each. Errors:
    /// `Device`, `NotSupported`.
    fn share(&mut self, pairs: &[(BlockAddress, BlockAddress)]) -> Result<()>;
}

impl<D: BlockDevice> Mover for WritableBlocks<D> {
    fn copy(&mut self, pairs: &[(BlockAddress, BlockAddress)]) -> Result<()> {
        for pairs in pairs.chunks(RUN) {
            let mut contents = vec![Content::new(); pairs.len()];
            let (mut rest, mut into) = (pairs, contents.as_mut_slice());
            while !rest.is_empty() {
                let count = neighbours(rest.iter().map(|pair| pair.0));
                let (now, later) = into.split_at_mut(count);
                if let Some((from, _)) = rest.first() {
                    self.read_contents(Cause::Cleaning, *from, now)?;
                }
                (rest, into) = (rest.get(count..).unwrap_or_default(), later);
            }
            let payloads: Vec<Payload<'_>> = contents.iter().map(Content::payload).collect();
            let (mut rest, mut parts) = (pairs, payloads.as_slice());
            while !rest.is_empty() {
                let count = neighbours(rest.iter().map(|pair| pair.1));
                let (now, later) = parts.split_at(count);
                if let Some((_, to)) = rest.first() {
                    self.write(Submission::of(Cause::Cleaning, Log::ColdData), *to, now)?;
                }
                (rest, parts) = (rest.get(count..).unwrap_or_default(), later);
            }
        }
        Ok(())
    }

    fn remap_blocks(&mut self) -> Option<u32> {
        WritableBlocks::remap_blocks(self)
    }

    fn share(&mut self, pairs: &[(BlockAddress, BlockAddress)]) -> Result<()> {
        WritableBlocks::share(self, Cause::Cleaning, pairs)
    }
}

/// How many of the first addresses follow one another.
fn neighbours(mut addresses: impl Iterator<Item = BlockAddress>) -> usize {
    let Some(first) = addresses.next() else { return 0 };
    1 + addresses.zip(first.0 + 1..).take_while(|(at, expected)| at.0 == *expected).count()
}

/// The order and the transfer of a victim's live data blocks. Nodes are never handed to it: each
/// has its log, and its footer changes.
pub trait BlockMover: Send {
    /// Puts the blocks into the order in which they get new addresses. None may be added or taken
    /// out; who does is not heeded.
    fn arrange(&mut self, live: &mut [LiveBlock]);

    /// Brings content from the first address of each pair to the second. Errors: `Device`; the
    /// targets are given up then.
    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[(BlockAddress, BlockAddress)]) -> Result<Sources>;
}

/// Linux: in the order of addresses, read and written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyMover;

impl BlockMover for CopyMover {
    fn arrange(&mut self, live: &mut [LiveBlock]) {
        live.sort_unstable_by_key(|block| block.from);
    }

    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[(BlockAddress, BlockAddress)]) -> Result<Sources> {
        device.copy(pairs)?;
        Ok(Sources::Free)
    }
}

/// P3: in the order of files and their pages, remapped where the device can and whole units lie
/// alike, else copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemapMover;

impl BlockMover for RemapMover {
    fn arrange(&mut self, live: &mut [LiveBlock]) {
        live.sort_unstable_by_key(|block| (block.inode, block.page, block.from));
    }

    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[(BlockAddress, BlockAddress)]) -> Result<Sources> {
        let Some(unit) = device.remap_blocks() else {
            device.copy(pairs)?;
            return Ok(Sources::Free);
        };
        let (mut shared, mut copied, mut rest) = (Vec::new(), Vec::new(), pairs);
        while let Some(&(from, to)) = rest.first() {
            let whole = unit as usize;
            let aligned = from.0.is_multiple_of(unit) && to.0.is_multiple_of(unit);
            let together = rest.get(..whole).is_some_and(|pairs| {
                let each = pairs.iter().zip(0..);
                aligned && each.into_iter().all(|(pair, n)| pair.0.0 == from.0 + n && pair.1.0 == to.0 + n)
            });
            let count = if together { whole } else { 1 };
            if together {
                shared.push((from, to))
            } else {
                copied.push((from, to))
            }
            rest = rest.get(count..).unwrap_or_default();
        }
        device.copy(&copied)?;
        if shared.is_empty() {
            return Ok(Sources::Free);
        }
        device.share(&shared)?;
        Ok(Sources::TrimAfterCheckpoint)
    }
}
