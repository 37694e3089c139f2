//! The devices of a volume in images: the chosen part, and further files.

use std::path::{Path, PathBuf};

use nandkit_f2fs::layout::{MAGIC, Superblock};
use nandkit_flash::Look as _;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image};
use nandkit_vfs::{ErrorKind, FsError};

use crate::StackError;
use crate::format::sectors::DumpSectors;
use crate::format::{FormatError, OpenOptions, container, wrong};

/// Block size of nearly every volume, in bytes.
const BLOCK_SIZE: usize = 4096;

/// The devices of a volume: the chosen part of the image, then the files of `devices`.
pub(crate) fn devices(first: DumpFlash, options: &OpenOptions) -> Result<Vec<DumpSectors>, StackError> {
    expect_order(&device_names(&first), &options.devices)?;
    let mut devices = vec![DumpSectors::new(first)];
    for path in &options.devices {
        let how = DumpOptions { resident_max: options.resident_max, ..DumpOptions::read_only() };
        let failed = |error| wrong(path, error);
        let image = Image::open(path, &how).map_err(failed)?;
        let plain = OpenOptions { resident_max: options.resident_max, ..OpenOptions::default() };
        let (image, _) = container::unwrapped(path, image, &plain)?;
        let layout = DumpSectors::layout_of_blocks(image.bytes().len() as u64, 0, None).map_err(failed)?;
        let device = DumpFlash::new(image, layout).map_err(failed)?;
        devices.push(DumpSectors::new(device.into_read_only()));
    }
    Ok(devices)
}

/// Refuses devices in the wrong order, recognised by their names in the superblock: files would get
/// the bytes of others.
fn expect_order(named: &[String], devices: &[PathBuf]) -> Result<(), StackError> {
    for (place, path) in (1..).zip(devices) {
        let is_it = |name: &String| Path::new(name).file_name().is_some_and(|name| Some(name) == path.file_name());
        if named.get(place).is_some_and(|own| !is_it(own))
            && let Some(other) = named.iter().position(is_it)
        {
            let order = named.get(1..).unwrap_or_default().join(", ");
            let detail = format!(
                "the volume lists a device of this name at position {other}, but `devices` has it at position {place}; expected this order: {order}"
            );
            return Err(wrong(path, detail));
        }
    }
    Ok(())
}

/// An error with advice.
pub(crate) fn told(error: &FsError, devices: &[String]) -> FormatError {
    let mut detail = format!("the F2FS volume: {error}");
    if error.kind == ErrorKind::InvalidArgument && !devices.is_empty() {
        let order = devices.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(", ");
        detail += &format!("; expected `devices` with the files of all devices but the first, in this order: {order}");
    }
    FormatError::Told { kind: error.kind, detail }
}

/// The devices listed in the superblock, in order; empty for a volume on one device.
pub(crate) fn device_names(device: &DumpFlash) -> Vec<String> {
    let mut bytes = vec![0; 2 * BLOCK_SIZE];
    device.look_at(0, &mut bytes);
    let copies = [0, BLOCK_SIZE].into_iter();
    let superblock = copies.filter_map(|start| Superblock::of_block(bytes.get(start..)?));
    let superblock = superblock.into_iter().find(|superblock| superblock.magic.get() == MAGIC);
    let names = superblock.iter().flat_map(|superblock| &superblock.devices).map(|device| {
        let end = device.path.iter().position(|byte| *byte == 0).unwrap_or(device.path.len());
        String::from_utf8_lossy(device.path.get(..end).unwrap_or_default()).into_owned()
    });
    names.take_while(|name| !name.is_empty()).collect()
}
