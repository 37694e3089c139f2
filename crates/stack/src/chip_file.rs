//! A chip that is kept in a file between runs.
//!
//! The file of an experiment changes once, at the orderly end of a run: all pages that the run
//! changed, in one atomic flush. A run that fails or is stopped leaves it as it was; to the chip it
//! is as if the run had never been. What is served to others changes with each of their flushes
//! ([`Keep`]).

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
/// Bytes of a sector of the file that holds a chip.
const SECTOR_SIZE: u32 = 4096;
/// How many differing figures a message names.
const DIFFERENCES_SHOWN: usize = 4;

/// An emulated chip in memory or in a file, of any store.
pub trait EmulatedChip: Flash {
    /// Brings everything that changed to the file; of a chip in memory nothing is kept.
    fn save(&mut self) -> FlashResult<Done>;
    /// When its last operation ended.
    fn last_instant(&self) -> Nanos;
    /// The chip's seed.
    fn seed(&self) -> u64;
    /// The erase count of every block.
    fn erase_counts(&self) -> Vec<u32>;
    /// How many blocks are bad.
    fn bad_blocks(&self) -> u32;
    /// How many pages are programmed.
    fn programmed_pages(&self) -> u64;
    /// What reads moved of other operations, where they go before them.
    fn queue_statistics(&self) -> Option<Arc<QueueStatistics>>;
}

/// When a chip's file follows the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// At the orderly end of the stack, in one step: whatever fails before leaves the file as it
    /// was, and a new one is not made. For experiments.
    #[default]
    AtEnd,
    /// With each sync of the layers above, in a time that what changed decides and not the size of
    /// the chip; a new file has its name from the start. For devices whose users trust in flushes.
    AtSync,
}

struct ChipInFile<S> {
    chip: ChipImage<S, JournalledFile>,
    keep: Keep,
}

/// A chip in memory: nothing of it outlives the run.
impl<S: Store> EmulatedChip for NandChip<S> {
    fn save(&mut self) -> FlashResult<Done> {
        Ok(Done::immediately(&Context::default()))
    }

    /// The clock is its stack's: the chip was made with it.
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

    /// At [`Keep::AtEnd`] nothing: to the layers above the chip is the medium, and the file follows
    /// with [`EmulatedChip::save`]. A file system syncs thousands of times in a run, and each would
    /// cost the host two flushes of its disk.
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

/// A new file under a temporary name in the folder of its own, which it gets once it is complete.
/// Until then it goes again: what failed leaves nothing behind, and what was killed leaves nothing
/// that could be taken for a chip.
#[derive(Debug, Default)]
pub(crate) struct NewFile(Option<Unfinished>);

#[derive(Clone, Debug)]
struct Unfinished {
    temporary: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Gives the file its name now where it is not to wait for the end.
    pub(crate) fn named(self, keep: Keep) -> Result<Self, StackError> {
        match keep {
            Keep::AtEnd => Ok(self),
            Keep::AtSync => self.keep().map(|()| Self::default()),
        }
    }

    /// Gives the file its name.
    pub(crate) fn keep(mut self) -> Result<(), StackError> {
        let Some(Unfinished { temporary, path }) = self.0.clone() else { return Ok(()) };
        let (temporary, path) = (&*temporary, &*path);
        // Another process may have made one meanwhile.
        if is_there(path) {
            return Err(wrong(path, "the file was made by somebody else during the run; expected that there is none"));
        }
        fs::rename(temporary, path)
            .map_err(|error| wrong(path, format!("cannot rename {} to it: {error}", temporary.display())))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.0 = None;
        // The name outlives a crash of the host before anything is said to be durable.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| wrong(path, format!("cannot make its name durable: {error}")))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.0 {
            // There is nobody left to tell; the file holds a chip that was never used.
            let _ = fs::remove_file(&unfinished.temporary);
        }
    }
}

/// Whether the name is taken, be it by a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The name that a file has until it is complete.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    PathBuf::from(name)
}

/// Removes what a killed process has left under the temporary name. One that is at work holds a
/// lock on it.
fn remove_leftover(temporary: &Path) -> Result<(), StackError> {
    if !temporary.try_exists().unwrap_or(false) {
        return Ok(());
    }
    let found = beginning(temporary, MAGIC.len() as u64)?;
    if !found.is_empty() && !is_device_file(&found) {
        let detail = "the chip is made under this name first, and here is another file; expected that there is none";
        return Err(wrong(temporary, detail));
    }
    // A file that is too damaged to be opened is in nobody's use.
    match JournalledFile::open(temporary, Access::ReadWrite) {
        Err(error) if error.kind == ErrorKind::Io => return Err(refused(temporary, &error)),
        _ => {}
    }
    fs::remove_file(temporary).map_err(|error| wrong(temporary, format!("cannot remove the old file: {error}")))
}

fn wrong(path: &Path, detail: impl std::fmt::Display) -> StackError {
    StackError::new("stack.device.file", format!("{}: {detail}", path.display()))
}

/// The message of a block device's refusal, which may hold the path already.
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
        return Err(wrong(path, "this is no plain file; expected the path of one"));
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
            format!("the file begins with \"{shown}\", expected \"NANDKJRN\": a chip that nandkit has put there"),
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

/// Chips that keep addresses only are neither made in files nor opened from them.
fn in_memory_only(path: &Path) -> StackError {
    wrong(path, "its store keeps addresses only: such chips are in memory only; expected content, described or shadow")
}

fn spec_in(path: &Path, header: &Header) -> Result<ChipSpec, StackError> {
    let mut spec = ChipSpec::from_toml(&header.spec).map_err(|error| wrong(path, error))?;
    spec.sources.clear();
    Ok(spec)
}

/// The chip that a file holds, and its store.
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

/// The figures of a chip by name; what it is called is none of them.
fn figures(chip: &ChipSpec) -> Vec<(String, String)> {
    let plain = ChipSpec { name: String::new(), title: String::new(), sources: Default::default(), ..chip.clone() };
    let mut figures = Vec::new();
    if let Ok(table) = Table::try_from(&plain) {
        flatten(&mut figures, "", &table);
    }
    figures
}

/// Refuses another chip or store than the one asked for, naming the first differences.
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
        "the file holds another chip: {}{more}; expected the same, another file, or no device but the file",
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

/// Opens the chip of a file for looking at it: nothing reaches the file, whatever is done with the
/// chip.
pub(crate) fn look(path: &Path) -> Result<(ChipSpec, StoreKind, Box<dyn EmulatedChip>), StackError> {
    let file = open_file(path, Access::ReadOnly)?;
    let header = header(path, &file)?;
    let (spec, store) = (spec_in(path, &header)?, store_of(path, &header)?);
    Ok((spec, store, load(path, file, store, Keep::AtEnd)?))
}

/// Opens the chip of a file, which must be this one, or makes it with this seed where there is no
/// such file.
pub(crate) fn open_or_create(
    path: &Path,
    chip: &ChipSpec,
    store: StoreKind,
    seed: u64,
    keep: Keep,
) -> Result<(Box<dyn EmulatedChip>, NewFile), StackError> {
    match path.try_exists() {
        Ok(true) => {
            // A reader's look comes first, so that a file that cannot be used is not changed by
            // being opened.
            let (found, found_store) = spec_of(path)?;
            check_same(path, (&found, found_store), (chip, store))?;
            let file = open_file(path, Access::ReadWrite)?;
            Ok((load(path, file, store, keep)?, NewFile::default()))
        }
        Ok(false) if is_there(path) => Err(wrong(
            path,
            "a symbolic link to a file that does not exist; expected a chip's file, or nothing of this name",
        )),
        Ok(false) => create(path, chip, store, seed, keep),
        Err(error) => Err(wrong(path, format!("cannot tell whether there is such a file: {error}"))),
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
