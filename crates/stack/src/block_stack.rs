//! The block device of a stack: memory, a card, or a translation layer on a chip in memory or in a
//! file.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_block::card::Card;
use nandkit_block::{BlockDevice, HostLink, RamDevice, Result as BlockResult};
use nandkit_cleaning::log_victim::VictimRule;
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, LogicalCapacity, PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{AddressStore, ChipSpec, ContentStore, DescribedStore, NandChip, ShadowStore, Store};
use nandkit_units::{Clock, Context, Done, Nanos, Statistics};

use crate::chip_file::{self, EmulatedChip};
use crate::chip_layer::check_owner;
use crate::device_handle::DeviceHandle;
use crate::device_spec::SECTOR_MAX;
use crate::frame::{Frame, Keeping};
use crate::host_cost::HostCost;
use crate::tap::tapped;
use crate::traced::{EVENTS, TracedBlock};
use crate::{
    AlphaName, BlockMapSpec, DeviceSpec, FastSpec, FtlSpec, PageMapSpec, PolicyName, StackError, StackSpec, StoreKind,
    VictimName,
};

/// Builds the device of a stack as its host sees it, with the host's cost per request.
pub(crate) fn block_stack(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<DeviceHandle, StackError> {
    let device = behind_interface(spec, seed, frame)?;
    match frame.host.map_or(0, |host| host.request_ns) {
        0 => Ok(device),
        ns => Ok(DeviceHandle::new(watch("host", HostCost::new(device, Nanos(ns)), frame))),
    }
}

/// Builds the device with its translation layer and the host interface of a drive.
fn behind_interface(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<DeviceHandle, StackError> {
    let layer = layer_stack(spec, seed, frame)?;
    let DeviceSpec::Chip { interface: Some(interface), .. } = &spec.device else { return Ok(layer) };
    let link = HostLink::new(interface, layer);
    let link = link.map_err(|error| StackError::new("stack.device.interface", error.to_string()))?;
    Ok(DeviceHandle::new(watch("interface", link, frame)))
}

/// Adds the counters of a device to the records.
fn watch<D: Statistics + 'static>(name: &str, device: D, frame: &mut Frame) -> Arc<Mutex<D>> {
    let device = Arc::new(Mutex::new(device));
    frame.watch(name, Arc::clone(&device) as Arc<dyn Statistics>);
    device
}

fn layer_stack(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<DeviceHandle, StackError> {
    let (store, chip, file) = match &spec.device {
        DeviceSpec::Ram { size, sector_size } => {
            let device = RamDevice::with_sectors(*sector_size, size / u64::from(*sector_size));
            let device = device.map_err(|error| StackError::new("stack.device", error.to_string()))?;
            return Ok(DeviceHandle::new(Arc::new(Mutex::new(device))));
        }
        DeviceSpec::Card { card, .. } => {
            frame.card = Some(card.clone());
            let card = Card::in_memory(card).map_err(|error| StackError::new("stack.device", error.to_string()))?;
            return Ok(DeviceHandle::new(watch("card", card, frame)));
        }
        DeviceSpec::Kept { file } => {
            return Err(StackError::new("stack.device", format!("the chip in {file} was not looked up")));
        }
        DeviceSpec::Chip { store, chip, file, .. } => (*store, chip, file),
    };
    // Without a file system the layer's sector size applies, a page.
    let sector_size = if spec.is_block_device() { 0 } else { chip.geometry.page_size.min(SECTOR_MAX) };
    let ftl = &spec.ftl;
    let above = Above { ftl, sector_size, seed, is_new: true, may_be_left: false };
    if let Some(chip) = frame.given.take() {
        return in_file(Above { may_be_left: true, ..above }, chip, chip_file::NewFile::default(), frame);
    }
    if let Some(file) = file {
        check_owner(Path::new(file), Some(ftl))?;
        let (chip, new_file) = chip_file::open_or_create(Path::new(file), chip, store, seed, frame.keep)?;
        let may_be_left = frame.keep == chip_file::Keep::AtSync;
        return in_file(Above { may_be_left, ..above }, chip, new_file, frame);
    }
    let chip: Box<dyn EmulatedChip> = match store {
        StoreKind::Content => Box::new(made::<ContentStore>(chip, seed, frame)?),
        StoreKind::Described => Box::new(made::<DescribedStore>(chip, seed, frame)?),
        StoreKind::Shadow => Box::new(made::<ShadowStore>(chip, seed, frame)?),
        StoreKind::Address => Box::new(made::<AddressStore>(chip, seed, frame)?),
    };
    attach(&above, StatsFlash::new(tapped(chip, frame.tap.as_ref())), frame).map(|(device, _)| device)
}

/// The layers to put on a chip.
struct Above<'a> {
    ftl: &'a FtlSpec,
    sector_size: u32,
    seed: u64,
    /// Whether the chip is new and therefore empty.
    is_new: bool,
    /// Whether the chip may be reopened without this stack being closed, after a kill or a power
    /// cut. Flushed data must survive that.
    may_be_left: bool,
}

fn made<S: Store + 'static>(chip: &ChipSpec, seed: u64, frame: &mut Frame) -> Result<NandChip<S>, StackError> {
    let chip = NandChip::<S>::new(chip, seed);
    let chip = chip.map_err(|error| StackError::new("stack.device", error.to_string()))?;
    frame.watch_dies(chip.queue_statistics());
    Ok(chip)
}

fn in_file(
    above: Above<'_>,
    chip: Box<dyn EmulatedChip>,
    new_file: chip_file::NewFile,
    frame: &mut Frame,
) -> Result<DeviceHandle, StackError> {
    // The clock continues where the last run ended, so that data keep their age.
    frame.clock.advance_to(chip.last_instant());
    frame.started = frame.clock.now();
    frame.watch_dies(chip.queue_statistics());
    let above = Above { seed: chip.seed(), is_new: false, ..above };
    let (device, close) = attach(&above, StatsFlash::new(chip), frame)?;
    let closing = Box::new(move |clock: &Clock| {
        let saved = close(clock)?.inner_mut().save();
        saved
            .map(|_| ())
            .map_err(|error| StackError::new("stack.device.file", format!("cannot save the chip: {error}")))
    });
    frame.keeping = Some(Keeping { closing, new_file });
    Ok(device)
}

/// Closes a layer, and returns the chip below it.
type CloseLayer<F> = Box<dyn FnOnce(&Clock) -> Result<F, StackError> + Send>;

/// A handle on a layer, and the function that closes it, which needs all handles dropped.
fn with_end<L, F>(
    layer: Arc<Mutex<L>>,
    close: fn(L, &Context) -> BlockResult<(F, Done)>,
) -> (DeviceHandle, CloseLayer<F>)
where
    L: BlockDevice + 'static,
    F: 'static,
{
    let handle = DeviceHandle::new(Arc::clone(&layer));
    let close = Box::new(move |clock: &Clock| {
        let layer = Arc::into_inner(layer)
            .ok_or_else(|| StackError::new("stack.ftl", "the layer is still in use and cannot be closed"))?;
        let layer = layer.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (flash, done) = close(layer, &Context::at(clock.now()))
            .map_err(|error| StackError::new("stack.ftl", format!("cannot close the layer: {error}")))?;
        clock.advance_to(done.completed);
        Ok(flash)
    });
    (handle, close)
}

/// A chip of any kind, with counters; dynamic, so that each layer is compiled only once.
type AnyChip = StatsFlash<Box<dyn EmulatedChip>>;

/// Puts the layer on a chip: formats a new chip, or recovers from an existing one.
fn attach(
    above: &Above<'_>,
    flash: AnyChip,
    frame: &mut Frame,
) -> Result<(DeviceHandle, CloseLayer<AnyChip>), StackError> {
    let context = Context::at(frame.clock.now());
    match above.ftl {
        FtlSpec::BlockMap(spec) => {
            frame.watched.flash = Some(Arc::clone(flash.counters()));
            let options = block_map_options(spec, above.sector_size);
            let ftl = BlockMapFtl::attach_at(flash, options, &context).map_err(wrong)?;
            frame.clock.advance_to(ftl.attach_report().done.completed);
            let ftl = watch("ftl", ftl, frame);
            if let Some(block) = spec.trace_block {
                frame.watch("ftl_trace", Arc::new(TracedBlock { ftl: Arc::clone(&ftl), block }));
            }
            Ok(with_end(ftl, BlockMapFtl::close))
        }
        FtlSpec::Fast(spec) => {
            frame.watched.flash = Some(Arc::clone(flash.counters()));
            let options = fast_options(spec, above.sector_size);
            let ftl = FastFtl::attach_at(flash, options, &context).map_err(wrong)?;
            frame.clock.advance_to(ftl.attach_report().done.completed);
            Ok(with_end(watch("ftl", ftl, frame), FastFtl::close))
        }
        FtlSpec::PageMap(spec) => page_map(above, spec, flash, frame),
        FtlSpec::None => Err(StackError::new("stack.ftl", "no layer on flash; expected block-map, fast or page-map")),
    }
}

/// The page-mapped layer on a chip.
fn page_map(
    above: &Above<'_>,
    spec: &PageMapSpec,
    flash: AnyChip,
    frame: &mut Frame,
) -> Result<(DeviceHandle, CloseLayer<AnyChip>), StackError> {
    frame.watched.flash = Some(Arc::clone(flash.counters()));
    let context = Context::at(frame.clock.now());
    let options = spec.options(above.seed, above.sector_size);
    let options = options.map_err(|detail| StackError::new("stack.ftl", detail))?;
    let options = PageMapOptions { saved_at_flush: above.may_be_left, ..options };
    let opened = match above.is_new {
        true => PageMapFtl::format_at(flash, options, &context),
        false => PageMapFtl::open_at(flash, options, &context),
    };
    let ftl = opened.map_err(wrong)?;
    frame.clock.advance_to(ftl.opened());
    Ok(with_end(watch("ftl", ftl, frame), PageMapFtl::close))
}

fn wrong(error: nandkit_block::BlockError) -> StackError {
    StackError::new("stack.ftl", error.to_string())
}

const fn capacity(spare_blocks: u32, bytes: u64) -> LogicalCapacity {
    match (spare_blocks, bytes) {
        (0, 0) => LogicalCapacity::Automatic,
        (0, bytes) => LogicalCapacity::Bytes(bytes),
        (spare, _) => LogicalCapacity::SpareBlocks(spare),
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
        allocation: spec.allocation.rule(),
        wear_threshold: (spec.wear_threshold > 0).then_some(spec.wear_threshold),
        events: if spec.trace_block.is_some() { EVENTS } else { 0 },
        ..BlockMapOptions::default()
    }
}

fn fast_options(spec: &FastSpec, sector_size: u32) -> FastOptions {
    FastOptions {
        capacity: capacity(spec.spare_blocks, spec.capacity),
        sector_size: if spec.sector_size > 0 { spec.sector_size } else { sector_size },
        // The spec includes the sequential log block, so that both layers have the same flash for
        // logs.
        log_blocks: spec.log_blocks.saturating_sub(1),
        map_pages_per_recycling: spec.map_pages,
        allocation: spec.allocation.rule(),
        ..FastOptions::default()
    }
}
