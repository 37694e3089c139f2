//! An emulated chip in a file: its translation layer with the volume on it, or a volume on the bare
//! flash. The chip is loaded into memory and never written back.

use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_ftl::{BlockMapFtl, FastFtl, PageMapFtl, PageMapOptions};
use nandkit_nand_sim::ChipSpec;
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::probe::SURE;

use crate::chip_file::{self, EmulatedChip};
use crate::chip_handle::ChipHandle;
use crate::chip_layer::{Layer, any, block_map_options, fast_options, format_on, layer_on};
use crate::format::{
    Checked, FORMATS, Fact, Format, FormatError, Medium, MediumKind, OpenOptions, Opened, Opening, clock_at, titles,
    wrong,
};
use crate::{StackError, StoreKind};

/// A summary of a chip in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipInfo {
    /// Its spec.
    pub spec: ChipSpec,
    /// What the chip stores of written data.
    pub store: StoreKind,
    /// The seed of its faults.
    pub seed: u64,
    /// The simulated instant at which its last operation ended, in nanoseconds.
    pub last_instant_ns: u64,
    /// Erase count of each block.
    pub erases: Vec<u32>,
    /// Number of bad blocks, from the factory or since.
    pub bad_blocks: u32,
    /// Number of programmed pages.
    pub programmed_pages: u64,
    /// The translation layer on it.
    pub layer: Layer,
    /// The volume on it.
    pub volume: ChipVolume,
}

/// The volume on a chip or its translation layer.
#[derive(Clone, Debug, PartialEq)]
pub enum ChipVolume {
    /// No volume: the first sector is empty.
    None,
    /// A volume, with facts about it.
    Known(Vec<Fact>),
    /// Unknown data, and why it is not a volume.
    Unknown(String),
}

/// Opens the device of the chip's translation layer. Error: there is no known layer.
fn device_on(chip: Box<dyn EmulatedChip>, clock: &Clock) -> (Layer, Result<Box<dyn BlockDevice>, FormatError>) {
    let context = Context::at(clock.now());
    let chip = ChipHandle::new(chip);
    let layer = layer_on(&chip, clock);
    let chip = any(&chip);
    let device = match &layer {
        Layer::None => Err(FormatError::Unfit(empty())),
        Layer::Unknown(why) => Err(FormatError::Unfit(why.clone())),
        Layer::Known { kind: "page-map", .. } => {
            boxed(PageMapFtl::attach_at(chip, PageMapOptions::default(), &context))
        }
        Layer::Known { kind: "block-map", .. } => boxed(BlockMapFtl::attach_at(chip, block_map_options(), &context)),
        Layer::Known { .. } => boxed(FastFtl::attach_at(chip, fast_options(), &context)),
    };
    (layer, device)
}

fn boxed<D: BlockDevice + 'static>(device: nandkit_block::Result<D>) -> Result<Box<dyn BlockDevice>, FormatError> {
    Ok(Box::new(device?))
}

fn empty() -> String {
    format!("the chip is empty; expected one with {} on it", titles(|_| true))
}

/// The beginning of a device.
enum Begins {
    Nothing,
    /// A volume, or data that looks like one, with the reason why it is not.
    With(&'static dyn Format, Result<(), String>),
}

/// Bytes from a device's beginning that formats inspect.
const LOOKED_AT: u64 = 32 << 10;

/// Inspects the first sectors. Unreadable sectors after the first count as empty. Error: the first
/// one cannot be read.
fn beginning(device: &dyn BlockDevice, clock: &Clock) -> Result<Begins, FormatError> {
    let geometry = *device.geometry();
    let size = u64::from(geometry.sector_size.max(1));
    let mut bytes = vec![0; LOOKED_AT.max(size) as usize];
    for (number, sector) in (0..geometry.sectors).zip(bytes.chunks_exact_mut(size as usize)) {
        let read = device.read(&Context::at(clock.now()), Lba(number), ReadInto::Bytes(sector));
        if number == 0 {
            read?;
        }
    }
    let length = geometry.sectors.saturating_mul(size);
    let likely = FORMATS.iter().filter_map(|format| Some((*format, format.likeness(&bytes, length)?)));
    if let Some((format, likeness)) = likely.max_by_key(|(_, likeness)| likeness.points) {
        let sound = if likeness.points >= SURE { Ok(()) } else { Err(likeness.evidence.join("; ")) };
        return Ok(Begins::With(format, sound));
    }
    let first = bytes.get(..size as usize).unwrap_or_default();
    // The first format on sectors explains why unknown bytes are not a volume.
    match FORMATS.iter().find(|format| format.medium() == MediumKind::Blocks) {
        Some(format) if !nandkit_units::is_zeroed(first) => Ok(Begins::With(*format, Ok(()))),
        _ => Ok(Begins::Nothing),
    }
}

/// Inspects the chip in a file.
pub(super) fn inspect(path: &Path, options: &OpenOptions) -> Result<ChipInfo, StackError> {
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
        volume: ChipVolume::None,
    };
    let clock = clock_at(last_instant_ns);
    if let Some(format) = format_on(&*chip, &clock) {
        info.volume = told(format, Medium::Flash(chip), clock, options);
        return Ok(info);
    }
    // Collect the figures first: opening the layer may recover and change the chip in memory.
    let (layer, device) = device_on(chip, &clock);
    info.volume = match (&layer, device) {
        (_, Ok(device)) => volume_on(device, clock, options),
        (Layer::Known { .. }, Err(why)) => ChipVolume::Unknown(why.to_string()),
        (_, Err(_)) => ChipVolume::None,
    };
    info.layer = layer;
    Ok(info)
}

fn volume_on(device: Box<dyn BlockDevice>, clock: Clock, options: &OpenOptions) -> ChipVolume {
    match beginning(&*device, &clock) {
        Ok(Begins::Nothing) => ChipVolume::None,
        Ok(Begins::With(format, Ok(()))) => told(format, Medium::Blocks(device), clock, options),
        Ok(Begins::With(_, Err(why))) => ChipVolume::Unknown(why),
        Err(why) => ChipVolume::Unknown(why.to_string()),
    }
}

fn told(format: &dyn Format, medium: Medium, clock: Clock, options: &OpenOptions) -> ChipVolume {
    let options = of_volume(options);
    match format.info(medium, &Opening { options: &options, clock }) {
        Ok(info) => ChipVolume::Known(info.facts),
        Err(why) => ChipVolume::Unknown(why.to_string()),
    }
}

/// The options that apply to a volume on any medium.
fn of_volume(options: &OpenOptions) -> OpenOptions {
    OpenOptions { code_page: options.code_page, ..OpenOptions::default() }
}

/// The format of the volume on a chip, and its medium.
pub(super) fn volume(path: &Path) -> Result<(&'static dyn Format, Medium, Clock), StackError> {
    let (_, _, chip) = chip_file::look(path)?;
    let clock = clock_at(chip.last_instant().get());
    if let Some(format) = format_on(&*chip, &clock) {
        return Ok((format, Medium::Flash(chip), clock));
    }
    let failed = |error: FormatError| error.of(path);
    let device = device_on(chip, &clock).1.map_err(failed)?;
    match beginning(&*device, &clock).map_err(failed)? {
        Begins::With(format, _) => Ok((format, Medium::Blocks(device), clock)),
        Begins::Nothing => Err(wrong(path, NO_VOLUME)),
    }
}

const NO_VOLUME: &str = "the device on the chip begins with an empty sector; expected a volume";

/// Checks the volume on a chip.
pub(super) fn check(path: &Path, options: &OpenOptions) -> Result<Checked, StackError> {
    let (format, medium, clock) = volume(path)?;
    let options = of_volume(options);
    let report = format.check(medium, &Opening { options: &options, clock }).map_err(|error| error.of(path))?;
    Ok(Checked { format: format.name(), report })
}

/// Opens the volume on a chip for reading; returns it with its format. Changes by a recovery stay
/// in memory.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<(Opened, &'static str), StackError> {
    let (format, medium, clock) = volume(path)?;
    let options = of_volume(options);
    let opened = format.open(medium, &Opening { options: &options, clock }).map_err(|error| error.of(path))?;
    Ok((opened, format.name()))
}
