//! Trees of files, images of f2fs-tools, and what a mounted volume shows.
#![allow(dead_code, reason = "not every test uses everything")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::made::patiently;
use nandkit_block::{Access, BlockDevice, FileDevice, RamDevice};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};

/// Runs a tool; a missing or failing one fails the test.
pub fn run(tool: &str, arguments: &[&str]) -> String {
    let (status, told) = run_any(tool, arguments);
    assert!(status == 0, "{tool} {arguments:?}: {told}");
    told
}

/// Runs a tool for its exit status and what it says; a missing one fails the test.
pub fn run_any(tool: &str, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(tool).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{tool} (Debian package f2fs-tools): {error}"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), told)
}

/// Numbers that look random, from a seed.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }
}

/// Content of which some shrinks and some does not.
pub fn content(draw: &mut Draw, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 6000);
    while bytes.len() < length {
        match draw.below(4) {
            0 => bytes.extend((0..5000).map(|_| draw.next() as u8)),
            1 => bytes.extend(std::iter::repeat_n(draw.next() as u8, 4000)),
            2 => bytes.extend(std::iter::repeat_n(0, 6000)),
            _ => (0..300).for_each(|_| bytes.extend_from_slice(format!("line {} of it\n", draw.below(100)).as_bytes())),
        }
    }
    bytes.truncate(length);
    bytes
}

/// Bytes of files: around the limits of inline data, of a block, and of an inode's addresses (923 at most); then direct and indirect nodes.
const SIZES: [usize; 16] =
    [0, 1, 100, 3451, 3452, 3453, 3488, 3689, 4095, 4096, 4097, 20_000, 864 * 4096, 924 * 4096 + 1, 5 << 20, 13 << 20];

/// A tree with files of all sizes, a directory of several levels, links of all lengths, names of all lengths.
pub fn plant(root: &Path, names: usize) {
    let mut draw = Draw(7);
    fs::create_dir_all(root.join("sizes")).unwrap();
    for size in SIZES {
        fs::write(root.join(format!("sizes/of-{size}")), content(&mut draw, size)).unwrap();
    }
    fs::create_dir_all(root.join("many")).unwrap();
    for number in 0..names {
        let length = 1 + draw.below(60);
        let name = format!("many/{number}-{}", "n".repeat(length));
        let length = draw.below(200);
        fs::write(root.join(name), content(&mut draw, length)).unwrap();
    }
    fs::create_dir_all(root.join("deep/er/and/deeper/empty")).unwrap();
    fs::write(root.join("deep/er").join("x".repeat(255)), "longest name").unwrap();
    fs::write(root.join("deep").join("\u{FC}n\u{EF}c\u{F6}d\u{E9} \u{1F980}"), "letters").unwrap();
    for length in [1, 60, 254, 1000, 4000] {
        symlink("t/".repeat(length / 2 + 1).split_at(length).0, root.join(format!("link-{length}"))).unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(root.join("sizes/of-1"), mode(0o4711)).unwrap();
    fs::set_permissions(root.join("deep/er"), mode(0o1770)).unwrap();
}

/// What there is to know of each path, in words.
pub type Listing = BTreeMap<String, String>;

fn sum(bytes: &[u8]) -> u32 {
    nandkit_f2fs::layout::checksum(bytes)
}

/// A directory of the machine.
pub fn listing_of_directory(root: &Path) -> Listing {
    let mut listing = Listing::new();
    let mut next = vec![(root.to_path_buf(), String::new())];
    while let Some((directory, inside)) = next.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), format!("{inside}/{}", entry.file_name().to_str().unwrap()));
            let meta = fs::symlink_metadata(&path).unwrap();
            let kind = meta.file_type();
            let common = format!("{:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
            let text = if kind.is_dir() {
                next.push((path, name.clone()));
                format!("dir {common}")
            } else if kind.is_symlink() {
                format!("link {common} -> {}", fs::read_link(&path).unwrap().display())
            } else {
                assert!(!kind.is_fifo());
                let bytes = fs::read(&path).unwrap();
                format!("file {common} {} {:08x} @{}", bytes.len(), sum(&bytes), meta.mtime())
            };
            listing.insert(name, text);
        }
    }
    listing
}

/// What a volume shows. What cannot be read is in the listing as the error.
pub fn listing_of_volume<D: BlockDevice>(volume: &F2fs<D>) -> Listing {
    let mut listing = Listing::new();
    let mut next = vec![(volume.root(), String::new())];
    while let Some((directory, inside)) = next.pop() {
        assert!(inside.len() < 10_000, "a tree without end");
        let mut entries: Vec<(Vec<u8>, InodeNumber, FileKind)> = Vec::new();
        let shown = volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind));
            ControlFlow::Continue(())
        });
        if let Err(error) = shown {
            listing.insert(format!("{inside}/"), error.to_string());
        }
        for (name, inode, kind) in entries {
            let path = format!("{inside}/{}", String::from_utf8_lossy(&name));
            assert_eq!(volume.lookup(directory, &name).ok(), Some(inode), "{path}");
            let text = describe(volume, inode, kind).unwrap_or_else(|error| error.to_string());
            if kind == FileKind::Directory {
                next.push((inode, path.clone()));
            }
            assert!(listing.insert(path.clone(), text).is_none(), "{path} twice");
        }
    }
    listing
}

fn describe<D: BlockDevice>(volume: &F2fs<D>, inode: InodeNumber, kind: FileKind) -> nandkit_vfs::Result<String> {
    let stat = volume.stat(inode)?;
    assert_eq!(stat.kind, kind);
    let common = format!("{:o} {}:{}", stat.mode, stat.uid, stat.gid);
    Ok(match stat.kind {
        FileKind::Directory => format!("dir {common}"),
        FileKind::Symlink => {
            let target = volume.symlinks().unwrap().read_link(inode)?;
            format!("link {common} -> {}", String::from_utf8_lossy(&target))
        }
        FileKind::Regular => {
            let bytes = read_whole(volume, inode)?;
            let mtime = stat.modified.0.div_euclid(1_000_000_000);
            format!("file {common} {} {:08x} @{mtime}", bytes.len(), sum(&bytes))
        }
        kind => format!("{kind} {common} {:x}", stat.device),
    })
}

/// A file's content, read at once and held against the same in odd pieces and by its ranges.
pub fn read_whole<D: BlockDevice>(volume: &F2fs<D>, inode: InodeNumber) -> nandkit_vfs::Result<Vec<u8>> {
    let size = usize::try_from(volume.stat(inode)?.size).unwrap();
    let mut bytes = vec![0xA5; size + 10];
    let count = volume.read(inode, 0, ReadInto::Bytes(&mut bytes))?;
    assert_eq!(count, size);
    bytes.truncate(count);
    let mut at = 0;
    while at < size {
        let mut piece = [0; 10_007];
        let count = volume.read(inode, at as u64, ReadInto::Bytes(&mut piece))?;
        assert_eq!(piece[..count], bytes[at..at + count], "piece at {at}");
        at += count;
    }
    let (mut at, mut by_ranges) = (0, vec![0; size]);
    while let Some(range) = volume.data_after(inode, at)? {
        assert!(range.start >= at && range.start < range.end && range.end <= size as u64);
        let range_at = range.start as usize..range.end as usize;
        by_ranges[range_at.clone()].copy_from_slice(&bytes[range_at]);
        at = range.end;
    }
    assert!(by_ranges == bytes, "ranges leave data out");
    Ok(bytes)
}

/// Both are the same; if not, the first few differences are told.
pub fn assert_same(left: &Listing, right: &Listing, context: &str) {
    let paths: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let different = paths.into_iter().filter(|path| left.get(*path) != right.get(*path));
    let told: Vec<String> =
        different.take(6).map(|path| format!("{path}: {:?} / {:?}", left.get(path), right.get(path))).collect();
    assert!(told.is_empty(), "{context}:\n{}", told.join("\n"));
}

/// Mounts an image file.
pub fn mount_file(image: &Path) -> nandkit_vfs::Result<F2fs<FileDevice>> {
    let device = patiently(|| FileDevice::open(image, 512, Access::ReadOnly));
    F2fs::mount(device, Clock::default(), MountOptions::default())
}

/// An image of `mib` MiB that mkfs.f2fs made with these options.
pub fn mkfs(image: &Path, mib: u64, options: &str) {
    let _ = fs::remove_file(image);
    fs::File::create(image).unwrap().set_len(mib << 20).unwrap();
    let mut arguments: Vec<&str> = options.split_whitespace().collect();
    arguments.extend(["-f", "-q", image.to_str().unwrap()]);
    run("mkfs.f2fs", &arguments);
}

/// Fills it with a tree by sload.f2fs.
pub fn sload(image: &Path, source: &Path) {
    let arguments = ["-f", source.to_str().unwrap(), "-P", image.to_str().unwrap()];
    // It ends with fsck.f2fs, which repairs what sload itself counts wrongly (1.15: blocks of links with a block of their own), and hands its status on: 1 is repaired.
    let (status, told) = run_any("sload.f2fs", &arguments);
    assert!([0, 1].contains(&status) && told.contains("Done: "), "sload.f2fs: status {status}\n{told}");
}

/// An image file's bytes in memory, as a device.
pub fn ram_of(image: &Path) -> RamDevice {
    ram_of_bytes(&fs::read(image).unwrap())
}

/// Bytes as a device; zeros take nothing.
pub fn ram_of_bytes(bytes: &[u8]) -> RamDevice {
    let mut device = RamDevice::with_sectors(4096, bytes.len() as u64 / 4096).unwrap();
    for (lba, sector) in bytes.chunks_exact(4096).enumerate() {
        if !nandkit_units::is_zeroed(sector) {
            device.write(&Context::default(), Lba(lba as u64), Payload::Bytes(sector)).unwrap();
        }
    }
    device
}
