//! Files too large to be taken: of an image, which may be hostile, their data count, as holes cost
//! it nothing.

use nandkit_vfs::{FileSystem, InodeNumber};

/// Bytes of a file, holes counted, up to which nobody looks for them.
pub const LARGE: u64 = 1 << 36;

/// Largest file with its holes: the largest of ext4 with blocks of 4 KiB, which is what most hosts
/// have.
pub const SIZE_MAX: u64 = (1 << 44) - 4096;

/// What becomes of a file's holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// They stay holes, and cost nothing.
    Kept,
    /// Their zeroes are written.
    Written,
}

/// Bytes that a file of this size takes of whoever takes it, as far as that is its data; the size
/// itself up to `large`, or where the volume cannot tell. Cost: nothing up to `large`, else a look
/// at each run of data; no content is read.
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

/// Why a file is not taken, if it is not; `data` are its [`taken_bytes`]. Files beyond `large` must
/// hold data for at least half of the zeroes that would be written for them.
pub fn refusal(size: u64, data: u64, large: u64, holes: Holes) -> Option<String> {
    if size > SIZE_MAX {
        return Some(format!("has {size} bytes, more than the {SIZE_MAX} that are taken"));
    }
    let mostly_holes = size > large && data < size.div_ceil(2);
    (mostly_holes && holes == Holes::Written).then(|| {
        format!("has {size} bytes, of which {data} are data: more than {large} are taken where holes stay holes, or half are data")
    })
}
