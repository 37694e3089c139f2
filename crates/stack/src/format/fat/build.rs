//! FAT volumes, empty or from trees.

use std::fs::File;
use std::path::Path;

use nandkit_block::{Access, BlockDevice, FileDevice};
use nandkit_fat::{Cache, Fat, MountOptions, WriteBack, format};
use nandkit_units::{Clock, Nanos, format_bytes};
use nandkit_vfs::path::write_inode;
use nandkit_vfs::source::{SourceTree, path as path_of, to_read};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileKind, FsError, InodeNumber, NewNode, Timestamp};

use super::mount::format_options;
use super::spec::FatSpec;
use crate::StackError;
use crate::format::{BuildVolume, Built, Fact};
use crate::frame::EPOCH_UNIX_NS;

/// Sector size in bytes, as on memory cards.
const SECTOR_SIZE: u32 = 512;
/// Bytes of a file copied at once.
const CHUNK: usize = 1 << 20;
/// Metadata sectors cached while the tree is written. Durability does not matter until the image
/// has its name.
const CACHE_SECTORS: usize = 1 << 14;
/// The times that FAT's dates hold, in seconds since 1970: 1980-01-01 to 2107-12-31 (Microsoft,
/// FAT32 File System Specification, "Date and Time Formats").
const SECONDS_HELD: std::ops::Range<i64> = 315_532_800..4_354_819_200;

/// Options of a new FAT volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FatBuild {
    /// Bytes of the volume, a multiple of 512.
    pub size: u64,
    /// Type, clusters, label and root directory; options of a mounted volume are ignored.
    pub layout: FatSpec,
    /// Serial number of the volume.
    pub volume_id: u32,
}

/// Statistics of a written tree.
#[derive(Debug, Default)]
struct Written {
    names: u64,
    content_bytes: u64,
    /// Links, devices and other entries that FAT cannot hold.
    left_out: u64,
}

fn wrong(detail: impl std::fmt::Display) -> StackError {
    StackError::new("image", detail.to_string())
}

fn told(error: FsError) -> StackError {
    let source = error.source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    wrong(format!("{}{source}", error.detail))
}

impl BuildVolume for FatBuild {
    fn check(&self) -> Result<(), StackError> {
        if self.size == 0 || !self.size.is_multiple_of(SECTOR_SIZE.into()) {
            return Err(wrong(format!("`size`: {} bytes; expected a multiple of {SECTOR_SIZE}", self.size)));
        }
        self.layout.check().map_err(|error| wrong(error.to_string()))
    }

    fn build(
        &self,
        tree: Option<&dyn SourceTree>,
        path: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Built, StackError> {
        self.check()?;
        let size = self.size;
        let failed =
            |error: std::io::Error| wrong(format!("{}: cannot be made {size} bytes long: {error}", path.display()));
        let file = File::options().write(true).open(path).map_err(failed)?;
        // Make the whole file a hole first.
        file.set_len(0).and_then(|()| file.set_len(size)).map_err(failed)?;
        drop(file);
        let mut device = FileDevice::open(path, SECTOR_SIZE, Access::ReadWrite).map_err(wrong)?;
        let clock = Clock::starting_at(EPOCH_UNIX_NS);
        let mut options = format_options(&self.layout);
        options.volume_id = self.volume_id;
        format(&mut device, &clock, &options).map_err(told)?;
        let write_back = WriteBack::Back { dirty_limit: CACHE_SECTORS, age_limit: Nanos(u64::MAX) };
        let cache = Cache::Sectors { sectors: CACHE_SECTORS, write_back, data: false };
        let options = MountOptions { cache, barriers: false, ..MountOptions::default() };
        let mut volume = Fat::mount(Box::new(device) as Box<dyn BlockDevice>, clock, options).map_err(told)?;
        let written = match tree {
            Some(tree) => write(&mut volume, tree, progress).map_err(told)?,
            None => Written::default(),
        };
        volume.unmount().map_err(told)?;
        Ok(self.built(&written, volume.geometry().kind.name(), volume.geometry().cluster_size()))
    }

    fn holds_time(&self, time: Timestamp) -> bool {
        SECONDS_HELD.contains(&time.0.div_euclid(1_000_000_000))
    }

    fn times_not_held(&self) -> &'static str {
        "before 1980 or after 2107, which FAT cannot hold"
    }
}

impl FatBuild {
    fn built(&self, written: &Written, kind: &str, cluster_size: u32) -> Built {
        let left_out = match written.left_out {
            0 => String::new(),
            count => format!("; left out: {count} links, devices or sockets, which FAT cannot hold"),
        };
        let line = format!(
            "{} names, {} of files in {kind} of {}, clusters of {}{left_out}",
            written.names,
            format_bytes(written.content_bytes),
            format_bytes(self.size),
            format_bytes(cluster_size.into()),
        );
        let facts = vec![
            Fact::member("format", "fat"),
            Fact::member("type", kind.to_owned()),
            Fact::member("size", self.size),
            Fact::member("cluster_size", u64::from(cluster_size)),
            Fact::member("names", written.names),
            Fact::member("content_bytes", written.content_bytes),
            Fact::member("left_out", written.left_out),
        ];
        Built { line, facts }
    }
}

/// Writes a tree into an empty volume. A hard link becomes a file of its own. Errors: those of the
/// volume and of the tree, with the path.
fn write(volume: &mut impl Changes, tree: &dyn SourceTree, progress: &dyn Fn(u64)) -> Result<Written, FsError> {
    let nodes = tree.nodes();
    let mut written = Written::default();
    let mut made: Vec<InodeNumber> = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let within = |error: FsError| {
            let path = String::from_utf8_lossy(&path_of(nodes, index)).escape_default().to_string();
            FsError { detail: format!("{path}: {}", error.detail), ..error }
        };
        let first = node.hard_link_of.unwrap_or(index);
        let root = volume.root();
        if index == 0 {
            made.push(root);
            continue;
        }
        if !matches!(node.kind, FileKind::Regular | FileKind::Directory) {
            written.left_out += 1;
            made.push(root);
            continue;
        }
        let parent = made.get(node.parent).copied().unwrap_or(root);
        let new = NewNode { kind: node.kind, mode: node.mode, uid: 0, gid: 0, device: node.device, target: &[] };
        let inode = volume.create(parent, &node.name, &new).map_err(within)?;
        made.push(inode);
        written.names += 1;
        if node.kind == FileKind::Regular {
            let size = nodes.get(first).map_or(node.size, |first| first.size);
            content(volume, tree, (first, size), inode, &|bytes| progress(written.content_bytes + bytes))
                .map_err(within)?;
            written.content_bytes += size;
            set_times(volume, inode, node.accessed, node.modified).map_err(within)?;
        }
    }
    // Set times last, since each new name changes its directory's time.
    for (index, node) in nodes.iter().enumerate().skip(1).filter(|(_, node)| node.kind == FileKind::Directory) {
        if let Some(inode) = made.get(index) {
            set_times(volume, *inode, node.accessed, node.modified)?;
        }
    }
    Ok(written)
}

/// Writes the content of a file. FAT has no holes, so that they are written as zeroes.
fn content(
    volume: &mut impl Changes,
    tree: &dyn SourceTree,
    (node, size): (usize, u64),
    inode: InodeNumber,
    progress: &dyn Fn(u64),
) -> Result<(), FsError> {
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < size {
        let end = size.min(at + CHUNK as u64);
        let length = usize::try_from(end - at).unwrap_or(CHUNK);
        let Some(bytes) = chunk.get_mut(..length) else { break };
        bytes.fill(0);
        let data = to_read(tree.data_after(node, at), at..end);
        let skipped = usize::try_from(data.start.clamp(at, end) - at).unwrap_or(length);
        let wanted = bytes.get_mut(skipped..).unwrap_or_default();
        if !wanted.is_empty() {
            let mut filled = 0;
            while let Some(rest) = wanted.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match tree.read(node, at + (skipped + filled) as u64, rest)? {
                    0 => return Err(FsError::new(ErrorKind::Corrupt, format!("its {size} bytes end at byte {at}"))),
                    count => filled += count,
                }
            }
        }
        write_inode(volume, inode, at, bytes)?;
        at = end;
        progress(at);
    }
    Ok(())
}

fn set_times(
    volume: &mut impl Changes,
    inode: InodeNumber,
    accessed: Timestamp,
    modified: Timestamp,
) -> Result<(), FsError> {
    let change = AttributeChange { accessed: Some(accessed), modified: Some(modified), ..AttributeChange::default() };
    volume.set_attributes(inode, &change).map(drop)
}
