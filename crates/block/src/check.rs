//! Checks shared by all devices.

use nandkit_units::Lba;

use crate::medium::Access;
use crate::{BlockError, BlockGeometry, ErrorKind, Operation, Result};

/// Checks that `bytes` bytes from `at` on are whole sectors of the device.
#[inline]
pub fn check_range(geometry: &BlockGeometry, operation: Operation, at: Lba, bytes: usize) -> Result<()> {
    if geometry.holds(at, bytes) { Ok(()) } else { Err(out_of_range(geometry, operation, at, bytes)) }
}

#[cold]
fn out_of_range(geometry: &BlockGeometry, operation: Operation, at: Lba, bytes: usize) -> BlockError {
    let BlockGeometry { sectors, sector_size, .. } = geometry;
    let detail =
        format!("{bytes} bytes are not whole sectors inside the device of {sectors} sectors of {sector_size} bytes");
    BlockError::new(ErrorKind::OutOfRange, operation, at, detail)
}

/// Checks that `sectors` sectors from `at` on lie inside the device.
pub fn sectors_of(geometry: &BlockGeometry, operation: Operation, at: Lba, sectors: u64) -> Result<()> {
    if at.0 <= geometry.sectors && sectors <= geometry.sectors - at.0 {
        return Ok(());
    }
    let detail = format!("{sectors} sectors reach past the end of the device of {} sectors", geometry.sectors);
    Err(BlockError::new(ErrorKind::OutOfRange, operation, at, detail))
}

/// Checks that `count` parts of `unit` bytes from `at` on are whole sectors each and lie inside the
/// device; returns their total length in bytes.
pub fn check_unit(geometry: &BlockGeometry, at: Lba, unit: u32, count: usize) -> Result<u32> {
    let total = u64::from(unit).saturating_mul(count as u64);
    match u32::try_from(total) {
        Ok(length) if unit.is_multiple_of(geometry.sector_size) => {
            check_range(geometry, Operation::Read, at, length as usize).map(|()| length)
        }
        _ => {
            let detail = format!(
                "{count} parts of {unit} bytes; expected whole sectors of {} bytes, and less than 4 GiB together",
                geometry.sector_size
            );
            Err(BlockError::new(ErrorKind::OutOfRange, Operation::Read, at, detail))
        }
    }
}

/// Refuses changes of a device opened read-only.
pub fn check_writable(access: Access, operation: Operation, at: Lba) -> Result<()> {
    match access {
        Access::ReadWrite => Ok(()),
        Access::ReadOnly => {
            Err(BlockError::new(ErrorKind::ReadOnly, operation, at, "the file was opened for reading only"))
        }
    }
}

/// The largest device: 1 PiB.
pub const CAPACITY_MAX: u64 = 1 << 50;

/// Describes what is impossible about a geometry; `None` if nothing is.
pub fn geometry_fault(geometry: &BlockGeometry) -> Option<String> {
    let BlockGeometry { sector_size, sectors, preferred_size, .. } = *geometry;
    if !sector_size.is_power_of_two() || !(512..=65_536).contains(&sector_size) {
        return Some(format!("sector_size is {sector_size}, expected a power of two from 512 to 65536"));
    }
    if !preferred_size.is_power_of_two() || preferred_size < sector_size {
        return Some(format!("preferred_size is {preferred_size}, expected a power of two, at least the sector size"));
    }
    match sectors.checked_mul(u64::from(sector_size)) {
        Some(capacity) if capacity <= CAPACITY_MAX => None,
        _ => Some(format!("sectors is {sectors}, expected a capacity of at most 2^50 bytes (1 PiB)")),
    }
}

/// Refuses an impossible geometry.
pub fn check_geometry(geometry: &BlockGeometry) -> Result<()> {
    match geometry_fault(geometry) {
        None => Ok(()),
        Some(detail) => Err(BlockError::new(ErrorKind::OutOfRange, Operation::Open, Lba(0), detail)),
    }
}
