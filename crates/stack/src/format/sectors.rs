//! The data bytes of a dump as sectors, for file systems on block devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result};
use nandkit_flash::{ErrorKind as FlashErrorKind, Flash, FlashError, PageProgram};
use nandkit_flash_image::{DumpFlash, ImageError, ImageLayout};
use nandkit_units::{BlockIndex, Context, Done, Lba, Payload, ReadInto};

/// Sector size in bytes: the smallest one, through which volumes with larger sectors can be read
/// too.
pub(crate) const SECTOR_SIZE: u32 = 512;
/// Largest amount of changes held between two flushes, in bytes. Extra flushes are safe for a file
/// system that orders its writes.
const HELD_MAX: u64 = 64 << 20;

/// The sectors of a dump without OOB or of a part of it. Changes stay in memory until a flush
/// writes them to the file, all or none. Bytes after the last whole sector are not accessible.
pub(crate) struct DumpSectors {
    dump: DumpFlash,
    geometry: BlockGeometry,
    /// Amount of changes at which an automatic flush is due, in bytes.
    flush_at: u64,
    /// While this is set, flushes do not write the file: repairs of a mount wait for the first
    /// change.
    held: Arc<AtomicBool>,
}

impl DumpSectors {
    /// The layout of a part of an image as sectors.
    pub(crate) fn layout(offset: u64, size: Option<u64>) -> std::result::Result<ImageLayout, ImageError> {
        ImageLayout::nor(SECTOR_SIZE).region(offset, size)
    }

    /// The layout for a volume with blocks of 4 KiB or more in an image of `file_bytes`. Beyond 2
    /// TiB sectors have the size of the blocks, since a layout cannot count more of them.
    pub(crate) fn layout_of_blocks(
        file_bytes: u64,
        offset: u64,
        size: Option<u64>,
    ) -> std::result::Result<ImageLayout, ImageError> {
        let left = file_bytes.saturating_sub(offset);
        let sectors = size.map_or(left, |size| size.min(left)) / u64::from(SECTOR_SIZE);
        let sector_size = if u32::try_from(sectors).is_ok() { SECTOR_SIZE } else { 4096 };
        ImageLayout::nor(sector_size).region(offset, size)
    }

    /// `dump` has the layout of [`DumpSectors::layout`] or of [`DumpSectors::layout_of_blocks`].
    pub(crate) fn new(dump: DumpFlash) -> Self {
        let layout = dump.layout();
        let left = dump.info().file_bytes.saturating_sub(layout.offset);
        let bytes = layout.size.map_or(left, |size| size.min(left));
        let sector_size = layout.block_size;
        let sectors = bytes / u64::from(sector_size);
        let geometry = BlockGeometry { sector_size, sectors, preferred_size: 4096, recycling_size: 0 };
        Self { dump, geometry, flush_at: HELD_MAX, held: Arc::default() }
    }

    /// The dump.
    pub(crate) fn into_dump(self) -> DumpFlash {
        self.dump
    }

    /// Holds changes back until the returned flag becomes false.
    pub(crate) fn hold(&mut self) -> Arc<AtomicBool> {
        self.held.store(true, Ordering::Release);
        Arc::clone(&self.held)
    }
}

impl BlockDevice for DumpSectors {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        if !self.geometry.holds(at, into.len()) {
            let detail = format!("{} bytes are not whole sectors inside the image", into.len());
            return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Read, at, detail));
        }
        let bytes = match into {
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Content { content, length } => content.set_bytes(length as usize),
            ReadInto::Nothing { .. } => return Ok(Done::immediately(context)),
        };
        self.dump.read_data(at.0 * u64::from(self.geometry.sector_size), bytes).map_err(|error| {
            BlockError::new(ErrorKind::Io, Operation::Read, at, "the image's file cannot be read").caused_by(error)
        })?;
        Ok(Done::immediately(context))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        if !self.geometry.holds(at, data.len()) {
            let detail = format!("{} bytes are not whole sectors inside the image", data.len());
            return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Write, at, detail));
        }
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        for (sector, lba) in bytes.chunks(self.geometry.sector_size as usize).zip(at.0..) {
            let failed = |error: FlashError| {
                let kind = if error.kind == FlashErrorKind::ReadOnly { ErrorKind::ReadOnly } else { ErrorKind::Io };
                BlockError::new(kind, Operation::Write, Lba(lba), "the image takes no change").caused_by(error)
            };
            let block = BlockIndex(u32::try_from(lba).unwrap_or(u32::MAX));
            // A sector is an erase block of this flash, so that it is replaced as a whole.
            self.dump.erase(context, block).map_err(failed)?;
            self.dump.program(context, block.page(0), PageProgram::bytes(0, sector)).map_err(failed)?;
        }
        if self.dump.held_bytes() >= self.flush_at {
            // A failure is reported by the next flush of the file system. Until then a new attempt
            // is made only after more changes.
            let flushed = self.flush(context).is_ok();
            self.flush_at = if flushed { HELD_MAX } else { self.dump.held_bytes().saturating_add(HELD_MAX) };
        }
        Ok(Done::immediately(context))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        if self.held.load(Ordering::Acquire) {
            return Ok(Done::immediately(context));
        }
        self.dump.sync(context).map_err(|error| {
            let detail = "the image's file takes no change";
            BlockError::new(ErrorKind::Io, Operation::Flush, Lba(0), detail).caused_by(error)
        })
    }
}
