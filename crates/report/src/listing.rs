//! Any records as a table: one row for each spec, seeds taken together, with the metrics that were
//! asked for.

use nandkit_record::{RunRecord, metric};

use crate::summary::{groups, number, shared_parts};
use crate::{Align, Style, Table};

/// Records as a table with these metrics, or other dotted paths, as columns; what all stacks share
/// is named once above it.
pub fn listing(records: &[RunRecord], paths: &[&str], style: Style) -> String {
    let groups = groups(records);
    let stacks: Vec<&str> = groups.iter().map(|group| group.stack).collect();
    let (shared, labels) = shared_parts(&stacks);
    let mut columns = vec![
        ("stack".to_string(), Align::Left),
        ("workload".to_string(), Align::Left),
        ("seeds".to_string(), Align::Right),
    ];
    for path in paths {
        let unit = metric(path).map_or("", |metric| metric.unit);
        let head = if unit.is_empty() { path.to_string() } else { format!("{path} [{unit}]") };
        columns.push((head, Align::Right));
        columns.push((String::new(), Align::Left));
    }
    let mut table = Table::new(columns);
    for (group, label) in groups.iter().zip(labels) {
        let mut row = vec![label, group.workload.to_string(), group.records.len().to_string()];
        for path in paths {
            let summary = group.summary(path);
            row.push(summary.map_or_else(|| "-".to_string(), |summary| number(summary.mean)));
            row.push(summary.map_or_else(String::new, |summary| summary.spread(style)));
        }
        table.row(row);
    }
    let head = if shared.is_empty() || groups.len() < 2 { String::new() } else { format!("{}\n\n", shared.join(", ")) };
    head + &if style.markdown { table.markdown() } else { table.text() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn the_listing_in_plain_text() {
        let records = [
            record("fat | merge | chip", "fax", 1, 2.0),
            record("fat | merge | chip", "fax", 2, 3.0),
            record("fat | limit | chip", "fax", 1, 3.0),
        ];
        let expected = "\
fat, chip

stack  workload  seeds  write_mb_per_s [MB/s]               waf              layers.ftl.x
merge  fax           2                   2.50  2.00..3.00  2.00  2.00..2.00             -
limit  fax           1                   3.00              2.00                         -
";
        assert_eq!(listing(&records, &["write_mb_per_s", "waf", "layers.ftl.x"], Style::PLAIN), expected);
    }
}
