//! Random trees through every way in and out.

use std::collections::BTreeMap;

use nandkit_tree::compare::{all, compare, compare_with};
use nandkit_tree::extract::extract;
use nandkit_tree::large::Holes;
use nandkit_tree::{ArchiveOptions, DirectoryOptions, ExtractOptions, HostDirectory, MountLimits, TarArchive, pack};
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree, TreeBuilder, check};
use nandkit_vfs::{FileKind, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{bytes, mounted, quiet, user};

/// A name and what it becomes: a path of few components, so that names collide; a kind; and numbers
/// for everything else.
type Item = (Vec<u8>, u8, u32, u64);

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(b'a'..=b'c', 1..=2),
        1 => vec(any::<u8>().prop_filter("in a name", |byte| !matches!(byte, 0 | b'/' | b'.')), 1..=255),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    (vec(name(), 1..=4).prop_map(|names| names.join(&b'/')), 0..6_u8, any::<u32>(), any::<u64>())
}

fn tree(items: &[Item]) -> MemoryTree {
    let (uid, gid) = user();
    let owned = |kind, mode| SourceNode::new(kind, mode).owned_by(uid, gid);
    let directory = owned(FileKind::Directory, 0o755);
    let mut builder = TreeBuilder::new(directory.clone(), directory);
    // Names already used and their kinds: a later item must not remove earlier ones.
    let mut files: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
    for (path, kind, small, large) in items {
        // Times that the file systems of all hosts can store: 1970 to 2038.
        let time = Timestamp((large % 2_000_000_000_000_000_000) as i64);
        let mode = (small % 0o1000) as u16;
        let mut node = match kind {
            0 => owned(FileKind::Directory, mode | 0o700),
            1 => SourceNode::symlink(b"some/where").owned_by(uid, gid),
            2 => owned(FileKind::Fifo, mode),
            _ => owned(FileKind::Regular, mode | 0o400),
        };
        node = node.at(time);
        if *kind == 3 {
            node.xattrs.push((format!("user.{small}").into_bytes(), bytes(*small as usize % 300, *small)));
        }
        if *kind == 5 {
            let first = files.keys().next().cloned();
            if first.is_some_and(|first| first != *path && builder.link(path, &first).is_ok()) {
                continue;
            }
        }
        let mut content = bytes(*small as usize % 20_000, *small);
        if small % 3 == 0 {
            content.resize(content.len() + 9000, 0);
        }
        if builder.put(path, node, Some(content)).is_ok() && *kind > 2 {
            files.insert(path.clone(), *kind);
        }
    }
    MemoryTree::from_builder(builder)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_way_keeps_every_tree(items in vec(item(), 0..40)) {
        let place = tempfile::tempdir().unwrap();
        let tree = tree(&items);
        check(tree.nodes()).unwrap();
        let fs = mounted(&tree);
        prop_assert_eq!(compare_with(&tree, &fs), []);
        let target = place.path().join("out");
        let report = extract(&fs, &target, &ExtractOptions::default(), &quiet).unwrap();
        prop_assert_eq!((report.skipped, report.refused, report.damaged), (vec![], vec![], vec![]));
        let out = HostDirectory::open(&target, &DirectoryOptions::default()).unwrap();
        prop_assert_eq!(compare(&out, &tree, &all()), []);
        let mut archive = Vec::new();
        pack::pack_tree(&out, &mut archive, &pack::PackOptions { holes: Holes::Written, ..Default::default() }).unwrap();
        let packed = TarArchive::read(archive.as_slice(), &ArchiveOptions::default()).unwrap();
        prop_assert_eq!(compare(&packed, &tree, &all()), []);
        let mut again = Vec::new();
        pack::pack(&fs, &mut again, &MountLimits { holes: Holes::Written, ..MountLimits::default() }).unwrap();
        prop_assert!(archive == again);
        let mut with_holes = Vec::new();
        pack::pack(&fs, &mut with_holes, &MountLimits::default()).unwrap();
        let packed = TarArchive::read(with_holes.as_slice(), &ArchiveOptions::default()).unwrap();
        prop_assert_eq!(compare(&packed, &tree, &all()), []);
    }
}
