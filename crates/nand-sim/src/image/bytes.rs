//! Byte-granular access to a block device.

use nandkit_block::{BlockDevice, BlockError};
use nandkit_units::{Context, Lba, Payload, ReadInto};

/// Reads `into.len()` bytes from `offset` on.
pub fn read_bytes<D: BlockDevice>(
    device: &D,
    context: &Context,
    offset: u64,
    into: &mut [u8],
) -> Result<(), BlockError> {
    let sector = u64::from(device.geometry().sector_size);
    let first = offset / sector;
    let skip = (offset % sector) as usize;
    let length = (skip + into.len()).next_multiple_of(sector as usize);
    if skip == 0 && length == into.len() {
        device.read(context, Lba(first), ReadInto::Bytes(into))?;
        return Ok(());
    }
    let mut whole = vec![0; length];
    device.read(context, Lba(first), ReadInto::Bytes(&mut whole))?;
    if let Some(part) = whole.get(skip..skip + into.len()) {
        into.copy_from_slice(part);
    }
    Ok(())
}

/// Writes `bytes` at `offset`; partly covered sectors keep the rest of their content.
pub fn write_bytes<D: BlockDevice>(
    device: &mut D,
    context: &Context,
    offset: u64,
    bytes: &[u8],
) -> Result<(), BlockError> {
    let sector = u64::from(device.geometry().sector_size);
    let (first, skip) = (offset / sector, (offset % sector) as usize);
    let length = (skip + bytes.len()).next_multiple_of(sector as usize);
    if skip == 0 && length == bytes.len() {
        device.write(context, Lba(first), Payload::Bytes(bytes))?;
        return Ok(());
    }
    let mut whole = vec![0; length];
    let last = length - sector as usize;
    let (head, tail) = whole.split_at_mut(last);
    if let Some(head) = head.get_mut(..sector as usize) {
        device.read(context, Lba(first), ReadInto::Bytes(head))?;
    }
    device.read(context, Lba(first + last as u64 / sector), ReadInto::Bytes(tail))?;
    if let Some(part) = whole.get_mut(skip..skip + bytes.len()) {
        part.copy_from_slice(bytes);
    }
    device.write(context, Lba(first), Payload::Bytes(&whole))?;
    Ok(())
}
