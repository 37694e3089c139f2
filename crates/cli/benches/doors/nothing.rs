//! A file system that stores nothing: what FUSE itself costs, with the least that answers a
//! request. Directories have odd numbers, files even ones.

use std::ffi::{CString, OsStr};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, ReplyXattr, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::mount::MountFlags;

const FOREVER: Duration = Duration::from_secs(1 << 28);
/// Most bytes of a write, as in nandkit's door.
const WRITE_MAX: u32 = 1 << 20;

/// Forgets everything. A file is as long as was last said, all files together.
#[derive(Default)]
pub struct Nothing {
    made: AtomicU64,
    length: AtomicU64,
}

impl Nothing {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_directory = inode.0 % 2 == 1;
        let now = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if is_directory { 0 } else { self.length.load(Ordering::Relaxed) },
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: if is_directory { FileType::Directory } else { FileType::RegularFile },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn new_inode(&self, is_directory: bool) -> FileAttr {
        let number = 2 * (1 + self.made.fetch_add(1, Ordering::Relaxed)) + u64::from(is_directory);
        self.attributes(INodeNo(number))
    }
}

impl Filesystem for Nothing {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_HANDLE_KILLPRIV_V2] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(WRITE_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // Of all names only that of the file that is read is known.
        if name == "file" {
            return reply.entry(&FOREVER, &self.attributes(INodeNo(2)), Generation(0));
        }
        reply.error(Errno::ENOENT);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.entry(&FOREVER, &self.new_inode(true), Generation(0));
    }

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        reply.created(&FOREVER, &self.new_inode(false), Generation(0), FileHandle(0), flags);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        static ZEROES: [u8; WRITE_MAX as usize] = [0; WRITE_MAX as usize];
        reply.data(ZEROES.get(..size as usize).unwrap_or(&ZEROES));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.length.store(offset + data.len() as u64, Ordering::Relaxed);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::EOPNOTSUPP);
    }
}

/// Mounts it as root, as nandkit's door mounts; whoever unmounts it ends the thread.
pub fn mount(nothing: Nothing, point: &Path) -> JoinHandle<()> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").expect("/dev/fuse opens");
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,subtype=nothing,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let data = CString::new(data).expect("no zero");
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    rustix::mount::mount("nothing", point, "fuse", flags, data.as_c_str()).expect("root may mount");
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.n_threads = Some(1);
    let session = Session::from_fd(nothing, device.into(), SessionACL::All, config).expect("a session");
    std::thread::spawn(move || session.run().expect("the session ends well"))
}

/// The length of the file that is read.
pub fn of_length(length: u64) -> Nothing {
    Nothing { length: AtomicU64::new(length), ..Nothing::default() }
}
