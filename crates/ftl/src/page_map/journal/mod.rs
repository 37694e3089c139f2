//! The journal: everything that page tags do not record. This module has its position, its state in
//! memory, and the writing; [`layout`] has the bytes.

pub(crate) mod layout;
mod write;

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, FlashGeometry};

use super::options::JournalOptions;
use crate::failure::{Failure, LayerResult};
use layout::{Change, HEADER_BYTES, LINE_BYTES, Line, Snapshot};

/// The journal of an open device.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub rows: u32,
    pub aliases_max: u32,
    /// Pages of the host and of cleaning between two checkpoints.
    pub checkpoint_every: u64,
    /// The number of lines above the base at which a checkpoint is due.
    pub lines_due: usize,
    /// Good blocks that a half needs.
    half_blocks: usize,
    /// All journal blocks, row by row; even rows form the first half.
    blocks: Vec<BlockIndex>,
    half: usize,
    pub generation: u64,
    group: u32,
    /// The next page in the current half, counted over its good blocks.
    next_page: u32,
    /// Everything up to this stamp is in the map pages.
    pub base: u64,
    /// Superblocks that were open at the base, and their page counts.
    pub fills: Vec<[u32; 2]>,
    /// All lines above the base, oldest first.
    pub lines: Vec<Line>,
    /// The number of lines that are on flash.
    written: usize,
    /// The current half must not be continued, because it was found at a start.
    pub is_stale: bool,
    pub is_checkpointing: bool,
    /// Logical pages programmed before the last checkpoint.
    pub programmed_before: u64,
}

/// Sizes that determine how many blocks the journal needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalSizes {
    pub streams: usize,
    pub blocks: usize,
    pub superblocks: usize,
    pub map_pages: usize,
    pub aliases_max: u32,
    pub slots: u32,
}

/// The least number of line groups that fit in a half.
const GROUPS_MIN: usize = 8;

impl JournalSizes {
    /// The number of lines at which a checkpoint is due, and the most that can exist: one more
    /// command, and the lines that cleaning writes during the checkpoint.
    ///
    /// Cleaning writes a line for each page that it finds lost, also during a checkpoint, when no
    /// other checkpoint can start. But a lost page frees a slot, and cleaning stops once the map
    /// pages have room, each stream has a free superblock and one is held back. So the only
    /// additional lost pages are those of the last victim, and of the one before the checkpoint.
    fn lines(&self) -> (usize, usize) {
        let due = (self.slots as usize / 4).clamp(32, 4096);
        let lost = self.map_pages + (self.streams + 4) * self.slots as usize;
        (due, 2 * due + 2 * self.aliases_max as usize + 64 + lost)
    }

    /// The number of good blocks that a half needs.
    fn half_blocks(&self, geometry: &FlashGeometry) -> usize {
        let room = (geometry.page_size as usize).saturating_sub(HEADER_BYTES);
        let (due, most) = self.lines();
        let numbers = self.map_pages + self.aliases_max as usize;
        let snapshot = Snapshot::bytes(self.streams, self.blocks, self.superblocks, numbers, most).div_ceil(room);
        let lines = (due * LINE_BYTES).div_ceil(room).max(GROUPS_MIN);
        (snapshot + 1 + lines).div_ceil(geometry.pages_per_block as usize)
    }
}

impl Journal {
    /// An empty journal for a new device.
    pub fn new<F: Flash>(flash: &F, options: &JournalOptions, sizes: JournalSizes) -> LayerResult<Self> {
        let geometry = *flash.geometry();
        let needed = sizes.half_blocks(&geometry) + 1;
        let by_die = blocks_by_die(&geometry);
        let longest = by_die.iter().map(Vec::len).max().unwrap_or(0) as u32;
        for rows in 1..=longest {
            let blocks = first_rows(&by_die, rows);
            let good = [0, 1].map(|half| good_of(flash, &blocks, half).count());
            if good.iter().all(|good| *good >= needed) {
                return Ok(Self {
                    rows,
                    blocks,
                    half: 1,
                    generation: 0,
                    is_stale: true,
                    ..Self::blank(options, &sizes, &geometry)
                });
            }
        }
        let all = geometry.blocks;
        Err(Failure::unfit(format!(
            "a chip of {all} blocks; expected more: the journal alone takes two halves of {needed} good blocks"
        )))
    }

    fn blank(options: &JournalOptions, sizes: &JournalSizes, geometry: &FlashGeometry) -> Self {
        Self {
            rows: 0,
            aliases_max: sizes.aliases_max,
            checkpoint_every: options.checkpoint_every,
            lines_due: sizes.lines().0,
            half_blocks: sizes.half_blocks(geometry),
            blocks: Vec::new(),
            half: 0,
            generation: 0,
            group: 0,
            next_page: 0,
            base: 0,
            fills: Vec::new(),
            lines: Vec::new(),
            written: 0,
            is_stale: false,
            is_checkpointing: false,
            programmed_before: 0,
        }
    }

    /// The journal found on a chip: it continues in the other half before anything else changes.
    pub fn found(
        geometry: &FlashGeometry,
        found: &JournalOnFlash,
        options: &JournalOptions,
        sizes: &JournalSizes,
    ) -> Self {
        Self {
            rows: found.snapshot.rows,
            aliases_max: found.snapshot.aliases_max,
            blocks: first_rows(&blocks_by_die(geometry), found.snapshot.rows),
            half: found.half,
            generation: found.generation,
            base: found.snapshot.base,
            fills: found.snapshot.fills.clone(),
            is_stale: true,
            ..Self::blank(options, sizes, geometry)
        }
    }

    /// Drops lines of single pages that a later line of the same page supersedes: cleaning writes
    /// one for each alias each time it moves it.
    pub fn leave_out_superseded(&mut self) {
        let mut later = std::collections::BTreeSet::new();
        let mut keep: Vec<bool> = Vec::with_capacity(self.lines.len());
        for line in self.lines.iter().rev() {
            keep.push(match line.change {
                Change::Point { page, .. } | Change::Lost { page } | Change::Trim { first: page, count: 1 } => {
                    later.insert(page)
                }
                Change::Trim { .. } | Change::Member { .. } | Change::Void { .. } => true,
            });
        }
        let mut keep = keep.into_iter().rev();
        self.lines.retain(|_| keep.next().unwrap_or(true));
        self.written = 0;
    }

    /// The number of good blocks in both halves.
    pub fn good_blocks<F: Flash>(&self, flash: &F) -> u64 {
        self.blocks.iter().filter(|block| !flash.is_bad(**block)).count() as u64
    }

    /// Lines that are not on flash yet.
    pub fn waiting(&self) -> &[Line] {
        self.lines.get(self.written..).unwrap_or(&[])
    }

    /// Adds a line; one that continues the previous trim is merged into it.
    pub fn add(&mut self, line: Line) {
        use layout::Change::Trim;
        if self.written < self.lines.len()
            && let Some(Line { stamp, change: Trim { first, count } }) = self.lines.last_mut()
            && *stamp + 1 == line.stamp
            && let Trim { first: next, count: more } = line.change
            && *first + *count == next
        {
            (*stamp, *count) = (line.stamp, *count + more);
            return;
        }
        self.lines.push(line);
    }
}

/// A journal as found on flash.
pub(crate) struct JournalOnFlash {
    pub half: usize,
    pub generation: u64,
    pub snapshot: Snapshot,
    /// The lines after the snapshot.
    pub lines: Vec<Line>,
}

/// The blocks of each die, in order.
pub(crate) fn blocks_by_die(geometry: &FlashGeometry) -> Vec<Vec<BlockIndex>> {
    let mut by_die = vec![Vec::new(); geometry.dies.max(1) as usize];
    for block in (0..geometry.blocks).map(BlockIndex) {
        if let Some(blocks) = by_die.get_mut(geometry.die_of(block) as usize) {
            blocks.push(block);
        }
    }
    by_die
}

/// The first `rows` blocks of each die, row by row.
fn first_rows(by_die: &[Vec<BlockIndex>], rows: u32) -> Vec<BlockIndex> {
    let longest = by_die.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest.min(rows as usize))
        .flat_map(|row| by_die.iter().filter_map(move |blocks| blocks.get(row).copied()))
        .collect()
}

/// The good blocks of a half.
pub(crate) fn good_of<'a, F: Flash>(
    flash: &'a F,
    blocks: &'a [BlockIndex],
    half: usize,
) -> impl Iterator<Item = BlockIndex> + 'a {
    blocks.iter().copied().skip(half).step_by(2).filter(|block| !flash.is_bad(*block))
}

/// Every block that a half could have, for a caller that does not know the number of rows yet.
pub(crate) fn all_rows(geometry: &FlashGeometry) -> Vec<BlockIndex> {
    first_rows(&blocks_by_die(geometry), u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_page_the_last_line_is_left_and_ranges_stay() {
        let sizes = JournalSizes { streams: 1, blocks: 8, superblocks: 8, map_pages: 1, aliases_max: 4, slots: 8 };
        let mut journal = Journal::blank(&JournalOptions::default(), &sizes, &FlashGeometry::default());
        let changes = [
            Change::Point { page: 1, slot: 10 },
            Change::Trim { first: 0, count: 9 },
            Change::Point { page: 2, slot: 11 },
            Change::Trim { first: 1, count: 1 },
            Change::Void { first: 3, last: 4 },
            Change::Point { page: 2, slot: 12 },
            Change::Lost { page: 1 },
        ];
        (1u64..).zip(changes).for_each(|(stamp, change)| journal.add(Line { stamp: stamp * 2, change }));
        journal.leave_out_superseded();
        let left: Vec<u64> = journal.lines.iter().map(|line| line.stamp / 2).collect();
        assert_eq!(left, [2, 5, 6, 7]);
        // A trim that continues the previous one forms one line with it, if no stamp lies between
        // them.
        let trim = |stamp, first| Line { stamp, change: Change::Trim { first, count: 1 } };
        for line in [trim(100, 5), trim(101, 6), trim(103, 7)] {
            journal.add(line);
        }
        assert_eq!(journal.lines.len(), 6);
    }
}
