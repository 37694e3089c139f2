//! Records by workload, as the plots of a page take them.

use nandkit_record::RunRecord;

use crate::label::short_names;
use crate::summary::{Group, Summary, groups, shared_parts};

/// Curves in one plot at the most: marks tell no more apart.
const CURVES: usize = 8;

/// The records of one workload, a row for each stack.
pub(super) struct Of<'a> {
    pub(super) workload: &'a str,
    pub(super) rate: &'static str,
    pub(super) rows: Vec<(String, Group<'a>)>,
}

impl Of<'_> {
    pub(super) fn rate_name(&self) -> &'static str {
        if self.rate == "write_mb_per_s" { "Writing" } else { "Reading" }
    }

    /// Label and summary of the rows that have one.
    pub(super) fn summaries(&self, path: &str) -> Vec<(&str, Summary)> {
        let rows = self.rows.iter();
        rows.filter_map(|(label, group)| Some((label.as_str(), group.summary(path)?))).collect()
    }

    pub(super) fn best(&self) -> Option<&str> {
        let best = self.summaries(self.rate).into_iter().reduce(|a, b| if b.1.mean > a.1.mean { b } else { a });
        best.map(|(label, _)| label)
    }
}

/// What all stacks have in common, what short names stand for, and the workloads.
pub(super) fn by_workload(records: &[RunRecord]) -> (Vec<&str>, String, Vec<Of<'_>>) {
    let groups = groups(records);
    let mut stacks: Vec<&str> = Vec::new();
    for group in &groups {
        if !stacks.contains(&group.stack) {
            stacks.push(group.stack);
        }
    }
    let (shared, labels) = shared_parts(&stacks);
    let first = |stack: &&str| records.iter().find(|record| record.stack == **stack);
    let firsts: Option<Vec<&RunRecord>> = stacks.iter().map(first).collect();
    let short = firsts.and_then(|firsts| short_names(&firsts)).filter(|names| names.len() > 1);
    let named = short.iter().flatten().zip(&labels).map(|(short, own)| format!("{short} is {own}."));
    let legend = named.collect::<Vec<_>>().join(" ");
    let labels = short.unwrap_or(labels);
    let shared = if stacks.len() > 1 { shared } else { Vec::new() };
    let mut all: Vec<Of<'_>> = Vec::new();
    for group in groups {
        let label = stacks.iter().position(|stack| *stack == group.stack).and_then(|at| labels.get(at));
        let row = (label.cloned().unwrap_or_default(), group);
        match all.iter_mut().find(|of| of.workload == row.1.workload) {
            Some(of) => of.rows.push(row),
            None => all.push(Of { workload: row.1.workload, rate: "read_mb_per_s", rows: vec![row] }),
        }
    }
    for of in &mut all {
        let is_written = |group: &Group<'_>| group.records.iter().any(|record| record.figures.user_bytes_written > 0);
        if of.rows.iter().any(|(_, group)| is_written(group)) {
            of.rate = "write_mb_per_s";
        }
        // Specs that only the record tells apart get a number.
        for at in 1..of.rows.len() {
            let same = of.rows.iter().take(at).filter(|row| row.1.stack == of.rows[at].1.stack).count();
            if same > 0 {
                of.rows[at].0 += &format!(" ({})", same + 1);
            }
        }
    }
    (shared, legend, all)
}

/// The rows that a plot of curves takes: all, or the fastest.
pub(super) fn for_curves<'a, 'b>(of: &'a Of<'b>) -> Vec<&'a (String, Group<'b>)> {
    let mut rows: Vec<_> = of.rows.iter().collect();
    if rows.len() > CURVES {
        let rate = |row: &&(String, Group<'_>)| row.1.summary(of.rate).map_or(0.0, |summary| summary.mean);
        rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        rows.truncate(CURVES);
    }
    rows
}

pub(super) fn only_some(of: &Of<'_>) -> String {
    if of.rows.len() > CURVES { format!(", the {CURVES} fastest of {}", of.rows.len()) } else { String::new() }
}
