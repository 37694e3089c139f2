//! JFFS2 on a chip: made on a new one, mounted where it is there already.

use std::path::Path;
use std::sync::{Arc, Mutex};

use nandkit_cleaning::victim::Rule;
use nandkit_codec::compression::Compression;
use nandkit_flash::wrap::StatsFlash;
use nandkit_flash::{Flash, PageProgram, PageRead, Result as FlashResult};
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::write::{CompressionMode, Draws, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_nand_sim::{ChipSpec, ContentStore, DescribedStore, NandChip, Store};
use nandkit_units::{BlockIndex, Clock, Context, Done, FlashGeometry, Nanos, PageAddress};
use nandkit_vfs::{FileSystem, FsError};

use crate::chip_file::{self, FileChip};
use crate::device_handle::lock;
use crate::frame::{Frame, Keeping};
use crate::in_directory::for_next_run;
use crate::mounted::MountedFileSystem;
use crate::{CompressionName, DeviceSpec, DrawsName, EndianName, Jffs2Spec, StackError, StackSpec, StoreKind};

fn wrong(error: FsError) -> StackError {
    StackError::new("stack.fs", error.to_string())
}

/// The device of a stack with JFFS2 on it.
pub(crate) fn mount_jffs2(
    stack: &StackSpec,
    spec: &Jffs2Spec,
    seed: u64,
    frame: &mut Frame,
) -> Result<Box<dyn MountedFileSystem>, StackError> {
    let (store, chip, file) = match &stack.device {
        DeviceSpec::Chip { store, chip, file, .. } => (*store, chip, file),
        _ => return Err(StackError::new("stack.device", "JFFS2 works on flash; expected a chip")),
    };
    let mut options = mount_options(spec, seed)?;
    if chip.rules.partial_programs < 2 {
        // A cleanmarker would be the one program that the part allows for a block's first page. Linux mounts JFFS2 on no such part (its MTD type is MLC); here it does without.
        options.cleanmarker = Some(Cleanmarker::None);
    }
    let found = match (frame.given.take(), file) {
        (Some(chip), _) => Some((chip, chip_file::NewFile::default())),
        (None, Some(file)) => Some(chip_file::open_or_create(Path::new(file), chip, store, seed, frame.keep)?),
        (None, None) => None,
    };
    if let Some((chip, new_file)) = found {
        frame.clock.advance_to(chip.last_instant());
        frame.started = frame.clock.now();
        frame.watch_dies(chip.queue_statistics());
        let chip = Handle::new(chip);
        let closing = chip.clone();
        let closing = Box::new(move |_: &Clock| closing.save());
        frame.keeping = Some(Keeping { closing, new_file });
        return mounted(chip, options, frame);
    }
    match store {
        StoreKind::Content => in_memory::<ContentStore>(chip, seed, options, frame),
        StoreKind::Described => in_memory::<DescribedStore>(chip, seed, options, frame),
        StoreKind::Shadow | StoreKind::Address => {
            Err(StackError::new("stack.device.store", "JFFS2 needs the content of its nodes"))
        }
    }
}

fn in_memory<S: Store + 'static>(
    chip: &ChipSpec,
    seed: u64,
    options: MountOptions,
    frame: &mut Frame,
) -> Result<Box<dyn MountedFileSystem>, StackError> {
    let chip = NandChip::<S>::new(chip, seed);
    let chip = chip.map_err(|error| StackError::new("stack.device", error.to_string()))?;
    frame.watch_dies(chip.queue_statistics());
    mounted(chip, options, frame)
}

/// Formats or mounts, and leaves the counters with the frame. A further run on a volume works in a directory of its own, since workloads expect an empty one.
fn mounted<F: Flash + 'static>(
    flash: F,
    options: MountOptions,
    frame: &mut Frame,
) -> Result<Box<dyn MountedFileSystem>, StackError> {
    let at_root = frame.expected.is_some();
    let Frame { clock, watched, keeping, .. } = &mut *frame;
    let flash = StatsFlash::new(flash);
    watched.flash = Some(Arc::clone(flash.counters()));
    let is_there = keeping.is_some() && !is_blank(&flash, clock)?;
    frame.expect(is_there)?;
    let Frame { clock, watched, .. } = frame;
    let fs = match is_there {
        true => Jffs2::mount(flash, clock.clone(), options),
        false => Jffs2::format(flash, clock.clone(), options),
    };
    let fs = fs.map_err(wrong)?;
    watched.layers.push(("fs".to_string(), fs.statistics()));
    if is_there && !at_root { for_next_run(fs).map_err(wrong) } else { Ok(Box::new(fs)) }
}

/// Whether the first page of no block is programmed, its OOB included: what is there and is no JFFS2 may be somebody's data.
fn is_blank<F: Flash>(flash: &F, clock: &Clock) -> Result<bool, StackError> {
    let geometry = *flash.geometry();
    let (mut page, mut oob) = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
    for block in (0..geometry.blocks).map(BlockIndex).filter(|block| !flash.is_bad(*block)) {
        let read = PageRead { oob: &mut oob, ..PageRead::bytes(0, &mut page) };
        match flash.read(&Context::at(clock.now()), block.page(0), read) {
            Ok(done) => clock.advance_to(done.completed),
            // What cannot be read was written.
            Err(error) if error.kind == nandkit_flash::ErrorKind::Uncorrectable => return Ok(false),
            Err(error) => return Err(StackError::new("stack.fs", format!("cannot read the first pages: {error}"))),
        }
        if page.iter().chain(&oob).any(|byte| *byte != 0xFF) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn mount_options(spec: &Jffs2Spec, seed: u64) -> Result<MountOptions, StackError> {
    let wrong = |detail: String| StackError::new("stack.fs", detail);
    let policy = spec.policy().map_err(wrong)?;
    let order = match spec.endian {
        EndianName::Little => ByteOrder::Little,
        EndianName::Big => ByteOrder::Big,
    };
    Ok(MountOptions {
        order: Some(order),
        write: WriteOptions {
            compression: match spec.compression {
                CompressionName::None => CompressionMode::None,
                CompressionName::Priority => CompressionMode::Priority,
                CompressionName::Size => CompressionMode::Size,
                CompressionName::Zlib => CompressionMode::Only(Compression::Zlib),
                CompressionName::Lzo => CompressionMode::Only(Compression::Lzo),
                CompressionName::Rtime => CompressionMode::Only(Compression::Rtime),
            },
            summaries: spec.summaries,
            policy,
            draws: match (spec.draws, policy.rule) {
                (DrawsName::Auto, Rule::Linux) | (DrawsName::Ticks, _) => {
                    Draws::Ticks(Nanos::from_millis(spec.tick_ms))
                }
                _ => Draws::Independent,
            },
            separation: spec.separation().map_err(wrong)?,
            seed,
            background: (spec.background_ms > 0).then_some(Nanos::from_millis(spec.background_ms)),
            ..WriteOptions::default()
        },
        ..MountOptions::default()
    })
}

impl<F: Flash> MountedFileSystem for Jffs2<F> {
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        match self.changes() {
            Some(changes) => changes.sync(None),
            None => Ok(()),
        }
    }
}

/// A chip in a file that its stack brings there at the end. What the file system syncs stays in memory until then, so that a run that is given up leaves the file as it was.
#[derive(Clone)]
struct Handle {
    geometry: FlashGeometry,
    chip: Arc<Mutex<Box<dyn FileChip>>>,
}

impl Handle {
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

impl Flash for Handle {
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
