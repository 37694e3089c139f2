//! Reading damaged content as far as possible.

use std::ops::Range;

use nandkit_vfs::source::SourceTree;

/// Bytes read at a time after a whole chunk failed; unreadable units become zeroes.
pub const UNIT: usize = 4096;

/// Most units per file that are tried one by one. After that an unreadable chunk is lost as a
/// whole, so that a wrong, huge size does not cost a read for each unit.
const FAILED_MAX: u32 = 4096;

/// Budget of reads for unreadable files, shared equally by the nodes of a tree: thousands of names
/// may each promise gigabytes that do not exist.
const PROBES_ALL: usize = 1 << 20;

/// The least share of a file: one of 256 KiB is tried unit by unit.
const PROBES_MIN: usize = 64;

/// The first unreadable offset of a file, and how much of it is missing.
#[derive(Debug, Default)]
pub struct Damage {
    first: Option<(u64, String)>,
    bytes: u64,
    failed: u32,
    /// Whether any read succeeded, or units all over the file were tried.
    known: bool,
    /// Number of units all over the file that were tried in vain, if the rest is given up.
    lost: Option<u64>,
}

impl Damage {
    /// Whether the rest of the file is given up because nothing of it could be read.
    pub const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The report for a file of `size` bytes; `None` if all of it was read.
    pub fn note(&self, size: u64) -> Option<String> {
        let (offset, cause) = self.first.as_ref()?;
        let tried = self.lost.map_or_else(String::new, |units| {
            format!("; {units} parts of {UNIT} bytes all over it were tried, none can be read")
        });
        Some(format!("{} of {size} bytes are missing, first at {offset}: {cause}{tried}", self.bytes))
    }
}

/// Fills all of `chunk` with the content at `offset` of a file of `size` bytes. Returns the end of
/// the content: less than `size` if a read returned short, and then nothing after it is readable.
/// After a file is lost ([`Damage::is_lost`]), no further calls are needed.
pub fn read(
    tree: &dyn SourceTree,
    node: usize,
    (offset, size): (u64, u64),
    chunk: &mut [u8],
    damage: &mut Damage,
) -> u64 {
    let whole = tree.read(node, offset, chunk);
    match whole {
        Ok(count) if count >= chunk.len() => {
            damage.known = true;
            return size;
        }
        Ok(count) => return damage.ends(offset + count as u64, size, chunk.get_mut(count..)),
        Err(error) => {
            damage.probe(tree, node, offset..size, chunk);
            if damage.is_lost() || damage.failed >= FAILED_MAX {
                chunk.fill(0);
                let missing = if damage.is_lost() { size - offset } else { chunk.len() as u64 };
                damage.missing(offset, missing, error.to_string());
                return size;
            }
        }
    }
    for number in 0..chunk.len().div_ceil(UNIT) {
        let from = number * UNIT;
        let at = offset + from as u64;
        let rest = chunk.get_mut(from..).unwrap_or_default();
        let length = rest.len().min(UNIT);
        let Some(unit) = rest.get_mut(..length) else { break };
        match tree.read(node, at, unit) {
            Ok(count) if count >= length => damage.known = true,
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
    /// Tries units all over the rest of a file, as many as its share, until one is readable; if
    /// none is, the file is lost. Files with fewer units are not probed: all their units are tried.
    /// The result does not depend on the order in which files are read.
    fn probe(&mut self, tree: &dyn SourceTree, node: usize, rest: Range<u64>, buffer: &mut [u8]) {
        let share = (PROBES_ALL / tree.nodes().len().max(1)).clamp(PROBES_MIN, FAILED_MAX as usize) as u64;
        let units = rest.end.saturating_sub(rest.start).div_ceil(UNIT as u64);
        if self.known || units <= share {
            return;
        }
        self.known = true;
        let length = buffer.len().min(UNIT);
        let can_be_read = |number: u64| {
            // No overflow: files have fewer than 2^64 bytes, which are 2^52 units.
            let at = rest.start + number * units / share * UNIT as u64;
            let wanted = length.min(usize::try_from(rest.end - at).unwrap_or(length));
            tree.read(node, at, buffer.get_mut(..wanted).unwrap_or_default()).is_ok()
        };
        if !(0..share).any(can_be_read) {
            self.lost = Some(share);
        }
    }

    fn missing(&mut self, at: u64, bytes: u64, cause: String) {
        self.bytes += bytes;
        self.first.get_or_insert((at, cause));
    }

    /// Records that the content ends at `at`, zeroes the rest of the chunk, and returns `at`.
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
    use nandkit_vfs::{ErrorKind, FileKind, FsError};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A stretch of ones, with errors before it, and errors or short reads after it; counts the
    /// reads.
    struct Ending {
        start: u64,
        end: u64,
        short: bool,
        nodes: Vec<SourceNode>,
        reads: AtomicU64,
    }

    impl SourceTree for Ending {
        fn nodes(&self) -> &[SourceNode] {
            &self.nodes
        }

        fn read(&self, _: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let count = (self.end.saturating_sub(offset) as usize).min(into.len());
            if offset < self.start || count < into.len() && !self.short {
                return Err(FsError::new(ErrorKind::Corrupt, "nothing there"));
            }
            into[..count].fill(1);
            Ok(count)
        }
    }

    /// Reads a file in a tree of `files` files, of which only a stretch exists; returns the number
    /// of reads, the correct bytes, the end, and the note.
    fn read_one(size: u64, there: Range<u64>, short: bool, files: usize) -> (u64, u64, u64, String) {
        let nodes = vec![SourceNode::new(FileKind::Regular, 0o644); files];
        let tree = Ending { start: there.start, end: there.end, short, nodes, reads: AtomicU64::new(0) };
        let (mut damage, mut buffer) = (Damage::default(), vec![9; 1 << 20]);
        let (mut offset, mut end, mut right) = (0, size, 0);
        while offset < end && !damage.is_lost() {
            let chunk = &mut buffer[..(size - offset).min(1 << 20) as usize];
            end = read(&tree, 0, (offset, size), chunk, &mut damage);
            assert!(chunk.iter().all(|byte| *byte <= 1), "what is missing is zero");
            right += chunk.iter().filter(|byte| **byte == 1).count() as u64;
            offset += chunk.len() as u64;
        }
        (tree.reads.into_inner(), right, end, damage.note(size).unwrap())
    }

    /// Reads a file of 4 GiB of which 6 KiB exist.
    fn read_all(short: bool) -> (u64, u64, u64, String) {
        read_one(0xFFFF_FFF0, 0..6144, short, 1)
    }

    #[test]
    fn files_of_which_nothing_can_be_read_are_given_up_together() {
        let size = 16 << 20;
        // A whole chunk, and 64 units: 20,000 files take 1.3 million reads, not 80 million.
        let (reads, right, end, note) = read_one(size, size..size, false, 20_000);
        assert_eq!((reads, right, end), (65, 0, size));
        let told = "16777216 of 16777216 bytes are missing, first at 0: damaged: nothing there; \
                    64 parts of 4096 bytes all over it were tried, none can be read";
        assert_eq!(note, told);
        // A single file is probed at as many places as before.
        assert_eq!(read_one(size, size..size, false, 1).0, 4112);
        assert_eq!(read_one(1 << 30, 0..0, false, 1).0, 4097);
    }

    #[test]
    fn what_lies_behind_a_lost_beginning_is_delivered_among_thousands_of_files() {
        let size = 16 << 20;
        for there in [size - (1 << 20)..size, (5 << 20) + 4096..6 << 20, size / 2..size / 2 + 4096] {
            let (_, right, end, note) = read_one(size, there.clone(), false, 20_000);
            assert_eq!((right, end), (there.end - there.start, size));
            assert!(note.starts_with(&format!("{} of {size} bytes are missing, first at 0", size - right)), "{note}");
        }
        // In 256 KiB each unit is tried, wherever the only readable one is.
        assert_eq!(read_one(256 << 10, 4096..8192, false, 20_000).1, 4096);
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
