//! Finds the translation layer or the file system that wrote a chip in a file. No other one can use
//! the chip.

use std::path::Path;

use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, LogicalCapacity, PageMapFtl, PageMapOptions};
use nandkit_units::{Clock, Context};

use crate::chip_file::{self, EmulatedChip};
use crate::chip_handle::ChipHandle;
use crate::format::sectors::SECTOR_SIZE;
use crate::format::{FORMATS, Format, clock_at};
use crate::{FtlSpec, StackError};

/// A translation layer on a chip.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// The chip holds no layer.
    None,
    /// A layer that can be opened.
    Known {
        /// The name in specs.
        kind: &'static str,
        /// Whether it was closed properly; always true for page-map, whose starts are all alike.
        clean: bool,
    },
    /// The chip holds data that no layer can open, and why.
    Unknown(String),
}

/// Options with the smallest reserve, so that all sectors written by the host are visible.
pub(crate) fn block_map_options() -> BlockMapOptions {
    BlockMapOptions {
        log_blocks: 1,
        capacity: LogicalCapacity::SpareBlocks(5),
        sector_size: SECTOR_SIZE,
        ..BlockMapOptions::default()
    }
}

/// The options of FAST with the smallest reserve.
pub(crate) fn fast_options() -> FastOptions {
    FastOptions {
        log_blocks: 1,
        capacity: LogicalCapacity::SpareBlocks(6),
        sector_size: SECTOR_SIZE,
        ..FastOptions::default()
    }
}

/// The chip as the type that the layers of stacks use, so that no layer is compiled for another
/// type.
pub(crate) fn any(chip: &ChipHandle) -> StatsFlash<Box<dyn EmulatedChip>> {
    StatsFlash::new(Box::new(chip.clone()))
}

/// Finds the layer on the chip. Changes by its recovery remain on the chip in memory.
pub(crate) fn layer_on(chip: &ChipHandle, clock: &Clock) -> Layer {
    let context = Context::at(clock.now());
    // The journal of page-map is proof; the other layers are recognised by the tags of their pages.
    // Each start of page-map replays the journal, and none has to repair anything.
    let error = match PageMapFtl::attach_at(any(chip), PageMapOptions::default(), &context) {
        Ok(_) => return Layer::Known { kind: "page-map", clean: true },
        Err(error) => error,
    };
    if PageMapFtl::has_journal(&any(chip), &context) {
        return Layer::Unknown(error.detail);
    }
    let error = match BlockMapFtl::attach_at(any(chip), block_map_options(), &context) {
        Ok(ftl) if ftl.attach_report().empty => return Layer::None,
        Ok(ftl) => return Layer::Known { kind: "block-map", clean: ftl.attach_report().clean },
        Err(error) => error,
    };
    match FastFtl::attach_at(any(chip), fast_options(), &context) {
        Ok(ftl) => Layer::Known { kind: "fast", clean: ftl.attach_report().clean },
        Err(_) => Layer::Unknown(error.detail),
    }
}

/// The format of a volume on the bare flash, if there is one.
pub(crate) fn format_on(chip: &dyn EmulatedChip, clock: &Clock) -> Option<&'static dyn Format> {
    let context = Context::at(clock.now());
    FORMATS.iter().copied().find(|format| format.is_on_chip(chip, &context))
}

/// The layer or file system that wrote a chip, and may therefore continue to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChipOwner {
    /// Unknown: the chip is empty, or holds data that nothing can open.
    Nobody,
    /// A translation layer, by its name in specs.
    Layer(&'static str),
    /// A file system on the bare flash, by its name.
    Volume(&'static str),
}

impl ChipOwner {
    fn told(&self) -> String {
        match self {
            Self::Nobody => "nobody".to_owned(),
            Self::Layer(name) => format!("the translation layer {name}"),
            Self::Volume(name) => format!("{name} on the bare flash"),
        }
    }
}

/// Finds who wrote the chip in a file. The file does not change. Errors: the file holds no chip, or
/// a damaged one. Cost: the chip is loaded, and its layer recovered in memory.
pub fn chip_owner(path: &Path) -> Result<ChipOwner, StackError> {
    let (_, _, chip) = chip_file::look(path)?;
    let clock = clock_at(chip.last_instant().get());
    if let Some(format) = format_on(&*chip, &clock) {
        return Ok(ChipOwner::Volume(format.name()));
    }
    let chip = ChipHandle::new(chip);
    // A journal proves its layer even if damage keeps it from being opened.
    if PageMapFtl::has_journal(&any(&chip), &Context::at(clock.now())) {
        return Ok(ChipOwner::Layer("page-map"));
    }
    Ok(match layer_on(&chip, &clock) {
        Layer::Known { kind, .. } => ChipOwner::Layer(kind),
        Layer::None | Layer::Unknown(_) => ChipOwner::Nobody,
    })
}

/// Refuses a layer, or for `None` a file system on bare flash, on a chip that another one wrote. A
/// missing file is accepted.
pub(crate) fn check_owner(path: &Path, layer: Option<&FtlSpec>) -> Result<(), StackError> {
    if !path.exists() {
        return Ok(());
    }
    let owner = chip_owner(path)?;
    let is_own = match (&owner, layer) {
        (ChipOwner::Nobody, _) | (ChipOwner::Volume(_), None) => true,
        (ChipOwner::Layer(found), Some(layer)) => *found == layer.name(),
        _ => false,
    };
    if is_own {
        return Ok(());
    }
    let wanted = layer.map_or("a file system on the bare flash", FtlSpec::name);
    let detail = format!(
        "the chip in {} was written by {}; {wanted} would erase its data; expected the writer of the chip, or another file",
        path.display(),
        owner.told()
    );
    Err(StackError::new(if layer.is_some() { "stack.ftl" } else { "stack.fs" }, detail))
}
