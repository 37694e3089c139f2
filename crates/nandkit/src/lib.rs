//! nandkit as a library: the NAND-flash storage stack in user space, from a spec to records.
//!
//! A [`StackSpec`] says what a stack is made of, a [`WorkloadSpec`] what is done with it, an [`Experiment`] combines many of them into
//! runs, and each run becomes a [`RunRecord`]. The same spec and seed give the same record, byte for byte, on any machine and number of threads.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use nandkit::{Experiment, NoInputs, Options, Unmeasured};
//!
//! let spec = r#"
//!     seeds = 2
//!     workload = "phone:days=3"
//!     [stack]
//!     fs = "model"
//! "#;
//! let experiment = Experiment::parse(spec, "example", &[], None)?;
//! let options = Options {
//!     jobs: 2,
//!     directory: None,
//!     inputs: &NoInputs,
//!     host: &Unmeasured,
//!     progress: &|_| (),
//!     stop: &AtomicBool::new(false),
//!     program: None,
//!     notice: &|_| (),
//! };
//! let records = experiment.run(&options)?;
//! assert_eq!(records.len(), 2);
//! assert!(records.iter().all(|record| record.figures.user_bytes_written > 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To use a stack itself, build one with [`Stack::build`] and work through [`FileSystem`] or [`BlockDevice`]; [`flash`], [`block`] and [`vfs`] are the contracts with all their types. [`image`] opens
//! images, [`tree`] takes trees in and out of them.

pub use nandkit_block::{self as block, BlockDevice};
pub use nandkit_flash::{self as flash, Flash};
pub use nandkit_lab::{
    Experiment, HostMeter, LabError, Options, Progress, Results, RunSpec, SpecError, Unmeasured, parse_setting,
};
pub use nandkit_record::{Figures, METRICS, Metric, RunRecord, read_lines};
pub use nandkit_report as report;
pub use nandkit_stack::{
    BlockStack, BlockVisitor, DeviceSpec, FsSpec, FtlSpec, Mounted, MountedFileSystem, Stack, StackError, StackSpec,
    image, presets,
};
pub use nandkit_tree as tree;
pub use nandkit_units as units;
pub use nandkit_vfs::{self as vfs, FileSystem};
pub use nandkit_workload::{HostInputs, Inputs, NoInputs, WorkloadSpec};
