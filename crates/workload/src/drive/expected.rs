//! The expected content of a file without a copy of it: the write that each byte came from.

use std::collections::BTreeMap;

use crate::operation::FileData;

/// Bytes of one write that were not overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    length: u64,
    data: FileData,
}

/// A run of a file's bytes and where they came from; `None` for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub offset: u64,
    pub length: u64,
    pub data: Option<FileData>,
}

/// The expected content of a file. Extents do not overlap; bytes between them are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpectedContent {
    extents: BTreeMap<u64, Extent>,
}

impl ExpectedContent {
    /// The bytes from `offset` on came from this write.
    pub fn write(&mut self, offset: u64, length: u64, data: FileData) {
        if length == 0 {
            return;
        }
        self.cut(offset, offset.saturating_add(length));
        self.extents.insert(offset, Extent { length, data });
    }

    /// The file ends at `size`.
    pub fn truncate(&mut self, size: u64) {
        self.cut(size, u64::MAX);
    }

    /// Takes `start..end` out of all extents.
    fn cut(&mut self, start: u64, end: u64) {
        // An extent that begins before the range and reaches into it keeps its head, and its tail
        // where it reaches beyond.
        if let Some((&offset, &extent)) = self.extents.range(..start).next_back() {
            let extent_end = offset.saturating_add(extent.length);
            if extent_end > start {
                self.extents.insert(offset, Extent { length: start - offset, data: extent.data });
                self.insert_tail(offset, extent, end);
            }
        }
        while let Some((&offset, &extent)) = self.extents.range(start..end).next() {
            self.extents.remove(&offset);
            self.insert_tail(offset, extent, end);
        }
    }

    /// Puts back what an extent holds from `end` on.
    fn insert_tail(&mut self, offset: u64, extent: Extent, end: u64) {
        let extent_end = offset.saturating_add(extent.length);
        if extent_end > end
            && let Some(data) = extent.data.advanced(end - offset)
        {
            self.extents.insert(end, Extent { length: extent_end - end, data });
        }
    }

    /// The run that holds `offset`, ending at `end` at the latest. `offset < end`.
    pub fn segment(&self, offset: u64, end: u64) -> Segment {
        if let Some((&start, extent)) = self.extents.range(..=offset).next_back() {
            let extent_end = start.saturating_add(extent.length);
            if extent_end > offset {
                let length = extent_end.min(end) - offset;
                return Segment { offset, length, data: extent.data.advanced(offset - start) };
            }
        }
        let next = self.extents.range(offset..end).next().map_or(end, |(&start, _)| start);
        Segment { offset, length: next - offset, data: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_units::random::Random;
    use nandkit_units::{Description, Generator};

    fn data(record: u64) -> FileData {
        FileData::Described(Description { record, version: 0, offset: 0, generator: Generator::Record })
    }

    /// Each byte as (record + 1, offset in the record), zero for holes.
    fn flatten(content: &ExpectedContent, size: u64) -> Vec<(u64, u64)> {
        let mut bytes = Vec::new();
        let mut offset = 0;
        while offset < size {
            let segment = content.segment(offset, size);
            assert!(segment.length > 0 && segment.offset == offset);
            for i in 0..segment.length {
                bytes.push(match segment.data {
                    Some(FileData::Described(d)) => (d.record + 1, u64::from(d.offset) + i),
                    _ => (0, 0),
                });
            }
            offset += segment.length;
        }
        bytes
    }

    #[test]
    fn random_writes_and_truncations_agree_with_an_array() {
        for seed in 0..50 {
            let mut random = Random::new(seed, "expected");
            let mut content = ExpectedContent::default();
            let mut array: Vec<(u64, u64)> = Vec::new();
            for record in 0..60 {
                let offset = random.below(200);
                if random.chance(0.2) {
                    content.truncate(offset);
                    array.truncate(offset as usize);
                    continue;
                }
                let length = random.below(64);
                content.write(offset, length, data(record));
                if length > 0 && array.len() < (offset + length) as usize {
                    array.resize((offset + length) as usize, (0, 0));
                }
                for i in 0..length {
                    array[(offset + i) as usize] = (record + 1, i);
                }
                assert_eq!(flatten(&content, array.len() as u64), array, "seed {seed} record {record}");
            }
        }
    }
}
