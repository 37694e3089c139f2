//! Records and verdicts for tests.

use nandkit_record::{Figures, RunRecord, SCHEMA};

use crate::reproduce::Claim;

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

/// The verdict on the single claim that was asked for, with its note.
#[track_caller]
pub(crate) fn only(claim: &str, judged: Vec<Claim>) -> (bool, String) {
    let [judged] = &judged[..] else { panic!("{} claims in place of {claim}", judged.len()) };
    assert_eq!(judged.claim, claim);
    (judged.holds, judged.note.clone())
}
