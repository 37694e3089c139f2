//! Stacks side by side: for each workload a table with bars, the best marked, and the outcome in
//! words.

use nandkit_record::RunRecord;

use crate::deciding::{cleaning_share, erases_per_mb, lifetime, lifetime_bytes, p99_ns, rate, time};
use crate::fold::fold;
use crate::label::short_names;
use crate::remarks::{Named, remarks, what_would_change};
use crate::summary::{Group, Summary, groups, number, shared_parts};
use crate::{Align, Style, Table};

const BAR_WIDTH: usize = 4;
/// Columns of the table, from 0.
const MARK: usize = 0;
const RATE: usize = 2;
const SPREAD: usize = 3;

/// The best stack on one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The workload's line.
    pub workload: String,
    /// The metric that decides: `write_mb_per_s`, or `read_mb_per_s` where nothing is written.
    pub metric: &'static str,
    /// The label of the stack with the best mean.
    pub best: String,
    /// Its mean, relative to the first stack's: 0.1 is 10 % more.
    pub gain_over_first: f64,
    /// Labels of the other stacks whose interval reaches into the best one's: they are not told
    /// apart by these seeds.
    pub about_equal: Vec<String>,
    /// The first stack's label.
    pub first: String,
}

struct Row<'a> {
    label: String,
    group: Group<'a>,
    decisive: Option<Summary>,
}

struct Section<'a> {
    workload: &'a str,
    metric: &'static str,
    rows: Vec<Row<'a>>,
}

impl Section<'_> {
    fn best(&self) -> Option<(&Row<'_>, Summary)> {
        let mut best: Option<(&Row<'_>, Summary)> = None;
        for row in &self.rows {
            if let Some(decisive) = row.decisive
                && best.is_none_or(|(_, summary)| decisive.mean > summary.mean)
            {
                best = Some((row, decisive));
            }
        }
        best
    }

    fn verdict(&self) -> Option<Verdict> {
        let (best, summary) = self.best()?;
        let first = self.rows.first()?;
        let base = first.decisive?.mean;
        let (low, _) = summary.interval();
        let about_equal = self
            .rows
            .iter()
            .filter(|row| row.label != best.label && row.decisive.is_some_and(|other| other.interval().1 >= low))
            .map(|row| row.label.clone())
            .collect();
        Some(Verdict {
            workload: self.workload.to_string(),
            metric: self.metric,
            best: best.label.clone(),
            gain_over_first: if base > 0.0 { summary.mean / base - 1.0 } else { 0.0 },
            about_equal,
            first: first.label.clone(),
        })
    }
}

/// Records side by side.
struct Sides<'a> {
    /// The parts that all stacks share.
    shared: Vec<&'a str>,
    /// The short names, each with what it stands for; empty if the stacks' own names are used.
    legend: Vec<(String, String)>,
    sections: Vec<Section<'a>>,
}

fn sides(records: &[RunRecord]) -> Sides<'_> {
    let groups = groups(records);
    let mut firsts: Vec<&RunRecord> = Vec::new();
    for record in groups.iter().filter_map(|group| group.records.first()) {
        if !firsts.iter().any(|first| first.stack == record.stack) {
            firsts.push(record);
        }
    }
    let stacks: Vec<&str> = firsts.iter().map(|first| first.stack.as_str()).collect();
    let (shared, own) = shared_parts(&stacks);
    let short = short_names(&firsts).filter(|names| names.len() > 1);
    let legend = short.iter().flatten().cloned().zip(own.clone()).collect();
    let labels = short.unwrap_or(own);
    let mut sections: Vec<Section<'_>> = Vec::new();
    for group in groups {
        let label = stacks.iter().position(|stack| *stack == group.stack).and_then(|at| labels.get(at));
        let row = Row { label: label.cloned().unwrap_or_default(), decisive: None, group };
        match sections.iter_mut().find(|section| section.workload == row.group.workload) {
            Some(section) => section.rows.push(row),
            None => sections.push(Section { workload: row.group.workload, metric: "write_mb_per_s", rows: vec![row] }),
        }
    }
    for section in &mut sections {
        let writes = section.rows.iter().any(|row| row.group.records.iter().any(|r| r.figures.user_bytes_written > 0));
        section.metric = if writes { "write_mb_per_s" } else { "read_mb_per_s" };
        for row in &mut section.rows {
            row.decisive = row.group.summary(section.metric);
        }
    }
    Sides { shared, legend, sections }
}

/// The best stack on each workload, in the order of the records.
pub fn verdicts(records: &[RunRecord]) -> Vec<Verdict> {
    sides(records).sections.iter().filter_map(Section::verdict).collect()
}

/// The comparison for people, within 80 columns: who is best and what would change it, then a table
/// for each workload, and what names and columns stand for.
pub fn comparison(records: &[RunRecord], style: Style) -> String {
    let Sides { shared, legend, sections } = sides(records);
    let seeds = sections.iter().flat_map(|s| &s.rows).map(|row| row.group.records.len()).max().unwrap_or(0);
    if seeds == 0 {
        return "no records\n".to_string();
    }
    let mut text = String::new();
    let outcome = words(&sections.iter().filter_map(Section::verdict).collect::<Vec<_>>());
    let changed = what_would_change(records);
    for sentence in [outcome, changed].into_iter().filter(|sentence| !sentence.is_empty()) {
        text.push_str(&format!("{}\n", fold(&sentence)));
    }
    for section in &sections {
        text.push('\n');
        let table = section_table(section, style);
        text.push_str(&if style.markdown { table.markdown() } else { table.text() });
        let named: Vec<Named<'_>> = section.rows.iter().map(|row| (row.label.as_str(), &row.group)).collect();
        for (at, remark) in remarks(&named).iter().enumerate() {
            // Markdown takes the line behind a table for one of its rows.
            let gap = if style.markdown && at == 0 { "\n" } else { "" };
            text.push_str(&format!("{gap}{}\n", fold(remark)));
        }
    }
    text.push('\n');
    for (name, stands_for) in legend {
        text.push_str(&format!("{}\n", fold(&format!("{name}: {stands_for}"))));
    }
    if !shared.is_empty() {
        text.push_str(&format!("{}\n", fold(&format!("All: {}", shared.join(", ")))));
    }
    text.push_str(&format!("{}\n", fold(&columns_told(seeds))));
    text
}

/// Explains the columns in words.
fn columns_told(seeds: usize) -> String {
    let spread = match seeds {
        1 => "one seed",
        2 => "means of 2 seeds, +- half of their range",
        _ => "means of several seeds, +- half of their 95 % interval",
    };
    format!(
        "Rates: {spread}. p99: of the slowest kind of operation. waf: bytes programmed for each that the user wrote; clean: how much of these are copies to make room. erases: for each MB that the user wrote. life: what the user can write until the most worn blocks of a new part have had its rated erases; lasts: how long that takes at this rate (y years, d days, h hours)."
    )
}

fn section_table(section: &Section<'_>, style: Style) -> Table {
    let head = if section.metric == "write_mb_per_s" { "write" } else { "read" };
    let right = |head: &str| (head.to_string(), Align::Right);
    let mut table = Table::new([
        (String::new(), Align::Left),
        (style.strong(&in_short(section.workload)), Align::Left),
        right(head),
        right(""),
        (String::new(), Align::Left),
        right("p99"),
        right("waf"),
        right("clean"),
        right("erases"),
        right("life"),
        right("lasts"),
    ])
    .with_one_blank_after(&[MARK, RATE, SPREAD]);
    let best = section.best();
    let whole = best.map_or(0.0, |(_, summary)| summary.mean);
    let mut known: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for row in &section.rows {
        let is_best = best.is_some_and(|(best, _)| best.label == row.label);
        let cells = cells(row, if is_best { style.best() } else { "" }, whole, style);
        // Rows that are equal throughout are one.
        match known.iter_mut().find(|(other, _)| *other == cells) {
            Some((_, labels)) => labels.push(&row.label),
            None => known.push((cells, vec![&row.label])),
        }
    }
    for (cells, labels) in known {
        let is_best = cells.first().is_some_and(|mark| !mark.is_empty());
        let label = labels.join(" = ");
        let mut cells = cells.into_iter();
        let mark = cells.next().unwrap_or_default();
        table.row([mark, if is_best { style.strong(&label) } else { label }].into_iter().chain(cells));
    }
    table
}

/// The cells of a row but for its label.
fn cells(row: &Row<'_>, mark: &str, whole: f64, style: Style) -> Vec<String> {
    let or_dash = |summary: Option<Summary>, shown: &dyn Fn(f64) -> String| {
        summary.map_or_else(|| "-".to_string(), |summary| shown(summary.mean))
    };
    let of_figures = |figure: &dyn Fn(&nandkit_record::Figures) -> Option<f64>| row.group.summary_of(figure);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    vec![
        mark.to_string(),
        or_dash(row.decisive, &rate),
        row.decisive.map_or_else(String::new, |summary| spread(summary, style)),
        style.bar(row.decisive.map_or(0.0, |summary| summary.mean), whole, BAR_WIDTH),
        or_dash(of_figures(&p99_ns), &time),
        or_dash(row.group.summary("waf"), &number),
        or_dash(of_figures(&cleaning_share), &percent),
        or_dash(of_figures(&erases_per_mb), &number),
        or_dash(row.group.summary("lifetime_bytes"), &lifetime_bytes),
        or_dash(row.group.summary("lifetime_s"), &lifetime),
    ]
}

/// Half the interval as a share of the mean; empty for one value.
fn spread(summary: Summary, style: Style) -> String {
    let (low, high) = summary.interval();
    match summary.count {
        0 | 1 => String::new(),
        _ if summary.mean == 0.0 => String::new(),
        _ => format!("{}{:.0} %", style.plus_minus(), (high - low) / 2.0 / summary.mean * 100.0),
    }
}

/// The verdicts in words.
pub fn words(verdicts: &[Verdict]) -> String {
    let mut winners: Vec<(&str, Vec<&Verdict>)> = Vec::new();
    for verdict in verdicts {
        match winners.iter_mut().find(|(name, _)| *name == verdict.best) {
            Some((_, won)) => won.push(verdict),
            None => winners.push((&verdict.best, vec![verdict])),
        }
    }
    winners.sort_by_key(|(_, won)| std::cmp::Reverse(won.len()));
    let sentences: Vec<String> = winners
        .iter()
        .map(|(name, won)| {
            let list: Vec<String> = won.iter().map(|verdict| on_workload(verdict)).collect();
            format!("{name} is best on {}.", list.join(", "))
        })
        .collect();
    sentences.join("\n")
}

fn on_workload(verdict: &Verdict) -> String {
    let mut notes = Vec::new();
    if verdict.best != verdict.first {
        notes.push(format!("{:+.1} % over {}", verdict.gain_over_first * 100.0, verdict.first));
    }
    if !verdict.about_equal.is_empty() {
        notes.push(format!("not told apart from {}", verdict.about_equal.join(" and ")));
    }
    let workload = in_short(&verdict.workload);
    if notes.is_empty() { workload } else { format!("{workload} ({})", notes.join("; ")) }
}

/// A workload on one line of a table: commands may be scripts of many lines.
pub(crate) fn in_short(workload: &str) -> String {
    const SHOWN: usize = 60;
    let line = workload.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn a_script_takes_one_line_of_the_table() {
        let script = format!("sh -c first\n\tsecond {}", "x".repeat(100));
        let text = comparison(&[record("fat | merge | chip", &script, 1, 2.0)], Style::PLAIN);
        let shown = format!("sh -c first second {}...", "x".repeat(60 - "sh -c first second ".len()));
        assert!(text.lines().any(|line| line.contains(&shown)), "{text}");
        assert_eq!(in_short("fax"), "fax");
    }

    fn records() -> Vec<RunRecord> {
        vec![
            record("fat | merge | chip", "fax", 1, 2.0),
            record("fat | merge | chip", "fax", 2, 2.2),
            record("fat | limit | chip", "fax", 1, 3.0),
            record("fat | limit | chip", "fax", 2, 3.0),
            record("fat | merge | chip", "phone", 1, 4.0),
            record("fat | limit | chip", "phone", 1, 3.0),
        ]
    }

    #[test]
    fn the_table_in_plain_text() {
        let expected = "\
limit is best on fax (+42.9 % over merge).
merge is best on phone.

  fax        write             p99   waf  clean  erases  life  lasts
  merge  2.10 MB/s +-5 % ###     -  2.00    0 %    16.0     -      -
* limit  3.00 MB/s +-0 % ####    -  2.00    0 %    16.0     -      -

  phone      write       p99   waf  clean  erases  life  lasts
* merge  4.00 MB/s ####    -  2.00    0 %    16.0     -      -
  limit  3.00 MB/s ###     -  2.00    0 %    16.0     -      -

All: fat, chip
Rates: means of 2 seeds, +- half of their range. p99: of the slowest kind of
operation. waf: bytes programmed for each that the user wrote; clean: how much
of these are copies to make room. erases: for each MB that the user wrote. life:
what the user can write until the most worn blocks of a new part have had its
rated erases; lasts: how long that takes at this rate (y years, d days, h
hours).
";
        assert_eq!(comparison(&records(), Style::PLAIN), expected);
    }

    #[test]
    fn as_markdown_the_same_cells_stand_between_bars() {
        let text = comparison(&records(), Style { markdown: true, ..Style::PLAIN });
        assert!(text.contains("|  | fax | write |"), "{text}");
        assert!(text.contains("| * | limit | 3.00 MB/s | +-0 % | #### | - | 2.00 | 0 % | 16.0 | - | - |"), "{text}");
    }

    #[test]
    fn rows_that_are_equal_are_one() {
        let records = [record("fat | a", "w", 1, 2.0), record("fat | b", "w", 1, 1.0), record("fat | c", "w", 1, 1.0)];
        let text = comparison(&records, Style::PLAIN);
        assert!(text.lines().any(|line| line.contains("  b = c  1.00 MB/s")), "{text}");
    }

    #[test]
    fn verdicts_follow_the_records() {
        let mut records = records();
        assert_eq!(verdicts(&records)[0].best, "limit");
        for record in records.iter_mut().filter(|record| record.stack.contains("limit")) {
            record.figures.write_mb_per_s = Some(1.0);
        }
        assert_eq!(verdicts(&records)[0].best, "merge");
    }

    #[test]
    fn overlapping_intervals_are_not_told_apart() {
        let records = [
            record("a", "w", 1, 2.0),
            record("a", "w", 2, 4.0),
            record("b", "w", 1, 3.0),
            record("b", "w", 2, 3.2),
            record("c", "w", 1, 1.0),
        ];
        let verdicts = verdicts(&records);
        assert_eq!(verdicts[0].about_equal, ["a"]);
        assert_eq!(words(&verdicts), "b is best on w (+3.3 % over a; not told apart from a).");
    }

    #[test]
    fn reading_workloads_are_judged_by_their_reads() {
        let mut read = record("a", "w", 1, 1.0);
        read.figures.user_bytes_written = 0;
        read.figures.write_mb_per_s = Some(0.0);
        read.figures.read_mb_per_s = Some(7.0);
        read.figures.waf = None;
        assert_eq!(verdicts(std::slice::from_ref(&read))[0].metric, "read_mb_per_s");
        assert!(comparison(&[read], Style::PLAIN).contains("7.00 MB/s"));
    }

    #[test]
    fn no_records_give_no_verdict() {
        assert_eq!(comparison(&[], Style::PLAIN), "no records\n");
    }
}
