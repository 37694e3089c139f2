//! The journal: what the tags of pages do not tell. Its place, its state in memory, and how it is
//! written; [`layout`] has the bytes.

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
    /// Lines above the base at which a checkpoint is due.
    pub lines_due: usize,
    /// Good blocks that a half needs.
    half_blocks: usize,
    /// All its blocks, row by row; the even ones are the first half.
    blocks: Vec<BlockIndex>,
    half: usize,
    pub generation: u64,
    group: u32,
    /// The next page of the half, counted over its good blocks.
    next_page: u32,
    /// What is at or below this stamp is in the map pages.
    pub base: u64,
    /// Superblocks that were open at the base, with their pages.
    pub fills: Vec<[u32; 2]>,
    /// All lines above the base, the oldest first.
    pub lines: Vec<Line>,
    /// How many of them are on flash.
    written: usize,
    /// The half may not be continued: it was found after a start.
    pub is_stale: bool,
    pub is_checkpointing: bool,
    /// Logical pages that were programmed before the last checkpoint.
    pub programmed_before: u64,
}

/// Sizes that decide how many blocks the journal has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalSizes {
    pub streams: usize,
    pub blocks: usize,
    pub superblocks: usize,
    pub map_pages: usize,
    pub aliases_max: u32,
    pub slots: u32,
}

/// Groups of lines that a half has room for, at the least.
const GROUPS_MIN: usize = 8;

impl JournalSizes {
    /// Lines at which a checkpoint is due, and the most that there can be: one more command, and
    /// what cleaning writes during the checkpoint.
    ///
    /// Cleaning writes a line for each page that it finds lost, also during a checkpoint, which
    /// cannot be begun again then. But a lost page is a slot that is won, and cleaning goes on only
    /// until the map pages have room, and a free superblock for each stream and one held back: no
    /// more pages are lost on the way, but for those of the last victim, and of the one before the
    /// checkpoint.
    fn lines(&self) -> (usize, usize) {
        let due = (self.slots as usize / 4).clamp(32, 4096);
        let lost = self.map_pages + (self.streams + 4) * self.slots as usize;
        (due, 2 * due + 2 * self.aliases_max as usize + 64 + lost)
    }

    /// Good blocks that a half needs.
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
    /// A journal without anything in it, for a device that is being made.
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

    /// The journal that was found on a chip: it goes on in the other half before anything else is
    /// changed.
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

    /// Leaves out lines of single pages that a later one of the same page makes void: cleaning
    /// writes one for each alias that it moves, as often as it moves it.
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

    /// Good blocks of both halves.
    pub fn good_blocks<F: Flash>(&self, flash: &F) -> u64 {
        self.blocks.iter().filter(|block| !flash.is_bad(**block)).count() as u64
    }

    /// Lines that are not on flash yet.
    pub fn waiting(&self) -> &[Line] {
        self.lines.get(self.written..).unwrap_or(&[])
    }

    /// Adds a line; one that only goes on with the trim before it is made part of that.
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

/// A journal as it is on flash.
pub(crate) struct JournalOnFlash {
    pub half: usize,
    pub generation: u64,
    pub snapshot: Snapshot,
    /// The lines behind the snapshot.
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

/// The first rows of the dies' blocks, row by row.
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

/// Every block that a half could have, for who does not know yet how many rows there are.
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
        // What goes on with the trim before it is one line, if nothing had a stamp between.
        let trim = |stamp, first| Line { stamp, change: Change::Trim { first, count: 1 } };
        for line in [trim(100, 5), trim(101, 6), trim(103, 7)] {
            journal.add(line);
        }
        assert_eq!(journal.lines.len(), 6);
    }
}
