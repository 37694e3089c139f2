//! Listings of a file system or a directory of this machine, path by path, as text to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nandkit_units::ReadInto;
use nandkit_vfs::{FileKind, FileSystem, InodeNumber, Result};

use crate::judges::{must_run, tool};

/// A description of each path, whose first word is the kind. A path begins with `/` and is relative
/// to the root.
pub type Listing = BTreeMap<String, String>;

/// Files that say they are longer are read in their beginning only: sizes of damaged images.
const WHOLE_MAX: u64 = 32 << 20;
/// Bytes of the beginning that are read.
const BEGINNING: u64 = 1 << 16;
/// Longest path; a tree with longer ones is taken as endless.
const PATH_MAX: usize = 10_000;

/// Extended attributes that a host passes on to images; all others are the machine's own.
const HOST_ATTRIBUTES: &str = r"^(user\.|system\.posix_acl_access$)";

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn attributes_in_words(attributes: impl IntoIterator<Item = (String, Vec<u8>)>) -> String {
    attributes.into_iter().map(|(name, value)| format!(" {name}={:016x}", sum(&value))).collect()
}

fn file_in_words(common: &str, links: u64, bytes: &[u8], modified: i64, attributes: &str) -> String {
    format!("{:?} {common} x{links} {} {:016x} @{modified}{attributes}", FileKind::Regular, bytes.len(), sum(bytes))
}

/// A directory of this machine. Device nodes cannot be made without root: they stand in a device
/// table of mkfs.jffs2 instead, if there is one.
///
/// # Panics
/// On what cannot be read, and without getfattr (Debian package attr).
pub fn of_directory(root: &Path, devices: Option<&Path>) -> Listing {
    let (mut listing, attributes) = (Listing::new(), host_attributes(root));
    let mut next = vec![(root.to_path_buf(), String::new())];
    while let Some((directory, inside)) = next.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), format!("{inside}/{}", entry.file_name().to_str().unwrap()));
            let meta = fs::symlink_metadata(&path).unwrap();
            let kind = FileKind::of_mode(meta.mode()).unwrap();
            let common = format!("{:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
            let of_path = attributes_in_words(attributes.get(&name).cloned().unwrap_or_default());
            let text = match kind {
                FileKind::Regular => {
                    file_in_words(&common, meta.nlink(), &fs::read(&path).unwrap(), meta.mtime(), &of_path)
                }
                FileKind::Symlink => format!("{kind:?} {common} -> {}", fs::read_link(&path).unwrap().display()),
                _ => format!("{kind:?} {common}{of_path}"),
            };
            if kind == FileKind::Directory {
                next.push((path, name.clone()));
            }
            listing.insert(name, text);
        }
    }
    listing.extend(devices.map(of_device_table).unwrap_or_default());
    listing
}

/// By path, all extended attributes in [`HOST_ATTRIBUTES`] of files that have any.
fn host_attributes(root: &Path) -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let arguments = ["-R", "-P", "-h", "-d", "-e", "hex", "--absolute-names", "-m", HOST_ATTRIBUTES].map(AsRef::as_ref);
    let told = must_run("attr", "getfattr", arguments.into_iter().chain([root.as_os_str()])).text();
    let (mut found, mut path) = (BTreeMap::<_, Vec<_>>::new(), String::new());
    for line in told.lines() {
        if let Some(name) = line.strip_prefix("# file: ") {
            path = name.strip_prefix(root.to_str().unwrap()).unwrap().to_owned();
        } else if let Some((name, value)) = line.split_once('=') {
            let digits = value.trim_start_matches("0x").as_bytes().chunks(2);
            let bytes =
                digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
            found.entry(path.clone()).or_default().push((name.to_owned(), bytes));
        }
    }
    found.values_mut().for_each(|attributes| attributes.sort());
    found
}

/// The lines of a device table: path, type, mode, owner, group, major and minor number.
fn of_device_table(table: &Path) -> Listing {
    let mut listing = Listing::new();
    for line in fs::read_to_string(table).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let common = format!("{} {}:{}", words[2], words[3], words[4]);
        let (kind, device) = match words[1] {
            "c" => (FileKind::CharacterDevice, format!(" {},{}", words[5], words[6])),
            "b" => (FileKind::BlockDevice, format!(" {},{}", words[5], words[6])),
            "p" => (FileKind::Fifo, String::new()),
            other => panic!("{line}: no type {other}"),
        };
        listing.insert(words[0].to_owned(), format!("{kind:?} {common}{device}"));
    }
    listing
}

/// A mounted volume. What cannot be read is there as the kind of the error.
///
/// # Panics
/// Where the volume contradicts itself: a name that is listed and not found, or listed twice; a
/// content that differs when it is read in pieces; a tree without end.
pub fn of_volume(fs: &dyn FileSystem) -> Listing {
    let mut listing = Listing::new();
    let mut next = vec![(fs.root(), String::new())];
    while let Some((directory, inside)) = next.pop() {
        assert!(inside.len() < PATH_MAX, "a tree without end");
        let mut entries: Vec<(Vec<u8>, InodeNumber, FileKind)> = Vec::new();
        let shown = fs.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind));
            ControlFlow::Continue(())
        });
        if let Err(error) = shown {
            listing.insert(format!("{inside}/"), format!("{:?}", error.kind));
        }
        for (name, inode, kind) in entries {
            let path = format!("{inside}/{}", String::from_utf8_lossy(&name));
            assert_eq!(fs.lookup(directory, &name).ok(), Some(inode), "{path}");
            let text = describe(fs, inode, kind).unwrap_or_else(|error| format!("{:?}", error.kind));
            if fs.stat(inode).is_ok_and(|stat| stat.kind == FileKind::Directory) {
                next.push((inode, path.clone()));
            }
            assert!(listing.insert(path.clone(), text).is_none(), "{path} twice");
        }
    }
    listing
}

fn describe(fs: &dyn FileSystem, inode: InodeNumber, listed: FileKind) -> Result<String> {
    let stat = fs.stat(inode)?;
    let common = format!("{:o} {}:{}", stat.mode, stat.uid, stat.gid);
    let of_inode = attributes_in_words(attributes_of(fs, inode));
    let text = match stat.kind {
        FileKind::Symlink => {
            let target = fs.symlinks().map_or(Ok(Vec::new()), |links| links.read_link(inode))?;
            format!("{:?} {common} -> {}", stat.kind, String::from_utf8_lossy(&target))
        }
        FileKind::Regular => {
            let modified = stat.modified.0.div_euclid(1_000_000_000);
            file_in_words(&common, stat.links.into(), &content(fs, inode)?, modified, &of_inode)
        }
        FileKind::CharacterDevice | FileKind::BlockDevice => {
            format!("{:?} {common} {},{}{of_inode}", stat.kind, stat.device >> 32, stat.device & 0xFFFF_FFFF)
        }
        kind => format!("{kind:?} {common}{of_inode}"),
    };
    Ok(if stat.kind == listed { text } else { format!("{text}, listed as {listed:?}") })
}

/// The readable extended attributes of an inode, sorted by name.
fn attributes_of(fs: &dyn FileSystem, inode: InodeNumber) -> Vec<(String, Vec<u8>)> {
    let Some(xattrs) = fs.xattrs() else { return Vec::new() };
    let names = xattrs.xattr_names(inode).unwrap_or_default();
    let readable =
        |name: Vec<u8>| Some((String::from_utf8_lossy(&name).into_owned(), xattrs.xattr(inode, &name).ok()?));
    let mut found: Vec<(String, Vec<u8>)> = names.into_iter().filter_map(readable).collect();
    found.sort();
    found
}

/// The contents of files by path, and `None` for directories: for formats that store little else.
/// Paths are relative to the root.
pub type Contents = BTreeMap<String, Option<Vec<u8>>>;

/// The contents of a mounted volume.
///
/// # Panics
/// If something cannot be read, and where [`of_volume`] panics.
pub fn contents_of_volume(fs: &dyn FileSystem) -> Contents {
    let (mut found, mut next) = (Contents::new(), vec![(fs.root(), String::new())]);
    while let Some((directory, inside)) = next.pop() {
        assert!(inside.len() < PATH_MAX, "a tree without end");
        let mut entries = Vec::new();
        fs.read_dir(directory, 0, &mut |entry| {
            entries.push((String::from_utf8_lossy(entry.name).into_owned(), entry.inode, entry.kind));
            ControlFlow::Continue(())
        })
        .unwrap();
        for (name, inode, kind) in entries {
            let path = format!("{inside}{name}");
            let content = match kind {
                FileKind::Directory => {
                    next.push((inode, format!("{path}/")));
                    None
                }
                _ => Some(content(fs, inode).unwrap()),
            };
            assert!(found.insert(path.clone(), content).is_none(), "{path} twice");
        }
    }
    found
}

/// The contents of a directory of this machine.
///
/// # Panics
/// On what cannot be read.
pub fn contents_of_directory(root: &Path) -> Contents {
    let (mut found, mut next) = (Contents::new(), vec![(root.to_path_buf(), String::new())]);
    while let Some((directory, inside)) = next.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{inside}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                next.push((entry.path(), format!("{path}/")));
                found.insert(path, None);
            } else {
                found.insert(path, Some(fs::read(entry.path()).unwrap()));
            }
        }
    }
    found
}

/// What mtools copies out of a FAT image, as it names it. Errors: what mcopy says.
///
/// # Panics
/// Where mtools is not installed, and on what cannot be written.
pub fn mtools_contents(image: &Path, target: &Path) -> std::result::Result<Contents, String> {
    let arguments: [&std::ffi::OsStr; 6] =
        ["-s".as_ref(), "-n".as_ref(), "-i".as_ref(), image.as_os_str(), "::/".as_ref(), target.as_os_str()];
    let copied = tool("mtools", "mcopy", arguments).unwrap_or_else(|error| panic!("{error}"));
    if copied.succeeded() { Ok(contents_of_directory(target)) } else { Err(format!("mcopy: {}", copied.text())) }
}

/// Contents under the names of mtools: it shows `_` for each half of a character outside the basic
/// plane.
pub fn as_mtools_names(contents: &Contents) -> Contents {
    let shown = |c: char| if c.len_utf16() == 2 { "__".to_owned() } else { c.to_string() };
    contents.iter().map(|(path, content)| (path.chars().map(shown).collect(), content.clone())).collect()
}

/// Compares contents with the expected ones. Errors: the differences.
pub fn compare_contents(found: &Contents, expected: &Contents) -> std::result::Result<(), String> {
    let names = |tree: &Contents, other: &Contents| -> Vec<String> {
        tree.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
    };
    let (more, less) = (names(found, expected), names(expected, found));
    if !(more.is_empty() && less.is_empty()) {
        return Err(format!("shows {more:?} besides, and not {less:?}"));
    }
    match expected.iter().find(|(path, node)| found.get(*path) != Some(node)) {
        Some((path, _)) => Err(format!("reads {path} differently")),
        None => Ok(()),
    }
}

/// A file's content, read at once, and again in odd pieces and by its ranges of data; of a file
/// that says it is very long the beginning.
///
/// # Errors
/// What the reads say.
///
/// # Panics
/// Where the ways to read differ.
pub fn content(fs: &dyn FileSystem, inode: InodeNumber) -> Result<Vec<u8>> {
    let stated = fs.stat(inode)?.size;
    let size = if stated <= WHOLE_MAX { stated as usize } else { BEGINNING as usize };
    let mut bytes = vec![0xA5; size + if stated <= WHOLE_MAX { 10 } else { 0 }];
    let count = fs.read(inode, 0, ReadInto::Bytes(&mut bytes))?;
    assert_eq!(count, size, "inode {}", inode.0);
    bytes.truncate(count);
    let mut at = 0;
    while at < size {
        let mut piece = [0; 10_007];
        let count = fs.read(inode, at as u64, ReadInto::Bytes(&mut piece))?.min(size - at);
        assert!(count > 0 && piece[..count] == bytes[at..at + count], "inode {}: piece at {at}", inode.0);
        at += count;
    }
    let (mut at, mut by_ranges) = (0, vec![0; size]);
    while let Some(range) = fs.data_after(inode, at)?.filter(|range| range.start < size as u64) {
        assert!(range.start >= at && range.start < range.end && range.end <= stated, "inode {}: {range:?}", inode.0);
        let within = range.start as usize..(range.end as usize).min(size);
        by_ranges[within.clone()].copy_from_slice(&bytes[within]);
        at = range.end;
    }
    assert!(by_ranges == bytes, "inode {}: ranges leave data out", inode.0);
    Ok(bytes)
}

/// Panics unless both are the same; tells the first few differences.
#[track_caller]
pub fn assert_same(left: &Listing, right: &Listing, context: &str) {
    let paths: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let different = paths.into_iter().filter(|path| left.get(*path) != right.get(*path));
    let told: Vec<String> =
        different.take(6).map(|path| format!("{path}: {:?} / {:?}", left.get(path), right.get(path))).collect();
    assert!(told.is_empty(), "{context}:\n{}", told.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees;

    #[test]
    fn a_directory_is_listed_with_its_devices_and_attributes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let table = trees::plant_all_kinds(&root, 40, 3, 8);
        let listing = of_directory(&root, Some(&table));
        let of_kind = |kind: FileKind| {
            let word = format!("{kind:?} ");
            listing.values().filter(|text| text.starts_with(&word)).count()
        };
        assert!(of_kind(FileKind::Regular) > 25 && of_kind(FileKind::Symlink) == 3);
        assert_eq!([FileKind::CharacterDevice, FileKind::BlockDevice, FileKind::Fifo].map(of_kind), [1, 1, 1]);
        assert!(listing.values().filter(|text| text.contains("user.common=")).count() > 2);
        assert!(listing.values().filter(|text| text.contains("system.posix_acl_access=")).count() > 2);
        let mut other = listing.clone();
        other.insert("/more".to_owned(), String::new());
        assert!(std::panic::catch_unwind(|| assert_same(&listing, &other, "")).is_err());
    }
}
