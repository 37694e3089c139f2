//! Space reserved for files ahead of writes (fallocate(2) that keeps the size).
//!
//! Reservations are counted in memory only and excluded for other files. Linux appends the clusters
//! to the file (`fs/fat/file.c`) and removes them when its inode leaves memory; after a crash they
//! stay past the file's end, where fsck finds them. Here, a reservation ends with a truncation,
//! with the file, and with the unmount, and never reaches the medium.

use std::collections::HashMap;

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::FILE_SIZE_MAX;
use crate::volume::MountedVolume;

/// The clusters reserved for each file.
#[derive(Debug, Default)]
pub struct Preallocated {
    of: HashMap<u64, u32>,
    total: u32,
}

impl Preallocated {
    /// Clusters reserved for a file.
    pub fn of(&self, number: u64) -> u32 {
        self.of.get(&number).copied().unwrap_or(0)
    }

    /// Clusters reserved for all other files.
    pub fn to_others(&self, number: Option<u64>) -> u32 {
        self.total - number.map_or(0, |number| self.of(number))
    }

    /// Sets the number of clusters reserved for a file.
    pub fn set(&mut self, number: u64, clusters: u32) {
        self.total -= self.of.remove(&number).unwrap_or(0);
        if clusters > 0 {
            self.total += clusters;
            self.of.insert(number, clusters);
        }
    }

    /// Accounts for clusters that a file received, taking reserved ones first.
    pub fn keep(&mut self, number: u64, clusters: u32) {
        let promised = self.of(number);
        if promised > 0 {
            self.set(number, promised.saturating_sub(clusters));
        }
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Ensures that writes to the range will find space; the file grows to its end unless
    /// `keep_size`. FAT has no holes, so everything before the range is allocated too.
    pub fn preallocate(&mut self, number: u64, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        let size = u64::from(self.file(number)?.raw.size.get());
        if length == 0 {
            return Err(FsError::new(ErrorKind::InvalidArgument, "a range without bytes; expected one at least"));
        }
        let end = offset.checked_add(length).filter(|&end| end <= FILE_SIZE_MAX);
        let end = end.ok_or_else(|| {
            FsError::new(ErrorKind::FileTooBig, format!("a FAT file holds at most {FILE_SIZE_MAX} bytes"))
        })?;
        if !keep_size && end > size {
            return self.resize(number, end);
        }
        let have = u64::from(self.ensure_chain(number)?.len());
        let missing = end.div_ceil(u64::from(self.geometry.cluster_size())).saturating_sub(have) as u32;
        if missing > self.preallocated.of(number) {
            self.reserve(missing, Some(number))?;
            self.preallocated.set(number, missing);
        }
        // The size is unchanged, the time is new.
        self.set_size(number, size)
    }
}

#[cfg(test)]
mod tests {
    use super::Preallocated;

    #[test]
    fn promises_are_counted_apart_and_kept_once() {
        let mut promised = Preallocated::default();
        promised.set(1, 10);
        promised.set(2, 5);
        assert_eq!((promised.to_others(None), promised.to_others(Some(1)), promised.to_others(Some(3))), (15, 5, 15));
        promised.keep(1, 4);
        promised.keep(3, 4);
        assert_eq!((promised.of(1), promised.to_others(Some(2))), (6, 6));
        promised.keep(1, 40);
        promised.set(2, 1);
        assert_eq!((promised.of(1), promised.to_others(None)), (0, 1));
    }
}
