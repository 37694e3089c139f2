//! The file-system contract: inodes, names and bytes, and optional capabilities that only some
//! formats have.
//!
//! [`FileSystem`] is the reading side, which threads can share; a writable file system also offers
//! [`Changes`].

pub mod acl;
mod adopt;
mod atomic;
mod attributes;
mod boxed;
pub mod check;
mod error;
mod extents;
mod housekeeping;
pub mod model;
pub mod path;
pub mod probe;
pub mod source;
pub mod wrap;

pub use adopt::{Adopt, AdoptedRange};
pub use atomic::AtomicWrites;
pub use attributes::{
    AttributeChange, Attributes, DirectoryEntry, Features, FileKind, InodeNumber, NewNode, RenameFlags, Timestamp,
    VolumeStatus,
};
pub use error::{ErrorKind, FsError, Result};
pub use extents::{ExtentKind, Extents, FileExtent, all_extents};
pub use housekeeping::Housekeeping;

use std::ops::{ControlFlow, Range};

use nandkit_units::{Payload, ReadInto};

/// **Promises of the implementer.** No method panics, whatever the image holds: damage is an error
/// of kind [`ErrorKind::Corrupt`] that says what and where. Names are bytes without `/` and NUL,
/// not empty, not `.` or `..`; a name that the format cannot store is `InvalidName` or
/// `NameTooLong`. An inode number stays valid until the inode has lost its last name and is no
/// longer retained; a stale number is `NotFound`. File systems take the time from the clock they
/// were given, and advance it by the time their devices took.
///
/// **Cost.** The stated costs hold for inodes and directories that were used before; the first use
/// also reads the inode's metadata, in log-structured formats all its nodes. A method that must
/// make room also pays for cleaning. Any method that reads the device can return `Device`, and
/// `Corrupt` if it meets damage, even if its own list omits them.
pub trait FileSystem: Send + Sync {
    /// The inode of the root directory. Cost: none; no errors.
    fn root(&self) -> InodeNumber;

    /// Space, limits and features of the volume. Errors: `Corrupt`, `Device`. Cost: counters in
    /// memory, no device time.
    fn volume(&self) -> Result<VolumeStatus>;

    /// Looks up a name in a directory. Errors: `NotFound`, `NotADirectory`, `NameTooLong`,
    /// `Corrupt`, `Device`. Cost: a search in the directory's index, or a pass over its entries if
    /// the format has none (FAT).
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber>;

    /// An inode's attributes. Errors: `NotFound`, `Corrupt`, `Device`. Cost: constant.
    fn stat(&self, inode: InodeNumber) -> Result<Attributes>;

    /// Passes each entry after `cookie` to `sink` until `sink` breaks. Cookie 0 is the start; an
    /// entry's own cookie continues after it, even if entries were added or removed meanwhile
    /// (those may or may not appear; all others appear exactly once). `.` and `..` are not
    /// delivered. Errors: `NotFound`, `NotADirectory`, `Corrupt`, `Device`. Cost: proportional to
    /// the delivered entries.
    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Reads from `offset` on; returns the number of bytes read, fewer than asked only at the end
    /// of the file. Holes read as zeroes. The content of `into` past that number is unspecified.
    /// Errors: `NotFound`, `IsADirectory`, `Corrupt`, `Device`. Cost: the pages or nodes that hold
    /// the range, read whole and decompressed; nothing for holes.
    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize>;

    /// The next range of a regular file, at or after `offset`, that may hold bytes other than zero;
    /// `None` if only a hole or nothing follows.
    ///
    /// The range is not empty and lies within the file's size. Everything between `offset` and the
    /// range reads as zeroes; the range itself may contain zeroes too, because the format decides
    /// how it splits data into ranges. Repeated calls, each starting at the previous range's end,
    /// visit all data in ascending order. Default: the rest of the file is one range.
    ///
    /// Errors: `NotFound`, `IsADirectory`, `InvalidArgument` (another kind), `Corrupt`, `Device`.
    /// Cost: a search for the offset, and a look at each piece of the range and of the holes before
    /// it; no content is read.
    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let attributes = self.stat(inode)?;
        let refused = |kind| Err(FsError::new(kind, format!("inode {} is a {}", inode.0, attributes.kind)));
        match attributes.kind {
            FileKind::Regular => Ok((offset < attributes.size).then_some(offset..attributes.size)),
            FileKind::Directory => refused(ErrorKind::IsADirectory),
            _ => refused(ErrorKind::InvalidArgument),
        }
    }

    /// The writing side; `None` if mounted read-only. Cost: none, as for all methods that return a
    /// capability.
    fn changes(&mut self) -> Option<&mut dyn Changes>;

    /// Symbolic links, if the format has them.
    fn symlinks(&self) -> Option<&dyn Symlinks> {
        None
    }

    /// Extended attributes, if the format has them.
    fn xattrs(&self) -> Option<&dyn Xattrs> {
        None
    }

    /// The mapping from files to the device, if known.
    fn extents(&self) -> Option<&dyn Extents> {
        None
    }
}

/// The writing side of a file system.
///
/// **Promises.** Each method is atomic for its callers: it takes effect as a whole, or changes
/// nothing (a `write` that fills the device may have written its beginning, and returns how much).
/// Changes are durable after [`Changes::sync`]. After a power cut before that, each operation took
/// effect or did not, in the order that the format promises. A method returns `NoSpace` rather than
/// damage the volume. Each may also return `NotFound` (a stale inode), `Corrupt` and `Device`.
pub trait Changes: FileSystem {
    /// Creates an inode with a name. Errors: `Exists`, `NoSpace`, `NotSupported` (the kind, see
    /// [`Features`]), `InvalidName`, `NotADirectory`, `NameTooLong` (also a link's target),
    /// `InvalidArgument` (a target that is empty or holds NUL, a device number that the format
    /// cannot store). Cost: that of a lookup, and of writing an inode and an entry.
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber>;

    /// Writes at `offset`, growing the file as needed (a gap reads as zeroes); returns the number
    /// of bytes written: all, or fewer if space ran out after some. Errors: `NoSpace` (nothing
    /// written), `FileTooBig`, `IsADirectory`. Cost: the touched pages; a partly written page is
    /// read first if the format stores whole pages.
    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize>;

    /// Changes attributes; a new size truncates or extends the file. Values that the format cannot
    /// store are silently reduced to what it can, unless nothing at all could be changed
    /// (`NotSupported`). Further errors: `NoSpace`, `FileTooBig`, `IsADirectory` (a size). Cost:
    /// one inode written; for a size, the space that is freed or filled.
    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes>;

    /// Removes a name; the inode is freed with its last name unless it is retained. A directory
    /// must be empty. Errors: `NotFound`, `NotEmpty`. Cost: one entry written, and a pass over the
    /// inode's pieces to free its space.
    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()>;

    /// Gives an inode another name or directory. An existing target is replaced as POSIX says, or
    /// refused or exchanged, depending on `flags`. Errors: `NotFound`, `Exists`, `NotEmpty`,
    /// `IsADirectory`, `NotADirectory`, `InvalidArgument` (a directory into itself), `NoSpace`,
    /// `NotSupported` (an exchange, see [`Features`]). Cost: two entries written; for a directory
    /// that moves to another parent also the way up from there, or a pass over its subtree.
    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()>;

    /// Makes one inode durable, or with `None` everything. Errors: `NoSpace`, `Device`. Cost:
    /// writing what has not reached the device yet, and a flush.
    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()>;

    /// Inodes that stay in use without a name, if supported.
    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        None
    }

    /// Hard links, if the format has them.
    fn links(&mut self) -> Option<&mut dyn Links> {
        None
    }

    /// Changes of extended attributes, if the format has them.
    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        None
    }

    /// Allocation of space ahead, if the format can do it.
    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        None
    }

    /// Punching of holes, if the format can do it.
    fn holes(&mut self) -> Option<&mut dyn Holes> {
        None
    }

    /// Sharing other files' content without writing it, if the device can do it.
    fn adopt(&mut self) -> Option<&mut dyn Adopt> {
        None
    }

    /// Writes that take effect as a whole or not at all, if the format can do it.
    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        None
    }

    /// Background work for idle times, if there is any.
    fn housekeeping(&mut self) -> Option<&mut dyn Housekeeping> {
        None
    }
}

/// Symbolic links. [`Changes::create`] makes them.
pub trait Symlinks {
    /// The target of a symbolic link. Errors: `NotFound`, `InvalidArgument` if the inode is no
    /// link, `Corrupt`, `Device`. Cost: at most one read.
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>>;
}

/// Inodes that stay in use after their last name is removed, as POSIX requires for open files.
pub trait OpenFiles {
    /// Keeps an inode alive after its last name is removed, until it is released as often as it was
    /// retained, or the volume is mounted again. Errors: `NotFound`. Cost: constant.
    fn retain(&mut self, inode: InodeNumber) -> Result<()>;

    /// Undoes one retain; the last release of an inode without a name frees it. Errors: `NotFound`,
    /// `InvalidArgument` if the inode is not retained. Cost: that of a removal for the last
    /// release, else constant.
    fn release(&mut self, inode: InodeNumber) -> Result<()>;
}

/// Hard links.
pub trait Links {
    /// Gives an inode one more name. Errors: `Exists`, `IsADirectory`, `TooManyLinks`, `NoSpace`.
    /// Cost: one entry written.
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()>;
}

/// The name of an extended attribute, and its value or why that cannot be read.
pub type XattrPair = (Vec<u8>, Result<Vec<u8>>);

/// Reading of extended attributes. Names carry their prefix (xattr(7)): `user.`, `trusted.` and
/// `security.` with any name after it, and the two names of [`acl`] if [`Features::posix_acls`] is
/// set.
pub trait Xattrs {
    /// The value of an attribute. Errors: `NoAttribute`, `Corrupt`, `Device`. Cost: a look at each
    /// attribute of the inode.
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>>;
    /// The names of all attributes, in any order. Errors: `Device`. Cost: that of reading all
    /// attributes of the inode.
    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>>;
    /// All attributes in any order, each with its value or the error of reading it. File systems
    /// override it if finding one name takes a pass over all.
    fn all_xattrs(&self, inode: InodeNumber) -> Result<Vec<XattrPair>> {
        let pair = |name: Vec<u8>| {
            let value = self.xattr(inode, &name);
            (name, value)
        };
        Ok(self.xattr_names(inode)?.into_iter().map(pair).collect())
    }
}

/// Changes of extended attributes.
pub trait XattrChanges {
    /// Sets the value of a new or existing attribute. An access control list has the layout of
    /// [`acl`]; setting a list does not change the permission bits or the reverse, which is up to
    /// the caller. Errors: `NoSpace`, `AttributesTooBig` (more than the format can hold, where
    /// Linux returns this error; otherwise `NoSpace`), `NameTooLong`, `NotSupported` (the prefix; a
    /// list for a symbolic link), `InvalidArgument` (a malformed list; a default list for an inode
    /// that is no directory). Cost: the value written, and a look at each attribute of the inode.
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()>;
    /// Removes an attribute. Errors: `NoAttribute`. Cost: as for setting one.
    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()>;
}

/// Allocation of space ahead.
pub trait Allocation {
    /// Ensures that writes to the range will not run out of space; grows the file unless
    /// `keep_size`. Either way the modification time changes. Errors: `NoSpace`, `FileTooBig`,
    /// `IsADirectory`. Cost: that of the allocated pieces.
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, keep_size: bool) -> Result<()>;
}

/// Punching of holes.
pub trait Holes {
    /// Makes the range read as zeroes and frees its space. The size stays. Errors: `IsADirectory`.
    /// Cost: that of the freed pieces.
    fn punch_hole(&mut self, inode: InodeNumber, offset: u64, length: u64) -> Result<()>;
}
