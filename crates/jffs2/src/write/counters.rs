//! What was written and collected.

use std::sync::{Arc, Mutex, PoisonError};

use nandkit_cleaning::separation::{Event, Flows};
use nandkit_cleaning::victim::{Queue, Reason};
use nandkit_units::{StatisticValue, Statistics};

use super::Writer;
use crate::volume::Jffs2;

/// What was written and collected since the mount. Bytes are those of nodes with their padding to
/// four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of nodes that hold what the user wrote to files.
    pub data_bytes: u64,
    /// Bytes of nodes that hold attributes, names, extended attributes.
    pub metadata_bytes: u64,
    /// Bytes of nodes that the collector wrote.
    pub moved_bytes: u64,
    /// Bytes of summary nodes, with the space before a block's end that they fill.
    pub summary_bytes: u64,
    /// Bytes that fill pages up at a sync, or at the end of a block without a summary.
    pub padding_bytes: u64,
    /// Nodes that the collector copied as they were.
    pub moved_as_they_were: u64,
    /// Nodes that the collector wrote anew, for pieces of pages and the like.
    pub rewritten: u64,
    /// Deletions that the collector dropped, since no older entry of the name was left.
    pub deletions_dropped: u64,
    /// Passes of the collector that moved something or chose a victim.
    pub passes: u64,
    /// Of these, those in the background.
    pub background_passes: u64,
    /// Victims by the list that they were the head of, in the order of the declaration of
    /// [`Queue`].
    pub victims_of_list: [u64; 5],
    /// Victims that compared best, or were drawn.
    pub victims_of_rule: u64,
    /// Victims of static wear levelling.
    pub victims_of_levelling: u64,
    /// Blocks that the policy looked at.
    pub evaluations: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks retired after a failure.
    pub retired: u64,
    /// Programs that failed, so that nodes went elsewhere.
    pub program_failures: u64,
}

impl Counters {
    pub(crate) fn victim(&mut self, reason: Reason, evaluated: u32) {
        self.evaluations += u64::from(evaluated);
        match reason {
            Reason::Head(queue) => self.victims_of_list[queue as usize] += 1,
            Reason::Best | Reason::Drawn => self.victims_of_rule += 1,
            Reason::Leveling => self.victims_of_levelling += 1,
        }
    }
}

/// The counters as they were after the last change, for those who watch a volume that is in use.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<(Counters, Option<Flows>)>);

impl Writer {
    /// Shows the counters to those who watch. Cost: an uncontended lock and a copy of a few hundred
    /// bytes.
    pub(crate) fn publish(&self) {
        let mut shown = self.published.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.0 = self.counters;
        if self.separator.regions() > 1 {
            shown.1 = Some(self.separator.flows().clone());
        }
    }
}

impl<F> Jffs2<F> {
    /// The counters, for those who watch the volume while it is in use; they are those after the
    /// last change. Nothing is counted where it is mounted for reading only.
    pub fn statistics(&self) -> Arc<dyn Statistics> {
        match self.writer.as_deref() {
            Some(writer) => Arc::clone(&writer.published) as Arc<dyn Statistics>,
            None => Arc::new(Published::default()),
        }
    }
}

impl Statistics for Published {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &shown.0;
        let of_list = |queue| all.victims_of_list[queue as usize];
        let counts = [
            ("data_bytes", all.data_bytes),
            ("metadata_bytes", all.metadata_bytes),
            ("moved_bytes", all.moved_bytes),
            ("summary_bytes", all.summary_bytes),
            ("padding_bytes", all.padding_bytes),
            ("moved_as_they_were_nodes", all.moved_as_they_were),
            ("rewritten_nodes", all.rewritten),
            ("dropped_deletions", all.deletions_dropped),
            ("passes", all.passes),
            ("background_passes", all.background_passes),
            ("victims_bad_used", of_list(Queue::BadUsed)),
            ("victims_erasable", of_list(Queue::Erasable)),
            ("victims_very_dirty", of_list(Queue::VeryDirty)),
            ("victims_dirty", of_list(Queue::Dirty)),
            ("victims_clean", of_list(Queue::Clean)),
            ("victims_of_rule", all.victims_of_rule),
            ("victims_of_levelling", all.victims_of_levelling),
            ("policy_evaluations", all.evaluations),
            ("erases", all.erases),
            ("retired_blocks", all.retired),
            ("program_failures", all.program_failures),
        ];
        for (name, count) in counts {
            sink(name, StatisticValue::Count(count));
        }
        // By region before (the last: none) and region after, row by row.
        let Some(flows) = &shown.1 else { return };
        for (event, name) in [(Event::Write, "write_flows"), (Event::Clean, "clean_flows")] {
            let regions = flows.regions();
            let rows = (0..regions).map(Some).chain([None]);
            let all = rows.flat_map(|from| (0..regions).map(move |to| flows.get(event, from, to) as f64));
            sink(name, StatisticValue::Series(all.collect()));
        }
    }
}
