//! Translation layers on chips, in memory and in files.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_block::card::Card;
use nandkit_block::{HostLink, RamDevice};
use nandkit_cleaning::allocation::AllocationRule;
use nandkit_cleaning::log_victim::VictimRule;
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_flash::Flash;
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, LogicalCapacity, PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, NandChip, Store};
use nandkit_units::{Clock, Context, Done};

use crate::build::{BlockStack, Chip, ChipInFile, Closing, Frame, Keeping};
use crate::chip_file::{self, FileChip};
use crate::shared::SharedStatistics;
use crate::traced::{EVENTS, TracedBlock};
use crate::{
    AllocationName, AlphaName, BlockMapSpec, DeviceSpec, FastSpec, FsSpec, FtlSpec, PolicyName, StackError, StackSpec,
    StoreKind, VictimName,
};

/// The largest sector that FAT knows, and a block of F2FS.
const SECTOR_MAX: u32 = 4096;

type Layer<T> = Arc<Mutex<T>>;

type Named<T> = fn(Layer<T>) -> BlockStack;

/// How a stack names each layer on a kind of chip.
struct OnFlash<F> {
    /// Whether the chip was made for this stack, so that there is nothing on it.
    is_new: bool,
    block_map: Named<BlockMapFtl<F>>,
    fast: Named<FastFtl<F>>,
    page_map: Named<PageMapFtl<F>>,
}

/// The names for a chip in memory.
macro_rules! in_memory {
    ($block_map:ident, $fast:ident, $page_map:ident) => {
        OnFlash {
            is_new: true,
            block_map: BlockStack::$block_map,
            fast: BlockStack::$fast,
            page_map: BlockStack::$page_map,
        }
    };
}

/// The device of a stack with its translation layer, behind the host interface of a drive.
pub(crate) fn block_stack(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<BlockStack, StackError> {
    let layer = layer_stack(spec, seed, frame)?;
    let DeviceSpec::Chip { interface: Some(interface), .. } = &spec.device else { return Ok(layer) };
    let link = HostLink::new(interface, layer.shared());
    let link = link.map_err(|error| StackError::new("stack.device.interface", error.to_string()))?;
    let link = Arc::new(Mutex::new(link));
    frame.watched.layers.push(("interface".to_string(), Arc::new(SharedStatistics(Arc::clone(&link)))));
    Ok(BlockStack::Drive(link))
}

fn layer_stack(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<BlockStack, StackError> {
    let (store, chip, file) = match &spec.device {
        DeviceSpec::Ram { size, sector_size } => {
            let device = RamDevice::with_sectors(*sector_size, size / u64::from(*sector_size));
            let device = device.map_err(|error| StackError::new("stack.device", error.to_string()))?;
            return Ok(BlockStack::Ram(Arc::new(Mutex::new(device))));
        }
        DeviceSpec::Card { card, .. } => {
            let card = Card::in_memory(card).map_err(|error| StackError::new("stack.device", error.to_string()))?;
            let card = Arc::new(Mutex::new(card));
            frame.watched.layers.push(("card".to_string(), Arc::new(SharedStatistics(Arc::clone(&card)))));
            return Ok(BlockStack::Card(card));
        }
        DeviceSpec::Kept { file } => {
            return Err(StackError::new("stack.device", format!("the chip in {file} was not looked up")));
        }
        DeviceSpec::Chip { store, chip, file, .. } => (*store, chip, file),
    };
    // Without a file system a sector is a page, as the layer has it.
    let sector_size = match &spec.fs {
        FsSpec::Fat(_) | FsSpec::F2fs(_) => chip.geometry.page_size.min(SECTOR_MAX),
        _ => 0,
    };
    if let Some(chip) = frame.given.take() {
        return in_file(&spec.ftl, sector_size, (chip, true), chip_file::NewFile::default(), frame);
    }
    if let Some(file) = file {
        let (chip, new_file) = chip_file::open_or_create(Path::new(file), chip, store, seed, frame.keep)?;
        let may_be_left = frame.keep == chip_file::Keep::AtSync;
        return in_file(&spec.ftl, sector_size, (chip, may_be_left), new_file, frame);
    }
    let memory = InMemory { chip, seed, ftl: &spec.ftl, sector_size };
    match store {
        StoreKind::Content => memory.build(frame, in_memory!(BlockMapContent, FastContent, PageMapContent)),
        StoreKind::Described => memory.build(frame, in_memory!(BlockMapDescribed, FastDescribed, PageMapDescribed)),
        StoreKind::Shadow => memory.build(frame, in_memory!(BlockMapShadow, FastShadow, PageMapShadow)),
        StoreKind::Address => memory.build(frame, in_memory!(BlockMapAddress, FastAddress, PageMapAddress)),
    }
}

struct InMemory<'a> {
    chip: &'a ChipSpec,
    seed: u64,
    ftl: &'a FtlSpec,
    sector_size: u32,
}

impl InMemory<'_> {
    fn build<S: Store + 'static>(
        &self,
        frame: &mut Frame,
        variants: OnFlash<Chip<S>>,
    ) -> Result<BlockStack, StackError> {
        let chip = NandChip::<S>::new(self.chip, self.seed)
            .map_err(|error| StackError::new("stack.device", error.to_string()))?;
        frame.watch_dies(chip.queue_statistics());
        let above = Above { ftl: self.ftl, sector_size: self.sector_size, seed: self.seed, may_be_left: false };
        attach(&above, StatsFlash::new(chip), frame, variants)
    }
}

/// `may_be_left` says that the chip is found again even where this stack is never closed: the process was killed, or the power cut. What was flushed must be there then.
fn in_file(
    ftl: &FtlSpec,
    sector_size: u32,
    (chip, may_be_left): (Box<dyn FileChip>, bool),
    new_file: chip_file::NewFile,
    frame: &mut Frame,
) -> Result<BlockStack, StackError> {
    // Ages of data go on where the last run ended.
    frame.clock.advance_to(chip.last_instant());
    frame.started = frame.clock.now();
    frame.watch_dies(chip.queue_statistics());
    let variants: OnFlash<ChipInFile> = OnFlash {
        is_new: false,
        block_map: BlockStack::BlockMapFile,
        fast: BlockStack::FastFile,
        page_map: BlockStack::PageMapFile,
    };
    let above = Above { ftl, sector_size, seed: chip.seed(), may_be_left };
    let stack = attach(&above, StatsFlash::new(chip), frame, variants)?;
    let closing: Closing = match &stack {
        BlockStack::BlockMapFile(layer) => closing(layer, |layer, context| layer.close(context)),
        BlockStack::FastFile(layer) => closing(layer, |layer, context| layer.close(context)),
        BlockStack::PageMapFile(layer) => closing(layer, |layer, context| layer.close(context)),
        _ => return Err(StackError::new("stack.ftl", "a layer that keeps no chip in a file")),
    };
    frame.keeping = Some(Keeping { closing, new_file });
    Ok(stack)
}

type Closed = Result<(ChipInFile, Done), nandkit_block::BlockError>;

fn closing<T: Send + 'static>(layer: &Layer<T>, close: fn(T, &Context) -> Closed) -> Closing {
    let layer = Arc::clone(layer);
    Box::new(move |clock: &Clock| {
        let layer = Arc::into_inner(layer)
            .ok_or_else(|| StackError::new("stack.ftl", "the layer is still in use and cannot be closed"))?;
        let layer = layer.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut flash, done) = close(layer, &Context::at(clock.now()))
            .map_err(|error| StackError::new("stack.ftl", format!("cannot close the layer: {error}")))?;
        clock.advance_to(done.completed);
        let saved = flash.inner_mut().save();
        saved
            .map(|_| ())
            .map_err(|error| StackError::new("stack.device.file", format!("cannot keep the chip: {error}")))
    })
}

/// What stands on a chip.
struct Above<'a> {
    ftl: &'a FtlSpec,
    sector_size: u32,
    seed: u64,
    /// Whether the chip may outlive a layer that was not closed.
    may_be_left: bool,
}

fn attach<F: Flash + 'static>(
    above: &Above<'_>,
    flash: StatsFlash<F>,
    frame: &mut Frame,
    variants: OnFlash<StatsFlash<F>>,
) -> Result<BlockStack, StackError> {
    let Frame { clock, watched, .. } = frame;
    let Above { ftl, sector_size, seed, may_be_left } = *above;
    watched.flash = Some(Arc::clone(flash.counters()));
    let context = Context::at(clock.now());
    let wrong = |error: nandkit_block::BlockError| StackError::new("stack.ftl", error.to_string());
    match ftl {
        FtlSpec::BlockMap(spec) => {
            let options = block_map_options(spec, sector_size);
            let ftl = BlockMapFtl::attach_at(flash, options, &context).map_err(wrong)?;
            clock.advance_to(ftl.attach_report().done.completed);
            let ftl = Arc::new(Mutex::new(ftl));
            watched.layers.push(("ftl".to_string(), Arc::new(SharedStatistics(Arc::clone(&ftl)))));
            if let Some(block) = spec.trace_block {
                let traced = TracedBlock { ftl: Arc::clone(&ftl), block };
                watched.layers.push(("ftl_trace".to_string(), Arc::new(traced)));
            }
            Ok((variants.block_map)(ftl))
        }
        FtlSpec::Fast(spec) => {
            let ftl = FastFtl::attach_at(flash, fast_options(spec, sector_size), &context).map_err(wrong)?;
            clock.advance_to(ftl.attach_report().done.completed);
            let ftl = Arc::new(Mutex::new(ftl));
            watched.layers.push(("ftl".to_string(), Arc::new(SharedStatistics(Arc::clone(&ftl)))));
            Ok((variants.fast)(ftl))
        }
        FtlSpec::PageMap(spec) => {
            let options = spec.options(seed, sector_size).map_err(|detail| StackError::new("stack.ftl", detail))?;
            let options = PageMapOptions { saved_at_flush: may_be_left, ..options };
            let opened = match variants.is_new {
                true => PageMapFtl::format_at(flash, options, &context),
                false => PageMapFtl::open_at(flash, options, &context),
            };
            let ftl = opened.map_err(wrong)?;
            clock.advance_to(ftl.opened());
            let ftl = Arc::new(Mutex::new(ftl));
            watched.layers.push(("ftl".to_string(), Arc::new(SharedStatistics(Arc::clone(&ftl)))));
            Ok((variants.page_map)(ftl))
        }
        FtlSpec::None => Err(StackError::new("stack.ftl", "no layer on flash; expected block-map, fast or page-map")),
    }
}

const fn capacity(spare_blocks: u32, bytes: u64) -> LogicalCapacity {
    match (spare_blocks, bytes) {
        (0, 0) => LogicalCapacity::Automatic,
        (0, bytes) => LogicalCapacity::Bytes(bytes),
        (spare, _) => LogicalCapacity::SpareBlocks(spare),
    }
}

pub(crate) const fn allocation(name: AllocationName) -> AllocationRule {
    match name {
        AllocationName::LeastErased => AllocationRule::LeastErased,
        AllocationName::Fifo => AllocationRule::Fifo,
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
        capacity: capacity(spec.spare_blocks, spec.capacity),
        sector_size: if spec.sector_size > 0 { spec.sector_size } else { sector_size },
        log_blocks: spec.log_blocks,
        policy,
        partial_merge: spec.partial_merge,
        map_pages_per_recycling: spec.map_pages,
        victim: match spec.victim {
            VictimName::LeastRecentlyWritten => VictimRule::LeastRecentlyWritten,
            VictimName::Fifo => VictimRule::Fifo,
            VictimName::FewestValid => VictimRule::FewestValid,
            VictimName::RoundRobin => VictimRule::RoundRobin,
        },
        allocation: allocation(spec.allocation),
        wear_threshold: (spec.wear_threshold > 0).then_some(spec.wear_threshold),
        events: if spec.trace_block.is_some() { EVENTS } else { 0 },
        ..BlockMapOptions::default()
    }
}

fn fast_options(spec: &FastSpec, sector_size: u32) -> FastOptions {
    FastOptions {
        capacity: capacity(spec.spare_blocks, spec.capacity),
        sector_size: if spec.sector_size > 0 { spec.sector_size } else { sector_size },
        // The spec counts the sequential log block too, so that both layers have as much flash for logs.
        log_blocks: spec.log_blocks.saturating_sub(1),
        map_pages_per_recycling: spec.map_pages,
        allocation: allocation(spec.allocation),
        ..FastOptions::default()
    }
}
