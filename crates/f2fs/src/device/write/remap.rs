//! Remap commands, each with as many pairs as the device takes.

use nandkit_block::{BlockDevice, ErrorKind as BlockErrorKind, Placement};
use nandkit_units::{Area, Cause, Context, Done, Nanos, Priority};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::{Submission, WritableBlocks, failed};
use crate::ids::BlockAddress;

/// A source block, and the target block that is to share its content.
pub type Pair = (BlockAddress, BlockAddress);

/// The limits of the device's remap commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapUnits {
    /// Blocks moved per pair; addresses are multiples of it.
    pub blocks: u32,
    /// The most pairs per command.
    pub pairs_max: usize,
}

/// Remap commands since the mount, without those that the device refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemapsSeen {
    /// The number of commands.
    pub commands: u64,
    /// The number of their pairs.
    pub pairs: u64,
    /// The time in which they had the device to themselves.
    pub time: Nanos,
}

impl<D: BlockDevice> WritableBlocks<D> {
    /// The limits of remap commands, if the volume is on a single device that can remap whole
    /// blocks. It asks for the capability instead of trying a command.
    pub fn remap_units(&mut self) -> Option<RemapUnits> {
        let block_size = self.blocks.geometry.block_size() as u32;
        let [part] = self.blocks.devices.parts.as_mut_slice() else { return None };
        let limits = part.device.remap()?.limits();
        let fits = limits.unit > 0 && limits.unit.is_multiple_of(block_size) && limits.pairs_max > 0;
        fits.then_some(RemapUnits { blocks: limits.unit / block_size, pairs_max: limits.pairs_max as usize })
    }

    /// The remap commands since the mount.
    pub const fn remaps_seen(&self) -> RemapsSeen {
        self.remaps
    }

    /// Makes each second block of a pair read the content of the first, without writing. Both are
    /// first blocks of units ([`WritableBlocks::remap_units`]). Waits for earlier writes first, and
    /// splits the pairs into commands. Errors: `Device` (the device's log is full, or a source
    /// holds nothing; earlier commands have taken effect), `NotSupported`.
    pub fn share(&mut self, cause: Cause, pairs: &[Pair]) -> Result<()> {
        let units = self.expect_remap()?;
        for pairs in pairs.chunks(units.pairs_max) {
            self.command(cause, pairs)?.map_err(failed)?;
        }
        Ok(())
    }

    /// Like [`WritableBlocks::share`], but returns the pairs that the device refused: its remap log
    /// is full, after which no more are tried, or a source holds nothing. Errors: `Device`,
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

    /// The die that holds a block, if the device tells.
    pub fn placement(&self, at: BlockAddress) -> Option<Placement> {
        let (number, sector, _) = self.place(at, 1).ok()?;
        self.blocks.devices.parts.get(number)?.device.placement(sector)
    }
}
