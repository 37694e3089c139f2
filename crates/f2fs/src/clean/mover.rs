//! How the content of live blocks gets to its new place.

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Content, Payload};
use nandkit_vfs::Result;

use crate::device::{Pair, RemapUnits, Submission, WritableBlocks};
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

/// What a device offers to who moves blocks.
pub trait Mover {
    /// Copies blocks, neighbours in few requests; written to the log of cold data. Errors:
    /// `Device`.
    fn copy(&mut self, pairs: &[Pair]) -> Result<()>;

    /// What a remap command may be; `None` where the device cannot remap.
    fn remap_units(&mut self) -> Option<RemapUnits>;

    /// Makes each second block read what the first holds, a unit of blocks each. Returns the pairs
    /// that the device did not take. Errors: `Device`, `NotSupported`.
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

/// How many of the first addresses follow one another.
fn neighbours(mut addresses: impl Iterator<Item = BlockAddress>) -> usize {
    let Some(first) = addresses.next() else { return 0 };
    1 + addresses.zip(first.0 + 1..).take_while(|(at, expected)| at.0 == *expected).count()
}

/// The order and the transfer of a victim's live data blocks. Nodes are never handed to it: each
/// has its log, and its footer changes.
pub trait BlockMover: Send {
    /// Blocks that are moved together where they are a unit of the victim, live throughout: they
    /// get places that lie alike. 1: each block goes its own way.
    fn unit(&mut self, device: &mut dyn Mover) -> u32 {
        let _ = device;
        1
    }

    /// Puts the blocks into the order in which they get new addresses. None may be added or taken
    /// out; who does is not heeded.
    fn arrange(&mut self, live: &mut [LiveBlock]);

    /// Brings content from the first address of each pair to the second. Returns the sources that
    /// the device still maps, since it was not copied what they hold: after the next checkpoint it
    /// is told that they are without use. All others are free from that checkpoint on, as what is
    /// overwritten. Errors: `Device`; the targets are given up then.
    fn transfer(&mut self, device: &mut dyn Mover, pairs: &[Pair]) -> Result<Vec<BlockAddress>>;
}

/// Linux: in the order of addresses, read and written.
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

/// P3: remapped where the device can and whole units lie alike, else copied.
#[derive(Clone, Copy, Debug)]
pub struct RemapMover {
    /// Whether blocks go in the order of files and their pages, and not in that of addresses: what
    /// a victim holds of a file lies together then (P3, step 2).
    pub sorts: bool,
}

impl RemapMover {
    /// P3's six steps.
    pub const fn sorted() -> Self {
        Self { sorts: true }
    }

    /// Without the second, to tell its effect from that of remapping.
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
        shared.retain(|pair| !refused.contains(pair));
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
