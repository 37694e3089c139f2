//! Records that differ only in their seed, taken together.

use nandkit_record::{Figures, RunRecord, read_path, spread};

use crate::Style;

/// Mean and spread of a metric over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); `None` for fewer
    /// than three values.
    pub half_95: Option<f64>,
}

impl Summary {
    /// Summarises these values; `None` for an empty slice.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = spread::mean(values)?;
        let (count, half_95) = (values.len(), spread::half_width_95(values));
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { count, mean, min, max, half_95 })
    }

    /// The range in which the mean is believed to be: the 95 % interval, or all values where there
    /// are too few for one.
    pub fn interval(&self) -> (f64, f64) {
        self.half_95.map_or((self.min, self.max), |half| (self.mean - half, self.mean + half))
    }

    /// The spread for a table: empty for one value, the range for two, the half width of the 95 %
    /// interval for more.
    pub fn spread(&self, style: Style) -> String {
        match self.half_95 {
            Some(half) => format!("{} {}", style.plus_minus(), number(half)),
            None if self.count > 1 => format!("{}..{}", number(self.min), number(self.max)),
            None => String::new(),
        }
    }
}

/// A number with three significant digits or all digits before the point, whichever is more.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if !value.is_finite() => "-".to_string(),
        m if m >= 99.95 => format!("{value:.0}"),
        m if m >= 9.995 => format!("{value:.1}"),
        m if m >= 0.1 || m == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// The records of one stack on one workload, one for each seed.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The stack's line.
    pub stack: &'a str,
    /// The workload's line.
    pub workload: &'a str,
    /// The records, in the order given.
    pub records: Vec<&'a RunRecord>,
}

impl Group<'_> {
    /// Mean and spread of a metric or any other dotted path; `None` if no record has it.
    pub fn summary(&self, path: &str) -> Option<Summary> {
        let values: Vec<f64> = self.records.iter().filter_map(|record| read_path(record, path).as_f64()).collect();
        Summary::of(&values)
    }

    /// Mean and spread of something computed from the measured figures.
    pub fn summary_of(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<Summary> {
        let values: Vec<f64> = self.records.iter().filter_map(|record| figure(&record.figures)).collect();
        Summary::of(&values)
    }
}

/// Records by spec, in the order in which the specs first appear.
pub fn groups(records: &[RunRecord]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let same = |group: &&mut Group<'_>| group.records.first().is_some_and(|first| first.spec == record.spec);
        match groups.iter_mut().find(same) {
            Some(group) => group.records.push(record),
            None => {
                groups.push(Group { stack: &record.stack, workload: &record.workload, records: vec![record] });
            }
        }
    }
    groups
}

/// The parts of a stack's line: it joins them by ` | `.
pub(crate) fn parts(stack: &str) -> impl Iterator<Item = &str> {
    stack.split(" | ")
}

/// The parts of the stacks' lines that all of them share, in the order of the first, and for each
/// stack a label of the other parts.
pub fn shared_parts<'a>(stacks: &[&'a str]) -> (Vec<&'a str>, Vec<String>) {
    let is_shared = |part: &str| stacks.iter().all(|stack| parts(stack).any(|other| other == part));
    let shared = stacks.first().map_or_else(Vec::new, |first| parts(first).filter(|part| is_shared(part)).collect());
    let labels = stacks
        .iter()
        .map(|stack| {
            let own: Vec<&str> = parts(stack).filter(|part| !is_shared(part)).collect();
            if own.is_empty() { stack.to_string() } else { own.join(" ") }
        })
        .collect();
    (shared, labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn the_interval_is_students() {
        // 1, 2, 3: s = 1, standard error 0.577, t(2) = 4.303
        let summary = Summary::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((summary.mean, summary.min, summary.max), (2.0, 1.0, 3.0));
        assert!((summary.half_95.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(summary.spread(Style::PLAIN), "+- 2.48");
        assert_eq!(Summary::of(&[1.0, 2.0]).unwrap().spread(Style::PLAIN), "1.00..2.00");
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn records_that_differ_by_seed_are_one_group() {
        let records = [record("a | d", "w", 1, 1.0), record("b | d", "w", 1, 2.0), record("a | d", "w", 2, 3.0)];
        let groups = groups(&records);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].summary("write_mb_per_s").unwrap().mean, 2.0);
        assert_eq!(groups[1].stack, "b | d");
    }

    #[test]
    fn labels_are_what_differs() {
        let (shared, labels) = shared_parts(&["fat | block-map | merge | d", "fat | fast | d"]);
        assert_eq!(shared, ["fat", "d"]);
        assert_eq!(labels, ["block-map merge", "fast"]);
        assert_eq!(shared_parts(&["only | one"]).1, ["only | one"]);
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in
            [(1234.5, "1234"), (99.96, "100"), (12.345, "12.3"), (1.2345, "1.23"), (0.012345, "0.0123")]
        {
            assert_eq!(number(value), text);
        }
    }
}
