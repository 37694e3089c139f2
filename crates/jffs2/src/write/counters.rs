//! What was written and collected.

use std::collections::BTreeMap;

use nandkit_cleaning::separation::Event;
use nandkit_cleaning::victim::{Queue, Reason};
use nandkit_units::{StatisticValue, Statistics};

use crate::volume::Jffs2;

/// What was written and collected since the mount. Bytes are those of nodes with their padding to four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Victims by the list that they were the head of.
    pub victims_of_list: BTreeMap<Queue, u64>,
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
            Reason::Head(queue) => *self.victims_of_list.entry(queue).or_default() += 1,
            Reason::Best | Reason::Drawn => self.victims_of_rule += 1,
            Reason::Leveling => self.victims_of_levelling += 1,
        }
    }
}

impl<F: Send + Sync> Statistics for Jffs2<F> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let Some(writer) = self.writer.as_deref() else { return };
        let all = &writer.counters;
        let of_list = |queue| all.victims_of_list.get(&queue).copied().unwrap_or(0);
        let counts = [
            ("jffs2_data_bytes", all.data_bytes),
            ("jffs2_metadata_bytes", all.metadata_bytes),
            ("jffs2_moved_bytes", all.moved_bytes),
            ("jffs2_summary_bytes", all.summary_bytes),
            ("jffs2_padding_bytes", all.padding_bytes),
            ("jffs2_moved_as_they_were_nodes", all.moved_as_they_were),
            ("jffs2_rewritten_nodes", all.rewritten),
            ("jffs2_dropped_deletions", all.deletions_dropped),
            ("jffs2_passes", all.passes),
            ("jffs2_background_passes", all.background_passes),
            ("jffs2_victims_bad_used", of_list(Queue::BadUsed)),
            ("jffs2_victims_erasable", of_list(Queue::Erasable)),
            ("jffs2_victims_very_dirty", of_list(Queue::VeryDirty)),
            ("jffs2_victims_dirty", of_list(Queue::Dirty)),
            ("jffs2_victims_clean", of_list(Queue::Clean)),
            ("jffs2_victims_of_rule", all.victims_of_rule),
            ("jffs2_victims_of_levelling", all.victims_of_levelling),
            ("jffs2_policy_evaluations", all.evaluations),
            ("jffs2_erases", all.erases),
            ("jffs2_retired_blocks", all.retired),
            ("jffs2_program_failures", all.program_failures),
        ];
        for (name, count) in counts {
            sink(name, StatisticValue::Count(count));
        }
        // By region before (the last: none) and region after, row by row.
        let regions = writer.separator.regions();
        for (event, name) in [(Event::Write, "jffs2_write_flows_nodes"), (Event::Clean, "jffs2_clean_flows_nodes")] {
            let rows = (0..regions).map(Some).chain([None]);
            let flows = rows.flat_map(|from| (0..regions).map(move |to| (from, to)));
            let flows = flows.map(|(from, to)| writer.separator.flows().get(event, from, to) as f64);
            sink(name, StatisticValue::Series(flows.collect()));
        }
    }
}
