//! The blocks in use, compared with the segment information table.

use std::collections::BTreeMap;

use super::nat::read_or_tell;
use super::report::{Draft, WHOLE_VOLUME, at, of};
use crate::bits::msb_first;
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::findings::FindingKind;
use crate::ids::{BlockAddress, Log, NodeId, SegmentIndex};
use crate::layout::sit::VALID_MAP_BYTES;
use crate::layout::{BLOCKS_PER_SEGMENT, Features, Geometry, SitEntry};
use crate::segments::sit::{BlockMap, decoded, has, runs};

/// SIT blocks per request.
const RUN: u32 = 256;

/// The state of a segment in use.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Blocks valid in the SIT.
    valid: BlockMap,
    /// Blocks that were claimed.
    claimed: BlockMap,
    /// The count in the SIT entry.
    count: u16,
    kind: u8,
    modified: u64,
}

/// The number of faulty blocks of one segment, and the first of them.
#[derive(Clone, Copy, Debug)]
struct Group {
    blocks: u32,
    first: BlockAddress,
    inode: NodeId,
}

/// The result of claiming a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// The block was not claimed before.
    First,
    /// The block was claimed before.
    Again,
    /// The block is outside the main area.
    Outside,
}

/// All segments. Memory: 8 bytes each, and 136 for each one in use.
#[derive(Debug)]
pub(super) struct Segments {
    known: Vec<Option<Box<Known>>>,
    /// Claimed blocks that are free in the SIT.
    unmarked: BTreeMap<u32, Group>,
    /// Nodes in data segments and data in node segments.
    mixed: BTreeMap<u32, Group>,
    claimed: u64,
}

fn set(map: &mut BlockMap, block: u16) {
    let words = map.len();
    map[usize::from(block / 64) % words] |= 1 << (block % 64);
}

fn count(map: &BlockMap) -> u32 {
    map.iter().map(|word| word.count_ones()).sum()
}

fn join(groups: &mut BTreeMap<u32, Group>, segment: SegmentIndex, first: BlockAddress, inode: NodeId) {
    let group = groups.entry(segment.0).or_insert(Group { blocks: 0, first, inode });
    group.blocks += 1;
    if first < group.first {
        (group.first, group.inode) = (first, inode);
    }
}

impl Segments {
    /// Reads the current SIT copies and applies the journal. Reports counts that do not match their
    /// maps, and invalid types.
    pub fn load(blocks: &dyn Blocks, state: &CheckpointState, report: &mut Draft) -> Self {
        let geometry = blocks.geometry();
        let segments = geometry.main_segments;
        let mut table = Self {
            known: (0..segments).map(|_| None).collect(),
            unmarked: BTreeMap::new(),
            mixed: BTreeMap::new(),
            claimed: 0,
        };
        let (size, per_block) = (geometry.block_size(), geometry.sit_entries() as u32);
        let end = segments.div_ceil(per_block).min(geometry.sit_blocks());
        let place = |block: u32| geometry.sit_place(block, msb_first::get(&state.sit_map, block as usize));
        let mut bytes = Vec::new();
        let mut block = 0;
        while block < end {
            let start = place(block);
            let rest = 1..RUN.min(end - block);
            let run = 1 + rest.take_while(|&more| Some(place(block + more)) == start.checked_add(more)).count() as u32;
            bytes.resize(run as usize * size, 0);
            if !read_or_tell(blocks, start, &mut bytes, "SIT", report) {
                break;
            }
            for (number, bytes) in (block..).zip(bytes.chunks_exact(size)) {
                for index in 0..per_block {
                    let Some(entry) = SitEntry::in_block(bytes, index as usize) else { break };
                    table.take_entry(number * per_block + index, &entry);
                }
            }
            block += run;
        }
        let mut seen = Vec::new();
        for (segment, entry) in &state.sit_journal {
            if segment.0 >= segments {
                report.fault(FindingKind::Sit, WHOLE_VOLUME, || {
                    format!("the SIT's journal has {segment}; the main area has {segments}")
                });
            } else if seen.contains(segment) {
                report.fault(FindingKind::Sit, WHOLE_VOLUME, || format!("the SIT's journal has {segment} twice"));
            }
            seen.push(*segment);
            table.check_hidden(geometry, state, *segment, report);
            table.take_entry(segment.0, entry);
        }
        table.check_entries(geometry, state, report);
        table
    }

    fn take_entry(&mut self, segment: u32, entry: &SitEntry) {
        let Some(place) = self.known.get_mut(segment as usize) else { return };
        let empty = entry.count_and_type.get() == 0 && entry.valid_map == [0; VALID_MAP_BYTES];
        *place = (!empty).then(|| {
            let (count, kind) = (entry.valid_blocks(), entry.raw_type());
            let (valid, modified) = (decoded(&entry.valid_map), entry.modified_seconds.get());
            Box::new(Known { valid, count, kind, modified, ..Known::default() })
        });
    }

    /// Checks the table's entry that a journal entry overrides: Linux reads it first and refuses
    /// the volume if it is wrong (segment.c, `build_sit_entries`).
    fn check_hidden(&self, geometry: &Geometry, state: &CheckpointState, segment: SegmentIndex, report: &mut Draft) {
        let Some(hidden) = self.get(segment) else { return };
        let (has, says) = (count(&hidden.valid), hidden.count);
        if has != u32::from(says) {
            let (block, _) = geometry.sit_block(segment);
            let place = at(geometry.sit_place(block, msb_first::get(&state.sit_map, block as usize)));
            report.fault(FindingKind::Sit, place, || {
                format!("the SIT entry of {segment} counts {says} valid blocks; its map has {has}; the journal has another entry")
            });
        }
    }

    fn each(&self) -> impl Iterator<Item = (SegmentIndex, &Known)> {
        (0..).map(SegmentIndex).zip(&self.known).filter_map(|(segment, known)| Some((segment, known.as_deref()?)))
    }

    fn check_entries(&self, geometry: &Geometry, state: &CheckpointState, report: &mut Draft) {
        let place = |segment| {
            let (block, _) = geometry.sit_block(segment);
            at(geometry.sit_place(block, msb_first::get(&state.sit_map, block as usize)))
        };
        for (segment, known) in self.each() {
            let has = count(&known.valid);
            if has != u32::from(known.count) {
                report.fault(FindingKind::Sit, place(segment), || {
                    format!("the SIT entry of {segment} counts {} valid blocks; its map has {has}", known.count)
                });
            }
            if Log::of(known.kind).is_none() {
                report.fault(FindingKind::Segment, place(segment), || {
                    format!("{segment} is of type {}; expected 0 to 5", known.kind)
                });
            }
        }
    }

    fn get(&self, segment: SegmentIndex) -> Option<&Known> {
        self.known.get(segment.0 as usize)?.as_deref()
    }

    /// Node segments according to the SIT, if their count matches their map.
    fn of_nodes(&self) -> impl Iterator<Item = (SegmentIndex, &Known)> {
        self.each().filter(|(_, known)| {
            Log::of(known.kind).is_some_and(Log::is_node) && count(&known.valid) == u32::from(known.count)
        })
    }

    /// Blocks of node segments that are valid in the SIT and within the devices, ascending.
    pub fn valid_nodes(&self, blocks: &dyn Blocks) -> impl Iterator<Item = BlockAddress> {
        let geometry = blocks.geometry();
        let segments = self.of_nodes().map(|(segment, known)| (geometry.segment_start(segment), known));
        segments.filter(|(start, _)| blocks.reaches(*start)).flat_map(|(start, known)| {
            let valid = (0..BLOCKS_PER_SEGMENT as u16).filter(|block| has(&known.valid, *block));
            valid.filter_map(move |block| start.checked_add(block.into()))
        })
    }

    /// The number of node blocks valid in the SIT.
    pub fn valid_node_count(&self) -> u64 {
        self.of_nodes().map(|(_, known)| u64::from(known.count)).sum()
    }

    /// Claims a block for an inode. The first claim of a block compares it with the SIT.
    pub fn claim(&mut self, geometry: &Geometry, here: BlockAddress, inode: NodeId, is_node: bool) -> Claimed {
        let Some((segment, block)) = geometry.main(here) else { return Claimed::Outside };
        let Some(known) = self.known.get_mut(segment.0 as usize) else { return Claimed::Outside };
        let known = known.get_or_insert_with(Box::default);
        if has(&known.claimed, block) {
            return Claimed::Again;
        }
        set(&mut known.claimed, block);
        self.claimed += 1;
        let is_of_kind = Log::of(known.kind).is_none_or(|log| log.is_node() == is_node);
        if !has(&known.valid, block) {
            join(&mut self.unmarked, segment, here, inode);
        } else if !is_of_kind {
            join(&mut self.mixed, segment, here, inode);
        }
        Claimed::First
    }

    /// Whether a block was claimed.
    pub fn is_claimed(&self, geometry: &Geometry, here: BlockAddress) -> bool {
        let place = geometry.main(here);
        place.is_some_and(|(segment, block)| self.get(segment).is_some_and(|known| has(&known.claimed, block)))
    }

    /// The type of a segment in the SIT; `None` if it is invalid.
    pub fn kind(&self, segment: SegmentIndex) -> Option<Log> {
        Log::of(self.get(segment).map_or(0, |known| known.kind))
    }

    /// The mean modification time of a segment's blocks in the SIT, in seconds.
    pub fn modified(&self, segment: SegmentIndex) -> u64 {
        self.get(segment).map_or(0, |known| known.modified)
    }

    /// The first block of the next free segment at or after an address: without claimed blocks, not
    /// used by a log, within the devices.
    pub fn free_segment(
        &self,
        geometry: &Geometry,
        state: &CheckpointState,
        from: Option<BlockAddress>,
    ) -> Option<BlockAddress> {
        let first = from.map_or(Some(0), |from| geometry.main(from).map(|(segment, _)| segment.0))?;
        let is_free = |segment: &SegmentIndex| {
            let claimed = self.get(*segment).is_some_and(|known| count(&known.claimed) > 0);
            !claimed && state.logs.iter().all(|log| log.segment != *segment)
        };
        (first..geometry.main_segments).map(SegmentIndex).find(is_free).map(|segment| geometry.segment_start(segment))
    }

    /// The number of claimed blocks, and of blocks valid in the SIT.
    pub fn totals(&self) -> (u64, u64) {
        (self.claimed, self.each().map(|(_, known)| u64::from(count(&known.valid))).sum())
    }

    /// The number of segments that are empty and not used by a log: by claims, and by the SIT.
    pub fn free(&self, state: &CheckpointState) -> (u64, u64) {
        let (mut by_claims, mut by_sit) = (self.known.len() as u64, self.known.len() as u64);
        let mut logs: Vec<SegmentIndex> = state.logs.iter().map(|log| log.segment).collect();
        logs.sort_unstable();
        logs.dedup();
        for (segment, known) in self.each().filter(|(segment, _)| !logs.contains(segment)) {
            let _ = segment;
            by_claims -= u64::from(count(&known.claimed) > 0);
            by_sit -= u64::from(count(&known.valid) > 0);
        }
        (by_claims - logs.len() as u64, by_sit - logs.len() as u64)
    }

    /// Compares the claims with the SIT. If not everything could be read (`whole` is false),
    /// unclaimed valid blocks are no fault.
    pub fn compare(&self, geometry: &Geometry, whole: bool, report: &mut Draft) {
        for (segment, group) in &self.unmarked {
            let Group { blocks, first, inode } = *group;
            report.fault(FindingKind::Sit, of(inode).at(first), || {
                format!(
                    "{blocks} blocks of {} are in use but free in the SIT, starting with this one",
                    SegmentIndex(*segment)
                )
            });
        }
        for (segment, group) in &self.mixed {
            let Group { blocks, first, inode } = *group;
            report.fault(FindingKind::Segment, of(inode).at(first), || {
                let segment = SegmentIndex(*segment);
                let kind = self
                    .get(segment)
                    .and_then(|known| Log::of(known.kind))
                    .map_or_else(String::new, |log| log.to_string());
                format!("{blocks} blocks of {segment} do not match its type ({kind}), starting with this one")
            });
        }
        for (segment, known) in self.each() {
            let mut left = known.valid;
            left.iter_mut().zip(&known.claimed).for_each(|(left, claimed)| *left &= !claimed);
            let Some((first, _)) = runs(&left).next() else { continue };
            let first = BlockAddress(geometry.segment_start(segment).0.wrapping_add(first.into()));
            let detail = || {
                format!("{} blocks of {segment} are valid in the SIT but unused, starting with this one", count(&left))
            };
            match whole {
                true => report.fault(FindingKind::Sit, at(first), detail),
                false => report.harmless(FindingKind::Sit, at(first), detail),
            }
        }
    }

    /// Checks the logs: each has a segment of its own and of its type, its next block is free, and
    /// in a segment filled from empty no valid block follows.
    pub fn check_logs(&self, geometry: &Geometry, state: &CheckpointState, report: &mut Draft) {
        let read_only = geometry.features.has(Features::READ_ONLY);
        for (index, (log, here)) in Log::ALL.into_iter().zip(&state.logs).enumerate() {
            let next = BlockAddress(geometry.segment_start(here.segment).0.wrapping_add(here.next.into()));
            let segment = here.segment;
            // On a volume that is never written, one segment serves three logs.
            if read_only {
                continue;
            }
            let other = Log::ALL.into_iter().zip(&state.logs).take(index).find(|(_, other)| other.segment == segment);
            if let Some((other, _)) = other {
                report.fault(FindingKind::Segment, at(next), || {
                    format!("the {log} log is in {segment}, which the {other} log uses")
                });
                continue;
            }
            let known = self.get(segment).copied().unwrap_or_default();
            if known.kind != log as u8 && Log::of(known.kind).is_some() {
                let is = Log::of(known.kind).map_or_else(String::new, |kind| kind.to_string());
                report.fault(FindingKind::Segment, at(next), || {
                    format!("the {log} log is in {segment}, which is of type {is}")
                });
            }
            let used = |block: u16| has(&known.valid, block);
            if used(here.next) {
                report.fault(FindingKind::Segment, at(next), || format!("the next block of the {log} log is in use"));
            } else if !here.ssr && (here.next..BLOCKS_PER_SEGMENT as u16).any(used) {
                report.fault(FindingKind::Segment, at(next), || {
                    format!(
                        "blocks of {segment} are in use after the next one of the {log} log, which writes sequentially"
                    )
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nandkit_vfs::Result;

    use super::*;
    use crate::segments::tests::shape;

    /// A volume whose devices hold only its first blocks.
    struct Cut {
        geometry: Geometry,
        end: BlockAddress,
    }

    impl Blocks for Cut {
        fn geometry(&self) -> &Geometry {
            &self.geometry
        }

        fn read(&self, _: nandkit_units::Cause, _: BlockAddress, _: &mut [u8]) -> Result<()> {
            Ok(())
        }

        fn reaches(&self, at: BlockAddress) -> bool {
            at < self.end
        }
    }

    /// Zeroes are not nodes: otherwise a small file that claims terabytes of them would take hours.
    #[test]
    fn nodes_behind_the_end_of_the_devices_are_none() {
        let geometry = shape(4000, 1, 1);
        let full = Known { valid: BlockMap::from([u64::MAX; 8]), count: 512, kind: 4, ..Known::default() };
        let known = (0..geometry.main_segments).map(|_| Some(Box::new(full))).collect();
        let table = Segments { known, unmarked: BTreeMap::new(), mixed: BTreeMap::new(), claimed: 0 };
        let end = geometry.segment_start(SegmentIndex(3));
        let cut = Cut { geometry, end };
        assert_eq!(table.valid_nodes(&cut).count(), 3 * BLOCKS_PER_SEGMENT as usize);
        assert_eq!(table.valid_node_count(), 4000 * 512);
    }
}
