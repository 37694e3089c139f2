//! `random`: accesses of one size at random places: uniform, Zipf, or hot and cold.

use crate::access::{AccessPlan, Extent, Locality};
use crate::arrivals::{Arrivals, Rate};
use crate::error::{Result, SpecError};
use crate::parameters::{choices, parameters};

choices! {
    /// How accesses are distributed over the footprint.
    pub enum Distribution {
        /// Every block is equally likely.
        Uniform = "uniform",
        /// Zipf's law.
        Zipf = "zipf",
        /// A share of the accesses on a share of the space.
        HotCold = "hotcold",
    }
}

parameters! {
    /// Parameters of `random`. The defaults are assumptions: uniform overwrites of 4 KiB, the case
    /// with a closed form.
    pub struct RandomAccess as "random" {
        /// Bytes of each access.
        block_size: u64 = 4096, 512..=16 << 20;
        /// Share of the accesses that read.
        reads: f64 = 0.0, 0.0..=1.0;
        /// Share of the accesses that trim (block devices only).
        trims: f64 = 0.0, 0.0..=1.0;
        /// Share of the accesses that map a block to the content of another one and write nothing
        /// (only block devices that remap).
        shares: f64 = 0.0, 0.0..=1.0;
        /// How accesses are distributed: uniform, zipf, or hotcold.
        distribution: Distribution = Distribution::Uniform, ();
        /// With distribution=zipf: the exponent.
        zipf: f64 = 0.99, 0.0..=10.0;
        /// With distribution=zipf: whether popular blocks are spread over the footprint rather than
        /// at its beginning.
        scatter: bool = true, ();
        /// With distribution=hotcold: share of the accesses that are hot.
        hot_accesses: f64 = 0.8, 0.0..=1.0;
        /// With distribution=hotcold: share of the footprint that is hot.
        hot_space: f64 = 0.2, 0.0..=1.0;
        /// Share of the device, or of the volume's free space, that is used.
        footprint: f64 = 0.8, 0.0..=1.0;
        /// Bytes of the footprint; 0: use the parameter footprint.
        footprint_size: u64 = 0, 0..=1 << 50;
        /// Whether the footprint is first filled in order.
        fill: bool = true, ();
        /// Accesses before the measured ones, as a multiple of the footprint's blocks.
        age: f64 = 0.0, 0.0..=1000.0;
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

impl RandomAccess {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        let conflict = |detail: &str| Err(SpecError::Conflict { workload: "random", detail: detail.to_string() });
        if self.reads + self.trims + self.shares > 1.0 {
            return conflict("reads, trims and shares together must not exceed 1");
        }
        if self.shares > 0.0 && (self.trims > 0.0 || !self.fill) {
            return conflict("shares need blocks that hold something: give fill = true and no trims");
        }
        if self.operations > 0 && self.bytes > 0 {
            return conflict("give operations or bytes, not both");
        }
        self.rate().check(self.queue_depth)
    }

    const fn rate(&self) -> Rate {
        let Self { arrivals, burst, pause_ms, .. } = *self;
        Rate { workload: "random", per_second: self.rate, arrivals, burst, pause_ms }
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
        let (blocks, operations) = extent.resolve("random", available)?;
        let locality = match self.distribution {
            Distribution::Uniform => Locality::Uniform,
            Distribution::Zipf => Locality::zipf(blocks, self.zipf, self.scatter),
            Distribution::HotCold => {
                let hot = ((blocks as f64 * self.hot_space).round() as u64).clamp(1, blocks);
                // Where everything is hot, or nothing is, there is nothing to draw.
                let share = if hot == blocks { 1.0 } else { self.hot_accesses };
                Locality::HotCold { share, hot }
            }
        };
        Ok(AccessPlan {
            workload: "random",
            block_size: self.block_size,
            blocks,
            locality,
            reads: self.reads,
            trims: self.trims,
            shares: self.shares,
            fill: self.fill,
            age_operations: (blocks as f64 * self.age) as u64,
            operations,
            sync_every: self.sync_every,
            queue_depth: self.queue_depth as u32,
            rate: self.rate(),
        })
    }
}
