//! Runs operations on one file system, and on a file system and the model.

use nandkit_units::{Nanos, Payload, ReadInto, random};
use nandkit_vfs::acl::{self, AclEntry, AclSubject};
use nandkit_vfs::model::ModelFileSystem;
use nandkit_vfs::path::{CompareOptions, compare_trees, sorted_entries};
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, NewNode, Result,
    Timestamp,
};

use super::agree::agree;
use super::operation::XATTR_NAMES;
use super::{Operation, Path, Plan, Summary};
use crate::fs_suite::FsMaker;

/// A file system and what is retained in it.
pub(super) struct Side<F> {
    pub(super) fs: F,
    pub(super) retained: Vec<InodeNumber>,
}

/// The result of an operation without the parts that may differ (inode numbers, allocated bytes,
/// times of other kinds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Done,
    Count(usize),
    Bytes(Vec<u8>),
    Names(Vec<(Vec<u8>, FileKind)>),
    Attributes(Attributes),
}

/// A disagreement between the file system and the model.
#[derive(Clone, Debug)]
pub(super) struct Mismatch {
    pub(super) at: usize,
    pub(super) what: String,
}

/// Bytes that a tag and a place in the file choose.
fn bytes(tag: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    for (number, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&random::hash(tag, number as u64, 0).to_le_bytes()[..chunk.len()]);
    }
    bytes
}

fn xattr_name(number: u8) -> &'static [u8] {
    XATTR_NAMES.get(usize::from(number)).copied().unwrap_or(b"user.other")
}

/// A value for this attribute: an access control list for the two ACL attributes (a few of the
/// lists are invalid), random bytes for any other.
fn xattr_value(name: &[u8], length: u16, tag: u64) -> Vec<u8> {
    if name != acl::ACCESS && name != acl::DEFAULT {
        return bytes(tag, u32::from(length));
    }
    let users = (0..length % 5).map(|at| AclSubject::User(u32::from(at) * 1000));
    let groups = (0..length % 3).map(|at| AclSubject::Group(u32::from(at) + 7));
    let named = length % 5 + length % 3 > 0;
    let has_mask = if length % 16 == 7 { !named } else { named };
    let subjects = [AclSubject::Owner]
        .into_iter()
        .chain(users)
        .chain([AclSubject::OwningGroup])
        .chain(groups)
        .chain(has_mask.then_some(AclSubject::Mask))
        .chain([AclSubject::Others]);
    let entry = |(at, subject)| AclEntry { subject, permissions: (tag >> (3 * at) & 7) as u8 };
    acl::encode(&subjects.enumerate().map(entry).collect::<Vec<_>>())
}

fn not_supported(what: &str) -> FsError {
    FsError::new(ErrorKind::NotSupported, what)
}

impl<F: FileSystem> Side<F> {
    pub(super) fn new(fs: F) -> Self {
        Self { fs, retained: Vec::new() }
    }

    fn resolve(&self, path: &Path) -> Result<InodeNumber> {
        path.0.iter().try_fold(self.fs.root(), |here, name| self.fs.lookup(here, name))
    }

    /// The directory of the last name, and the name; the root has the empty name in itself.
    fn place<'p>(&self, path: &'p Path) -> Result<(InodeNumber, &'p [u8])> {
        let Some((name, parents)) = path.0.split_last() else { return Ok((self.fs.root(), b"")) };
        let directory = parents.iter().try_fold(self.fs.root(), |here, name| self.fs.lookup(here, name))?;
        Ok((directory, name))
    }

    fn changes(&mut self) -> Result<&mut dyn Changes> {
        self.fs.changes().ok_or_else(|| FsError::new(ErrorKind::ReadOnly, "mounted read-only"))
    }

    fn retained(&self, slot: usize) -> Result<InodeNumber> {
        self.retained.get(slot).copied().ok_or_else(|| FsError::new(ErrorKind::InvalidArgument, "no such slot"))
    }

    fn read(&self, inode: InodeNumber, offset: u64, length: u32) -> Result<Value> {
        let mut bytes = vec![0; length as usize];
        let count = self.fs.read(inode, offset, ReadInto::Bytes(&mut bytes))?;
        bytes.truncate(count);
        Ok(Value::Bytes(bytes))
    }

    fn change(&mut self, path: &Path, change: &AttributeChange) -> Result<Value> {
        let inode = self.resolve(path)?;
        Ok(Value::Attributes(self.changes()?.set_attributes(inode, change)?))
    }

    /// Does one operation. `Remount` and `Compare` are the caller's.
    pub(super) fn apply(&mut self, operation: &Operation) -> Result<Value> {
        match operation {
            Operation::Create { path, kind, tag } => {
                let (directory, name) = self.place(path)?;
                let target = if *kind == FileKind::Symlink { bytes(*tag, 1 + (*tag % 90) as u32) } else { Vec::new() };
                let target: Vec<u8> = target.into_iter().map(|byte| b'a' + byte % 26).collect();
                let mode = (*tag & 0o777) as u16;
                // Small numbers and large ones, within the 12 and 20 bits of Linux.
                let bits = if tag & 1 == 0 { (0xFF, 0xFF) } else { (0xFFF, 0xF_FFFF) };
                let device = match kind {
                    FileKind::BlockDevice | FileKind::CharacterDevice => {
                        (tag >> 52 & bits.0) << 32 | (tag >> 20 & bits.1)
                    }
                    _ => 0,
                };
                let node = NewNode { kind: *kind, mode, device, target: &target, ..NewNode::FILE };
                self.changes()?.create(directory, name, &node).map(|_| Value::Done)
            }
            Operation::Write { path, offset, length, tag } => {
                let inode = self.resolve(path)?;
                self.changes()?.write(inode, *offset, Payload::Bytes(&bytes(*tag, *length))).map(Value::Count)
            }
            Operation::Read { path, offset, length } => self.read(self.resolve(path)?, *offset, *length),
            Operation::ReadLink { path } => {
                let inode = self.resolve(path)?;
                let symlinks = self.fs.symlinks().ok_or_else(|| not_supported("symbolic links"))?;
                symlinks.read_link(inode).map(Value::Bytes)
            }
            Operation::Resize { path, size } => self.resize(path, *size),
            Operation::Remove { path } => {
                let (directory, name) = self.place(path)?;
                self.changes()?.remove(directory, name).map(|()| Value::Done)
            }
            Operation::Rename { from, to, flags } => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                self.changes()?.rename(from, to, *flags).map(|()| Value::Done)
            }
            Operation::Link { from, to } => {
                let (inode, (directory, name)) = (self.resolve(from)?, self.place(to)?);
                let links = self.changes()?.links().ok_or_else(|| not_supported("hard links"))?;
                links.link(inode, directory, name).map(|()| Value::Done)
            }
            Operation::SetMode { path, mode } => {
                self.change(path, &AttributeChange { mode: Some(*mode), ..Default::default() })
            }
            Operation::SetOwner { path, uid, gid } => {
                self.change(path, &AttributeChange { uid: Some(*uid), gid: Some(*gid), ..Default::default() })
            }
            Operation::SetModified { path, seconds } => {
                let modified = Some(Timestamp(seconds.saturating_mul(1_000_000_000) + 987_654_321));
                self.change(path, &AttributeChange { modified, ..Default::default() })
            }
            Operation::Stat { path } => self.fs.stat(self.resolve(path)?).map(Value::Attributes),
            Operation::List { path } => {
                let entries = sorted_entries(&self.fs, self.resolve(path)?)?;
                Ok(Value::Names(entries.into_iter().map(|entry| (entry.name, entry.kind)).collect()))
            }
            Operation::Sync { path } => {
                let inode = path.as_ref().map(|path| self.resolve(path)).transpose()?;
                self.changes()?.sync(inode).map(|()| Value::Done)
            }
            other => self.apply_capability(other),
        }
    }

    fn apply_capability(&mut self, operation: &Operation) -> Result<Value> {
        match operation {
            Operation::SetXattr { path, name, length, tag } => {
                let inode = self.resolve(path)?;
                let changes = self.changes()?.xattr_changes().ok_or_else(|| not_supported("extended attributes"))?;
                let name = xattr_name(*name);
                changes.set_xattr(inode, name, &xattr_value(name, *length, *tag))?;
            }
            Operation::RemoveXattr { path, name } => {
                let inode = self.resolve(path)?;
                let changes = self.changes()?.xattr_changes().ok_or_else(|| not_supported("extended attributes"))?;
                changes.remove_xattr(inode, xattr_name(*name))?;
            }
            Operation::Xattr { path, name } => {
                let inode = self.resolve(path)?;
                let xattrs = self.fs.xattrs().ok_or_else(|| not_supported("extended attributes"))?;
                return xattrs.xattr(inode, xattr_name(*name)).map(Value::Bytes);
            }
            Operation::Allocate { path, offset, length, keep_size } => {
                let inode = self.resolve(path)?;
                let allocation = self.changes()?.allocation().ok_or_else(|| not_supported("allocation"))?;
                allocation.allocate(inode, *offset, *length, *keep_size)?;
            }
            Operation::Punch { path, offset, length } => {
                let inode = self.resolve(path)?;
                let holes = self.changes()?.holes().ok_or_else(|| not_supported("holes"))?;
                holes.punch_hole(inode, *offset, *length)?;
            }
            Operation::Retain { path } => {
                let inode = self.resolve(path)?;
                let open_files = self.changes()?.open_files().ok_or_else(|| not_supported("retained inodes"))?;
                open_files.retain(inode)?;
                self.retained.push(inode);
            }
            Operation::Release { slot } => {
                let inode = self.retained(*slot)?;
                self.retained.remove(*slot);
                let open_files = self.changes()?.open_files().ok_or_else(|| not_supported("retained inodes"))?;
                open_files.release(inode)?;
            }
            Operation::WriteRetained { slot, offset, length, tag } => {
                let inode = self.retained(*slot)?;
                let data = bytes(*tag, *length);
                return self.changes()?.write(inode, *offset, Payload::Bytes(&data)).map(Value::Count);
            }
            Operation::ReadRetained { slot } => return self.read(self.retained(*slot)?, 0, 1 << 18),
            _ => {}
        }
        Ok(Value::Done)
    }

    fn resize(&mut self, path: &Path, size: u64) -> Result<Value> {
        let inode = self.resolve(path)?;
        let before = self.fs.stat(inode)?.size;
        // POSIX leaves open whether the same size moves the time of modification.
        let modified = (before == size).then_some(Timestamp(1_000_000_000_000_000_000));
        let change = AttributeChange { size: Some(size), modified, ..Default::default() };
        self.changes()?.set_attributes(inode, &change).map(Value::Attributes)
    }
}

/// Runs operations on a new volume and on the model until they disagree.
pub(super) fn execute<M: FsMaker>(
    maker: &M,
    plan: &Plan,
    operations: &[Operation],
) -> std::result::Result<Summary, Mismatch> {
    let mut at = 0;
    let run = std::panic::AssertUnwindSafe(|| Pair::new(maker, plan).run(operations, &mut at));
    match std::panic::catch_unwind(run) {
        Ok(Ok(summary)) => Ok(summary),
        Ok(Err(what)) => Err(Mismatch { at, what }),
        Err(_) => Err(Mismatch { at, what: "the file system panicked".into() }),
    }
}

struct Pair<'a, M: FsMaker> {
    maker: &'a M,
    plan: &'a Plan,
    /// `None` only while it is mounted again.
    fs: Option<Side<M::Fs>>,
    model: Side<ModelFileSystem>,
    summary: Summary,
    /// The longest time that one operation took on the shared clock: how far apart times of
    /// modification may be.
    slowest: Nanos,
}

impl<'a, M: FsMaker> Pair<'a, M> {
    fn new(maker: &'a M, plan: &'a Plan) -> Self {
        let fs = maker.make(plan.volume_size);
        let model = ModelFileSystem::new(plan.options.with_capacity(u64::MAX >> 20), maker.clock(&fs));
        let (fs, model) = (Some(Side::new(fs)), Side::new(model));
        Self { maker, plan, fs, model, summary: Summary::default(), slowest: Nanos::ZERO }
    }

    fn fs(&mut self) -> &mut Side<M::Fs> {
        self.fs.as_mut().expect("mounted between operations")
    }

    fn run(mut self, operations: &[Operation], at: &mut usize) -> std::result::Result<Summary, String> {
        for (number, operation) in operations.iter().enumerate() {
            *at = number;
            match operation {
                Operation::Compare => self.compare()?,
                Operation::Remount => {
                    self.remount()?;
                    self.compare()?;
                }
                operation => self.step(operation)?,
            }
            self.summary.operations += 1;
        }
        Ok(self.summary)
    }

    fn step(&mut self, operation: &Operation) -> std::result::Result<(), String> {
        let clock = self.model.fs.clock().clone();
        let before = clock.now();
        let retained = self.fs().retained.len();
        let found = self.fs().apply(operation);
        self.slowest = self.slowest.max(clock.now().since(before));
        let ran_out = match (&found, operation) {
            (Err(error), _) => error.kind == ErrorKind::NoSpace,
            (Ok(Value::Count(count)), Operation::Write { length, .. } | Operation::WriteRetained { length, .. }) => {
                *count < *length as usize
            }
            _ => false,
        };
        if ran_out {
            return self.follow_a_full_volume(operation, &found);
        }
        let expected = self.model.apply(operation);
        self.summary.errors += u32::from(expected.is_err());
        if self.fs().retained.len() != self.model.retained.len() {
            self.fs().retained.truncate(retained);
        }
        agree(operation, &self.plan.options, &found, &expected, self.slowest)
            .map_err(|what| format!("{operation}: {what}"))
    }

    /// The model has space without end: where the volume is full, the model does what the volume
    /// did.
    fn follow_a_full_volume(
        &mut self,
        operation: &Operation,
        found: &Result<Value>,
    ) -> std::result::Result<(), String> {
        self.summary.no_space += 1;
        let status = self.fs().fs.volume().map_err(|error| format!("volume: {error}"))?;
        let free = status.blocks_free.saturating_mul(u64::from(status.block_size));
        // The bytes that are written anew, and the hole before them, which FAT fills.
        let anew = |inode: Result<InodeNumber>, end: u64, length: u64| {
            let size = inode.and_then(|inode| self.model.fs.stat(inode)).map_or(0, |found| found.size);
            end.saturating_sub(size).max(length)
        };
        let wanted = match operation {
            Operation::Write { path, offset, length, .. } => {
                anew(self.model.resolve(path), offset.saturating_add(u64::from(*length)), u64::from(*length))
            }
            Operation::WriteRetained { slot, offset, length, .. } => {
                anew(self.model.retained(*slot), offset.saturating_add(u64::from(*length)), u64::from(*length))
            }
            Operation::Resize { path, size } => anew(self.model.resolve(path), *size, 0),
            Operation::Allocate { path, offset, length, .. } => {
                anew(self.model.resolve(path), offset.saturating_add(*length), *length)
            }
            _ => 0,
        };
        if free > wanted.saturating_add(self.plan.space_slack) {
            return Err(format!("{operation}: {found:?}, but {free} bytes are free"));
        }
        let Ok(Value::Count(count)) = found else { return Ok(()) };
        let mut done = operation.clone();
        if let Operation::Write { length, .. } | Operation::WriteRetained { length, .. } = &mut done {
            *length = u32::try_from(*count).unwrap_or(*length);
        }
        match self.model.apply(&done) {
            Ok(Value::Count(same)) if same == *count => Ok(()),
            other => Err(format!("{operation} took {count} bytes, the model says {other:?}")),
        }
    }

    fn remount(&mut self) -> std::result::Result<(), String> {
        let synced = self.fs().changes().and_then(|changes| changes.sync(None));
        synced.map_err(|error| format!("sync before the remount: {error}"))?;
        let maker = self.maker;
        self.fs = self.fs.take().map(|side| Side::new(maker.remount(side.fs)));
        self.model.fs.remount();
        self.model.retained.clear();
        Ok(())
    }

    fn compare(&mut self) -> std::result::Result<(), String> {
        self.summary.comparisons += 1;
        let features = self.plan.options.features;
        let mut options = CompareOptions::for_features(&features, &features);
        options.modified_slack_ns = options.modified_slack_ns.map(|slack| slack.saturating_add(self.slowest.get() + 1));
        let Some(side) = &self.fs else { return Err("not mounted".into()) };
        let model = &self.model.fs;
        let found = compare_trees((&side.fs, side.fs.root()), (model, model.root()), options);
        match found.first() {
            None => Ok(()),
            Some(first) => {
                Err(format!("{} differences (first: file system, second: model), the first: {first}", found.len()))
            }
        }
    }
}
