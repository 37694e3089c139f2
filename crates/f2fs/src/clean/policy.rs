//! Every policy of `cleaning` as a search.

use nandkit_cleaning::victim::{BlockView, Queue, VictimPolicy};
use nandkit_units::Nanos;
use nandkit_units::random::Random;

use super::{Collection, VictimSearch};
use crate::segments::Segments;

/// A policy with the stream of its draws.
#[derive(Debug)]
pub struct PolicySearch {
    policy: VictimPolicy,
    random: Random,
}

impl PolicySearch {
    /// The policy, for both kinds of collection.
    pub fn new(policy: VictimPolicy, seed: u64) -> Self {
        Self { policy, random: Random::new(seed, "victims of F2FS") }
    }

    /// A section as policies see blocks: bytes, and the mean time of its blocks, since F2FS keeps no other. What was never erased by the file system counts no erases.
    fn view(segments: &Segments, section: u32) -> BlockView {
        let block = segments.geometry().block_size() as u64;
        let valid = u64::from(segments.sit().section_valid(section)) * block;
        let invalid = u64::from(segments.section_blocks()) * block - valid;
        let written = Nanos::from_secs(segments.sit().section_modified(section));
        let queue = Queue::of(valid, invalid, 0);
        BlockView { block: section, valid, invalid, written, first_written: written, queue, ..BlockView::default() }
    }
}

impl VictimSearch for PolicySearch {
    /// Cost: one pass over the dirty sections, or as the policy says.
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
        let section = self.policy.choose(views.iter().copied(), now, &mut draw)?.block;
        match why {
            Collection::Background => segments.choose_in_background(section),
            Collection::Foreground => segments.forget_choice(section),
        }
        Some(section)
    }
}
