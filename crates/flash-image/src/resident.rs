//! A mapped file with limited memory use in this process.
//!
//! The kernel keeps the pages of a mapped file that were read, and counts them as the process's
//! memory: after days of use, a mount's process would appear as large as the image. Pages are
//! therefore released after a certain amount of reads; repeated reads come from the kernel's cache.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use crate::backing::Backing;
use crate::mmap;

/// Least bytes brought into memory by each read: the kernel also maps neighbouring pages
/// (fault_around_bytes).
const AROUND: u64 = 64 << 10;

/// A file, mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: Mmap,
    /// The most bytes to keep, if limited, and the number read since pages were last released.
    limit: Option<u64>,
    read: AtomicU64,
    /// The file, if the map is long-lived.
    backing: Option<Backing>,
}

impl Mapped {
    pub fn new(map: Mmap, limit: Option<u64>, backing: Option<Backing>) -> Self {
        Self { map, limit, read: AtomicU64::new(0), backing }
    }

    pub fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    /// Counts bytes about to be read, and releases pages if that exceeds the limit.
    #[inline]
    pub fn note(&self, bytes: usize) {
        if let Some(limit) = self.limit {
            self.count(bytes as u64, limit);
        }
    }

    fn count(&self, bytes: u64, limit: u64) {
        // Inexact if threads race, which does not matter.
        let read = self.read.load(Ordering::Relaxed).saturating_add(bytes.max(AROUND));
        let is_full = read >= limit;
        self.read.store(if is_full { 0 } else { read }, Ordering::Relaxed);
        if is_full {
            mmap::give_back(&self.map);
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Bytes of files that count as memory of this process.
    fn resident_bytes(path: &str) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of_file = maps.split_inclusive('\n').skip_while(|line| !line.contains(path));
        let line = of_file.into_iter().find(|line| line.starts_with("Rss:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    fn what_was_read_long_ago_is_given_back_and_can_be_read_again() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..16u32 << 20).map(|at| (at / 4096) as u8).collect();
        file.write_all(&content).unwrap();
        let mapped = Mapped::new(mmap::map(file.as_file()).unwrap(), Some(2 << 20), None);
        let path = file.path().to_str().unwrap();
        for round in 0..2 {
            for (at, page) in mapped.chunks(4096).enumerate() {
                mapped.note(page.len());
                assert!(page.iter().all(|&byte| byte == at as u8), "page {at} in round {round}");
            }
            assert!(resident_bytes(path) <= 3 << 20, "{}", resident_bytes(path));
        }
    }
}
