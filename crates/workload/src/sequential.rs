//! `sequential`: accesses of one size in order, which start over at the end of the footprint.

use crate::access::{AccessPlan, Extent, Locality};
use crate::arrivals::{Arrivals, Rate};
use crate::error::{Result, SpecError};
use crate::parameters::parameters;

parameters! {
    /// Parameters of `sequential`. The defaults are assumptions.
    pub struct SequentialAccess as "sequential" {
        /// Bytes of each access.
        block_size: u64 = 64 << 10, 512..=16 << 20;
        /// Share of the accesses that read.
        reads: f64 = 0.0, 0.0..=1.0;
        /// Share of the device, or of the volume's free space, that is used.
        footprint: f64 = 0.8, 0.0..=1.0;
        /// Bytes of the footprint; 0: use the parameter footprint.
        footprint_size: u64 = 0, 0..=1 << 50;
        /// Whether the footprint is first filled in order.
        fill: bool = true, ();
        /// Measured accesses; 0: use the parameter bytes.
        operations: u64 = 0, 0..=1 << 40;
        /// Bytes of the measured accesses; 0 with operations=0: twice the footprint.
        bytes: u64 = 0, 0..=1 << 50;
        /// Writes between two flushes (on a file: syncs); 0: none.
        sync_every: u64 = 0, 0..=1 << 40;
        /// Operations outstanding (block devices only).
        queue_depth: u64 = 1, 1..=65_536;
        /// Arrivals per second in the measured part, however many operations are outstanding (open
        /// loop; block devices only); 0: closed loop.
        rate: f64 = 0.0, 0.0..=1e9;
        /// With rate: distribution of the times between arrivals, even or poisson.
        arrivals: Arrivals = Arrivals::Even, ();
        /// With rate: operations between two pauses; 0: none.
        burst: u64 = 0, 0..=1 << 40;
        /// With burst: milliseconds of a pause.
        pause_ms: f64 = 0.0, 0.0..=1e9;
    }
}

impl SequentialAccess {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.operations > 0 && self.bytes > 0 {
            let detail = "give operations or bytes, not both".to_string();
            return Err(SpecError::Conflict { workload: "sequential", detail });
        }
        self.rate().check(self.queue_depth)
    }

    const fn rate(&self) -> Rate {
        let Self { arrivals, burst, pause_ms, .. } = *self;
        Rate { workload: "sequential", per_second: self.rate, arrivals, burst, pause_ms }
    }

    /// The plan for a device or volume that offers this many bytes.
    pub(crate) fn plan(&self, available: u64) -> Result<AccessPlan> {
        self.check()?;
        let extent = Extent {
            block_size: self.block_size,
            footprint: self.footprint,
            footprint_size: self.footprint_size,
            operations: self.operations,
            bytes: self.bytes,
        };
        let (blocks, operations) = extent.resolve("sequential", available)?;
        Ok(AccessPlan {
            workload: "sequential",
            block_size: self.block_size,
            blocks,
            locality: Locality::Sequential { next: 0 },
            reads: self.reads,
            trims: 0.0,
            shares: 0.0,
            fill: self.fill,
            age_operations: 0,
            operations,
            sync_every: self.sync_every,
            queue_depth: self.queue_depth as u32,
            rate: self.rate(),
        })
    }
}
