//! A queue of file operations that a workload fills one transaction at a time.

use std::collections::VecDeque;

use nandkit_units::{Description, Generator};

use crate::error::SpecError;
use crate::operation::{FileData, FileOperation, FileSlot};

/// Operations to come, and the number of the next record of content. Each write gets a record of
/// its own, so that every written byte tells which write it came from.
#[derive(Debug, Default)]
pub(crate) struct Script {
    queue: VecDeque<FileOperation>,
    next_record: u64,
}

impl Script {
    pub fn next(&mut self) -> Option<FileOperation> {
        self.queue.pop_front()
    }

    pub fn make_directory(&mut self, slot: FileSlot, parent: FileSlot, name: impl Into<Vec<u8>>) {
        self.queue.push_back(FileOperation::MakeDirectory { slot, parent, name: name.into() });
    }

    pub fn create(&mut self, slot: FileSlot, parent: FileSlot, name: impl Into<Vec<u8>>) {
        self.queue.push_back(FileOperation::Create { slot, parent, name: name.into() });
    }

    pub fn open(&mut self, slot: FileSlot) {
        self.queue.push_back(FileOperation::Open { slot });
    }

    /// Content of a new record.
    fn fresh(&mut self) -> FileData {
        let record = self.next_record;
        self.next_record += 1;
        FileData::Described(Description { record, version: 0, offset: 0, generator: Generator::Record })
    }

    pub fn write(&mut self, slot: FileSlot, offset: u64, length: u64) {
        let data = self.fresh();
        self.write_data(slot, offset, length, data);
    }

    pub fn write_data(&mut self, slot: FileSlot, offset: u64, length: u64, data: FileData) {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.queue.push_back(FileOperation::Write { slot, offset, length, data });
    }

    /// Writes `length` bytes in pieces of `piece` bytes, the last one shorter.
    pub fn write_in_pieces(&mut self, slot: FileSlot, offset: u64, length: u64, piece: u64) {
        let mut done = 0;
        while done < length {
            let step = piece.clamp(1, length - done);
            self.write(slot, offset.saturating_add(done), step);
            done += step;
        }
    }

    pub fn read(&mut self, slot: FileSlot, offset: u64, length: u64) {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.queue.push_back(FileOperation::Read { slot, offset, length });
    }

    pub fn truncate(&mut self, slot: FileSlot, size: u64) {
        self.queue.push_back(FileOperation::Truncate { slot, size });
    }

    /// Reads `length` bytes from the start in pieces.
    pub fn read_in_pieces(&mut self, slot: FileSlot, length: u64, piece: u64) {
        let mut offset = 0;
        while offset < length {
            let step = piece.clamp(1, length - offset);
            self.read(slot, offset, step);
            offset += step;
        }
    }

    pub fn remove(&mut self, slot: FileSlot) {
        self.queue.push_back(FileOperation::Remove { slot });
    }

    pub fn remove_directory(&mut self, slot: FileSlot) {
        self.queue.push_back(FileOperation::RemoveDirectory { slot });
    }

    pub fn rename(&mut self, slot: FileSlot, parent: FileSlot, name: impl Into<Vec<u8>>) {
        self.queue.push_back(FileOperation::Rename { slot, parent, name: name.into() });
    }

    pub fn sync(&mut self, slot: Option<FileSlot>) {
        self.queue.push_back(FileOperation::Sync { slot });
    }
}

/// Longest transaction, in operations: a script is held in memory.
const TRANSACTION_MAX: u64 = 4 << 20;

/// Refuses parameters that make a transaction of more operations than are held in memory.
pub(crate) fn check_length(workload: &'static str, operations: u64) -> Result<(), SpecError> {
    if operations <= TRANSACTION_MAX {
        return Ok(());
    }
    let detail = format!(
        "a transaction of {operations} operations is too long: use larger writes or smaller files, at most {TRANSACTION_MAX}"
    );
    Err(SpecError::Conflict { workload, detail })
}

/// Records of one size in a file, of which the oldest is overwritten when it is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CyclicFile {
    pub slot: FileSlot,
    record_size: u64,
    capacity: u64,
    written: u64,
}

impl CyclicFile {
    pub const fn new(slot: FileSlot, record_size: u64, capacity: u64) -> Self {
        Self { slot, record_size, capacity, written: 0 }
    }

    /// Writes the next record.
    pub fn append(&mut self, script: &mut Script) {
        let place = self.written % self.capacity.max(1);
        self.written += 1;
        script.write(self.slot, place * self.record_size, self.record_size);
    }
}
