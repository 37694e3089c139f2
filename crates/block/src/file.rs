//! A block device that is a plain file, sector by sector.

use std::fs::File;
use std::path::Path;

use nandkit_units::{Context, Done, Lba, Payload, ReadInto};
use rustix::fs::{FallocateFlags, SeekFrom};

use crate::check::{check_geometry, check_range, check_writable, sectors_of};
use crate::medium::{Access, Medium, corrupt, create_locked, io_error, open_locked};
use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Extent, Operation, Result, Trim};

/// Bytes per step of a request that is made in pieces.
const PIECE: usize = 256 << 10;

/// A file or device node as a block device: sector n is at byte n times the sector size. Locked
/// while open. Takes no simulated time.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    geometry: BlockGeometry,
    access: Access,
    /// Length of the file in bytes: its last sector may be partial.
    length: u64,
}

impl FileDevice {
    /// Opens an existing file. Errors: `Io` (no such file, no plain file or block device, no
    /// permission, in use), `Corrupt` (its length is not whole sectors).
    pub fn open(path: &Path, sector_size: u32, access: Access) -> Result<Self> {
        let device = Self::open_padded(path, sector_size, access)?;
        let length = device.length;
        if !length.is_multiple_of(u64::from(sector_size.max(1))) {
            return Err(corrupt(path, format!("{length} bytes are not whole sectors of {sector_size} bytes")));
        }
        Ok(device)
    }

    /// Opens an existing file of any length. The missing part of its last sector reads as zeroes
    /// and accepts only zeroes; the file never grows. Errors: `Io`, as for [`Self::open`].
    pub fn open_padded(path: &Path, sector_size: u32, access: Access) -> Result<Self> {
        let file = open_locked(path, access)?;
        let length = Medium::len(&file).map_err(|error| {
            io_error(Operation::Open, Lba(0), format!("cannot tell the length of {}", path.display()), error)
        })?;
        let unit = u64::from(sector_size.max(1));
        let geometry = BlockGeometry {
            sector_size,
            sectors: length.div_ceil(unit),
            preferred_size: sector_size.max(4096),
            recycling_size: 0,
        };
        check_geometry(&geometry)?;
        Ok(Self { file, geometry, access, length })
    }

    /// Creates a file of zeroes; refuses an existing one.
    pub fn create(path: &Path, geometry: BlockGeometry) -> Result<Self> {
        check_geometry(&geometry)?;
        let file = create_locked(path)?;
        file.set_len(geometry.capacity()).map_err(|error| {
            io_error(Operation::Open, Lba(0), format!("cannot make {} as long", path.display()), error)
        })?;
        Ok(Self { file, geometry, access: Access::ReadWrite, length: geometry.capacity() })
    }

    /// The number of bytes that the file holds of `length` bytes at `offset`.
    fn held(&self, offset: u64, length: u64) -> u64 {
        length.min(self.length.saturating_sub(offset))
    }

    fn offset(&self, at: Lba) -> u64 {
        at.0.saturating_mul(u64::from(self.geometry.sector_size))
    }
}

impl BlockDevice for FileDevice {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Read, at, into.len())?;
        let bytes = match into {
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Content { content, length } => content.set_bytes(length as usize),
            ReadInto::Nothing { .. } => return Ok(Done::immediately(context)),
        };
        let offset = self.offset(at);
        let held = self.held(offset, bytes.len() as u64) as usize;
        let (bytes, padding) = bytes.split_at_mut(held);
        padding.fill(0);
        Medium::read_at(&self.file, offset, bytes)
            .map_err(|error| io_error(Operation::Read, at, "cannot read the file", error))?;
        Ok(Done::immediately(context))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        check_range(&self.geometry, Operation::Write, at, data.len())?;
        check_writable(self.access, Operation::Write, at)?;
        let offset = self.offset(at);
        let made;
        let bytes = match data {
            Payload::Bytes(bytes) => bytes,
            Payload::Described(_) | Payload::Assembled(_) => {
                let mut bytes = vec![0; data.len()];
                data.copy_to(&mut bytes);
                made = bytes;
                &made
            }
        };
        let (bytes, padding) = bytes.split_at(self.held(offset, bytes.len() as u64) as usize);
        if !nandkit_units::is_zeroed(padding) {
            let detail = format!(
                "the file ends after {} bytes of this sector; expected zeroes behind them",
                self.length % u64::from(self.geometry.sector_size)
            );
            return Err(BlockError::new(ErrorKind::OutOfRange, Operation::Write, at, detail));
        }
        Medium::write_at(&mut self.file, offset, bytes)
            .map_err(|error| io_error(Operation::Write, at, "cannot write the file", error))?;
        Ok(Done::immediately(context))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        if self.access == Access::ReadWrite {
            self.file
                .sync_data()
                .map_err(|error| io_error(Operation::Flush, Lba(0), "cannot make the file durable", error))?;
        }
        Ok(Done::immediately(context))
    }

    /// Holes are those of the host's file system (lseek(2)); if it reports none, everything counts
    /// as content.
    fn extent(&self, at: Lba, most: u64) -> Extent {
        let (start, end) = (self.offset(at), self.offset(Lba(at.0.saturating_add(most))));
        let unit = u64::from(self.geometry.sector_size);
        let data = match rustix::fs::seek(&self.file, SeekFrom::Data(start)) {
            Ok(data) => data / unit * unit,
            // Only a hole follows, up to the end.
            Err(rustix::io::Errno::NXIO) => end,
            Err(_) => return Extent { sectors: most, holds: true },
        };
        if data > start {
            return Extent { sectors: (data.min(end) - start) / unit, holds: false };
        }
        let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(start)).unwrap_or(end).next_multiple_of(unit);
        Extent { sectors: ((hole.min(end).saturating_sub(start)) / unit).max(1), holds: true }
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        match self.access {
            Access::ReadWrite => Some(self),
            Access::ReadOnly => None,
        }
    }
}

impl Trim for FileDevice {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        sectors_of(&self.geometry, Operation::Trim, at, sectors)?;
        let offset = self.offset(at);
        let length = self.held(offset, self.offset(Lba(sectors)));
        // Punch a hole if the host supports it; trying costs no more than asking.
        if rustix::fs::fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
            .is_ok()
        {
            return Ok(Done::immediately(context));
        }
        zero(&mut self.file, offset, length)
            .map_err(|error| io_error(Operation::Trim, at, "cannot write zeroes to the file", error))?;
        Ok(Done::immediately(context))
    }
}

/// Makes a range read as zeroes. Skips holes and zeroes, so that a sparse file stays sparse.
pub fn zero<M: Medium + ?Sized>(medium: &mut M, offset: u64, length: u64) -> std::io::Result<()> {
    let zeroes = vec![0; PIECE.min(usize::try_from(length).unwrap_or(PIECE))];
    let mut held = zeroes.clone();
    let mut done = 0;
    while done < length {
        let piece = usize::try_from(length - done).unwrap_or(PIECE).min(PIECE);
        medium.read_at(offset + done, &mut held[..piece])?;
        if !nandkit_units::is_zeroed(&held[..piece]) {
            medium.write_at(offset + done, &zeroes[..piece])?;
        }
        done += piece as u64;
    }
    Ok(())
}
