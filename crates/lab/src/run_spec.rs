//! The spec of a single run.

use nandkit_record::run_key;
use nandkit_stack::{DeviceSpec, FlashTap, Stack, StackSpec};
use nandkit_workload::WorkloadSpec;
use serde_json::{Value as Json, json};

use crate::{LabError, Precondition, SpecError};

/// The version that records carry.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One run, resolved: with its seed it determines its record.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The stack that the run uses.
    pub stack: StackSpec,
    /// The workload of the run.
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

    /// The stack that it runs on.
    pub(crate) fn build(&self, tap: Option<FlashTap>) -> Result<Stack, LabError> {
        let built = match tap {
            None => Stack::build(&self.stack, self.seed),
            Some(tap) => Stack::build_tapped(&self.stack, self.seed, tap),
        };
        built.map_err(|error| LabError::Input(error.to_string()))
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
        let is_used = matches!(self.precondition, Precondition::Used(_));
        if !is_used && !self.stack.is_block_device() {
            return Err(format!("{name} is for workloads on blocks; expected stack.fs = \"none\", used or none"));
        }
        if is_used && self.stack.is_block_device() {
            return Err("used is for file systems; expected stack.fs, or fill or steady".to_string());
        }
        if is_used && self.stack.device_file().is_some() {
            return Err("a chip in a file is as used as its runs left it; expected none".to_string());
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
