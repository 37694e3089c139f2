//! The record of one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figures::{Figures, Layers};

/// The version of the record's format. It grows when a field changes its meaning or goes; new
/// fields leave it as it is.
pub const SCHEMA: u32 = 1;

/// One run: what was run, and what it measured. Keys are written in the order of the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// The version of nandkit that ran.
    pub nandkit: String,
    /// The whole resolved spec, defaults included: with the seed it determines everything else but
    /// `host_*`.
    pub spec: Value,
    /// The seed of every random stream of the run.
    pub seed: u64,
    /// The stack in one line, for people.
    pub stack: String,
    /// The workload in one line, for people.
    pub workload: String,
    /// The measured phase.
    #[serde(flatten)]
    pub figures: Figures,
    /// Wall-clock time of the run on the host that simulated it. Not reproducible.
    pub host_time_ns: u64,
    /// Largest resident memory of the simulating process so far; 0 where the host does not tell.
    /// Not reproducible.
    pub host_peak_bytes: u64,
    /// What each layer counted in the measured phase, by the layer's name, and its levels at the
    /// phase's end. Only the list of a traced block's recyclings goes back to the start of the
    /// stack.
    pub layers: Layers,
    /// The phases before the measured one, by name: format, fill, age.
    pub phases: BTreeMap<String, Figures>,
}

impl RunRecord {
    /// The key that identifies a run: version, seed and spec. Two records with the same key differ
    /// in `host_*` alone.
    pub fn key(&self) -> String {
        run_key(&self.nandkit, self.seed, &self.spec)
    }

    /// The record as one line of JSON, without the line feed. Keys come in a fixed order and floats
    /// in their shortest exact form.
    pub fn to_line(&self) -> String {
        // Serialising into memory fails only for maps whose keys are no strings, and a record has
        // none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The record without what the host adds: equal for equal spec and seed, on any machine and
    /// number of threads.
    pub fn without_host(&self) -> Self {
        Self { host_time_ns: 0, host_peak_bytes: 0, ..self.clone() }
    }
}

/// The key of a run that is yet to be made; see [`RunRecord::key`].
pub fn run_key(version: &str, seed: u64, spec: &Value) -> String {
    format!("{version} {seed} {spec}")
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::figures::{Latency, LayerValue};

    pub(crate) fn record() -> RunRecord {
        let mut figures = Figures {
            user_bytes_written: 1 << 20,
            bytes_programmed: 3 << 19,
            erases: 12,
            device_time_ns: 2_000_000_000,
            elapsed_ns: 2_000_000_000,
            ..Figures::default()
        };
        figures.bytes_programmed_by_cause.0.insert("user_data".into(), 1 << 20);
        figures.bytes_programmed_by_cause.0.insert("cleaning".into(), 1 << 19);
        figures.latency_ns.insert("write".into(), Latency { count: 3, p50: 1, p99: 2, p999: 3, max: 4 });
        figures.derive();
        let mut layer = BTreeMap::new();
        layer.insert("merges".to_string(), LayerValue::Count(7));
        layer.insert("mean_p".to_string(), LayerValue::level(1.0));
        layer.insert("broken".to_string(), LayerValue::level(f64::NAN));
        layer.insert("p".to_string(), LayerValue::Series(vec![0.5, 1.0]));
        RunRecord {
            schema: SCHEMA,
            nandkit: "0.1.0".into(),
            spec: serde_json::json!({"stack": {"fs": "fat"}, "workload": {"kind": "fax"}}),
            seed: 1,
            stack: "fat on block-map, \"merge\"".into(),
            workload: "fax".into(),
            figures,
            host_time_ns: 5,
            host_peak_bytes: 6,
            layers: BTreeMap::from([("ftl".to_string(), layer)]),
            phases: BTreeMap::from([("fill".to_string(), Figures::default())]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_fixed_keys_in_a_fixed_order() {
        let line = testing::record().to_line();
        assert!(!line.contains('\n'));
        let expected = [
            "schema",
            "nandkit",
            "spec",
            "seed",
            "stack",
            "workload",
            "user_bytes_written",
            "user_bytes_read",
            "bytes_programmed",
            "bytes_programmed_by_cause",
            "bytes_programmed_by_area",
            "waf",
            "erases",
            "erases_per_block",
            "device_time_ns",
            "device_time_ns_by_cause",
            "elapsed_ns",
            "write_mb_per_s",
            "read_mb_per_s",
            "latency_ns",
            "host_time_ns",
            "host_peak_bytes",
            "layers",
            "phases",
        ];
        let mut from = 0;
        for key in expected {
            let at = line[from..].find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in its place: {line}"));
            from += at;
        }
    }

    #[test]
    fn a_record_survives_the_line() {
        let record = testing::record();
        let line = record.to_line();
        let again: RunRecord = serde_json::from_str(&line).unwrap();
        assert_eq!(again.to_line(), line);
        assert_eq!(again, record);
    }

    #[test]
    fn the_view_without_host_differs_only_there() {
        let record = testing::record();
        let mut other = record.clone();
        other.host_time_ns = 99;
        other.host_peak_bytes = 99;
        assert_ne!(record.to_line(), other.to_line());
        assert_eq!(record.without_host().to_line(), other.without_host().to_line());
        other.seed = 2;
        assert_ne!(record.without_host(), other.without_host());
        assert_ne!(record.key(), other.key());
    }
}
