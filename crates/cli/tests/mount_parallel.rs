//! A mount for changes that many threads read and change at once.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::mounted::Mount;
use crate::common::succeeds;

const LENGTH: usize = 300_000;
const ROUNDS: u8 = 40;

/// An empty image of a kind, with 12 MiB.
fn with_image(kind: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("empty")).expect("a directory");
    match kind {
        "jffs2" => {
            let size = ["-e", "64K", "--size", "12M", "i"];
            succeeds(directory.path(), &[&["mkfs", "jffs2", "--from", "empty"], &size[..]].concat());
        }
        _ => {
            let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
            let mut made = Command::new("sh");
            made.args(["-c", "mkfs.vfat -C i 12288 > mkfs.log"]).env("PATH", path).current_dir(directory.path());
            assert!(made.status().expect("sh runs").success());
        }
    }
    directory
}

fn content(seed: u8) -> Vec<u8> {
    (0..LENGTH).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed).collect()
}

/// Takes what was read out of the kernel's cache, so that the next read is the volume's.
fn forget_pages(file: &File) {
    file.sync_all().expect("synced");
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
}

/// Writes a file anew in place, over and over: each read of it gives what was written last.
fn write_in_place(point: &Path, number: u8) {
    let path = point.join(format!("mine-{number}"));
    for round in 0..ROUNDS {
        let wanted = content(number.wrapping_mul(31).wrapping_add(round));
        let file = File::options().create(true).truncate(round % 8 == 0).write(true).read(true).open(&path);
        let file = file.expect("a file");
        file.write_all_at(&wanted, 0).expect("written");
        if round % 4 == 0 {
            forget_pages(&file);
        }
        assert_eq!(file.metadata().expect("a status").len(), LENGTH as u64);
        let mut found = vec![0; LENGTH];
        file.read_exact_at(&mut found, 0).expect("read");
        assert!(found == wanted, "{}: round {round}", path.display());
    }
}

/// Makes, renames, replaces and removes names; files that are open and have no name any more can
/// still be read.
fn change_names(point: &Path, number: u8) {
    let directory = point.join(format!("names-{number}"));
    fs::create_dir(&directory).expect("a directory");
    let (a, b) = (directory.join("a"), directory.join("b"));
    for round in 0..ROUNDS {
        fs::write(&a, [round; 5000]).expect("written");
        fs::write(&b, "replaced").expect("written");
        let open = File::open(&b).expect("opened");
        let inode = fs::metadata(&a).expect("a status").ino();
        fs::rename(&a, &b).expect("renamed");
        assert_eq!(fs::metadata(&b).expect("a status").ino(), inode);
        assert_eq!(fs::read(&b).expect("read"), [round; 5000]);
        let mut found = [0; 8];
        open.read_exact_at(&mut found, 0).expect("read");
        assert_eq!((&found, open.metadata().expect("a status").nlink()), (b"replaced", 0));
        let listed: Vec<_> = fs::read_dir(&directory).expect("a listing").flatten().map(|e| e.file_name()).collect();
        assert_eq!(listed, ["b"], "round {round}");
        fs::remove_file(&b).expect("removed");
        assert!(!b.exists());
    }
}

/// Reads what nobody changes, past the kernel's cache.
fn read_steadily(point: &Path, done: &AtomicBool) {
    let wanted = content(200);
    while !done.load(Ordering::Acquire) {
        let file = File::open(point.join("steady")).expect("opened");
        let mut found = vec![0; LENGTH];
        file.read_exact_at(&mut found, 0).expect("read");
        assert!(found == wanted);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
        let names = fs::read_dir(point).expect("a listing").flatten().filter(|entry| entry.file_name() == "steady");
        assert_eq!(names.count(), 1);
    }
}

#[test]
fn many_read_and_change_a_volume_at_once() {
    for (kind, arguments) in [("jffs2", &["--rw"][..]), ("fat", &["--rw"]), ("jffs2", &["--overlay", "o"])] {
        let directory = with_image(kind);
        let path = directory.path();
        let mount = Mount::start(path, "i", arguments);
        let point = &mount.point;
        fs::write(point.join("steady"), content(200)).expect("written");
        forget_pages(&File::open(point.join("steady")).expect("opened"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_steadily(point, &done))).collect();
            let writers = (0..3).map(|number| scope.spawn(move || write_in_place(point, number)));
            let movers = (0..2).map(|number| scope.spawn(move || change_names(point, number)));
            let changes: Vec<_> = writers.chain(movers).collect();
            let ended: Vec<_> = changes.into_iter().map(|change| change.join()).collect();
            done.store(true, Ordering::Release);
            assert!(ended.iter().all(Result::is_ok) && readers.into_iter().all(|reader| reader.join().is_ok()));
        });
        let tasks = format!("/proc/{}/task", mount.id());
        let name = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let answering =
            fs::read_dir(tasks).expect("its threads").flatten().filter(|task| name(task).starts_with("fuser-"));
        assert!(answering.count() > 1, "{arguments:?}: one thread answers");
        assert_eq!(mount.unmount(), Some(0), "{kind} {arguments:?}");
        // What is in the image and not in the caches.
        let view = if arguments[0] == "--overlay" { arguments } else { &[] };
        succeeds(path, &[&["check", "i"], view].concat());
        let mount = Mount::start(path, "i", view);
        for number in 0..3_u8 {
            let found = fs::read(mount.point.join(format!("mine-{number}"))).expect("read");
            assert!(found == content(number.wrapping_mul(31).wrapping_add(ROUNDS - 1)), "{kind}: {number}");
        }
        assert_eq!(mount.unmount(), Some(0));
    }
}
