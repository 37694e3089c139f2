//! Static wear levelling: moving cold data from little-worn blocks to worn ones. See
//! `docs/design/08-mapping-cache.md`.

use nandkit_flash::Flash;
use nandkit_units::{Cause, Context};

use super::PageMapFtl;
use crate::failure::{Failure, LayerResult};

/// Tracks which superblocks keep cold data on little-worn blocks.
#[derive(Clone, Debug)]
pub(crate) struct Leveling {
    /// The tolerated difference in erase counts.
    threshold: u32,
    /// The number of superblocks opened so far, except those for cold data.
    turn: u64,
    /// For each superblock: the turn at which it was last opened.
    opened: Vec<u64>,
    /// The turn of the last scan of all superblocks, and the highest erase count then.
    looked: u64,
    most: u32,
    /// A superblock was opened since the last move.
    may_move: bool,
    /// Superblocks to move, the coldest last.
    due: Vec<u32>,
    /// The number of superblocks moved.
    pub moved: u64,
}

/// Scans of all superblocks per turn-over of the device.
const LOOKS: u64 = 16;

impl Leveling {
    /// `None` if wear levelling is off.
    pub fn new(threshold: u32, superblocks: u32) -> Option<Self> {
        (threshold > 0).then(|| Self {
            threshold,
            turn: 0,
            opened: vec![0; superblocks as usize],
            looked: 0,
            most: 0,
            may_move: false,
            due: Vec::new(),
            moved: 0,
        })
    }

    fn note_opened(&mut self, superblock: u32, is_cold: bool) {
        self.turn += u64::from(!is_cold);
        self.may_move |= !is_cold;
        if let Some(opened) = self.opened.get_mut(superblock as usize) {
            *opened = self.turn;
        }
    }

    /// The next superblock to move, the one opened longest ago first. It must be less worn than the
    /// most-worn one by more than the threshold, and must not have been opened for as long as it
    /// takes to open all superblocks once, so that its data are cold. `is_closed` tells which
    /// superblocks hold data and are closed. Cost: a pass over all superblocks a few times per
    /// turn-over.
    fn take_due(&mut self, erases: &[u32], is_closed: impl Fn(u32) -> bool) -> Option<u32> {
        if !std::mem::take(&mut self.may_move) {
            return None;
        }
        let count = erases.len() as u64;
        if self.due.is_empty() {
            if self.turn < self.looked + (count / LOOKS).max(1) {
                return None;
            }
            (self.looked, self.most) = (self.turn, erases.iter().max().copied().unwrap_or(0));
            let opened = |superblock: &u32| self.opened.get(*superblock as usize).copied();
            let all = 0..erases.len() as u32;
            let mut due: Vec<u32> = all.filter(|one| self.is_due(*one, erases) && is_closed(*one)).collect();
            due.sort_by_key(|superblock| std::cmp::Reverse((opened(superblock), *superblock)));
            self.due = due;
        }
        while let Some(superblock) = self.due.pop() {
            if self.is_due(superblock, erases) && is_closed(superblock) {
                return Some(superblock);
            }
        }
        None
    }

    /// Whether a superblock is little worn, and its data are cold.
    fn is_due(&self, superblock: u32, erases: &[u32]) -> bool {
        let (Some(erases_of), Some(opened)) = (erases.get(superblock as usize), self.opened.get(superblock as usize))
        else {
            return false;
        };
        erases_of.saturating_add(self.threshold) < self.most && opened + erases.len() as u64 <= self.turn
    }
}

impl<F> PageMapFtl<F> {
    /// The number of superblocks that static wear levelling has moved.
    pub fn leveled_superblocks(&self) -> u64 {
        self.leveling.as_ref().map_or(0, |leveling| leveling.moved)
    }

    /// Records that a superblock was opened for a region.
    pub(super) fn note_turn(&mut self, superblock: u32, region: u8) {
        let is_cold = self.streams.cold_region() == Some(region);
        if let Some(leveling) = &mut self.leveling {
            leveling.note_opened(superblock, is_cold);
        }
    }

    /// The next free superblock for a region: the most-worn one for cold data.
    pub(super) fn next_free(&mut self, region: u8) -> Option<u32> {
        if self.streams.cold_region() == Some(region) {
            let Self { free, erases, .. } = self;
            return free.pop_most_worn(|superblock| erases.get(superblock as usize).copied().unwrap_or(0));
        }
        self.free.pop()
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Moves one due superblock to the most-worn free one, at most one move for each superblock
    /// opened otherwise. Returns whether it moved one.
    pub(super) fn level_due(&mut self, context: &Context) -> LayerResult<bool> {
        let Self { leveling, index, erases, .. } = self;
        let due = leveling.as_mut().and_then(|due| due.take_due(erases, |superblock| index.is_candidate(superblock)));
        let Some(superblock) = due else { return Ok(false) };
        match self.make_room(context) {
            Ok(()) => {}
            Err(Failure::Full) => return Ok(false),
            Err(failure) => return Err(failure),
        }
        if !self.index.is_candidate(superblock) {
            return Ok(false);
        }
        self.streams.move_as_cold(true);
        let cleaned = self.clean_superblock_for(context, superblock, Cause::WearLevelling);
        self.streams.move_as_cold(false);
        match cleaned {
            Ok(()) => {
                if let Some(leveling) = &mut self.leveling {
                    leveling.moved += 1;
                }
                Ok(true)
            }
            Err(Failure::Full) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_worn_superblocks_that_rest_are_due_the_oldest_first_one_a_turn() {
        let mut leveling = Leveling::new(10, 8).unwrap();
        let erases = [0, 2, 50, 50, 50, 39, 40, 1];
        assert_eq!(leveling.take_due(&erases, |_| true), None);
        for superblock in [7, 0, 1, 2, 3, 4, 5, 6, 4, 3, 2, 4, 3, 2] {
            leveling.note_opened(superblock, false);
        }
        // Superblock 6 is not more than ten less worn, 5 was opened too recently, 1 is open.
        let due: Vec<Option<u32>> = (0..4)
            .map(|_| {
                leveling.may_move = true;
                leveling.take_due(&erases, |superblock| superblock != 1)
            })
            .collect();
        assert_eq!(due, [Some(7), Some(0), None, None]);
        assert_eq!(leveling.take_due(&erases, |_| true), None, "nothing was opened");
        assert!(Leveling::new(0, 8).is_none());
    }
}
