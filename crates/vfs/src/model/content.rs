//! The content of a regular file, in blocks of which some may be missing (holes).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use nandkit_units::{Payload, ReadInto};

/// A file's size and its allocated blocks. A block's bytes past the end of the file are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct FileContent {
    pub(super) size: u64,
    blocks: BTreeMap<u64, Arc<[u8]>>,
}

/// The numbers of the blocks that a range touches.
pub(super) fn blocks_of(offset: u64, length: u64, block_size: u32) -> Range<u64> {
    let size = u64::from(block_size.max(1));
    if length == 0 { 0..0 } else { offset / size..offset.saturating_add(length).div_ceil(size) }
}

impl FileContent {
    pub(super) fn allocated_blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The number of blocks of the range that are not allocated.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        let held = self.blocks.range(range.clone()).count() as u64;
        (range.end - range.start).saturating_sub(held)
    }

    /// Allocates zeroed blocks for the holes of the range.
    pub(super) fn allocate(&mut self, range: Range<u64>, block_size: u32) {
        let zero: Arc<[u8]> = vec![0; block_size as usize].into();
        for block in range {
            self.blocks.entry(block).or_insert_with(|| zero.clone());
        }
    }

    pub(super) fn read(&self, offset: u64, into: ReadInto<'_>, block_size: u32) -> usize {
        let rest = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = into.len().min(rest);
        match into {
            ReadInto::Bytes(bytes) => self.copy_out(offset, &mut bytes[..count], block_size),
            ReadInto::Content { content, .. } => self.copy_out(offset, content.set_bytes(count), block_size),
            ReadInto::Nothing { .. } => {}
        }
        count
    }

    fn copy_out(&self, offset: u64, into: &mut [u8], block_size: u32) {
        into.fill(0);
        let range = blocks_of(offset, into.len() as u64, block_size);
        for (block, bytes) in self.blocks.range(range) {
            let start = block * u64::from(block_size);
            let skip = offset.saturating_sub(start) as usize;
            let at = start.saturating_sub(offset) as usize;
            let length = (bytes.len() - skip).min(into.len() - at);
            into[at..at + length].copy_from_slice(&bytes[skip..skip + length]);
        }
    }

    /// The next run of allocated blocks at or after `offset`, cut at the size.
    pub(super) fn data_after(&self, offset: u64, block_size: u32) -> Option<Range<u64>> {
        let size = u64::from(block_size.max(1));
        let mut blocks = self.blocks.range(offset / size..).map(|(block, _)| *block);
        let first = blocks.next()?;
        let behind = blocks.zip(first + 1..).take_while(|(block, next)| block == next).count() as u64;
        let data = offset.max(first * size)..(first + 1 + behind).saturating_mul(size).min(self.size);
        (!data.is_empty()).then_some(data)
    }

    /// Writes bytes into allocated blocks, and grows the size if they reach past it.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], block_size: u32) {
        self.allocate(blocks_of(offset, data.len() as u64, block_size), block_size);
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % u64::from(block_size)) as usize;
            let length = (block_size as usize - within).min(data.len() - done);
            self.change_block(at / u64::from(block_size), |bytes| {
                bytes[within..within + length].copy_from_slice(&data[done..done + length]);
            });
            done += length;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Makes a range read as zeroes and drops the blocks that lie wholly in it.
    pub(super) fn punch(&mut self, offset: u64, length: u64, block_size: u32) {
        let size = u64::from(block_size);
        let end = offset.saturating_add(length);
        let touched: Vec<u64> = self.blocks.range(blocks_of(offset, length, block_size)).map(|(b, _)| *b).collect();
        for block in touched {
            let start = block * size;
            if start >= offset && start + size <= end {
                self.blocks.remove(&block);
            } else {
                let from = offset.saturating_sub(start).min(size) as usize;
                let to = (end - start).min(size) as usize;
                self.change_block(block, |bytes| bytes[from..to].fill(0));
            }
        }
    }

    /// Truncates the file, or grows it without allocating blocks.
    pub(super) fn resize(&mut self, size: u64, block_size: u32) {
        if size < self.size {
            self.punch(size, u64::MAX - size, block_size);
            self.blocks.split_off(&size.div_ceil(u64::from(block_size)));
        }
        self.size = size;
    }

    fn change_block(&mut self, block: u64, change: impl FnOnce(&mut [u8])) {
        if let Some(bytes) = self.blocks.get_mut(&block) {
            if Arc::get_mut(bytes).is_none() {
                *bytes = bytes.to_vec().into();
            }
            if let Some(bytes) = Arc::get_mut(bytes) {
                change(bytes);
            }
        }
    }
}

/// The payload as bytes.
pub(super) fn payload_bytes<'a>(payload: &Payload<'a>) -> std::borrow::Cow<'a, [u8]> {
    match payload {
        Payload::Bytes(bytes) => std::borrow::Cow::Borrowed(bytes),
        Payload::Described(_) | Payload::Assembled(_) => {
            let mut bytes = vec![0; payload.len()];
            payload.copy_to(&mut bytes);
            std::borrow::Cow::Owned(bytes)
        }
    }
}
