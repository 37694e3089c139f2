//! The block-device contract: sectors that can be read and overwritten at will, with flush, and
//! trim and remap as capabilities.
//!
//! File systems for block devices see [`BlockDevice`] and never know whether a translation layer, a
//! file or memory is behind it.

pub mod card;
pub mod check;
mod error;
mod file;
mod host_link;
mod journalled;
mod medium;
mod parts;
mod ram;
mod ram_slot;
pub mod wrap;

pub use error::{BlockError, ErrorKind, Operation, Result};
pub use file::FileDevice;
pub use host_link::{HostLink, HostLinkCounters, HostLinkSpec};
pub use journalled::JournalledFile;
pub use medium::{Access, Medium};
pub use ram::{RamDevice, ServiceTime};

use nandkit_units::{Content, Context, Done, Lba, Pacing, Payload, ReadInto};

/// The shape of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockGeometry {
    /// Bytes of a sector: the unit of addressing and of atomic writes. A power of two from 512 to
    /// 65,536.
    pub sector_size: u32,
    /// Sectors of the whole device.
    pub sectors: u64,
    /// Bytes of the unit that the device writes without reading first (a flash page); a multiple of
    /// `sector_size`, and a power of two.
    pub preferred_size: u32,
    /// Bytes of the unit that the device recycles (an erase block), on which files and file systems
    /// may be aligned; 0 where there is none.
    pub recycling_size: u64,
}

impl BlockGeometry {
    /// Bytes of the whole device.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.sectors.saturating_mul(self.sector_size as u64)
    }

    /// Whether `bytes` from `at` on are whole sectors inside the device.
    #[inline]
    pub const fn holds(&self, at: Lba, bytes: usize) -> bool {
        let bytes = bytes as u64;
        bytes.is_multiple_of(self.sector_size as u64)
            && at.0 <= self.sectors
            && bytes / self.sector_size as u64 <= self.sectors - at.0
    }
}

/// A block device.
///
/// **Promises of the implementer.** No method panics: an address outside the device or a length
/// that is not whole sectors is [`ErrorKind::OutOfRange`], and nothing has changed. A read returns
/// what the last write to each sector wrote, in the order of the calls; a sector never written, or
/// trimmed, reads as what the device says (zeroes unless stated). After a power cut each sector
/// that was written before the last completed [`BlockDevice::flush`] holds what was written last
/// before it, or something written later; each sector holds a whole old or a whole new version,
/// never a mix. A request of several sectors may be there in part. `completed` is never before
/// `context.issued`. Methods read no clock.
pub trait BlockDevice: Send + Sync {
    /// The shape of the device; never changes. Cost: a field access.
    fn geometry(&self) -> &BlockGeometry;

    /// Reads whole sectors from `at` on; `into`'s length says how many.
    ///
    /// Errors: `OutOfRange`, `Unreadable` (the medium lost a sector: its address is in the error),
    /// `NoContent`, `PowerLost`, `Io`. May run in parallel with other reads. Cost: the device time
    /// of the sectors; whole pages where a sector is part of one.
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done>;

    /// Writes whole sectors from `at` on. When it has completed, reads see the data; only a flush
    /// makes them durable.
    ///
    /// Errors: `OutOfRange`, `Full` (a translation layer has no good block left), `ReadOnly`,
    /// `PowerLost`, `Io`. After an error each sector of the request is old or new. Cost: the device
    /// time of the sectors, and of the recycling that they force; less than a
    /// [`BlockGeometry::preferred_size`] costs a read as well.
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done>;

    /// The same as one [`BlockDevice::read`] of `unit` bytes for each of `into`: one request, of
    /// which each content gets its part in the form in which the device keeps it. Errors, contract
    /// and cost: those of the read; `unit` is whole sectors, or `OutOfRange`. After an error the
    /// contents are of any form.
    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        parts::read(self, context, at, unit, into)
    }

    /// The same as one [`BlockDevice::write`] of all parts one behind the other: one request.
    /// Together they are whole sectors, or `OutOfRange`. A device that keeps descriptions keeps
    /// those of the sectors that lie within a part; one that has nothing of its own for parts joins
    /// them. Errors, contract and cost: those of the write.
    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        parts::write(parts, |data| self.write(context, at, data))
    }

    /// Writes whole sectors that are durable when this has completed, whatever else the device
    /// holds back (FUA). Errors and contract: those of a write and a flush. Cost: at most theirs; a
    /// device that can makes it less.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let written = self.write(context, at, data)?;
        let flushed = self.flush(&Context { issued: written.completed, ..*context })?;
        Ok(written.and(flushed))
    }

    /// Makes every completed write durable. Errors: `PowerLost`, `Full`, `Io`. Cost: what the
    /// device holds back: its buffers, and the map where it keeps one.
    fn flush(&mut self, context: &Context) -> Result<Done>;

    /// How many of the `most` sectors from `at` on are alike, at least one: `holds` without
    /// promises that they read as zeroes; with it promises nothing. `at` to `at + most` lies in the
    /// device, and `most` is not 0; else one extent that holds. Cost: lookups in the map, no device
    /// time.
    fn extent(&self, at: Lba, most: u64) -> Extent {
        let _ = at;
        Extent { sectors: most, holds: true }
    }

    /// Which die holds a sector, where the device tells: consecutive sectors are read at once from
    /// different dies, and one after the other from one. `None`: it does not tell, or nothing on
    /// flash holds the sector (outside the device, too). Cost: a lookup in the map, no device time.
    fn placement(&self, at: Lba) -> Option<Placement> {
        let _ = at;
        None
    }

    /// Says that a write of these sectors will come soon, as who keeps a queue knows: a device may
    /// have its own tables at hand then. Nothing changes, and no simulated time passes.
    #[inline]
    fn expect_write(&mut self, _at: Lba) {}

    /// Telling the device that content is no longer needed, where it listens. Cost: none, as of
    /// [`BlockDevice::remap`].
    fn trim(&mut self) -> Option<&mut dyn Trim> {
        None
    }

    /// What the host tells of its instants and asks of ends, where it matters to the device. Cost:
    /// none.
    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        None
    }

    /// Pointing sectors at others' content without writing, where the device can.
    fn remap(&mut self) -> Option<&mut dyn Remap> {
        None
    }
}

/// Sectors that follow one another and are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub sectors: u64,
    /// Whether they may hold anything but zeroes.
    pub holds: bool,
}

/// Where a sector lies in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The die, from 0 on.
    pub die: u32,
    /// How many dies the device has.
    pub dies: u32,
}

/// Telling the device that content is no longer needed.
pub trait Trim {
    /// The content of `sectors` sectors from `at` on is no longer needed. They then read as zeroes;
    /// after a power cut without a flush between, as zeroes or as before. Errors: `OutOfRange`,
    /// `ReadOnly`, `PowerLost`, `Io`. Cost: the update of the map, in memory or on the medium.
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done>;
}

/// What one command of [`Remap`] may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemapLimits {
    /// Bytes that are remapped together, at addresses that are multiples of it; a multiple of the
    /// sector.
    pub unit: u32,
    /// The most pairs of a [`Remap::share`]; a [`Remap::remap_move`] takes half as many, and at
    /// least one. Never 0.
    pub pairs_max: u32,
}

/// Pointing sectors at others' content without writing (P3).
pub trait Remap {
    /// What a command may be. Never changes. Cost: none.
    fn limits(&self) -> RemapLimits;

    /// The unit that can be remapped, in bytes: addresses and counts are multiples of it. Cost:
    /// none.
    fn unit(&self) -> u32 {
        self.limits().unit
    }

    /// Makes each target read what its source holds; the sources keep theirs. Atomic per command
    /// across a power cut. Errors: `OutOfRange`, `Unmapped` (a source without content), `Overlap`
    /// (an address is a target twice, or target and source), `Full` (the log), `PowerLost`. Cost:
    /// the update of the map; no data are copied.
    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done>;

    /// The same, and the sources lose theirs: they read as trimmed. Errors and cost: those of
    /// [`Remap::share`].
    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done>;
}

macro_rules! forward_block_device {
    ($($owner:ty),*) => {$(
        impl<D: BlockDevice + ?Sized> BlockDevice for $owner {
            #[inline]
            fn geometry(&self) -> &BlockGeometry {
                (**self).geometry()
            }
            #[inline]
            fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
                (**self).read(context, at, into)
            }
            #[inline]
            fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
                (**self).write(context, at, data)
            }
            fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
                (**self).read_parts(context, at, unit, into)
            }
            fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
                (**self).write_parts(context, at, parts)
            }
            fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
                (**self).write_durable(context, at, data)
            }
            #[inline]
            fn flush(&mut self, context: &Context) -> Result<Done> {
                (**self).flush(context)
            }
            fn extent(&self, at: Lba, most: u64) -> Extent {
                (**self).extent(at, most)
            }
            fn placement(&self, at: Lba) -> Option<Placement> {
                (**self).placement(at)
            }
            #[inline]
            fn expect_write(&mut self, at: Lba) {
                (**self).expect_write(at);
            }
            #[inline]
            fn trim(&mut self) -> Option<&mut dyn Trim> {
                (**self).trim()
            }
            #[inline]
            fn pacing(&mut self) -> Option<&mut dyn Pacing> {
                (**self).pacing()
            }
            #[inline]
            fn remap(&mut self) -> Option<&mut dyn Remap> {
                (**self).remap()
            }
        }
    )*};
}

forward_block_device!(Box<D>, &mut D);
