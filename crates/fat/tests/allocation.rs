//! Preallocated space is available when it is written, is given to no other file, and ends with the
//! file.

use crate::common::*;
use nandkit_fat::{Fat, FatKind, FormatOptions, format};
use nandkit_units::Payload;
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode};

const CLUSTER: u64 = 1024;

fn volume() -> Fat<nandkit_block::RamDevice> {
    let mut device = ram(512, 1 << 20);
    let options =
        FormatOptions { kind: Some(FatKind::Fat12), cluster_size: Some(CLUSTER as u32), ..FormatOptions::default() };
    format(&mut device, &clock(), &options).unwrap();
    mount(device, WRITE_THROUGH)
}

fn file(fs: &mut impl Changes, name: &[u8]) -> InodeNumber {
    fs.create(fs.root(), name, &NewNode::FILE).unwrap()
}

fn free(fs: &impl FileSystem) -> u64 {
    fs.volume().unwrap().blocks_free
}

fn promise(fs: &mut impl Changes, inode: InodeNumber, length: u64) -> nandkit_vfs::Result<()> {
    fs.allocation().unwrap().allocate(inode, 0, length, true)
}

/// Writes until the volume is full. Returns the bytes written.
fn fill(fs: &mut impl Changes, inode: InodeNumber) -> u64 {
    let mut at = fs.stat(inode).unwrap().size;
    let start = at;
    loop {
        match fs.write(inode, at, Payload::Bytes(&[7; 5_000])) {
            Ok(written) => at += written as u64,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                return at - start;
            }
        }
    }
}

#[test]
fn what_was_promised_is_kept_for_the_file_alone() {
    let mut fs = volume();
    let (kept, other) = (file(&mut fs, b"kept"), file(&mut fs, b"other"));
    let all = free(&fs);
    promise(&mut fs, kept, 100 * CLUSTER).unwrap();
    assert_eq!((free(&fs), fs.stat(kept).unwrap().size), (all - 100, 0));
    assert_eq!(fs.stat(kept).unwrap().allocated, 100 * CLUSTER);
    // Space that is already reserved costs nothing.
    promise(&mut fs, kept, 50 * CLUSTER).unwrap();
    assert_eq!(free(&fs), all - 100);
    assert_eq!(fill(&mut fs, other), (all - 100) * CLUSTER);
    assert_eq!(free(&fs), 0);
    let error = fs.create(fs.root(), b"directory", &NewNode::DIRECTORY).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
    assert_eq!(promise(&mut fs, kept, 101 * CLUSTER).unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!(fill(&mut fs, kept), 100 * CLUSTER);
    assert_eq!(fs.stat(kept).unwrap().allocated, 100 * CLUSTER);
}

#[test]
fn a_promise_ends_with_a_shorter_size_with_the_file_and_with_the_mount() {
    let mut fs = volume();
    let inode = file(&mut fs, b"file");
    let all = free(&fs);
    promise(&mut fs, inode, 100 * CLUSTER).unwrap();
    fs.set_attributes(inode, &AttributeChange { size: Some(0), ..AttributeChange::default() }).unwrap();
    assert_eq!(free(&fs), all);
    promise(&mut fs, inode, 100 * CLUSTER).unwrap();
    fs.remove(fs.root(), b"file").unwrap();
    assert_eq!(free(&fs), all);
    let inode = file(&mut fs, b"again");
    promise(&mut fs, inode, 100 * CLUSTER).unwrap();
    // After a power cut the reservation is gone, as the medium does not record it.
    let fs = mount(fs.into_device(), WRITE_THROUGH);
    assert_eq!(free(&fs), all);
    assert_eq!(fs.recovery().unwrap().repairs(), 0);
}
