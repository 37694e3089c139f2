//! What the door of FUSE costs: programs on a mounted stack, beside the same through the crate and
//! the same on a mounted file system that stores nothing. The ratio is the first by the sum of the
//! two others; at most 1.7 is asked for. Needs root and /dev/fuse.
//!
//! `cargo bench -p nandkit-cli --bench doors`, with `NANDKIT_ROUNDS` for how often (5).

mod nothing;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nandkit_fuse::{Options, Session, Timing, Volume, check_mount_point};
use nandkit_lab::single_stack;
use nandkit_stack::{DeviceSpec, FsSpec, Mounted, MountedFileSystem, Stack};
use nandkit_tree::{ArchiveOptions, Editor, TarArchive};
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::path::{Follow, resolve, write_inode};
use nandkit_vfs::{Changes, FileSystem, NewNode};

const FILE_BYTES: usize = 64 << 20;
const REQUEST_BYTES: usize = 128 << 10;
const TREE_FILES: usize = 20_000;
const STACKS: [(&str, &str); 2] = [("jffs2", "slc-256m"), ("fat", "k9l8g08u0m")];

/// A fresh stack, and where it is mounted.
struct Bench {
    fs: Box<dyn MountedFileSystem>,
    clock: Clock,
}

struct Top(Box<dyn MountedFileSystem>);

impl Volume for Top {
    fn fs(&self) -> &dyn FileSystem {
        &*self.0
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        self.0.changes()
    }
}

impl Bench {
    fn new(fs: &str, device: &str) -> Self {
        let fs = FsSpec::kind(fs).expect("a file system");
        let device = DeviceSpec::preset(device).expect("a preset");
        let spec = single_stack(device, None, fs, &["stack.device.store=\"content\"".to_owned()]).expect("a spec");
        let stack = Stack::build(&spec, 1).expect("it can be built");
        let clock = stack.clock.clone();
        match stack.lift().0 {
            Mounted::Files(fs) => Self { fs, clock },
            Mounted::Blocks(_) => unreachable!("a file system was asked for"),
        }
    }

    fn changes(&mut self) -> &mut dyn Changes {
        self.fs.changes().expect("it can be changed")
    }

    /// Works in the mounted volume as `exec` mounts it; the time is that of the work and of the
    /// last sync.
    fn mounted(self, point: &Path, work: impl FnOnce()) -> (Self, Duration) {
        let point = check_mount_point(point).expect("a directory");
        let timing = Timing::Arrivals { clock: self.clock.clone(), from: self.clock.now() };
        let session = Session::mount(Top(self.fs), &point, Options { timing, ..Options::default() }).expect("mounts");
        let unmounter = session.unmounter();
        let thread = std::thread::spawn(move || session.run());
        let began = Instant::now();
        work();
        File::open(&point).and_then(|root| root.sync_all()).expect("syncs");
        let took = began.elapsed();
        unmounter.unmount().expect("unmounts");
        let ended = thread.join().expect("no panic");
        assert_eq!(ended.trouble, None);
        (Self { fs: ended.volume.expect("nobody has it").0, clock: self.clock }, took)
    }
}

/// Works on the file system that stores nothing.
fn on_nothing(point: &Path, length: u64, work: impl FnOnce()) -> Duration {
    let thread = nothing::mount(nothing::of_length(length), point);
    let began = Instant::now();
    work();
    let took = began.elapsed();
    rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty()).expect("nobody uses it");
    thread.join().expect("no panic");
    took
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Words: what compresses as text does.
fn content() -> Vec<u8> {
    let mut text = Vec::with_capacity(FILE_BYTES + 64);
    let mut state = 1_u32;
    while text.len() < FILE_BYTES {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        write!(text, "{:x} page {} ", state >> 12, state % 977).expect("into memory");
    }
    text.truncate(FILE_BYTES);
    text
}

fn write_file(path: &Path, content: &[u8]) {
    let mut file = File::create(path).expect("a file");
    content.chunks(REQUEST_BYTES).for_each(|piece| file.write_all(piece).expect("writes"));
    file.sync_all().expect("syncs");
}

fn read_file(path: &Path) {
    let mut file = File::open(path).expect("the file");
    let mut piece = vec![0; REQUEST_BYTES];
    let mut all = 0;
    while let Ok(count @ 1..) = file.read(&mut piece) {
        all += count;
    }
    assert_eq!(all, FILE_BYTES);
}

/// Times of one round: through the mount, through the crate, on nothing.
type Round = [Duration; 3];

fn sequential(stack: (&str, &str), point: &Path, content: &[u8]) -> [Round; 2] {
    let file = point.join("file");
    let (mounted, write_mounted) = Bench::new(stack.0, stack.1).mounted(point, || write_file(&file, content));
    // Mounted anew: nothing of it is in the kernel.
    let (_, read_mounted) = mounted.mounted(point, || read_file(&file));
    let mut bench = Bench::new(stack.0, stack.1);
    let write_crate = timed(|| {
        let root = bench.fs.root();
        let changes = bench.changes();
        let inode = changes.create(root, b"file", &NewNode::FILE).expect("a file");
        for (piece, at) in content.chunks(REQUEST_BYTES).zip((0..).step_by(REQUEST_BYTES)) {
            write_inode(changes, inode, at, piece).expect("writes");
        }
        changes.sync(None).expect("syncs");
    });
    let read_crate = timed(|| {
        let inode = resolve(&*bench.fs, b"file", Follow::Never).expect("the file");
        let mut piece = vec![0; REQUEST_BYTES];
        for at in (0..FILE_BYTES as u64).step_by(REQUEST_BYTES) {
            let count = bench.fs.read(inode, at, ReadInto::Bytes(&mut piece)).expect("reads");
            assert_eq!(count, REQUEST_BYTES);
        }
    });
    let write_nothing = on_nothing(point, 0, || write_file(&point.join("new"), content));
    let read_nothing = on_nothing(point, FILE_BYTES as u64, || read_file(&file));
    [[write_mounted, write_crate, write_nothing], [read_mounted, read_crate, read_nothing]]
}

/// A tree as an archive: files of up to 4 KiB in directories of a hundred.
fn archive(folder: &Path, content: &[u8]) -> PathBuf {
    for number in 0..TREE_FILES {
        let directory = folder.join(format!("tree/{:03}", number / 100));
        std::fs::create_dir_all(&directory).expect("a directory");
        let start = number * 997 % (content.len() - 4096);
        let bytes = content.get(start..start + number * 31 % 4096).unwrap_or_default();
        std::fs::write(directory.join(format!("file-{number}")), bytes).expect("a file");
    }
    run("tar", &["cf", "tree.tar", "tree"], folder);
    folder.join("tree.tar")
}

fn run(program: &str, arguments: &[&str], directory: &Path) {
    let status = Command::new(program).args(arguments).current_dir(directory).status().expect("it runs");
    assert!(status.success(), "{program} {arguments:?}");
}

fn unpacked(stack: (&str, &str), point: &Path, archive: &Path) -> Round {
    let path = archive.to_str().expect("UTF-8");
    // FAT holds no owners, and tar asks for them.
    let unpack = || run("tar", &["xf", path, "--no-same-owner"], point);
    let (_, mounted) = Bench::new(stack.0, stack.1).mounted(point, unpack);
    let mut bench = Bench::new(stack.0, stack.1);
    let through = timed(|| {
        let tree = TarArchive::open(archive, &ArchiveOptions::default()).expect("an archive");
        Editor::new(bench.changes()).put_tree(&tree, b"/").expect("it has room");
        bench.changes().sync(None).expect("syncs");
    });
    [mounted, through, on_nothing(point, 0, unpack)]
}

fn tell(what: &str, rounds: &[Round]) {
    let mut ratios: Vec<f64> = rounds
        .iter()
        .map(|[mounted, through, nothing]| mounted.as_secs_f64() / (through.as_secs_f64() + nothing.as_secs_f64()))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let median = |at: usize| {
        let mut times: Vec<Duration> = rounds.iter().map(|round| round[at]).collect();
        times.sort();
        times[times.len() / 2].as_millis()
    };
    println!(
        "{what:28} mounted {:6} ms, crate {:6} ms, nothing {:6} ms: ratio {:.2} ({:.2} to {:.2})",
        median(0),
        median(1),
        median(2),
        ratios[ratios.len() / 2],
        ratios[0],
        ratios[ratios.len() - 1]
    );
}

fn main() {
    let rounds = std::env::var("NANDKIT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let folder = tempfile::tempdir().expect("a directory");
    let point = folder.path().join("mnt");
    std::fs::create_dir(&point).expect("a directory");
    let content = content();
    let archive = archive(folder.path(), &content);
    println!("{rounds} rounds; medians; 64 MiB in requests of 128 KiB; a tree of {TREE_FILES} files");
    for stack in STACKS {
        let (mut writes, mut reads, mut trees) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let [write, read] = sequential(stack, &point, &content);
            writes.push(write);
            reads.push(read);
            trees.push(unpacked(stack, &point, &archive));
        }
        for (what, rounds) in [("writes", writes), ("reads", reads), ("tar xf", trees)] {
            tell(&format!("{} on {}: {what}", stack.0, stack.1), &rounds);
        }
    }
}
