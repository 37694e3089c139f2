//! Operations from a seed, made against a model so that most of them hit something.

use std::ops::ControlFlow;

use nandkit_units::{Clock, random::Random};
use nandkit_vfs::model::ModelFileSystem;
use nandkit_vfs::{FileKind, FileSystem, InodeNumber, RenameFlags};

use super::execute::Side;
use super::{Kind, Operation, Path, Plan};

/// Names that all formats hold; those that differ in case are the same on some.
const NAMES: [&[u8]; 14] = [
    b"a",
    b"b",
    b"C.txt",
    b"c.TXT",
    b"directory",
    b"Some longer name.data",
    b"12345678.123",
    b"123456789.1234",
    b"x.y.z",
    b".hidden",
    "gr\u{fc}n".as_bytes(),
    b"with space",
    b"n1",
    b"n2",
];

/// Deepest directory that is made.
const DEPTH_MAX: usize = 4;

struct Generator<'a> {
    random: Random,
    plan: &'a Plan,
    side: Side<ModelFileSystem>,
}

/// The operations of a plan.
pub fn generate(plan: &Plan) -> Vec<Operation> {
    let model = ModelFileSystem::new(plan.options, Clock::default());
    let random = Random::new(plan.seed, "model_compare");
    let mut generator = Generator { random, plan, side: Side::new(model) };
    let mut operations = Vec::new();
    for number in 0..plan.operations {
        let last = number + 1 == plan.operations;
        let operation = if last || (number + 1) % plan.compare_every.max(1) == 0 {
            if last { Operation::Remount } else { Operation::Compare }
        } else {
            generator.next()
        };
        match &operation {
            Operation::Remount => {
                generator.side.fs.remount();
                generator.side.retained.clear();
            }
            Operation::Compare => {}
            // Operations may fail.
            operation => drop(generator.side.apply(operation)),
        }
        operations.push(operation);
    }
    operations
}

impl Generator<'_> {
    fn next(&mut self) -> Operation {
        loop {
            let total: u64 = self.plan.weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
            let mut draw = self.random.below(total);
            let mut chosen = Kind::Look;
            for (kind, weight) in &self.plan.weights {
                if draw < u64::from(*weight) {
                    chosen = *kind;
                    break;
                }
                draw -= u64::from(*weight);
            }
            if let Some(operation) = self.of_kind(chosen) {
                return operation;
            }
        }
    }

    /// An operation of this kind, where the features allow one.
    fn of_kind(&mut self, kind: Kind) -> Option<Operation> {
        let features = self.plan.options.features;
        let tag = self.random.next_u64();
        Some(match kind {
            Kind::Create => {
                let (path, kind) = (self.new_path(), self.new_kind());
                Operation::Create { path, kind, tag }
            }
            Kind::Write => {
                let (path, offset, length) = (self.file(), self.offset(), self.length());
                Operation::Write { path, offset, length, tag }
            }
            Kind::Read => {
                let (path, offset, length) = (self.file(), self.offset(), self.length());
                Operation::Read { path, offset, length }
            }
            Kind::Resize => Operation::Resize { path: self.file(), size: self.offset() },
            Kind::Remove => Operation::Remove { path: self.any_path() },
            Kind::Rename => self.rename(),
            Kind::Link if features.hard_links => {
                let from = if self.random.chance(0.7) { self.file() } else { self.any_path() };
                Operation::Link { from, to: self.new_path() }
            }
            Kind::Attributes => self.attributes(),
            Kind::Look => self.look(),
            Kind::Xattr if features.xattrs => {
                let (path, name) = (self.any_path(), self.xattr());
                match self.random.below(4) {
                    0 => Operation::RemoveXattr { path, name },
                    1 => Operation::Xattr { path, name },
                    _ => Operation::SetXattr { path, name, length: self.random.below(300) as u16, tag },
                }
            }
            Kind::Allocation if self.plan.options.allocation => {
                let (path, offset, length) = (self.file(), self.offset(), u64::from(self.length()));
                if self.random.chance(0.6) {
                    Operation::Punch { path, offset, length }
                } else {
                    Operation::Allocate { path, offset, length, keep_size: self.random.chance(0.5) }
                }
            }
            Kind::Retain if self.plan.options.open_files => Operation::Retain { path: self.file() },
            Kind::Retained if !self.side.retained.is_empty() => {
                let slot = self.random.below(self.side.retained.len() as u64) as usize;
                match self.random.below(3) {
                    0 => Operation::Release { slot },
                    1 => Operation::ReadRetained { slot },
                    _ => Operation::WriteRetained { slot, offset: self.offset(), length: self.length(), tag },
                }
            }
            Kind::Sync => {
                let path = if self.random.chance(0.5) { Some(self.any_path()) } else { None };
                Operation::Sync { path }
            }
            Kind::Remount => Operation::Remount,
            Kind::Link | Kind::Xattr | Kind::Allocation | Kind::Retain | Kind::Retained => return None,
        })
    }

    fn rename(&mut self) -> Operation {
        let from = self.any_path();
        let to = if self.random.chance(0.5) { self.any_path() } else { self.new_path() };
        let flags = match self.random.below(10) {
            0 | 1 => RenameFlags::NoReplace,
            2 | 3 if self.plan.options.features.exchange => RenameFlags::Exchange,
            _ => RenameFlags::Replace,
        };
        Operation::Rename { from, to, flags }
    }

    /// A question that changes nothing.
    fn look(&mut self) -> Operation {
        let path = self.any_path();
        match self.random.below(6) {
            0 if self.plan.options.features.symlinks => Operation::ReadLink { path: self.of(FileKind::Symlink) },
            0..3 => Operation::Stat { path },
            _ => Operation::List { path },
        }
    }

    fn attributes(&mut self) -> Operation {
        let features = self.plan.options.features;
        let path = if self.random.chance(0.6) { self.file() } else { self.any_path() };
        match self.random.below(3) {
            0 if features.permissions => Operation::SetMode { path, mode: self.random.below(0o10000) as u16 },
            1 if features.owners => {
                let (uid, gid) = (self.random.below(70_000) as u32, self.random.below(3) as u32);
                Operation::SetOwner { path, uid, gid }
            }
            // From 1990 to 2037, inside the range of every format.
            _ => Operation::SetModified { path, seconds: self.random.between(631_152_000, 2_114_380_800) as i64 },
        }
    }

    fn new_kind(&mut self) -> FileKind {
        let features = self.plan.options.features;
        match self.random.below(20) {
            0..5 => FileKind::Directory,
            5 | 6 if features.symlinks => FileKind::Symlink,
            7 if features.device_nodes => {
                let kinds = [FileKind::Fifo, FileKind::Socket];
                kinds[self.random.below(2) as usize]
            }
            8 if features.device_nodes => {
                let kinds = [FileKind::CharacterDevice, FileKind::BlockDevice];
                kinds[self.random.below(2) as usize]
            }
            _ => FileKind::Regular,
        }
    }

    /// Small, large, and close to where blocks end.
    fn offset(&mut self) -> u64 {
        let max = self.plan.file_bytes_max;
        let offset = match self.random.below(4) {
            0 => self.random.below(600),
            1 => self.random.below(max + 1),
            2 => (1 << self.random.between(9, 17)) + self.random.below(5),
            _ => self.random.below(20_000),
        };
        offset.saturating_sub(2).min(max)
    }

    fn length(&mut self) -> u32 {
        match self.random.below(4) {
            0 => 1 + self.random.below(16) as u32,
            1 => 1 + self.random.below(20_000) as u32,
            2 => 1 << self.random.between(0, 14),
            _ => 1 + self.random.below(5_000) as u32,
        }
    }

    fn name(&mut self) -> Vec<u8> {
        if self.plan.many_names > 0 && self.random.chance(0.9) {
            return format!("entry number {}", self.random.below(self.plan.many_names)).into_bytes();
        }
        match self.random.below(40) {
            0 if self.plan.foldable_names => vec![b'L'; 254],
            0 => vec![b'L'; self.plan.options.name_max.min(255) as usize],
            1 => vec![b'l'; self.random.between(1, 200) as usize],
            2 if self.plan.has_any_byte_names() => b"\xFFraw\x80".to_vec(),
            3 => b"in/valid".to_vec(),
            4 => vec![b'l'; self.plan.options.name_max as usize + 1],
            _ => match NAMES[self.random.below(NAMES.len() as u64) as usize] {
                name if self.plan.foldable_names && !name.is_ascii() => NAMES[0].to_vec(),
                name => name.to_vec(),
            },
        }
    }

    /// A name in some directory, likely a new one.
    fn new_path(&mut self) -> Path {
        let (mut path, _) = self.descend(|kind| kind == FileKind::Directory, 0.45);
        if path.0.len() >= DEPTH_MAX {
            path.0.pop();
        }
        path.0.push(self.name());
        path
    }

    /// Something that exists, or now and then not.
    fn any_path(&mut self) -> Path {
        if self.random.chance(0.1) {
            return self.new_path();
        }
        self.descend(|_| true, 0.7).0
    }

    /// The name of an extended attribute.
    fn xattr(&mut self) -> u8 {
        let names = if self.plan.options.features.posix_acls { 6 } else { 4 };
        self.random.below(names) as u8
    }

    /// Likely a regular file.
    fn file(&mut self) -> Path {
        self.of(FileKind::Regular)
    }

    /// Likely something of this kind.
    fn of(&mut self, wanted: FileKind) -> Path {
        let mut last = Path::default();
        for _ in 0..4 {
            let (path, kind) = self.descend(|_| true, 0.8);
            if kind == wanted {
                return path;
            }
            last = path;
        }
        last
    }

    /// Goes down from the root through entries of the wanted kinds, each step with this
    /// probability.
    fn descend(&mut self, wanted: impl Fn(FileKind) -> bool, probability: f64) -> (Path, FileKind) {
        let mut path = Path::default();
        let (mut here, mut kind): (InodeNumber, _) = (self.side.fs.root(), FileKind::Directory);
        while kind == FileKind::Directory && self.random.chance(probability) {
            let mut entries = Vec::new();
            let listed = self.side.fs.read_dir(here, 0, &mut |entry| {
                if wanted(entry.kind) {
                    entries.push((entry.name.to_vec(), entry.inode, entry.kind));
                }
                ControlFlow::Continue(())
            });
            if listed.is_err() || entries.is_empty() {
                break;
            }
            let chosen = entries.swap_remove(self.random.below(entries.len() as u64) as usize);
            path.0.push(chosen.0);
            (here, kind) = (chosen.1, chosen.2);
        }
        (path, kind)
    }
}
