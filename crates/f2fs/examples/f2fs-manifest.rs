//! Lists an F2FS image in the format of `helper manifest` for a mounted tree
//! (xtask/src/kernel/guest/manifest.c): one line per entry, with a hash of the content.
//!
//! Of files over 4 GiB, which are mostly holes, only the ranges with data are read: they get a line
//! with `data`, path, ranges and the last bytes instead.
//!
//! `f2fs-manifest IMAGE [PATH...]`: after the listing come the mount's notes in lines that start
//! with `note`, a line `compressed` with the number of files made smaller by compression and the
//! blocks saved, a line `hashed` with the number of names in casefolded directories that were found
//! by their hash, and for each path `found` or `absent`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use nandkit_block::{Access, FileDevice};
use nandkit_f2fs::Blocks;
use nandkit_f2fs::Inode;
use nandkit_f2fs::testing::directory::{DirectoryPages, casefold, find_hashed, hash};
use nandkit_f2fs::testing::node::tree::{Leaf, leaf};
use nandkit_f2fs::{Block, DataAddress, F2fs, MountOptions};
use nandkit_units::{Cause, Clock, ReadInto};
use nandkit_vfs::{Attributes, FileKind, FileSystem, InodeNumber};
use sha2::{Digest, Sha256};

type MountedImage = F2fs<FileDevice>;
type Anything<T> = Result<T, Box<dyn Error>>;

/// Bytes of a file read at once.
const PIECE: usize = 1 << 20;

/// Larger files are listed by their ranges.
const LARGE: u64 = 1 << 32;

fn escaped(text: &[u8]) -> String {
    text.iter().fold(String::new(), |mut all, &byte| {
        match byte {
            b'\\' | ..=0x20 | 0x7F.. => write!(all, "\\x{byte:02x}").unwrap_or_default(),
            byte => all.push(char::from(byte)),
        }
        all
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut all, byte| {
        write!(all, "{byte:02x}").unwrap_or_default();
        all
    })
}

/// All entries by path; the root's is empty. Checks that a lookup finds every name.
fn collect(volume: &MountedImage) -> Anything<BTreeMap<Vec<u8>, InodeNumber>> {
    let mut all = BTreeMap::from([(Vec::new(), volume.root())]);
    let mut queue = vec![(Vec::new(), volume.root())];
    while let Some((path, directory)) = queue.pop() {
        let mut entries = Vec::new();
        volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind));
            ControlFlow::Continue(())
        })?;
        for (name, inode, kind) in entries {
            let below = if path.is_empty() { name.clone() } else { [&path, &b"/"[..], &name].concat() };
            if volume.lookup(directory, &name)? != inode {
                return Err(format!("{}: a lookup finds another inode", escaped(&below)).into());
            }
            if kind == FileKind::Directory {
                queue.push((below.clone(), inode));
            }
            all.insert(below, inode);
        }
    }
    Ok(all)
}

fn hash_of(volume: &MountedImage, inode: InodeNumber, size: u64) -> Anything<String> {
    let (mut hash, mut at, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    while at < size {
        let count = FileSystem::read(volume, inode, at, ReadInto::Bytes(&mut piece))?;
        hash.update(piece.get(..count).unwrap_or_default());
        at += count.max(1) as u64;
    }
    Ok(hex(&hash.finalize()))
}

/// The data ranges of a file that is too large to read whole, and its last ten bytes.
fn ranges_of(volume: &MountedImage, inode: InodeNumber, size: u64) -> Anything<String> {
    let (mut text, mut at) = (String::new(), 0);
    while let Some(range) = volume.data_after(inode, at)? {
        write!(text, "{}-{} ", range.start, range.end)?;
        at = range.end;
    }
    let mut last = [0; 10];
    FileSystem::read(volume, inode, size - last.len() as u64, ReadInto::Bytes(&mut last))?;
    Ok(text + &escaped(&last))
}

fn xattrs_of(volume: &MountedImage, inode: InodeNumber) -> Anything<String> {
    let mut all = Vec::new();
    for (name, value) in volume.xattrs().ok_or("no attributes")?.all_xattrs(inode)? {
        all.push((name, value?));
    }
    all.sort();
    let shown: Vec<String> = all.iter().map(|(name, value)| format!("{}={}", escaped(name), hex(value))).collect();
    Ok(if shown.is_empty() { "-".to_owned() } else { shown.join(",") })
}

fn line(volume: &MountedImage, path: &[u8], stat: &Attributes, first: Option<&[u8]>) -> Anything<String> {
    let or_none = |shown: Option<String>| shown.unwrap_or_else(|| "-".to_owned());
    let is = |kind| stat.kind == kind;
    let letter = match stat.kind {
        FileKind::Regular => 'f',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::CharacterDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    };
    let device = is(FileKind::CharacterDevice) || is(FileKind::BlockDevice);
    let target = match stat.kind {
        FileKind::Symlink => Some(escaped(&volume.symlinks().ok_or("no links")?.read_link(stat.inode)?)),
        _ => None,
    };
    let hash = match stat.kind {
        FileKind::Regular => Some(hash_of(volume, stat.inode, stat.size)?),
        _ => None,
    };
    let fields = [
        if path.is_empty() { ".".to_owned() } else { escaped(path) },
        letter.to_string(),
        format!("{:04o}", stat.mode),
        stat.uid.to_string(),
        stat.gid.to_string(),
        or_none(is(FileKind::Regular).then(|| stat.size.to_string())),
        or_none((!is(FileKind::Directory)).then(|| stat.links.to_string())),
        stat.modified.0.div_euclid(1_000_000_000).to_string(),
        or_none(device.then(|| format!("{}:{}", stat.device >> 32, stat.device & 0xFFFF_FFFF))),
        or_none(target),
        or_none(hash),
        xattrs_of(volume, stat.inode)?,
        or_none(first.map(escaped)),
    ];
    Ok(fields.join("\t"))
}

/// The pages of a directory, read directly from the volume.
struct Pages<'a>(&'a MountedImage, Inode);

impl DirectoryPages for Pages<'_> {
    fn page(&self, page: u32) -> nandkit_vfs::Result<Option<Block>> {
        let Leaf::Addresses(addresses) = leaf(self.0, &self.1, u64::from(page))? else { return Ok(None) };
        let DataAddress::At(at) = addresses.get(0) else { return Ok(None) };
        let mut block = vec![0; self.0.geometry().block_size()];
        Blocks::read(self.0, Cause::Metadata, at, &mut block)?;
        Ok(Some(block.into()))
    }
}

/// Whether the hash of a folded name leads to its entry. A lookup would find it without the hash
/// too, by searching all entries.
fn hash_leads(pages: &Pages<'_>, name: &[u8]) -> Anything<bool> {
    let (head, key) = (&pages.1.head, casefold::key(name));
    Ok(find_hashed(pages, hash(&key), &|found| found == name, head.depth.get(), head.directory_level)?.is_some())
}

/// The number of names found by their hash in casefolded directories that are not inline. Errors: a
/// name that is not.
fn folded(volume: &MountedImage, all: &BTreeMap<Vec<u8>, InodeNumber>) -> Anything<usize> {
    let mut count = 0;
    for path in all.keys().filter(|path| !path.is_empty()) {
        let (directory, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default()),
            None => (&[][..], &path[..]),
        };
        let inode = volume.inode(*all.get(directory).ok_or("an entry without a directory")?)?;
        if inode.is_casefolded() && inode.inline_entries().is_none() {
            if !hash_leads(&Pages(volume, inode), name)? {
                return Err(format!("{}: its hash does not lead to it", escaped(path)).into());
            }
            count += 1;
        }
    }
    Ok(count)
}

fn exists(volume: &MountedImage, path: &str) -> bool {
    let mut inode = volume.root();
    path.split('/').all(|name| volume.lookup(inode, name.as_bytes()).map(|next| inode = next).is_ok())
}

fn main() -> Anything<()> {
    let mut words = std::env::args().skip(1);
    let image = words.next().ok_or("f2fs-manifest IMAGE [PATH...]")?;
    let device = FileDevice::open(Path::new(&image), 512, Access::ReadOnly)?;
    let volume = F2fs::mount(device, Clock::default(), MountOptions::default())?;
    let mut first_names: BTreeMap<InodeNumber, Vec<u8>> = BTreeMap::new();
    let (mut compressed, mut saved) = (0, 0);
    let all = collect(&volume)?;
    for (path, &inode) in &all {
        let stat = volume.stat(inode)?;
        let details = volume.inode(inode)?;
        if let Some(extra) = details.extra.filter(|extra| details.is_compressed() && extra.compressed_blocks.get() > 0)
        {
            (compressed, saved) = (compressed + 1, saved + extra.compressed_blocks.get());
        }
        let first = first_names.entry(inode).or_insert_with(|| path.clone());
        if stat.size > LARGE {
            println!("data\t{}\t{}", escaped(path), ranges_of(&volume, inode, stat.size)?);
            continue;
        }
        let other = stat.kind != FileKind::Directory && first != path;
        let text = line(&volume, path, &stat, other.then_some(&first[..]));
        println!("{}", text.map_err(|error| format!("{}: {error}", escaped(path)))?);
    }
    for note in volume.notes() {
        println!("note\t{:?}\t{note}", note.kind);
    }
    println!("compressed\t{compressed}\t{saved}\nhashed\t{}", folded(&volume, &all)?);
    for path in words {
        println!("{}\t{path}", if exists(&volume, &path) { "found" } else { "absent" });
    }
    Ok(())
}
