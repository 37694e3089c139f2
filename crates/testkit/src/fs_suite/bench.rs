//! A mounted volume for checks, and short forms of its operations, whose errors say what was done.

use std::fmt::Debug;
use std::ops::ControlFlow;

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::path::OwnedEntry;
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, ErrorKind, Features, FileSystem, FsError, InodeNumber, NewNode, OpenFiles,
    VolumeStatus,
};

use super::{FsMaker, VolumeSize};

/// A volume that can be mounted again, whatever its type.
pub(super) trait Subject {
    fn fs(&self) -> &dyn FileSystem;
    fn changes(&mut self) -> Option<&mut dyn Changes>;
    fn remount(&mut self);
}

pub(super) struct Mounted<'a, M: FsMaker> {
    maker: &'a M,
    /// Empty only while it is mounted again.
    fs: Option<M::Fs>,
}

impl<'a, M: FsMaker> Mounted<'a, M> {
    pub(super) fn new(maker: &'a M, volume: VolumeSize) -> Self {
        Self { maker, fs: Some(maker.make(volume)) }
    }
}

impl<M: FsMaker> Subject for Mounted<'_, M> {
    fn fs(&self) -> &dyn FileSystem {
        self.fs.as_ref().expect("the file system is mounted")
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        self.fs.as_mut().and_then(FileSystem::changes)
    }

    fn remount(&mut self) {
        self.fs = self.fs.take().map(|fs| self.maker.remount(fs));
    }
}

pub(super) type CheckResult<T = ()> = Result<T, String>;

/// A check's view of the volume.
pub(super) struct Bench<'a> {
    subject: &'a mut dyn Subject,
    pub(super) root: InodeNumber,
    pub(super) features: Features,
}

impl<'a> Bench<'a> {
    pub(super) fn new(subject: &'a mut dyn Subject) -> CheckResult<Self> {
        let root = subject.fs().root();
        let features = subject.fs().volume().map_err(|error| format!("volume: {error}"))?.features;
        if subject.changes().is_none() {
            return Err("the file system is mounted read-only".into());
        }
        Ok(Self { subject, root, features })
    }

    pub(super) fn fs(&self) -> &dyn FileSystem {
        self.subject.fs()
    }

    pub(super) fn changes(&mut self) -> &mut dyn Changes {
        self.subject.changes().expect("Bench::new found it writable")
    }

    pub(super) fn volume(&self) -> CheckResult<VolumeStatus> {
        ok(self.fs().volume(), "volume")
    }

    /// Syncs and mounts again.
    pub(super) fn remount(&mut self) -> CheckResult {
        ok(self.changes().sync(None), "sync of everything")?;
        self.subject.remount();
        self.root = self.fs().root();
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        directory: InodeNumber,
        name: &[u8],
        node: &NewNode<'_>,
    ) -> CheckResult<InodeNumber> {
        ok(self.changes().create(directory, name, node), format_args!("create {}", show(name)))
    }

    /// A new file in the root directory with this content.
    pub(super) fn file(&mut self, name: &[u8], content: &[u8]) -> CheckResult<InodeNumber> {
        let inode = self.create(self.root, name, &NewNode::FILE)?;
        self.write(inode, 0, content)?;
        Ok(inode)
    }

    pub(super) fn directory(&mut self, parent: InodeNumber, name: &[u8]) -> CheckResult<InodeNumber> {
        self.create(parent, name, &NewNode::DIRECTORY)
    }

    pub(super) fn write(&mut self, inode: InodeNumber, offset: u64, data: &[u8]) -> CheckResult {
        let count = ok(
            self.changes().write(inode, offset, Payload::Bytes(data)),
            format_args!("write of {} bytes at {offset}", data.len()),
        )?;
        if count != data.len() {
            return Err(format!("write of {} bytes at {offset} took only {count} with space left", data.len()));
        }
        Ok(())
    }

    /// The capability, which the file system is known to have.
    pub(super) fn open_files(&mut self) -> &mut dyn OpenFiles {
        self.changes().open_files().expect("the check asked before")
    }

    /// Takes away a name in the root directory.
    pub(super) fn remove(&mut self, name: &[u8], what: &str) -> CheckResult {
        let root = self.root;
        ok(self.changes().remove(root, name), format_args!("{what} ({})", show(name)))
    }

    pub(super) fn resize(&mut self, inode: InodeNumber, size: u64) -> CheckResult<Attributes> {
        let change = AttributeChange { size: Some(size), ..Default::default() };
        ok(self.changes().set_attributes(inode, &change), format_args!("size to {size}"))
    }

    pub(super) fn stat(&self, inode: InodeNumber) -> CheckResult<Attributes> {
        ok(self.fs().stat(inode), format_args!("stat of inode {}", inode.0))
    }

    pub(super) fn lookup(&self, directory: InodeNumber, name: &[u8]) -> CheckResult<InodeNumber> {
        ok(self.fs().lookup(directory, name), format_args!("lookup of {}", show(name)))
    }

    /// The content of a file; its size in `stat` must be the number of bytes that can be read.
    pub(super) fn content(&self, inode: InodeNumber) -> CheckResult<Vec<u8>> {
        let size = self.stat(inode)?.size;
        let mut bytes = vec![0xEE; size as usize + 100];
        let count = ok(self.fs().read(inode, 0, ReadInto::Bytes(&mut bytes)), "read of the whole file")?;
        if count as u64 != size {
            return Err(format!("stat says {size} bytes, read delivers {count}"));
        }
        bytes.truncate(count);
        Ok(bytes)
    }

    pub(super) fn expect_content(&self, inode: InodeNumber, expected: &[u8], when: &str) -> CheckResult {
        let found = self.content(inode)?;
        if found.len() != expected.len() {
            return Err(format!("{when}: {} bytes, expected {}", found.len(), expected.len()));
        }
        match found.iter().zip(expected).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(format!("{when}: byte {at} is {:#04x}, expected {:#04x}", found[at], expected[at])),
        }
    }

    /// Entries behind a cookie, at most `count`, with their cookies, in the order of the listing.
    pub(super) fn list(
        &self,
        directory: InodeNumber,
        cookie: u64,
        count: usize,
    ) -> CheckResult<Vec<(u64, OwnedEntry)>> {
        let mut found = Vec::new();
        let listing = self.fs().read_dir(directory, cookie, &mut |entry| {
            found.push((entry.cookie, OwnedEntry { name: entry.name.to_vec(), inode: entry.inode, kind: entry.kind }));
            if found.len() >= count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        ok(listing, format_args!("read_dir of inode {} after cookie {cookie}", directory.0))?;
        if found.len() > count {
            return Err(format!("read_dir went on after the break: {} entries, asked for {count}", found.len()));
        }
        Ok(found)
    }

    /// All names of a directory, sorted.
    pub(super) fn names(&self, directory: InodeNumber) -> CheckResult<Vec<Vec<u8>>> {
        let mut names: Vec<Vec<u8>> =
            self.list(directory, 0, usize::MAX)?.into_iter().map(|(_, entry)| entry.name).collect();
        names.sort();
        Ok(names)
    }

    pub(super) fn expect_names(&self, directory: InodeNumber, expected: &[&[u8]], when: &str) -> CheckResult {
        let names = self.names(directory)?;
        let shown = |names: &mut dyn Iterator<Item = &[u8]>| names.map(show).collect::<Vec<_>>().join(" ");
        if names.iter().map(Vec::as_slice).ne(expected.iter().copied()) {
            let found = shown(&mut names.iter().map(Vec::as_slice));
            return Err(format!("{when}: names {found}; expected {}", shown(&mut expected.iter().copied())));
        }
        Ok(())
    }
}

/// The value, or a message with what was done.
pub(super) fn ok<T>(result: Result<T, FsError>, what: impl std::fmt::Display) -> CheckResult<T> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// The call must fail with one of these kinds.
pub(super) fn fails<T: Debug>(
    result: Result<T, FsError>,
    kinds: &[ErrorKind],
    what: impl std::fmt::Display,
) -> CheckResult {
    match result {
        Err(error) if kinds.contains(&error.kind) => Ok(()),
        Err(error) => Err(format!("{what}: {error}; expected {kinds:?}")),
        Ok(value) => Err(format!("{what}: {value:?}; expected {kinds:?}")),
    }
}

/// A name for messages.
pub(super) fn show(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name.get(..24).unwrap_or(name)).into_owned();
    if name.len() > 24 { format!("\"{text}...\" ({} bytes)", name.len()) } else { format!("\"{text}\"") }
}

/// Bytes that differ from place to place and by `seed`; none is zero.
pub(super) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| (nandkit_units::random::hash(seed, at, 7) as u8).max(1)).collect()
}
