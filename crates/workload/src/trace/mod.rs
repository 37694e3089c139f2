//! `trace:FILE`: recorded operations, replayed on blocks or on files.
//!
//! Formats are fio's iolog (`fio --write_iolog=FILE ...`), the text of blkparse and of MQSim, SPC,
//! and the CSV of MSR Cambridge, Alibaba, Tencent and SYSTOR '17. Each has a file here and a line
//! in the table of `formats`, which finds the format from the first lines. A trace is plain text,
//! or compressed by gzip or zstd, which the first bytes tell. It is read through once before
//! anything runs: a malformed line, or an operation beyond the device, is an error that names the
//! line. It is never read into memory as a whole.
//!
//! **Names.** An iolog names files, MSR Cambridge hosts and disks, the others devices, storage
//! units, volumes or LUNs. On a block device the names get one region each, one after the other in
//! the order in which they first occur; a region is as long as the trace reaches into the name,
//! rounded up to 4 KiB. On a file system each is a file, `trace0`, `trace1`, ... With `only=NAME`
//! one of them is replayed and the others are left out.
//!
//! **Fit.** By default an operation must lie within the device. With `fit=wrap` offsets are taken
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
        /// It is not changed: an operation beyond the device is an error.
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
        /// With recorded instants: how many times faster than recorded (block devices only).
        speed: f64 = 1.0, 1e-6..=1e6;
        /// Whether the space that the trace covers is first written in order, so that reads find
        /// data.
        fill: bool = true, ();
        /// Largest number of operations replayed; 0: all.
        operations: u64 = 0, 0..=1 << 62;
        /// Operations outstanding with timing=asap (block devices only).
        queue_depth: u64 = 1, 1..=65_536;
        /// blkparse: which event counts, q (queued) or d (issued to the driver).
        action: Action = Action::Queued, ();
        /// iolog version 3 and mqsim: unit of time stamps; auto: us for iolog (as fio 3.33 writes),
        /// ns for mqsim (as its examples have).
        time_unit: TimeUnit = TimeUnit::Auto, ();
        /// The one name of the trace (file, disk, device, ASU, volume, LUN) whose operations are
        /// replayed, with a colon for each comma; by default all names, one after the other. Time
        /// counts from the first operation replayed.
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
