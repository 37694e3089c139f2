//! Files that are read through one temporary file.

use std::ops::Range;

use nandkit_units::ReadInto;
use nandkit_vfs::{
    Adopt, AdoptedRange, Attributes, ErrorKind, FileSystem, FsError, InodeNumber, Result, source::to_read,
};

use crate::share::{Piece, Version, look, pieces_of, places};
use crate::temporary::Temporary;
use crate::{Counters, Limits};

/// Number of consecutive files that cannot be shared even alone, after which sharing is given up.
const GIVE_UP: u32 = 16;

/// Where the content of a file is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// Not shared yet, or no longer.
    Waiting,
    /// Shared as these pieces of the temporary file.
    Shared(Range<usize>),
    /// The file itself.
    Direct,
    /// The file changed while it was read, and the begun version is gone.
    Lost,
}

#[derive(Clone, Debug)]
struct Entry {
    inode: InodeNumber,
    version: Version,
    held: Held,
    /// Whether reading of this version has begun.
    is_begun: bool,
}

/// Files whose pages are shared into one temporary file. Each call takes the file system, so that
/// others can use it in between. Once reading of a file has begun, its version is fixed. Versions
/// differ by size and times, so that the file system's clock must advance between two changes. If
/// this is dropped without [`Remapped::remap_delete`], the temporary file exists until the next
/// mount.
#[derive(Debug)]
pub struct Remapped {
    limits: Limits,
    unit: u64,
    temporary: Temporary,
    files: Vec<Entry>,
    pieces: Vec<Piece>,
    /// Length of the temporary file in bytes.
    length: u64,
    /// The files in the temporary file.
    shared: Vec<usize>,
    /// Number of files in the last group; the next attempt takes twice as many.
    fits: usize,
    failed: u32,
    /// Offset of the buffer in the temporary file.
    window: Option<u64>,
    buffer: Vec<u8>,
    /// The separately read file that is completely in memory.
    copied: Option<usize>,
    copy: Vec<u8>,
    counters: Counters,
}

fn no_remap() -> FsError {
    let detail = "the volume's device cannot remap, or the format does not report extents; read the files directly";
    FsError::new(ErrorKind::NotSupported, detail)
}

/// Shares the content of `files`, in reading order, into a temporary file. Files for which there is
/// no space are shared later, and files that cannot be shared are read separately; neither is an
/// error.
///
/// Errors: `NotSupported` (the device cannot remap), `ReadOnly`, and those of making a file. Cost:
/// reads each file's attributes and extents, and issues the remap commands; no content is read.
pub fn remap_create(fs: &mut dyn FileSystem, files: &[InodeNumber], limits: Limits) -> Result<Remapped> {
    let unit = fs.changes().and_then(|changes| changes.adopt()).map(|adopt| u64::from(adopt.unit().max(1)));
    let unit = unit.filter(|_| fs.extents().is_some()).ok_or_else(no_remap)?;
    let entry = |inode: &InodeNumber| Entry {
        inode: *inode,
        version: Version::default(),
        held: Held::Waiting,
        is_begun: false,
    };
    let mut remapped = Remapped {
        limits,
        unit,
        temporary: Temporary::create(fs)?,
        files: files.iter().map(entry).collect(),
        pieces: Vec::new(),
        length: 0,
        shared: Vec::new(),
        fits: files.len(),
        failed: 0,
        window: None,
        buffer: Vec::new(),
        copied: None,
        copy: Vec::new(),
        counters: Counters::default(),
    };
    if !files.is_empty() {
        remapped.share_from(fs, 0)?;
    }
    Ok(remapped)
}

impl Remapped {
    /// The counters so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Begins to read a file, given by its index in the list. From now on its content is that of
    /// the returned attributes, even if the file changes. A file that changed since it was shared
    /// is shared or read again.
    ///
    /// Errors: `NotFound` (also for an invalid index), `Corrupt`, `Device`. Cost: that of `stat`,
    /// and of sharing if necessary.
    pub fn begin(&mut self, fs: &mut dyn FileSystem, file: usize) -> Result<Attributes> {
        let inode = self.entry(file)?.inode;
        let attributes = look(fs, inode)?;
        let version = Version::of(&attributes);
        self.entry_mut(file)?.is_begun = false;
        self.copied = None;
        match self.entry(file)?.held {
            Held::Waiting => self.share_from(fs, file)?,
            Held::Shared(_) if self.entry(file)?.version == version => {}
            Held::Direct if self.entry(file)?.version == version => {}
            _ => {
                self.counters.renewed += 1;
                self.share_again(fs, file)?;
            }
        }
        let entry = self.entry_mut(file)?;
        entry.is_begun = true;
        if entry.held == Held::Direct {
            entry.version = version;
            self.counters.files_direct += 1;
            self.copy_whole(fs, file)?;
        }
        Ok(attributes)
    }

    /// Reads a file's content from `offset` on, as [`FileSystem::read`] does, from the buffer if
    /// possible: a read out of order costs another window. If reading the file has not begun, it
    /// begins now.
    ///
    /// Errors: those of [`Remapped::begin`], and `Corrupt` if the file has changed and the begun
    /// version is gone.
    pub fn remap_read(&mut self, fs: &mut dyn FileSystem, file: usize, offset: u64, into: &mut [u8]) -> Result<usize> {
        if !self.entry(file)?.is_begun {
            self.begin(fs, file)?;
        }
        if self.entry(file)?.held == Held::Waiting {
            self.share_from(fs, file)?;
        }
        let entry = self.entry(file)?;
        let count = entry.version.size.saturating_sub(offset).min(into.len() as u64) as usize;
        let into = into.get_mut(..count).unwrap_or_default();
        match entry.held.clone() {
            Held::Shared(pieces) => self.read_pieces(fs, pieces, offset, into)?,
            Held::Direct => self.read_direct(fs, file, offset, into)?,
            Held::Waiting | Held::Lost => return Err(self.lost(file)),
        }
        Ok(count)
    }

    /// The next range of the begun version that may hold non-zero data, as in
    /// [`FileSystem::data_after`]. Errors: those of that function and of [`Remapped::begin`].
    pub fn data_after(&mut self, fs: &mut dyn FileSystem, file: usize, offset: u64) -> Result<Option<Range<u64>>> {
        if !self.entry(file)?.is_begun {
            self.begin(fs, file)?;
        }
        let (size, inode) = (self.entry(file)?.version.size, self.entry(file)?.inode);
        let Held::Shared(pieces) = &self.entry(file)?.held else { return fs.data_after(inode, offset) };
        let pieces = self.pieces.get(pieces.clone()).unwrap_or_default();
        let next = pieces.get(pieces.partition_point(|piece| piece.end().min(size) <= offset));
        Ok(next.map(|piece| piece.offset.max(offset)..piece.end().min(size)).filter(|range| !range.is_empty()))
    }

    /// Removes the temporary file. Errors: those of removing a file. Cost: a pass over its pieces.
    pub fn remap_delete(self, fs: &mut dyn FileSystem) -> Result<Counters> {
        self.temporary.delete(fs)?;
        Ok(self.counters)
    }

    fn entry(&self, file: usize) -> Result<&Entry> {
        self.files.get(file).ok_or_else(|| no_file(file))
    }

    fn entry_mut(&mut self, file: usize) -> Result<&mut Entry> {
        self.files.get_mut(file).ok_or_else(|| no_file(file))
    }

    fn lost(&self, file: usize) -> FsError {
        let inode = self.files.get(file).map_or(0, |entry| entry.inode.0);
        FsError::new(ErrorKind::Corrupt, format!("inode {inode} was changed while it was read"))
    }

    /// Shares as many files as fit, beginning with `first`, which at least is no longer waiting
    /// afterwards. Earlier content of the temporary file is dropped.
    fn share_from(&mut self, fs: &mut dyn FileSystem, first: usize) -> Result<()> {
        if self.failed >= GIVE_UP {
            return self.settle_direct(fs, first);
        }
        if self.length > 0 {
            self.temporary.empty(fs)?;
        }
        for file in std::mem::take(&mut self.shared) {
            self.entry_mut(file)?.held = Held::Waiting;
        }
        (self.length, self.window) = (0, None);
        self.pieces.clear();
        let mut count = self.fits.saturating_mul(2).clamp(1, self.files.len().saturating_sub(first).max(1));
        loop {
            match self.share_group(fs, first..first + count) {
                Ok(shared) => {
                    (self.failed, self.fits) = (0, shared);
                    self.counters.groups += 1;
                    return Ok(());
                }
                Err(_) if count > 1 => count = count.div_ceil(2),
                // Reading the file will report the error.
                Err(_) => {
                    self.failed += 1;
                    self.fits = 1;
                    return self.settle_direct(fs, first);
                }
            }
            self.counters.refusals += 1;
        }
    }

    /// Shares these files, or the first of them within the limit, in one adoption; returns their
    /// number. Errors: those of the adoption; nothing is shared then.
    fn share_group(&mut self, fs: &mut dyn FileSystem, files: Range<usize>) -> Result<usize> {
        let (mut wanted, mut found): (Vec<AdoptedRange>, Vec<(Version, Held)>) = (Vec::new(), Vec::new());
        let (mut pieces, mut length) = (Vec::new(), 0_u64);
        for entry in self.files.get(files.clone()).unwrap_or_default() {
            // Reading a file will report its error.
            let seen = look(fs, entry.inode).map(|attributes| Version::of(&attributes));
            let version = *seen.as_ref().unwrap_or(&entry.version);
            let own = seen.and_then(|version| pieces_of(fs, entry.inode, &version, self.unit, length));
            let held = match own {
                _ if entry.is_begun && version != entry.version => Held::Lost,
                Ok(Some(own)) => {
                    let bytes: u64 = own.iter().map(|piece| piece.length).sum();
                    if !found.is_empty() && length.saturating_add(bytes) > self.limits.shared {
                        break;
                    }
                    length = length.saturating_add(bytes);
                    wanted.extend(places(entry.inode, &own));
                    let first = pieces.len();
                    pieces.extend(own);
                    Held::Shared(first..pieces.len())
                }
                _ => Held::Direct,
            };
            found.push((version, held));
        }
        adopt(fs, self.temporary.inode, &wanted)?;
        (self.pieces, self.length) = (pieces, length);
        let shared = found.len();
        let entries = self.files.get_mut(files.clone()).unwrap_or_default().iter_mut();
        for ((file, entry), (version, held)) in files.zip(entries).zip(found) {
            if matches!(held, Held::Shared(_)) {
                self.shared.push(file);
                self.counters.files_shared += 1;
            }
            if held != Held::Lost {
                entry.version = version;
            }
            entry.held = held;
        }
        self.counters.bytes_shared += length;
        Ok(shared)
    }

    /// Shares the current version of one file, after all others; if that fails, it is read
    /// separately.
    fn share_again(&mut self, fs: &mut dyn FileSystem, file: usize) -> Result<()> {
        let inode = self.entry(file)?.inode;
        let version = Version::of(&look(fs, inode)?);
        let own = pieces_of(fs, inode, &version, self.unit, self.length)?;
        let Some(own) = own.filter(|_| self.failed < GIVE_UP) else { return self.settle_direct(fs, file) };
        let wanted: Vec<AdoptedRange> = places(inode, &own).collect();
        if adopt(fs, self.temporary.inode, &wanted).is_err() {
            self.counters.refusals += 1;
            return self.settle_direct(fs, file);
        }
        let (first, bytes) = (self.pieces.len(), own.iter().map(|piece| piece.length).sum::<u64>());
        self.pieces.extend(own);
        let held = Held::Shared(first..self.pieces.len());
        self.length += bytes;
        self.counters.files_shared += 1;
        self.counters.bytes_shared += bytes;
        self.shared.retain(|known| *known != file);
        self.shared.push(file);
        // The window may end at the file's old end.
        self.window = None;
        let entry = self.entry_mut(file)?;
        (entry.version, entry.held) = (version, held);
        Ok(())
    }

    fn settle_direct(&mut self, fs: &mut dyn FileSystem, file: usize) -> Result<()> {
        let version = Version::of(&look(fs, self.entry(file)?.inode)?);
        self.shared.retain(|known| *known != file);
        let entry = self.entry_mut(file)?;
        entry.held = if entry.is_begun && entry.version != version { Held::Lost } else { Held::Direct };
        if !entry.is_begun {
            entry.version = version;
        }
        Ok(())
    }

    fn read_pieces(&mut self, fs: &dyn FileSystem, pieces: Range<usize>, offset: u64, into: &mut [u8]) -> Result<()> {
        into.fill(0);
        let end = offset + into.len() as u64;
        let own = self.pieces.get(pieces.clone()).unwrap_or_default();
        let mut number = pieces.start + own.partition_point(|piece| piece.end() <= offset);
        while let Some(piece) = self.pieces.get(number).copied().filter(|piece| piece.offset < end) {
            if number >= pieces.end {
                break;
            }
            let (mut from, to) = (piece.offset.max(offset), piece.end().min(end));
            while from < to {
                let at = piece.at + (from - piece.offset);
                let part = self.window_at(fs, at)?;
                let count = (part.len() as u64).min(to - from) as usize;
                let start = (from - offset) as usize;
                if let Some((target, part)) = into.get_mut(start..start + count).zip(part.get(..count)) {
                    target.copy_from_slice(part);
                }
                from += count as u64;
            }
            number += 1;
        }
        Ok(())
    }

    /// The buffered part of the temporary file from `at`, at least one byte.
    fn window_at(&mut self, fs: &dyn FileSystem, at: u64) -> Result<&[u8]> {
        let bytes = self.buffer.len() as u64;
        if !self.window.is_some_and(|start| (start..start + bytes).contains(&at)) {
            let start = at - at % self.unit;
            let most = self.length.saturating_sub(start).min((self.limits.memory as u64).max(self.unit));
            self.window = None;
            self.buffer.resize(most as usize, 0);
            let count = fs.read(self.temporary.inode, start, ReadInto::Bytes(&mut self.buffer))?;
            self.counters.windows += 1;
            if count as u64 != most {
                let detail = format!("{count} bytes of the temporary file at {start}; expected {most}");
                return Err(FsError::new(ErrorKind::Corrupt, detail));
            }
            self.window = Some(start);
        }
        let start = self.window.unwrap_or(at);
        let part = self.buffer.get((at - start) as usize..).filter(|part| !part.is_empty());
        part.ok_or_else(|| FsError::new(ErrorKind::Corrupt, format!("nothing in the temporary file at {at}")))
    }

    /// Reads a whole file into memory if it fits, which fixes its version.
    fn copy_whole(&mut self, fs: &dyn FileSystem, file: usize) -> Result<()> {
        let (inode, size) = (self.entry(file)?.inode, self.entry(file)?.version.size);
        if size == 0 || size > self.limits.memory as u64 {
            return Ok(());
        }
        self.copy.resize(size as usize, 0);
        // A later read will report the error.
        let whole = fs.read(inode, 0, ReadInto::Bytes(&mut self.copy));
        self.copied = whole.is_ok_and(|count| count as u64 == size).then_some(file);
        Ok(())
    }

    fn read_direct(&mut self, fs: &dyn FileSystem, file: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.copied == Some(file) {
            let start = offset as usize;
            if let Some(part) = self.copy.get(start..start + into.len()) {
                into.copy_from_slice(part);
            }
            return Ok(());
        }
        let (inode, version) = (self.entry(file)?.inode, self.entry(file)?.version);
        let is_same = |fs: &dyn FileSystem| look(fs, inode).is_ok_and(|now| Version::of(&now) == version);
        if !is_same(fs) {
            return Err(self.lost(file));
        }
        // Holes need no request.
        let end = offset + into.len() as u64;
        let data = to_read(fs.data_after(inode, offset), offset..end);
        if data.start >= end {
            into.fill(0);
        } else {
            let count = fs.read(inode, offset, ReadInto::Bytes(into))?;
            if count != into.len() {
                let detail = format!("{count} bytes of inode {} at {offset}; expected {}", inode.0, into.len());
                return Err(FsError::new(ErrorKind::Corrupt, detail));
            }
        }
        Ok(())
    }
}

fn no_file(file: usize) -> FsError {
    FsError::new(ErrorKind::NotFound, format!("no file {file} in the list"))
}

/// Adopts the wanted places, if there are any.
fn adopt(fs: &mut dyn FileSystem, target: InodeNumber, wanted: &[AdoptedRange]) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let adopt: Option<&mut dyn Adopt> = fs.changes().and_then(|changes| changes.adopt());
    adopt.ok_or_else(no_remap)?.adopt(target, wanted)
}
