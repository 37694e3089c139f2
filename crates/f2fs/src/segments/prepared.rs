//! Segments prepared for a log before it fills their gaps. Preparation runs between operations;
//! allocation only takes the segments.

use super::Segments;
use crate::ids::{Log, SegmentIndex};

/// A segment reserved for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// The segment that is kept for the log.
    pub segment: SegmentIndex,
    /// The log.
    pub log: Log,
    /// Whether the checkpoint that makes its new gaps usable has completed.
    pub ready: bool,
}

/// Reserved segments that became empty: after the next checkpoint they are free, and the log then
/// takes its own, whether or not gaps are to be filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Emptied(Vec<Preparation>);

impl Emptied {
    /// The emptied segments reserved for a log.
    fn of(&self, log: Log) -> impl Iterator<Item = &Preparation> {
        self.0.iter().filter(move |emptied| emptied.log == log)
    }

    fn checkpointed(&mut self) {
        self.0.iter_mut().for_each(|emptied| emptied.ready = true);
    }

    /// Notes that a log took a segment.
    pub fn taken(&mut self, segment: SegmentIndex) {
        self.0.retain(|emptied| emptied.segment != segment);
    }
}

impl Segments {
    /// Reserves a dirty segment for a log: nothing else takes it, and blocks freed in it become
    /// gaps with the next checkpoint, after which the log can take it. `ready`: the log can take it
    /// at once. Returns false if the segment is not dirty, a log writes in its section, or it holds
    /// nodes and the log holds data.
    pub fn prepare(&mut self, segment: SegmentIndex, log: Log, ready: bool) -> bool {
        let right = self.dirty.all().has(segment.0)
            && self.sit.kind(segment).is_node() == log.is_node()
            && !self.is_busy(self.free.section(segment));
        if right {
            self.dirty.remove(&self.sit, segment);
            self.held.push(Preparation { segment, log, ready });
        }
        right
    }

    /// Notes that a reserved segment has no valid block left: the next checkpoint frees it.
    pub(super) fn prepared_is_empty(&mut self, segment: SegmentIndex) {
        let held = self.held.iter().position(|held| held.segment == segment);
        if let Some(held) = held.map(|place| self.held.remove(place)) {
            self.emptied.0.push(Preparation { ready: false, ..held });
        }
    }

    /// The first free segment that was emptied for a log, after its checkpoint.
    pub(super) fn emptied_for(&self, log: Log) -> Option<SegmentIndex> {
        let mut ready = self.emptied.of(log).filter(|emptied| emptied.ready).map(|emptied| emptied.segment);
        ready.find(|segment| self.free.is_free(*segment))
    }

    /// The number of reserved and emptied segments that wait for a log, and whether one of them is
    /// available.
    pub fn waiting_for(&self, log: Log) -> (usize, bool) {
        let all = || self.held.iter().chain(&self.emptied.0).filter(|waiting| waiting.log == log);
        (all().count(), all().any(|waiting| waiting.ready))
    }

    /// The reserved segments.
    pub fn preparations(&self) -> &[Preparation] {
        &self.held
    }

    /// Ends the reservation of a segment.
    pub fn release_prepared(&mut self, segment: SegmentIndex) {
        let before = self.held.len();
        self.held.retain(|held| held.segment != segment);
        if self.held.len() != before {
            self.locate(segment);
        }
    }

    /// The first segment that is ready for a log and has a gap.
    pub(super) fn prepared_for(&self, log: Log) -> Option<SegmentIndex> {
        let ready = self.held.iter().filter(|held| held.log == log && held.ready).map(|held| held.segment);
        ready.into_iter().find(|&segment| self.sit.next_usable(segment, 0).is_some())
    }

    /// Notes that a checkpoint completed.
    pub(super) fn preparations_checkpointed(&mut self) {
        for held in &mut self.held {
            held.ready = true;
        }
        // Segments that another log took meanwhile are no longer waited for.
        let free = &self.free;
        self.emptied.0.retain(|emptied| !emptied.ready || free.is_free(emptied.segment));
        self.emptied.checkpointed();
    }
}
