//! `trace:FILE`: recorded operations, replayed on blocks or on files.
//!
//! Formats are fio's iolog (`fio --write_iolog=FILE ...`), the text of blkparse and of MQSim, SPC,
//! and the CSV of MSR Cambridge, Alibaba, Tencent and SYSTOR '17. Each has a file here and a line
//! in the table of `formats`, which finds the format from the first lines. A trace is plain text,
//! or compressed by gzip or zstd, which the first bytes tell. It is looked through once before
//! anything runs: a malformed line, or an operation beyond the device, is an error that names the
//! line. It is never read into memory as a whole.
//!
//! **Names.** An iolog names files, MSR Cambridge hosts and disks, the others devices, storage
//! units, volumes or LUNs. On a block device the names lie one behind the other in the order in
//! which they first occur, each as long as the trace reaches into it, rounded up to 4 KiB. On a
//! file system each is a file, `trace0`, `trace1`, ... With `only=NAME` one of them is replayed and
//! the others are left out.
//!
//! **Fit.** As a rule an operation must lie within the device. With `fit=wrap` offsets are taken
//! modulo the space there is, with `fit=scale` they are multiplied so that the trace's extent
//! becomes that space; lengths stay, and an operation that would cross the end begins earlier.
//! Operations that are not whole sectors are extended to whole ones.

mod alibaba;
mod blkparse;
mod fields;
mod fit;
mod formats;
mod grammar;
mod iolog;
mod mqsim;
mod msr;
mod only;
mod reader;
mod replay;
mod spc;
mod systor;
mod tencent;

pub use blkparse::Action;
pub(crate) use grammar::shortened;
pub use grammar::{Format, TimeUnit};
pub use only::OnlyName;
pub(crate) use reader::{LATEST, decompressed, unreadable};
pub use reader::{TraceOperation, TraceReader, TraceSummary};
pub use replay::{TraceBlocks, TraceFiles};

use crate::error::SpecError;
use crate::parameters::{choices, parameters};

choices! {
    /// How a trace is brought onto a device of another size.
    pub enum Fit {
        /// Not at all: what lies beyond is an error.
        None = "none",
        /// Offsets are multiplied.
        Scale = "scale",
        /// Offsets are taken modulo the size.
        Wrap = "wrap",
    }
}

choices! {
    /// When operations are issued.
    pub enum Timing {
        /// Calls of files as recorded, everything else as soon as possible.
        Auto = "auto",
        /// As soon as the queue has room.
        Asap = "asap",
        /// At their recorded instants, counted from the first.
        Recorded = "recorded",
    }
}

parameters! {
    /// Parameters of `trace`.
    pub struct Trace as "trace" {
        /// The trace; gzip and zstd are recognised.
        file: String = String::new(), "a path";
        /// auto: found from the first lines; iolog (fio versions 2 and 3), msr, blkparse, mqsim,
        /// spc, alibaba, tencent, systor, calls (nandkit exec --record; on file systems only).
        format: Format = Format::Auto, ();
        /// none: an operation beyond the device is an error; scale, wrap: offsets are changed to
        /// fit.
        fit: Fit = Fit::None, ();
        /// asap, or recorded: at the recorded instants; auto: recorded for calls, else asap.
        timing: Timing = Timing::Auto, ();
        /// With recorded instants: how many times faster than they were (block devices only).
        speed: f64 = 1.0, 1e-6..=1e6;
        /// Whether what the trace covers is first written in order, so that reads find data.
        fill: bool = true, ();
        /// Operations replayed at most; 0: all.
        operations: u64 = 0, 0..=1 << 62;
        /// Operations outstanding with timing=asap (block devices only).
        queue_depth: u64 = 1, 1..=65_536;
        /// blkparse: which event counts, q (queued) or d (issued to the driver).
        action: Action = Action::Queued, ();
        /// iolog version 3 and mqsim: unit of time stamps; auto: us for iolog (as fio 3.33 writes),
        /// ns for mqsim (as its examples have).
        time_unit: TimeUnit = TimeUnit::Auto, ();
        /// Only operations on this of the trace's names (file, disk, device, ASU, volume, LUN), a
        /// colon for each comma in it; by default all, one behind the other. Time counts from its
        /// first operation.
        only: OnlyName = OnlyName::default(), ();
    }
}

impl Trace {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.file.is_empty() {
            return Err(SpecError::Missing { workload: "trace", key: "file", placeholder: "FILE" });
        }
        Ok(())
    }
}
