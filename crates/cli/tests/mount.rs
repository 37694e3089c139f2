//! `nandkit mount`, with tar, rsync, fsck.vfat and the answers of Linux' own drivers as judges.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::mounted::{Mount, cleaning_dead_mounts};
use crate::common::noise::{noise, splitmix64};
use crate::common::{exits, fsck_vfat, nandkit, run, succeeds, tells};
use rustix::fs::{FallocateFlags, Mode, RenameFlags, XattrFlags};
use rustix::io::Errno;

/// How an empty image `i` of each kind is made, and whether it is one of JFFS2.
const IMAGES: [(&str, bool); 4] = [
    ("mkdir empty && NANDKIT mkfs jffs2 --from empty -e 64K --size 12M i", true),
    ("mkdir empty && NANDKIT mkfs jffs2 --from empty -e 128K --oob=2048+64 --summary --size 12M i", true),
    ("mkdir empty && NANDKIT mkfs jffs2 --from empty -e 16K --endian big --size 12M i", true),
    ("mkfs.vfat -C i 16384 >&2", false),
];

/// A directory with an empty image.
fn with_image(make: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    run(directory.path(), &make.replace("NANDKIT", env!("CARGO_BIN_EXE_nandkit")));
    directory
}

/// Checks an image that is not mounted, with `check` and for FAT also with fsck.vfat.
fn check(directory: &Path, is_jffs2: bool) {
    succeeds(directory, &["check", "i"]);
    if !is_jffs2 {
        fsck_vfat(directory, "i");
    }
}

/// A tree with all that JFFS2 holds, or with all that FAT holds.
fn make_tree(directory: &Path, is_jffs2: bool) {
    run(
        directory,
        "mkdir -p tree/a/b/c tree/empty tree/many && for i in $(seq 400); do echo $i > tree/many/file-$i; done",
    );
    let tree = directory.join("tree");
    fs::write(tree.join("a/large"), noise(1_500_001, 1)).expect("a file");
    fs::write(tree.join("a/b/a long name with blanks, \u{fc} and \u{20ac}.text"), noise(4097, 2)).expect("a file");
    fs::write(tree.join("a/b/c/nothing"), "").expect("a file");
    if is_jffs2 {
        let sparse = File::create(tree.join("a/sparse")).expect("a file");
        sparse.write_at(b"end", 700_000).expect("written");
        fs::write(tree.join(std::str::from_utf8(b"a/line\nfeed").expect("UTF-8")), "x").expect("a file");
        run(&tree, "ln a/large a/b/second && ln -s ../a/large empty/link && ln -s nowhere/at/all dangling");
        run(&tree, "mkfifo pipe && mknod null c 1 3 && mknod disk b 259 70000");
        run(
            &tree,
            "setfattr -n user.color -v green a/large && setfattr -n user.none a/b && setfacl -m u:7:rx,d:g:9:rw a/b",
        );
        run(&tree, "chown 1000:2000 a/large && chmod 4711 a/large && chmod 1777 empty && chown -h 5:6 dangling");
    }
    run(&tree, "find . -depth -print0 | xargs -0 touch -h -d @1600000000");
}

#[test]
fn trees_come_back_as_tar_and_rsync_brought_them() {
    for (make, is_jffs2) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        make_tree(path, is_jffs2);
        let mount = Mount::start(path, "i", &["--rw"]);
        let (tar, rsync) = match is_jffs2 {
            true => ("--xattrs --acls", "-aHAX"),
            false => ("--no-same-owner", "-rt --modify-window=1"),
        };
        run(path, &format!("mkdir mnt/t mnt/r && tar -C tree {tar} -cf - . | tar -C mnt/t {tar} -xpf -"));
        run(path, &format!("rsync {rsync} tree/ mnt/r/ && sync mnt/r/a/large"));
        assert_eq!(mount.unmount(), Some(0), "{make}");
        check(path, is_jffs2);
        // What is in the image and not in the caches.
        let mount = Mount::start(path, "i", &[]);
        for copy in ["t", "r"] {
            // The root's own permissions and lists belong to what was there.
            let told = run(path, &format!("rsync {rsync} -c --delete --dry-run -i tree/ mnt/{copy}/"));
            assert_eq!(told, "", "{make}, {copy}");
        }
        run(path, "diff -r --no-dereference tree/a mnt/t/a && diff -r tree/many mnt/r/many");
        assert_eq!(mount.unmount(), Some(0));
    }
}

/// The error number of an attempt; 0 if it succeeded.
fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
}

fn told<T>(result: Result<T, Errno>) -> i32 {
    result.err().map_or(0, Errno::raw_os_error)
}

type Attempt = (&'static str, fn(&Path) -> i32, i32, i32);

/// What is tried in a directory with the file `f`, the directory `d` that holds `d/x`, and the
/// empty directory `e`: the errors of fs/jffs2 and of fs/fat.
const ATTEMPTS: [Attempt; 28] = [
    ("link", |p| errno(fs::hard_link(p.join("f"), p.join("l"))), 0, libc::EPERM),
    ("link a directory", |p| errno(fs::hard_link(p.join("d"), p.join("l2"))), libc::EPERM, libc::EPERM),
    ("symlink", |p| errno(symlink("f", p.join("s"))), 0, libc::EPERM),
    (
        "fifo",
        |p| told(rustix::fs::mknodat(rustix::fs::CWD, p.join("p"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)),
        0,
        libc::EPERM,
    ),
    (
        "mknod a file",
        |p| told(rustix::fs::mknodat(rustix::fs::CWD, p.join("m"), rustix::fs::FileType::RegularFile, Mode::RUSR, 0)),
        0,
        0,
    ),
    ("chown", |p| errno(std::os::unix::fs::chown(p.join("f"), Some(77), None)), 0, libc::EPERM),
    (
        "chown to the same",
        |p| errno(std::os::unix::fs::chown(p.join("f"), fs::metadata(p.join("f")).ok().map(|found| found.uid()), None)),
        0,
        0,
    ),
    ("chmod", |p| errno(fs::set_permissions(p.join("f"), PermissionsExt::from_mode(0o600))), 0, 0),
    (
        "user attribute",
        |p| told(rustix::fs::setxattr(p.join("f"), "user.a", b"1", XattrFlags::CREATE)),
        0,
        libc::EOPNOTSUPP,
    ),
    (
        "the same once more",
        |p| told(rustix::fs::setxattr(p.join("f"), "user.a", b"1", XattrFlags::CREATE)),
        libc::EEXIST,
        libc::EOPNOTSUPP,
    ),
    (
        "an attribute that is not there",
        |p| told(rustix::fs::removexattr(p.join("f"), "user.b")),
        libc::ENODATA,
        libc::EOPNOTSUPP,
    ),
    (
        "an attribute of no kind",
        |p| told(rustix::fs::setxattr(p.join("f"), "nonsense.a", b"1", XattrFlags::empty())),
        libc::EOPNOTSUPP,
        libc::EOPNOTSUPP,
    ),
    ("exchange", |p| told(rename(p, "f", "d", RenameFlags::EXCHANGE)), libc::EINVAL, libc::EINVAL),
    ("whiteout", |p| told(rename(p, "f", "w", RenameFlags::WHITEOUT)), libc::EINVAL, libc::EINVAL),
    ("no replace", |p| told(rename(p, "f", "d", RenameFlags::NOREPLACE)), libc::EEXIST, libc::EEXIST),
    ("a file over a directory", |p| errno(fs::rename(p.join("f"), p.join("e"))), libc::EISDIR, libc::EISDIR),
    ("a directory over a file", |p| errno(fs::rename(p.join("e"), p.join("f"))), libc::ENOTDIR, libc::ENOTDIR),
    (
        "over a directory that holds something",
        |p| errno(fs::rename(p.join("e"), p.join("d"))),
        libc::ENOTEMPTY,
        libc::ENOTEMPTY,
    ),
    ("a directory into itself", |p| errno(fs::rename(p.join("d"), p.join("d/y"))), libc::EINVAL, libc::EINVAL),
    ("rmdir", |p| errno(fs::remove_dir(p.join("d"))), libc::ENOTEMPTY, libc::ENOTEMPTY),
    ("rmdir a file", |p| errno(fs::remove_dir(p.join("f"))), libc::ENOTDIR, libc::ENOTDIR),
    ("unlink a directory", |p| errno(fs::remove_file(p.join("e"))), libc::EISDIR, libc::EISDIR),
    ("a name too long", |p| errno(File::create(p.join("n".repeat(256)))), libc::ENAMETOOLONG, libc::ENAMETOOLONG),
    ("a name that is none on FAT", |p| errno(File::create(p.join("a:b"))), 0, libc::EINVAL),
    ("the same looked up", |p| errno(fs::metadata(p.join("c:d"))), libc::ENOENT, libc::ENOENT),
    ("allocate", |p| told(allocate(p, FallocateFlags::empty())), libc::EOPNOTSUPP, 0),
    ("allocate behind the end", |p| told(allocate(p, FallocateFlags::KEEP_SIZE)), libc::EOPNOTSUPP, 0),
    (
        "punch",
        |p| told(allocate(p, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)),
        libc::EOPNOTSUPP,
        libc::EOPNOTSUPP,
    ),
];

/// Numbers of errors (asm-generic/errno-base.h, errno.h).
#[allow(non_camel_case_types, reason = "the names are those of the headers")]
mod libc {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ENXIO: i32 = 6;
    pub const EROFS: i32 = 30;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ENODATA: i32 = 61;
    pub const EOPNOTSUPP: i32 = 95;
}

fn rename(path: &Path, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(rustix::fs::CWD, path.join(from), rustix::fs::CWD, path.join(to), flags)
}

fn allocate(path: &Path, flags: FallocateFlags) -> Result<(), Errno> {
    let file = OpenOptions::new().write(true).open(path.join("f")).expect("a file");
    rustix::fs::fallocate(file, flags, 0, 65_536)
}

#[test]
fn errors_are_those_of_linux_drivers() {
    for (make, is_jffs2) in IMAGES {
        let directory = with_image(make);
        let mount = Mount::start(directory.path(), "i", &["--rw"]);
        let point = &mount.point;
        run(point, "mkdir d e && echo content > f && echo x > d/x");
        for (what, attempt, on_jffs2, on_fat) in ATTEMPTS {
            let expected = if is_jffs2 { on_jffs2 } else { on_fat };
            assert_eq!(attempt(point), expected, "{what}: {make}");
        }
        // FAT has allocated up to a new end.
        let mut file = OpenOptions::new().read(true).write(true).open(point.join("f")).expect("a file");
        file.set_len(8).expect("cut");
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(3)), Ok(3));
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(3)), Ok(8));
        assert_eq!(told(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(8))), libc::ENXIO);
        file.seek(SeekFrom::Start(0)).expect("sought");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "content\n");
        drop(file);
        let space = rustix::fs::statvfs(point).expect("a status");
        assert!(space.f_blocks * space.f_frsize > 8 << 20 && space.f_bfree < space.f_blocks, "{make}");
        assert_eq!(mount.unmount(), Some(0));
        check(directory.path(), is_jffs2);
    }
}

#[test]
fn an_image_is_not_changed_unless_that_was_asked_for() {
    for (make, is_jffs2) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        let before = fs::read(path.join("i")).expect("an image");
        let mount = Mount::start(path, "i", &["--uid", "1234", "--gid", "5678"]);
        let found = fs::metadata(&mount.point).expect("a root");
        assert_eq!((found.ino(), found.uid(), found.gid()), (1, 1234, 5678));
        assert_eq!(errno(File::create(mount.point.join("x"))), libc::EROFS);
        assert_eq!(errno(fs::set_permissions(&mount.point, PermissionsExt::from_mode(0o700))), libc::EROFS);
        // Others may read it meanwhile, and nobody may change it.
        succeeds(path, &["ls", "i"]);
        exits(path, &["mount", "i", "empty-point", "--rw"], 2);
        fs::create_dir(path.join("other")).expect("a directory");
        let outcome = nandkit(path, &["mount", "i", "other", "--rw"]);
        assert!(outcome.status == Some(2) && outcome.stderr.contains("in use"), "{}", outcome.stderr);
        let outcome = nandkit(path, &["mount", "i", "mnt"]);
        assert!(outcome.status == Some(2) && outcome.stderr.contains("already mounted there"), "{}", outcome.stderr);
        assert_eq!(mount.unmount(), Some(0));
        assert!(fs::read(path.join("i")).expect("an image") == before, "{make}");
        // Mounting for changes and changing nothing leaves a volume that others find whole.
        assert_eq!(Mount::start(path, "i", &["--rw"]).unmount(), Some(0));
        check(path, is_jffs2);
        fs::write(path.join("file"), "no directory").expect("a file");
        for (arguments, expected) in [
            (["mount", "i", "file"], "not a directory"),
            (["mount", "absent", "mnt"], "absent"),
            (["mount", "file", "mnt"], "no known format"),
        ] {
            tells(path, &arguments, 2, expected);
        }
    }
}

#[test]
fn what_was_synced_outlives_a_killed_process() {
    for (make, is_jffs2) in IMAGES {
        let directory = with_image(make);
        let path = directory.path();
        let mount = Mount::start(path, "i", &["--rw"]);
        let (kept, lost) = (noise(300_000, 3), noise(200_000, 4));
        let mut file = File::create(mount.point.join("kept")).expect("a file");
        file.write_all(&kept).expect("written");
        file.sync_all().expect("synced");
        fs::write(mount.point.join("lost"), &lost).expect("written");
        fs::rename(mount.point.join("kept"), mount.point.join("renamed")).expect("renamed");
        drop(file);
        let cleaning = cleaning_dead_mounts();
        mount.signal("KILL");
        let point = mount.point.clone();
        assert_eq!(mount.wait(), None, "it was killed");
        tells(path, &["mount", "i", "mnt"], 2, "nandkit doctor --clean");
        let shown = point.canonicalize().unwrap_or_else(|_| point.clone()).display().to_string();
        assert!(succeeds(path, &["doctor"]).contains(&format!("{shown}: a mount of process")));
        assert!(succeeds(path, &["doctor", "--clean"]).contains("which no longer exists; removed"));
        assert!(!succeeds(path, &["doctor", "--json"]).contains(&shown) && fs::read_dir(&point).is_ok());
        drop(cleaning);
        let outcome = nandkit(path, &["check", "i"]);
        let told = format!("{}{}", outcome.stdout, outcome.stderr);
        // FAT has a mark for it, and nothing else is wrong.
        assert!(is_jffs2 && outcome.status == Some(0) || told.contains("NotUnmounted"), "{make}: {told}");
        assert!(!told.contains("Clusters") && !told.contains("Chain"), "{make}: {told}");
        let mount = Mount::start(path, "i", &["--rw"]);
        let (old, new) = (fs::read(point.join("kept")), fs::read(point.join("renamed")));
        assert!([old, new].into_iter().flatten().any(|found| found == kept), "{make}");
        if let Ok(found) = fs::read(point.join("lost")) {
            assert!(lost.starts_with(&found), "{make}");
        }
        fs::write(point.join("after"), &lost).expect("written");
        assert_eq!(mount.unmount(), Some(0));
        check(path, is_jffs2);
    }
}

#[test]
fn a_signal_ends_the_mount_when_its_last_user_has_gone() {
    for (signal, held) in [("TERM", false), ("INT", false), ("TERM", true)] {
        let directory = with_image(IMAGES[0].0);
        let path = directory.path();
        let mount = Mount::start(path, "i", &["--rw"]);
        let mut file = File::create(mount.point.join("f")).expect("a file");
        file.write_all(b"one").expect("written");
        let file = held.then_some(file);
        mount.signal(signal);
        if let Some(mut file) = file {
            // In use: it is served until this is closed.
            file.write_all(b"two").expect("written");
            drop(file);
        }
        assert_eq!(mount.wait(), Some(0), "{signal}");
        assert_eq!(succeeds(path, &["cat", "i", "/f"]), if held { "onetwo" } else { "one" });
    }
}

#[test]
fn a_mount_in_the_background_is_there_when_the_command_returns() {
    let directory = with_image(IMAGES[3].0);
    let path = directory.path();
    fs::create_dir(path.join("mnt")).expect("a directory");
    assert_eq!(succeeds(path, &["mount", "i", "mnt", "--rw"]), "");
    let shown = run(path, "grep \" $PWD/mnt \" /proc/mounts");
    assert!(shown.starts_with("nandkit:") && shown.contains("fuse.nandkit rw,"), "{shown}");
    let pid = shown.split(':').nth(1).expect("the process").to_owned();
    run(path, "echo hello > mnt/f && umount mnt");
    // The image is whole when the process has gone.
    while Path::new(&format!("/proc/{pid}/exe")).exists() {
        std::thread::yield_now();
    }
    assert_eq!(succeeds(path, &["cat", "i", "/f"]), "hello\n");
    check(path, false);
}

#[test]
fn unlinked_files_live_until_they_are_closed() {
    for (make, is_jffs2) in IMAGES {
        let directory = with_image(make);
        let mount = Mount::start(directory.path(), "i", &["--rw"]);
        let point = &mount.point;
        let free = |point: &Path| rustix::fs::statvfs(point).expect("a status").f_bfree;
        let (content, replacing) = (noise(400_000, 5), noise(1000, 6));
        let open = |name: &str| {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(point.join(name));
            let file = file.expect("a file");
            file.write_all_at(&content, 0).expect("written");
            file
        };
        let before = free(point);
        let (removed, replaced) = (open("removed"), open("replaced"));
        fs::write(point.join("new"), &replacing).expect("written");
        fs::remove_file(point.join("removed")).expect("removed");
        fs::rename(point.join("new"), point.join("replaced")).expect("renamed");
        for (file, links) in [(&removed, 0), (&replaced, 0)] {
            file.write_all_at(b"more", 500_000).expect("written");
            let mut found = vec![0; 400_000];
            file.read_exact_at(&mut found, 0).expect("read");
            assert!(found == content, "{make}");
            let status = file.metadata().expect("a status");
            assert_eq!((status.len(), status.nlink()), (500_004, links), "{make}");
        }
        drop((removed, replaced));
        assert_eq!(fs::read(point.join("replaced")).expect("read"), replacing);
        fs::remove_file(point.join("replaced")).expect("removed");
        // The kernel forgets closed files when it likes. JFFS2 counts as free what was collected.
        let is_free = || is_jffs2 || free(point) == before;
        let end = Instant::now() + Duration::from_secs(60);
        while !is_free() {
            assert!(Instant::now() < end, "{make}: {} of {before}", free(point));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(mount.unmount(), Some(0));
        check(directory.path(), is_jffs2);
        assert_eq!(succeeds(directory.path(), &["ls", "i"]).trim(), "");
    }
}

#[test]
fn a_large_directory_is_listed_once_while_it_changes() {
    for (make, is_jffs2) in [IMAGES[0], IMAGES[3]] {
        let directory = with_image(make);
        let mount = Mount::start(directory.path(), "i", &["--rw"]);
        let large = mount.point.join("large");
        fs::create_dir(&large).expect("a directory");
        for i in 0..3000 {
            File::create(large.join(format!("a file with the number {i}"))).expect("a file");
        }
        let mut seen = std::collections::BTreeSet::new();
        for (number, entry) in fs::read_dir(&large).expect("a listing").enumerate() {
            let entry = entry.expect("an entry");
            assert!(seen.insert(entry.file_name()), "{:?} twice", entry.file_name());
            if number % 2 == 0 {
                fs::remove_file(entry.path()).expect("removed");
            }
        }
        assert_eq!(seen.len(), 3000, "{make}");
        assert_eq!(fs::read_dir(&large).expect("a listing").count(), 1500, "{make}");
        run(&mount.point, "rm -r large");
        assert_eq!(mount.unmount(), Some(0));
        check(directory.path(), is_jffs2);
    }
}

/// A file and what it should hold, changed by chance in all ways that there are.
fn exercise(point: &Path, seed: u64, operations: u32) {
    const SIZE: u64 = 200_000;
    let mut state = seed;
    let mut draw = |below: u64| splitmix64(&mut state) % below;
    let path = point.join(format!("exercised-{seed}"));
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).expect("a file");
    let (mut file, mut expected) = (open(), Vec::<u8>::new());
    for step in 0..operations {
        let (at, length) = (draw(SIZE), draw(20_000));
        match draw(20) {
            0..8 => {
                let data = noise(length as u32, step);
                file.write_all_at(&data, at).expect("written");
                let end = (at + length) as usize;
                if length > 0 && expected.len() < end {
                    expected.resize(end, 0);
                }
                if length > 0 {
                    expected[at as usize..end].copy_from_slice(&data);
                }
            }
            8..15 => {
                let mut found = vec![0; length as usize];
                let mut read = 0;
                while let Ok(more @ 1..) = file.read_at(&mut found[read..], at + read as u64) {
                    read += more;
                }
                let there = expected.get(at as usize..).unwrap_or_default();
                let there = &there[..there.len().min(length as usize)];
                assert!(found[..read] == *there, "seed {seed}, step {step}: {read} of {} at {at}", there.len());
            }
            15 | 16 => {
                file.set_len(at).expect("cut");
                expected.resize(at as usize, 0);
            }
            17 => file.sync_all().expect("synced"),
            18 => {
                drop(file);
                file = open();
            }
            _ => {
                let other = point.join(format!("renamed-{seed}"));
                fs::rename(&path, &other).expect("renamed");
                fs::rename(&other, &path).expect("renamed");
            }
        }
        assert_eq!(file.metadata().expect("a status").len(), expected.len() as u64, "seed {seed}, step {step}");
    }
}

#[test]
fn random_reads_writes_and_truncations_leave_what_they_should() {
    for (make, is_jffs2) in IMAGES {
        let directory = with_image(make);
        let mount = Mount::start(directory.path(), "i", &["--rw"]);
        for seed in 1..4 {
            exercise(&mount.point, seed, 400);
        }
        assert_eq!(mount.unmount(), Some(0));
        check(directory.path(), is_jffs2);
    }
}

#[test]
fn a_mount_that_is_told_the_flashs_length_has_its_room() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    run(path, "mkdir tree && echo x > tree/x && mkfs.jffs2 -r tree -e 64KiB -o i");
    assert!(fs::metadata(path.join("i")).expect("a file").len() < 64 << 10);
    let mount = Mount::start(path, "i", &["--rw", "--size", "1M", "--erase-size", "64K"]);
    fs::write(mount.point.join("new"), noise(300_000, 9)).expect("there is room");
    assert_eq!(mount.unmount(), Some(0));
    assert_eq!(fs::metadata(path.join("i")).expect("a file").len(), 1 << 20);
    succeeds(path, &["check", "i"]);
    succeeds(path, &["get", "i", "/new"]);
    assert!(fs::read(path.join("new")).expect("a file") == noise(300_000, 9));
    assert_eq!(succeeds(path, &["cat", "i", "/x"]), "x\n");
}
