//! One run: builds the stack, drives the workload through its phases, and makes the record.

use std::collections::BTreeMap;

use nandkit_record::{Figures, LayerValue, RunRecord, SCHEMA};
use nandkit_workload::{Inputs, Outside, Phase};
use serde_json::json;

use crate::LabError;
use crate::drive::{drive, fits};
use crate::job::{Inside, Job};
use crate::run_spec::{RunSpec, VERSION};
use crate::snapshot::{Snapshot, add_report, layers, verification};
use crate::timeline::wear_map;

impl Job for RunSpec {
    fn key(&self) -> String {
        self.key()
    }

    /// A run changes a chip in a file, so its record does not stand for another run.
    fn is_repeatable(&self) -> bool {
        self.stack.device_file().is_none()
    }

    fn outside(&self) -> Option<Outside<'_>> {
        self.workload.outside()
    }

    fn title(&self) -> String {
        format!("{} on {}, seed {}", self.workload, self.stack.title(), self.seed)
    }

    /// The same text for all seeds, so that only the first is tried. Runs on files are not tried: a
    /// chip would be changed, and a large directory or trace read twice.
    fn built_as(&self) -> Option<String> {
        let stands_alone = self.stack.device_file().is_none() && self.workload.outside().is_none();
        stands_alone.then(|| json!([self.stack, self.workload]).to_string())
    }

    fn try_out(&self, inputs: &dyn Inputs) -> Result<(), LabError> {
        fits(self, &mut self.build(None)?, inputs)
    }

    fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError> {
        let mut stack = self.build(inside.tap.clone())?;
        let formatted = Snapshot::take(&stack);
        let mut phases = BTreeMap::from([("format".to_string(), formatted.since_the_start(stack.started))]);
        let driven = drive(self, &mut stack, inside)?;
        let wear = stack.watched.flash.as_ref().map(|flash| wear_map(&flash.erases_per_block()));
        stack.close().map_err(|error| match error.at {
            // The host's disk may be full, or the file another's; what else ends badly is the fault
            // of the run: a chip that is worn out, for one.
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
        if !driven.timeline.is_empty() {
            counted.insert("timeline".to_string(), driven.timeline);
        }
        counted.extend(wear.map(|wear| ("wear".to_string(), wear)));
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
