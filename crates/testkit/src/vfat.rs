//! Checks FAT volumes by programs of other authors: fsck.vfat, and mtools, which reads the whole
//! tree.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_units::{Context, Lba, ReadInto, is_zeroed};

use crate::judges::fsck_vfat;
use crate::listing::{Contents, as_mtools_names, compare_contents, mtools_contents};

/// The programs that check an image in addition to our own checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judges {
    /// fsck.vfat.
    pub fsck: bool,
    /// Tools that read the whole tree.
    pub readers: bool,
}

impl Judges {
    /// All of them.
    pub const ALL: Self = Self { fsck: true, readers: true };
    /// Our own checker alone.
    pub const OURS: Self = Self { fsck: false, readers: false };

    /// For what the `number`th power cut left and the mount after it repaired: fsck.vfat sees each
    /// 20th, all see each 100th.
    pub const fn after_cut(number: u64) -> Self {
        Self { fsck: number.is_multiple_of(20), readers: number.is_multiple_of(100) }
    }

    /// Complaints of the judges about an image of a volume that holds this tree. `scratch` is an
    /// empty directory, for what mtools reads.
    pub fn judge(self, image: &Path, expected: &Contents, scratch: &Path) -> Result<(), String> {
        if self.fsck {
            let complaints = fsck_vfat(image).map_err(|error| error.to_string())?;
            if !complaints.is_empty() {
                return Err(format!("fsck.vfat: {}", complaints.join("\n")));
            }
        }
        if self.readers {
            let found = mtools_contents(image, scratch)?;
            compare_contents(&found, &as_mtools_names(expected)).map_err(|said| format!("mtools: {said}"))?;
        }
        Ok(())
    }
}

/// Writes a device's content into a file, which is as long as the device. Runs of zeroes stay
/// holes.
pub fn write_image<D: BlockDevice>(device: &D, file: &File) -> io::Result<()> {
    let shape = *device.geometry();
    file.set_len(shape.capacity())?;
    let sector = u64::from(shape.sector_size);
    let mut buffer = vec![0; 128 * shape.sector_size as usize];
    for at in (0..shape.sectors).step_by(128) {
        let count = (shape.sectors - at).min(128);
        let bytes = &mut buffer[..(count * sector) as usize];
        device.read(&Context::default(), Lba(at), ReadInto::Bytes(bytes)).map_err(io::Error::other)?;
        if !is_zeroed(bytes) {
            file.write_all_at(bytes, at * sector)?;
        }
    }
    Ok(())
}
