//! Allocates addresses for a victim's live blocks so that blocks remapped together keep their
//! alignment.

use std::collections::{BTreeMap, VecDeque};

use nandkit_vfs::Result;

use super::collected::CollectableVolume;
use super::mover::LiveBlock;
use crate::device::Pair;
use crate::ids::{BlockAddress, Log};
use crate::segments::Segments;
use crate::segments::sit::BLOCKS;

/// Allocates an address for each block, in this order as far as units allow. Returns the blocks in
/// the order of their allocation. Errors: those of the allocation; then none stays allocated.
pub(super) fn place<V: CollectableVolume>(
    volume: &mut V,
    live: Vec<LiveBlock>,
    unit: u32,
) -> Result<(Vec<LiveBlock>, Vec<Pair>)> {
    let (mut placed, mut pairs) = (Vec::with_capacity(live.len()), Vec::with_capacity(live.len()));
    let mut waiting = Waiting::new(live, unit.max(1));
    let mut blocks = Vec::new();
    while waiting.next(volume.segments(), &mut blocks) {
        let now = volume.now();
        let found = volume.with_space(|space| {
            for block in &blocks {
                match space.allocate_moved(block.from, block.owner, now) {
                    Ok(to) => pairs.push((block.from, to)),
                    Err(error) => {
                        pairs.iter().for_each(|&(_, to): &Pair| space.free(to, now));
                        return Err(error);
                    }
                }
            }
            Ok(())
        });
        found?;
        placed.append(&mut blocks);
    }
    Ok((placed, pairs))
}

/// Blocks that have no address yet.
struct Waiting {
    unit: u32,
    /// Units of the victim that are live throughout.
    whole: VecDeque<Vec<LiveBlock>>,
    single: VecDeque<LiveBlock>,
}

impl Waiting {
    fn new(live: Vec<LiveBlock>, unit: u32) -> Self {
        if unit == 1 {
            return Self { unit, whole: VecDeque::new(), single: live.into() };
        }
        let mut by_unit: BTreeMap<u32, Vec<LiveBlock>> = BTreeMap::new();
        for block in &live {
            by_unit.entry(block.from.0 / unit).or_default().push(*block);
        }
        let (mut whole, mut single) = (VecDeque::new(), VecDeque::new());
        // A unit is placed when its first block comes up.
        for block in live {
            let blocks = by_unit.get_mut(&(block.from.0 / unit));
            match blocks {
                Some(blocks) if blocks.len() == unit as usize => {
                    let mut blocks = std::mem::take(blocks);
                    blocks.sort_unstable_by_key(|block| block.from);
                    whole.push_back(blocks);
                }
                Some(blocks) if !blocks.is_empty() => single.push_back(block),
                _ => {}
            }
        }
        Self { unit, whole, single }
    }

    /// Adds the blocks for the next addresses: a unit at an address where one fits; before that
    /// single blocks or, without any, the blocks of a unit one by one, which are copied. Returns
    /// whether there are any.
    fn next(&mut self, segments: &Segments, blocks: &mut Vec<LiveBlock>) -> bool {
        if self.whole.front().is_some() && fits(segments, self.unit) {
            blocks.extend(self.whole.pop_front().unwrap_or_default());
            return true;
        }
        if self.single.is_empty() {
            self.single.extend(self.whole.pop_front().unwrap_or_default());
        }
        blocks.extend(self.single.pop_front());
        !blocks.is_empty()
    }
}

/// Whether the cold data log can take a whole unit next.
fn fits(segments: &Segments, unit: u32) -> bool {
    if segments.options.aged_gaps.is_some() {
        return false;
    }
    let log = segments.log_state(Log::ColdData);
    let first = BlockAddress(segments.geometry().segment_start(log.segment).0 + u32::from(log.next));
    let end = u32::from(log.next) + unit;
    if !first.0.is_multiple_of(unit) || end > u32::from(BLOCKS) {
        return false;
    }
    let usable = |block: u16| segments.sit().next_usable(log.segment, block) == Some(block);
    !log.ssr || (log.next..end as u16).all(usable)
}
