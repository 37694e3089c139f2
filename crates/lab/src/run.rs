//! One run: builds the stack, drives the workload through its phases, and makes the record.

use std::collections::BTreeMap;

use nandkit_record::{Figures, LayerValue, RunRecord, SCHEMA, run_key};
use nandkit_stack::{DeviceSpec, Stack, StackSpec};
use nandkit_workload::{Inputs, Outside, Phase, WorkloadSpec};
use serde_json::{Value as Json, json};

use crate::drive::{Inside, drive, fits};
use crate::execute::Job;
use crate::snapshot::{Snapshot, add_report, layers, verification};
use crate::{LabError, Precondition, SpecError};

/// The version that records carry.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One run, resolved: with its seed it determines its record.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// What it runs on.
    pub stack: StackSpec,
    /// What is run.
    pub workload: WorkloadSpec,
    /// What happens to the device before it is measured.
    pub precondition: Precondition,
    /// Whether everything written is read back and compared at the end.
    pub verify: bool,
    /// The seed of every random stream.
    pub seed: u64,
}

impl RunSpec {
    /// A verified run with seed 1.
    pub const fn new(stack: StackSpec, workload: WorkloadSpec) -> Self {
        Self { stack, workload, precondition: Precondition::None, verify: true, seed: 1 }
    }

    /// The key of its record.
    pub fn key(&self) -> String {
        run_key(VERSION, self.seed, &self.to_json())
    }

    /// The whole resolved spec.
    pub fn to_json(&self) -> Json {
        json!({
            "stack": self.stack, "workload": self.workload, "precondition": self.precondition, "verify": self.verify
        })
    }

    fn build(&self) -> Result<Stack, LabError> {
        Stack::build(&self.stack, self.seed).map_err(|error| LabError::Input(error.to_string()))
    }

    /// Refuses parts that do not fit together.
    pub fn check(&self) -> Result<(), SpecError> {
        self.stack.check().map_err(|error| SpecError::new("", error.to_string()))?;
        if self.verify && !self.stack.keeps_content() {
            let detail = "the stores shadow and address keep no content that could be read back; expected verify = false, or the store content or described";
            return Err(SpecError::new("verify", detail));
        }
        if self.stack.is_block_device() && !self.workload.on_blocks() {
            let detail = format!(
                "{} does not run on blocks; expected overwrite, random, sequential or trace, or a file system",
                self.workload.name()
            );
            return Err(SpecError::new("workload", detail));
        }
        self.check_precondition().map_err(|detail| SpecError::new("precondition", detail))
    }

    fn check_precondition(&self) -> Result<(), String> {
        if self.precondition == Precondition::None {
            return Ok(());
        }
        let name = self.precondition.name();
        if !self.stack.is_block_device() {
            return Err(format!("{name} is for workloads on blocks; expected stack.fs = \"none\", or none"));
        }
        let is_steady = matches!(self.precondition, Precondition::Steady(_));
        if is_steady && matches!(self.stack.device, DeviceSpec::Ram { .. } | DeviceSpec::Card { .. }) {
            return Err(
                "memory, and a card in memory, have no write amplification that could settle; expected a chip, or fill"
                    .to_string(),
            );
        }
        self.precondition.workload(&self.workload).map(|_| ())
    }
}

impl Job for RunSpec {
    fn key(&self) -> String {
        self.key()
    }

    /// A chip in a file is another one after every run.
    fn is_repeatable(&self) -> bool {
        self.stack.device_file().is_none()
    }

    fn outside(&self) -> Option<Outside<'_>> {
        self.workload.outside()
    }

    fn title(&self) -> String {
        format!("{} on {}, seed {}", self.workload, self.stack.title(), self.seed)
    }

    /// Of all seeds the first. What stands in files is left alone: a chip would be changed, and a large directory or trace read twice.
    fn built_as(&self) -> Option<String> {
        let stands_alone = self.stack.device_file().is_none() && self.workload.outside().is_none();
        stands_alone.then(|| json!([self.stack, self.workload]).to_string())
    }

    fn try_out(&self, inputs: &dyn Inputs) -> Result<(), LabError> {
        fits(self, &mut self.build()?, inputs)
    }

    fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError> {
        let mut stack = self.build()?;
        let formatted = Snapshot::take(&stack);
        let mut phases = BTreeMap::from([("format".to_string(), formatted.since_the_start(stack.started))]);
        let driven = drive(self, &mut stack, inside)?;
        stack.close().map_err(|error| match error.at {
            // The host's disk may be full, or the file another's; what else ends badly is the fault of the run: a chip that is worn out, for one.
            "stack.device.file" => LabError::Input(error.to_string()),
            _ => LabError::Failed(format!("at the end of the run: {error}")),
        })?;
        let mut figures = Figures::default();
        let mut counted = BTreeMap::new();
        for outcome in &driven.phases {
            let mut of_phase = outcome.after.since(&outcome.before);
            add_report(&mut of_phase, driven.report.phase(outcome.phase));
            if outcome.phase == Phase::Measure {
                counted = layers(&outcome.before, &outcome.after);
                figures = of_phase;
            } else if driven.report.phase(outcome.phase).is_some() {
                phases.insert(outcome.phase.name().to_string(), of_phase);
            }
        }
        if let Some((before, after)) = &driven.filled {
            phases.insert("precondition".to_string(), after.since(before));
        }
        if let Some(settling) = &driven.settling {
            counted.insert("steady".to_string(), settling.values());
        }
        let mut of_workload = verification(&driven.report);
        if self.stack.host.is_some() {
            let syncs = driven.report.phase(Phase::Measure).map_or(0, |phase| phase.host_syncs);
            of_workload.insert("host_syncs".to_string(), LayerValue::Count(syncs));
        }
        counted.insert("workload".to_string(), of_workload);
        Ok(RunRecord {
            schema: SCHEMA,
            nandkit: VERSION.to_string(),
            spec: self.to_json(),
            seed: self.seed,
            stack: self.stack.title(),
            workload: self.workload.to_string(),
            figures,
            host_time_ns: 0,
            host_peak_bytes: 0,
            layers: counted,
            phases,
        })
    }
}
