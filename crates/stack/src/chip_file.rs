//! Emulated chips saved in files.
//!
//! The file of an experiment changes once, at the orderly end of a run: one atomic flush writes all
//! pages that the run changed. A run that fails or is stopped leaves the file unchanged. The file
//! of a served device changes with each flush of a client ([`Keep`]).

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nandkit_block::{Access, BlockDevice, BlockError, BlockGeometry, ErrorKind, JournalledFile};
use nandkit_flash::{Copyback, Flash, PageProgram, PageRead, Result as FlashResult};
use nandkit_nand_sim::image::layout::{HEADER_BYTES, Header};
use nandkit_nand_sim::{
    ChipImage, ChipSpec, ContentStore, DescribedStore, ImageError, NandChip, QueueStatistics, ShadowStore, Store,
};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Lba, Nanos, PageAddress, ReadInto};
use toml::{Table, Value};

use crate::{StackError, StoreKind};

/// The first bytes of a journalled file.
const MAGIC: &[u8; 8] = b"NANDKJRN";
/// Sector size of the file that holds a chip, in bytes.
const SECTOR_SIZE: u32 = 4096;
/// Largest number of differing figures that a message names.
const DIFFERENCES_SHOWN: usize = 4;

/// An emulated chip with any store, in memory or in a file.
pub trait EmulatedChip: Flash {
    /// Writes all changes to the file; for a chip in memory it does nothing.
    fn save(&mut self) -> FlashResult<Done>;
    /// The simulated instant at which its last operation ended.
    fn last_instant(&self) -> Nanos;
    /// The chip's seed.
    fn seed(&self) -> u64;
    /// The erase counts of all blocks.
    fn erase_counts(&self) -> Vec<u32>;
    /// The number of bad blocks.
    fn bad_blocks(&self) -> u32;
    /// The number of programmed pages.
    fn programmed_pages(&self) -> u64;
    /// Statistics of operations that reads overtook; `None` unless reads have priority.
    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>>;
}

/// When changes of a chip are written to its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// At the orderly end of the stack, in one step. After an earlier failure the file is
    /// unchanged, and a new one is not created. For experiments.
    #[default]
    AtEnd,
    /// With each sync of the layers above, in a time that depends on the changes and not on the
    /// size of the chip. A new file has its name from the start. For devices whose users rely on
    /// flushes.
    AtSync,
}

struct ChipInFile<S> {
    chip: ChipImage<S, JournalledFile>,
    keep: Keep,
}

/// A chip in memory, which is lost at the end of the run.
impl<S: Store> EmulatedChip for NandChip<S> {
    fn save(&mut self) -> FlashResult<Done> {
        Ok(Done::immediately(&Context::default()))
    }

    /// Zero: the chip was made together with the clock of its stack.
    fn last_instant(&self) -> Nanos {
        Nanos::ZERO
    }

    fn seed(&self) -> u64 {
        NandChip::seed(self)
    }

    fn erase_counts(&self) -> Vec<u32> {
        NandChip::erase_counts(self).collect()
    }

    fn bad_blocks(&self) -> u32 {
        (0..self.geometry().blocks).filter(|block| self.is_bad(BlockIndex(*block))).count() as u32
    }

    fn programmed_pages(&self) -> u64 {
        let geometry = *self.geometry();
        let of_block = |block: u32| {
            let pages = (0..geometry.pages_per_block).map(move |page| BlockIndex(block).page(page));
            pages.filter(|at| self.is_programmed(*at)).count() as u64
        };
        (0..geometry.blocks).map(of_block).sum()
    }

    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        NandChip::queue_statistics(self)
    }
}

impl<S: Store> EmulatedChip for ChipInFile<S> {
    fn save(&mut self) -> FlashResult<Done> {
        self.chip.sync(&Context::default())
    }

    fn last_instant(&self) -> Nanos {
        self.chip.last_instant()
    }

    fn seed(&self) -> u64 {
        self.chip.chip().seed()
    }

    fn erase_counts(&self) -> Vec<u32> {
        EmulatedChip::erase_counts(self.chip.chip())
    }

    fn bad_blocks(&self) -> u32 {
        self.chip.chip().bad_blocks()
    }

    fn programmed_pages(&self) -> u64 {
        self.chip.chip().programmed_pages()
    }

    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>> {
        self.chip.chip().queue_statistics()
    }
}

impl<S: Store> Flash for ChipInFile<S> {
    fn geometry(&self) -> &FlashGeometry {
        self.chip.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> FlashResult<Done> {
        self.chip.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> FlashResult<Done> {
        self.chip.program(context, at, program)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> FlashResult<Done> {
        self.chip.erase(context, block)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> FlashResult<Done> {
        self.chip.mark_bad(context, block)
    }

    /// Writes the file at [`Keep::AtSync`] and does nothing at [`Keep::AtEnd`], where
    /// [`EmulatedChip::save`] writes it. A file system syncs thousands of times in a run, and each
    /// sync would cost the host two flushes of its disk.
    fn sync(&mut self, context: &Context) -> FlashResult<Done> {
        match self.keep {
            Keep::AtEnd => Ok(Done::immediately(context)),
            Keep::AtSync => self.chip.sync(context),
        }
    }

    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        self.chip.copyback()
    }

    fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
        self.chip.pacing()
    }
}

/// A new file under a temporary name in its folder; it gets its own name once it is complete.
/// Dropped before that, it is removed: a failed run leaves nothing behind, and a killed one leaves
/// no file that could be taken for a chip.
#[derive(Debug, Default)]
pub(crate) struct NewFile(Option<Unfinished>);

#[derive(Clone, Debug)]
struct Unfinished {
    temporary: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Gives the file its name now at [`Keep::AtSync`].
    pub(crate) fn named(self, keep: Keep) -> Result<Self, StackError> {
        match keep {
            Keep::AtEnd => Ok(self),
            Keep::AtSync => self.keep().map(|()| Self::default()),
        }
    }

    /// Gives the file its final name.
    pub(crate) fn keep(mut self) -> Result<(), StackError> {
        let Some(Unfinished { temporary, path }) = self.0.clone() else { return Ok(()) };
        let (temporary, path) = (&*temporary, &*path);
        // Another process may have made such a file meanwhile.
        if is_there(path) {
            return Err(wrong(path, "another process made this file during the run; expected a path without a file"));
        }
        fs::rename(temporary, path)
            .map_err(|error| wrong(path, format!("cannot rename {} to it: {error}", temporary.display())))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.0 = None;
        // Make the name durable before any data is reported as durable.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| wrong(path, format!("cannot make its name durable: {error}")))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.0 {
            // An error cannot be reported any more; the file holds a chip that was never used.
            let _ = fs::remove_file(&unfinished.temporary);
        }
    }
}

/// Whether the name is taken, also by a dangling link.
fn is_there(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The temporary name of a file that is not complete.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    PathBuf::from(name)
}

/// Removes a temporary file left by a killed process. A running process holds a lock on its file.
fn remove_leftover(temporary: &Path) -> Result<(), StackError> {
    if !temporary.try_exists().unwrap_or(false) {
        return Ok(());
    }
    let found = beginning(temporary, MAGIC.len() as u64)?;
    if !found.is_empty() && !is_device_file(&found) {
        let detail =
            "nandkit needs this name for a temporary file, and another file has it; expected no file of this name";
        return Err(wrong(temporary, detail));
    }
    // A file that is too damaged to be opened is not in use.
    match JournalledFile::open(temporary, Access::ReadWrite) {
        Err(error) if error.kind == ErrorKind::Io => return Err(refused(temporary, &error)),
        _ => {}
    }
    fs::remove_file(temporary).map_err(|error| wrong(temporary, format!("cannot remove the old file: {error}")))
}

fn wrong(path: &Path, detail: impl std::fmt::Display) -> StackError {
    StackError::new("stack.device.file", format!("{}: {detail}", path.display()))
}

/// The error of a block device, whose message may already hold the path.
fn refused(path: &Path, error: &BlockError) -> StackError {
    let source = error.source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    let shown = path.display().to_string();
    let detail = format!("{}{source}", error.detail);
    if detail.contains(&shown) { StackError::new("stack.device.file", detail) } else { wrong(path, detail) }
}

fn unusable(path: &Path, error: &ImageError) -> StackError {
    match error.damaged_at() {
        Some(offset) => wrong(path, format!("{error} (at byte {} of the file)", JournalledFile::SECTORS_AT + offset)),
        None => wrong(path, error),
    }
}

/// The first bytes of a plain file.
pub(crate) fn beginning(path: &Path, bytes: u64) -> Result<Vec<u8>, StackError> {
    let unreadable = |error| wrong(path, format!("cannot read the file: {error}"));
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(wrong(path, "this is not a regular file; expected the path of a regular file"));
    }
    let mut found = Vec::new();
    File::open(path).and_then(|file| file.take(bytes).read_to_end(&mut found)).map_err(unreadable)?;
    Ok(found)
}

/// Whether these are the first bytes of a file that may hold a chip.
pub(crate) fn is_device_file(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

fn open_file(path: &Path, access: Access) -> Result<JournalledFile, StackError> {
    let found = beginning(path, MAGIC.len() as u64)?;
    if !is_device_file(&found) {
        let shown = found.escape_ascii();
        return Err(wrong(
            path,
            format!("the file begins with \"{shown}\"; expected \"NANDKJRN\", a chip saved by nandkit"),
        ));
    }
    JournalledFile::open(path, access).map_err(|error| refused(path, &error))
}

fn header(path: &Path, file: &JournalledFile) -> Result<Header, StackError> {
    let capacity = file.geometry().capacity();
    let mut bytes = vec![0; HEADER_BYTES];
    if !bytes.len().is_multiple_of(file.geometry().sector_size as usize) || capacity < HEADER_BYTES as u64 {
        return Err(wrong(path, format!("the device in the file has {capacity} bytes, expected those of a chip")));
    }
    file.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).map_err(|error| refused(path, &error))?;
    Header::decode(&bytes).map_err(|error| unusable(path, &error))
}

fn store_of(path: &Path, header: &Header) -> Result<StoreKind, StackError> {
    match header.kind {
        nandkit_nand_sim::StoreKind::Content => Ok(StoreKind::Content),
        nandkit_nand_sim::StoreKind::Described => Ok(StoreKind::Described),
        nandkit_nand_sim::StoreKind::Shadow => Ok(StoreKind::Shadow),
        nandkit_nand_sim::StoreKind::Address => Err(in_memory_only(path)),
    }
}

/// The error for a chip with the address store, which cannot be in a file.
fn in_memory_only(path: &Path) -> StackError {
    wrong(path, "its store keeps addresses only: such chips are in memory only; expected content, described or shadow")
}

fn spec_in(path: &Path, header: &Header) -> Result<ChipSpec, StackError> {
    let mut spec = ChipSpec::from_toml(&header.spec).map_err(|error| wrong(path, error))?;
    spec.sources.clear();
    Ok(spec)
}

/// Reads the spec and the store of the chip in a file.
pub(crate) fn spec_of(path: &Path) -> Result<(ChipSpec, StoreKind), StackError> {
    let file = open_file(path, Access::ReadOnly)?;
    let header = header(path, &file)?;
    Ok((spec_in(path, &header)?, store_of(path, &header)?))
}

fn flatten(into: &mut Vec<(String, String)>, prefix: &str, table: &Table) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => flatten(into, &path, inner),
            other => into.push((path, other.to_string())),
        }
    }
}

/// The figures of a chip by name, without its name and texts.
fn figures(chip: &ChipSpec) -> Vec<(String, String)> {
    let plain = ChipSpec { name: String::new(), title: String::new(), sources: Default::default(), ..chip.clone() };
    let mut figures = Vec::new();
    if let Ok(table) = Table::try_from(&plain) {
        flatten(&mut figures, "", &table);
    }
    figures
}

/// Refuses a chip or store that differs from the requested one; the message names the first
/// differences.
fn check_same(path: &Path, found: (&ChipSpec, StoreKind), asked: (&ChipSpec, StoreKind)) -> Result<(), StackError> {
    let mut differences = Vec::new();
    if found.1 != asked.1 {
        differences.push(format!("store is {}, asked for {}", found.1.name(), asked.1.name()));
    }
    let (in_file, wanted) = (figures(found.0), figures(asked.0));
    for (key, value) in &in_file {
        match wanted.iter().find(|(name, _)| name == key) {
            Some((_, other)) if other == value => {}
            Some((_, other)) => differences.push(format!("{key} is {value}, asked for {other}")),
            None => differences.push(format!("{key} is {value}, asked for none")),
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    let more = differences.len().saturating_sub(DIFFERENCES_SHOWN);
    differences.truncate(DIFFERENCES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let detail = format!(
        "the file holds another chip: {}{more}; expected the same chip, another file, or only the file without a device",
        differences.join(", ")
    );
    Err(wrong(path, detail))
}

fn boxed<S: Store + 'static>(
    image: Result<ChipImage<S, JournalledFile>, ImageError>,
    keep: Keep,
) -> Result<Box<dyn EmulatedChip>, ImageError> {
    image.map(|chip| Box::new(ChipInFile { chip, keep }) as Box<dyn EmulatedChip>)
}

fn load(path: &Path, file: JournalledFile, store: StoreKind, keep: Keep) -> Result<Box<dyn EmulatedChip>, StackError> {
    let context = Context::default();
    let chip = match store {
        StoreKind::Content => boxed(ChipImage::<ContentStore, _>::open(file, &context), keep),
        StoreKind::Described => boxed(ChipImage::<DescribedStore, _>::open(file, &context), keep),
        StoreKind::Shadow => boxed(ChipImage::<ShadowStore, _>::open(file, &context), keep),
        StoreKind::Address => return Err(in_memory_only(path)),
    };
    chip.map_err(|error| unusable(path, &error))
}

/// Opens the chip of a file for inspection; changes of the chip never reach the file.
pub(crate) fn look(path: &Path) -> Result<(ChipSpec, StoreKind, Box<dyn EmulatedChip>), StackError> {
    let file = open_file(path, Access::ReadOnly)?;
    let header = header(path, &file)?;
    let (spec, store) = (spec_in(path, &header)?, store_of(path, &header)?);
    Ok((spec, store, load(path, file, store, Keep::AtEnd)?))
}

/// Opens the chip of a file, which must have this spec, or makes a new file with this spec and
/// seed.
pub(crate) fn open_or_create(
    path: &Path,
    chip: &ChipSpec,
    store: StoreKind,
    seed: u64,
    keep: Keep,
) -> Result<(Box<dyn EmulatedChip>, NewFile), StackError> {
    match path.try_exists() {
        Ok(true) => {
            // Read the spec first, so that opening does not change an unusable file.
            let (found, found_store) = spec_of(path)?;
            check_same(path, (&found, found_store), (chip, store))?;
            let file = open_file(path, Access::ReadWrite)?;
            Ok((load(path, file, store, keep)?, NewFile::default()))
        }
        Ok(false) if is_there(path) => {
            Err(wrong(path, "this is a symbolic link to a missing file; expected a chip's file, or an unused name"))
        }
        Ok(false) => create(path, chip, store, seed, keep),
        Err(error) => Err(wrong(path, format!("cannot tell whether the file exists: {error}"))),
    }
}

fn create(
    path: &Path,
    chip: &ChipSpec,
    store: StoreKind,
    seed: u64,
    keep: Keep,
) -> Result<(Box<dyn EmulatedChip>, NewFile), StackError> {
    let context = Context::default();
    let bytes = match store {
        StoreKind::Content => ChipImage::<ContentStore, JournalledFile>::required_bytes(chip),
        StoreKind::Described => ChipImage::<DescribedStore, JournalledFile>::required_bytes(chip),
        StoreKind::Shadow => ChipImage::<ShadowStore, JournalledFile>::required_bytes(chip),
        StoreKind::Address => return Err(in_memory_only(path)),
    };
    let bytes = bytes.map_err(|error| unusable(path, &error))?;
    let sectors = bytes.div_ceil(u64::from(SECTOR_SIZE));
    let geometry = BlockGeometry { sector_size: SECTOR_SIZE, sectors, preferred_size: SECTOR_SIZE, recycling_size: 0 };
    let temporary = temporary_name(path);
    remove_leftover(&temporary)?;
    let file = JournalledFile::create(&temporary, geometry).map_err(|error| refused(path, &error))?;
    let new = NewFile(Some(Unfinished { temporary, path: path.to_path_buf() }));
    let chip = match store {
        StoreKind::Content => boxed(ChipImage::<ContentStore, _>::create(file, chip, seed, &context), keep),
        StoreKind::Described => boxed(ChipImage::<DescribedStore, _>::create(file, chip, seed, &context), keep),
        StoreKind::Shadow => boxed(ChipImage::<ShadowStore, _>::create(file, chip, seed, &context), keep),
        StoreKind::Address => return Err(in_memory_only(path)),
    };
    Ok((chip.map_err(|error| unusable(path, &error))?, new))
}
