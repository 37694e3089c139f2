//! Who wrote the chip that a file holds: no translation layer and no file system works on what
//! another one wrote.

use std::path::Path;

use nandkit_ftl::PageMapFtl;
use nandkit_units::Context;

use super::chip::{Layer, any, format_on, layer_on};
use crate::chip_file;
use crate::chip_handle::ChipHandle;
use crate::format::clock_at;
use crate::{FtlSpec, StackError};

/// Who wrote a chip, as far as that decides who may go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChipOwner {
    /// Nobody is known: the chip is empty, or holds what nobody opens.
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

/// Who wrote the chip in a file. The file stays as it is. Errors: the file holds no chip, or a
/// damaged one. Cost: the chip is loaded, and its layer recovered in memory.
pub fn chip_owner(path: &Path) -> Result<ChipOwner, StackError> {
    let (_, _, chip) = chip_file::look(path)?;
    let clock = clock_at(chip.last_instant().get());
    if let Some(format) = format_on(&*chip, &clock) {
        return Ok(ChipOwner::Volume(format.name()));
    }
    let chip = ChipHandle::new(chip);
    // A journal is proof of its layer, also where a damage keeps it from being opened.
    if PageMapFtl::has_journal(&any(&chip), &Context::at(clock.now())) {
        return Ok(ChipOwner::Layer("page-map"));
    }
    Ok(match layer_on(&chip, &clock) {
        Layer::Known { kind, .. } => ChipOwner::Layer(kind),
        Layer::None | Layer::Unknown(_) => ChipOwner::Nobody,
    })
}

/// Refuses a layer, or with `None` a file system on the bare flash, on a chip that another one wrote.
/// A file that does not exist yet is nobody's.
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
        "the chip in {} was written by {}, and {wanted} is to use it, which would erase what is there; expected the one that wrote it, or another file",
        path.display(),
        owner.told()
    );
    Err(StackError::new(if layer.is_some() { "stack.ftl" } else { "stack.fs" }, detail))
}
