//! A file system that tells what no format should: the door hides it or answers with an error, and
//! the kernel keeps the mount. Needs root and /dev/fuse.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nandkit_fuse::{Options, Session, Volume, check_mount_point};
use nandkit_units::ReadInto;
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result, Timestamp,
    VolumeStatus,
};

const ROOT: u64 = 7;
const LARGEST: u64 = i64::MAX as u64;
const EIO: i32 = 5;

type Entry = (&'static [u8], u64, FileKind, u64);

const FILE: FileKind = FileKind::Regular;
const DIRECTORY: FileKind = FileKind::Directory;

/// Name, inode, kind, cookie.
const IN_ROOT: [Entry; 13] = [
    (b"sound", 20, FILE, 1),
    (b"none", 0, FILE, 2),
    (b"a/b", 21, FILE, 3),
    (b"x\0y", 21, FILE, 4),
    (b"", 21, FILE, 5),
    (b".", 21, FILE, 6),
    (b"..", 21, DIRECTORY, 7),
    (b"huge", 22, FILE, 8),
    (b"largest", 23, FILE, 9),
    (b"far", 24, DIRECTORY, 10),
    (b"beyond", 25, DIRECTORY, 11),
    (b"last", u64::MAX, FILE, 12),
    (b"self", ROOT, DIRECTORY, 13),
];

/// Cookies are signed for programs, and those of `.` and `..` come first.
const IN_FAR: [Entry; 2] = [(b"a", 20, FILE, 1), (b"b", 23, FILE, LARGEST - 2)];
const IN_BEYOND: [Entry; 2] = [(b"a", 20, FILE, 1), (b"b", 23, FILE, LARGEST - 1)];

struct Strange;

fn not_found<T>() -> Result<T> {
    Err(FsError::new(ErrorKind::NotFound, "there is no such name".to_owned()))
}

const fn entries(directory: u64) -> &'static [Entry] {
    match directory {
        ROOT => &IN_ROOT,
        24 => &IN_FAR,
        25 => &IN_BEYOND,
        _ => &[],
    }
}

impl FileSystem for Strange {
    fn root(&self) -> InodeNumber {
        InodeNumber(ROOT)
    }

    fn volume(&self) -> Result<VolumeStatus> {
        let (blocks, free) = (u64::MAX, u64::MAX);
        Ok(VolumeStatus {
            block_size: 4096,
            blocks,
            blocks_free: free,
            inodes: u64::MAX,
            inodes_free: u64::MAX,
            name_max: 255,
            file_size_max: u64::MAX,
            features: nandkit_vfs::Features { case_sensitive: true, ..Default::default() },
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let found = entries(directory.0).iter().find(|entry| entry.0 == name);
        found.map_or_else(not_found, |entry| Ok(InodeNumber(entry.1)))
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        let kind = if [ROOT, 24, 25].contains(&inode.0) { DIRECTORY } else { FILE };
        let size = match inode.0 {
            22 => LARGEST + 1,
            23 => LARGEST,
            _ => 5,
        };
        let (accessed, modified, changed) = (Timestamp(i64::MIN), Timestamp(i64::MAX), Timestamp(-1));
        let (mode, device) = (u16::MAX, u64::MAX);
        let created = Some(Timestamp(i64::MIN));
        let (allocated, links) = (u64::MAX, u32::MAX);
        let (uid, gid) = (u32::MAX, u32::MAX);
        Ok(Attributes {
            inode,
            kind,
            mode,
            links,
            uid,
            gid,
            device,
            size,
            allocated,
            accessed,
            modified,
            changed,
            created,
        })
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for (name, inode, kind, own) in entries(directory.0).iter().filter(|entry| entry.3 > cookie) {
            let entry = DirectoryEntry { name, inode: InodeNumber(*inode), kind: *kind, cookie: *own };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Says that there was more than was asked for.
    fn read(&self, _: InodeNumber, _: u64, _: ReadInto<'_>) -> Result<usize> {
        Ok(usize::MAX)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }
}

impl Volume for Strange {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn look(point: &Path) {
    for _ in 0..2 {
        let seen = names(point).expect("a listing");
        assert_eq!(seen, ["sound", "huge", "largest", "far", "beyond", "last", "self"]);
        let errno = |name: &str| fs::metadata(point.join(name)).err().and_then(|error| error.raw_os_error());
        assert_eq!((errno("huge"), errno("none"), errno("sound")), (Some(EIO), Some(EIO), None));
        assert_eq!(fs::metadata(point.join("largest")).expect("a status").len(), LARGEST);
        assert_eq!(names(&point.join("far")).expect("a listing"), ["a", "b"]);
        let beyond = names(&point.join("beyond")).err().and_then(|error| error.raw_os_error());
        assert_eq!(beyond, Some(EIO));
        let sound = fs::metadata(point.join("sound")).expect("a status");
        assert_eq!((sound.mode() & 0o7777, sound.ctime_nsec()), (0o7777, 999_999_999));
        assert_eq!(fs::read(point.join("sound")).expect("read").len(), 5);
        assert!(fs::metadata(point.join("last")).is_ok());
        // The root below itself is no way down without an end.
        let below = fs::metadata(point.join("self"));
        assert!(below.is_err_and(|error| error.raw_os_error() == Some(EIO)), "the root has a second name");
    }
}

#[test]
fn what_no_format_should_tell_is_hidden_or_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let point = check_mount_point(directory.path()).expect("a mount point");
    let session = Session::mount(Strange, &point, Options { read_only: true, threads: 2, ..Options::default() });
    let session = session.expect("mounted");
    let unmounter = session.unmounter();
    let serving = std::thread::spawn(move || session.run());
    let looked = std::panic::catch_unwind(|| look(&point));
    unmounter.unmount().expect("unmounted");
    let ended = serving.join().expect("it ends");
    directory.close().expect("removed");
    assert!(
        looked.is_ok() && ended.trouble.is_none() && !ended.broken && ended.volume.is_some(),
        "{:?}",
        ended.trouble
    );
}
