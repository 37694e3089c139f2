//! Space that was promised to files ahead of their writes (fallocate(2) with a size that stays).
//!
//! It is counted in memory and given to nobody else. Linux hangs the clusters on the file
//! (`fs/fat/file.c`) and takes them off again when its inode leaves memory; after a crash they stay
//! behind the file's end, where fsck finds them. Ours ends with a shorter size, with the file, and
//! with the unmount, and the medium never knows.

use std::collections::HashMap;

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::FILE_SIZE_MAX;
use crate::volume::MountedVolume;

/// Clusters by file.
#[derive(Debug, Default)]
pub struct Preallocated {
    of: HashMap<u64, u32>,
    total: u32,
}

impl Preallocated {
    /// Clusters promised to a file.
    pub fn of(&self, number: u64) -> u32 {
        self.of.get(&number).copied().unwrap_or(0)
    }

    /// Clusters promised to all files but this one.
    pub fn to_others(&self, number: Option<u64>) -> u32 {
        self.total - number.map_or(0, |number| self.of(number))
    }

    /// Promises a file so many clusters and no more.
    pub fn set(&mut self, number: u64, clusters: u32) {
        self.total -= self.of.remove(&number).unwrap_or(0);
        if clusters > 0 {
            self.total += clusters;
            self.of.insert(number, clusters);
        }
    }

    /// A file has got clusters, of those it was promised first.
    pub fn keep(&mut self, number: u64, clusters: u32) {
        let promised = self.of(number);
        if promised > 0 {
            self.set(number, promised.saturating_sub(clusters));
        }
    }
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Makes sure that writes to the range will find space; the file grows to its end unless
    /// `keep_size`. FAT has no holes: all before the range is allocated with it.
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
        // The size is the old one, and the time a new one.
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
