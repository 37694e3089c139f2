//! What is in an image: a chip that a file holds, or a FAT volume as it is. Nothing here changes the file.

use std::path::Path;

use nandkit_block::{Access, BlockDevice, FileDevice};
use nandkit_fat::{Fat, MountOptions};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, LogicalCapacity};
use nandkit_nand_sim::ChipSpec;
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::FileSystem;

pub use nandkit_fat::{CheckReport, Finding};

use crate::build::EPOCH_UNIX_NS;
use crate::chip_file::{self, FileChip};
use crate::{StackError, StoreKind};

/// The smallest sector: a volume with larger ones can be read through it.
const SECTOR_SIZE: u32 = 512;
/// Bytes in which a boot sector is recognised.
const BEGINNING: u64 = 512;

/// What a file is.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    /// A chip.
    Chip(Box<ChipInfo>),
    /// A FAT volume, sector by sector.
    Fat(FatInfo),
}

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
        /// Whether it was closed in good order.
        clean: bool,
    },
    /// The chip holds something that no layer opens: why.
    Unknown(String),
}

/// What a translation layer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Volume {
    /// Nothing that begins in its first sector.
    None,
    /// FAT.
    Fat(FatInfo),
    /// Something else: why it is no FAT.
    Unknown(String),
}

/// A FAT volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatInfo {
    /// `FAT12`, `FAT16` or `FAT32`.
    pub kind: &'static str,
    /// The label; empty for none.
    pub label: String,
    /// Bytes of a sector.
    pub sector_size: u32,
    /// Bytes of a cluster.
    pub cluster_size: u32,
    /// Bytes in clusters.
    pub total_bytes: u64,
    /// Bytes in free clusters.
    pub free_bytes: u64,
}

fn fat_on<D: BlockDevice>(device: D, clock: &Clock) -> Result<FatInfo, String> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let fat = Fat::mount(device, clock.clone(), options).map_err(|error| error.to_string())?;
    let label = fat.label().map_err(|error| error.to_string())?;
    let status = fat.volume().map_err(|error| error.to_string())?;
    let geometry = fat.geometry();
    let block = u64::from(status.block_size);
    Ok(FatInfo {
        kind: geometry.kind.name(),
        label,
        sector_size: geometry.sector_size,
        cluster_size: geometry.cluster_size(),
        total_bytes: status.blocks.saturating_mul(block),
        free_bytes: status.blocks_free.saturating_mul(block),
    })
}

/// Work on the device that a translation layer makes of a chip.
trait OnLayer {
    type Output;
    fn work<D: BlockDevice>(self, device: &mut D, clock: &Clock) -> Self::Output;
}

/// Opens whichever layer is on the chip, with as little of it kept back as can be: then all that the host wrote is inside.
fn on_layer<W: OnLayer>(chip: &mut Box<dyn FileChip>, clock: &Clock, work: W) -> (Layer, Option<W::Output>) {
    let context = Context::at(clock.now());
    let block_map = BlockMapOptions {
        log_blocks: 1,
        capacity: LogicalCapacity::SpareBlocks(5),
        sector_size: SECTOR_SIZE,
        ..BlockMapOptions::default()
    };
    let error = match BlockMapFtl::attach_at(&mut *chip, block_map, &context) {
        Ok(ftl) if ftl.attach_report().empty => return (Layer::None, None),
        Ok(mut ftl) => {
            let layer = Layer::Known { kind: "block-map", clean: ftl.attach_report().clean };
            return (layer, Some(work.work(&mut ftl, clock)));
        }
        Err(error) => error,
    };
    let fast = FastOptions {
        log_blocks: 1,
        capacity: LogicalCapacity::SpareBlocks(6),
        sector_size: SECTOR_SIZE,
        ..FastOptions::default()
    };
    match FastFtl::attach_at(&mut *chip, fast, &context) {
        Ok(mut ftl) => {
            let layer = Layer::Known { kind: "fast", clean: ftl.attach_report().clean };
            (layer, Some(work.work(&mut ftl, clock)))
        }
        Err(_) => (Layer::Unknown(error.detail), None),
    }
}

struct LookForVolume;

impl OnLayer for LookForVolume {
    type Output = Volume;

    fn work<D: BlockDevice>(self, device: &mut D, clock: &Clock) -> Volume {
        let mut sector = vec![0; SECTOR_SIZE as usize];
        match device.read(&Context::at(clock.now()), Lba(0), ReadInto::Bytes(&mut sector)) {
            Err(error) => return Volume::Unknown(error.detail),
            Ok(_) if sector.iter().all(|byte| *byte == 0) => return Volume::None,
            Ok(_) => {}
        }
        match fat_on(device, clock) {
            Ok(info) => Volume::Fat(info),
            Err(error) => Volume::Unknown(error),
        }
    }
}

struct CheckVolume;

impl OnLayer for CheckVolume {
    type Output = Result<CheckReport, String>;

    fn work<D: BlockDevice>(self, device: &mut D, clock: &Clock) -> Self::Output {
        nandkit_fat::check(device, clock).map_err(|error| error.to_string())
    }
}

fn wrong(path: &Path, detail: impl std::fmt::Display) -> StackError {
    StackError::new("image", format!("{}: {detail}", path.display()))
}

/// A file that is no chip: a volume in it, or what was expected.
fn raw(path: &Path, beginning: &[u8]) -> Result<FileDevice, StackError> {
    if beginning.get(510..512) != Some(&[0x55, 0xAA]) {
        let shown = beginning.get(..8.min(beginning.len())).unwrap_or_default().escape_ascii();
        return Err(wrong(
            path,
            format!(
                "the file begins with \"{shown}\" and has no boot sector; expected a chip of nandkit's (\"NANDKJRN\") or a FAT volume"
            ),
        ));
    }
    FileDevice::open(path, SECTOR_SIZE, Access::ReadOnly).map_err(|error| wrong(path, error))
}

fn clock_at(last_instant_ns: u64) -> Clock {
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    clock.advance_to(nandkit_units::Nanos(last_instant_ns));
    clock
}

/// Says what a file is and what it holds.
pub fn inspect(path: &Path) -> Result<Image, StackError> {
    let beginning = chip_file::beginning(path, BEGINNING)?;
    if !chip_file::is_device_file(&beginning) {
        let device = raw(path, &beginning)?;
        return fat_on(device, &clock_at(0)).map(Image::Fat).map_err(|error| wrong(path, error));
    }
    let (spec, store, mut chip) = chip_file::look(path)?;
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
    // Opening a layer may recover, and changes the chip in memory: it comes after the figures.
    let (layer, volume) = on_layer(&mut chip, &clock_at(last_instant_ns), LookForVolume);
    info.layer = layer;
    info.volume = volume.unwrap_or(Volume::None);
    Ok(Image::Chip(Box::new(info)))
}

/// Checks the FAT volume of a file: a volume as it is, or one on a chip.
pub fn check(path: &Path) -> Result<CheckReport, StackError> {
    let beginning = chip_file::beginning(path, BEGINNING)?;
    if !chip_file::is_device_file(&beginning) {
        let mut device = raw(path, &beginning)?;
        return nandkit_fat::check(&mut device, &clock_at(0)).map_err(|error| wrong(path, error));
    }
    let (_, _, mut chip) = chip_file::look(path)?;
    let clock = clock_at(chip.last_instant().get());
    match on_layer(&mut chip, &clock, CheckVolume) {
        (_, Some(report)) => report.map_err(|error| wrong(path, error)),
        (Layer::Unknown(error), None) => Err(wrong(path, error)),
        (_, None) => Err(wrong(path, "the chip is empty; expected one with a FAT volume on it")),
    }
}
