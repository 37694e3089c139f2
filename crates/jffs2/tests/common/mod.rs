//! Trees of files, and what a mounted volume shows.
#![allow(dead_code, reason = "not every test uses everything")]

pub mod ram;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nandkit_flash::Flash;
use nandkit_jffs2::{DamageKind, Jffs2, MountOptions};
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::check::{Kind as _, Repair};
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};
pub use ram::RamFlash;

/// Runs a tool; a missing or failing one fails the test.
pub fn run(tool: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(tool).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{tool} (Debian packages mtd-utils, attr): {error}"));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool} {arguments:?}: {told}");
    output.stdout
}

/// Every whole node found room in the repaired volume.
pub fn assert_finds_room(repair: &Repair) {
    let lost: Vec<_> = repair.dropped.iter().filter(|dropped| dropped.kind == DamageKind::NoRoom.name()).collect();
    assert!(lost.is_empty(), "{lost:?}");
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
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        match draw.below(4) {
            0 => bytes.extend((0..700).map(|_| draw.next() as u8)),
            1 => bytes.extend(std::iter::repeat_n(draw.next() as u8, 1000)),
            2 => bytes.extend(std::iter::repeat_n(0, 3000)),
            _ => (0..60).for_each(|_| bytes.extend_from_slice(format!("line {} of it\n", draw.below(100)).as_bytes())),
        }
    }
    bytes.truncate(length);
    bytes
}

/// A tree of about `files` files of every kind that a directory can hold without root; returns a device table for mkfs.jffs2 with the rest.
pub fn plant(root: &Path, files: usize, seed: u64) -> PathBuf {
    plant_scaled(root, files, seed, 1)
}

/// The same with files of an eighth of the size.
pub fn plant_small(root: &Path, files: usize, seed: u64) -> PathBuf {
    plant_scaled(root, files, seed, 8)
}

fn plant_scaled(root: &Path, files: usize, seed: u64, scale: usize) -> PathBuf {
    let mut draw = Draw(seed);
    let table = root.with_extension("table");
    let mut lines = String::new();
    for number in 0..files {
        let directory = root.join(format!("d{}/e{}", number % 7, number % 3));
        fs::create_dir_all(&directory).unwrap();
        let inside = format!("/d{}/e{}", number % 7, number % 3);
        let path = directory.join(format!("file-{number}"));
        match number % 11 {
            8 => symlink(format!("../target-{number}"), &path).unwrap(),
            9 => fs::hard_link(
                root.join(format!("d{}/e{}/file-{}", (number - 5) % 7, (number - 5) % 3, number - 5)),
                &path,
            )
            .unwrap(),
            10 => {
                let (kind, major) = [('c', 4), ('b', 8), ('p', 0)][number / 11 % 3];
                lines.push_str(&format!("{inside}/node-{number} {kind} 640 1 2 {major} {} 0 0 -\n", number * 2));
            }
            kind => {
                let length = [0, 1, 100, 4095, 4096, 4097, 9000, 20_000][kind]
                    / if kind == 7 { 1.max(scale / 4) } else { scale };
                let length = length + draw.below(3) * (kind & 1);
                fs::write(&path, content(&mut draw, length)).unwrap();
                if kind == 3 {
                    run("setfattr", &["-n", "user.number", "-v", &number.to_string(), path.to_str().unwrap()]);
                    run("setfattr", &["-n", "user.common", "-v", "the same for all", path.to_str().unwrap()]);
                }
                if kind == 4 {
                    let list =
                        "0x0200000001000600ffffffff02000700e803000004000400ffffffff10000400ffffffff20000400ffffffff";
                    run("setfattr", &["-n", "system.posix_acl_access", "-v", list, path.to_str().unwrap()]);
                }
            }
        }
    }
    fs::write(&table, lines).unwrap();
    table
}

/// What there is to know of each path, in words.
pub type Listing = BTreeMap<String, String>;

/// A directory of the machine. Devices are taken from the table.
pub fn listing_of_directory(root: &Path, table: &Path, xattrs: bool) -> Listing {
    let mut listing = Listing::new();
    let mut next = vec![(root.to_path_buf(), String::new())];
    while let Some((directory, inside)) = next.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), format!("{inside}/{}", entry.file_name().to_str().unwrap()));
            let meta = fs::symlink_metadata(&path).unwrap();
            let kind = meta.file_type();
            let mut text = format!("{:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
            if kind.is_dir() {
                text = format!("dir {text}");
                next.push((path, name.clone()));
            } else if kind.is_symlink() {
                text = format!("link {text} -> {}", fs::read_link(&path).unwrap().display());
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap();
                text = format!("file {text} x{} {} {:08x} @{}", meta.nlink(), bytes.len(), sum(&bytes), meta.mtime());
                if xattrs {
                    for attribute in ["user.number", "user.common", "system.posix_acl_access"] {
                        let output = Command::new("getfattr")
                            .args(["--only-values", "-n", attribute])
                            .arg(&path)
                            .output()
                            .unwrap();
                        if output.status.success() {
                            text.push_str(&format!(" {attribute}={:08x}", sum(&output.stdout)));
                        }
                    }
                }
            } else {
                assert!(kind.is_fifo() || kind.is_socket(), "{name} is something else");
            }
            listing.insert(name, text);
        }
    }
    for line in fs::read_to_string(table).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let text = match words[1] {
            "p" => format!("fifo {} {}:{}", words[2], words[3], words[4]),
            kind => format!("{kind} {} {}:{} {},{}", words[2], words[3], words[4], words[5], words[6]),
        };
        listing.insert(words[0].to_string(), text);
    }
    listing
}

fn sum(bytes: &[u8]) -> u32 {
    nandkit_jffs2::layout::crc(bytes) ^ bytes.len() as u32
}

/// What a volume shows. What cannot be read is in the listing as the error's kind.
pub fn listing_of_volume<F: Flash>(volume: &Jffs2<F>, xattrs: bool) -> Listing {
    let mut listing = Listing::new();
    let mut next = vec![(volume.root(), String::new())];
    while let Some((directory, inside)) = next.pop() {
        assert!(inside.len() < 10_000, "a tree without end");
        let mut entries: Vec<(String, InodeNumber)> = Vec::new();
        let shown = volume.read_dir(directory, 0, &mut |entry| {
            entries.push((String::from_utf8_lossy(entry.name).into_owned(), entry.inode));
            ControlFlow::Continue(())
        });
        if let Err(error) = shown {
            listing.insert(format!("{inside}/"), format!("{:?}", error.kind));
        }
        for (name, inode) in entries {
            let path = format!("{inside}/{name}");
            if volume.stat(inode).is_ok_and(|stat| stat.kind == FileKind::Directory) {
                next.push((inode, path.clone()));
            }
            let text = describe(volume, inode, xattrs).unwrap_or_else(|error| format!("{:?}", error.kind));
            listing.insert(path, text);
        }
    }
    listing
}

fn describe<F: Flash>(volume: &Jffs2<F>, inode: InodeNumber, xattrs: bool) -> nandkit_vfs::Result<String> {
    let stat = volume.stat(inode)?;
    let common = format!("{:o} {}:{}", stat.mode, stat.uid, stat.gid);
    let device = format!("{},{}", stat.device >> 32, stat.device & 0xFFFF_FFFF);
    Ok(match stat.kind {
        FileKind::Directory => format!("dir {common}"),
        FileKind::Symlink => {
            let target = volume.symlinks().unwrap().read_link(inode)?;
            format!("link {common} -> {}", String::from_utf8_lossy(&target))
        }
        FileKind::Regular => {
            let mut bytes = vec![0; stat.size.min(1 << 16) as usize];
            let count = volume.read(inode, 0, ReadInto::Bytes(&mut bytes))?;
            bytes.truncate(count);
            let mtime = stat.modified.0 / 1_000_000_000;
            let mut text = format!("file {common} x{} {} {:08x} @{mtime}", stat.links, bytes.len(), sum(&bytes));
            if xattrs {
                for name in ["user.number", "user.common", "system.posix_acl_access"] {
                    if let Ok(value) = volume.xattrs().unwrap().xattr(inode, name.as_bytes()) {
                        text.push_str(&format!(" {name}={:08x}", sum(&value)));
                    }
                }
            }
            text
        }
        FileKind::CharacterDevice => format!("c {common} {device}"),
        FileKind::BlockDevice => format!("b {common} {device}"),
        FileKind::Fifo => format!("fifo {common}"),
        FileKind::Socket => format!("socket {common}"),
    })
}

/// Both are the same; if not, the first few differences are told.
pub fn assert_same(left: &Listing, right: &Listing, context: &str) {
    let paths: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let different = paths.into_iter().filter(|path| left.get(*path) != right.get(*path));
    let told: Vec<String> =
        different.take(4).map(|path| format!("{path}: {:?} / {:?}", left.get(path), right.get(path))).collect();
    assert!(told.is_empty(), "{context}:\n{}", told.join("\n"));
}

/// Mounts for reading only.
pub fn mount(flash: RamFlash, options: MountOptions) -> nandkit_vfs::Result<Jffs2<RamFlash>> {
    Jffs2::mount(flash, Clock::default(), MountOptions { read_only: true, ..options })
}
