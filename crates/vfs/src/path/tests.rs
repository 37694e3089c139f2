use super::*;
use crate::model::{ModelFileSystem, ModelOptions};
use crate::wrap::{Call, Hook, Method, Wrapped};
use crate::{
    Attributes, Changes, DirectoryEntry, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, NewNode, Result,
    Timestamp, VolumeStatus,
};
use nandkit_units::{Clock, Payload, ReadInto};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn empty() -> ModelFileSystem {
    ModelFileSystem::new(ModelOptions::POSIX, Clock::starting_at(1 << 60))
}

fn symlink(fs: &mut ModelFileSystem, path: &[u8], target: &[u8]) {
    let (directory, name) = resolve_parent(fs, path).unwrap();
    let node = NewNode { kind: FileKind::Symlink, target, ..NewNode::FILE };
    fs.create(directory, name, &node).unwrap();
}

/// `a/b/file` ("content"), links to it, a hard link, a device, a sparse file, an attribute.
fn sample() -> ModelFileSystem {
    let mut fs = empty();
    make_directories(&mut fs, b"/a/b//", &NewNode::DIRECTORY).unwrap();
    let file = write_file(&mut fs, b"a/b/file", &NewNode::FILE, b"content").unwrap();
    symlink(&mut fs, b"relative", b"a/../a/./b");
    symlink(&mut fs, b"a/absolute", b"/relative/file");
    symlink(&mut fs, b"loop", b"loop");
    let root = fs.root();
    fs.links().unwrap().link(file, root, b"hard").unwrap();
    let device = NewNode { kind: FileKind::BlockDevice, device: (8 << 32) | 1, ..NewNode::FILE };
    fs.create(root, b"device", &device).unwrap();
    let sparse = write_file(&mut fs, b"sparse", &NewNode::FILE, b"").unwrap();
    fs.write(sparse, 1 << 20, Payload::Bytes(b"end")).unwrap();
    fs.xattr_changes().unwrap().set_xattr(file, b"user.colour", b"red").unwrap();
    fs
}

#[test]
fn paths_resolve_through_links_and_dots() {
    let fs = sample();
    let file = resolve(&fs, b"a/b/file", Follow::Last).unwrap();
    for path in
        ["/a/b/file", "relative/file", "a/absolute", "hard", "../../hard", "a//b/./../b/file", "relative/../b/file"]
    {
        assert_eq!(resolve(&fs, path.as_bytes(), Follow::Last).unwrap(), file, "{path}");
    }
    assert_eq!(resolve(&fs, b"", Follow::Last).unwrap(), fs.root());
    assert_eq!(fs.stat(resolve(&fs, b"a/absolute", Follow::Never).unwrap()).unwrap().kind, FileKind::Symlink);
    assert_eq!(fs.stat(resolve(&fs, b"relative/", Follow::Never).unwrap()).unwrap().kind, FileKind::Directory);
    for (path, kind) in [
        ("loop", ErrorKind::TooManySymlinks),
        ("loop/x", ErrorKind::TooManySymlinks),
        ("a/none", ErrorKind::NotFound),
        ("none/x", ErrorKind::NotFound),
        ("hard/x", ErrorKind::NotADirectory),
        ("hard/..", ErrorKind::NotADirectory),
        ("hard/", ErrorKind::NotADirectory),
    ] {
        assert_eq!(resolve(&fs, path.as_bytes(), Follow::Last).unwrap_err().kind, kind, "{path}");
    }
    let long = b"a/../".repeat(COMPONENTS_MAX);
    assert_eq!(resolve(&fs, &long, Follow::Last).unwrap_err().kind, ErrorKind::NameTooLong);
}

#[test]
fn paths_split() {
    for (path, parent, name) in [("a", "", "a"), ("/a", "/", "a"), ("a/b/", "a/", "b"), ("//x//y//", "//x//", "y")] {
        assert_eq!(split(path.as_bytes()).unwrap(), (parent.as_bytes(), name.as_bytes()), "{path}");
    }
    for path in ["", "/", "//", "a/..", ".", "a/./"] {
        assert_eq!(split(path.as_bytes()).unwrap_err().kind, ErrorKind::InvalidArgument, "{path}");
    }
}

#[test]
fn files_are_written_and_read_whole() {
    let mut fs = sample();
    let data: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    write_file(&mut fs, b"relative/file", &NewNode::FILE, &data).unwrap();
    assert_eq!(read_file(&fs, b"hard").unwrap(), data);
    write_file(&mut fs, b"hard", &NewNode::FILE, b"short").unwrap();
    assert_eq!(read_file(&fs, b"a/b/file").unwrap(), b"short");
    let inode = resolve(&fs, b"hard", Follow::Last).unwrap();
    assert_eq!(read_inode(&fs, inode, 4).unwrap_err().kind, ErrorKind::FileTooBig);
    assert_eq!(read_inode(&fs, inode, 5).unwrap(), b"short");
    let error = make_directories(&mut fs, b"hard/x", &NewNode::DIRECTORY).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotADirectory);
}

#[test]
fn a_walk_is_sorted_and_complete() {
    let fs = sample();
    let mut met = Vec::new();
    walk(&fs, fs.root(), &mut |step| {
        met.push(match step {
            Step::Entry { path, .. } => String::from_utf8_lossy(path).into_owned(),
            Step::Leave { path, .. } => format!("-{}", String::from_utf8_lossy(path)),
            Step::Problem { error, .. } => panic!("{error}"),
        });
        Ok(Next::Enter)
    })
    .unwrap();
    let expected = ["a", "a/absolute", "a/b", "a/b/file", "-a/b", "-a", "device", "hard", "loop", "relative", "sparse"];
    assert_eq!(met, expected);
}

/// A file system that fails one listing after this many good ones.
struct FailsOnce(AtomicU64);

impl Hook for FailsOnce {
    fn before(&self, call: &Call<'_>) -> Result<()> {
        match call.method == Method::ReadDir && self.0.fetch_sub(1, Relaxed) == 0 {
            true => Err(FsError::new(ErrorKind::Corrupt, "planned")),
            false => Ok(()),
        }
    }
}

#[test]
fn what_stands_behind_a_directory_that_cannot_be_listed_is_copied_to_its_place() {
    // The listing of `a`, then that of `a/b`; both have siblings behind them.
    for (listing, lost, left) in [(1, "a", 6), (2, "a/b", 8)] {
        let from = Wrapped::new(sample(), FailsOnce(AtomicU64::new(listing)));
        let mut to = empty();
        let root = to.root();
        let report = copy_tree(&from, from.root(), &mut to, root, CopyOptions::default()).unwrap();
        let skipped: Vec<_> = report.skipped.iter().map(|(path, _)| String::from_utf8_lossy(path)).collect();
        assert_eq!(skipped, [lost]);
        let mut met = Vec::new();
        walk(&to, root, &mut |step| {
            match step {
                Step::Entry { path, .. } => met.push(path.to_vec()),
                Step::Leave { .. } => {}
                Step::Problem { error, .. } => panic!("{error}"),
            }
            Ok(Next::Enter)
        })
        .unwrap();
        assert_eq!(met.len(), left);
        let same = |path: &Vec<u8>| from.stat(resolve(&from, path, Follow::Never).unwrap()).unwrap();
        for path in &met {
            let found = to.stat(resolve(&to, path, Follow::Never).unwrap()).unwrap();
            assert_eq!((found.kind, found.modified), (same(path).kind, same(path).modified), "{path:?}");
        }
    }
}

#[test]
fn a_copied_tree_is_the_same_and_each_change_shows() {
    let from = sample();
    let mut to = empty();
    let root = to.root();
    let report = copy_tree(&from, from.root(), &mut to, root, CopyOptions::default()).unwrap();
    assert_eq!((report.files, report.directories, report.others, report.links), (2, 2, 4, 1));
    assert!(report.skipped.is_empty());
    let options = CompareOptions::for_features(&ModelOptions::POSIX.features, &ModelOptions::POSIX.features);
    let differences = |to: &ModelFileSystem| -> Vec<String> {
        compare_trees((&from, from.root()), (to, root), options).iter().map(ToString::to_string).collect()
    };
    assert_eq!(differences(&to), Vec::<String>::new());
    assert!(to.stat(resolve(&to, b"sparse", Follow::Last).unwrap()).unwrap().allocated < 1 << 18);

    let file = resolve(&to, b"hard", Follow::Last).unwrap();
    to.write(file, 3, Payload::Bytes(b"T")).unwrap();
    let change =
        crate::AttributeChange { mode: Some(0o600), uid: Some(5), modified: Some(Timestamp(7)), ..Default::default() };
    to.set_attributes(file, &change).unwrap();
    to.xattr_changes().unwrap().remove_xattr(file, b"user.colour").unwrap();
    to.remove(root, b"hard").unwrap();
    to.remove(root, b"loop").unwrap();
    symlink(&mut to, b"loop", b"x");
    write_file(&mut to, b"zebra", &NewNode::FILE, b"").unwrap();
    let modified = 1u64 << 60;
    assert_eq!(
        differences(&to),
        [
            "/a/b/file: mode 0644, 0600".to_string(),
            "/a/b/file: owner 0:0, 5:0".into(),
            "/a/b/file: links 2, 1".into(),
            format!("/a/b/file: modified {modified} ns, 7 ns"),
            "/a/b/file: byte 3 is 0x74, 0x54".into(),
            "/a/b/file: attribute user.colour: \"red\", missing".into(),
            "/hard: only in the first".into(),
            "/loop: target \"loop\", \"x\"".into(),
            "/zebra: only in the second".into(),
        ]
    );
}

#[test]
fn a_copy_into_a_poorer_format_reports_what_it_left_out() {
    let from = sample();
    let mut to = ModelFileSystem::new(ModelOptions::FAT, Clock::default());
    let root = to.root();
    let report = copy_tree(&from, from.root(), &mut to, root, CopyOptions::default()).unwrap();
    let skipped: Vec<&[u8]> = report.skipped.iter().map(|(path, _)| path.as_slice()).collect();
    assert_eq!(skipped, [&b"a/absolute"[..], b"device", b"loop", b"relative"]);
    assert_eq!(read_file(&to, b"HARD").unwrap(), b"content");
    let strict = CopyOptions { skip_problems: false, ..CopyOptions::default() };
    let mut other = ModelFileSystem::new(ModelOptions::FAT, Clock::default());
    let error = copy_tree(&from, from.root(), &mut other, root, strict).unwrap_err();
    assert_eq!((error.kind, error.detail.contains("/a/absolute")), (ErrorKind::NotSupported, true));
    let mut tiny = ModelFileSystem::new(ModelOptions::FAT.with_capacity(3), Clock::default());
    let error = copy_tree(&from, from.root(), &mut tiny, root, CopyOptions::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
}

#[test]
fn trees_go_whole() {
    let mut fs = sample();
    let root = fs.root();
    let free = |fs: &ModelFileSystem| fs.volume().unwrap().blocks_free;
    for name in ["a", "device", "hard", "loop", "relative", "sparse"] {
        remove_tree(&mut fs, root, name.as_bytes()).unwrap();
    }
    assert!(sorted_entries(&fs, root).unwrap().is_empty());
    assert_eq!(free(&fs), free(&empty()));
    assert_eq!(remove_tree(&mut fs, root, b"a").unwrap_err().kind, ErrorKind::NotFound);
}

/// What a damaged image can make a file system show: a directory that contains itself, impossible
/// names, a duplicate name, and a file of 2^63 bytes.
struct Hostile;

impl FileSystem for Hostile {
    fn root(&self) -> InodeNumber {
        InodeNumber(1)
    }
    fn volume(&self) -> Result<VolumeStatus> {
        empty().volume()
    }
    fn lookup(&self, _: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        Ok(InodeNumber(if name == b"huge" { 3 } else { 2 }))
    }
    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        let model = empty();
        let kind = if inode.0 == 3 { FileKind::Regular } else { FileKind::Directory };
        let size = if inode.0 == 3 { 1 << 63 } else { 0 };
        Ok(Attributes { inode, kind, size, ..model.stat(model.root())? })
    }
    fn read_dir(
        &self,
        _: InodeNumber,
        _: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for (name, inode) in [(&b"../x"[..], 3), (b"", 3), (b".", 1), (b"self", 2), (b"huge", 3), (b"huge", 3)] {
            let kind = if inode == 3 { FileKind::Regular } else { FileKind::Directory };
            if sink(DirectoryEntry { name, inode: InodeNumber(inode), kind, cookie: 1 }).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn read(&self, _: InodeNumber, _: u64, into: ReadInto<'_>) -> Result<usize> {
        Ok(into.len())
    }
    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }
}

#[test]
fn hostile_trees_end_with_problems_named() {
    let fs = Hostile;
    let mut problems = Vec::new();
    walk(&fs, fs.root(), &mut |step| {
        if let Step::Problem { path, error } = step {
            problems.push((String::from_utf8_lossy(path).into_owned(), error.kind));
        }
        Ok(Next::Enter)
    })
    .unwrap();
    let names: Vec<&str> = problems.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["", ".", "../x", "huge", "self/", "self/.", "self/../x", "self/huge", "self/self"]);
    assert!(problems.iter().all(|(_, kind)| *kind == ErrorKind::Corrupt));

    let mut to = empty();
    let root = to.root();
    let report = copy_tree(&fs, fs.root(), &mut to, root, CopyOptions::default()).unwrap();
    assert_eq!((report.directories, report.files), (1, 0));
    assert_eq!(report.skipped.len(), 11);
    let options = CompareOptions::for_features(&ModelOptions::POSIX.features, &ModelOptions::POSIX.features);
    let found = compare_trees((&fs, fs.root()), (&fs, fs.root()), options);
    assert!(found.iter().any(|d| matches!(d.kind, DifferenceKind::Unreadable(_, ErrorKind::FileTooBig, _))));
    assert!(found.iter().any(|d| matches!(d.kind, DifferenceKind::Unreadable(_, ErrorKind::Corrupt, _))));
    assert_eq!(read_file(&fs, b"huge").unwrap_err().kind, ErrorKind::FileTooBig);
}
