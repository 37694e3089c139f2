//! Handlers of the kernel's requests.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use nandkit_units::ReadInto;
use nandkit_vfs::{AttributeChange, FileKind, FileSystem, InodeNumber};

use crate::answer::{Answer, FaultResult};
use crate::atomic::{About, Asked, Through};
use crate::create::Wanted;
use crate::listing::is_unreadable;
use crate::served_volume::ServedVolume;
use crate::{Operation, Volume, mount, translate};

/// How long the kernel may cache answers: forever, since nothing else changes the volume.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Largest write in bytes. Each thread has a buffer of this size.
const WRITE_MAX: u32 = 1 << 20;
/// Constant, since inode numbers are not reused while the kernel holds them.
const GENERATION: Generation = Generation(0);
/// lseek(2): the next data.
const SEEK_DATA: i32 = 3;
/// lseek(2): the next hole.
const SEEK_HOLE: i32 = 4;

/// The kernel's side of a session.
pub(crate) struct Door<V> {
    served: Arc<ServedVolume<V>>,
    entries_for: Duration,
}

impl<V: Volume> Door<V> {
    pub(crate) fn new(served: Arc<ServedVolume<V>>) -> Self {
        // If `foo` and `FOO` are one file, the kernel would keep one cached name after the other
        // was removed.
        let entries_for = if served.features.case_sensitive { FOREVER } else { Duration::ZERO };
        Self { served, entries_for }
    }

    /// Runs a request about a draft on a separate thread, since it waits for kernel reads and
    /// writes that this thread answers.
    fn about_draft(&self, about: About, through: Through, reply: ReplyIoctl) {
        let served = Arc::clone(&self.served);
        apart(move || {
            let done = served.about_draft(about, through, |pages| served.read_again(through.inode, pages));
            // After the answer the caller may unmount at once, and the session must then be the
            // only owner.
            drop(served);
            match done {
                Ok(()) => reply.ioctl(0, &[]),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// Flags of an open file. For a file that may begin a draft, its close must be seen before
    /// locks are released.
    fn opened(&self, flags: i32) -> FopenFlags {
        match self.served.features.atomic_writes && may_write(flags) {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_NOFLUSH),
        }
    }

    fn answer_entry(&self, reply: ReplyEntry, answer: Answer<FileAttr>) {
        match answer {
            Ok(attributes) => reply.entry_with_ttls(&FOREVER, &self.entries_for, &attributes, GENERATION),
            Err(errno) => reply.error(errno),
        }
    }
}

/// Runs work on a new thread. If there is none, the work is dropped: its answer is EIO, and a draft
/// ends with the mount.
fn apart(work: impl FnOnce() + Send + 'static) {
    let _ = std::thread::Builder::new().name("draft".to_owned()).spawn(work);
}

fn through(request: &Request, inode: INodeNo, handle: FileHandle) -> Through {
    Through { user: request.uid(), thread: request.pid(), inode, handle }
}

/// Whether open(2) asked for write access (O_ACCMODE).
const fn may_write(flags: i32) -> bool {
    flags & 3 != 0
}

fn answer_empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_attributes(reply: ReplyAttr, answer: Answer<FileAttr>) {
    match answer {
        Ok(attributes) => reply.attr(&FOREVER, &attributes),
        Err(errno) => reply.error(errno),
    }
}

/// Answers with a value, or with its size if that was requested.
fn answer_sized(reply: ReplyXattr, answer: Answer<Vec<u8>>, size: u32) {
    match answer {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(errno),
    }
}

fn time(asked: Option<TimeOrNow>) -> Option<nandkit_vfs::Timestamp> {
    asked.map(|asked| {
        translate::time_inside(match asked {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        })
    })
}

/// The end of the data at `from`: the next hole or the end of the file. It is `from` itself inside
/// a hole.
fn end_of_data(fs: &dyn FileSystem, inode: InodeNumber, from: u64) -> FaultResult<u64> {
    let mut at = from;
    while let Some(data) = fs.data_after(inode, at)?.filter(|data| data.start <= at && data.end > at) {
        at = data.end;
    }
    Ok(at)
}

impl<V: Volume> Filesystem for Door<V> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_NO_EXPORT_SUPPORT,
        ];
        // If no permissions are checked, access control lists are ordinary attributes.
        if self.served.features.posix_acls && mount::is_root() {
            wanted.push(InitFlags::FUSE_POSIX_ACL);
        }
        for flag in wanted {
            // Older kernels lack some of these.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(WRITE_MAX);
        let step = Duration::from_nanos(self.served.features.modified_step_ns.clamp(1, 1_000_000_000));
        if let Err(nearest) = config.set_time_granularity(step) {
            let _ = config.set_time_granularity(nearest);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let served = &self.served;
        let directory = served.inside(parent);
        let answer = served.read(Operation::Lookup, |fs| {
            let inode = fs.lookup(directory, name.as_bytes())?;
            served.tell(fs, inode, directory)
        });
        self.answer_entry(reply, answer);
    }

    fn forget(&self, _: &Request, inode: INodeNo, times: u64) {
        self.served.forget(inode, times);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let inside = self.served.inside(inode);
        answer_attributes(reply, self.served.read(Operation::Stat, |fs| self.served.attributes(fs, inside)));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mode = mode.map(|mode| (mode & u32::from(translate::MODE_BITS)) as u16);
        let change = AttributeChange { size, mode, uid, gid, accessed: time(accessed), modified: time(modified) };
        answer_attributes(reply, self.served.set_attributes(request, inode, change));
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let inside = self.served.inside(inode);
        let answer =
            self.served.read(Operation::ReadLink, |fs| Ok(fs.symlinks().ok_or(Errno::EINVAL)?.read_link(inside)?));
        match answer {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        directory: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = translate::kind_to_make(mode) else { return reply.error(Errno::EINVAL) };
        let operation = if kind == FileKind::Regular { Operation::Create } else { Operation::MakeNode };
        let device = match kind {
            FileKind::BlockDevice | FileKind::CharacterDevice => translate::device_inside(device),
            _ => 0,
        };
        let name = name.as_bytes();
        let wanted = Wanted { operation, directory, name, kind, mode, umask, device, target: &[] };
        self.answer_entry(reply, self.served.make(request, &wanted));
    }

    fn mkdir(&self, request: &Request, directory: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let (operation, kind) = (Operation::MakeDirectory, FileKind::Directory);
        let name = name.as_bytes();
        let wanted = Wanted { operation, directory, name, kind, mode, umask, device: 0, target: &[] };
        self.answer_entry(reply, self.served.make(request, &wanted));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.served.remove(parent, name.as_bytes(), false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.served.remove(parent, name.as_bytes(), true));
    }

    fn symlink(&self, request: &Request, directory: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (operation, kind, name) = (Operation::Symlink, FileKind::Symlink, name.as_bytes());
        let target = target.as_os_str().as_bytes();
        let wanted = Wanted { operation, directory, name, kind, mode: 0o777, umask: 0, device: 0, target };
        self.answer_entry(reply, self.served.make(request, &wanted));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent, name.as_bytes()), (new_parent, new_name.as_bytes()));
        answer_empty(reply, self.served.rename(from, to, flags));
    }

    fn link(&self, _: &Request, inode: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        self.answer_entry(reply, self.served.link(inode, new_parent, new_name.as_bytes()));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.served.drafts().handle(may_write(flags.0));
        reply.opened(handle, self.opened(flags.0));
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let inside = self.served.inside(inode);
        let mut buffer = vec![0; size as usize];
        let answer = self.served.read_counted(
            Operation::Read,
            |read| *read as u64,
            |fs| {
                let read = fs.read(self.served.content(inside), offset, ReadInto::Bytes(&mut buffer))?;
                Ok(read.min(size as usize))
            },
        );
        match answer {
            Ok(read) => reply.data(buffer.get(..read).unwrap_or_default()),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.served.write(inode, offset, data, kills) {
            Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, request: &Request, inode: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if !self.served.dies(through(request, inode, handle)) {
            return reply.ok();
        }
        let served = Arc::clone(&self.served);
        apart(move || {
            served.closed(inode, handle, |pages| served.read_again(inode, pages));
            drop(served);
            reply.ok();
        });
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.served.sync(Some(self.served.inside(inode))));
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let answer = self.served.list(inode, offset, false, |entry, _| {
            reply.add(entry.inode, entry.cookie, entry.kind, OsStr::from_bytes(&entry.name))
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let answer = self.served.list(inode, offset, true, |entry, attributes| {
            let Some(attributes) = attributes else { return true };
            let keep = if is_unreadable(&attributes) { Duration::ZERO } else { self.entries_for };
            reply.add(entry.inode, entry.cookie, OsStr::from_bytes(&entry.name), &keep, &attributes, GENERATION)
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // For the root, sync the whole volume: `nandkit umount` relies on it, since FUSE does not
        // pass syncfs(2) on.
        let inode = (inode != INodeNo::ROOT).then(|| self.served.inside(inode));
        answer_empty(reply, self.served.sync(inode));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.served.read(Operation::Status, |fs| Ok(fs.volume()?)) {
            Ok(status) => {
                let (size, free) = (status.block_size, status.blocks_free);
                reply.statfs(status.blocks, free, free, status.inodes, status.inodes_free, size, status.name_max, size);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        answer_empty(reply, self.served.set_xattr(request, inode, name.as_bytes(), value, flags));
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_sized(reply, self.served.xattr(inode, name.as_bytes()), size);
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        answer_sized(reply, self.served.xattr_names(request, inode), size);
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.served.remove_xattr(inode, name.as_bytes()));
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        // Called only if the kernel checks no permissions; then everything is allowed.
        reply.ok();
    }

    fn create(
        &self,
        request: &Request,
        directory: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (operation, kind, name) = (Operation::Create, FileKind::Regular, name.as_bytes());
        let wanted = Wanted { operation, directory, name, kind, mode, umask, device: 0, target: &[] };
        let handle = self.served.drafts().handle(may_write(flags));
        let flags = self.opened(flags);
        match self.served.make(request, &wanted) {
            // One validity time for both; names that must not be cached are rare.
            Ok(attributes) => reply.created(&self.entries_for, &attributes, GENERATION, handle, flags),
            Err(errno) => reply.error(errno),
        }
    }

    fn ioctl(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        command: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        match self.served.asked(handle, command) {
            Ok(Asked::Features(bits)) => reply.ioctl(0, &bits),
            Ok(Asked::Draft(about)) => self.about_draft(about, through(request, inode, handle), reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if self.served.began(inode, handle) {
            let served = Arc::clone(&self.served);
            // From another thread, as for ioctls; nothing waits for the answer.
            apart(move || served.closed(inode, handle, |pages| served.read_again(inode, pages)));
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer_empty(reply, self.served.allocate(inode, offset, length, mode));
    }

    fn lseek(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let inside = self.served.inside(inode);
        let answer = self.served.read(Operation::Stat, |fs| {
            let content = self.served.content(inside);
            let size = fs.stat(content)?.size;
            let from = u64::try_from(offset).ok().filter(|from| *from < size).ok_or(Errno::ENXIO)?;
            let found = match whence {
                // The extents of a draft do not include those of the file, so that everything
                // counts as data.
                SEEK_DATA if content != inside => from,
                SEEK_HOLE if content != inside => size,
                SEEK_DATA => fs.data_after(inside, from)?.ok_or(Errno::ENXIO)?.start.max(from),
                SEEK_HOLE => end_of_data(fs, inside, from)?.min(size),
                _ => return Err(Errno::EINVAL.into()),
            };
            Ok(i64::try_from(found).map_err(|_| Errno::EIO)?)
        });
        match answer {
            Ok(found) => reply.offset(found),
            Err(errno) => reply.error(errno),
        }
    }
}
