//! The writing side and the capabilities of a wrapped file system.

use nandkit_units::Payload;

use super::{Arguments, Call, CallOutput, Hook, Method, Wrapped, around, gone, nothing};
use crate::{
    Adopt, AdoptedRange, Allocation, AtomicWrites, AttributeChange, Attributes, Changes, FileSystem, Holes,
    Housekeeping, InodeNumber, Links, NewNode, OpenFiles, RenameFlags, Result, Symlinks, XattrChanges, Xattrs,
};

impl<F: FileSystem, H: Hook> Wrapped<F, H> {
    /// Makes a change between the hook's `before` and `after`.
    fn change<T>(
        &mut self,
        call: Call<'_>,
        outcome: impl FnOnce(&T) -> CallOutput,
        make: impl FnOnce(&mut dyn Changes) -> Result<T>,
    ) -> Result<T> {
        let inner = &mut self.inner;
        around(&self.hook, call, outcome, || make(inner.changes().ok_or_else(gone)?))
    }
}

impl<F: FileSystem, H: Hook> Changes for Wrapped<F, H> {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        let call = Call { arguments: Arguments::Create(node), ..Call::named(Method::Create, directory, name) };
        self.change(call, CallOutput::found, |changes| changes.create(directory, name, node))
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        let arguments = Arguments::Write(data);
        let call = Call { offset, length: data.len() as u64, arguments, ..Call::of(Method::Write, inode) };
        self.change(call, CallOutput::bytes, |changes| changes.write(inode, offset, data))
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        let arguments = Arguments::SetAttributes(change);
        let call = Call { offset: change.size.unwrap_or(0), arguments, ..Call::of(Method::SetAttributes, inode) };
        self.change(call, nothing, |changes| changes.set_attributes(inode, change))
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let call = Call::named(Method::Remove, directory, name);
        self.change(call, nothing, |changes| changes.remove(directory, name))
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        let arguments = Arguments::Rename { directory: to.0, name: to.1, flags };
        let call = Call { arguments, ..Call::named(Method::Rename, from.0, from.1) };
        self.change(call, nothing, |changes| changes.rename(from, to, flags))
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        let arguments = if inode.is_some() { Arguments::None } else { Arguments::SyncAll };
        let call = Call { arguments, ..Call::of(Method::Sync, inode.unwrap_or(InodeNumber(0))) };
        self.change(call, nothing, |changes| changes.sync(inode))
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        if self.inner.changes()?.open_files().is_some() { Some(self) } else { None }
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        if self.inner.changes()?.links().is_some() { Some(self) } else { None }
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        if self.inner.changes()?.xattr_changes().is_some() { Some(self) } else { None }
    }

    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        if self.inner.changes()?.allocation().is_some() { Some(self) } else { None }
    }

    fn holes(&mut self) -> Option<&mut dyn Holes> {
        if self.inner.changes()?.holes().is_some() { Some(self) } else { None }
    }

    fn adopt(&mut self) -> Option<&mut dyn Adopt> {
        if self.inner.changes()?.adopt().is_some() { Some(self) } else { None }
    }

    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        if self.inner.changes()?.atomic_writes().is_some() { Some(self) } else { None }
    }

    /// Hooks do not see housekeeping: it is no call of a user.
    fn housekeeping(&mut self) -> Option<&mut dyn Housekeeping> {
        self.inner.changes()?.housekeeping()
    }
}

impl<F: FileSystem, H: Hook> Symlinks for Wrapped<F, H> {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let call = Call::of(Method::ReadLink, inode);
        around(&self.hook, call, nothing, || self.inner.symlinks().ok_or_else(gone)?.read_link(inode))
    }
}

impl<F: FileSystem, H: Hook> OpenFiles for Wrapped<F, H> {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        let call = Call::of(Method::Retain, inode);
        self.change(call, nothing, |changes| changes.open_files().ok_or_else(gone)?.retain(inode))
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let call = Call::of(Method::Release, inode);
        self.change(call, nothing, |changes| changes.open_files().ok_or_else(gone)?.release(inode))
    }
}

impl<F: FileSystem, H: Hook> Links for Wrapped<F, H> {
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let call = Call { arguments: Arguments::Link(directory), ..Call::named(Method::Link, inode, name) };
        self.change(call, nothing, |changes| changes.links().ok_or_else(gone)?.link(inode, directory, name))
    }
}

impl<F: FileSystem, H: Hook> Xattrs for Wrapped<F, H> {
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>> {
        let call = Call::named(Method::Xattr, inode, name);
        around(&self.hook, call, nothing, || self.inner.xattrs().ok_or_else(gone)?.xattr(inode, name))
    }

    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let call = Call::of(Method::XattrNames, inode);
        around(&self.hook, call, nothing, || self.inner.xattrs().ok_or_else(gone)?.xattr_names(inode))
    }
}

impl<F: FileSystem, H: Hook> XattrChanges for Wrapped<F, H> {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        let call = Call { arguments: Arguments::SetXattr(value), ..Call::named(Method::SetXattr, inode, name) };
        self.change(call, nothing, |changes| changes.xattr_changes().ok_or_else(gone)?.set_xattr(inode, name, value))
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        let call = Call::named(Method::RemoveXattr, inode, name);
        self.change(call, nothing, |changes| changes.xattr_changes().ok_or_else(gone)?.remove_xattr(inode, name))
    }
}

impl<F: FileSystem, H: Hook> Allocation for Wrapped<F, H> {
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        let arguments = Arguments::Allocate { keep_size };
        let call = Call { offset, length, arguments, ..Call::of(Method::Allocate, inode) };
        self.change(call, nothing, |changes| {
            changes.allocation().ok_or_else(gone)?.allocate(inode, offset, length, keep_size)
        })
    }
}

impl<F: FileSystem, H: Hook> Holes for Wrapped<F, H> {
    fn punch_hole(&mut self, inode: InodeNumber, offset: u64, length: u64) -> Result<()> {
        let call = Call { offset, length, ..Call::of(Method::PunchHole, inode) };
        self.change(call, nothing, |changes| changes.holes().ok_or_else(gone)?.punch_hole(inode, offset, length))
    }
}

impl<F: FileSystem, H: Hook> Adopt for Wrapped<F, H> {
    fn unit(&mut self) -> u32 {
        self.inner.changes().and_then(Changes::adopt).map_or(0, |adopt| adopt.unit())
    }

    fn adopt(&mut self, target: InodeNumber, places: &[AdoptedRange]) -> Result<()> {
        let call = Call { arguments: Arguments::Adopt(places), ..Call::of(Method::Adopt, target) };
        self.change(call, nothing, |changes| changes.adopt().ok_or_else(gone)?.adopt(target, places))
    }
}

impl<F: FileSystem, H: Hook> AtomicWrites for Wrapped<F, H> {
    fn begin_atomic(&mut self, inode: InodeNumber) -> Result<InodeNumber> {
        let call = Call::of(Method::BeginAtomic, inode);
        self.change(call, CallOutput::found, |changes| changes.atomic_writes().ok_or_else(gone)?.begin_atomic(inode))
    }

    fn commit_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        let call = Call::of(Method::CommitAtomic, draft);
        self.change(call, nothing, |changes| changes.atomic_writes().ok_or_else(gone)?.commit_atomic(draft))
    }

    fn abort_atomic(&mut self, draft: InodeNumber) -> Result<()> {
        let call = Call::of(Method::AbortAtomic, draft);
        self.change(call, nothing, |changes| changes.atomic_writes().ok_or_else(gone)?.abort_atomic(draft))
    }
}
