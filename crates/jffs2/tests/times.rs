//! An image has the times of its tree.

use crate::common::mount;
use nandkit_jffs2::MountOptions;
use nandkit_jffs2::mkfs::{BuildOptions, build};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_vfs::path::{Follow, resolve};
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{FileKind, FileSystem, Timestamp};

/// 1 January of 2020, of 2022 and of 2024.
const YEARS: [i64; 3] = [1_577_836_800, 1_640_995_200, 1_704_067_200];

/// Linux and nandkit give a directory the time of its newest name.
#[test]
fn a_directory_keeps_its_time_whatever_is_in_it() {
    let [old, middle, new] = YEARS.map(|seconds| Timestamp(seconds * 1_000_000_000));
    let directory = |time| SourceNode::new(FileKind::Directory, 0o755).at(time);
    let file = |time| SourceNode::new(FileKind::Regular, 0o644).at(time);
    let tree = MemoryTree::new([
        (b"".to_vec(), directory(middle), Vec::new()),
        (b"old".to_vec(), directory(old), Vec::new()),
        (b"old/between".to_vec(), directory(middle), Vec::new()),
        (b"old/between/file".to_vec(), file(old), b"older than what it is in".to_vec()),
        (b"old/file".to_vec(), file(new), b"newer than what it is in".to_vec()),
        (b"old/pipe".to_vec(), SourceNode::new(FileKind::Fifo, 0o644).at(new), Vec::new()),
    ])
    .unwrap();
    let mut image = Vec::new();
    let options = BuildOptions::default();
    build(&tree, &options, &mut image, &|_| {}).unwrap();
    let volume = mount(RamFlash::nor(image, options.erase_size), MountOptions::default()).unwrap();
    for (path, time) in [
        (&b""[..], middle),
        (b"old", old),
        (b"old/between", middle),
        (b"old/between/file", old),
        (b"old/file", new),
        (b"old/pipe", new),
    ] {
        let found = volume.stat(resolve(&volume, path, Follow::Never).unwrap()).unwrap();
        assert_eq!(found.modified, time, "{}", String::from_utf8_lossy(path));
    }
}
