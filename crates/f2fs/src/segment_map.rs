//! A map of the main area's segments for display: how full each is, its type and its log.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::bits::msb_first;
use crate::blocks::Blocks;
use crate::checkpoint_state::{CheckpointState, LogState};
use crate::ids::{Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, SitEntry};

/// A segment as recorded by the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Valid blocks according to its map: 0 to 512.
    pub valid: u16,
    /// The segment's type; `None` for an invalid number.
    pub kind: Option<Log>,
}

/// The property that a segment's character shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The share of valid blocks, in tenths.
    Fill,
    /// The segment's type.
    Kind,
}

impl Shown {
    /// The meaning of the characters, one line each.
    pub const fn legend(self) -> &'static [&'static str] {
        match self {
            Self::Fill => &[
                ". free   0 to 9 valid blocks in tenths, rounded down   # all blocks valid",
                "open logs: H W C hot, warm and cold data   h w c hot, warm and cold node",
            ],
            Self::Kind => &[". free   H W C hot, warm and cold data   h w c hot, warm and cold node   ? invalid type"],
        }
    }
}

/// The segments of the main area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMap {
    /// The segments by number.
    pub segments: Vec<Segment>,
    /// The logs, by [`Log::index`].
    pub logs: [LogState; Log::COUNT],
}

/// Totals of the segments of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindTotals {
    /// Segments that have valid blocks or belong to a log.
    pub segments: u32,
    /// Their valid blocks.
    pub valid_blocks: u64,
    /// Segments without a gap.
    pub full: u32,
}

impl SegmentMap {
    /// The names of the types, by [`Log::index`].
    pub const NAMES: [&'static str; Log::COUNT] =
        ["hot data", "warm data", "cold data", "hot node", "warm node", "cold node"];

    /// Reads the SIT of a checkpoint: the current copy of each block, with the journal's entries
    /// overriding the table's. Errors: `Device`, `Corrupt` (the device ends before). Cost: reads
    /// each SIT block once; memory: four bytes per segment.
    pub fn read(blocks: &dyn Blocks, state: &CheckpointState) -> Result<Self> {
        let geometry = blocks.geometry();
        let count = geometry.main_segments as usize;
        let mut segments = Vec::new();
        let mut block = vec![0; geometry.block_size()];
        let mut number = 0;
        while segments.len() < count {
            let second = msb_first::get(&state.sit_map, number as usize);
            blocks.read(Cause::Metadata, geometry.sit_place(number, second), &mut block)?;
            let entries = (0..geometry.sit_entries()).filter_map(|index| SitEntry::in_block(&block, index));
            segments.extend(entries.take(count - segments.len()).map(|entry| Segment::of(&entry)));
            number += 1;
        }
        for (segment, entry) in &state.sit_journal {
            if let Some(place) = segments.get_mut(segment.0 as usize) {
                *place = Segment::of(entry);
            }
        }
        Ok(Self { segments, logs: state.logs })
    }

    /// The log that writes to a segment. If several do, as on volumes that were never written, the
    /// one of the segment's type, else the first.
    pub fn log_of(&self, segment: SegmentIndex) -> Option<Log> {
        let mut here = Log::ALL.into_iter().zip(&self.logs).filter(|(_, state)| state.segment == segment);
        let (first, _) = here.next()?;
        let kind = self.segments.get(segment.0 as usize).and_then(|segment| segment.kind);
        Some(here.map(|(log, _)| log).find(|log| Some(*log) == kind).unwrap_or(first))
    }

    /// One character per segment in rows of `length`, each row with its first segment. Cost: one
    /// pass.
    pub fn rows(&self, shown: Shown, length: usize) -> impl Iterator<Item = (SegmentIndex, String)> {
        let length = length.max(1);
        (0..).zip(self.segments.chunks(length)).map(move |(row, segments)| {
            let first = row * length as u32;
            let row = (first..).zip(segments).map(|(number, segment)| self.character(shown, number, segment));
            (SegmentIndex(first), row.collect())
        })
    }

    fn character(&self, shown: Shown, number: u32, segment: &Segment) -> char {
        let log = self.log_of(SegmentIndex(number));
        match (shown, log) {
            (Shown::Fill, Some(log)) => letter(log),
            (Shown::Kind, Some(log)) => segment.kind.map_or(letter(log), letter),
            (_, None) if segment.valid == 0 => '.',
            (Shown::Kind, None) => segment.kind.map_or('?', letter),
            (Shown::Fill, None) if u32::from(segment.valid) >= BLOCKS_PER_SEGMENT => '#',
            (Shown::Fill, None) => {
                let tenths = u32::from(segment.valid) * 10 / BLOCKS_PER_SEGMENT;
                char::from_digit(tenths, 10).unwrap_or('9')
            }
        }
    }

    /// The number of segments that are empty and belong to no log.
    pub fn free(&self) -> u32 {
        let empty = (0..).zip(&self.segments).filter(|(_, segment)| segment.valid == 0);
        empty.filter(|(number, _)| self.log_of(SegmentIndex(*number)).is_none()).count() as u32
    }

    /// The totals per type, by [`Log::index`]; free segments are not counted.
    pub fn totals(&self) -> [KindTotals; Log::COUNT] {
        let mut totals = [KindTotals::default(); Log::COUNT];
        for (number, segment) in (0..).zip(&self.segments) {
            let in_use = segment.valid > 0 || self.log_of(SegmentIndex(number)).is_some();
            let Some(total) = segment.kind.and_then(|kind| totals.get_mut(kind.index())).filter(|_| in_use) else {
                continue;
            };
            total.segments += 1;
            total.valid_blocks += u64::from(segment.valid);
            total.full += u32::from(u32::from(segment.valid) == BLOCKS_PER_SEGMENT);
        }
        totals
    }
}

impl Segment {
    fn of(entry: &SitEntry) -> Self {
        Self { valid: entry.counted_blocks() as u16, kind: entry.log() }
    }
}

const fn letter(log: Log) -> char {
    match log {
        Log::HotData => 'H',
        Log::WarmData => 'W',
        Log::ColdData => 'C',
        Log::HotNode => 'h',
        Log::WarmNode => 'w',
        Log::ColdNode => 'c',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> SegmentMap {
        let log = |segment| LogState { segment: SegmentIndex(segment), next: 0, ssr: false };
        let segment = |valid, kind| Segment { valid, kind };
        SegmentMap {
            segments: vec![
                segment(0, Some(Log::HotData)),
                segment(1, Some(Log::HotData)),
                segment(51, Some(Log::WarmData)),
                segment(52, Some(Log::WarmNode)),
                segment(511, Some(Log::ColdData)),
                segment(512, Some(Log::ColdNode)),
                segment(7, None),
                segment(3, Some(Log::HotNode)),
                segment(0, Some(Log::ColdNode)),
            ],
            logs: [log(0), log(10), log(11), log(7), log(8), log(12)],
        }
    }

    #[test]
    fn each_segment_has_its_character() {
        let map = map();
        let rows: Vec<_> = map.rows(Shown::Fill, 5).collect();
        assert_eq!(rows, [(SegmentIndex(0), "H0019".to_owned()), (SegmentIndex(5), "#0hw".to_owned())]);
        let rows: Vec<_> = map.rows(Shown::Kind, 100).collect();
        assert_eq!(rows, [(SegmentIndex(0), "HHWwCc?hc".to_owned())]);
    }

    #[test]
    fn types_are_summed_up() {
        let map = map();
        assert_eq!(map.free(), 0);
        let totals = map.totals();
        assert_eq!(totals[Log::HotData.index()], KindTotals { segments: 2, valid_blocks: 1, full: 0 });
        assert_eq!(totals[Log::ColdNode.index()], KindTotals { segments: 2, valid_blocks: 512, full: 1 });
        assert_eq!(SegmentMap { segments: vec![Segment::default(); 3], logs: map.logs }.free(), 2);
    }
}
