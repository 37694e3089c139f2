//! Reading a file in a single consistent version.

use std::fs::File;
use std::io;
use std::ops::Range;

use nandkit_units::Nanos;
use nandkit_vfs::source::SourceNode;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Timestamp};
use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;

use super::Source;
use crate::directory::{identity, node_of};
use crate::host;

/// Largest file in bytes that is read whole.
pub const WHOLE_MAX: u64 = 4 << 20;

/// The granularity of file times: at most the kernel's tick of 10 ms (CONFIG_HZ=100;
/// Documentation/filesystems/multigrain-ts.rst). A change within this time after another one may
/// not be visible, so a file is accepted only this long after its last change.
const GRAIN: Nanos = Nanos(20_000_000);

/// Attempts to read a file before it is reported as changing all the time.
const TRIES: u32 = 10;

/// Identifies a file version: device, inode, size, times of modification and of change.
pub type Version = (u64, u64, u64, i64, i64);

/// The content of a member.
#[derive(Debug)]
pub enum Content {
    /// All bytes.
    Whole(Vec<u8>),
    /// An open file; reads up to `asked` were requested ahead.
    Streamed { file: File, asked: u64 },
}

/// A file that is ready to be read.
#[derive(Debug)]
pub struct Member {
    /// The current node, if it differs from the listed one.
    pub node: Option<SourceNode>,
    pub size: u64,
    pub version: Version,
    pub content: Content,
    /// Its runs of data, if holes are requested.
    pub runs: Option<Vec<Range<u64>>>,
    /// Number of repeated reads.
    pub again: u32,
}

fn version_of(found: &Stat) -> Version {
    let (device, inode, size, modified) = identity(found);
    (device, inode, size, modified, host::timestamp(found.st_ctime, found.st_ctime_nsec as i64).0)
}

fn failed(source: &Source, node: usize, doing: &str, error: impl Into<io::Error>) -> FsError {
    FsError::device(format!("{}: {doing}", source.directory.show(node)), error.into())
}

fn changed(source: &Source, node: usize) -> FsError {
    let detail = format!("{} was changed while it was read", source.directory.show(node));
    FsError::new(ErrorKind::Corrupt, detail)
}

/// Checks that a file has not changed. Errors: it has.
pub fn expect_same(source: &Source, node: usize, file: &File, version: &Version) -> nandkit_vfs::Result<()> {
    let now = rustix::fs::fstat(file).map_err(|error| failed(source, node, "reading attributes", error))?;
    if version_of(&now) == *version { Ok(()) } else { Err(changed(source, node)) }
}

/// Opens the file of a node.
pub fn open(source: &Source, node: usize) -> nandkit_vfs::Result<File> {
    source.directory.open_now(node).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            FsError::new(ErrorKind::NotFound, format!("{} was removed before it was read", source.directory.show(node)))
        }
        _ => failed(source, node, "opening", error),
    })
}

/// Reads a file whole, repeatedly until its attributes are the same before and after; a large file
/// is only opened.
pub fn read(source: &Source, node: usize, file: File) -> nandkit_vfs::Result<Member> {
    let clock = source.options.clock;
    let look = || rustix::fs::fstat(&file).map_err(|error| failed(source, node, "reading attributes", error));
    for again in 0..TRIES {
        let before = look()?;
        if FileKind::of_mode(before.st_mode) != Some(FileKind::Regular) {
            let detail = format!("{} is no file any more", source.directory.show(node));
            return Err(FsError::new(ErrorKind::NotFound, detail));
        }
        let (version, began) = (version_of(&before), (clock.now)());
        let size = version.2;
        let present = present(source, node, &file, &before)?;
        let runs = if source.options.holes { Some(runs(&file, size)) } else { None };
        if size > WHOLE_MAX {
            // Reads during streaming detect later changes.
            let content = Content::Streamed { file, asked: 0 };
            return Ok(Member { node: present, size, version, content, runs, again });
        }
        let mut bytes = vec![0; size as usize];
        let count = host::read_at(&file, &mut bytes, 0).map_err(|error| failed(source, node, "reading", error))?;
        let is_same = count as u64 == size && version_of(&look()?) == version;
        if is_same && !is_fresh(Timestamp(version.4), began) {
            return Ok(Member { node: present, size, version, content: Content::Whole(bytes), runs, again });
        }
        (clock.wait)(GRAIN);
    }
    Err(changed(source, node))
}

/// Whether another change might not be visible in the time of the last one. Times far in the future
/// come from another machine and prove nothing.
fn is_fresh(changed: Timestamp, now: Timestamp) -> bool {
    let grain = GRAIN.0 as i64;
    let age = now.0.saturating_sub(changed.0);
    age < grain && age > -50 * grain
}

/// The current node, if it differs from the listed one.
fn present(source: &Source, node: usize, file: &File, found: &Stat) -> nandkit_vfs::Result<Option<SourceNode>> {
    let listed = source.directory.nodes_at(node)?;
    let now = node_of(found, FileKind::Regular);
    let is_same = source.directory.identity(node) == Some(identity(found)) && listed.changed == now.changed;
    if is_same {
        return Ok(None);
    }
    let mut xattrs = Vec::new();
    if !source.options.directory.no_xattrs {
        let read = host::file_xattrs(file);
        xattrs = read.map_err(|error| failed(source, node, "reading extended attributes", error))?;
    }
    Ok(Some(SourceNode { parent: listed.parent, name: listed.name.clone(), xattrs, ..now }))
}

/// The runs of data reported by the host's file system; the whole file if it reports none.
fn runs(file: &File, size: u64) -> Vec<Range<u64>> {
    let (mut runs, mut offset) = (Vec::new(), 0);
    while offset < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => offset,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        if start >= end {
            break;
        }
        runs.push(start..end);
        offset = end;
    }
    runs
}
