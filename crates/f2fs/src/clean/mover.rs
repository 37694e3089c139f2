//! Moves the content of live blocks.

use std::collections::BTreeSet;

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Content, Payload};
use nandkit_vfs::Result;

use crate::device::{Pair, RemapUnits, Submission, WritableBlocks};
use crate::ids::{BlockAddress, Log, NodeId};
use crate::segments::Summary;

/// The most blocks per request.
const RUN: usize = 256;

/// A live data block of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// Its address.
    pub from: BlockAddress,
    /// The inode that owns the block.
    pub inode: NodeId,
    /// Its page in the file.
    pub page: u32,
    /// Its summary, with the node that points to it.
    pub owner: Summary,
}

/// The device's ways of moving blocks.
pub trait Mover {
    /// Copies blocks, adjacent ones in few requests, as writes to the cold data log. Errors:
    /// `Device`.
    fn copy(&mut self, pairs: &[Pair]) -> Result<()>;

    /// The limits of remap commands; `None` if the device cannot remap.
    fn remap_units(&mut self) -> Option<RemapUnits>;

    /// Remaps each second block of a pair to the content of the first; each pair is one unit of
    /// blocks. Returns the pairs that the device refused. Errors: `Device`, `NotSupported`.
    fn share(&mut self, pairs: &[Pair]) -> Result<Vec<Pair>>;
}

impl<D: BlockDevice> Mover for WritableBlocks<D> {
    fn copy(&mut self, pairs: &[Pair]) -> Result<()> {
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

    fn remap_units(&mut self) -> Option<RemapUnits> {
        WritableBlocks::remap_units(self)
    }

    fn share(&mut self, pairs: &[Pair]) -> Result<Vec<Pair>> {
        self.share_what_goes(Cause::Cleaning, pairs)
    }
}

/// The length of the run of consecutive addresses at the start.
fn neighbours(mut addresses: impl Iterator<Item = BlockAddress>) -> usize {
    let Some(first) = addresses.next() else { return 0 };
    1 + addresses.zip(first.0 + 1..).take_while(|(at, expected)| at.0 == *expected).count()
}

/// Orders and transfers a victim's live data blocks. Nodes are not passed to it: each goes to its
/// own log, and its footer changes.
pub trait BlockMover: Send {
    /// Blocks per unit: a unit of the victim that is live throughout is moved to an equally aligned
    /// address. 1: each block moves on its own.
    fn unit(&mut self, device: &mut dyn Mover) -> u32 {
        let _ = device;
        1
    }

    /// Puts the blocks in the order in which they get new addresses. An order that adds or drops
    /// blocks is ignored.
    fn arrange(&mut self, live: &mut [LiveBlock]);

    /// Moves content from the first address of each pair to the second. Returns the sources that
    /// the device still maps, because they were remapped rather than copied: they are discarded
    /// after the next checkpoint. All sources become free with that checkpoint. Errors: `Device`;
    /// the targets are freed then.
    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[Pair]) -> Result<Vec<BlockAddress>>;
}

/// Linux's mover: reads and writes blocks in address order.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyMover;

impl BlockMover for CopyMover {
    fn arrange(&mut self, live: &mut [LiveBlock]) {
        live.sort_unstable_by_key(|block| block.from);
    }

    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[Pair]) -> Result<Vec<BlockAddress>> {
        device.copy(pairs)?;
        Ok(Vec::new())
    }
}

/// The mover of P3: remaps where the device can and whole units are aligned alike, else copies.
#[derive(Clone, Copy, Debug)]
pub struct RemapMover {
    /// Whether blocks are ordered by file and page instead of by address, so that a victim's blocks
    /// of one file end up adjacent (P3, step 2).
    pub sorts: bool,
}

impl RemapMover {
    /// The mover with all six steps of P3.
    pub const fn sorted() -> Self {
        Self { sorts: true }
    }

    /// The mover without step 2, to separate its effect from that of remapping.
    pub const fn as_they_lie() -> Self {
        Self { sorts: false }
    }
}

impl BlockMover for RemapMover {
    fn unit(&mut self, device: &mut dyn Mover) -> u32 {
        device.remap_units().map_or(1, |units| units.blocks)
    }

    fn arrange(&mut self, live: &mut [LiveBlock]) {
        match self.sorts {
            true => live.sort_unstable_by_key(|block| (block.inode, block.page, block.from)),
            false => live.sort_unstable_by_key(|block| block.from),
        }
    }

    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[Pair]) -> Result<Vec<BlockAddress>> {
        let Some(RemapUnits { blocks: unit, .. }) = device.remap_units() else {
            device.copy(pairs)?;
            return Ok(Vec::new());
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
        let refused = if shared.is_empty() { Vec::new() } else { device.share(&shared)? };
        if !refused.is_empty() {
            let known: BTreeSet<Pair> = refused.iter().copied().collect();
            shared.retain(|pair| !known.contains(pair));
        }
        let blocks_of = |(from, to): Pair| {
            (0..unit).map(move |n| (BlockAddress(from.0.saturating_add(n)), BlockAddress(to.0.saturating_add(n))))
        };
        copied.extend(refused.into_iter().flat_map(blocks_of));
        if !copied.is_empty() {
            device.copy(&copied)?;
        }
        Ok(shared.into_iter().flat_map(blocks_of).map(|(from, _)| from).collect())
    }
}
