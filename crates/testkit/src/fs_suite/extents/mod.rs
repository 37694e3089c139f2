//! Conformance suite of `trait Extents`: it compares the extents of files with their content and
//! with the device.
//!
//! ```
//! use nandkit_testkit::fs_suite::extents::{self, PlantedMaker};
//!
//! extents::run(&PlantedMaker { fault: None }).unwrap();
//! ```

mod planted;

use std::ops::Range;

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{
    AttributeChange, ErrorKind, ExtentKind, Extents, FileExtent, FileSystem, InodeNumber, NewNode, all_extents,
};

use super::bench::{CheckResult, fails, ok, pattern};
use super::{FsMaker, VolumeSize};
use crate::violation::{Violations, ensure, guarded};

pub use planted::{ExtentFault, Planted, PlantedMaker};

/// Makes file systems whose device can be read.
pub trait DeviceMaker: FsMaker {
    /// The bytes of the device from an address on, as a reader of the device finds them now.
    fn read_device(&self, fs: &Self::Fs, address: u64, into: &mut [u8]) -> Result<(), String>;
}

/// Reads the device's bytes from an address on. Errors: what is wrong.
pub type ReadDevice<'a> = &'a dyn Fn(u64, &mut [u8]) -> Result<(), String>;

/// Compares all extents of a file with its content. `read` reads the device. Errors: what is wrong.
pub fn judge(fs: &dyn FileSystem, inode: InodeNumber, read: ReadDevice<'_>) -> Result<Vec<FileExtent>, String> {
    let extents = fs.extents().ok_or("the file system has no extents any more")?;
    let size = ok(fs.stat(inode), "stat")?.size;
    let all = walk(extents, inode)?;
    let told = ok(all_extents(extents, inode), "all_extents")?;
    ensure!(data(&told, size) == data(&all, size), "joined, extents say otherwise: {told:?} and {all:?}");
    let mut expected = Vec::new();
    while let Some(range) = ok(fs.data_after(inode, expected.last().map_or(0, |r: &Range<u64>| r.end)), "data_after")? {
        push(&mut expected, range);
    }
    let found = data(&all, size);
    ensure!(found == expected, "extents hold data at {found:?}; data_after says {expected:?}");
    for extent in &all {
        judge_content(fs, inode, size, extent, read)?;
    }
    Ok(all)
}

/// All extents as the file system returns them, in order.
fn walk(extents: &dyn Extents, inode: InodeNumber) -> CheckResult<Vec<FileExtent>> {
    let mut all: Vec<FileExtent> = Vec::new();
    let mut behind = 0;
    while let Some(extent) = ok(extents.extent_after(inode, behind), format_args!("extent_after {behind}"))? {
        ensure!(extent.length > 0, "an extent of no bytes: {extent:?}");
        ensure!(extent.offset >= behind, "extent_after {behind} says {extent:?}, which begins before");
        let delayed = extent.kind == ExtentKind::Delayed;
        ensure!(!delayed || extent.address.is_none(), "what waits in memory has an address: {extent:?}");
        ensure!(extent.kind != ExtentKind::Written || extent.address.is_some(), "no address: {extent:?}");
        // Asked from inside an extent, the file system returns its rest.
        let middle = extent.offset + extent.length / 2;
        let rest = ok(extents.extent_after(inode, middle), format_args!("extent_after {middle}"))?;
        let holds = rest.is_some_and(|rest| {
            let same = rest.kind == extent.kind && rest.range().contains(&middle) && rest.offset >= extent.offset;
            same && (extent.kind == ExtentKind::Encoded || address_of(&rest, middle) == address_of(&extent, middle))
        });
        ensure!(holds, "at {middle}, within {extent:?}, stands {rest:?}");
        behind = extent.end();
        all.push(extent);
    }
    Ok(all)
}

fn address_of(extent: &FileExtent, offset: u64) -> Option<u64> {
    extent.address.map(|address| address + (offset - extent.offset))
}

/// The data of extents within the size, neighbours joined.
fn data(extents: &[FileExtent], size: u64) -> Vec<Range<u64>> {
    let mut all = Vec::new();
    for extent in extents.iter().filter(|extent| extent.kind.is_data()) {
        push(&mut all, extent.offset.min(size)..extent.end().min(size));
    }
    all
}

fn push(all: &mut Vec<Range<u64>>, range: Range<u64>) {
    match all.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if range.is_empty() => {}
        _ => all.push(range),
    }
}

fn judge_content(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    size: u64,
    extent: &FileExtent,
    read: ReadDevice<'_>,
) -> CheckResult {
    let length = extent.end().min(size).saturating_sub(extent.offset) as usize;
    let (mut content, mut device) = (vec![0xEE; length], vec![0xDD; length]);
    let count = ok(fs.read(inode, extent.offset, ReadInto::Bytes(&mut content)), "read of an extent")?;
    ensure!(count == length, "{count} bytes of {extent:?} in a file of {size}");
    match (extent.kind, extent.address) {
        (ExtentKind::Written | ExtentKind::Inline, Some(address)) => {
            read(address, &mut device)?;
            let wrong = content.iter().zip(&device).position(|(file, device)| file != device);
            ensure!(wrong.is_none(), "{extent:?}: byte {} is another on the device", wrong.unwrap_or(0));
        }
        (ExtentKind::Unwritten, _) => {
            ensure!(content.iter().all(|byte| *byte == 0), "{extent:?} does not read as zeroes");
        }
        _ => {}
    }
    Ok(())
}

type Check<M> = fn(&M, &mut <M as FsMaker>::Fs) -> CheckResult;

/// The names of all checks, in the order in which they run.
pub const CHECK_NAMES: [&str; 5] = ["pieces", "holes", "allocated", "changes", "refusals"];

/// Runs all checks, each on a new volume.
pub fn run<M: DeviceMaker>(maker: &M) -> Result<(), Violations> {
    let checks: [Check<M>; 5] = [pieces, holes, allocated, changes, refusals];
    let mut found = Vec::new();
    for (name, check) in CHECK_NAMES.into_iter().zip(checks) {
        found.extend(guarded(name, "file system", || check(maker, &mut maker.make(VolumeSize::Roomy))));
    }
    Violations::or_ok(found)
}

fn file<F: FileSystem>(fs: &mut F, name: &[u8]) -> CheckResult<InodeNumber> {
    let root = fs.root();
    ok(fs.changes().ok_or("mounted read-only")?.create(root, name, &NewNode::FILE), "create")
}

fn write<F: FileSystem>(fs: &mut F, inode: InodeNumber, offset: u64, bytes: &[u8]) -> CheckResult {
    let changes = fs.changes().ok_or("mounted read-only")?;
    let count = ok(changes.write(inode, offset, Payload::Bytes(bytes)), format_args!("write at {offset}"))?;
    ensure!(count == bytes.len(), "a write of {} bytes took {count}", bytes.len());
    Ok(())
}

fn sync<F: FileSystem>(fs: &mut F) -> CheckResult {
    ok(fs.changes().ok_or("mounted read-only")?.sync(None), "sync")
}

/// Judges some files before a sync and after it.
fn judge_all<M: DeviceMaker>(maker: &M, fs: &mut M::Fs, files: &[InodeNumber]) -> CheckResult {
    for durable in [false, true] {
        for inode in files {
            let read = |at: u64, into: &mut [u8]| maker.read_device(fs, at, into);
            let when = if durable { "durable" } else { "before a sync" };
            let all = judge(fs, *inode, &read).map_err(|wrong| format!("inode {}, {when}: {wrong}", inode.0))?;
            let waits = all.iter().find(|extent| extent.kind == ExtentKind::Delayed);
            ensure!(!durable || waits.is_none(), "inode {} behind a sync: {waits:?} waits still", inode.0);
        }
        sync(fs)?;
    }
    Ok(())
}

/// Files of all sizes, two of them written in turns, so that each is in pieces.
fn pieces<M: DeviceMaker>(maker: &M, fs: &mut M::Fs) -> CheckResult {
    let mut files = Vec::new();
    for (number, length) in [0, 1, 60, 4096, 4097, 70_000, 3_000_000].into_iter().enumerate() {
        let inode = file(fs, format!("whole-{number}").as_bytes())?;
        write(fs, inode, 0, &pattern(length, number as u64))?;
        files.push(inode);
    }
    let (one, other) = (file(fs, b"one")?, file(fs, b"other")?);
    for round in 0..12_u64 {
        for inode in [one, other] {
            write(fs, inode, round * 20_000, &pattern(20_000, round * 2 + inode.0))?;
        }
        sync(fs)?;
    }
    files.extend([one, other]);
    judge_all(maker, fs, &files)
}

/// Files with holes, where the format has any.
fn holes<M: DeviceMaker>(maker: &M, fs: &mut M::Fs) -> CheckResult {
    let inode = file(fs, b"sparse")?;
    for (number, offset) in [0, 8192, 100_000, 131_072, 900_000, 5_000_000].into_iter().enumerate() {
        write(fs, inode, offset, &pattern(5000, number as u64))?;
    }
    judge_all(maker, fs, &[inode])?;
    let changes = fs.changes().ok_or("mounted read-only")?;
    if let Some(holes) = changes.holes() {
        ok(holes.punch_hole(inode, 100_000, 20_000), "punch_hole")?;
        ok(holes.punch_hole(inode, 4_999_000, 4096), "punch_hole")?;
        judge_all(maker, fs, &[inode])?;
    }
    let change = AttributeChange { size: Some(7_000_001), ..AttributeChange::default() };
    ok(fs.changes().ok_or("mounted read-only")?.set_attributes(inode, &change), "size")?;
    judge_all(maker, fs, &[inode])
}

/// Space that was allocated ahead, within the size and behind it.
fn allocated<M: DeviceMaker>(maker: &M, fs: &mut M::Fs) -> CheckResult {
    let inode = file(fs, b"allocated")?;
    let changes = fs.changes().ok_or("mounted read-only")?;
    let Some(allocation) = changes.allocation() else { return Ok(()) };
    ok(allocation.allocate(inode, 0, 300_000, false), "allocate")?;
    ok(allocation.allocate(inode, 400_000, 100_000, true), "allocate behind the size")?;
    judge_all(maker, fs, &[inode])?;
    write(fs, inode, 50_000, &pattern(30_000, 3))?;
    judge_all(maker, fs, &[inode])
}

/// Files that were overwritten, truncated and grown have their new extents.
fn changes<M: DeviceMaker>(maker: &M, fs: &mut M::Fs) -> CheckResult {
    let inode = file(fs, b"changed")?;
    write(fs, inode, 0, &pattern(200_000, 1))?;
    sync(fs)?;
    write(fs, inode, 50_001, &pattern(9000, 2))?;
    judge_all(maker, fs, &[inode])?;
    for size in [120_000, 130_000, 10, 0, 9000] {
        let change = AttributeChange { size: Some(size), ..AttributeChange::default() };
        ok(fs.changes().ok_or("mounted read-only")?.set_attributes(inode, &change), "size")?;
        judge_all(maker, fs, &[inode])?;
    }
    Ok(())
}

/// Inodes without extents are refused, and no extent follows the last one.
fn refusals<M: DeviceMaker>(_maker: &M, fs: &mut M::Fs) -> CheckResult {
    let (root, inode) = (fs.root(), file(fs, b"file")?);
    write(fs, inode, 0, &pattern(5000, 1))?;
    let gone = file(fs, b"gone")?;
    let links = ok(fs.volume(), "volume")?.features.symlinks;
    let changes = fs.changes().ok_or("mounted read-only")?;
    ok(changes.remove(root, b"gone"), "remove")?;
    let link = NewNode { kind: nandkit_vfs::FileKind::Symlink, target: b"file", ..NewNode::FILE };
    let link = links.then(|| changes.create(root, b"link", &link)).transpose();
    let link = ok(link, "create of a link")?;
    let extents = fs.extents().ok_or("the file system has no extents")?;
    fails(extents.extent_after(root, 0), &[ErrorKind::IsADirectory], "extent_after of a directory")?;
    fails(extents.extent_after(gone, 0), &[ErrorKind::NotFound], "extent_after of a removed file")?;
    if let Some(link) = link {
        fails(extents.extent_after(link, 0), &[ErrorKind::InvalidArgument], "extent_after of a link")?;
    }
    for offset in [1 << 20, u64::MAX] {
        let found = ok(extents.extent_after(inode, offset), format_args!("extent_after {offset}"))?;
        ensure!(found.is_none(), "behind the end stands {found:?}");
    }
    Ok(())
}
