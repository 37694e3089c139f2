//! The tree of files that a volume shows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_units::ReadInto;
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};

use super::state::{Name, PAGE, ROOT, XATTRS, xattr_name};

/// A file or directory that a volume shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedNode {
    /// Whether it is a directory.
    pub directory: bool,
    pub(super) mode: u16,
    pub(super) xattrs: BTreeMap<u64, Vec<u8>>,
    pub(super) bytes: Vec<u8>,
}

/// The tree of files and directories that a volume shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedTree {
    /// Names, with the numbers of their files and directories.
    pub names: BTreeMap<Name, usize>,
    /// Files and directories by their numbers.
    pub nodes: BTreeMap<usize, ObservedNode>,
}

/// The inodes of a volume, by their numbers in the model.
pub(super) fn inodes(fs: &dyn FileSystem) -> BTreeMap<usize, InodeNumber> {
    let mut inodes = BTreeMap::from([(ROOT, fs.root())]);
    let mut next = vec![fs.root()];
    while let Some(directory) = next.pop() {
        fs.read_dir(directory, 0, &mut |entry| {
            let stat = fs.stat(entry.inode).unwrap();
            match inodes.insert(stat.uid as usize, entry.inode) {
                None if stat.kind == FileKind::Directory => next.push(entry.inode),
                other => assert!(other.is_none_or(|other| other == entry.inode), "two inodes are number {}", stat.uid),
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    inodes
}

/// Reads the tree that a volume shows.
///
/// # Panics
///
/// Where it cannot be read, or its counts of links are wrong.
pub fn observe(fs: &dyn FileSystem) -> ObservedTree {
    let inodes = inodes(fs);
    let mut found = ObservedTree { names: BTreeMap::new(), nodes: BTreeMap::new() };
    for (number, inode) in &inodes {
        let stat = fs.stat(*inode).unwrap();
        let directory = stat.kind == FileKind::Directory;
        let mut bytes = vec![0; if directory { 0 } else { stat.size as usize }];
        if directory {
            fs.read_dir(*inode, 0, &mut |entry| {
                let of = fs.stat(entry.inode).unwrap().uid as usize;
                found.names.insert((*number, String::from_utf8(entry.name.to_vec()).unwrap()), of);
                ControlFlow::Continue(())
            })
            .unwrap();
        } else {
            assert_eq!(fs.read(*inode, 0, ReadInto::Bytes(&mut bytes)).unwrap(), bytes.len());
        }
        let xattrs = xattrs(fs, *inode);
        found.nodes.insert(*number, ObservedNode { directory, mode: stat.mode, xattrs, bytes });
    }
    for (number, inode) in inodes.iter().filter(|(number, _)| !found.nodes[number].directory) {
        let links = found.names.values().filter(|of| *of == number).count();
        assert_eq!(fs.stat(*inode).unwrap().links as usize, links, "links of number {number}");
    }
    found
}

fn xattrs(fs: &dyn FileSystem, inode: InodeNumber) -> BTreeMap<u64, Vec<u8>> {
    let Some(xattrs) = fs.xattrs() else { return BTreeMap::new() };
    let value = |name: Vec<u8>| {
        let known = (0..XATTRS).find(|number| xattr_name(*number).as_bytes() == name);
        let known = known.unwrap_or_else(|| panic!("nobody set the attribute {:?}", String::from_utf8_lossy(&name)));
        (known, xattrs.xattr(inode, &name).unwrap())
    };
    xattrs.xattr_names(inode).unwrap().into_iter().map(value).collect()
}

/// Names, attributes, sizes, and the versions that pages begin and end with: for a message.
pub fn describe(found: &ObservedTree) -> Vec<String> {
    let word = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let ends = |page: &[u8]| (word(page.first_chunk()), word(page.last_chunk()));
    let show = |(number, node): (&usize, &ObservedNode)| {
        let xattrs: Vec<_> = node.xattrs.iter().map(|(name, value)| (name, word(value.first_chunk()))).collect();
        let pages: Vec<_> = node.bytes.chunks(PAGE).map(ends).collect();
        format!("{number}: {:o} {xattrs:?} {} {pages:?}", node.mode, node.bytes.len())
    };
    found.names.iter().map(|name| format!("{name:?}")).chain(found.nodes.iter().map(show)).collect()
}
