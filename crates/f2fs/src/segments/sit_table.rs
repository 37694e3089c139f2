//! The SIT on the device: which copy of each block is current, and the journal (segment.c,
//! `f2fs_flush_sit_entries`).

use std::collections::{BTreeMap, BTreeSet};

use nandkit_vfs::Result;

use super::Segments;
use crate::bits::msb_first;
use crate::blocks::Blocks;
use crate::encode::sit_nat::put_sit;
use crate::ids::SegmentIndex;
use crate::layout::SitEntry;
use crate::layout::summary::{SummaryView, sit_journal_room};
use crate::meta::MetaBlocks;

/// What a checkpoint stores about the SIT besides its entries.
#[derive(Clone, Debug)]
pub(crate) struct SitTable {
    map: Vec<u8>,
    journal: BTreeSet<SegmentIndex>,
    entries: BTreeMap<SegmentIndex, SitEntry>,
}

impl SitTable {
    /// The state of the last checkpoint.
    pub fn new(map: Vec<u8>, journal: &[(SegmentIndex, SitEntry)]) -> Self {
        let entries: BTreeMap<_, _> = journal.iter().copied().collect();
        Self { map, journal: entries.keys().copied().collect(), entries }
    }

    /// Moves changed entries into the journal and into blocks, which wait in `meta`. Changes are
    /// grouped by block, smallest groups first; from the first group on that does not fit into the
    /// journal, they go into the other copies of their blocks. Blocks are built entirely from
    /// memory. Cost: the blocks of the groups.
    pub fn flush(&mut self, segments: &Segments, meta: &mut MetaBlocks, device: &dyn Blocks) -> Result<()> {
        let geometry = device.geometry();
        let room = sit_journal_room(SummaryView::journal_bytes(geometry.summary_bytes()));
        let mut changed: BTreeSet<SegmentIndex> = segments.dirty_entries().map(|(segment, _)| segment).collect();
        if self.journal.len() + changed.len() > room {
            changed.extend(std::mem::take(&mut self.journal));
        }
        let mut sets: BTreeMap<u32, Vec<SegmentIndex>> = BTreeMap::new();
        for segment in changed {
            sets.entry(geometry.sit_block(segment).0).or_default().push(segment);
        }
        let mut sets: Vec<_> = sets.into_iter().collect();
        sets.sort_by_key(|(block, set)| (set.len(), *block));
        let mut into_journal = true;
        for (number, set) in sets {
            into_journal &= self.journal.len() + set.len() <= room;
            if into_journal {
                self.journal.extend(set);
                continue;
            }
            let mut block = vec![0; geometry.block_size()];
            let first = number * geometry.sit_entries() as u32;
            for index in 0..geometry.sit_entries() {
                let segment = SegmentIndex(first + index as u32);
                if segment.0 < geometry.main_segments {
                    put_sit(&mut block, index, &segments.sit().entry(segment));
                }
            }
            let second = !msb_first::get(&self.map, number as usize);
            msb_first::set(&mut self.map, number as usize, second);
            meta.change(geometry.sit_place(number, second), block.into());
        }
        self.entries = self.journal.iter().map(|&segment| (segment, segments.sit().entry(segment))).collect();
        Ok(())
    }

    /// Which copy of each block is current.
    pub fn map(&self) -> &[u8] {
        &self.map
    }

    /// The journal.
    pub fn journal(&self) -> Vec<(SegmentIndex, SitEntry)> {
        self.entries.iter().map(|(&segment, &entry)| (segment, entry)).collect()
    }
}
