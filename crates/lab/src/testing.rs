//! Records for tests.

use nandkit_record::{Figures, RunRecord, SCHEMA};

/// A record that only its seed tells from others.
pub(crate) fn record(seed: u64) -> RunRecord {
    RunRecord {
        schema: SCHEMA,
        nandkit: "0.1.0".into(),
        spec: "x".into(),
        seed,
        stack: "s".into(),
        workload: "w".into(),
        figures: Figures::default(),
        host_time_ns: 0,
        host_peak_bytes: 0,
        layers: Default::default(),
        phases: Default::default(),
    }
}
