//! A tree of all that a volume can hold, and the comparison of a volume with the tree that it was
//! made of.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_units::ReadInto;
use nandkit_units::random::Random;
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree, link_counts, path, same_inode};
use nandkit_vfs::{DirectoryEntry, FileKind, FileSystem, InodeNumber, Timestamp};

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}

const ACL: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 7, 0, 0xE8, 3, 0, 0, 4, 0, 4, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    0x10, 0, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x20, 0, 4, 0, 0xFF, 0xFF, 0xFF, 0xFF,
];

/// A tree with every kind of entry, content around all limits, and a directory of several levels.
pub fn everything() -> MemoryTree {
    all_kinds(5000)
}

/// All kinds of files, and a directory of `many` names: 700 take several levels of blocks.
pub fn all_kinds(many: usize) -> MemoryTree {
    let mut random = Random::new(1, "tree");
    let mut builder = MemoryTree::builder();
    let time = |seconds: i64| Timestamp(seconds * 1_000_000_000 + 123_456_789);
    let mut file = |path: &str, content: Vec<u8>| {
        let node = SourceNode::new(FileKind::Regular, 0o640).at(time(1_600_000_000)).owned_by(1000, 70_000);
        builder.put(path.as_bytes(), node, Some(content)).unwrap();
    };
    for size in [0, 1, 3452, 3453, 3488, 3489, 4096, 4097, 873 * 4096, 873 * 4096 + 1, 3_000_000, 9_000_000, 17_000_000]
    {
        file(&format!("sizes/of-{size}"), bytes(&mut random, size));
    }
    for name in ["film.mp4", "base.db", "two.xz.txt"] {
        file(&format!("kinds/{name}"), bytes(&mut random, 20_000));
    }
    for number in 0..many {
        file(&format!("many/{number}-{}", "n".repeat(number % 90)), format!("file {number}").into_bytes());
    }
    file(&format!("names/{}", "x".repeat(255)), b"longest".to_vec());
    file(&format!("names/{}", "\u{E4}".repeat(127)), b"letters".to_vec());
    for (number, length) in [1, 100, 3488, 3489, 4095].into_iter().enumerate() {
        let target = "t/".repeat(2048).into_bytes()[..length].to_vec();
        builder.put(format!("links/{number}").as_bytes(), SourceNode::symlink(&target).at(time(-5)), None).unwrap();
    }
    for (name, node) in [
        ("small", SourceNode::device(FileKind::CharacterDevice, 0o600, 1, 3)),
        ("large", SourceNode::device(FileKind::BlockDevice, 0o660, 259, 70_000)),
        ("pipe", SourceNode::new(FileKind::Fifo, 0o644)),
        ("socket", SourceNode::new(FileKind::Socket, 0o755)),
    ] {
        builder.put(format!("devices/{name}").as_bytes(), node.at(time(0)), None).unwrap();
    }
    builder.link(b"kinds/hard link", b"sizes/of-9000000").unwrap();
    builder.link(b"names/hard link", b"devices/pipe").unwrap();
    let attributes =
        |pairs: &[(&str, Vec<u8>)]| pairs.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.clone())).collect();
    for (name, xattrs) in [
        ("small", attributes(&[("security.selinux", b"u:object_r:x:s0\0".to_vec()), ("user.a", Vec::new())])),
        ("both", attributes(&[("trusted.t", bytes(&mut random, 190)), ("user.large", bytes(&mut random, 3900))])),
        ("acl", attributes(&[("system.posix_acl_access", ACL.to_vec())])),
    ] {
        let node = SourceNode { xattrs, ..SourceNode::new(FileKind::Regular, 0o6755) };
        builder.put(format!("attributes/{name}").as_bytes(), node, Some(b"content".to_vec())).unwrap();
    }
    let xattrs = attributes(&[("user.of-directory", bytes(&mut random, 1000))]);
    let node = SourceNode { xattrs, ..SourceNode::new(FileKind::Directory, 0o1777) };
    builder.put(b"attributes/directory", node, None).unwrap();
    MemoryTree::from_builder(builder)
}

/// Panics unless the volume holds the tree, and nothing else but `own` names in its root.
pub fn must_hold(volume: &dyn FileSystem, tree: &dyn SourceTree, own: &[&[u8]], context: &str) {
    let nodes = tree.nodes();
    let links = link_counts(nodes);
    let mut inodes: Vec<InodeNumber> = vec![volume.root()];
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let first = same_inode(nodes, index);
        let what = format!("{context}: {}", String::from_utf8_lossy(&path(nodes, index)));
        if index > 0 {
            let found = volume.lookup(inodes[node.parent], &node.name);
            inodes.push(found.unwrap_or_else(|error| panic!("{what}: {error}")));
        }
        let inode = inodes[index];
        assert_eq!(*seen.entry(inode.0).or_insert(first), first, "{what}");
        let stat = volume.stat(inode).unwrap();
        let expected = (node.kind, node.mode, node.uid, node.gid, node.device, node.modified, node.accessed);
        let found = (stat.kind, stat.mode, stat.uid, stat.gid, stat.device, stat.modified, stat.accessed);
        assert_eq!(found, expected, "{what}");
        assert!(stat.links == links[index] || index == 0, "{what}: {} links", stat.links);
        let attributes = volume.xattrs().unwrap();
        for (name, value) in &node.xattrs {
            assert_eq!(attributes.xattr(inode, name).unwrap(), *value, "{what}");
        }
        match node.kind {
            FileKind::Regular => same_content(volume, inode, tree, index, &what),
            FileKind::Symlink => {
                assert_eq!(volume.symlinks().unwrap().read_link(inode).unwrap(), node.target, "{what}")
            }
            FileKind::Directory => {
                let own = own.iter().filter(|name| index == 0 && volume.lookup(inode, name).is_ok()).count();
                let expected = nodes.iter().skip(1).filter(|child| child.parent == index).count();
                assert_eq!(names_in(volume, inode), expected + own, "{what}");
            }
            _ => {}
        }
    }
}

fn names_in(volume: &dyn FileSystem, directory: InodeNumber) -> usize {
    let mut names = 0;
    let each = &mut |_: DirectoryEntry<'_>| {
        names += 1;
        ControlFlow::Continue(())
    };
    volume.read_dir(directory, 0, each).unwrap();
    names
}

fn same_content(volume: &dyn FileSystem, inode: InodeNumber, tree: &dyn SourceTree, index: usize, what: &str) {
    let size = tree.nodes()[index].size;
    assert_eq!(volume.stat(inode).unwrap().size, size, "{what}");
    let (mut expected, mut found) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    for at in (0..size).step_by(PIECE as usize) {
        let count = (size - at).min(PIECE) as usize;
        tree.read(index, at, &mut expected[..count]).unwrap();
        assert_eq!(volume.read(inode, at, ReadInto::Bytes(&mut found[..count])).unwrap(), count, "{what}");
        assert!(expected[..count] == found[..count], "{what}: differs in the MiB at {at}");
    }
}
