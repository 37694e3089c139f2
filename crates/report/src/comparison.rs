//! Stacks side by side: for each workload a table with bars, the best marked, and the outcome in words.

use nandkit_record::RunRecord;

use crate::summary::{Group, Summary, groups, number, shared_parts};
use crate::{Align, Style, Table};

const BAR_WIDTH: usize = 24;

/// Who is best on one workload.
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
    /// Labels of the other stacks whose interval reaches into the best one's: they are not told apart by these seeds.
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

fn sections(records: &[RunRecord]) -> (Vec<&str>, Vec<Section<'_>>) {
    let groups = groups(records);
    let mut stacks: Vec<&str> = Vec::new();
    for group in &groups {
        if !stacks.contains(&group.stack) {
            stacks.push(group.stack);
        }
    }
    let (shared, labels) = shared_parts(&stacks);
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
    (shared, sections)
}

/// The best stack on each workload, in the order of the records.
pub fn verdicts(records: &[RunRecord]) -> Vec<Verdict> {
    sections(records).1.iter().filter_map(Section::verdict).collect()
}

/// The comparison for people: one section for each workload, the best row marked, the outcome in words at the end.
pub fn comparison(records: &[RunRecord], style: Style) -> String {
    let (shared, sections) = sections(records);
    let mut text = String::new();
    if !shared.is_empty() {
        text.push_str(&format!("{}\n", shared.join(", ")));
    }
    let seeds = sections.iter().flat_map(|s| &s.rows).map(|row| row.group.records.len()).max().unwrap_or(0);
    text.push_str(&match seeds {
        0 => "no records\n".to_string(),
        1 => "one seed\n".to_string(),
        2 => "mean and range of 2 seeds\n".to_string(),
        _ => format!("mean of {seeds} seeds, with its 95 % interval\n"),
    });
    for section in &sections {
        text.push('\n');
        text.push_str(&section_table(section, style).text());
    }
    let outcome = words(&sections.iter().filter_map(Section::verdict).collect::<Vec<_>>());
    if !outcome.is_empty() {
        text.push_str(&format!("\n{outcome}\n"));
    }
    text
}

fn section_table(section: &Section<'_>, style: Style) -> Table {
    let rate = if section.metric == "write_mb_per_s" { "write MB/s" } else { "read MB/s" };
    let mut table = Table::new([
        (String::new(), Align::Left),
        (style.strong(&in_short(section.workload)), Align::Left),
        (rate.to_string(), Align::Right),
        (String::new(), Align::Left),
        (String::new(), Align::Left),
        ("vs first".to_string(), Align::Right),
        ("waf".to_string(), Align::Right),
        ("erases/MB".to_string(), Align::Right),
    ]);
    let best = section.best();
    let whole = best.map_or(0.0, |(_, summary)| summary.mean);
    let base = section.rows.first().and_then(|row| row.decisive).map(|summary| summary.mean);
    for (index, row) in section.rows.iter().enumerate() {
        let is_best = best.is_some_and(|(best, _)| best.label == row.label);
        let mean = row.decisive.map(|summary| summary.mean);
        let versus = match (mean, base) {
            (Some(mean), Some(base)) if index > 0 && base > 0.0 => format!("{:+.1} %", (mean / base - 1.0) * 100.0),
            _ => String::new(),
        };
        let erases_per_mb = row.group.summary_of(|figures| {
            (figures.user_bytes_written > 0).then(|| figures.erases as f64 * 1e6 / figures.user_bytes_written as f64)
        });
        let or_dash = |summary: Option<Summary>| summary.map_or_else(|| "-".to_string(), |s| number(s.mean));
        table.row([
            if is_best { style.best().to_string() } else { String::new() },
            if is_best { style.strong(&row.label) } else { row.label.clone() },
            or_dash(row.decisive),
            row.decisive.map_or_else(String::new, |summary| summary.spread(style)),
            format!("{:<BAR_WIDTH$}", style.bar(mean.unwrap_or(0.0), whole, BAR_WIDTH)),
            versus,
            or_dash(row.group.summary("waf")),
            or_dash(erases_per_mb),
        ]);
    }
    table
}

/// What the verdicts say, in words.
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
fn in_short(workload: &str) -> String {
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
fat, chip
mean and range of 2 seeds

   fax    write MB/s                                        vs first   waf  erases/MB
   merge        2.10  2.00..2.20  #################                   2.00       16.0
*  limit        3.00  3.00..3.00  ########################   +42.9 %  2.00       16.0

   phone  write MB/s                            vs first   waf  erases/MB
*  merge        4.00  ########################            2.00       16.0
   limit        3.00  ##################         -25.0 %  2.00       16.0

limit is best on fax (+42.9 % over merge).
merge is best on phone.
";
        assert_eq!(comparison(&records(), Style::PLAIN), expected);
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
        assert!(comparison(&[read], Style::PLAIN).contains("7.00"));
    }

    #[test]
    fn no_records_give_no_verdict() {
        assert_eq!(comparison(&[], Style::PLAIN), "no records\n");
    }
}
