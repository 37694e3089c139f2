//! Reading a file system back: every file's bytes and size, every directory's names.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_units::{Described, ReadInto};
use nandkit_vfs::{FileKind, FileSystem};

use super::file::FileDriver;
use super::{explain, first_difference};
use crate::error::{Result, WorkloadError};
use crate::operation::{FileData, FileSlot, FileWorkload};
use crate::report::{Progress, ProgressSink};

/// How much of a file is compared at once.
const CHUNK: u64 = 64 << 10;

impl FileDriver {
    /// Reads every file back and compares it with what was written, byte for byte, and every
    /// directory's names with what must be there. Does nothing where the driver does not verify.
    /// Takes simulated time, which no phase counts.
    pub fn verify_all(
        &mut self,
        workload: &mut dyn FileWorkload,
        fs: &mut dyn FileSystem,
        progress: ProgressSink<'_>,
    ) -> Result<()> {
        if !self.verify || self.names_before.is_none() {
            return Ok(());
        }
        let total: u64 = self.entries.iter().flatten().map(|entry| entry.size).sum();
        let (mut done, mut files) = (0, 0);
        let mut names = self.names_by_directory();
        for index in 0..self.entries.len() {
            let slot = FileSlot(u32::try_from(index).unwrap_or(u32::MAX));
            let Some(Some(entry)) = self.entries.get(index) else { continue };
            if entry.is_directory {
                self.verify_directory(slot, names.remove(&slot).unwrap_or_default(), fs)?;
                continue;
            }
            self.verify_file(slot, workload, fs)?;
            done += self.entry(slot)?.size;
            files += 1;
            let step = Progress::apart(None, done, total, self.clock.now());
            if progress(step) == ControlFlow::Break(()) {
                return Err(WorkloadError::Cancelled { operations: files });
            }
        }
        self.report.verified_at_end = Some(files);
        Ok(())
    }

    fn verify_file(&mut self, slot: FileSlot, workload: &mut dyn FileWorkload, fs: &dyn FileSystem) -> Result<()> {
        let entry = self.entry(slot)?;
        let (inode, size) = (entry.inode, entry.size);
        let failed = |driver: &Self, source| driver.failed(format!("reading {} back", driver.path(slot)), source);
        let attributes = fs.stat(inode).map_err(|source| failed(self, source))?;
        if attributes.size != size || attributes.kind != FileKind::Regular {
            return Err(WorkloadError::Mismatch {
                place: self.path(slot),
                detail: format!(
                    "is {:?} of {} bytes, expected a regular file of {size}",
                    attributes.kind, attributes.size
                ),
            });
        }
        let mut offset = 0;
        while offset < size {
            let length = CHUNK.min(size - offset) as usize;
            self.buffer.resize(length, 0);
            let read =
                fs.read(inode, offset, ReadInto::Bytes(&mut self.buffer)).map_err(|source| failed(self, source))?;
            if read != length {
                return Err(WorkloadError::Mismatch {
                    place: self.path(slot),
                    detail: format!("only {read} of {length} bytes can be read at {offset}"),
                });
            }
            self.compare_buffer(slot, offset, length, workload)?;
            offset += length as u64;
        }
        Ok(())
    }

    /// Compares the first `length` bytes of the buffer with what the file must hold at `offset`.
    pub(super) fn compare_buffer(
        &mut self,
        slot: FileSlot,
        offset: u64,
        length: usize,
        workload: &mut dyn FileWorkload,
    ) -> Result<()> {
        let end = offset.saturating_add(length as u64);
        let mut at = offset;
        while at < end {
            let segment = self.entry(slot)?.expected.segment(at, end);
            let part = (at - offset) as usize..(at - offset + segment.length) as usize;
            let Some(found) = self.buffer.get(part) else { break };
            self.wanted.resize(found.len(), 0);
            match segment.data {
                None => self.wanted.fill(0),
                Some(FileData::Described(description)) => description.generate(&mut self.wanted),
                Some(FileData::Original { number, offset }) => {
                    workload.original(number, offset, &mut self.wanted)?;
                }
            }
            if let Some(place) = first_difference(found, &self.wanted) {
                let detail = match segment.data {
                    None => "expected zeroes of a hole".to_string(),
                    Some(FileData::Described(description)) => {
                        let length = u32::try_from(segment.length).unwrap_or(u32::MAX);
                        explain(Described { description, length }, found)
                    }
                    Some(FileData::Original { .. }) => "expected the original's bytes".to_string(),
                };
                let place = format!("{} byte {}", self.path(slot), at + place as u64);
                return Err(WorkloadError::Mismatch { place, detail });
            }
            at += segment.length;
        }
        self.report.verified_bytes += length as u64;
        Ok(())
    }

    /// The names that each directory must hold.
    fn names_by_directory(&self) -> BTreeMap<FileSlot, Vec<Vec<u8>>> {
        let mut names: BTreeMap<FileSlot, Vec<Vec<u8>>> = BTreeMap::new();
        // The first entry is the root, which has no name.
        for entry in self.entries.iter().skip(1).flatten() {
            names.entry(entry.parent).or_default().push(entry.name.clone());
        }
        names
    }

    fn verify_directory(&self, slot: FileSlot, names: Vec<Vec<u8>>, fs: &dyn FileSystem) -> Result<()> {
        let failed = |source| self.failed(format!("listing {}", self.path(slot)), source);
        let fold = !fs.volume().map_err(failed)?.features.case_sensitive;
        let key = |name: &[u8]| if fold { name.to_ascii_lowercase() } else { name.to_vec() };
        let found = self.list(fs, self.entry(slot)?.inode).map_err(failed)?;
        let mut found: Vec<Vec<u8>> = found.iter().map(|name| key(name)).collect();
        let mut expected: Vec<Vec<u8>> = names.iter().map(|name| key(name)).collect();
        if slot == FileSlot::ROOT {
            expected.extend(self.names_before.iter().flatten().map(|name| key(name)));
        }
        found.sort();
        expected.sort();
        if found == expected {
            return Ok(());
        }
        let text = |name: Option<&Vec<u8>>| name.map(|name| String::from_utf8_lossy(name).into_owned());
        let missing = text(expected.iter().find(|name| found.binary_search(name).is_err()));
        let surplus = text(found.iter().find(|name| expected.binary_search(name).is_err()));
        let detail = match (missing, surplus) {
            (Some(name), _) => format!("the name {name} is missing"),
            (None, Some(name)) => format!("the name {name} must not be there"),
            (None, None) => "a name stands twice".to_string(),
        };
        Err(WorkloadError::Mismatch { place: self.path(slot), detail })
    }
}
