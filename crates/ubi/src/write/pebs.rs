//! What each PEB is for a writer, and which one is taken next.

use std::collections::{BTreeSet, VecDeque};

use super::wear_tree::WearTree;
use crate::Peb;

/// The PEBs that a writer may use or has used. Those that it leaves alone are in no list.
#[derive(Debug)]
pub(super) struct Pebs {
    /// Erases of each PEB, by its number.
    erases: Vec<u32>,
    /// Erased PEBs with an erase counter header.
    free: WearTree,
    /// PEBs with a LEB, least worn first.
    used: BTreeSet<(u32, Peb)>,
    /// PEBs that UBI never touched: erased, and given their header, when they are needed.
    blank: VecDeque<Peb>,
}

impl Pebs {
    /// No PEB in any list; `mean` counts as the erases of those whose counter is unknown.
    pub fn new(total: u32, mean: u32) -> Self {
        let erases = vec![mean; total as usize];
        Self { erases, free: WearTree::new(), used: BTreeSet::new(), blank: VecDeque::new() }
    }

    /// How often a PEB was erased.
    pub fn erases(&self, peb: Peb) -> u32 {
        self.erases.get(peb.0 as usize).copied().unwrap_or(0)
    }

    /// Notes how often a PEB was erased. It must be in no list.
    pub fn set_erases(&mut self, peb: Peb, erases: u32) {
        if let Some(entry) = self.erases.get_mut(peb.0 as usize) {
            *entry = erases;
        }
    }

    pub fn add_used(&mut self, peb: Peb) {
        self.used.insert((self.erases(peb), peb));
    }

    pub fn remove_used(&mut self, peb: Peb) {
        self.used.remove(&(self.erases(peb), peb));
    }

    pub fn add_blank(&mut self, peb: Peb) {
        self.blank.push_back(peb);
    }

    /// Adds an erased PEB with a header.
    pub fn add_free(&mut self, peb: Peb) {
        self.free.insert((self.erases(peb), peb));
    }

    /// The PEB without a header that was added first.
    pub fn take_blank(&mut self) -> Option<Peb> {
        self.blank.pop_front()
    }

    /// Takes a free PEB of medium wear; where wear differs by twice the threshold or more, the most
    /// worn one within a threshold of the least worn.
    ///
    /// Source: Linux `drivers/mtd/ubi/wl.c`, `find_mean_wl_entry`, which takes the root of its
    /// balanced tree in the first case.
    pub fn take_free(&mut self, threshold: u32) -> Option<Peb> {
        let ((least, _), (most, _)) = (self.free.first()?, self.free.last()?);
        let taken = match most - least < threshold.saturating_mul(2) {
            true => self.free.root()?,
            false => self.free.last_below(least.saturating_add(threshold))?,
        };
        self.free.remove(taken);
        Some(taken.1)
    }

    /// The least worn PEB in use, if a free one is worn by `threshold` more: its content, which
    /// seldom changes, then moves to that one.
    ///
    /// Source: Linux `drivers/mtd/ubi/wl.c`, `wear_leveling_worker`.
    pub fn cold(&mut self, threshold: u32) -> Option<(Peb, Peb)> {
        let (cold, from) = *self.used.first()?;
        let least = self.free.first()?.0;
        let (worn, to) = self.free.last_below(least.saturating_add(threshold.saturating_mul(2)))?;
        (worn >= cold.saturating_add(threshold)).then(|| {
            self.free.remove((worn, to));
            (from, to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(counters: &[u32]) -> Pebs {
        let mut pebs = Pebs::new(counters.len() as u32, 0);
        for (peb, erases) in (0..).map(Peb).zip(counters) {
            pebs.set_erases(peb, *erases);
            pebs.add_free(peb);
        }
        pebs
    }

    #[test]
    fn of_pebs_with_like_wear_the_root_of_their_tree_is_taken() {
        let mut pebs = free(&[5, 1, 3, 2, 4]);
        assert_eq!(pebs.take_free(4), Some(Peb(2)));
        assert_eq!(pebs.take_free(4), Some(Peb(4)));
    }

    #[test]
    fn of_pebs_with_unlike_wear_a_worn_one_near_the_least_worn_is_taken() {
        let mut pebs = free(&[1, 2, 3, 40, 50]);
        assert_eq!(pebs.take_free(4), Some(Peb(2)));
    }

    #[test]
    fn cold_content_moves_when_the_difference_reaches_the_threshold() {
        let mut pebs = free(&[0, 9, 9]);
        assert_eq!(pebs.take_free(1), Some(Peb(0)));
        pebs.add_used(Peb(0));
        assert_eq!(pebs.cold(10), None);
        assert_eq!(pebs.cold(9), Some((Peb(0), Peb(2))));
        assert_eq!(pebs.take_free(9), Some(Peb(1)));
    }
}
