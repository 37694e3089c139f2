//! The one table of metric definitions: the CSV header, the JSON legend and the columns of tables
//! come from it.

use nandkit_units::Better;
use serde_json::{Value, json};

use crate::lifetime::{lifetime_bytes, lifetime_s};
use crate::run_record::RunRecord;

/// What a metric reads from a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A real number.
    Real(f64),
    /// The record does not have it.
    Absent,
}

impl Reading {
    /// The number, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Real(real) => Some(*real),
            Self::Text(_) | Self::Absent => None,
        }
    }

    fn csv(&self) -> String {
        match self {
            Self::Text(text) => csv_field(text),
            Self::Count(count) => count.to_string(),
            Self::Real(real) => real.to_string(),
            Self::Absent => String::new(),
        }
    }
}

impl From<u64> for Reading {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<Option<f64>> for Reading {
    fn from(real: Option<f64>) -> Self {
        real.map_or(Self::Absent, Self::Real)
    }
}

/// The definition of a metric.
pub struct Metric {
    /// Its name: the CSV column, and the path in the JSON record unless it is derived from others.
    pub name: &'static str,
    /// Its unit; empty for texts and pure numbers.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// What it is, in one sentence.
    pub text: &'static str,
    /// Takes it from a record.
    pub read: fn(&RunRecord) -> Reading,
}

macro_rules! metrics {
    ($($name:literal, $unit:literal, $better:ident, $text:literal, |$record:ident| $read:expr;)*) => {
        &[$(Metric {
            name: $name,
            unit: $unit,
            better: Better::$better,
            text: $text,
            read: |$record| $read,
        }),*]
    };
}

/// Every metric that a record of any stack has.
pub static METRICS: &[Metric] = metrics! {
    "nandkit", "", Neither, "version of nandkit", |r| Reading::Text(r.nandkit.clone());
    "seed", "", Neither, "seed of every random stream", |r| r.seed.into();
    "stack", "", Neither, "file system, translation layer and device", |r| Reading::Text(r.stack.clone());
    "workload", "", Neither, "what was run on it", |r| Reading::Text(r.workload.clone());
    "user_bytes_written", "B", Neither, "bytes that the workload wrote", |r| r.figures.user_bytes_written.into();
    "user_bytes_read", "B", Neither, "bytes that the workload read", |r| r.figures.user_bytes_read.into();
    "bytes_programmed", "B", Lower, "bytes programmed into flash pages, copies included, OOB not", |r| r.figures.bytes_programmed.into();
    "bytes_programmed_by_cause.user_data", "B", Neither, "of these, the user's own data", |r| r.figures.bytes_programmed_by_cause.get("user_data").into();
    "bytes_programmed_by_cause.metadata", "B", Lower, "of these, metadata of the file system", |r| r.figures.bytes_programmed_by_cause.get("metadata").into();
    "bytes_programmed_by_cause.cleaning", "B", Lower, "of these, valid data moved by merges, migrations and garbage collection", |r| r.figures.bytes_programmed_by_cause.get("cleaning").into();
    "bytes_programmed_by_cause.checkpoint", "B", Lower, "of these, for consistent states made durable", |r| r.figures.bytes_programmed_by_cause.get("checkpoint").into();
    "bytes_programmed_by_cause.wear_levelling", "B", Lower, "of these, data moved to even out wear", |r| r.figures.bytes_programmed_by_cause.get("wear_levelling").into();
    "bytes_programmed_by_cause.mapping", "B", Lower, "of these, the map of the translation layer", |r| r.figures.bytes_programmed_by_cause.get("mapping").into();
    "bytes_programmed_by_cause.recovery", "B", Lower, "of these, repairs after a power cut", |r| r.figures.bytes_programmed_by_cause.get("recovery").into();
    "bytes_programmed_by_cause.format", "B", Neither, "of these, making an empty file system", |r| r.figures.bytes_programmed_by_cause.get("format").into();
    "bytes_programmed_by_area.main", "B", Neither, "bytes programmed for files and directories, whatever the cause", |r| r.figures.area("main").into();
    "bytes_programmed_by_area.metadata", "B", Neither, "bytes programmed for areas of nothing but metadata (FATs), whatever the cause", |r| r.figures.area("metadata").into();
    "waf", "", Lower, "write amplification: bytes_programmed / user_bytes_written", |r| r.figures.waf.into();
    "erases", "", Lower, "block erases", |r| r.figures.erases.into();
    "erases_per_block.min", "", Neither, "fewest erases of a block", |r| r.figures.erases_per_block.min.into();
    "erases_per_block.p10", "", Neither, "a tenth of the blocks have at most this many erases", |r| r.figures.erases_per_block.p10.into();
    "erases_per_block.p50", "", Neither, "half of the blocks have at most this many erases", |r| r.figures.erases_per_block.p50.into();
    "erases_per_block.p90", "", Neither, "nine tenths of the blocks have at most this many erases", |r| r.figures.erases_per_block.p90.into();
    "erases_per_block.max", "", Lower, "most erases of a block", |r| r.figures.erases_per_block.max.into();
    "erases_per_block.never", "", Neither, "blocks without an erase", |r| r.figures.erases_per_block.never.into();
    "device_time_ns", "ns", Lower, "time that flash operations kept dies and channels busy, summed over them", |r| r.figures.device_time_ns.into();
    "elapsed_ns", "ns", Lower, "simulated time from the start of the measured phase to its end", |r| r.figures.elapsed_ns.into();
    "write_mb_per_s", "MB/s", Higher, "user bytes written per simulated second, in units of 10^6 bytes", |r| r.figures.write_mb_per_s.into();
    "read_mb_per_s", "MB/s", Higher, "user bytes read per simulated second, in units of 10^6 bytes", |r| r.figures.read_mb_per_s.into();
    "lifetime_bytes", "B", Higher, "bytes that the user can write until the most worn blocks of a new part have had its rated erases, if it is used as in the measured phase", |r| lifetime_bytes(r).into();
    "lifetime_s", "s", Higher, "how long that takes if the workload never pauses", |r| lifetime_s(r).into();
    "host_time_ns", "ns", Lower, "wall-clock time of the run on the simulating host; not reproducible", |r| r.host_time_ns.into();
    "host_peak_bytes", "B", Lower, "largest resident memory of the simulating process so far; not reproducible", |r| r.host_peak_bytes.into();
};

/// The metric of this name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Reads any value of a record by its dotted path: a metric's name, or a path that only some stacks
/// have, as `latency_ns.write.p99`, `device_time_ns_by_cause.cleaning` or `layers.ftl.merges`.
pub fn read_path(record: &RunRecord, path: &str) -> Reading {
    if let Some(metric) = metric(path) {
        return (metric.read)(record);
    }
    let whole = serde_json::to_value(record).unwrap_or(Value::Null);
    let found = path.split('.').try_fold(&whole, |value, key| value.get(key));
    match found {
        Some(Value::String(text)) => Reading::Text(text.clone()),
        Some(Value::Number(number)) => number
            .as_u64()
            .map(Reading::Count)
            .or_else(|| number.as_f64().map(Reading::Real))
            .unwrap_or(Reading::Absent),
        _ => Reading::Absent,
    }
}

/// Whether a path names a metric or a single value of this record; the value may be null (the mean
/// of nothing). A path to a group of values does not count.
pub fn has_path(record: &RunRecord, path: &str) -> bool {
    let whole = serde_json::to_value(record).unwrap_or(Value::Null);
    metric(path).is_some()
        || path.split('.').try_fold(&whole, |value, key| value.get(key)).is_some_and(|value| !value.is_object())
}

/// The definitions as JSON, for programs that read records.
pub fn legend() -> Value {
    METRICS
        .iter()
        .map(|metric| {
            json!({"name": metric.name, "unit": metric.unit, "better": metric.better.name(), "text": metric.text})
        })
        .collect()
}

/// A field of a CSV line (RFC 4180): quoted where it has to be.
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

/// Records as CSV: a header, then one line each, lines ended by a line feed. Latencies of each kind
/// of operation that any of the records has follow the metrics of the table.
pub fn csv(records: &[RunRecord]) -> String {
    let mut kinds: Vec<&String> = records.iter().flat_map(|record| record.figures.latency_ns.keys()).collect();
    kinds.sort();
    kinds.dedup();
    let mut header: Vec<String> = METRICS.iter().map(|metric| metric.name.to_string()).collect();
    for kind in &kinds {
        header
            .extend(["count", "p50", "p99", "p999", "max"].map(|part| csv_field(&format!("latency_ns.{kind}.{part}"))));
    }
    let mut text = header.join(",");
    text.push('\n');
    for record in records {
        let mut line: Vec<String> = METRICS.iter().map(|metric| (metric.read)(record).csv()).collect();
        for kind in &kinds {
            match record.figures.latency_ns.get(*kind) {
                Some(l) => line.extend([l.count, l.p50, l.p99, l.p999, l.max].map(|value| value.to_string())),
                None => line.extend(std::iter::repeat_n(String::new(), 5)),
            }
        }
        text.push_str(&line.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_record::testing::record;

    #[test]
    fn names_are_distinct_and_are_paths_of_the_record() {
        let record = record();
        let value = serde_json::to_value(&record).unwrap();
        for metric in METRICS {
            assert_eq!(METRICS.iter().filter(|other| other.name == metric.name).count(), 1, "{}", metric.name);
            let at_path = metric.name.split('.').try_fold(&value, |value, key| value.get(key));
            let by_cause = metric.name.contains("_by_cause.") || metric.name.contains("_by_area.");
            let is_derived = metric.name.starts_with("lifetime_");
            assert!(at_path.is_some() || by_cause || is_derived, "{} is no path of the record", metric.name);
            if let (Some(number), Some(read)) = (at_path.and_then(Value::as_f64), (metric.read)(&record).as_f64()) {
                assert_eq!(number, read, "{}", metric.name);
            }
        }
    }

    #[test]
    fn csv_quotes_and_aligns() {
        let text = csv(&[record()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("nandkit,seed,stack,workload,user_bytes_written,"));
        assert!(lines[0].ends_with("latency_ns.write.count,latency_ns.write.p50,latency_ns.write.p99,latency_ns.write.p999,latency_ns.write.max"));
        assert!(
            lines[1].starts_with("0.1.0,1,\"fat on block-map, \"\"merge\"\"\",fax,1048576,0,1572864,1048576,0,524288,")
        );
        assert!(lines[1].ends_with(",3,1,2,3,4"));
    }

    #[test]
    fn paths_reach_what_layers_add() {
        let record = record();
        assert_eq!(read_path(&record, "waf"), Reading::Real(1.5));
        assert_eq!(read_path(&record, "layers.ftl.merges"), Reading::Count(7));
        assert_eq!(read_path(&record, "latency_ns.write.p999"), Reading::Count(3));
        assert_eq!(read_path(&record, "layers.ftl.broken"), Reading::Absent);
        assert_eq!(read_path(&record, "layers.none"), Reading::Absent);
        for (path, there) in [
            ("layers.ftl.broken", true),
            ("layers.ftl.p", true),
            ("waf", true),
            ("layers.ftl", false),
            ("layers.ftl.x", false),
        ] {
            assert_eq!(has_path(&record, path), there, "{path}");
        }
    }

    #[test]
    fn the_legend_tells_direction_and_unit() {
        let legend = legend();
        let waf = legend.as_array().unwrap().iter().find(|entry| entry["name"] == "waf").unwrap();
        assert_eq!(waf["better"], "lower");
    }
}
