//! Small images whose paths are long.

use nandkit_tree::extract::extract;
use nandkit_tree::{ExtractOptions, MountLimits, MountedTree};
use nandkit_vfs::FileSystem;
use nandkit_vfs::path::{Next, Step, walk};
use nandkit_vfs::source::path;

use crate::common::quiet;
use crate::planted::{Inode, Planted};

/// Directories within each other, names of 250 bytes: 25 kB of path.
const DEPTH: u64 = 100;

/// Directories in the innermost of them.
const MANY: u64 = 5000;

/// The memory allowed for paths: 64 MiB and 256 bytes a name for the tree, 16 MiB for notes. The
/// paths of all names take 130 MB.
const PATHS_MAX: usize = 82 << 20;

fn deep() -> Planted {
    let mut planted = Planted::default();
    for inode in 1..=DEPTH {
        planted.0.insert(inode, Inode::Directory(vec![(vec![b'd'; 250], inode + 1)], false));
    }
    let names = (0..MANY).map(|number| (format!("{number:04}").into_bytes(), 1000 + number));
    planted.0.insert(DEPTH + 1, Inode::Directory(names.collect(), false));
    for number in 0..MANY {
        planted.0.insert(1000 + number, Inode::Directory(Vec::new(), false));
    }
    planted
}

#[test]
fn paths_of_a_tree_and_of_its_notes_are_bounded() {
    let (fs, place) = (deep(), tempfile::tempdir().unwrap());
    let tree = MountedTree::read(&fs, fs.root(), &MountLimits::default()).unwrap();
    let nodes = nandkit_vfs::source::SourceTree::nodes(&tree);
    let paths: usize = (0..nodes.len()).map(|node| path(nodes, node).len()).sum();
    let notes: usize = tree.refused().iter().map(|note| note.path.len()).sum();
    assert!(paths + notes < PATHS_MAX, "{paths} bytes of paths, {notes} in notes");
    assert!(nodes.len() > 2000 && tree.damaged().is_empty());
    let reason = &tree.refused().first().unwrap().reason;
    assert!(reason.contains("bytes that all paths together may take"), "{reason}");
    let last = &tree.refused().last().unwrap().reason;
    assert!(last.contains("more are not named"), "{last}");
    // All names are accounted for: the last note gives the number of further ones.
    let beyond: usize = last.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(nodes.len() - 1 + tree.refused().len() - 1 + beyond, (DEPTH + MANY) as usize);
    let report = extract(&fs, place.path(), &ExtractOptions::default(), &quiet).unwrap();
    assert_eq!((report.directories, report.refused.len()), (nodes.len() as u64, tree.refused().len()));
}

#[test]
fn a_walk_says_where_its_paths_end() {
    let fs = deep();
    let (mut bytes, mut problems) = (0, Vec::new());
    let mut visit = |step: Step<'_>| {
        match step {
            Step::Entry { path, .. } => bytes += path.len(),
            Step::Problem { error, .. } => problems.push(error.to_string()),
            Step::Leave { .. } => {}
        }
        Ok(Next::Enter)
    };
    walk(&fs, fs.root(), &mut visit).unwrap();
    assert!(bytes < PATHS_MAX, "{bytes} bytes of paths");
    assert!(matches!(&problems[..], [only] if only.contains("the walk ends here")), "{problems:?}");
}
