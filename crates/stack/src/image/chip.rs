//! A chip that a file holds: its translation layer with the volume on it (`chip_volume.rs`), or JFFS2 on the bare flash.

use std::path::Path;

use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, LogicalCapacity, PageMapFtl, PageMapOptions};
use nandkit_jffs2::Jffs2;
use nandkit_nand_sim::ChipSpec;
use nandkit_units::{Clock, Context};
use nandkit_vfs::FileSystem;

use super::chip_volume::{CheckVolume, LookForVolume, MountVolume, OnLayer};
use crate::chip_file::{self, FileChip};
use crate::format::fat::FatInfo;
use crate::format::sectors::SECTOR_SIZE;
use crate::format::{Checked, OpenOptions, clock_at, jffs2, wrong};
use crate::{MountedFileSystem, StackError, StoreKind};

/// A chip in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipInfo {
    /// Every figure of it.
    pub spec: ChipSpec,
    /// What it keeps of the bytes that are written.
    pub store: StoreKind,
    /// What decides its faults.
    pub seed: u64,
    /// When its last operation ended, in simulated nanoseconds.
    pub last_instant_ns: u64,
    /// Erases of each block.
    pub erases: Vec<u32>,
    /// Blocks that are bad, from the factory or since.
    pub bad_blocks: u32,
    /// Pages that are programmed.
    pub programmed_pages: u64,
    /// The translation layer on it.
    pub layer: Layer,
    /// What the translation layer holds.
    pub volume: Volume,
}

/// A translation layer on a chip.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// The chip holds none.
    None,
    /// One that can be opened.
    Known {
        /// As in specs.
        kind: &'static str,
        /// Whether it was closed in good order; always for page-map, whose starts are all alike.
        clean: bool,
    },
    /// The chip holds something that no layer opens: why.
    Unknown(String),
}

/// What a chip holds, or its translation layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Volume {
    /// Nothing that begins in its first sector.
    None,
    /// FAT.
    Fat(FatInfo),
    /// F2FS.
    F2fs {
        /// Its name.
        label: String,
        /// Bytes that files can use, in all.
        total_bytes: u64,
        /// Of these, free.
        free_bytes: u64,
    },
    /// JFFS2, which has no layer below it.
    Jffs2 {
        /// Bytes that files can use, in all.
        total_bytes: u64,
        /// Of these, free.
        free_bytes: u64,
    },
    /// Something else: why it is none of these.
    Unknown(String),
}

/// As little kept back as can be: then all that the host wrote is inside.
fn block_map_options() -> BlockMapOptions {
    BlockMapOptions {
        log_blocks: 1,
        capacity: LogicalCapacity::SpareBlocks(5),
        sector_size: SECTOR_SIZE,
        ..BlockMapOptions::default()
    }
}

/// The same for the other layer.
fn fast_options() -> FastOptions {
    FastOptions {
        log_blocks: 1,
        capacity: LogicalCapacity::SpareBlocks(6),
        sector_size: SECTOR_SIZE,
        ..FastOptions::default()
    }
}

/// Finds out which layer is on the chip. What its recovery changes stays.
fn layer_on(chip: &mut Box<dyn FileChip>, clock: &Clock) -> Layer {
    let context = Context::at(clock.now());
    // Its journal is proof; the others go by what each page says of itself.
    // Each of its starts replays the journal, and none has to mend anything.
    let error = match PageMapFtl::attach_at(&mut *chip, PageMapOptions::default(), &context) {
        Ok(_) => return Layer::Known { kind: "page-map", clean: true },
        Err(error) => error,
    };
    if PageMapFtl::has_journal(&*chip, &context) {
        return Layer::Unknown(error.detail);
    }
    let error = match BlockMapFtl::attach_at(&mut *chip, block_map_options(), &context) {
        Ok(ftl) if ftl.attach_report().empty => return Layer::None,
        Ok(ftl) => return Layer::Known { kind: "block-map", clean: ftl.attach_report().clean },
        Err(error) => error,
    };
    match FastFtl::attach_at(&mut *chip, fast_options(), &context) {
        Ok(ftl) => Layer::Known { kind: "fast", clean: ftl.attach_report().clean },
        Err(_) => Layer::Unknown(error.detail),
    }
}

/// Does work on the device that the chip's layer makes of it. Errors: there is no layer, or none that is known.
fn on_layer<W: OnLayer>(mut chip: Box<dyn FileChip>, clock: &Clock, work: W) -> (Layer, Result<W::Output, String>) {
    let context = Context::at(clock.now());
    let layer = layer_on(&mut chip, clock);
    let again = |error: nandkit_block::BlockError| error.detail;
    let done = match &layer {
        Layer::None => Err(EMPTY.to_owned()),
        Layer::Unknown(why) => Err(why.clone()),
        Layer::Known { kind: "page-map", .. } => PageMapFtl::attach_at(chip, PageMapOptions::default(), &context)
            .map(|ftl| work.work(ftl, clock))
            .map_err(again),
        Layer::Known { kind: "block-map", .. } => {
            BlockMapFtl::attach_at(chip, block_map_options(), &context).map(|ftl| work.work(ftl, clock)).map_err(again)
        }
        Layer::Known { .. } => {
            FastFtl::attach_at(chip, fast_options(), &context).map(|ftl| work.work(ftl, clock)).map_err(again)
        }
    };
    (layer, done)
}

/// Whether JFFS2 is on the bare flash.
fn is_jffs2(chip: &dyn FileChip, clock: &Clock) -> bool {
    nandkit_jffs2::probe::is_on_chip(chip, &Context::at(clock.now()))
}

/// Mounts JFFS2 on the bare flash for reading.
fn jffs2_on(chip: Box<dyn FileChip>, clock: &Clock) -> Result<Jffs2<Box<dyn FileChip>>, String> {
    let options = OpenOptions { no_summaries: true, ..OpenOptions::default() };
    jffs2::mount_at(chip, clock.clone(), None, &options)
}

/// What JFFS2 on a chip has room for.
fn jffs2_info(chip: Box<dyn FileChip>, clock: &Clock) -> Result<Volume, String> {
    let status = jffs2_on(chip, clock)?.volume().map_err(|error| error.to_string())?;
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(status.block_size));
    Ok(Volume::Jffs2 { total_bytes: bytes(status.blocks), free_bytes: bytes(status.blocks_free) })
}

/// Says what a chip's file holds.
pub(super) fn inspect(path: &Path) -> Result<ChipInfo, StackError> {
    let (spec, store, chip) = chip_file::look(path)?;
    let last_instant_ns = chip.last_instant().get();
    let mut info = ChipInfo {
        spec,
        store,
        seed: chip.seed(),
        last_instant_ns,
        erases: chip.erase_counts(),
        bad_blocks: chip.bad_blocks(),
        programmed_pages: chip.programmed_pages(),
        layer: Layer::None,
        volume: Volume::None,
    };
    let clock = clock_at(last_instant_ns);
    if is_jffs2(&*chip, &clock) {
        info.volume = jffs2_info(chip, &clock).unwrap_or_else(Volume::Unknown);
        return Ok(info);
    }
    // Opening a layer may recover, and changes the chip in memory: it comes after the figures.
    let (layer, volume) = on_layer(chip, &clock, LookForVolume);
    info.volume = match (&layer, volume) {
        (Layer::Known { .. }, Err(why)) => Volume::Unknown(why),
        (_, volume) => volume.unwrap_or(Volume::None),
    };
    info.layer = layer;
    Ok(info)
}

/// Checks the volume on a chip.
pub(super) fn check(path: &Path) -> Result<Checked, StackError> {
    let (_, _, chip) = chip_file::look(path)?;
    let clock = clock_at(chip.last_instant().get());
    if is_jffs2(&*chip, &clock) {
        return jffs2_on(chip, &clock).and_then(|volume| jffs2::check(&volume)).map_err(|error| wrong(path, error));
    }
    let (_, checked) = on_layer(chip, &clock, CheckVolume);
    checked.and_then(|checked| checked).map_err(|error| wrong(path, error))
}

const EMPTY: &str = "the chip is empty; expected one with FAT, F2FS or JFFS2 on it";

/// A mounted file system, and the name of its format.
pub(super) type Opened = (Box<dyn MountedFileSystem>, &'static str);

/// Mounts the volume on a chip for reading. What recovery changes stays in memory.
pub(super) fn mount(path: &Path) -> Result<Opened, StackError> {
    let (_, _, chip) = chip_file::look(path)?;
    let clock = clock_at(chip.last_instant().get());
    if is_jffs2(&*chip, &clock) {
        let volume = jffs2_on(chip, &clock).map_err(|error| wrong(path, error))?;
        return Ok((Box::new(volume), "jffs2"));
    }
    let (_, mounted) = on_layer(chip, &clock, MountVolume);
    mounted.and_then(|mounted| mounted).map_err(|error| wrong(path, error))
}
