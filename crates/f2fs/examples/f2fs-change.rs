//! Changes an F2FS image at random through the file-system contract: creates, moves, exchanges,
//! links and removes entries of all kinds, changes content and attributes, over several mounts.
//!
//! `f2fs-change IMAGE SEED OPERATIONS [everywhere]` prints how many operations were done and how
//! many were refused, as some must be: a directory into itself, a full inode. They happen in a
//! directory of their own, or everywhere, where some content is refused too (compressed files).

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

use nandkit_block::{Access, FileDevice};
use nandkit_f2fs::write::Making;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Payload};
use nandkit_vfs::{
    AttributeChange, Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Links, NewNode, RenameFlags, Timestamp,
    XattrChanges,
};

type Anything<T> = Result<T, Box<dyn Error>>;

/// The directory in which all changes happen.
const PLACE: &[u8] = b"changed by nandkit";
/// 2025-01-01: later than what the image holds, earlier than the guest's clock.
const EPOCH_UNIX_NS: u64 = 1_735_689_600_000_000_000;
/// The number of mounts over which the operations are spread.
const MOUNTS: u64 = 4;

const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::CharacterDevice,
    FileKind::Socket,
];

struct Changer {
    volume: WritableVolume<FileDevice>,
    random: Random,
    /// The directories to work in: `PLACE` first, then those below it.
    directories: Vec<InodeNumber>,
    everywhere: bool,
}

impl Changer {
    fn mount(image: &Path, clock: &Clock, random: Random, making: Making, everywhere: bool) -> Anything<Self> {
        let device = FileDevice::open(image, 4096, Access::ReadWrite)?;
        let options = WriteOptions { making, ..WriteOptions::default() };
        let mut volume = WritableVolume::mount(vec![device], clock.clone(), options)?;
        let root = volume.root();
        let place = match volume.lookup(root, PLACE) {
            _ if everywhere => root,
            Err(error) if error.kind == ErrorKind::NotFound => volume.create(root, PLACE, &NewNode::DIRECTORY)?,
            found => found?,
        };
        let mut changer = Self { volume, random, directories: vec![place], everywhere };
        changer.find_directories()?;
        Ok(changer)
    }

    fn entries(&self, directory: InodeNumber) -> Anything<BTreeMap<Vec<u8>, (InodeNumber, FileKind)>> {
        let mut entries = BTreeMap::new();
        self.volume.read_dir(directory, 0, &mut |entry| {
            entries.insert(entry.name.to_vec(), (entry.inode, entry.kind));
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    fn find_directories(&mut self) -> Anything<()> {
        self.directories.truncate(1);
        let mut at = 0;
        while let Some(&directory) = self.directories.get(at) {
            let entries = self.entries(directory)?;
            self.directories.extend(entries.values().filter(|(_, kind)| *kind == FileKind::Directory).map(|(i, _)| *i));
            at += 1;
        }
        Ok(())
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn directory(&mut self) -> InodeNumber {
        // Half of all in the first, so that it becomes large.
        let at = if self.random.below(2) == 0 { 0 } else { self.below(self.directories.len()) };
        self.directories.get(at).copied().unwrap_or(self.volume.root())
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(3000);
        // In casefolded directories, Linux has to find these by its own folding.
        let letters = ["", "-Größe", "-ΣΊΣΥΦΟΣ", "-e\u{301}Ǆ\u{AD}", "-ﬃ한글漢字", "-İıẞ\u{10400}", "-\u{1F6D6}A"];
        let letters = letters.get(self.below(14)).copied().unwrap_or_default();
        format!("{number}{letters}{}", "-name".repeat((number * 7 % 40) as usize)).into_bytes()
    }

    fn some_entry(&mut self, directory: InodeNumber) -> Anything<Option<(Vec<u8>, InodeNumber)>> {
        let entries = self.entries(directory)?;
        let at = self.below(entries.len().max(1));
        Ok(entries.into_iter().nth(at).map(|(name, (inode, _))| (name, inode)))
    }

    fn create(&mut self) -> nandkit_vfs::Result<()> {
        let (directory, name) = (self.directory(), self.name());
        let at = self.below(KINDS.len());
        let kind = KINDS.get(at).copied().unwrap_or(FileKind::Regular);
        let target = vec![b't'; 1 + self.below(if at.is_multiple_of(2) { 60 } else { 4000 })];
        let target = if kind == FileKind::Symlink { &target[..] } else { &[] };
        let node = NewNode {
            kind,
            mode: self.random.below(0o10000) as u16,
            uid: self.random.below(3) as u32 * 1000,
            gid: self.random.below(3) as u32 * 70_000,
            device: if kind == FileKind::CharacterDevice { self.random.below(4000) << 32 | 70_000 } else { 0 },
            target,
        };
        let inode = self.volume.create(directory, &name, &node)?;
        match kind {
            FileKind::Directory => self.directories.push(inode),
            FileKind::Regular => self.write(inode)?,
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, inode: InodeNumber) -> nandkit_vfs::Result<()> {
        let offset = self.random.below(9000);
        let mut content = vec![0; self.below(9000)];
        self.random.fill(&mut content);
        Changes::write(&mut self.volume, inode, offset, Payload::Bytes(&content)).map(|_| ())
    }

    fn change(&mut self, inode: InodeNumber) -> nandkit_vfs::Result<()> {
        let change = AttributeChange {
            mode: Some(self.random.below(0o10000) as u16),
            uid: Some(self.random.below(2000) as u32),
            modified: Some(Timestamp(self.random.below(EPOCH_UNIX_NS) as i64)),
            ..AttributeChange::default()
        };
        self.volume.set_attributes(inode, &change).map(|_| ())
    }

    fn attribute(&mut self, inode: InodeNumber) -> nandkit_vfs::Result<()> {
        let name = format!("user.{}", self.random.below(6)).into_bytes();
        if self.volume.stat(inode)?.kind != FileKind::Regular && self.volume.stat(inode)?.kind != FileKind::Directory {
            return self.volume.set_xattr(inode, b"trusted.any", b"kind");
        }
        if self.random.below(4) == 0 {
            return self.volume.remove_xattr(inode, &name);
        }
        let value = vec![b'v'; self.below(1500)];
        self.volume.set_xattr(inode, &name, &value)
    }

    /// Does one operation; returns whether it was done.
    fn step(&mut self) -> Anything<bool> {
        let (one, other, name) = (self.directory(), self.directory(), self.name());
        let some = self.some_entry(one)?;
        let flags = [RenameFlags::Replace, RenameFlags::NoReplace, RenameFlags::Exchange];
        let flags = flags.get(self.below(3)).copied().unwrap_or_default();
        let done = match (self.random.below(12), some) {
            (0..5, _) | (_, None) => self.create(),
            (5 | 6, Some((old, _))) => self.volume.rename((one, &old), (other, &name), flags),
            (7, Some((old, _))) => match self.some_entry(other)? {
                Some((new, _)) => self.volume.rename((one, &old), (other, &new), flags),
                None => Ok(()),
            },
            (8, Some((_, inode))) => self.volume.link(inode, other, &name),
            (9, Some((old, _))) => self.volume.remove(one, &old),
            (10, Some((_, inode))) => self.change(inode),
            (_, Some((_, inode))) => self.attribute(inode),
        };
        self.find_directories()?;
        match done {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotSupported && self.everywhere => Ok(false),
            Err(error) if [ErrorKind::Corrupt, ErrorKind::Device, ErrorKind::NotSupported].contains(&error.kind) => {
                Err(error.into())
            }
            Err(_) => Ok(false),
        }
    }
}

fn main() -> Anything<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or("f2fs-change IMAGE SEED OPERATIONS [everywhere]");
    let (image, seed, operations) = (word()?, word()?.parse::<u64>()?, word()?.parse::<u64>()?);
    let everywhere = words.next().is_some_and(|word| word == "everywhere");
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    let (mut done, mut refused) = (0, 0);
    for mount in 0..MOUNTS {
        let making = Making {
            inline_data: mount != 1,
            inline_entries: mount != 2,
            directory_level: (mount % 2) as u8,
            ..Making::default()
        };
        let random = Random::new(seed * MOUNTS + mount, "f2fs-change");
        let mut changer = Changer::mount(Path::new(&image), &clock, random, making, everywhere)?;
        for _ in 0..operations / MOUNTS {
            let counter = if changer.step()? { &mut done } else { &mut refused };
            *counter += 1;
            clock.advance_by(nandkit_units::Nanos(1_000_000));
        }
        changer.volume.unmount().map_err(|(_, error)| error)?;
    }
    println!("{done} operations done, {refused} refused");
    Ok(())
}
