//! The page of a comparison, from records alone.

use nandkit_record::{Latency, RunRecord};

use super::by_workload::{Of, by_workload, for_curves, only_some};
use super::over_time;
use super::{Axis, Bar, Bars, Cell, Column, Curve, Curves, Heat, Item, Page, Quantity, Section, Stacked, Table};
use crate::comparison::in_short;
use crate::deciding::slowest_kind;
use crate::summary::{Group, Summary, number};
use crate::{verdicts, words};

/// The page of these records, with further sentences that are said of them. Each workload has a
/// section: rate with its spread, write amplification by cause, latencies, wear, a table.
pub fn page(title: &str, records: &[RunRecord], notes: &[String]) -> Page {
    let (shared, legend, all) = by_workload(records);
    let outcome = words(&verdicts(records));
    let stacks = all.iter().map(|of| of.rows.len()).max().unwrap_or(0);
    let mut lead: Vec<String> = outcome.lines().filter(|_| stacks > 1).map(str::to_string).collect();
    let seeds = all.iter().flat_map(|of| &of.rows).map(|(_, group)| group.records.len()).max().unwrap_or(0);
    let spread = match seeds {
        0 => "There are no records.".to_string(),
        1 => "One seed, so no spread.".to_string(),
        2 => "Mean and range of 2 seeds.".to_string(),
        _ => format!("Mean of {seeds} seeds with its 95 % interval."),
    };
    let common = if shared.is_empty() { String::new() } else { format!(" In common: {}.", shared.join(", ")) };
    lead.push(spread + " All times are simulated." + &common);
    lead.extend(Some(legend).filter(|legend| !legend.is_empty()));
    lead.extend(notes.iter().cloned());
    let mut sections: Vec<Section> = overview(&all).into_iter().collect();
    sections.extend(all.iter().map(section));
    Page { title: title.to_string(), lead, sections, data: data(records) }
}

/// The records as JSON, without what only the host that ran them knows, so that the same runs give
/// the same page everywhere.
pub(super) fn data(records: &[RunRecord]) -> String {
    let lines: Vec<String> = records.iter().map(|record| record.without_host().to_line()).collect();
    format!("[{}]", lines.join(",\n"))
}

/// All workloads at a glance, where there are several stacks and workloads.
fn overview(all: &[Of<'_>]) -> Option<Section> {
    let mut stacks: Vec<&str> = Vec::new();
    for (label, _) in all.iter().flat_map(|of| &of.rows) {
        if !stacks.contains(&label.as_str()) {
            stacks.push(label);
        }
    }
    if all.len() < 2 || stacks.len() < 2 {
        return None;
    }
    let best = |of: &Of<'_>| of.summaries(of.rate).iter().map(|(_, summary)| summary.mean).fold(0.0, f64::max);
    let share = |of: &Of<'_>, stack: &str| {
        let group = &of.rows.iter().find(|(label, _)| label == stack)?.1;
        Some(group.summary(of.rate)?.mean / best(of)).filter(|share| share.is_finite())
    };
    let row = |stack: &&str| ((*stack).to_string(), all.iter().map(|of| share(of, stack)).collect());
    let heat = Heat {
        title: "Speed as a share of the fastest stack on each workload".to_string(),
        quantity: Quantity::Share,
        by_row: false,
        columns: all.iter().map(|of| in_short(of.workload)).collect(),
        rows: stacks.iter().map(row).collect(),
    };
    Some(Section { title: "At a glance".to_string(), items: vec![Item::Heat(heat)] })
}

fn section(of: &Of<'_>) -> Section {
    let title = in_short(of.workload);
    let mut items = Vec::new();
    if title != of.workload {
        items.push(Item::Text("The whole workload".to_string(), of.workload.to_string()));
    }
    items.extend(rates(of));
    items.extend(by_cause(of));
    items.extend(latencies(of));
    items.extend(wear(of));
    items.extend(over_time::plots(of));
    items.push(Item::Table(figures(of)));
    Section { title, items }
}

fn rates(of: &Of<'_>) -> Option<Item> {
    let best = of.best();
    let is_alone = of.rows.len() == 1;
    let bar = |(label, summary): (&str, Summary)| Bar {
        label: label.to_string(),
        value: summary.mean,
        range: (summary.count > 1).then(|| summary.interval()),
        is_best: !is_alone && best == Some(label),
    };
    let bars: Vec<Bar> = of.summaries(of.rate).into_iter().map(bar).collect();
    let bars = Bars { title: format!("{} speed", of.rate_name()), unit: "MB/s".to_string(), bars };
    (!bars.bars.is_empty()).then_some(Item::Bars(bars))
}

/// Write amplification by cause: its parts are bytes programmed for each byte that the user wrote.
fn by_cause(of: &Of<'_>) -> Option<Item> {
    const CAUSES: [&str; 8] =
        ["user_data", "metadata", "checkpoint", "cleaning", "mapping", "wear_levelling", "recovery", "format"];
    let of_cause = |group: &Group<'_>, cause: &str| {
        let part = group.summary_of(|figures| {
            let written = figures.waf.map(|_| figures.user_bytes_written).filter(|written| *written > 0)?;
            Some(figures.bytes_programmed_by_cause.get(cause) as f64 / written as f64)
        });
        part.map(|part| part.mean)
    };
    let rows: Vec<_> = of.rows.iter().filter(|(_, group)| group.summary("waf").is_some()).collect();
    let is_there = |cause: &&str| rows.iter().any(|(_, group)| of_cause(group, cause).is_some_and(|part| part > 0.0));
    let causes: Vec<&str> = CAUSES.into_iter().filter(is_there).collect();
    let bar = |(label, group): &&(String, Group<'_>)| {
        (label.clone(), causes.iter().map(|cause| of_cause(group, cause).unwrap_or(0.0)).collect())
    };
    let bars: Vec<(String, Vec<f64>)> = rows.iter().map(bar).collect();
    (!causes.is_empty()).then(|| {
        let parts = causes.iter().map(|cause| cause.replace('_', " ")).collect();
        let title = "Write amplification by cause: bytes programmed for each byte written".to_string();
        Item::Stacked(Stacked { title, unit: String::new(), parts, bars })
    })
}

/// The kind of operation whose latencies are shown: the slowest that is no rarity, of all stacks.
fn kind<'a>(of: &'a Of<'_>) -> Option<&'a str> {
    let records = of.rows.iter().flat_map(|(_, group)| &group.records);
    let kinds = records.filter_map(|record| slowest_kind(&record.figures));
    kinds.reduce(|a, b| if b.1.p99 > a.1.p99 { b } else { a }).map(|(name, _)| name)
}

/// Takes a percentile.
type Part = fn(&Latency) -> u64;

/// The percentiles of a record, with their names.
const PERCENTILES: [(&str, Part); 4] = [
    ("50 %", |latency| latency.p50),
    ("99 %", |latency| latency.p99),
    ("99.9 %", |latency| latency.p999),
    ("all", |latency| latency.max),
];

fn latencies(of: &Of<'_>) -> Option<Item> {
    let kind = kind(of)?;
    let value = |group: &Group<'_>, part: Part| {
        group.summary_of(|figures| figures.latency_ns.get(kind).map(|latency| part(latency) as f64))
    };
    let curve = |(label, group): &&(String, Group<'_>)| {
        let values = PERCENTILES.iter().enumerate();
        // A logarithmic axis has no place for what takes no time at all.
        let points = values.filter_map(|(at, (_, part))| Some((at as f64, value(group, *part)?.mean.max(1.0))));
        Curve { label: label.clone(), points: points.collect() }
    };
    let curves: Vec<Curve> = for_curves(of).iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    let names = PERCENTILES.iter().map(|(name, _)| (*name).to_string()).collect();
    let x = Axis { label: "of the operations".to_string(), names, ..Axis::default() };
    let y =
        Axis { label: "take at most".to_string(), quantity: Quantity::Nanoseconds, is_log: true, ..Axis::default() };
    let title = format!("How long a {kind} takes{}", only_some(of));
    (!curves.is_empty()).then_some(Item::Line(Curves { title, x, y, curves }))
}

fn wear(of: &Of<'_>) -> Option<Item> {
    let curve = |(label, group): &&(String, Group<'_>)| {
        let value = |path: &str| group.summary(&format!("erases_per_block.{path}")).map(|summary| summary.mean);
        let shares = [("min", 0.0), ("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("max", 1.0)];
        let points = shares.into_iter().filter_map(|(path, share)| Some((value(path)?, share))).collect();
        Curve { label: label.clone(), points }
    };
    let rows = for_curves(of);
    let is_erased = |row: &&&(String, Group<'_>)| row.1.records.iter().any(|record| record.figures.erases > 0);
    let curves: Vec<Curve> = rows.iter().filter(is_erased).map(curve).collect();
    let x = Axis { label: "erases of a block at most".to_string(), ..Axis::default() };
    let y = Axis { label: "share of blocks".to_string(), quantity: Quantity::Share, ..Axis::default() };
    let title = format!("How evenly the blocks wear{}", only_some(of));
    (!curves.is_empty()).then_some(Item::Cdf(Curves { title, x, y, curves }))
}

/// A column of the table of figures: its head, where its value stands, how it is written, and
/// whether more is better, where either is.
type Shown = (&'static str, String, Quantity, Option<bool>);

fn figures(of: &Of<'_>) -> Table {
    let latency = |part: &str| format!("latency_ns.{}.{part}", kind(of).unwrap_or("write"));
    let (plain, time) = (Quantity::Number, Quantity::Nanoseconds);
    let shown: Vec<Shown> = vec![
        ("write MB/s", "write_mb_per_s".to_string(), plain, Some(true)),
        ("read MB/s", "read_mb_per_s".to_string(), plain, Some(true)),
        ("p50", latency("p50"), time, Some(false)),
        ("p99", latency("p99"), time, Some(false)),
        ("p99.9", latency("p999"), time, Some(false)),
        ("slowest", latency("max"), time, Some(false)),
        ("WAF", "waf".to_string(), plain, Some(false)),
        ("erases", "erases".to_string(), plain, Some(false)),
        ("most erases of a block", "erases_per_block.max".to_string(), plain, Some(false)),
        ("lifetime", "lifetime_bytes".to_string(), Quantity::Bytes, Some(true)),
        ("lasts, if written without pause", "lifetime_s".to_string(), Quantity::LongSeconds, Some(true)),
        ("simulated time", "elapsed_ns".to_string(), time, None),
    ];
    let mean = |group: &Group<'_>, path: &str| group.summary(path).map(|summary| summary.mean);
    let is_there = |(_, path, ..): &Shown| of.rows.iter().any(|row| mean(&row.1, path).is_some_and(|mean| mean > 0.0));
    let shown: Vec<Shown> = shown.into_iter().filter(is_there).collect();
    let mut columns = vec![Column::text("stack"), Column::number("seeds")];
    columns.extend(shown.iter().map(|(head, ..)| Column::number(*head)));
    let row = |(label, group): &(String, Group<'_>)| {
        let seeds = group.records.len() as f64;
        let mut row = vec![Cell::text(label), Cell::number(Some(seeds), plain)];
        row.extend(shown.iter().map(|(_, path, quantity, more)| {
            let value = mean(group, path);
            let means = of.rows.iter().filter_map(|row| mean(&row.1, path));
            let best = more.and_then(|more| if more { means.reduce(f64::max) } else { means.reduce(f64::min) });
            let is_best = of.rows.len() > 1 && value.is_some() && value == best;
            let text = match value {
                Some(value) if *quantity == plain && value.fract() != 0.0 => number(value),
                value => Cell::number(value, *quantity).text,
            };
            Cell { text, number: value, is_best }
        }));
        row
    };
    let rows = of.rows.iter().map(row).collect();
    let title = format!("Figures, the best of each column bold; latencies of {}s", kind(of).unwrap_or("write"));
    Table { title, columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::html;
    use crate::testing::{record, well_formed};

    fn records() -> Vec<RunRecord> {
        let mut records = Vec::new();
        for (stack, speed) in [("fat | merge | chip", 2.0), ("fat | limit | chip", 3.0)] {
            for workload in ["fax", "phone"] {
                for seed in 1..=3 {
                    let mut record = record(stack, workload, seed, speed + seed as f64 / 10.0);
                    record.host_time_ns = seed;
                    record.figures.bytes_programmed_by_cause.0.insert("user_data".into(), 11_000_000);
                    record.figures.bytes_programmed_by_cause.0.insert("cleaning".into(), 9_000_000);
                    let latency = Latency { count: 9, p50: 1000, p99: 20_000, p999: 300_000, max: 4_000_000 };
                    record.figures.latency_ns.insert("write".into(), latency);
                    records.push(record);
                }
            }
        }
        records
    }

    #[test]
    fn the_page_says_what_the_records_say() {
        let page = page("Comparison", &records(), &["A note.".to_string()]);
        assert_eq!(page.lead[0], "limit is best on fax (+45.5 % over merge), phone (+45.5 % over merge).");
        let titles: Vec<&str> = page.sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["At a glance", "fax", "phone"]);
        let Item::Heat(heat) = &page.sections[0].items[0] else { panic!("{page:?}") };
        assert_eq!(heat.rows[1].1, [Some(1.0), Some(1.0)]);
        let Item::Bars(bars) = &page.sections[1].items[0] else { panic!("{page:?}") };
        assert!((bars.bars[0].value - 2.2).abs() < 1e-9 && bars.bars[1].is_best && !bars.bars[0].is_best);
        let Item::Stacked(stacked) = &page.sections[1].items[1] else { panic!("{page:?}") };
        assert_eq!(stacked.parts, ["user data", "cleaning"]);
        assert_eq!(stacked.bars[0].1, [1.1, 0.9]);
        let Item::Line(latencies) = &page.sections[1].items[2] else { panic!("{page:?}") };
        assert_eq!(latencies.curves[0].points[1], (1.0, 20_000.0));
        well_formed(&html(&page)).unwrap();
    }

    #[test]
    fn the_same_runs_give_the_same_page_on_any_host() {
        let mut other = records();
        other.iter_mut().for_each(|record| (record.host_time_ns, record.host_peak_bytes) = (99, 99));
        assert_eq!(html(&page("a", &records(), &[])), html(&page("a", &other, &[])));
    }

    #[test]
    fn no_records_are_a_page_too() {
        well_formed(&html(&page("a", &[], &[]))).unwrap();
    }
}
