//! The common part of `random` and `sequential`: accesses of one size to a footprint, on blocks or
//! on one file.

use nandkit_block::BlockGeometry;
use nandkit_units::random::{Random, Zipf};
use nandkit_units::{Description, Generator, Lba};

use crate::arrivals::{ArrivalClock, Rate};
use crate::error::{Result, SpecError, WorkloadError};
use crate::operation::{
    BlockOperation, BlockOperationKind, BlockWorkload, FileData, FileOperation, FileSlot, FileWorkload, Phase,
};

/// Which block comes next.
#[derive(Clone, Debug)]
pub(crate) enum Locality {
    Sequential {
        next: u64,
    },
    Uniform,
    /// A share of the accesses goes to the first `hot` blocks.
    HotCold {
        share: f64,
        hot: u64,
    },
    /// Ranks by Zipf's law, spread over the footprint by `rank * step mod blocks`, where `step` is
    /// coprime to the number of blocks.
    Zipf {
        sampler: Zipf,
        step: u64,
    },
}

impl Locality {
    /// Zipf's law over `blocks` blocks. With `scatter` popular blocks are spread over the
    /// footprint, otherwise they come first.
    pub fn zipf(blocks: u64, exponent: f64, scatter: bool) -> Self {
        let mut step = 1;
        if scatter {
            // Near the golden section, so that neighbouring ranks lie far apart.
            step = ((blocks as f64 * 0.618_033_988_749_895) as u64).max(1);
            while gcd(step, blocks) != 1 {
                step += 1;
            }
        }
        Self::Zipf { sampler: Zipf::new(blocks, exponent), step }
    }

    #[inline]
    fn next(&mut self, blocks: u64, random: &mut Random) -> u64 {
        match self {
            Self::Sequential { next } => {
                let block = *next;
                *next = if block + 1 >= blocks { 0 } else { block + 1 };
                block
            }
            Self::Uniform => random.below(blocks),
            Self::HotCold { share, hot } => {
                if random.chance(*share) {
                    random.below(*hot)
                } else {
                    *hot + random.below(blocks - *hot)
                }
            }
            // Footprints have fewer than 2^32 blocks (checked), so the product fits.
            Self::Zipf { sampler, step } => sampler.sample(random) * *step % blocks,
        }
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Resolved parameters.
#[derive(Clone, Debug)]
pub(crate) struct AccessPlan {
    pub workload: &'static str,
    pub block_size: u64,
    pub blocks: u64,
    pub locality: Locality,
    pub reads: f64,
    pub trims: f64,
    pub shares: f64,
    pub fill: bool,
    pub age_operations: u64,
    pub operations: u64,
    pub sync_every: u64,
    pub queue_depth: u32,
    pub rate: Rate,
}

/// The size and the amount, as both workloads' parameters have them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub block_size: u64,
    pub footprint: f64,
    pub footprint_size: u64,
    pub operations: u64,
    pub bytes: u64,
}

impl Extent {
    /// The number of blocks of the footprint, and the number of operations.
    pub fn resolve(&self, workload: &'static str, available: u64) -> Result<(u64, u64)> {
        let conflict = |detail: String| Err(SpecError::Conflict { workload, detail }.into());
        if self.operations > 0 && self.bytes > 0 {
            return conflict("give operations or bytes, not both".to_string());
        }
        let size =
            if self.footprint_size > 0 { self.footprint_size } else { (available as f64 * self.footprint) as u64 };
        let blocks = size / self.block_size.max(1);
        if size > available || blocks == 0 {
            let advice = if blocks == 0 {
                "use a smaller block_size or a larger footprint"
            } else {
                "use a smaller footprint_size, or footprint as a share of what there is"
            };
            let needed = size.max(self.block_size);
            return Err(WorkloadError::DoesNotFit { workload, needed, available, advice: advice.to_string() });
        }
        if blocks > u64::from(u32::MAX) {
            return conflict(format!("a footprint of {blocks} blocks is too large: at most {}", u32::MAX));
        }
        let operations = match (self.operations, self.bytes) {
            // Twice the footprint: enough for every block to be overwritten about once and the
            // cleaning to be steady.
            (0, 0) => blocks * 2,
            (0, bytes) => bytes.div_ceil(self.block_size.max(1)),
            (operations, _) => operations,
        };
        Ok((blocks, operations))
    }
}

/// One step of either stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write(u64),
    Read(u64),
    Trim(u64),
    Share { source: u64, target: u64 },
    Sync,
}

/// The stream of steps, common to blocks and files.
#[derive(Clone, Debug)]
struct Steps {
    plan: AccessPlan,
    random: Random,
    filling: bool,
    left: u64,
    fill_next: u64,
    writes_since_sync: u64,
}

impl Steps {
    fn new(plan: AccessPlan, seed: u64) -> Self {
        let random = Random::new(seed, plan.workload);
        Self { plan, random, filling: false, left: 0, fill_next: 0, writes_since_sync: 0 }
    }

    fn begin(&mut self, phase: Phase) -> u64 {
        self.filling = phase == Phase::Fill;
        self.fill_next = 0;
        self.writes_since_sync = 0;
        self.left = match phase {
            Phase::Fill if self.plan.fill => self.plan.blocks,
            Phase::Fill => 0,
            Phase::Age => self.plan.age_operations,
            Phase::Measure => self.plan.operations,
        };
        self.left
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Step> {
        if self.plan.sync_every != 0 && self.writes_since_sync >= self.plan.sync_every {
            self.writes_since_sync = 0;
            return Some(Step::Sync);
        }
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.filling {
            let block = self.fill_next;
            self.fill_next += 1;
            return Some(Step::Write(block));
        }
        let block = self.plan.locality.next(self.plan.blocks, &mut self.random);
        let (reads, trims) = (self.plan.reads, self.plan.reads + self.plan.trims);
        if trims + self.plan.shares > 0.0 {
            let drawn = self.random.fraction();
            if drawn < reads {
                return Some(Step::Read(block));
            }
            if drawn < trims {
                return Some(Step::Trim(block));
            }
            if drawn < trims + self.plan.shares {
                // Any other block.
                let other = self.random.below(self.plan.blocks - 1);
                return Some(Step::Share { source: other + u64::from(other >= block), target: block });
            }
        }
        self.writes_since_sync += 1;
        Some(Step::Write(block))
    }
}

/// `random` or `sequential` on a block device.
#[derive(Clone, Debug)]
pub struct AccessBlocks {
    steps: Steps,
    block_sectors: u32,
    unit: Option<u32>,
    /// The arrivals of an open loop, and whether they apply in this phase; `None` for a closed
    /// loop.
    arrivals: Option<(Box<ArrivalClock>, bool)>,
}

impl AccessBlocks {
    pub(crate) fn new(plan: AccessPlan, seed: u64, geometry: &BlockGeometry) -> Result<Self> {
        let sector_size = u64::from(geometry.sector_size);
        if !plan.block_size.is_multiple_of(sector_size) {
            let detail =
                format!("block_size ({}) must be a multiple of the sector size ({sector_size})", plan.block_size);
            return Err(SpecError::Conflict { workload: plan.workload, detail }.into());
        }
        let block_sectors = u32::try_from(plan.block_size / sector_size).unwrap_or(u32::MAX);
        // Larger blocks go to the device in pieces: where these divide the block, they are the
        // unit.
        let piece = crate::PIECE_BYTES_MAX / geometry.sector_size.max(1);
        let unit = if block_sectors <= piece {
            Some(block_sectors)
        } else {
            block_sectors.is_multiple_of(piece).then_some(piece)
        };
        if plan.shares > 0.0 && (block_sectors > piece || plan.blocks < 2) {
            let detail = format!(
                "shares need two blocks or more of at most {} KiB each; block_size is {}, and there are {}",
                crate::PIECE_BYTES_MAX >> 10,
                plan.block_size,
                plan.blocks
            );
            return Err(SpecError::Conflict { workload: plan.workload, detail }.into());
        }
        plan.rate.check_span(plan.operations)?;
        let arrivals = plan.rate.clock(seed).map(|clock| (Box::new(clock), false));
        Ok(Self { steps: Steps::new(plan, seed), block_sectors, unit, arrivals })
    }
}

impl BlockWorkload for AccessBlocks {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        if let Some((clock, counts)) = &mut self.arrivals {
            clock.restart();
            *counts = phase == Phase::Measure;
        }
        Some(self.steps.begin(phase))
    }

    // Not inlined, the result would go through memory, at a third of the speed of the whole loop.
    #[inline(always)]
    fn next_operation(&mut self) -> Result<Option<BlockOperation>> {
        let Some(step) = self.steps.next() else { return Ok(None) };
        let arrival = match &mut self.arrivals {
            Some((clock, true)) => Some(clock.next()),
            _ => None,
        };
        let (kind, block) = match step {
            Step::Write(block) => (BlockOperationKind::Write, block),
            Step::Read(block) => (BlockOperationKind::Read, block),
            Step::Trim(block) => (BlockOperationKind::Trim, block),
            Step::Share { source, target } => {
                let source = Lba(source * u64::from(self.block_sectors));
                (BlockOperationKind::Share { source }, target)
            }
            Step::Sync => {
                let kind = BlockOperationKind::Flush;
                return Ok(Some(BlockOperation { kind, at: Lba(0), sectors: 0, bytes: 0, arrival }));
            }
        };
        let at = Lba(block * u64::from(self.block_sectors));
        let bytes = self.steps.plan.block_size;
        Ok(Some(BlockOperation { kind, at, sectors: self.block_sectors, bytes, arrival }))
    }

    fn queue_depth(&self) -> u32 {
        self.steps.plan.queue_depth
    }

    fn unit_sectors(&self) -> Option<u32> {
        self.unit
    }
}

/// The file of [`AccessFile`].
const FILE: FileSlot = FileSlot(1);

/// `random` or `sequential` on one file, `data.bin`.
#[derive(Clone, Debug)]
pub struct AccessFile {
    steps: Steps,
    created: bool,
    phase: Phase,
    writes: u64,
    end_sync: bool,
}

impl AccessFile {
    pub(crate) fn new(plan: AccessPlan, seed: u64) -> Result<Self> {
        let conflict =
            |detail: &str| Err(SpecError::Conflict { workload: plan.workload, detail: detail.to_string() }.into());
        if plan.trims > 0.0 {
            return conflict("trims are possible on a block device only");
        }
        if plan.shares > 0.0 {
            return conflict("shares are possible on a block device only");
        }
        if plan.queue_depth > 1 {
            return conflict("queue_depth above 1 is possible on a block device only: file systems answer one by one");
        }
        if plan.rate.per_second > 0.0 {
            return conflict("a rate of arrivals is possible on a block device only: file systems answer one by one");
        }
        let steps = Steps::new(plan, seed);
        Ok(Self { steps, created: false, phase: Phase::Fill, writes: 0, end_sync: false })
    }
}

impl FileWorkload for AccessFile {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        let steps = self.steps.begin(phase);
        self.end_sync = steps > 0;
        Some(steps + u64::from(!self.created) + u64::from(self.end_sync))
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        if !self.created {
            self.created = true;
            let name = b"data.bin".to_vec();
            return Ok(Some(FileOperation::Create { slot: FILE, parent: FileSlot::ROOT, name }));
        }
        let (size, length) = (self.steps.plan.block_size, self.steps.plan.block_size as u32);
        Ok(match self.steps.next() {
            Some(Step::Write(block)) => {
                let version = self.writes as u32;
                self.writes += 1;
                let description = Description { record: block, version, offset: 0, generator: Generator::Record };
                let data = FileData::Described(description);
                Some(FileOperation::Write { slot: FILE, offset: block * size, length, data })
            }
            Some(Step::Read(block)) => Some(FileOperation::Read { slot: FILE, offset: block * size, length }),
            Some(Step::Sync) => Some(FileOperation::Sync { slot: Some(FILE) }),
            Some(Step::Trim(_) | Step::Share { .. }) => {
                return Err(WorkloadError::inconsistent("trims or shares on a file"));
            }
            // A sync of this workload's own, counted in its phase. (Others sync as their rules say;
            // after each phase the lab syncs, uncounted.)
            None if std::mem::take(&mut self.end_sync) => Some(FileOperation::Sync { slot: Some(FILE) }),
            None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_zipf_reaches_every_block() {
        for blocks in [1, 2, 10, 97, 1024] {
            let Locality::Zipf { step, .. } = Locality::zipf(blocks, 1.0, true) else { unreachable!() };
            let mut reached: Vec<u64> = (0..blocks).map(|rank| rank * step % blocks).collect();
            reached.sort_unstable();
            assert!(reached.iter().copied().eq(0..blocks), "{blocks}");
        }
    }

    #[test]
    fn hot_accesses_are_as_many_as_asked() {
        let mut locality = Locality::HotCold { share: 0.9, hot: 100 };
        let mut random = Random::new(1, "test");
        let hot = (0..100_000).filter(|_| locality.next(1000, &mut random) < 100).count();
        assert!((89_000..91_000).contains(&hot), "{hot}");
    }

    #[test]
    fn extents_resolve_or_say_why_not() {
        let extent = Extent { block_size: 4096, footprint: 0.5, footprint_size: 0, operations: 0, bytes: 0 };
        assert_eq!(extent.resolve("random", 1 << 20).unwrap(), (128, 256));
        assert_eq!(Extent { bytes: 10_000, ..extent }.resolve("random", 1 << 20).unwrap().1, 3);
        assert!(Extent { bytes: 1, operations: 1, ..extent }.resolve("random", 1 << 20).is_err());
        assert!(Extent { footprint_size: 2 << 20, ..extent }.resolve("random", 1 << 20).is_err());
        assert!(extent.resolve("random", 4096).is_err());
    }
}
