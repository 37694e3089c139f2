//! The file-system contract: inodes, names and bytes, and capabilities for what only some formats
//! hold.
//!
//! [`FileSystem`] is the reading side, which may be shared between threads; a file system that can
//! be changed hands out [`Changes`].

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

/// A mounted file system.
///
/// **Promises of the implementer.** No method panics, whatever the image holds: damage is an error
/// of kind [`ErrorKind::Corrupt`] with what and where. Names are bytes without `/` and NUL, not
/// empty, not `.` or `..`; a name that the format cannot hold is `InvalidName` or `NameTooLong`. An
/// inode number stays valid until the inode has no name left and nobody retains it; a stale one is
/// `NotFound`. File systems take the time from the clock they were given and advance it by what
/// their devices took.
///
/// **Cost.** What each method says is for an inode and a directory that were used before; the first
/// use adds the reading of the inode's own metadata, in log-structured formats of all its nodes.
/// Where a method may have to make room, the cleaning of it comes on top. Any method that reads the
/// device may end in `Device`, and in `Corrupt` where what it met is damaged, also where its own
/// list does not repeat it.
pub trait FileSystem: Send + Sync {
    /// The root directory. Cost: none; no errors.
    fn root(&self) -> InodeNumber;

    /// Space, limits and what the format can hold. Errors: `Corrupt`, `Device`. Cost: from counters
    /// that are kept, no device time.
    fn volume(&self) -> Result<VolumeStatus>;

    /// The inode with this name in a directory. Errors: `NotFound`, `NotADirectory`, `NameTooLong`,
    /// `Corrupt`, `Device`. Cost: a search in the directory's index, or a pass over its entries
    /// where the format has none (FAT).
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber>;

    /// An inode's attributes. Errors: `NotFound`, `Corrupt`, `Device`. Cost: constant.
    fn stat(&self, inode: InodeNumber) -> Result<Attributes>;

    /// Hands each entry after `cookie` to `sink` until it breaks. Cookie 0 is the start; an entry's
    /// own cookie continues after it, even when entries were added or removed meanwhile (those may
    /// show or not; all others show exactly once). `.` and `..` are not delivered. Errors:
    /// `NotFound`, `NotADirectory`, `Corrupt`, `Device`. Cost: that of the entries delivered.
    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Reads from `offset` on; returns how many bytes there were, fewer than asked only at the end
    /// of the file. Holes read as zeroes. What lies in `into` behind the returned count is
    /// unspecified. Errors: `NotFound`, `IsADirectory`, `Corrupt`, `Device`. Cost: the pages or
    /// nodes that hold the range, read whole and decompressed; nothing for holes.
    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize>;

    /// The next range of a regular file, at or behind `offset`, that may hold anything but zeroes:
    /// not empty, and within the file's size; `None` where only a hole follows, or nothing. What
    /// lies between `offset` and the range reads as zeroes, and the range may hold some as well:
    /// what is one range and what several is the format's. Who goes on at a range's end meets all
    /// data in ascending order. Unless the format tells, everything up to the size is one range.
    ///
    /// Errors: `NotFound`, `IsADirectory`, `InvalidArgument` (another kind), `Corrupt`, `Device`.
    /// Cost: a search for the offset, and a look at each piece of the range and of the holes in
    /// front of it; no content is read.
    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let attributes = self.stat(inode)?;
        let refused = |kind| Err(FsError::new(kind, format!("inode {} is a {}", inode.0, attributes.kind)));
        match attributes.kind {
            FileKind::Regular => Ok((offset < attributes.size).then_some(offset..attributes.size)),
            FileKind::Directory => refused(ErrorKind::IsADirectory),
            _ => refused(ErrorKind::InvalidArgument),
        }
    }

    /// The writing side, unless mounted read-only. Cost: none, as of all methods that ask for a
    /// capability.
    fn changes(&mut self) -> Option<&mut dyn Changes>;

    /// Symbolic links, where the format holds them.
    fn symlinks(&self) -> Option<&dyn Symlinks> {
        None
    }

    /// Extended attributes, where the format holds them.
    fn xattrs(&self) -> Option<&dyn Xattrs> {
        None
    }

    /// Where files lie on the device, where the implementer knows.
    fn extents(&self) -> Option<&dyn Extents> {
        None
    }
}

/// The writing side of a file system.
///
/// **Promises.** Each method is atomic for the callers: it happens or leaves all as it was (a
/// `write` that meets a full device may have written the beginning, and says how much). Durable
/// after [`Changes::sync`]; across a power cut before it, each operation happened or did not, in
/// the order that the format promises. `NoSpace` comes before damage. Each may also end in
/// `NotFound` (a stale inode), `Corrupt` and `Device`.
pub trait Changes: FileSystem {
    /// Makes an inode with a name. Errors: `Exists`, `NoSpace`, `NotSupported` (the kind, see
    /// [`Features`]), `InvalidName`, `NotADirectory`, `NameTooLong` (also a link's target),
    /// `InvalidArgument` (a target that is empty or holds NUL, a device number that the format has
    /// no room for). Cost: that of a lookup, and of writing an inode and an entry.
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber>;

    /// Writes at `offset`, growing the file as needed (a gap reads as zeroes); returns how many
    /// bytes were taken: all, or fewer where space ran out after some. Errors: `NoSpace` (none
    /// taken), `FileTooBig`, `IsADirectory`. Cost: the pages touched; a page written in part is
    /// read first where the format holds whole ones.
    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize>;

    /// Changes attributes; a size makes the file shorter or longer. What the format cannot hold is
    /// silently as the format has it, unless nothing at all could be done (`NotSupported`). Errors:
    /// also `NoSpace`, `FileTooBig`, `IsADirectory` (a size). Cost: one inode written; of a size,
    /// what is freed or filled.
    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes>;

    /// Takes a name away; the inode goes with its last name when nobody retains it. A directory
    /// must be empty. Errors: `NotFound`, `NotEmpty`. Cost: one entry written, and what giving back
    /// the inode's space takes: a pass over its pieces.
    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()>;

    /// Gives an inode another name or directory. An existing target is replaced as POSIX says, or
    /// refused or exchanged as `flags` say. Errors: `NotFound`, `Exists`, `NotEmpty`,
    /// `IsADirectory`, `NotADirectory`, `InvalidArgument` (a directory into itself), `NoSpace`,
    /// `NotSupported` (an exchange, see [`Features`]). Cost: two entries written; of a directory
    /// that comes into another one also the way up from there, or a pass over what is below it.
    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()>;

    /// Makes one inode, or with `None` everything, durable. Errors: `NoSpace`, `Device`. Cost: what
    /// has not reached the device yet, and its flush.
    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()>;

    /// Inodes that live on without a name, where the implementer keeps them.
    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        None
    }

    /// Hard links, where the format holds them.
    fn links(&mut self) -> Option<&mut dyn Links> {
        None
    }

    /// Changing extended attributes, where the format holds them.
    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        None
    }

    /// Allocating space ahead, where the format can.
    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        None
    }

    /// Punching holes, where the format can.
    fn holes(&mut self) -> Option<&mut dyn Holes> {
        None
    }

    /// Giving a file what other files hold without writing it, where the device can.
    fn adopt(&mut self) -> Option<&mut dyn Adopt> {
        None
    }

    /// Writes that happen all or not at all, where the format can.
    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        None
    }

    /// Work for idle times, where the implementer has any.
    fn housekeeping(&mut self) -> Option<&mut dyn Housekeeping> {
        None
    }
}

/// Symbolic links. They are made by [`Changes::create`].
pub trait Symlinks {
    /// The target of a symbolic link. Errors: `NotFound`, `InvalidArgument` where the inode is no
    /// link, `Corrupt`, `Device`. Cost: one read at most.
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>>;
}

/// Inodes that are in use although their last name went: what POSIX asks of open files.
pub trait OpenFiles {
    /// Keeps an inode alive after its last name went, until it is released as often as it was
    /// retained, or the volume is mounted again. Errors: `NotFound`. Cost: constant.
    fn retain(&mut self, inode: InodeNumber) -> Result<()>;

    /// Undoes one retain; the last one of an inode without a name frees it. Errors: `NotFound`,
    /// `InvalidArgument` where nobody retains it. Cost: that of a removal at the last one.
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

/// Reading extended attributes. Names carry their prefix (xattr(7)): `user.`, `trusted.` and
/// `security.` with any name behind it, and where [`Features::posix_acls`] says so the two names of
/// [`acl`].
pub trait Xattrs {
    /// The value. Errors: `NoAttribute`, `Corrupt`, `Device`. Cost: a look at each attribute of the
    /// inode.
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>>;
    /// All names, in any order. Errors: `Device`. Cost: that of all attributes of the inode.
    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>>;
    /// All names, each with its value or why that cannot be read, in any order. For file systems
    /// that find one name only by going through all.
    fn all_xattrs(&self, inode: InodeNumber) -> Result<Vec<XattrPair>> {
        let pair = |name: Vec<u8>| {
            let value = self.xattr(inode, &name);
            (name, value)
        };
        Ok(self.xattr_names(inode)?.into_iter().map(pair).collect())
    }
}

/// Changing extended attributes.
pub trait XattrChanges {
    /// Sets a value, new or instead of the old one. An access control list is in the form of
    /// [`acl`]; it and the permission bits do not move each other, which is the caller's to do.
    /// Errors: `NoSpace`, `AttributesTooBig` (more than the format has room for; where Linux says
    /// so, else `NoSpace`), `NameTooLong`, `NotSupported` (the prefix; a list for a symbolic link),
    /// `InvalidArgument` (no list in that form; a default list for what is no directory). Cost: the
    /// value written, and a look at each attribute of the inode.
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()>;
    /// Takes an attribute away. Errors: `NoAttribute`. Cost: as setting one.
    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()>;
}

/// Allocating space ahead.
pub trait Allocation {
    /// Makes sure that writes to the range will not run out of space; grows the file unless
    /// `keep_size`. Either way the time of modification moves. Errors: `NoSpace`, `FileTooBig`,
    /// `IsADirectory`. Cost: that of the pieces allocated.
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, keep_size: bool) -> Result<()>;
}

/// Punching holes.
pub trait Holes {
    /// Makes the range read as zeroes and gives back its space. The size stays. Errors:
    /// `IsADirectory`. Cost: that of the pieces freed.
    fn punch_hole(&mut self, inode: InodeNumber, offset: u64, length: u64) -> Result<()>;
}
