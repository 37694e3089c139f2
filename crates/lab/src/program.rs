//! Runs whose workload is a program outside: the caller that starts it passes in what it counted.

use std::collections::BTreeMap;

use nandkit_record::{Figures, RunRecord, SCHEMA};
use nandkit_stack::{Below, StackSpec};
use nandkit_units::Nanos;
use nandkit_workload::LatencyHistogram;
use serde_json::json;

use crate::run_spec::VERSION;
use crate::snapshot::{Snapshot, Watch, latency, layers};

fn look(stack: &Below) -> Snapshot {
    Watch { clock: &stack.clock, watched: &stack.watched }.snapshot()
}

/// What passed between a program and the stack.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// How long requests took in simulated time, by the names of their kinds.
    pub latencies: BTreeMap<&'static str, LatencyHistogram>,
}

impl Seen {
    /// Counts a request: the name of its kind, the bytes of a `read` or `write`, and its simulated
    /// time.
    pub fn count(&mut self, kind: &'static str, bytes: u64, latency: Nanos) {
        match kind {
            "write" => self.bytes_written = self.bytes_written.saturating_add(bytes),
            "read" => self.bytes_read = self.bytes_read.saturating_add(bytes),
            _ => {}
        }
        self.latencies.entry(kind).or_default().record(latency);
    }
}

/// A stack at the moment before a program uses it.
pub struct ProgramRun {
    /// The image that the stack began with, for the record; `None` for a fresh volume.
    pub image: Option<String>,
    spec: StackSpec,
    seed: u64,
    program: Vec<String>,
    before: Snapshot,
    format: Figures,
}

impl ProgramRun {
    /// Begins the record of a program. `program`: its name and arguments, for the record.
    pub fn begin(stack: &Below, spec: &StackSpec, seed: u64, program: Vec<String>) -> Self {
        let before = look(stack);
        let format = before.since_the_start(stack.started);
        Self { image: None, spec: spec.clone(), seed, program, before, format }
    }

    /// The record of what happened since. It is no other run's: requests arrive when the program
    /// makes them. The `host_*` fields are left to the caller.
    pub fn end(self, stack: &Below, seen: &Seen) -> RunRecord {
        let after = look(stack);
        let mut figures = after.since(&self.before);
        figures.user_bytes_written = seen.bytes_written;
        figures.user_bytes_read = seen.bytes_read;
        figures.latency_ns = seen.latencies.iter().map(|(name, spans)| ((*name).to_owned(), latency(spans))).collect();
        figures.derive();
        let mut workload = json!({"kind": "program", "command": self.program});
        if let (Some(image), Some(workload)) = (self.image, workload.as_object_mut()) {
            workload.insert("image".to_owned(), image.into());
        }
        RunRecord {
            schema: SCHEMA,
            nandkit: VERSION.to_string(),
            workload: self.program.join(" "),
            spec: json!({"stack": self.spec, "workload": workload, "verify": false}),
            seed: self.seed,
            stack: self.spec.title(),
            figures,
            host_time_ns: 0,
            host_peak_bytes: 0,
            layers: layers(&self.before, &after),
            phases: BTreeMap::from([("format".to_string(), self.format)]),
        }
    }
}
