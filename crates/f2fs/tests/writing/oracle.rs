//! Volumes in memory, random operations on their files, and what may be on them after a cut or a
//! fault.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{NodeId, WritableVolume};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{AtomicWrites, Changes, ErrorKind, FileSystem, FsError, InodeNumber, NewNode, RenameFlags};

use crate::made::clock;

/// Does steps on a volume, and knows what may be there after a cut.
pub trait Oracle: Clone {
    /// Does one operation. `before` sees what is known once the operation may have happened, before
    /// the volume is asked for any change. Errors: those after which nothing more can be done.
    fn step<D: BlockDevice>(
        &mut self,
        volume: &mut WritableVolume<D>,
        random: &mut Random,
        before: &mut dyn FnMut(&Self),
    ) -> Result<()>;

    /// Fails if a cut could not have left the volume like this.
    fn judge<D: BlockDevice>(&self, volume: &WritableVolume<D>, context: &str);

    /// Takes the state that was found, after a recovery, as the only possible one.
    fn settle<D: BlockDevice>(&mut self, volume: &WritableVolume<D>);
}

pub const BLOCK: usize = 4096;
pub const SECTORS: u64 = 64 << 8;
pub const FILES: u64 = 9;
/// Files with this number or a higher one are small.
const SMALL_FILES: u64 = 7;
/// The file that fills the volume, if there is one: all its pages exist from the start, in
/// version 1.
pub const FILLER: u64 = 100;
/// The most pages per write of the filler, by default.
const PIECE: u64 = 4;
/// Each look checks one in this many of the filler's pages that were never rewritten.
const STRIPES: u64 = 16;

/// The sectors of a volume that are not zero.
pub type Image = Vec<(u64, Vec<u8>)>;

pub fn empty_image(features: &str) -> Image {
    empty_image_of(features, SECTORS)
}

pub fn empty_image_of(features: &str, sectors: u64) -> Image {
    let mut device = RamDevice::with_sectors(4096, sectors).unwrap();
    let options = MkfsOptions { features: features_named(features).unwrap(), ..MkfsOptions::default() };
    Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    image_of(&device)
}

pub fn image_of(device: &impl BlockDevice) -> Image {
    let mut image = Image::new();
    let mut bytes = vec![0; BLOCK];
    for sector in 0..device.geometry().capacity() / BLOCK as u64 {
        device.read(&Context::default(), Lba(sector), ReadInto::Bytes(&mut bytes)).unwrap();
        if !nandkit_units::is_zeroed(&bytes) {
            image.push((sector, bytes.clone()));
        }
    }
    image
}

/// Writes an image file, with holes where the sectors are zero.
pub fn write_image(path: &Path, image: &Image) {
    write_image_of(path, image, SECTORS);
}

pub fn write_image_of(path: &Path, image: &Image, sectors: u64) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(sectors * BLOCK as u64).unwrap();
    image.iter().for_each(|(sector, bytes)| file.write_all_at(bytes, sector * BLOCK as u64).unwrap());
}

pub fn device_of(image: &Image) -> RamDevice {
    device_of_size(image, SECTORS)
}

pub fn device_of_size(image: &Image, sectors: u64) -> RamDevice {
    let mut device = RamDevice::with_sectors(4096, sectors).unwrap();
    for (sector, bytes) in image {
        device.write(&Context::default(), Lba(*sector), Payload::Bytes(bytes)).unwrap();
    }
    device
}

/// The content of a page tells its file, number and version; version 0 is zeroes.
pub fn page(file: u64, number: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if version > 0 {
        for (index, part) in bytes.chunks_exact_mut(32).enumerate() {
            part[..8].copy_from_slice(&file.to_le_bytes());
            part[8..16].copy_from_slice(&number.to_le_bytes());
            part[16..24].copy_from_slice(&version.to_le_bytes());
            part[24..].copy_from_slice(&(index as u64 ^ version << 20).to_le_bytes());
        }
    }
    bytes
}

/// What a file may be after a cut: all its states since it was last made durable.
#[derive(Clone, Debug, Default)]
pub struct File {
    exists: BTreeSet<bool>,
    there: bool,
    sizes: BTreeSet<u64>,
    size: u64,
    pages: BTreeMap<u64, Vec<u64>>,
    /// The version of pages that are not in `pages`.
    untouched: u64,
    /// Pages and versions of a commit in progress: all of them are there, or none.
    together: Vec<(u64, u64)>,
    /// Versions of which the first page may have only this many bytes, then zeroes: the file was
    /// that short when it grew, and the longer page did not reach the device.
    short: Vec<(u64, usize)>,
    /// The one of these that the first page has now.
    short_now: Option<(u64, usize)>,
}

impl File {
    pub fn durable(&mut self) {
        self.together.clear();
        self.short = Vec::from_iter(self.short_now);
        self.exists = BTreeSet::from([self.there]);
        self.sizes = BTreeSet::from([self.size]);
        for versions in self.pages.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }

    fn set(&mut self, number: u64, version: u64) {
        let untouched = self.untouched;
        self.short_now = self.short_now.filter(|_| number > 0);
        self.pages.entry(number).or_insert_with(|| vec![untouched]).push(version);
    }

    /// Zeroes the pages past the end.
    fn cut_off(&mut self, size: u64) {
        let cut: Vec<u64> = self.pages.range(size.div_ceil(BLOCK as u64)..).map(|(&number, _)| number).collect();
        cut.into_iter().for_each(|number| self.set(number, 0));
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            self.cut_off(size);
        }
        self.size = size;
        self.sizes.insert(size);
    }

    /// Notes the current state, whatever happened in an operation that had no room.
    fn observe<D: BlockDevice>(&mut self, volume: &WritableVolume<D>, id: u64) {
        self.together.clear();
        let found = volume.lookup(volume.root(), &name(id));
        self.there = found.is_ok();
        let size = found.as_ref().map_or(0, |&ino| volume.stat(ino).unwrap().size);
        self.cut_off(size);
        self.resize(size);
        let Ok(ino) = found else { return };
        let known: Vec<u64> = self.pages.keys().copied().filter(|number| number * (BLOCK as u64) < size).collect();
        for number in known {
            let version = version_of(&read_page(volume, ino, number, size));
            self.set(number, version);
        }
    }

    /// Notes whether the first page is a part of a version.
    fn observe_short<D: BlockDevice>(&mut self, volume: &WritableVolume<D>, id: u64) {
        if let Ok(ino) = volume.lookup(volume.root(), &name(id))
            && self.size > 0
        {
            let found = read_page(volume, ino, 0, self.size);
            let version = version_of(&found);
            let whole = page(id, 0, version);
            let same = found.iter().zip(&whole).take_while(|(one, other)| one == other).count();
            if same < found.len() {
                self.short.push((version, same));
                self.short_now = Some((version, same));
            }
        }
    }

    /// Fails if a page has none of its possible versions.
    fn judge_page(&self, (id, number): (u64, u64), found: &[u8], context: &str) {
        let versions = self.pages.get(&number).cloned().unwrap_or_else(|| vec![self.untouched]);
        let new = self.exists.contains(&false);
        let is_zero = nandkit_units::is_zeroed;
        let is_short = |&(version, length): &(u64, usize)| {
            let (had, behind) = found.split_at(length.min(found.len()));
            *had == page(id, number, version)[..had.len()] && is_zero(behind)
        };
        let possible = versions.iter().any(|&version| *found == page(id, number, version)[..found.len()])
            || number == 0 && self.short.iter().any(is_short)
            || new && is_zero(found);
        assert!(
            possible,
            "{context}: file {id}, page {number}: expected a version of {versions:?}, found {:?}",
            &found[..24]
        );
    }
}

fn version_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[16..24].try_into().unwrap())
}

fn read_page<D: BlockDevice>(volume: &WritableVolume<D>, ino: InodeNumber, number: u64, size: u64) -> Vec<u8> {
    let inode = volume.inode(ino).unwrap();
    let mut bytes = vec![0; (size - number * BLOCK as u64).min(BLOCK as u64) as usize];
    volume.read_at(&inode, number * BLOCK as u64, &mut bytes).unwrap();
    bytes
}

/// An operation on a file.
#[derive(Clone, Debug)]
enum Action {
    Create,
    /// Pages from this one on.
    Write(u64, Vec<u8>),
    /// Two runs of pages, starting at these, in a draft.
    Commit([(u64, Vec<u8>); 2]),
    /// All of it, rewritten in place.
    Rewrite(Vec<u8>),
    /// The rest of the page at the end of a file of less than a page, and another page.
    Append(Vec<u8>),
    /// All of it, rewritten as another file that is renamed over it; made durable before that, or
    /// left to the volume.
    Replace(Vec<u8>, bool),
    Fsync(bool),
    Resize(u64),
    Remove,
    Checkpoint,
    Punch(u64),
    Sync,
    Collect,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub files: BTreeMap<u64, File>,
    version: u64,
    /// The version of the last checkpoint that was seen.
    checkpoint: u64,
    /// Some writes go through drafts that are committed.
    drafts: bool,
    /// The most pages per write of the filler, if more than [`PIECE`].
    burst: u64,
}

pub fn name(file: u64) -> Vec<u8> {
    format!("file-{file}").into_bytes()
}

fn new_name(file: u64) -> Vec<u8> {
    format!("new-{file}").into_bytes()
}

pub type Result<T> = std::result::Result<T, FsError>;

impl Model {
    /// A model of a volume that a file of this many pages fills.
    pub fn with_filler(pages: u64) -> Self {
        let size = pages * BLOCK as u64;
        let filler = File { there: true, size, untouched: 1, ..File::default() };
        let mut model = Self { version: 1, ..Self::default() };
        model.files.insert(FILLER, filler);
        model.files.values_mut().for_each(File::durable);
        model
    }

    /// Adds writes that go through drafts.
    pub fn with_drafts(self) -> Self {
        Self { drafts: true, ..self }
    }

    /// Adds writes of up to this many pages to the filler.
    pub fn with_bursts(self, pages: u64) -> Self {
        Self { burst: pages, ..self }
    }

    /// Notes that the current state may also be found later, after an operation that failed on a
    /// volume that continues.
    pub fn observe<D: BlockDevice>(&mut self, volume: &WritableVolume<D>) {
        for (&id, file) in &mut self.files {
            file.observe(volume, id);
            file.observe_short(volume, id);
        }
    }

    fn versions(&mut self, id: u64, pages: std::ops::Range<u64>) -> Vec<u8> {
        pages
            .flat_map(|number| {
                self.version += 1;
                page(id, number, self.version)
            })
            .collect()
    }

    fn draw(&mut self, random: &mut Random) -> (u64, Action) {
        let filler = self.files.get(&FILLER).map(|file| file.size / BLOCK as u64).filter(|_| random.below(3) == 0);
        if let Some(pages) = filler {
            let most = self.burst.max(PIECE);
            let start = random.below(pages - most);
            // A burst is many requests, so that there are more fsyncs for each.
            let writes = if self.burst > 0 { 6 } else { 8 };
            let action = match random.below(10) {
                what if what < writes => {
                    Action::Write(start, self.versions(FILLER, start..start + 1 + random.below(most)))
                }
                ..9 => Action::Fsync(random.below(3) == 0),
                _ => Action::Collect,
            };
            return (FILLER, action);
        }
        let id = random.below(FILES);
        let (there, size) = self.files.get(&id).map_or((false, 0), |file| (file.there, file.size));
        let what = random.below(100);
        if !there {
            return (id, Action::Create);
        }
        let small = id >= SMALL_FILES;
        // Around the inline capacity.
        let length = [100, 2000, 3400, 3600, 4000][random.below(5) as usize];
        let action = match what {
            40..45 if self.drafts && !small => {
                let first = random.below(20);
                let second = first + 4 + random.below(10);
                Action::Commit([first, second].map(|at| (at, self.versions(id, at..at + 1 + random.below(4)))))
            }
            0..45 if small => Action::Rewrite(self.versions(id, 0..1)[..length].to_vec()),
            0..45 => {
                let start = if random.below(12) == 0 { 900 + random.below(60) } else { random.below(20) };
                Action::Write(start, self.versions(id, start..start + 1 + random.below(4)))
            }
            45..49 if small => Action::Replace(self.versions(id, 0..1)[..length].to_vec(), random.below(2) == 0),
            45..49 => Action::Replace(self.versions(id, 0..1 + random.below(3)), random.below(2) == 0),
            49..75 => Action::Fsync(random.below(3) == 0),
            75..83 if small => self.append(id).map_or(Action::Sync, Action::Append),
            75..83 => Action::Resize(random.below(size / BLOCK as u64 + 2) * BLOCK as u64),
            83..88 => Action::Remove,
            88..92 => Action::Checkpoint,
            92..95 if !small => Action::Punch(random.below(20)),
            95 => Action::Collect,
            _ => Action::Sync,
        };
        (id, action)
    }

    /// Content that makes a small file two pages long; `None` if it is larger, or not a whole part
    /// of a version.
    fn append(&mut self, id: u64) -> Option<Vec<u8>> {
        let file = self.files.get(&id)?;
        let version = *file.pages.get(&0)?.last()?;
        let size = usize::try_from(file.size).ok().filter(|size| (24..BLOCK).contains(size))?;
        let whole = version > 0 && file.short.is_empty();
        whole.then(|| [&page(id, 0, version)[size..], &self.versions(id, 1..2)].concat())
    }

    /// Notes that the action may happen from now on.
    fn begin(&mut self, id: u64, action: &Action) {
        let new = || File { exists: BTreeSet::from([false]), sizes: BTreeSet::from([0]), ..File::default() };
        let file = self.files.entry(id).or_insert_with(new);
        let set_all = |file: &mut File, start: u64, bytes: &[u8]| {
            for (number, bytes) in (start..).zip(bytes.chunks(BLOCK)) {
                file.set(number, version_of(bytes));
            }
        };
        match action {
            Action::Create => drop(file.exists.insert(true)),
            Action::Rewrite(bytes) => {
                file.resize(0);
                file.set(0, 0);
                set_all(file, 0, bytes);
                file.resize(bytes.len() as u64);
            }
            Action::Append(bytes) => {
                let version = file.pages.get(&0).and_then(|versions| versions.last()).copied().unwrap_or(0);
                file.short.push((version, file.size as usize));
                set_all(file, 1, &bytes[bytes.len() - BLOCK..]);
                file.resize(file.size + bytes.len() as u64);
            }
            // The size is never between the two.
            Action::Replace(bytes, _) => {
                file.cut_off(bytes.len() as u64);
                set_all(file, 0, bytes);
                file.resize(bytes.len() as u64);
            }
            Action::Write(start, bytes) => {
                set_all(file, *start, bytes);
                let pages = start + (bytes.len() / BLOCK) as u64;
                let end = pages * BLOCK as u64;
                if end > file.size {
                    file.sizes.extend((file.size / BLOCK as u64..=pages).map(|pages| pages * BLOCK as u64));
                    file.resize(end);
                }
            }
            Action::Commit(runs) => {
                for (start, bytes) in runs {
                    set_all(file, *start, bytes);
                    let pages = (*start..).zip(bytes.chunks(BLOCK).map(version_of));
                    file.together.extend(pages);
                }
                let end = runs.iter().map(|(start, bytes)| start * BLOCK as u64 + bytes.len() as u64).max();
                file.resize(file.size.max(end.unwrap_or(0)));
            }
            Action::Resize(size) => file.resize(*size),
            Action::Remove => drop(file.exists.insert(false)),
            Action::Punch(number) if file.size > number * BLOCK as u64 => file.set(*number, 0),
            _ => {}
        }
    }

    /// Notes that the action was acknowledged.
    fn done<D: BlockDevice>(&mut self, id: u64, action: &Action, volume: &WritableVolume<D>) {
        let version = volume.checkpoint_state().0.head.version.get();
        if std::mem::replace(&mut self.checkpoint, version) != version {
            // It has the names as before the action, or as after one that changes none.
            let same = matches!(action, Action::Fsync(_) | Action::Checkpoint | Action::Sync | Action::Collect);
            for (_, file) in self.files.iter_mut().filter(|(other, _)| **other != id || same) {
                file.exists = BTreeSet::from([file.there]);
            }
        }
        match (action, self.files.get_mut(&id)) {
            (Action::Sync, _) => self.files.values_mut().for_each(File::durable),
            (Action::Create, Some(file)) => file.there = true,
            (Action::Fsync(_) | Action::Commit(_), Some(file)) => file.durable(),
            (Action::Remove, Some(file)) => {
                file.there = false;
                file.resize(0);
            }
            _ => {}
        }
    }
}

/// Does an action. Errors: those of the volume.
fn perform<D: BlockDevice>(volume: &mut WritableVolume<D>, id: u64, action: &Action) -> Result<()> {
    let root = volume.root();
    match action {
        Action::Create => return volume.create(root, &name(id), &NewNode::FILE).map(drop),
        Action::Remove => return volume.remove(root, &name(id)),
        Action::Checkpoint => return volume.checkpoint(Reason::Sync),
        Action::Sync => return volume.sync(),
        Action::Collect => return volume.collect_one(Collection::Foreground).map(drop),
        _ => {}
    }
    let ino = volume.lookup(root, &name(id))?;
    let nid = NodeId(ino.0 as u32);
    match action {
        Action::Write(start, bytes) => write_all(volume, nid, start * BLOCK as u64, bytes),
        Action::Rewrite(bytes) => {
            volume.truncate(nid, 0)?;
            write_all(volume, nid, 0, bytes)
        }
        Action::Append(bytes) => write_all(volume, nid, volume.stat(ino)?.size, bytes),
        Action::Commit(runs) => commit(volume, ino, runs),
        Action::Replace(bytes, durable) => {
            let new_name = new_name(id);
            if volume.lookup(root, &new_name).is_ok() {
                volume.remove(root, &new_name)?;
            }
            let new = NodeId(volume.create(root, &new_name, &NewNode::FILE)?.0 as u32);
            write_all(volume, new, 0, bytes)?;
            if *durable {
                volume.fsync(new, false)?;
            }
            volume.rename((root, &new_name), (root, &name(id)), RenameFlags::Replace)
        }
        Action::Fsync(data_only) => volume.fsync(nid, *data_only),
        Action::Resize(size) => volume.truncate(nid, *size),
        Action::Punch(number) => volume.punch(nid, number * BLOCK as u64, BLOCK as u64),
        _ => Ok(()),
    }
}

/// Writes all runs to a draft and commits it.
fn commit<D: BlockDevice>(volume: &mut WritableVolume<D>, ino: InodeNumber, runs: &[(u64, Vec<u8>)]) -> Result<()> {
    let draft = volume.begin_atomic(ino)?;
    let nid = NodeId(draft.0 as u32);
    let written = runs.iter().try_for_each(|(start, bytes)| write_all(volume, nid, start * BLOCK as u64, bytes));
    let done = written.and_then(|()| volume.commit_atomic(draft));
    if done.as_ref().is_err_and(|error| error.kind == ErrorKind::NoSpace) {
        volume.abort_atomic(draft)?;
    }
    done
}

/// Writes all bytes. Errors: also `NoSpace` if only a part was written.
fn write_all<D: BlockDevice>(volume: &mut WritableVolume<D>, nid: NodeId, at: u64, bytes: &[u8]) -> Result<()> {
    let taken = volume.write(nid, at, Payload::Bytes(bytes))?;
    if taken < bytes.len() { Err(FsError::new(ErrorKind::NoSpace, "taken in part".to_owned())) } else { Ok(()) }
}

impl Oracle for Model {
    fn step<D: BlockDevice>(
        &mut self,
        volume: &mut WritableVolume<D>,
        random: &mut Random,
        before: &mut dyn FnMut(&Self),
    ) -> Result<()> {
        let (id, action) = self.draw(random);
        self.begin(id, &action);
        before(self);
        match perform(volume, id, &action) {
            Ok(()) => self.done(id, &action, volume),
            // It happened in part, or not at all.
            Err(error) if error.kind == ErrorKind::NoSpace && volume.stopped().is_none() => {
                if let Some(file) = self.files.get_mut(&id) {
                    let together = std::mem::take(&mut file.together);
                    file.observe(volume, id);
                    file.observe_short(volume, id);
                    let is_new = |(number, version): &(u64, u64)| file.pages[number].last() == Some(version);
                    assert!(!together.iter().any(is_new), "file {id}: a commit without room changed {together:?}");
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn judge<D: BlockDevice>(&self, volume: &WritableVolume<D>, context: &str) {
        must_be_possible(volume, self, context);
    }

    fn settle<D: BlockDevice>(&mut self, volume: &WritableVolume<D>) {
        for (&id, file) in &mut self.files {
            file.observe(volume, id);
            file.durable();
            file.observe_short(volume, id);
        }
    }
}

/// Runs random operations until the power goes. The model has everything that returned.
pub fn run<D: BlockDevice>(
    volume: &mut WritableVolume<D>,
    model: &mut Model,
    random: &mut Random,
    steps: u32,
) -> Result<()> {
    (0..steps).try_for_each(|_| model.step(volume, random, &mut |_| ()))
}

pub fn must_be_possible<D: BlockDevice>(volume: &WritableVolume<D>, model: &Model, context: &str) {
    for (&id, file) in &model.files {
        let found = volume.lookup(volume.root(), &name(id));
        let Ok(ino) = found else {
            assert!(file.exists.contains(&false), "{context}: file {id} is lost");
            continue;
        };
        assert!(file.exists.contains(&true), "{context}: file {id} is there again");
        let stat = volume.stat(ino).unwrap();
        let known = file.sizes.contains(&stat.size) || file.exists.contains(&false) && stat.size == 0;
        assert!(known, "{context}: file {id} has {} bytes; expected one of {:?}", stat.size, file.sizes);
        let inode = volume.inode(InodeNumber(ino.0)).unwrap();
        let stripe = context.bytes().fold(0, |sum, byte| (sum * 31 + u64::from(byte)) % STRIPES);
        let (mut bytes, mut committed) = (vec![0; BLOCK], BTreeMap::new());
        for number in 0..stat.size.div_ceil(BLOCK as u64) {
            if id == FILLER && number % STRIPES != stripe && !file.pages.contains_key(&number) {
                continue;
            }
            let length = (stat.size - number * BLOCK as u64).min(BLOCK as u64) as usize;
            volume.read_at(&inode, number * BLOCK as u64, &mut bytes[..length]).unwrap();
            file.judge_page((id, number), &bytes[..length], context);
            if let Some((_, version)) = file.together.iter().find(|(page, _)| *page == number) {
                committed.insert(number, version_of(&bytes) == *version);
            }
        }
        let (new, all) = (committed.values().filter(|new| **new).count(), file.together.len());
        assert!(new == 0 || new == all, "{context}: file {id} has {new} pages of a commit of {all}: {committed:?}");
    }
}
