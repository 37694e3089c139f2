//! Counters of writing and collecting.

use std::sync::{Arc, Mutex, PoisonError};

use nandkit_cleaning::separation::{Event, Flows};
use nandkit_cleaning::victim::{Queue, Reason};
use nandkit_units::{StatisticValue, Statistics};

use super::Writer;
use crate::volume::Jffs2;

/// Counters of writing and collecting since the mount. Bytes are those of nodes including padding
/// to four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of nodes with the user's file data.
    pub data_bytes: u64,
    /// Bytes of nodes with attributes, names, extended attributes.
    pub metadata_bytes: u64,
    /// Bytes of nodes written by the collector.
    pub moved_bytes: u64,
    /// Bytes of summary nodes, including the space up to the block's end.
    pub summary_bytes: u64,
    /// Bytes of padding written at a sync, or at the end of a block without a summary.
    pub padding_bytes: u64,
    /// Nodes that the collector copied unchanged.
    pub moved_as_they_were: u64,
    /// Nodes that the collector rewrote, for instance for pieces of pages.
    pub rewritten: u64,
    /// Deletions that the collector dropped, because no older entry of the name was left.
    pub deletions_dropped: u64,
    /// Passes of the collector that moved something or chose a victim.
    pub passes: u64,
    /// Passes in the background, of these.
    pub background_passes: u64,
    /// Victims by the list that they headed, in the order of [`Queue`]'s declaration.
    pub victims_of_list: [u64; 5],
    /// Victims chosen by comparison, or at random.
    pub victims_of_rule: u64,
    /// Victims chosen by static wear levelling.
    pub victims_of_levelling: u64,
    /// Blocks that the policy examined.
    pub evaluations: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks retired after a failure.
    pub retired: u64,
    /// Failed programs, after which nodes were written elsewhere.
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

/// The counters after the last change, for observers of a volume in use.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<(Counters, Option<Flows>)>);

impl Writer {
    /// Publishes the counters. Cost: an uncontended lock and a copy of a few hundred bytes.
    pub(crate) fn publish(&self) {
        let mut shown = self.published.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.0 = self.counters;
        if self.separator.regions() > 1 {
            shown.1 = Some(self.separator.flows().clone());
        }
    }
}

impl<F> Jffs2<F> {
    /// The counters for observers while the volume is in use, as of the last change. A read-only
    /// volume counts nothing.
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
        // By old region (none comes last) and new region, row by row.
        let Some(flows) = &shown.1 else { return };
        for (event, name) in [(Event::Write, "write_flows"), (Event::Clean, "clean_flows")] {
            let regions = flows.regions();
            let rows = (0..regions).map(Some).chain([None]);
            let all = rows.flat_map(|from| (0..regions).map(move |to| flows.get(event, from, to) as f64));
            sink(name, StatisticValue::Series(all.collect()));
        }
    }
}
