//! Adapts every policy of `cleaning` to a section search.

use nandkit_cleaning::victim::{BlockView, Queue, VictimPolicy};
use nandkit_units::Nanos;
use nandkit_units::random::Random;

use super::{Collection, VictimSearch};
use crate::segments::Segments;

/// A policy with its random stream.
#[derive(Debug)]
pub struct PolicySearch {
    policy: VictimPolicy,
    random: Random,
}

impl PolicySearch {
    /// Uses the policy for both kinds of collection.
    pub fn new(policy: VictimPolicy, seed: u64) -> Self {
        Self { policy, random: Random::new(seed, "victims of F2FS") }
    }

    /// A section as policies see blocks, in bytes. P1's policies and that of the log-structured
    /// file system take ages from the youngest block, Linux's from the mean time. A refilled
    /// section counts as erased, and lists of blocks are in fill order: F2FS keeps no other.
    fn view(segments: &Segments, section: u32) -> BlockView {
        let block = segments.geometry().block_size() as u64;
        let valid = u64::from(segments.sit().section_valid(section)) * block;
        let invalid = u64::from(segments.section_blocks()) * block - valid;
        let sit = segments.sit();
        let (first, last) = sit.section_written(section);
        let place = i64::try_from(first).unwrap_or(i64::MAX);
        BlockView {
            block: section,
            valid,
            invalid,
            erases: sit.section_refilled(section),
            written: Nanos::from_secs(last),
            first_written: Nanos::from_secs(first),
            mean_written: Some(Nanos::from_secs(sit.section_modified(section))),
            queue: Queue::of(valid, invalid, 0),
            place,
            dirtied: place,
            ..BlockView::default()
        }
    }
}

/// A search for each kind of collection.
pub struct SearchByKind {
    /// The search while an operation waits.
    pub foreground: Box<dyn VictimSearch>,
    /// The search in idle time.
    pub background: Box<dyn VictimSearch>,
}

impl VictimSearch for SearchByKind {
    fn choose(&mut self, segments: &mut Segments, why: Collection, now: Nanos) -> Option<u32> {
        match why {
            Collection::Foreground => self.foreground.choose(segments, why, now),
            Collection::Background => self.background.choose(segments, why, now),
        }
    }
}

impl VictimSearch for PolicySearch {
    /// Cost: one pass over the dirty sections, or what the policy states.
    fn choose(&mut self, segments: &mut Segments, why: Collection, now: Nanos) -> Option<u32> {
        let of_background = why == Collection::Background;
        let views: Vec<BlockView> = segments
            .dirty()
            .units()
            .iter()
            .filter(|&section| !segments.is_busy(section))
            .filter(|&section| !of_background || !segments.dirty().chosen().has(section))
            .map(|section| Self::view(segments, section))
            .collect();
        let random = &mut self.random;
        let mut draw = |bound: u32| random.below(u64::from(bound.max(1))) as u32;
        let section = self.policy.choose_among(&views, now, &mut draw)?.block;
        match why {
            Collection::Background => segments.choose_in_background(section),
            Collection::Foreground => segments.forget_choice(section),
        }
        Some(section)
    }
}
