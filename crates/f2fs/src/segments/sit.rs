//! The segment information table in memory: per segment its valid blocks now and at the last
//! checkpoint, its type and its time (f2fs-writing.md, "Allocation", "Times of segments").
//!
//! An allocated block counts in the checkpoint's map at once, so that a block written and freed
//! since the checkpoint is not written again before the next. For checkers, the last checkpoint's
//! own map is kept separately on demand ([`Sit::keep_truth`]).

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::bitmap::Bitmap;
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::{BlockAddress, Log, SegmentIndex};
use crate::layout::sit::VALID_MAP_BYTES;
use crate::layout::{BLOCKS_PER_SEGMENT, Geometry, SitEntry};

/// Blocks per segment, in the type of block counts.
pub const BLOCKS: u16 = BLOCKS_PER_SEGMENT as u16;
/// SIT blocks per request at a mount.
const RUN: u32 = 64;

/// One bit per block: block `n` is bit `n % 64` of word `n / 64`.
pub type BlockMap = [u64; VALID_MAP_BYTES / 8];

/// Converts from the order of the SIT (first bit highest) to that of [`BlockMap`].
pub(crate) fn decoded(bytes: &[u8; VALID_MAP_BYTES]) -> BlockMap {
    let mut map = BlockMap::default();
    let (words, _) = bytes.as_chunks::<8>();
    for (word, bytes) in map.iter_mut().zip(words) {
        *word = u64::from_be_bytes(*bytes).reverse_bits();
    }
    map
}

fn encoded(map: &BlockMap) -> [u8; VALID_MAP_BYTES] {
    let mut bytes = [0; VALID_MAP_BYTES];
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (word, bytes) in map.iter().zip(words) {
        *bytes = word.reverse_bits().to_be_bytes();
    }
    bytes
}

#[inline]
pub(crate) fn has(map: &BlockMap, block: u16) -> bool {
    map[usize::from(block / 64) % map.len()] >> (block % 64) & 1 != 0
}

/// Runs of set bits: first block and length.
pub fn runs(map: &BlockMap) -> impl Iterator<Item = (u16, u16)> {
    let map = *map;
    let end_of = move |from: u16, flip: u64| {
        let mut mask = u64::MAX << (from % 64);
        for (index, word) in map.iter().enumerate().skip(usize::from(from / 64)) {
            let found = (word ^ flip) & mask;
            if found != 0 {
                return index as u16 * 64 + found.trailing_zeros() as u16;
            }
            mask = u64::MAX;
        }
        BLOCKS
    };
    let mut block = 0;
    std::iter::from_fn(move || {
        let start = end_of(block, 0);
        block = end_of(start, u64::MAX);
        (start < BLOCKS).then_some((start, block - start))
    })
}

/// Words per map.
const WORDS: usize = VALID_MAP_BYTES / 8;

/// Counters of a segment.
#[derive(Clone, Copy, Debug)]
struct Info {
    modified: u64,
    /// When the segment got its first block since it was empty, and its last one.
    written: [u64; 2],
    /// How often it was refilled from empty since the mount.
    refilled: u32,
    valid: u16,
    kind: Log,
}

/// The state of 64 blocks, kept together because taking or freeing a block changes all three words.
#[derive(Clone, Copy, Debug, Default)]
struct Bits {
    now: u64,
    /// Blocks that must not be written before the next checkpoint.
    kept: u64,
    /// Free blocks that were not discarded.
    stale: u64,
}

/// The table. Segments are those of the main area; for other numbers nothing is valid.
#[derive(Clone, Debug)]
pub struct Sit {
    segments: u32,
    info: Vec<Info>,
    /// Kept separately because SSR scans it.
    valid_at_checkpoint: Vec<u16>,
    maps: Vec<[Bits; WORDS]>,
    section_valid: Vec<u32>,
    per_section: u32,
    dirty: Bitmap,
    truth: Option<Vec<BlockMap>>,
    /// The newest time seen, for cost-benefit.
    newest: u64,
    written: u64,
    allocated: u64,
}

impl Sit {
    /// The table of a volume without valid blocks. `trimmed`: the device knows that all free blocks
    /// are unused.
    pub fn empty(geometry: &Geometry, trimmed: bool) -> Self {
        let (segments, per_section) = (geometry.main_segments, geometry.segments_per_section.max(1));
        let count = segments as usize;
        Self {
            segments,
            info: vec![Info { modified: 0, written: [0; 2], refilled: 0, valid: 0, kind: Log::HotData }; count],
            valid_at_checkpoint: vec![0; count],
            maps: vec![[Bits { stale: if trimmed { 0 } else { u64::MAX }, ..Bits::default() }; WORDS]; count],
            section_valid: vec![0; segments.div_ceil(per_section) as usize],
            per_section,
            dirty: Bitmap::new(segments),
            truth: None,
            newest: 0,
            written: 0,
            allocated: 0,
        }
    }

    /// Reads the table of a checkpoint: the current copy of each block, with the journal's entries
    /// overriding the table's. Reports counts that differ from their maps, and invalid types; the
    /// map is used, and the type becomes hot data. Errors: `Device`, `Corrupt` (the device ends
    /// before). Cost: reads each SIT block once, in runs.
    pub fn read(device: &dyn Blocks, state: &CheckpointState, trimmed: bool, findings: Defects<'_>) -> Result<Self> {
        let geometry = device.geometry();
        let mut sit = Self::empty(geometry, trimmed);
        let (per_block, block_size) = (geometry.sit_entries(), geometry.block_size());
        let blocks = sit.segments.div_ceil(per_block as u32);
        let copy = |block: u32| crate::bits::msb_first::get(&state.sit_map, block as usize);
        let mut buffer = vec![0; RUN as usize * block_size];
        let mut block = 0;
        while block < blocks {
            let second = copy(block);
            let run = (1..RUN.min(blocks - block)).find(|&n| copy(block + n) != second);
            let run = run.unwrap_or(RUN.min(blocks - block));
            let into = buffer.get_mut(..run as usize * block_size).unwrap_or_default();
            device.read(Cause::Metadata, geometry.sit_place(block, second), into)?;
            for (number, bytes) in (block..).zip(into.chunks_exact(block_size)) {
                for index in 0..per_block {
                    let segment = SegmentIndex(number * per_block as u32 + index as u32);
                    let Some(entry) = SitEntry::in_block(bytes, index) else { break };
                    sit.load(segment, &entry, findings);
                }
            }
            block += run;
        }
        for (segment, entry) in &state.sit_journal {
            sit.load(*segment, entry, findings);
        }
        sit.settle_load();
        Ok(sit)
    }

    /// Loads an entry of the checkpoint. Ignores segments outside the main area. To be followed by
    /// [`Sit::settle_load`].
    pub fn load(&mut self, segment: SegmentIndex, entry: &SitEntry, findings: Defects<'_>) {
        let index = segment.0 as usize;
        if segment.0 >= self.segments {
            return;
        }
        if u32::from(entry.valid_blocks()) != entry.counted_blocks() {
            let (says, has) = (entry.valid_blocks(), entry.counted_blocks());
            findings(Defect::new(
                FindingKind::Sit,
                format!("the SIT entry of {segment} counts {says} valid blocks; its map has {has}"),
            ));
        }
        let kind = entry.log().unwrap_or_else(|| {
            let detail = format!("{segment} is of type {}; expected 0 to 5", entry.raw_type());
            findings(Defect::new(FindingKind::Sit, detail));
            Log::HotData
        });
        let map = decoded(&entry.valid_map);
        let count = entry.counted_blocks() as u16;
        let modified = entry.modified_seconds.get();
        self.info[index] = Info { modified, written: [modified; 2], refilled: 0, valid: count, kind };
        self.valid_at_checkpoint[index] = count;
        for (bits, word) in self.maps[index].iter_mut().zip(map) {
            (bits.now, bits.kept) = (word, word);
        }
    }

    /// Computes the sums over the loaded entries.
    pub fn settle_load(&mut self) {
        self.section_valid.fill(0);
        for (index, info) in self.info.iter().enumerate() {
            self.section_valid[index / self.per_section as usize] += u32::from(info.valid);
            for bits in &mut self.maps[index] {
                bits.stale &= !bits.now;
            }
        }
        self.newest = self.info.iter().map(|info| info.modified).max().unwrap_or(0);
        self.written = self.info.iter().map(|info| u64::from(info.valid)).sum();
    }

    /// Starts to keep the last checkpoint's map separately, for [`Sit::in_last_checkpoint`]. The
    /// table must be that of a checkpoint. Cost: 64 bytes per segment.
    pub fn keep_truth(&mut self) {
        self.truth = Some(self.maps.iter().map(|bits| bits.map(|bits| bits.now)).collect());
    }

    /// Whether a block is valid in the last completed checkpoint; `None` without
    /// [`Sit::keep_truth`].
    pub fn in_last_checkpoint(&self, segment: SegmentIndex, block: u16) -> Option<bool> {
        let map = self.truth.as_ref()?.get(segment.0 as usize)?;
        Some(block < BLOCKS && has(map, block))
    }

    /// The number of segments in the main area.
    #[inline]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Segments per section.
    #[inline]
    pub const fn per_section(&self) -> u32 {
        self.per_section
    }

    /// The number of sections in the main area.
    #[inline]
    pub const fn sections(&self) -> u32 {
        self.section_valid.len() as u32
    }

    /// The current number of valid blocks in a segment.
    #[inline]
    pub fn valid(&self, segment: SegmentIndex) -> u16 {
        self.info.get(segment.0 as usize).map_or(0, |info| info.valid)
    }

    /// The number of blocks in a segment that must not be written: valid at the last checkpoint, or
    /// written since.
    #[inline]
    pub fn valid_at_checkpoint(&self, segment: SegmentIndex) -> u16 {
        self.valid_at_checkpoint.get(segment.0 as usize).copied().unwrap_or(0)
    }

    /// The minimum of [`Sit::valid_at_checkpoint`] over these segments.
    #[inline]
    pub fn least_valid_at_checkpoint(&self, segments: std::ops::Range<u32>) -> u16 {
        let counts = self.valid_at_checkpoint.get(segments.start as usize..segments.end as usize);
        counts.unwrap_or_default().iter().copied().min().unwrap_or(0)
    }

    /// The current number of valid blocks in a section.
    #[inline]
    pub fn section_valid(&self, section: u32) -> u32 {
        self.section_valid.get(section as usize).copied().unwrap_or(0)
    }

    /// The current number of valid blocks in the main area.
    #[inline]
    pub const fn total_valid(&self) -> u64 {
        self.written
    }

    /// Blocks written or claimed since the last checkpoint.
    #[inline]
    pub const fn allocated_since_checkpoint(&self) -> u64 {
        self.allocated
    }

    /// The segment's type.
    #[inline]
    pub fn kind(&self, segment: SegmentIndex) -> Log {
        self.info.get(segment.0 as usize).map_or(Log::HotData, |info| info.kind)
    }

    /// The mean time of a segment's blocks, in seconds; 0 for a segment that was never used.
    #[inline]
    pub fn modified(&self, segment: SegmentIndex) -> u64 {
        self.info.get(segment.0 as usize).map_or(0, |info| info.modified)
    }

    /// The newest time of any change, in seconds.
    pub const fn newest(&self) -> u64 {
        self.newest
    }

    fn infos(&self, section: u32) -> &[Info] {
        let start = section as usize * self.per_section as usize;
        self.info.get(start..start + self.per_section as usize).unwrap_or_default()
    }

    /// When a section got the first and the last block of its current content, in seconds. Neither
    /// is on the device: until a block is written, it is the mean time of each segment.
    pub fn section_written(&self, section: u32) -> (u64, u64) {
        let used = || self.infos(section).iter().filter(|info| info.valid > 0);
        let first = used().map(|info| info.written[0]).min().unwrap_or(0);
        (first, used().map(|info| info.written[1]).max().unwrap_or(0))
    }

    /// How often a section was refilled from empty since the mount; the maximum over its segments.
    pub fn section_refilled(&self, section: u32) -> u32 {
        self.infos(section).iter().map(|info| info.refilled).max().unwrap_or(0)
    }

    /// The mean of the times of a section's segments.
    pub fn section_modified(&self, section: u32) -> u64 {
        let sum = self.infos(section).iter().fold(0u64, |sum, info| sum.saturating_add(info.modified));
        sum / u64::from(self.per_section)
    }

    /// The blocks that are valid now.
    pub fn map(&self, segment: SegmentIndex) -> BlockMap {
        self.maps.get(segment.0 as usize).map_or(BlockMap::default(), |bits| bits.map(|bits| bits.now))
    }

    /// The blocks that must not be written: valid now or at the last checkpoint, or written since.
    #[inline]
    pub fn unusable(&self, segment: SegmentIndex) -> BlockMap {
        self.maps.get(segment.0 as usize).map_or([u64::MAX; WORDS], |bits| bits.map(|bits| bits.now | bits.kept))
    }

    /// Whether a block is valid now.
    #[inline]
    pub fn is_valid(&self, segment: SegmentIndex, block: u16) -> bool {
        self.bits(segment, block).is_some_and(|bits| bits.now >> (block % 64) & 1 != 0)
    }

    /// Whether a block may be written before the next checkpoint: neither valid now, nor valid at
    /// the last one, nor written since.
    #[inline]
    pub fn is_usable(&self, segment: SegmentIndex, block: u16) -> bool {
        self.bits(segment, block).is_some_and(|bits| (bits.now | bits.kept) >> (block % 64) & 1 == 0)
    }

    /// The first writable block of a segment from `from` on.
    #[inline]
    pub fn next_usable(&self, segment: SegmentIndex, from: u16) -> Option<u16> {
        let map = self.maps.get(segment.0 as usize)?;
        let mut mask = u64::MAX << (from % 64);
        for (word, bits) in map.iter().enumerate().skip(usize::from(from / 64)) {
            let free = !(bits.now | bits.kept) & mask;
            if free != 0 {
                return Some(word as u16 * 64 + free.trailing_zeros() as u16);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Sets the type of a segment to that of the log that takes it.
    pub fn set_kind(&mut self, segment: SegmentIndex, kind: Log) {
        let Some(info) = self.info.get_mut(segment.0 as usize) else { return };
        if info.kind != kind {
            info.kind = kind;
            self.dirty.insert(segment.0);
        }
    }

    /// The words that hold a block's bits.
    #[inline]
    fn bits(&self, segment: SegmentIndex, block: u16) -> Option<&Bits> {
        self.maps.get(segment.0 as usize)?.get(usize::from(block / 64))
    }

    /// Updates the segment's time for a block taken or freed at `now` (segment.c,
    /// `update_segment_mtime`).
    #[inline]
    fn touch(info: &mut Info, now: u64) {
        let valid = u64::from(info.valid);
        info.modified = match info.modified {
            0 => now,
            time => time.saturating_mul(valid).saturating_add(now) / (valid + 1),
        };
    }

    /// Marks a block as valid. Returns false, with nothing changed, if it is valid already or
    /// outside the main area.
    #[inline]
    pub fn take(&mut self, segment: SegmentIndex, block: u16, now: u64) -> bool {
        let (index, bit) = (segment.0 as usize, 1 << (block % 64));
        let bits = self.maps.get_mut(index).and_then(|map| map.get_mut(usize::from(block / 64)));
        let Some(bits) = bits.filter(|bits| bits.now & bit == 0) else { return false };
        let was_kept = bits.kept & bit != 0;
        *bits = Bits { now: bits.now | bit, kept: bits.kept | bit, stale: bits.stale & !bit };
        let info = &mut self.info[index];
        Self::touch(info, now);
        info.valid += 1;
        self.newest = self.newest.max(now);
        if self.valid_at_checkpoint[index] == 0 {
            info.written[0] = now;
            info.refilled = info.refilled.saturating_add(1);
        }
        info.written[1] = now;
        self.valid_at_checkpoint[index] += u16::from(!was_kept);
        self.section_valid[index / self.per_section as usize] += 1;
        self.written += 1;
        self.allocated += 1;
        self.dirty.insert(segment.0);
        true
    }

    /// Marks a block as invalid; it may be written after the next checkpoint. Returns false, with
    /// nothing changed, if it is not valid.
    #[inline]
    pub fn release(&mut self, segment: SegmentIndex, block: u16, now: u64) -> bool {
        let (index, bit) = (segment.0 as usize, 1 << (block % 64));
        let bits = self.maps.get_mut(index).and_then(|map| map.get_mut(usize::from(block / 64)));
        let Some(bits) = bits.filter(|bits| bits.now & bit != 0) else { return false };
        (bits.now, bits.stale) = (bits.now & !bit, bits.stale | bit);
        let info = &mut self.info[index];
        Self::touch(info, now);
        info.valid -= 1;
        self.newest = self.newest.max(now);
        self.section_valid[index / self.per_section as usize] -= 1;
        self.written -= 1;
        self.dirty.insert(segment.0);
        true
    }

    /// Keeps a free block from being written until the next checkpoint completes. Returns false if
    /// it is outside the main area.
    pub fn hold(&mut self, segment: SegmentIndex, block: u16) -> bool {
        let (index, bit) = (segment.0 as usize, 1 << (block % 64));
        let bits = self.maps.get_mut(index).and_then(|map| map.get_mut(usize::from(block / 64)));
        let Some(bits) = bits else { return false };
        self.valid_at_checkpoint[index] += u16::from(bits.kept & bit == 0);
        bits.kept |= bit;
        self.dirty.insert(segment.0);
        true
    }

    /// The entry of a segment that a checkpoint would write now.
    pub fn entry(&self, segment: SegmentIndex) -> SitEntry {
        SitEntry::new(self.kind(segment), encoded(&self.map(segment)), self.modified(segment))
    }

    /// Segments whose entry differs from the last checkpoint's, ascending.
    pub fn dirty(&self) -> &Bitmap {
        &self.dirty
    }

    /// Notes that a checkpoint with the current table completed. Passes each run of blocks that it
    /// no longer uses, and that could not be written before, to `freed` as segment, first block and
    /// length, ascending. Cost: the dirty segments.
    pub fn checkpointed(&mut self, mut freed: impl FnMut(SegmentIndex, u16, u16)) {
        let dirty = std::mem::replace(&mut self.dirty, Bitmap::new(self.segments));
        for segment in dirty.iter() {
            let index = segment as usize;
            let gone = self.maps[index].map(|bits| bits.kept & !bits.now);
            for (start, count) in runs(&gone) {
                freed(SegmentIndex(segment), start, count);
            }
            self.maps[index].iter_mut().for_each(|bits| bits.kept = bits.now);
            self.valid_at_checkpoint[index] = self.info[index].valid;
            if let Some(truth) = &mut self.truth {
                truth[index] = self.maps[index].map(|bits| bits.now);
            }
        }
        self.allocated = 0;
    }

    /// The blocks of a segment that may be discarded: the last checkpoint does not use them, and
    /// they were not discarded yet.
    pub fn discardable(&self, segment: SegmentIndex) -> BlockMap {
        let map = self.maps.get(segment.0 as usize);
        map.map_or(BlockMap::default(), |map| map.map(|bits| bits.stale & !(bits.now | bits.kept)))
    }

    /// Notes that a block was discarded.
    pub fn discarded(&mut self, segment: SegmentIndex, block: u16) {
        let map = self.maps.get_mut(segment.0 as usize);
        if let Some(bits) = map.and_then(|map| map.get_mut(usize::from(block / 64))) {
            bits.stale &= !(1 << (block % 64));
        }
    }

    /// The segment and block index of an address. Errors: `Corrupt` (outside the main area).
    pub fn door(geometry: &Geometry, at: BlockAddress) -> Result<(SegmentIndex, u16)> {
        geometry.main(at).ok_or_else(|| {
            let (first, end) = (geometry.main_address(), geometry.main_end());
            FsError::new(ErrorKind::Corrupt, format!("{at} is outside the main area; expected {first} up to {end:#x}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_go_both_ways_and_have_runs() {
        let mut bytes = [0; VALID_MAP_BYTES];
        for block in [0, 1, 7, 8, 63, 64, 200, 511] {
            crate::bits::msb_first::set(&mut bytes, block, true);
        }
        let map = decoded(&bytes);
        assert!(has(&map, 7) && has(&map, 511) && !has(&map, 2));
        assert_eq!(encoded(&map), bytes);
        assert_eq!(runs(&map).collect::<Vec<_>>(), [(0, 2), (7, 2), (63, 2), (200, 1), (511, 1)]);
        assert_eq!(runs(&[u64::MAX; 8]).collect::<Vec<_>>(), [(0, 512)]);
    }

    #[test]
    fn what_was_written_and_freed_since_the_checkpoint_is_not_usable_before_the_next() {
        let geometry = Geometry::for_tests(4096);
        let mut sit = Sit::empty(&geometry, true);
        let segment = SegmentIndex(3);
        assert!(sit.take(segment, 5, 10) && !sit.take(segment, 5, 10));
        assert!(sit.release(segment, 5, 20) && !sit.release(segment, 5, 20));
        assert!(!sit.is_usable(segment, 5) && sit.next_usable(segment, 5) == Some(6));
        assert_eq!((sit.valid(segment), sit.valid_at_checkpoint(segment)), (0, 1));
        let mut freed = Vec::new();
        sit.checkpointed(|segment, start, count| freed.push((segment.0, start, count)));
        assert_eq!(freed, [(3, 5, 1)]);
        assert!(sit.is_usable(segment, 5) && has(&sit.discardable(segment), 5));
        sit.take(segment, 5, 30);
        assert_eq!(sit.discardable(segment), BlockMap::default());
    }

    #[test]
    fn the_youngest_block_and_the_first_one_are_known_and_how_often_a_segment_was_filled_anew() {
        let geometry = Geometry::for_tests(4096);
        let mut sit = Sit::empty(&geometry, true);
        let segment = SegmentIndex(4);
        let section = segment.0 / sit.per_section();
        for (block, now) in [(0, 100), (1, 200)] {
            sit.take(segment, block, now);
        }
        sit.release(segment, 0, 900);
        assert_eq!((sit.section_written(section), sit.section_refilled(section)), ((100, 200), 1));
        // Empty, but not refilled before the next checkpoint.
        sit.release(segment, 1, 900);
        sit.take(segment, 2, 950);
        assert_eq!((sit.section_written(section), sit.section_refilled(section)), ((100, 950), 1));
        sit.release(segment, 2, 960);
        sit.checkpointed(|_, _, _| {});
        sit.take(segment, 0, 1000);
        assert_eq!((sit.section_written(section), sit.section_refilled(section)), ((1000, 1000), 2));
    }

    #[test]
    fn times_are_means_over_the_blocks_before() {
        let geometry = Geometry::for_tests(4096);
        let mut sit = Sit::empty(&geometry, true);
        let segment = SegmentIndex(0);
        for (block, now) in [(0, 100), (1, 200), (2, 400)] {
            sit.take(segment, block, now);
        }
        // 100; (100 * 1 + 200) / 2 = 150; (150 * 2 + 400) / 3 = 233.
        assert_eq!((sit.modified(segment), sit.newest()), (233, 400));
        sit.release(segment, 0, 1000);
        // (233 * 3 + 1000) / 4.
        assert_eq!(sit.modified(segment), 424);
    }
}
