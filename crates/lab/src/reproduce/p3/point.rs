//! Finds P3's runs among records, and computes figures of these runs.

use nandkit_record::{Figures, LayerValue, RunRecord};
use serde_json::Value;

use super::archive::phase;

/// The first record whose spec has these values at these places; a number that is left out is 0.
pub fn find<'a>(records: &'a [RunRecord], wanted: &[(&str, Value)]) -> Option<&'a RunRecord> {
    let zero = Value::from(0);
    records.iter().find(|record| wanted.iter().all(|(path, value)| record.spec.pointer(path).unwrap_or(&zero) == value))
}

/// A count of a layer; 0 where it has none of this name.
pub fn count(record: &RunRecord, layer: &str, name: &str) -> f64 {
    record.layers.get(layer).and_then(|layer| layer.get(name)).and_then(LayerValue::as_f64).unwrap_or(0.0)
}

/// A series of a job on fragments, by round.
pub fn series<'a>(record: &'a RunRecord, name: &str) -> &'a [f64] {
    match record.layers.get("fragments").and_then(|layer| layer.get(name)) {
        Some(LayerValue::Series(series)) => series,
        _ => &[],
    }
}

/// The last value of a series by its first.
pub fn change(record: &RunRecord, name: &str) -> Option<f64> {
    let series = series(record, name);
    Some(series.last()? / series.first()?.max(f64::MIN_POSITIVE))
}

/// One way of reading an archive's files.
pub fn way<'a>(record: &'a RunRecord, way: &str, with_host: bool) -> Option<&'a Figures> {
    record.phases.get(&phase(way, with_host))
}

/// How much faster qtar is than tar.
pub fn gain(record: &RunRecord, with_host: bool) -> Option<f64> {
    let time = |name| Some(way(record, name, with_host)?.elapsed_ns as f64);
    Some(time("tar")? / time("qtar")?.max(1.0))
}

/// User bytes in 10^6 per second of simulated time.
pub fn speed(record: &RunRecord) -> f64 {
    record.figures.write_mb_per_s.unwrap_or(0.0)
}

/// The name of the workload that runs after `holes`; empty if there is none.
pub fn name_of(record: &RunRecord) -> &str {
    let then = record.spec.pointer("/workload/then").and_then(Value::as_str).unwrap_or_default();
    then.split(':').next().unwrap_or(then)
}
