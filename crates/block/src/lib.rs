//! The block-device contract: sectors with random reads and writes, flush, and the optional
//! capabilities trim and remap.
//!
//! File systems for block devices use [`BlockDevice`] and need not know whether a translation
//! layer, a file or memory is behind it.

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

/// The geometry of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockGeometry {
    /// Sector size in bytes: the unit of addressing and of atomic writes. A power of two from 512
    /// to 65,536.
    pub sector_size: u32,
    /// Number of sectors.
    pub sectors: u64,
    /// Bytes that the device writes without reading first (a flash page); a power of two and a
    /// multiple of `sector_size`.
    pub preferred_size: u32,
    /// Bytes of the unit that the device recycles (an erase block), to which files and file systems
    /// may be aligned; 0 if there is none.
    pub recycling_size: u64,
}

impl BlockGeometry {
    /// Capacity in bytes.
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
/// **Promises of the implementer.** No method panics: an address outside the device, or a length
/// that is not whole sectors, is [`ErrorKind::OutOfRange`], and nothing has changed. A read returns
/// the last data written to each sector, in call order; a sector that was never written, or was
/// trimmed, reads as the device documents (zeroes unless stated). After a power cut, each sector
/// written before the last completed [`BlockDevice::flush`] holds its last content from before that
/// flush, or something written later; each sector holds a whole old or a whole new version, never a
/// mix. A request of several sectors may be completed in part. `completed` is never before
/// `context.issued`. Methods read no clock.
pub trait BlockDevice: Send + Sync {
    /// The geometry of the device; never changes. Cost: a field access.
    fn geometry(&self) -> &BlockGeometry;

    /// Reads whole sectors from `at` on; the length of `into` determines how many.
    ///
    /// Errors: `OutOfRange`, `Unreadable` (the medium lost a sector: its address is in the error),
    /// `NoContent`, `PowerLost`, `Io`. May run in parallel with other reads. Cost: the device time
    /// of the sectors; whole pages where a sector is part of one.
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done>;

    /// Writes whole sectors from `at` on. After completion, reads return the data; only a flush
    /// makes them durable.
    ///
    /// Errors: `OutOfRange`, `Full` (a translation layer has no good block left), `ReadOnly`,
    /// `PowerLost`, `Io`. After an error, each sector of the request is old or new. Cost: the
    /// device time of the sectors, and of the recycling that they cause; less than a
    /// [`BlockGeometry::preferred_size`] also costs a read.
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done>;

    /// Reads one content of `unit` bytes for each of `into`, as a single request. Each content gets
    /// its part in the form that the device stores. Errors, contract and cost: those of
    /// [`BlockDevice::read`]; `unit` must be whole sectors, else `OutOfRange`. After an error the
    /// contents may have any form.
    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        parts::read(self, context, at, unit, into)
    }

    /// Writes all parts one after another, as a single request. Together they must be whole
    /// sectors, else `OutOfRange`. A device that stores descriptions keeps those of sectors that
    /// lie within one part; a device without special support joins the parts. Errors, contract and
    /// cost: those of [`BlockDevice::write`].
    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        parts::write(parts, |data| self.write(context, at, data))
    }

    /// Writes whole sectors that are durable on completion, whatever else the device buffers (FUA).
    /// Errors and contract: those of a write and a flush. Cost: at most that of both; some devices
    /// need less.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let written = self.write(context, at, data)?;
        let flushed = self.flush(&Context { issued: written.completed, ..*context })?;
        Ok(written.and(flushed))
    }

    /// Makes every completed write durable. Errors: `PowerLost`, `Full`, `Io`. Cost: writing what
    /// the device buffers, and its map if it keeps one.
    fn flush(&mut self, context: &Context) -> Result<Done>;

    /// How many of the `most` sectors from `at` on are alike, at least one. Without `holds` they
    /// are guaranteed to read as zeroes; with it they may hold anything. `at` to `at + most` must
    /// lie inside the device, and `most` must not be 0; otherwise the result is one extent that
    /// holds. Cost: lookups in the map, no device time.
    fn extent(&self, at: Lba, most: u64) -> Extent {
        let _ = at;
        Extent { sectors: most, holds: true }
    }

    /// The die that holds a sector, if the device reports it: consecutive sectors can be read in
    /// parallel from different dies, but only one after another from a single die. `None`: not
    /// reported, or no flash holds the sector (also outside the device). Cost: a lookup in the map,
    /// no device time.
    fn placement(&self, at: Lba) -> Option<Placement> {
        let _ = at;
        None
    }

    /// Announces a write of these sectors, for instance by the owner of a queue, so that the device
    /// can prefetch its tables. Changes nothing, and takes no simulated time.
    #[inline]
    fn expect_write(&mut self, _at: Lba) {}

    /// The trim capability, if the device has it: telling it that content is no longer needed.
    /// Cost: none, as for [`BlockDevice::remap`].
    fn trim(&mut self) -> Option<&mut dyn Trim> {
        None
    }

    /// The pacing capability, if the device has it: it receives host times, and reports moved ends.
    /// Cost: none.
    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        None
    }

    /// The remap capability, if the device has it: sharing content without writing.
    fn remap(&mut self) -> Option<&mut dyn Remap> {
        None
    }
}

/// A run of consecutive sectors that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Sectors in the extent.
    pub sectors: u64,
    /// Whether they may hold anything other than zeroes.
    pub holds: bool,
}

/// The location of a sector in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The die, counted from 0.
    pub die: u32,
    /// The number of dies of the device.
    pub dies: u32,
}

/// Tells the device that content is no longer needed.
pub trait Trim {
    /// Drops the content of `sectors` sectors from `at` on. They then read as zeroes; after a power
    /// cut without an intermediate flush, as zeroes or as before. Errors: `OutOfRange`, `ReadOnly`,
    /// `PowerLost`, `Io`. Cost: the update of the map, in memory or on the medium.
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done>;
}

/// The limits of one [`Remap`] command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemapLimits {
    /// Bytes that are remapped together, at addresses that are multiples of this; itself a multiple
    /// of the sector size.
    pub unit: u32,
    /// Most pairs of a [`Remap::share`]; a [`Remap::remap_move`] takes half as many, and at least
    /// one. Never 0.
    pub pairs_max: u32,
}

/// Makes sectors share others' content without writing (P3).
pub trait Remap {
    /// The limits of a command. Never change. Cost: none.
    fn limits(&self) -> RemapLimits;

    /// The unit of remapping in bytes: addresses and counts are multiples of it. Cost: none.
    fn unit(&self) -> u32 {
        self.limits().unit
    }

    /// Makes each target read the content of its source; the sources keep theirs. Each command is
    /// atomic across a power cut. Errors: `OutOfRange`, `Unmapped` (a source without content),
    /// `Overlap` (an address is a target twice, or both target and source), `Full` (the log),
    /// `PowerLost`. Cost: the update of the map; no data are copied.
    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done>;

    /// Like [`Remap::share`], but the sources lose their content and read as trimmed. Errors and
    /// cost: those of [`Remap::share`].
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
