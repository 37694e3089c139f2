//! Remapping: commands of as many pairs as the device takes.

use nandkit_block::{BlockDevice, ErrorKind as BlockErrorKind, Placement};
use nandkit_units::{Area, Cause, Context, Done, Nanos, Priority};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::{Submission, WritableBlocks, failed};
use crate::ids::BlockAddress;

/// A block, and the one that is to read the same.
pub type Pair = (BlockAddress, BlockAddress);

/// What a remap command of the volume's device may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapUnits {
    /// Blocks that a pair moves, at addresses that are multiples of it.
    pub blocks: u32,
    /// Pairs of a command at most.
    pub pairs_max: usize,
}

/// Remap commands since the mount, those that the device refused left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemapsSeen {
    /// Commands.
    pub commands: u64,
    /// Their pairs.
    pub pairs: u64,
    /// The time that they had the device to themselves.
    pub time: Nanos,
}

impl<D: BlockDevice> WritableBlocks<D> {
    /// What remap commands may be, where the volume lies on one device that can remap whole
    /// blocks; asked, not found out by an error.
    pub fn remap_units(&mut self) -> Option<RemapUnits> {
        let block_size = self.blocks.geometry.block_size() as u32;
        let [part] = self.blocks.devices.parts.as_mut_slice() else { return None };
        let limits = part.device.remap()?.limits();
        let fits = limits.unit > 0 && limits.unit.is_multiple_of(block_size) && limits.pairs_max > 0;
        fits.then_some(RemapUnits { blocks: limits.unit / block_size, pairs_max: limits.pairs_max as usize })
    }

    /// Commands since the mount.
    pub const fn remaps_seen(&self) -> RemapsSeen {
        self.remaps
    }

    /// Makes each second block read what the first holds, without writing; both are first blocks of
    /// units as [`WritableBlocks::remap_units`] says. What was written before is waited for first.
    /// More pairs than one command takes are several. Errors: `Device` (the log of the device is
    /// full, a source holds nothing; the commands before have happened), `NotSupported`.
    pub fn share(&mut self, cause: Cause, pairs: &[Pair]) -> Result<()> {
        let units = self.expect_remap()?;
        for pairs in pairs.chunks(units.pairs_max) {
            self.command(cause, pairs)?.map_err(failed)?;
        }
        Ok(())
    }

    /// Shares as above, but what the device does not take comes back: its log of remaps is full,
    /// behind which nothing more is tried, or a source holds nothing. Errors: `Device`,
    /// `NotSupported`.
    pub fn share_what_goes(&mut self, cause: Cause, pairs: &[Pair]) -> Result<Vec<Pair>> {
        let units = self.expect_remap()?;
        let (mut refused, mut is_full) = (Vec::new(), false);
        for pairs in pairs.chunks(units.pairs_max) {
            if is_full {
                refused.extend_from_slice(pairs);
                continue;
            }
            match self.command(cause, pairs)? {
                Ok(_) => {}
                Err(error) if matches!(error.kind, BlockErrorKind::Full | BlockErrorKind::Unmapped) => {
                    is_full = error.kind == BlockErrorKind::Full;
                    refused.extend_from_slice(pairs);
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(refused)
    }

    fn expect_remap(&mut self) -> Result<RemapUnits> {
        let units = self.remap_units();
        self.drain();
        units.ok_or_else(|| FsError::new(ErrorKind::NotSupported, "the volume's device cannot remap its blocks"))
    }

    fn command(&mut self, cause: Cause, pairs: &[Pair]) -> Result<nandkit_block::Result<Done>> {
        let what = Submission { cause, log: None, priority: Priority::Normal };
        let mut sectors = Vec::with_capacity(pairs.len());
        for &(from, to) in pairs {
            sectors.push((self.place(from, 1)?.1, self.place(to, 1)?.1));
        }
        self.set_unflushed(0);
        let before = self.busy();
        let done = self.try_submit(
            0,
            |issued| what.context(issued, Area::Main),
            |device: &mut D, context: &Context| match device.remap() {
                Some(remap) => remap.share(context, &sectors),
                None => Ok(Done::immediately(context)),
            },
        )?;
        if done.is_ok() {
            let RemapsSeen { commands, pairs: all, time } = self.remaps;
            let spent = time.0.saturating_add(self.busy().since(before).0);
            self.remaps = RemapsSeen { commands: commands + 1, pairs: all + pairs.len() as u64, time: Nanos(spent) };
        }
        Ok(done)
    }

    /// Which die holds a block, where the device tells.
    pub fn placement(&self, at: BlockAddress) -> Option<Placement> {
        let (number, sector, _) = self.place(at, 1).ok()?;
        self.blocks.devices.parts.get(number)?.device.placement(sector)
    }
}
