//! Remarks on what limits a comparison: reasons why it shows less than it seems to.

use nandkit_record::RunRecord;
use serde_json::Value;

use crate::deciding::bytes;
use crate::summary::Group;

/// A row's name, and its records.
pub(crate) type Named<'a> = (&'a str, &'a Group<'a>);

/// A WAF under this is more than rounding: what was written stayed in memory or was removed there.
const IN_MEMORY: f64 = 0.95;

/// The remarks on one workload's rows.
pub(crate) fn remarks(rows: &[Named<'_>]) -> Vec<String> {
    let mut remarks = Vec::new();
    let of_flash = |row: &&Named<'_>| row.1.records.iter().any(|record| record.figures.waf.is_some());
    let kept: Vec<&Named<'_>> =
        rows.iter().filter(|row| row.1.summary("waf").is_some_and(|waf| waf.mean < IN_MEMORY)).collect();
    if let Some(row) = kept.first() {
        let sum = |figure: &dyn Fn(&RunRecord) -> u64| row.1.records.iter().map(|record| figure(record)).sum::<u64>();
        let (written, programmed) =
            (sum(&|record| record.figures.user_bytes_written), sum(&|record| record.figures.bytes_programmed));
        remarks.push(format!(
            "{}: a WAF under 1. Of {} only {} reached flash; the host's memory took the rest, and its rate is that of memory.",
            names(&kept),
            bytes(written as f64),
            bytes(programmed as f64)
        ));
    }
    let idle: Vec<&Named<'_>> = rows.iter().filter(of_flash).filter(|row| !cleaned(row)).collect();
    if !idle.is_empty() {
        remarks.push(format!("{}: nothing was cleaned, as on a new device; a full one is slower.", names(&idle)));
    }
    remarks
}

/// Whether anything was erased or copied to make room in the measured phase.
fn cleaned(row: &Named<'_>) -> bool {
    let did =
        |record: &RunRecord| record.figures.erases > 0 || record.figures.bytes_programmed_by_cause.get("cleaning") > 0;
    row.1.records.iter().copied().any(did)
}

fn names(rows: &[&Named<'_>]) -> String {
    rows.iter().map(|row| row.0).collect::<Vec<_>>().join(", ")
}

/// Names the settings that the order of the stacks depends on.
pub(crate) fn what_would_change(records: &[RunRecord]) -> String {
    let has = |path: [&str; 2]| {
        records.iter().any(|record| {
            let found = path.iter().try_fold(&record.spec, |value, key| value.get(*key));
            found.is_some_and(|value| !value.is_null())
        })
    };
    let kind = |record: &RunRecord| {
        record.spec.get("precondition").and_then(|how| how.get("kind")?.as_str().map(str::to_owned))
    };
    let is_used = records.iter().any(|record| kind(record).as_deref() == Some("used"));
    let is_new = records.iter().any(|record| kind(record).as_deref() == Some("none"));
    let has_files = records.iter().any(|record| {
        record
            .spec
            .get("stack")
            .and_then(|stack| stack.get("fs")?.get("kind"))
            .and_then(Value::as_str)
            .is_some_and(|fs| fs != "none")
    });
    let mut settings = Vec::new();
    if has(["stack", "host"]) {
        settings.push("a host with more memory or none (--host)");
    }
    if is_used {
        settings.push("an emptier device (--precondition none)");
    } else if is_new && has_files {
        settings.push("a used device (--precondition used)");
    }
    match settings.as_slice() {
        [] => String::new(),
        _ => format!("What would change it: {}.", settings.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::record;
    use crate::{Style, comparison};

    #[test]
    fn a_waf_under_one_and_a_device_that_cleans_nothing_are_told() {
        let mut cached = record("fat | a", "w", 1, 2.0);
        cached.figures.bytes_programmed = 1_000_000;
        cached.figures.derive();
        cached.figures.erases = 0;
        let text = comparison(&[cached, record("fat | b", "w", 1, 2.0)], Style::PLAIN).replace('\n', " ");
        assert!(text.contains("a: a WAF under 1. Of 10.0 MB only 1.00 MB reached flash"), "{text}");
        assert!(text.contains("a: nothing was cleaned"), "{text}");
        assert!(!text.contains("a, b: nothing was cleaned"), "{text}");
    }
}
