//! Limits for large files: images may be hostile and holes cost them nothing, so only a file's data
//! count.

use nandkit_vfs::{FileSystem, InodeNumber};

/// File size in bytes, including holes, up to which holes are not examined.
pub const LARGE: u64 = 1 << 36;

/// Largest accepted file size in bytes: that of ext4 with 4 KiB blocks, which most hosts use.
pub const SIZE_MAX: u64 = (1 << 44) - 4096;

/// How holes are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// They stay holes, and take no space.
    Kept,
    /// They are written as zeroes.
    Written,
}

/// The bytes that a file of this size costs its receiver, as far as they are data. It is the size
/// itself up to `large`, or if the volume cannot tell. Cost: nothing up to `large`, else a look at
/// each run of data; no content is read.
pub fn taken_bytes(fs: &dyn FileSystem, inode: InodeNumber, size: u64, large: u64) -> u64 {
    if size <= large || size > SIZE_MAX {
        return size;
    }
    let (mut offset, mut data) = (0, 0);
    while offset < size {
        match fs.data_after(inode, offset) {
            Ok(Some(run)) if run.start >= offset && run.start < run.end => {
                data += run.end.min(size).saturating_sub(run.start);
                offset = run.end;
            }
            Ok(None) => break,
            _ => return size,
        }
    }
    data
}

/// Why a file is refused, if it is; `data` is the result of [`taken_bytes`]. If holes are written,
/// files larger than `large` must consist of data by at least half.
pub fn refusal(size: u64, data: u64, large: u64, holes: Holes) -> Option<String> {
    if size > SIZE_MAX {
        return Some(format!("has {size} bytes, more than the {SIZE_MAX} that are taken"));
    }
    let mostly_holes = size > large && data < size.div_ceil(2);
    (mostly_holes && holes == Holes::Written).then(|| {
        format!("has {size} bytes, of which {data} are data: more than {large} are taken where holes stay holes, or half are data")
    })
}
