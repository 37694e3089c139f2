//! A host's directory as a tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use nandkit_tree::{AdjustedTree, Adjustments, DirectoryOptions, HostDirectory};
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree, check, path};
use nandkit_vfs::{ErrorKind, FileKind, Timestamp};

use crate::common::{content, run, user};

fn open(directory: &std::path::Path) -> HostDirectory {
    HostDirectory::open(directory, &DirectoryOptions::default()).unwrap()
}

#[test]
fn all_that_a_host_holds_is_in_the_tree() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/f"), b"content").unwrap();
    fs::hard_link(root.join("d/f"), root.join("again")).unwrap();
    symlink("nowhere", root.join("l")).unwrap();
    run(Command::new("mkfifo").arg(root.join("p")));
    run(Command::new("setfattr").args(["-n", "user.k", "-v", "0x000aff"]).arg(root.join("d/f")));
    run(Command::new("touch").args(["-d", "@1234567890.123456789"]).arg(root.join("d/f")));
    fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o1705)).unwrap();
    let tree = open(root);
    check(tree.nodes()).unwrap();
    let names: Vec<String> = (0..6).map(|node| String::from_utf8(path(tree.nodes(), node)).unwrap()).collect();
    assert_eq!(names, ["", "again", "d", "d/f", "l", "p"]);
    let nodes = tree.nodes();
    assert_eq!(nodes.iter().map(|node| node.hard_link_of).collect::<Vec<_>>(), [None, None, None, Some(1), None, None]);
    assert_eq!((nodes[2].mode, nodes[2].kind, nodes[5].kind), (0o1705, FileKind::Directory, FileKind::Fifo));
    assert_eq!(nodes[4].target, b"nowhere");
    assert_eq!(nodes[3].modified, Timestamp(1_234_567_890_123_456_789));
    assert_eq!((nodes[3].uid, nodes[3].gid), user());
    assert_eq!(nodes[3].xattrs, [(b"user.k".to_vec(), vec![0, 10, 255])]);
    assert_eq!((content(&tree, 3), content(&tree, 1)), (b"content".to_vec(), b"content".to_vec()));
    let mut two = [0; 2];
    assert_eq!((tree.read(1, 5, &mut two).unwrap(), &two), (2, b"nt"));
    assert_eq!(tree.read(1, 7, &mut two).unwrap(), 0);

    let options = DirectoryOptions { exclude: vec![b"/d/".to_vec()], no_xattrs: true, ..DirectoryOptions::default() };
    let less = HostDirectory::open(root, &options).unwrap();
    assert_eq!(less.nodes().iter().map(|node| node.name.clone()).collect::<Vec<_>>(), [&b""[..], b"again", b"l", b"p"]);
    assert!(less.nodes().iter().all(|node| node.xattrs.is_empty() && node.hard_link_of.is_none()));
    assert!(HostDirectory::open(&root.join("d/f"), &options).unwrap_err().to_string().contains("d/f"));
}

#[test]
fn a_file_that_changes_is_an_error_that_names_it() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 4] = [
        ("longer", |path| fs::write(path, b"longer than before").unwrap()),
        ("shorter", |path| fs::write(path, b"s").unwrap()),
        ("replaced by a link", |path| {
            fs::remove_file(path).unwrap();
            symlink("/etc/passwd", path).unwrap();
        }),
        ("gone", |path| fs::remove_file(path).unwrap()),
    ];
    for (what, change) in changes {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, b"as it was").unwrap();
        let tree = open(place.path());
        change(&file);
        let error = tree.read(1, 0, &mut [0; 100]).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Device), "{what}: {error}");
        assert!(error.detail.contains("/file"), "{what}: {error}");
        // As above, while the file is open between two reads.
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, b"as it was").unwrap();
        let tree = open(place.path());
        assert_eq!(tree.read(1, 0, &mut [0; 2]).unwrap(), 2);
        change(&file);
        let rest = tree.read(1, 2, &mut [0; 100]);
        assert_eq!(rest.is_err(), matches!(what, "longer" | "shorter"), "{what}");
    }
}

#[test]
fn adjustments_change_what_they_say_and_nothing_else() {
    let file = |mode| SourceNode::new(FileKind::Regular, mode).owned_by(5, 6).at(Timestamp(100));
    let mut tagged = file(0o6777);
    tagged.xattrs = vec![(b"user.a".to_vec(), b"b".to_vec())];
    let mut builder = MemoryTree::builder();
    builder.put(b"", SourceNode::new(FileKind::Directory, 0o775).owned_by(1, 2).at(Timestamp(50)), None).unwrap();
    builder.put(b"a/first", tagged, Some(b"content".to_vec())).unwrap();
    builder.link(b"second", b"a/first").unwrap();
    builder.put(b"link", SourceNode::symlink(b"a").owned_by(5, 6), None).unwrap();
    let tree = MemoryTree::from_builder(builder);
    let same = AdjustedTree::new(tree.clone(), &Adjustments::default(), None).unwrap();
    assert_eq!(same.nodes(), tree.nodes());
    assert_eq!(content(&same, 2), b"content");
    /// Expected mode, owner, group and modification time of the root, the file and the link.
    type Expected = [(u16, u32, u32, i64); 3];
    let cases: [(Adjustments, Expected); 5] = [
        (
            Adjustments { squash_permissions: true, ..Adjustments::default() },
            [(0o755, 1, 2, 50), (0o755, 5, 6, 100), (0o777, 5, 6, 0)],
        ),
        (
            Adjustments { squash_owners: true, root_owner: Some((9, 9)), ..Adjustments::default() },
            [(0o775, 9, 9, 50), (0o6777, 0, 0, 100), (0o777, 0, 0, 0)],
        ),
        (
            Adjustments { owner: Some((3, 4)), ..Adjustments::default() },
            [(0o775, 3, 4, 50), (0o6777, 3, 4, 100), (0o777, 3, 4, 0)],
        ),
        (
            Adjustments { time: Some(Timestamp(70)), time_max: Some(Timestamp(80)), ..Adjustments::default() },
            [(0o775, 1, 2, 70), (0o6777, 5, 6, 70), (0o777, 5, 6, 70)],
        ),
        (
            Adjustments { time_max: Some(Timestamp(60)), no_xattrs: true, ..Adjustments::default() },
            [(0o775, 1, 2, 50), (0o6777, 5, 6, 60), (0o777, 5, 6, 0)],
        ),
    ];
    for (adjustments, expected) in cases {
        let adjusted = AdjustedTree::new(tree.clone(), &adjustments, None).unwrap();
        let found = |node: usize| {
            let node = &adjusted.nodes()[node];
            (node.mode, node.uid, node.gid, node.modified.0)
        };
        assert_eq!([found(0), found(2), found(3)], expected, "{adjustments:?}");
        assert_eq!(adjusted.nodes()[2].xattrs.is_empty(), adjustments.no_xattrs);
        assert_eq!(adjusted.nodes()[4].mode, adjusted.nodes()[2].mode);
    }
    let adjustments = Adjustments { exclude: vec![b"/a".to_vec()], ..Adjustments::default() };
    let adjusted = AdjustedTree::new(tree, &adjustments, None).unwrap();
    assert_eq!(adjusted.nodes().len(), 3);
    assert_eq!((adjusted.nodes()[2].hard_link_of, content(&adjusted, 2)), (None, b"content".to_vec()));
}
