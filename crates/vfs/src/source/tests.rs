use super::*;

fn file() -> SourceNode {
    SourceNode::new(FileKind::Regular, 0o644)
}

fn paths(nodes: &[SourceNode]) -> Vec<String> {
    (0..nodes.len()).map(|index| String::from_utf8(path(nodes, index)).unwrap()).collect()
}

/// Paths in any order; `b` holds `c` and a link to it; `a.txt` sorts between `a` and `a/x` as bytes
/// of paths, but not as a tree.
fn sample() -> MemoryTree {
    let mut builder = MemoryTree::builder();
    builder.put(b"./b/c", file(), Some(b"content".to_vec())).unwrap();
    builder.put(b"a.txt", file().owned_by(7, 8), None).unwrap();
    builder.put(b"/a/x/y", SourceNode::symlink(b"../z"), None).unwrap();
    builder.put(b"a", SourceNode::new(FileKind::Directory, 0o700), None).unwrap();
    builder.link(b"a/link", b"b/c").unwrap();
    builder.put(b"b/", SourceNode::new(FileKind::Directory, 0o711), None).unwrap();
    MemoryTree::from_builder(builder)
}

#[test]
fn a_tree_is_in_depth_first_order_and_keeps_its_promises() {
    let tree = sample();
    let nodes = tree.nodes();
    check(nodes).unwrap();
    assert_eq!(paths(nodes), ["", "a", "a/link", "a/x", "a/x/y", "a.txt", "b", "b/c"]);
    let attributes: Vec<(u16, u64)> = nodes.iter().map(|node| (node.mode, node.size)).collect();
    let expected = [(0o755, 0), (0o700, 0), (0o644, 7), (0o755, 0), (0o777, 4), (0o644, 0), (0o711, 0), (0o644, 7)];
    assert_eq!(attributes, expected);
    assert_eq!(
        nodes.iter().map(|node| node.hard_link_of).collect::<Vec<_>>()[2..],
        [None, None, None, None, None, Some(2)]
    );
    assert_eq!(link_counts(nodes), [4, 3, 2, 2, 1, 1, 2, 2]);
    let children = Children::of(nodes);
    assert_eq!(
        (children.get(0), children.get(1), children.get(4), children.get(99)),
        (&[1, 5, 6][..], &[2, 3][..], &[][..], &[][..])
    );
    let mut buffer = [0; 5];
    assert_eq!(tree.read(7, 3, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"tent");
    assert_eq!(tree.read(2, u64::MAX, &mut buffer).unwrap(), 0);
    assert_eq!(tree.read(1, 0, &mut buffer).unwrap_err().kind, ErrorKind::InvalidArgument);
    assert_eq!(tree.read(8, 0, &mut buffer).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_later_node_replaces_an_earlier_one_and_hostile_paths_are_refused() {
    let mut builder = MemoryTree::builder();
    builder.put(b"d", SourceNode::new(FileKind::Directory, 0o755), None).unwrap();
    builder.put(b"d", SourceNode::symlink(b"/etc"), None).unwrap();
    let cases: [(&[u8], ErrorKind); 4] = [
        (b"d/passwd", ErrorKind::NotADirectory),
        (b"../x", ErrorKind::InvalidName),
        (b"a/../../x", ErrorKind::InvalidName),
        (b"a\0b", ErrorKind::InvalidName),
    ];
    for (path, kind) in cases {
        assert_eq!(builder.put(path, file(), None).unwrap_err().kind, kind, "{path:?}");
        assert_eq!(builder.link(path, b"d").unwrap_err().kind, kind, "{path:?}");
    }
    assert_eq!(builder.put(b"/", file(), None).unwrap_err().kind, ErrorKind::NotADirectory);
    assert_eq!(builder.link(b"l", b"nowhere").unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(builder.link(b"l", b"/").unwrap_err().kind, ErrorKind::IsADirectory);
    assert_eq!(paths(&builder.finish().nodes), ["", "d"]);
}

#[test]
fn nothing_takes_the_place_of_a_directory_that_holds_anything() {
    let mut builder = MemoryTree::builder();
    builder.put(b"d/inner", file(), None).unwrap();
    builder.put(b"f", file(), None).unwrap();
    for refused in [builder.put(b"d", SourceNode::symlink(b"/etc"), None), builder.link(b"./d", b"f")] {
        assert_eq!(refused.unwrap_err().kind, ErrorKind::NotEmpty);
    }
    builder.put(b"f/", SourceNode::new(FileKind::Directory, 0o755), None).unwrap();
    assert_eq!(paths(&builder.finish().nodes), ["", "d", "d/inner", "f"]);
}

#[test]
fn check_names_each_broken_promise() {
    let good = sample().nodes().to_vec();
    type Breakage = fn(&mut Vec<SourceNode>);
    let cases: [(&str, Breakage); 9] = [
        ("is missing", |nodes| nodes.clear()),
        ("without a name", |nodes| nodes[0].kind = FileKind::Regular),
        ("sort after the previous", |nodes| nodes[5].name = b"a".to_vec()),
        ("depth-first", |nodes| nodes[7].parent = 1),
        ("depth-first", |nodes| nodes[3].parent = 3),
        ("that no directory", |nodes| nodes[7].name = b"..".to_vec()),
        ("that no directory", |nodes| nodes[7].name = b"x/y".to_vec()),
        ("hard link", |nodes| nodes[7].hard_link_of = Some(4)),
        ("12 bits", |nodes| nodes[7].mode = 0o10000),
    ];
    for (expected, break_it) in cases {
        let mut nodes = good.clone();
        break_it(&mut nodes);
        let error = check(&nodes).unwrap_err();
        assert!(error.detail.contains(expected), "{expected}: {error}");
    }
}
