//! Trees, mounted file systems and tools that the tests share.

use std::path::Path;
use std::process::Command;

use nandkit_tree::Progress;
use nandkit_units::{Clock, Payload};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree, path};
use nandkit_vfs::{AttributeChange, Changes, FileKind, FileSystem, InodeNumber, NewNode, Timestamp};

pub fn quiet(_: Progress) {}

/// The user and group of this process.
pub fn user() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

pub fn is_root() -> bool {
    user().0 == 0
}

/// Runs a tool, which must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

pub fn tar() -> Command {
    let mut command = Command::new("tar");
    command.env("LC_ALL", "C").env("TZ", "UTC");
    command
}

/// Bytes in which no two nearby offsets look alike.
pub fn bytes(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

/// A tree with everything that the user of the tests may create on a host, all owned by that user.
pub fn sample() -> MemoryTree {
    let (uid, gid) = user();
    let time = |seconds: i64, nanoseconds: i64| Timestamp(seconds * 1_000_000_000 + nanoseconds);
    let node = |kind, mode| SourceNode::new(kind, mode).owned_by(uid, gid).at(time(1_700_000_000, 123_456_789));
    let file = |mode| node(FileKind::Regular, mode);
    let mut sparse = vec![0; 300_000];
    sparse[200_000..200_005].copy_from_slice(b"alone");
    let long = "n".repeat(120);
    let mut tagged = file(0o640);
    // Names that GNU tar must encode, and one that looks encoded.
    let coded = (b"user.50%=half%3D%25".to_vec(), b"=%".to_vec());
    tagged.xattrs =
        vec![coded, (b"user.tag".to_vec(), b"line\nwith\0all \xff".to_vec()), (b"user.zero".to_vec(), Vec::new())];
    let link = SourceNode { modified: time(-5, 500), ..SourceNode::symlink(b"../b/file").owned_by(uid, gid) };
    let mut builder = MemoryTree::builder();
    let items = [
        ("", node(FileKind::Directory, 0o750), Vec::new()),
        ("a", node(FileKind::Directory, 0o711), Vec::new()),
        ("a/empty", file(0o600), Vec::new()),
        ("a/link", link, Vec::new()),
        ("a.b", file(0o4755), bytes(5000, 1)),
        ("b", node(FileKind::Directory, 0o555), Vec::new()),
        ("b/file", file(0o444), bytes(1_500_000, 2)),
        ("b/fifo", node(FileKind::Fifo, 0o620), Vec::new()),
        ("b/sparse", file(0o644), sparse),
        ("b/tagged", tagged, b"tagged".to_vec()),
        ("b/\u{fc}ber \u{1f600}", file(0o644), b"text".to_vec()),
    ];
    for (path, node, content) in items {
        builder.put(path.as_bytes(), node, Some(content)).unwrap();
    }
    let deep = format!("{long}/{long}/{long}");
    builder.put(deep.as_bytes(), file(0o644), Some(b"deep".to_vec())).unwrap();
    for directory in [long.clone(), format!("{long}/{long}")] {
        builder.put(directory.as_bytes(), node(FileKind::Directory, 0o755), None).unwrap();
    }
    builder.link(b"b/second", b"a.b").unwrap();
    builder.link(b"a/third", b"a.b").unwrap();
    MemoryTree::from_builder(builder)
}

/// The sample plus a device, other owners and a capability, which only root can create on a host.
pub fn sample_of_root() -> MemoryTree {
    let sample = sample();
    let mut builder = MemoryTree::builder();
    for (index, node) in sample.nodes().iter().enumerate() {
        let name = path(sample.nodes(), index);
        match node.hard_link_of {
            Some(first) => builder.link(&name, &path(sample.nodes(), first)).unwrap(),
            None => builder.put(&name, node.clone(), Some(content(&sample, index))).unwrap(),
        }
    }
    let device = |kind, major, minor| SourceNode::device(kind, 0o660, major, minor).owned_by(0, 6);
    builder.put(b"dev/mtd0", device(FileKind::CharacterDevice, 90, 0), None).unwrap();
    builder.put(b"dev/ubi", device(FileKind::BlockDevice, 250, 70_000), None).unwrap();
    builder.put(b"owned", SourceNode::new(FileKind::Regular, 0o6755).owned_by(1234, 70_000), None).unwrap();
    builder.put(b"owned.link", SourceNode::symlink(b"/etc/passwd").owned_by(5, 6), None).unwrap();
    let mut capable = SourceNode::new(FileKind::Regular, 0o755);
    // cap_net_raw=ep of linux/capability.h, revision 2.
    let value = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    capable.xattrs = vec![(b"security.capability".to_vec(), value.to_vec())];
    builder.put(b"capable", capable, Some(b"#!".to_vec())).unwrap();
    MemoryTree::from_builder(builder)
}

/// The content of a file.
pub fn content(tree: &dyn SourceTree, node: usize) -> Vec<u8> {
    if tree.nodes()[node].kind != FileKind::Regular {
        return Vec::new();
    }
    let mut content = vec![0; tree.nodes()[node].size as usize];
    assert_eq!(tree.read(node, 0, &mut content).unwrap(), content.len());
    content
}

/// The model file system with the content of a tree.
pub fn mounted(tree: &dyn SourceTree) -> ModelFileSystem {
    let mut fs = ModelFileSystem::new(ModelOptions::POSIX, Clock::starting_at(0));
    let nodes = tree.nodes();
    let mut inodes: Vec<InodeNumber> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let new = NewNode {
            kind: node.kind,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            device: node.device,
            target: &node.target,
        };
        let inode = match (index, node.hard_link_of) {
            (0, _) => fs.root(),
            (_, Some(first)) => {
                fs.links().unwrap().link(inodes[first], inodes[node.parent], &node.name).unwrap();
                inodes[first]
            }
            _ => fs.create(inodes[node.parent], &node.name, &new).unwrap(),
        };
        inodes.push(inode);
        if node.hard_link_of.is_some() {
            continue;
        }
        let content = content(tree, index);
        if !content.is_empty() {
            assert_eq!(fs.write(inode, 0, Payload::Bytes(&content)).unwrap(), content.len());
        }
        for (name, value) in &node.xattrs {
            fs.xattr_changes().unwrap().set_xattr(inode, name, value).unwrap();
        }
    }
    for (node, inode) in nodes.iter().zip(&inodes).rev() {
        let change = AttributeChange {
            mode: Some(node.mode).filter(|_| node.kind != FileKind::Symlink),
            uid: Some(node.uid),
            gid: Some(node.gid),
            modified: Some(node.modified),
            accessed: Some(node.accessed),
            ..AttributeChange::default()
        };
        fs.set_attributes(*inode, &change).unwrap();
    }
    fs
}

/// The names below a directory of the host, with paths relative to it, sorted.
pub fn listing(directory: &Path) -> Vec<String> {
    let text = run(Command::new("find").arg(directory).args(["-mindepth", "1", "-printf", "%P\n"]));
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort();
    names
}
