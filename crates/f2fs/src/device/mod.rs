//! The blocks of a volume on its devices. Only this file and `write` call [`BlockDevice`].

mod write;

use nandkit_block::BlockDevice;
use nandkit_units::{Area, Cause, Clock, Context, Lba, Nanos, ReadInto};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::blocks::{Blocks, Piece};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::BlockAddress;
use crate::layout::Geometry;

pub use write::{Atomicity, Pair, RemapUnits, RemapsSeen, SeenRequest, Submission, WritableBlocks};

/// One device and the offset, in bytes of the volume, of its part.
#[derive(Debug)]
struct Part<D> {
    device: D,
    start: u64,
    bytes: u64,
}

/// The devices of a volume, concatenated.
#[derive(Debug)]
pub struct Devices<D> {
    parts: Vec<Part<D>>,
    clock: Clock,
}

impl<D: BlockDevice> Devices<D> {
    /// Takes the devices in the order of the superblock. Until [`Devices::arrange`] only the first
    /// one is read.
    pub fn new(devices: Vec<D>, clock: Clock) -> Result<Self> {
        if devices.is_empty() {
            return Err(FsError::new(ErrorKind::InvalidArgument, "no device; a volume has at least one"));
        }
        let whole = |device: D| Part { start: 0, bytes: device.geometry().capacity(), device };
        Ok(Self { parts: devices.into_iter().map(whole).collect(), clock })
    }

    /// Assigns each device its part of the volume (super.c, `f2fs_scan_devices`). Errors:
    /// `InvalidArgument` (the wrong number of devices).
    pub fn arrange(&mut self, geometry: &Geometry, findings: Defects<'_>) -> Result<()> {
        let expected = geometry.devices.len().max(1);
        if self.parts.len() != expected {
            let detail =
                format!("{} devices; the volume is on {expected}, in the superblock's order", self.parts.len());
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let block = geometry.block_size() as u64;
        let end = geometry.main_end() * block;
        let places: Vec<_> = geometry.device_blocks().collect();
        let last = self.parts.len() - 1;
        for (number, part) in self.parts.iter_mut().enumerate() {
            let place = places.get(number).map_or(0..end, |place| place.start * block..place.end * block);
            let start = place.start;
            part.start = start;
            part.bytes = place.end - start;
            let used = if number == last { end.saturating_sub(start).min(part.bytes) } else { part.bytes };
            let capacity = part.device.geometry().capacity();
            if capacity < used {
                let detail = format!("device {number} has {capacity} bytes; the volume uses {used} of it");
                findings(Defect::new(FindingKind::CutShort, detail));
            }
        }
        Ok(())
    }

    /// Reads bytes from `at` on, across device borders. Errors: `Corrupt` (the devices end before),
    /// `Device`.
    pub fn read(&self, context: Context, at: u64, into: &mut [u8]) -> Result<()> {
        self.read_together(context, &mut [(at, into)])
    }

    /// Submits several reads at once; the clock advances to the completion of the last. Errors:
    /// those of [`Devices::read`].
    pub fn read_together(&self, context: Context, pieces: &mut [(u64, &mut [u8])]) -> Result<()> {
        let context = Context { issued: self.clock.now(), ..context };
        let mut ended = context.issued;
        for (at, into) in pieces {
            ended = ended.max(self.read_parts(context, *at, into)?);
        }
        self.clock.advance_to(ended);
        Ok(())
    }

    /// Reads one piece from every device that holds a part of it. Returns when the last part
    /// completes.
    fn read_parts(&self, context: Context, mut at: u64, mut into: &mut [u8]) -> Result<Nanos> {
        let mut ended = context.issued;
        while !into.is_empty() {
            let part = self.parts.iter().find(|part| at >= part.start && at - part.start < part.bytes);
            let part = part.ok_or_else(|| ends_before(at))?;
            let within = at - part.start;
            let length = usize::try_from(part.bytes - within).unwrap_or(usize::MAX).min(into.len());
            let (now, later) = into.split_at_mut(length);
            ended = ended.max(self.read_part(part, context, within, now)?);
            at += length as u64;
            into = later;
        }
        Ok(ended)
    }

    fn read_part(&self, part: &Part<D>, context: Context, at: u64, into: &mut [u8]) -> Result<Nanos> {
        let geometry = *part.device.geometry();
        let sector = u64::from(geometry.sector_size);
        let end = at + into.len() as u64;
        if end > geometry.capacity() {
            return Err(ends_before(part.start + geometry.capacity()));
        }
        if at.is_multiple_of(sector) && end.is_multiple_of(sector) {
            return self.request(part, context, at / sector, into);
        }
        // Reads may be smaller than a sector, such as a superblock's first kilobyte.
        let first = at / sector;
        let bytes = (end.div_ceil(sector) - first) * sector;
        let mut whole = vec![0; usize::try_from(bytes).unwrap_or(0)];
        let ended = self.request(part, context, first, &mut whole)?;
        let skip = (at - first * sector) as usize;
        match whole.get(skip..skip + into.len()) {
            Some(wanted) => into.copy_from_slice(wanted),
            None => return Err(ends_before(at)),
        }
        Ok(ended)
    }

    fn request(&self, part: &Part<D>, context: Context, sector: u64, into: &mut [u8]) -> Result<Nanos> {
        let done = part.device.read(&context, Lba(sector), ReadInto::Bytes(into));
        done.map(|done| done.completed).map_err(|error| FsError::device(format!("reading sector {sector}"), error))
    }

    /// Whether the devices include the byte; a device may be shorter than its part of the volume.
    pub fn reach(&self, at: u64) -> bool {
        let part = self.parts.iter().find(|part| at >= part.start && at - part.start < part.bytes);
        part.is_some_and(|part| at - part.start < part.device.geometry().capacity())
    }

    /// Gives the devices back.
    pub fn into_inner(self) -> Vec<D> {
        self.parts.into_iter().map(|part| part.device).collect()
    }

    /// The device of a volume that has a single one.
    pub fn only(&self) -> Option<&D> {
        if self.parts.len() == 1 { self.first() } else { None }
    }

    /// The first device.
    pub fn first(&self) -> Option<&D> {
        self.parts.first().map(|part| &part.device)
    }
}

#[cold]
fn ends_before(at: u64) -> FsError {
    FsError::new(
        ErrorKind::Corrupt,
        format!("the volume continues at byte {at}, where its devices end: it was cut short"),
    )
}

/// The blocks of a volume with a known geometry.
#[derive(Debug)]
pub struct DeviceBlocks<D> {
    /// The devices.
    pub devices: Devices<D>,
    /// The volume's geometry.
    pub geometry: Geometry,
}

impl<D> DeviceBlocks<D> {
    fn context(&self, cause: Cause, at: BlockAddress) -> Context {
        let area = if at < self.geometry.main_address() { Area::Metadata } else { Area::Main };
        Context::default().for_cause(cause).in_area(area)
    }

    fn place(&self, at: BlockAddress) -> u64 {
        u64::from(at.0) << self.geometry.log_block_size()
    }
}

impl<D: BlockDevice> Blocks for DeviceBlocks<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        self.devices.read(self.context(cause, at), self.place(at), into)
    }

    fn read_together(&self, cause: Cause, pieces: &mut [Piece<'_>]) -> Result<()> {
        let Some((first, _)) = pieces.first() else { return Ok(()) };
        let context = self.context(cause, *first);
        let mut placed: Vec<_> = pieces.iter_mut().map(|(at, into)| (self.place(*at), &mut **into)).collect();
        self.devices.read_together(context, &mut placed)
    }

    fn reaches(&self, at: BlockAddress) -> bool {
        // Its last byte: devices may end in the middle of a block.
        self.devices.reach(((u64::from(at.0) + 1) << self.geometry.log_block_size()) - 1)
    }
}

#[cfg(test)]
mod tests;
