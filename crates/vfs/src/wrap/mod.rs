//! A wrapper that reports every call to a file system.
//!
//! [`Wrapped`] passes every call on and reports it to a [`Hook`] before and after. It offers the
//! capabilities of the wrapped file system and reports their calls too.

mod changes;

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use nandkit_units::{Payload, ReadInto};

use crate::{
    AdoptedRange, AttributeChange, Attributes, Changes, DirectoryEntry, ErrorKind, Extents, FileExtent, FileSystem,
    FsError, InodeNumber, NewNode, RenameFlags, Result, Symlinks, VolumeStatus, Xattrs,
};

/// Which method was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names of the methods")]
#[repr(u8)]
pub enum Method {
    Volume,
    Lookup,
    Stat,
    ReadDir,
    Read,
    DataAfter,
    ReadLink,
    Create,
    Write,
    SetAttributes,
    Remove,
    Rename,
    Sync,
    Retain,
    Release,
    Link,
    Xattr,
    XattrNames,
    SetXattr,
    RemoveXattr,
    Allocate,
    PunchHole,
    ExtentAfter,
    Adopt,
    BeginAtomic,
    CommitAtomic,
    AbortAtomic,
}

/// A call, as hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The called method.
    pub method: Method,
    /// The inode, or the directory of the (first) name; 0 if there is none.
    pub inode: InodeNumber,
    /// The (first) name; empty if there is none.
    pub name: &'a [u8],
    /// The offset or cookie; 0 if there is none.
    pub offset: u64,
    /// The number of bytes requested or supplied; 0 if there are none.
    pub length: u64,
    /// The remaining arguments.
    pub arguments: Arguments<'a>,
}

/// Arguments of a call other than inode, name, offset and length.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "as in the methods")]
pub enum Arguments<'a> {
    /// No further arguments.
    None,
    Create(&'a NewNode<'a>),
    Write(Payload<'a>),
    SetAttributes(&'a AttributeChange),
    Rename {
        directory: InodeNumber,
        name: &'a [u8],
        flags: RenameFlags,
    },
    /// The directory of the existing name.
    Link(InodeNumber),
    /// The call concerns the whole volume instead of the inode.
    SyncAll,
    SetXattr(&'a [u8]),
    Allocate {
        keep_size: bool,
    },
    Adopt(&'a [AdoptedRange]),
}

/// The result of a successful call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOutput {
    /// The number of bytes read or written.
    pub bytes: u64,
    /// The inode that was found or created.
    pub inode: Option<InodeNumber>,
    /// The part of a directory that was listed.
    pub listed: Option<Listed>,
}

/// The part of a directory that one call listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The number of entries.
    pub entries: u64,
    /// Whether the receiver stopped the listing.
    pub stopped: bool,
    /// The cookies of the last two entries, in order; 0 for a missing one. A listing continues at
    /// one of them.
    pub cookies: [u64; 2],
}

impl Listed {
    /// Counts one more entry.
    pub const fn add(&mut self, cookie: u64, stopped: bool) {
        self.entries += 1;
        self.stopped = stopped;
        self.cookies = [self.cookies[1], cookie];
    }
}

impl CallOutput {
    const NOTHING: Self = Self { bytes: 0, inode: None, listed: None };

    fn bytes(count: &usize) -> Self {
        Self { bytes: *count as u64, ..Self::NOTHING }
    }

    fn found(inode: &InodeNumber) -> Self {
        Self { inode: Some(*inode), ..Self::NOTHING }
    }
}

impl<'a> Call<'a> {
    fn of(method: Method, inode: InodeNumber) -> Self {
        Self { method, inode, name: &[], offset: 0, length: 0, arguments: Arguments::None }
    }

    fn named(method: Method, inode: InodeNumber, name: &'a [u8]) -> Self {
        Self { name, ..Self::of(method, inode) }
    }
}

/// Observes calls. Reads come from several threads, so hooks keep their state behind atomics or a
/// mutex.
pub trait Hook: Send + Sync {
    /// Called before the call; an error becomes the call's result, and the call is not made.
    fn before(&self, call: &Call<'_>) -> Result<()> {
        let _ = call;
        Ok(())
    }

    /// Called after the call, also if `before` refused it, with its result.
    fn after(&self, call: &Call<'_>, outcome: std::result::Result<CallOutput, ErrorKind>) {
        let _ = (call, outcome);
    }
}

impl<H: Hook + ?Sized> Hook for Arc<H> {
    fn before(&self, call: &Call<'_>) -> Result<()> {
        (**self).before(call)
    }

    fn after(&self, call: &Call<'_>, outcome: std::result::Result<CallOutput, ErrorKind>) {
        (**self).after(call, outcome);
    }
}

/// A file system with a hook.
#[derive(Clone, Debug)]
pub struct Wrapped<F, H> {
    inner: F,
    hook: H,
}

impl<F, H> Wrapped<F, H> {
    /// Wraps `inner` and reports its calls to `hook`.
    pub fn new(inner: F, hook: H) -> Self {
        Self { inner, hook }
    }

    /// The wrapped file system.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The hook, with its state.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    /// Unwraps the file system.
    pub fn into_inner(self) -> F {
        self.inner
    }
}

/// Makes a call between the hook's `before` and `after`; `outcome` converts a result for the hook.
fn around<H: Hook, T>(
    hook: &H,
    call: Call<'_>,
    outcome: impl FnOnce(&T) -> CallOutput,
    make: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let result = hook.before(&call).and_then(|()| make());
    hook.after(&call, result.as_ref().map(outcome).map_err(|error| error.kind));
    result
}

fn nothing<T>(_: &T) -> CallOutput {
    CallOutput::NOTHING
}

impl<F: FileSystem, H: Hook> FileSystem for Wrapped<F, H> {
    fn root(&self) -> InodeNumber {
        self.inner.root()
    }

    fn volume(&self) -> Result<VolumeStatus> {
        around(&self.hook, Call::of(Method::Volume, InodeNumber(0)), nothing, || self.inner.volume())
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let call = Call::named(Method::Lookup, directory, name);
        around(&self.hook, call, CallOutput::found, || self.inner.lookup(directory, name))
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        around(&self.hook, Call::of(Method::Stat, inode), nothing, || self.inner.stat(inode))
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let call = Call { offset: cookie, ..Call::of(Method::ReadDir, directory) };
        let listed = Cell::new(Listed::default());
        let outcome = |_: &()| CallOutput { listed: Some(listed.get()), ..CallOutput::NOTHING };
        around(&self.hook, call, outcome, || {
            self.inner.read_dir(directory, cookie, &mut |entry| {
                let (cookie, flow, mut so_far) = (entry.cookie, sink(entry), listed.get());
                so_far.add(cookie, flow.is_break());
                listed.set(so_far);
                flow
            })
        })
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        let call = Call { offset, length: into.len() as u64, ..Call::of(Method::Read, inode) };
        around(&self.hook, call, CallOutput::bytes, || self.inner.read(inode, offset, into))
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let call = Call { offset, ..Call::of(Method::DataAfter, inode) };
        around(&self.hook, call, nothing, || self.inner.data_after(inode, offset))
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        if self.inner.changes().is_some() { Some(self) } else { None }
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.inner.symlinks().is_some().then_some(self as &dyn Symlinks)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.inner.xattrs().is_some().then_some(self as &dyn Xattrs)
    }

    fn extents(&self) -> Option<&dyn Extents> {
        self.inner.extents().is_some().then_some(self as &dyn Extents)
    }
}

impl<F: FileSystem, H: Hook> Extents for Wrapped<F, H> {
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>> {
        let call = Call { offset, ..Call::of(Method::ExtentAfter, inode) };
        around(&self.hook, call, nothing, || self.inner.extents().ok_or_else(gone)?.extent_after(inode, offset))
    }
}

/// A capability disappeared after it was offered: the wrapped file system contradicts itself.
fn gone() -> FsError {
    FsError::new(ErrorKind::ReadOnly, "the wrapped file system no longer offers this")
}

#[cfg(test)]
mod tests;
