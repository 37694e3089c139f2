//! The page of two sets of records: what changed from the one to the other.

use nandkit_record::{METRICS, RunRecord};
use nandkit_units::Better;

use super::{Cell, Column, Item, Page, Quantity, Section, Table};
use crate::comparison::in_short;
use crate::summary::{Group, Summary, groups};

/// The metrics that are compared: those of which one direction is better, but for the host's.
fn compared() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    let metrics = METRICS.iter().filter(|metric| !metric.name.starts_with("host_"));
    metrics.filter_map(|metric| match metric.better {
        Better::Lower => Some((metric.name, metric.unit, false)),
        Better::Higher => Some((metric.name, metric.unit, true)),
        Better::Neither => None,
    })
}

/// The page of `records` beside those that were there `before`. Runs of the same stack and workload
/// are one another's counterparts.
pub fn changes(title: &str, before: &[RunRecord], records: &[RunRecord]) -> Page {
    let (old, new) = (groups(before), groups(records));
    let counterpart =
        |group: &Group<'_>| old.iter().find(|old| old.stack == group.stack && old.workload == group.workload);
    let (mut sections, mut alone, mut counts) = (Vec::new(), Vec::new(), [0_usize; 3]);
    for group in &new {
        let name = format!("{} on {}", in_short(group.workload), group.stack);
        match counterpart(group) {
            Some(old) => {
                let table = table(old, group, &mut counts);
                sections.push(Section { title: name, items: vec![Item::Table(table)] });
            }
            None => alone.push(format!("Only after: {name}.")),
        }
    }
    let is_gone = |old: &&Group<'_>| !new.iter().any(|new| old.stack == new.stack && old.workload == new.workload);
    alone.extend(
        old.iter().filter(is_gone).map(|old| format!("Only before: {} on {}.", in_short(old.workload), old.stack)),
    );
    let [better, worse, open] = counts;
    let mut lead = vec![format!(
        "Of {} figures that differ {better} are better, {worse} worse, and {open} within the spread of the seeds.",
        better + worse + open
    )];
    lead.push("Each row compares the means over the seeds; figures that are equal are left out.".to_string());
    lead.extend(alone);
    let data =
        format!("{{\"before\":{},\n\"after\":{}}}", super::of_records::data(before), super::of_records::data(records));
    Page { title: title.to_string(), lead, sections, data }
}

fn table(old: &Group<'_>, new: &Group<'_>, counts: &mut [usize; 3]) -> Table {
    let mut rows = Vec::new();
    for (name, unit, more) in compared() {
        let (Some(before), Some(after)) = (old.summary(name), new.summary(name)) else { continue };
        if before.mean == after.mean {
            continue;
        }
        let quantity = if unit == "ns" { Quantity::Nanoseconds } else { Quantity::Number };
        let change = (before.mean != 0.0).then(|| after.mean / before.mean - 1.0);
        let (said, at) = if is_within(before, after) {
            ("within the spread", 2)
        } else if (after.mean > before.mean) == more {
            ("better", 0)
        } else {
            ("worse", 1)
        };
        if let Some(count) = counts.get_mut(at) {
            *count += 1;
        }
        let percent = change.map_or_else(|| "-".to_string(), |change| format!("{:+.1} %", change * 100.0));
        let head = if unit.is_empty() || unit == "ns" { name.to_string() } else { format!("{name} [{unit}]") };
        rows.push(vec![
            Cell::text(head),
            Cell::number(Some(before.mean), quantity),
            Cell::number(Some(after.mean), quantity),
            Cell { text: percent, number: change, is_best: false },
            Cell { text: said.to_string(), number: None, is_best: at != 2 },
        ]);
    }
    let columns = vec![
        Column::text("metric"),
        Column::number("before"),
        Column::number("after"),
        Column::number("change"),
        Column::text("so it is"),
    ];
    let seeds = format!("{} before, {} after", old.records.len(), new.records.len());
    Table { title: format!("Figures that differ; seeds: {seeds}"), columns, rows }
}

/// Whether the seeds cannot tell the two figures apart because their intervals touch. A single seed
/// has no interval.
fn is_within(before: Summary, after: Summary) -> bool {
    let ((low, high), (other_low, other_high)) = (before.interval(), after.interval());
    before.count > 1 && after.count > 1 && low <= other_high && other_low <= high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn a_change_is_better_worse_or_within_the_spread() {
        let before =
            [record("a", "w", 1, 2.0), record("gone", "w", 1, 2.0), record("s", "w", 1, 1.0), record("s", "w", 2, 3.0)];
        let after =
            [record("a", "w", 1, 3.0), record("new", "w", 1, 2.0), record("s", "w", 1, 1.1), record("s", "w", 2, 3.1)];
        let page = changes("Changes", &before, &after);
        let Item::Table(table) = &page.sections[0].items[0] else { panic!("{page:?}") };
        let rate = table.rows.iter().find(|row| row[0].text.starts_with("write_mb_per_s")).unwrap();
        let texts: Vec<&str> = rate.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["write_mb_per_s [MB/s]", "2", "3", "+50.0 %", "better"]);
        let Item::Table(table) = &page.sections[1].items[0] else { panic!("{page:?}") };
        assert!(table.rows.iter().all(|row| row[4].text == "within the spread"), "{table:?}");
        assert_eq!(page.lead[2..], ["Only after: w on new.", "Only before: w on gone."]);
        let same = changes("Changes", &before, &before);
        assert!(same.lead[0].starts_with("Of 0 figures"), "{:?}", same.lead);
    }
}
