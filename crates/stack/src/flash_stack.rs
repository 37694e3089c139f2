//! The chip of a stack with a file system on flash itself.

use std::path::Path;
use std::sync::{Arc, Mutex};

use nandkit_flash::wrap::StatsFlash;
use nandkit_flash::{Flash, PageProgram, PageRead, Result as FlashResult};
use nandkit_nand_sim::{ChipSpec, ContentStore, DescribedStore, NandChip, Store};
use nandkit_units::{BlockIndex, Clock, Context, Done, FlashGeometry, PageAddress};

use crate::chip_file::{self, FileChip};
use crate::device_handle::lock;
use crate::format::emulate::WatchedFlash;
use crate::frame::{Frame, Keeping};
use crate::{DeviceSpec, StackError, StackSpec, StoreKind};

/// The chip: a given one, one in a file, or a new one in memory.
pub(crate) fn flash_stack(spec: &StackSpec, seed: u64, frame: &mut Frame) -> Result<WatchedFlash, StackError> {
    let (store, chip, file) = match &spec.device {
        DeviceSpec::Chip { store, chip, file, .. } => (*store, chip, file),
        _ => return Err(StackError::new("stack.device", "this file system works on flash; expected a chip")),
    };
    let flash = match (frame.given.take(), file) {
        (Some(chip), _) => in_file(chip, chip_file::NewFile::default(), frame),
        (None, Some(file)) => {
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
    Ok(WatchedFlash { flash, partial_programs: chip.rules.partial_programs })
}

fn in_memory<S: Store + 'static>(chip: &ChipSpec, seed: u64, frame: &mut Frame) -> Result<Box<dyn Flash>, StackError> {
    let chip = NandChip::<S>::new(chip, seed);
    let chip = chip.map_err(|error| StackError::new("stack.device", error.to_string()))?;
    frame.watch_dies(chip.queue_statistics());
    Ok(Box::new(chip))
}

fn in_file(chip: Box<dyn FileChip>, new_file: chip_file::NewFile, frame: &mut Frame) -> Box<dyn Flash> {
    frame.clock.advance_to(chip.last_instant());
    frame.started = frame.clock.now();
    frame.watch_dies(chip.queue_statistics());
    let chip = ChipHandle::new(chip);
    let closing = chip.clone();
    frame.keeping = Some(Keeping { closing: Box::new(move |_: &Clock| closing.save()), new_file });
    Box::new(chip)
}

/// A chip in a file that its stack brings there at the end. What the file system syncs stays in
/// memory until then, so that a run that is given up leaves the file as it was.
#[derive(Clone)]
struct ChipHandle {
    geometry: FlashGeometry,
    chip: Arc<Mutex<Box<dyn FileChip>>>,
}

impl ChipHandle {
    fn new(chip: Box<dyn FileChip>) -> Self {
        Self { geometry: *chip.geometry(), chip: Arc::new(Mutex::new(chip)) }
    }

    fn save(&self) -> Result<(), StackError> {
        let saved = lock(&self.chip).save();
        saved
            .map(|_| ())
            .map_err(|error| StackError::new("stack.device.file", format!("cannot keep the chip: {error}")))
    }
}

impl Flash for ChipHandle {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> FlashResult<Done> {
        lock(&self.chip).read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> FlashResult<Done> {
        lock(&self.chip).program(context, at, program)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> FlashResult<Done> {
        lock(&self.chip).erase(context, block)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        lock(&self.chip).is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> FlashResult<Done> {
        lock(&self.chip).mark_bad(context, block)
    }

    fn sync(&mut self, context: &Context) -> FlashResult<Done> {
        lock(&self.chip).sync(context)
    }
}
