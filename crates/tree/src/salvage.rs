//! Contents as far as they can be read.

use nandkit_vfs::source::SourceTree;

/// Bytes that are read by themselves where a chunk cannot be read, and that become zeroes where
/// they cannot either.
pub const UNIT: usize = 4096;

/// Units of one file that may fail by themselves. Where more do, a chunk that cannot be read is
/// missing as a whole, so that a size that is far from the truth does not cost a read for each of
/// its units.
const FAILED_MAX: u32 = 4096;

/// The first offset of a file that could not be read, and how much of the file is missing.
#[derive(Debug, Default)]
pub struct Damage {
    first: Option<(u64, String)>,
    bytes: u64,
    failed: u32,
}

impl Damage {
    /// What to say of a file of `size` bytes; nothing where all of it was read.
    pub fn note(&self, size: u64) -> Option<String> {
        let (offset, cause) = self.first.as_ref()?;
        Some(format!("{} of {size} bytes are missing, first at {offset}: {cause}", self.bytes))
    }
}

/// Fills all of `chunk` with the content from `offset` on of a file of `size` bytes. Returns where
/// the content ends: before `size` where a read answered short, and then nothing behind it can be
/// read.
pub fn read(
    tree: &dyn SourceTree,
    node: usize,
    (offset, size): (u64, u64),
    chunk: &mut [u8],
    damage: &mut Damage,
) -> u64 {
    let whole = tree.read(node, offset, chunk);
    match whole {
        Ok(count) if count >= chunk.len() => return size,
        Ok(count) => return damage.ends(offset + count as u64, size, chunk.get_mut(count..)),
        Err(error) if damage.failed >= FAILED_MAX => {
            chunk.fill(0);
            damage.missing(offset, chunk.len() as u64, error.to_string());
            return size;
        }
        Err(_) => {}
    }
    for number in 0..chunk.len().div_ceil(UNIT) {
        let from = number * UNIT;
        let at = offset + from as u64;
        let rest = chunk.get_mut(from..).unwrap_or_default();
        let length = rest.len().min(UNIT);
        let Some(unit) = rest.get_mut(..length) else { break };
        match tree.read(node, at, unit) {
            Ok(count) if count >= length => {}
            Ok(count) => return damage.ends(at + count as u64, size, rest.get_mut(count..)),
            Err(error) => {
                unit.fill(0);
                damage.failed += 1;
                damage.missing(at, length as u64, error.to_string());
            }
        }
    }
    size
}

impl Damage {
    fn missing(&mut self, at: u64, bytes: u64, cause: String) {
        self.bytes += bytes;
        self.first.get_or_insert((at, cause));
    }

    /// Notes that the content ends at `at`, zeroes the rest of the chunk, and returns `at`.
    fn ends(&mut self, at: u64, size: u64, rest: Option<&mut [u8]>) -> u64 {
        rest.unwrap_or_default().fill(0);
        self.missing(at, size.saturating_sub(at), "the content ends before the file's size".to_owned());
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_vfs::source::SourceNode;
    use nandkit_vfs::{ErrorKind, FsError};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Content of ones up to an end, and then errors or short answers; counts the reads.
    struct Ending {
        end: u64,
        short: bool,
        reads: AtomicU64,
    }

    impl SourceTree for Ending {
        fn nodes(&self) -> &[SourceNode] {
            &[]
        }

        fn read(&self, _: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let count = (self.end.saturating_sub(offset) as usize).min(into.len());
            if count < into.len() && !self.short {
                return Err(FsError::new(ErrorKind::Corrupt, "nothing there"));
            }
            into[..count].fill(1);
            Ok(count)
        }
    }

    /// Reads a file of 4 GiB of which 6 KiB are there; returns the number of reads, the bytes that
    /// are right, where it ended, and the note.
    fn read_all(short: bool) -> (u64, u64, u64, String) {
        let tree = Ending { end: 6144, short, reads: AtomicU64::new(0) };
        let (size, mut damage, mut chunk) = (0xFFFF_FFF0, Damage::default(), vec![9; 1 << 20]);
        let (mut offset, mut end, mut right) = (0, size, 0);
        while offset < end {
            end = read(&tree, 0, (offset, size), &mut chunk, &mut damage);
            assert!(chunk.iter().all(|byte| *byte <= 1), "what is missing is zero");
            right += chunk.iter().filter(|byte| **byte == 1).count() as u64;
            offset += chunk.len() as u64;
        }
        (tree.reads.into_inner(), right, end, damage.note(size).unwrap())
    }

    #[test]
    fn a_size_far_from_the_truth_is_one_missing_range() {
        let note = "4294961136 of 4294967280 bytes are missing, first at 6144: the content ends before the file's size";
        assert_eq!(read_all(true), (1, 6144, 6144, note.to_owned()));
    }

    #[test]
    fn what_cannot_be_read_is_not_tried_without_bound() {
        let (reads, right, end, note) = read_all(false);
        assert!(reads < 10_000, "{reads}");
        assert_eq!((right, end), (4096, 0xFFFF_FFF0));
        assert!(note.ends_with("first at 4096: damaged: nothing there"), "{note}");
    }
}
