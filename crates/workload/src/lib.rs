//! Seeded operation streams on files and on blocks, trace readers, and the drivers that apply,
//! measure and verify them.
//!
//! A [`WorkloadSpec`] says what to do; it makes a stream ([`FileWorkload`] or [`BlockWorkload`])
//! that is a pure function of the spec, the seed and the size of what it runs on. A driver
//! ([`FileDriver`], [`BlockDriver`]) applies a stream phase by phase, so that the caller can read
//! its layers' counters between the phases, and reads everything back at the end:
//!
//! ```
//! # use std::ops::ControlFlow;
//! # use nandkit_units::Clock;
//! # use nandkit_workload::{FileDriver, NoInputs, Phase, WorkloadSpec};
//! # fn run(fs: &mut dyn nandkit_vfs::FileSystem, clock: Clock) -> Result<(), Box<dyn std::error::Error>> {
//! let spec: WorkloadSpec = "overwrite:pattern=rnd,files=8".parse()?;
//! let volume = fs.volume()?;
//! let free_bytes = volume.blocks_free * u64::from(volume.block_size);
//! let mut workload = spec.file_workload(free_bytes, 1, &NoInputs)?;
//! let mut driver = FileDriver::new(clock, true);
//! let mut progress = |_| ControlFlow::Continue(());
//! for phase in Phase::ALL {
//!     driver.run_phase(phase, &mut *workload, fs, &mut progress)?;
//! }
//! driver.verify_all(&mut *workload, fs, &mut progress)?;
//! println!("{} bytes written", driver.report().phases.iter().map(|phase| phase.user_bytes_written).sum::<u64>());
//! # Ok(())
//! # }
//! ```
//!
//! Content is never kept for comparison: each write carries a description (record, version) from
//! which its bytes can be made again.

mod access;
mod arrivals;
pub mod calls;
mod copyfiles;
mod dbench;
mod drive;
mod embedded;
mod error;
pub mod event_recorder;
pub mod fax;
mod holes;
mod inputs;
mod interleaved;
mod latency;
mod operation;
mod outside;
pub mod overwrite;
mod parameters;
pub mod phone;
pub mod postmark;
pub mod random;
mod report;
mod script;
pub mod sequential;
mod spec;
mod stream;
mod streams;
mod tiobench;
pub mod trace;
pub mod tree;
mod varmail;

pub use access::{AccessBlocks, AccessFile};
pub use drive::{BlockDriver, FileDriver, PIECE_BYTES_MAX};
pub use error::{Nearest, Result, SpecError, WorkloadError};
pub use inputs::{HostInputs, Inputs, NoInputs};
pub use latency::LatencyHistogram;
pub use operation::{
    BlockOperation, BlockOperationKind, BlockWorkload, FileData, FileOperation, FileSlot, FileWorkload, OperationKind,
    Phase,
};
pub use outside::Outside;
pub use parameters::{ParameterDescription, ParameterValue, Parameters, Value};
pub use report::{DriverReport, PhaseReport, Progress, ProgressSink, Windows};
pub use spec::{WorkloadDescription, WorkloadSpec};
pub use stream::BlockStream;
