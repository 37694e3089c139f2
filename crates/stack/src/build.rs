//! From a spec to a running stack.

use std::sync::{Arc, Mutex};

use nandkit_block::wrap::StatsDevice;
use nandkit_block::{BlockDevice, BlockGeometry, RamDevice};
use nandkit_cache::{Replacement, WriteBack};
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_fat::{self as fat, Alignment, Cache, Fat, FatKind, FormatOptions, MountOptions};
use nandkit_flash::wrap::{FlashCounters, StatsFlash};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentStore, DescribedStore, NandChip, ShadowStore, Store};
use nandkit_units::{Clock, Context, Nanos, Statistics};
use nandkit_vfs::FileSystem;
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};

use crate::shared::{Shared, SharedStatistics, lock};
use crate::traced::{EVENTS, TracedBlock};
use crate::{
    AlignmentName, AlphaName, BlockMapSpec, DeviceSpec, FatSpec, FatTypeName, FsSpec, FtlSpec, PolicyName,
    ReplacementName, StackError, StackSpec, StoreKind, WriteBackName,
};

/// 2020-01-01T00:00:00Z, the calendar time at which every simulation starts: FAT's time stamps need one.
const EPOCH_UNIX_NS: u64 = 1_577_836_800 * 1_000_000_000;

/// A running stack.
pub struct Stack {
    /// The clock that all layers share.
    pub clock: Clock,
    /// The top of the stack.
    pub mounted: Mounted,
    /// The counters of the layers below.
    pub watched: Watched,
}

/// The top of a stack.
pub enum Mounted {
    /// A file system.
    Files(Box<dyn FileSystem>),
    /// A block device of a concrete type.
    Blocks(BlockStack),
}

/// Counters that may be read while the stack is in use.
#[derive(Default)]
pub struct Watched {
    /// The flash device's, where there is one.
    pub flash: Option<Arc<FlashCounters>>,
    /// Each layer's own, with the layer's name.
    pub layers: Vec<(String, Arc<dyn Statistics>)>,
}

/// Work on a block device of any concrete type: compiled for each, so that no call in its loops is dynamic.
pub trait BlockVisitor {
    /// What the work comes to.
    type Output;

    /// Does the work.
    fn visit<D: BlockDevice>(self, device: &mut D) -> Self::Output;
}

/// A layer of block map on a chip with a store.
type BlockMap<S> = Arc<Mutex<BlockMapFtl<StatsFlash<NandChip<S>>>>>;

/// Every block device that a stack can be.
pub enum BlockStack {
    /// A device in memory.
    Ram(Arc<Mutex<RamDevice>>),
    /// The block-mapped layer on a chip that keeps every byte.
    BlockMapContent(BlockMap<ContentStore>),
    /// The block-mapped layer on a chip that keeps described data by description.
    BlockMapDescribed(BlockMap<DescribedStore>),
    /// The block-mapped layer on a chip that keeps tags.
    BlockMapShadow(BlockMap<ShadowStore>),
}

/// Does the same with whichever device it is.
macro_rules! with_device {
    ($stack:expr, $device:ident => $work:expr) => {
        match $stack {
            BlockStack::Ram($device) => $work,
            BlockStack::BlockMapContent($device) => $work,
            BlockStack::BlockMapDescribed($device) => $work,
            BlockStack::BlockMapShadow($device) => $work,
        }
    };
}

impl BlockStack {
    /// Does work on the device, which is locked meanwhile.
    pub fn visit<V: BlockVisitor>(&mut self, visitor: V) -> V::Output {
        with_device!(self, device => visitor.visit(&mut *lock(device)))
    }

    /// The shape of the device.
    pub fn geometry(&self) -> BlockGeometry {
        with_device!(self, device => *lock(device).geometry())
    }
}

impl Stack {
    /// Builds the stack: the device as it comes from the factory, the translation layer formatted, the file system made and mounted. `seed` decides
    /// the faults of the device.
    pub fn build(spec: &StackSpec, seed: u64) -> Result<Self, StackError> {
        spec.check()?;
        let clock = Clock::starting_at(EPOCH_UNIX_NS);
        let mut watched = Watched::default();
        let mounted = match &spec.fs {
            FsSpec::Model => Mounted::Files(Box::new(ModelFileSystem::new(ModelOptions::POSIX, clock.clone()))),
            FsSpec::None => Mounted::Blocks(block_stack(spec, seed, &clock, &mut watched)?),
            FsSpec::Fat(fat) => {
                let device = block_stack(spec, seed, &clock, &mut watched)?;
                Mounted::Files(with_device!(device, device => mount_fat(device, fat, &clock, &mut watched))?)
            }
        };
        Ok(Self { clock, mounted, watched })
    }
}

fn block_stack(spec: &StackSpec, seed: u64, clock: &Clock, watched: &mut Watched) -> Result<BlockStack, StackError> {
    match &spec.device {
        DeviceSpec::Ram { size, sector_size } => {
            let device = RamDevice::with_sectors(*sector_size, size / u64::from(*sector_size));
            let device = device.map_err(|error| StackError::new("stack.device", error.to_string()))?;
            Ok(BlockStack::Ram(Arc::new(Mutex::new(device))))
        }
        DeviceSpec::Chip { store, chip, .. } => {
            // FAT has sectors of at most 4096 bytes; without a file system a sector is a page, as the layer has it.
            let sector_size = match &spec.fs {
                FsSpec::Fat(_) => chip.geometry.page_size.min(4096),
                _ => 0,
            };
            let on_chip = OnChip { chip, ftl: &spec.ftl, sector_size, seed, clock };
            match store {
                StoreKind::Content => on_chip.build(watched, BlockStack::BlockMapContent),
                StoreKind::Described => on_chip.build(watched, BlockStack::BlockMapDescribed),
                StoreKind::Shadow => on_chip.build(watched, BlockStack::BlockMapShadow),
            }
        }
    }
}

struct OnChip<'a> {
    chip: &'a ChipSpec,
    ftl: &'a FtlSpec,
    sector_size: u32,
    seed: u64,
    clock: &'a Clock,
}

impl OnChip<'_> {
    fn build<S: Store + 'static>(
        &self,
        watched: &mut Watched,
        block_map: fn(BlockMap<S>) -> BlockStack,
    ) -> Result<BlockStack, StackError> {
        let chip = NandChip::<S>::new(self.chip, self.seed)
            .map_err(|error| StackError::new("stack.device", error.to_string()))?;
        let flash = StatsFlash::new(chip);
        watched.flash = Some(Arc::clone(flash.counters()));
        watched.layers.push(("flash".to_string(), Arc::clone(flash.counters()) as Arc<dyn Statistics>));
        match self.ftl {
            FtlSpec::BlockMap(spec) => {
                let context = Context::at(self.clock.now());
                let ftl = BlockMapFtl::attach_at(flash, block_map_options(spec, self.sector_size), &context)
                    .map_err(|error| StackError::new("stack.ftl", error.to_string()))?;
                self.clock.advance_to(ftl.attach_report().done.completed);
                let ftl = Arc::new(Mutex::new(ftl));
                watched.layers.push(("ftl".to_string(), Arc::new(SharedStatistics(Arc::clone(&ftl)))));
                if let Some(block) = spec.trace_block {
                    let traced = TracedBlock { ftl: Arc::clone(&ftl), block };
                    watched.layers.push(("ftl_trace".to_string(), Arc::new(traced)));
                }
                Ok(block_map(ftl))
            }
            FtlSpec::Fast(_) | FtlSpec::None => {
                Err(StackError::new("stack.ftl", "this version has no such layer on flash; expected block-map"))
            }
        }
    }
}

fn block_map_options(spec: &BlockMapSpec, sector_size: u32) -> BlockMapOptions {
    let limit = (spec.limit > 0).then_some(u64::from(spec.limit));
    let policy = match spec.policy {
        PolicyName::Merge => RecyclingPolicy::Merge,
        PolicyName::MergeMigration => RecyclingPolicy::CostBased,
        PolicyName::Limit => RecyclingPolicy::Limit { max: limit },
        PolicyName::Macroscopic => {
            let estimator = match spec.alpha {
                AlphaName::Origin => AlphaEstimator::Origin,
                AlphaName::Regression => AlphaEstimator::Regression,
            };
            RecyclingPolicy::Macroscopic { estimator, cap: limit }
        }
    };
    BlockMapOptions {
        sector_size: if spec.sector_size > 0 { spec.sector_size } else { sector_size },
        log_blocks: spec.log_blocks,
        policy,
        partial_merge: spec.partial_merge,
        map_pages_per_recycling: spec.map_pages,
        events: if spec.trace_block.is_some() { EVENTS } else { 0 },
        ..BlockMapOptions::default()
    }
}

fn mount_fat<D: BlockDevice + 'static>(
    device: Arc<Mutex<D>>,
    spec: &FatSpec,
    clock: &Clock,
    watched: &mut Watched,
) -> Result<Box<dyn FileSystem>, StackError> {
    let wrong = |error: nandkit_vfs::FsError| StackError::new("stack.fs", error.to_string());
    let mut device = StatsDevice::new(Shared::new(device));
    watched.layers.push(("block".to_string(), Arc::clone(device.counters()) as Arc<dyn Statistics>));
    let cluster_size = (spec.cluster_size > 0).then_some(spec.cluster_size);
    let kind = match spec.fat_type {
        FatTypeName::Auto => None,
        FatTypeName::Fat12 => Some(FatKind::Fat12),
        FatTypeName::Fat16 => Some(FatKind::Fat16),
        FatTypeName::Fat32 => Some(FatKind::Fat32),
    };
    let alignment = match spec.alignment {
        AlignmentName::None => Alignment::None,
        AlignmentName::Cluster => Alignment::Cluster,
        AlignmentName::EraseBlock => Alignment::RecyclingUnit,
    };
    let format = FormatOptions { kind, cluster_size, alignment, ..FormatOptions::default() };
    fat::format(&mut device, clock, &format).map_err(wrong)?;
    let options = MountOptions { cache: fat_cache(spec), barriers: spec.barriers, read_only: false };
    Ok(Box::new(Fat::mount(device, clock.clone(), options).map_err(wrong)?))
}

fn fat_cache(spec: &FatSpec) -> Cache {
    let sectors = spec.cache_sectors as usize;
    if sectors == 0 {
        return Cache::None;
    }
    let dirty = if spec.dirty_sectors > 0 { spec.dirty_sectors } else { spec.cache_sectors / 2 };
    Cache::Sectors {
        sectors,
        replacement: match spec.replacement {
            ReplacementName::Lru => Replacement::Lru,
            ReplacementName::CleanFirst => Replacement::CleanFirst { window_pages: sectors / 2 },
        },
        write_back: match spec.write_back {
            WriteBackName::Through => WriteBack::Through,
            WriteBackName::Back => {
                WriteBack::Back { dirty_limit_pages: dirty as usize, age_limit: Nanos::from_millis(spec.age_ms) }
            }
        },
        data: spec.cache_data,
    }
}
