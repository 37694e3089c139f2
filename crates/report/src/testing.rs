//! Records for tests.

use nandkit_record::{Figures, RunRecord, SCHEMA};

/// A record of a run that wrote 10 MB at this rate with a write amplification of 2.
pub(crate) fn record(stack: &str, workload: &str, seed: u64, mb_per_s: f64) -> RunRecord {
    let mut figures = Figures {
        user_bytes_written: 10_000_000,
        bytes_programmed: 20_000_000,
        erases: 160,
        elapsed_ns: (10_000.0 / mb_per_s * 1e6) as u64,
        ..Figures::default()
    };
    figures.bytes_programmed_by_cause.0.insert("user_data".into(), 20_000_000);
    figures.derive();
    figures.write_mb_per_s = Some(mb_per_s);
    RunRecord {
        schema: SCHEMA,
        nandkit: "0.1.0".into(),
        spec: format!("{stack} {workload}").into(),
        seed,
        stack: stack.into(),
        workload: workload.into(),
        figures,
        host_time_ns: 0,
        host_peak_bytes: 0,
        layers: Default::default(),
        phases: Default::default(),
    }
}
