//! The chip of a stack with a file system on bare flash.

use std::path::Path;
use std::sync::Arc;

use nandkit_flash::Flash;
use nandkit_flash::wrap::StatsFlash;
use nandkit_nand_sim::{ChipSpec, ContentStore, DescribedStore, NandChip, Store};
use nandkit_units::Clock;

use crate::chip_file::{self, EmulatedChip};
use crate::chip_handle::ChipHandle;
use crate::chip_layer::check_owner;
use crate::format::emulate::WatchedFlash;
use crate::frame::{Frame, Keeping};
use crate::tap::tapped;
use crate::{DeviceSpec, StackError, StackSpec, StoreKind};

/// The chip: a given one, one in a file, or a new one in memory.
pub(crate) fn flash_stack(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<WatchedFlash, StackError> {
    let (store, chip, file) = match &spec.device {
        DeviceSpec::Chip { store, chip, file, .. } => (*store, chip, file),
        _ => return Err(StackError::new("stack.device", "this file system works on bare flash; expected a chip")),
    };
    let flash = match (frame.given.take(), file) {
        (Some(chip), _) => in_file(chip, chip_file::NewFile::default(), frame),
        (None, Some(file)) => {
            check_owner(Path::new(file), None)?;
            let (chip, new_file) = chip_file::open_or_create(Path::new(file), chip, store, seed, frame.keep)?;
            in_file(chip, new_file, frame)
        }
        (None, None) => match store {
            StoreKind::Content => in_memory::<ContentStore>(chip, seed, frame)?,
            StoreKind::Described => in_memory::<DescribedStore>(chip, seed, frame)?,
            StoreKind::Shadow | StoreKind::Address => {
                return Err(StackError::new("stack.device.store", "a file system needs the content of its pages"));
            }
        },
    };
    let flash = StatsFlash::new(flash);
    frame.watched.flash = Some(Arc::clone(flash.counters()));
    Ok(WatchedFlash { flash: Box::new(flash), partial_programs: chip.rules.partial_programs })
}

fn in_memory<S: Store + 'static>(chip: &ChipSpec, seed: u64, frame: &mut Frame) -> Result<Box<dyn Flash>, StackError> {
    let chip = NandChip::<S>::new(chip, seed);
    let chip = chip.map_err(|error| StackError::new("stack.device", error.to_string()))?;
    frame.watch_dies(chip.queue_statistics());
    Ok(match frame.tap.as_ref() {
        None => Box::new(chip),
        tap => Box::new(tapped(Box::new(chip), tap)),
    })
}

fn in_file(chip: Box<dyn EmulatedChip>, new_file: chip_file::NewFile, frame: &mut Frame) -> Box<dyn Flash> {
    frame.clock.advance_to(chip.last_instant());
    frame.started = frame.clock.now();
    frame.watch_dies(chip.queue_statistics());
    let chip = ChipHandle::new(tapped(chip, frame.tap.as_ref()));
    let mut kept = chip.clone();
    let closing = Box::new(move |_: &Clock| {
        let saved = kept.save().map(|_| ());
        saved.map_err(|error| StackError::new("stack.device.file", format!("cannot save the chip: {error}")))
    });
    frame.keeping = Some(Keeping { closing, new_file });
    Box::new(chip)
}
