//! Experiments: a spec in TOML becomes a grid of runs, the runs become records.
//!
//! The lab formats nothing for people, names no implementation and reads no clock of the host: the
//! caller passes in a [`HostMeter`]. The same spec and seed give the same record, byte for byte, on
//! any number of threads; only `host_*` fields differ.

pub mod calibrate;
mod drive;
mod error;
mod execute;
mod experiment;
mod grid;
mod host;
mod job;
mod kept;
mod origin;
mod precondition;
mod program;
pub mod reproduce;
mod results;
mod run;
mod run_spec;
mod single;
mod snapshot;
mod steady;
mod timeline;
pub mod trace_events;
mod used;

pub use error::{LabError, SpecError};
pub use experiment::Experiment;
pub use grid::{parse_setting, set};
pub use host::{HostMeter, Progress, Unmeasured};
pub use job::Options;
pub use precondition::{Precondition, SteadyRule, UsedRule};
pub use program::{ProgramRun, Seen};
pub use results::{Results, ResultsError};
pub use run_spec::RunSpec;
pub use single::single_stack;
pub use snapshot::figures_of;

#[cfg(test)]
mod testing;
