//! Comparing two trees.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use nandkit_units::ReadInto;

use super::{CHUNK, DEPTH_MAX, FILE_BYTES_MAX, OwnedEntry, link_target, sorted_entries};
use crate::{Attributes, ErrorKind, Features, FileKind, FileSystem, FsError, InodeNumber, Result, acl};

/// Which differences count. Names, kinds, sizes, contents and link targets always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Compare permission bits.
    pub mode: bool,
    /// Compare owners and groups.
    pub owner: bool,
    /// Compare link counts of inodes other than directories.
    pub links: bool,
    /// Compare modification times of regular files, with this tolerance in nanoseconds; `None`
    /// ignores them.
    pub modified_slack_ns: Option<u64>,
    /// Compare extended attributes other than access control lists.
    pub xattrs: bool,
    /// Compare access control lists.
    pub posix_acls: bool,
    /// Files longer than this many bytes count as different, because comparing them would take too
    /// long.
    pub file_bytes_max: u64,
    /// The comparison ends after this many differences.
    pub differences_max: usize,
}

impl CompareOptions {
    /// Everything that both formats can store; times with the coarser resolution.
    pub fn for_features(a: &Features, b: &Features) -> Self {
        Self {
            mode: a.permissions && b.permissions,
            owner: a.owners && b.owners,
            links: a.hard_links && b.hard_links,
            modified_slack_ns: Some(a.modified_step_ns.max(b.modified_step_ns).saturating_sub(1)),
            xattrs: a.xattrs && b.xattrs,
            posix_acls: a.posix_acls && b.posix_acls,
            file_bytes_max: FILE_BYTES_MAX,
            differences_max: 100,
        }
    }
}

/// A path at which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path relative to the roots of the comparison.
    pub path: Vec<u8>,
    /// Kind of the difference.
    pub kind: DifferenceKind,
}

/// How two trees differ at one path; pairs are (first, second).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DifferenceKind {
    OnlyInFirst,
    OnlyInSecond,
    Kind(FileKind, FileKind),
    Size(u64, u64),
    /// The first differing byte.
    Content {
        offset: u64,
        bytes: (u8, u8),
    },
    Target(Vec<u8>, Vec<u8>),
    Mode(u16, u16),
    Owner((u32, u32), (u32, u32)),
    Links(u32, u32),
    Device(u64, u64),
    Modified(i64, i64),
    /// An extended attribute's value; `None` where it is missing.
    Xattr(Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>),
    /// One side could not be read: which one (1 or 2), and why.
    Unreadable(u8, ErrorKind, String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        write!(f, "{}: ", super::show(&self.path))?;
        match &self.kind {
            DifferenceKind::OnlyInFirst => f.write_str("only in the first"),
            DifferenceKind::OnlyInSecond => f.write_str("only in the second"),
            DifferenceKind::Kind(a, b) => write!(f, "kind {a}, {b}"),
            DifferenceKind::Size(a, b) => write!(f, "size {a}, {b}"),
            DifferenceKind::Content { offset, bytes: (a, b) } => write!(f, "byte {offset} is {a:#04x}, {b:#04x}"),
            DifferenceKind::Target(a, b) => write!(f, "target \"{}\", \"{}\"", text(a), text(b)),
            DifferenceKind::Mode(a, b) => write!(f, "mode {a:04o}, {b:04o}"),
            DifferenceKind::Owner(a, b) => write!(f, "owner {}:{}, {}:{}", a.0, a.1, b.0, b.1),
            DifferenceKind::Links(a, b) => write!(f, "links {a}, {b}"),
            DifferenceKind::Device(a, b) => write!(f, "device {a:#x}, {b:#x}"),
            DifferenceKind::Modified(a, b) => write!(f, "modified {a} ns, {b} ns"),
            DifferenceKind::Xattr(name, a, b) => {
                let value = |v: &Option<Vec<u8>>| v.as_ref().map_or("missing".into(), |v| format!("\"{}\"", text(v)));
                write!(f, "attribute {}: {}, {}", text(name), value(a), value(b))
            }
            DifferenceKind::Unreadable(side, kind, detail) => write!(f, "side {side}: {kind:?}: {detail}"),
        }
    }
}

struct Comparison<'a> {
    a: &'a dyn FileSystem,
    b: &'a dyn FileSystem,
    options: CompareOptions,
    found: Vec<Difference>,
}

/// The differences between the trees below two directories, sorted by path. Sides that cannot be
/// read count as differences.
pub fn compare_trees(
    a: (&dyn FileSystem, InodeNumber),
    b: (&dyn FileSystem, InodeNumber),
    options: CompareOptions,
) -> Vec<Difference> {
    let mut comparison = Comparison { a: a.0, b: b.0, options, found: Vec::new() };
    comparison.run(a.1, b.1);
    comparison.found.truncate(options.differences_max);
    comparison.found.sort_by(|x, y| x.path.cmp(&y.path));
    comparison.found
}

impl Comparison<'_> {
    fn run(&mut self, a: InodeNumber, b: InodeNumber) {
        let mut pending = vec![(Vec::new(), 0, a, b)];
        let (mut entered_a, mut entered_b) = (BTreeSet::from([a]), BTreeSet::from([b]));
        while let Some((path, depth, a, b)) = pending.pop() {
            let Some((in_a, in_b)) = self.both(&path, sorted_entries(self.a, a), sorted_entries(self.b, b)) else {
                continue;
            };
            for (name, pair) in merged(in_a, in_b) {
                if self.found.len() >= self.options.differences_max {
                    return;
                }
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(&name);
                let (a, b) = match pair {
                    (Some(a), Some(b)) => (a, b),
                    (Some(_), None) => {
                        self.add(&below, DifferenceKind::OnlyInFirst);
                        continue;
                    }
                    _ => {
                        self.add(&below, DifferenceKind::OnlyInSecond);
                        continue;
                    }
                };
                if !self.inodes(&below, a, b) {
                    continue;
                }
                // A directory that was entered before has a second name, or contains itself.
                let (new_in_a, new_in_b) = (entered_a.insert(a), entered_b.insert(b));
                if new_in_a && new_in_b && depth < DEPTH_MAX {
                    pending.push((below, depth + 1, a, b));
                } else {
                    let side = if new_in_a { 2 } else { 1 };
                    let why = "directories hold themselves or are too deep".to_string();
                    self.add(&below, DifferenceKind::Unreadable(side, ErrorKind::Corrupt, why));
                }
            }
        }
    }

    fn add(&mut self, path: &[u8], kind: DifferenceKind) {
        self.found.push(Difference { path: path.to_vec(), kind });
    }

    fn add_if(&mut self, path: &[u8], differs: bool, kind: DifferenceKind) {
        if differs {
            self.add(path, kind);
        }
    }

    /// Returns both values, or records that one or both could not be read.
    fn both<T>(&mut self, path: &[u8], a: Result<T>, b: Result<T>) -> Option<(T, T)> {
        let mut unreadable = |side, error: FsError| {
            self.add(path, DifferenceKind::Unreadable(side, error.kind, error.to_string()));
        };
        match (a, b) {
            (Ok(a), Ok(b)) => Some((a, b)),
            (a, b) => {
                if let Err(error) = a {
                    unreadable(1, error);
                }
                if let Err(error) = b {
                    unreadable(2, error);
                }
                None
            }
        }
    }

    /// Compares two inodes; returns true if both are directories.
    fn inodes(&mut self, path: &[u8], a: InodeNumber, b: InodeNumber) -> bool {
        let Some((x, y)) = self.both(path, self.a.stat(a), self.b.stat(b)) else { return false };
        if x.kind != y.kind {
            self.add(path, DifferenceKind::Kind(x.kind, y.kind));
            return false;
        }
        self.attributes(path, &x, &y);
        match x.kind {
            FileKind::Regular if x.size == y.size => self.content(path, &x, &y),
            FileKind::Regular => self.add(path, DifferenceKind::Size(x.size, y.size)),
            FileKind::Symlink => {
                if let Some((x, y)) = self.both(path, link_target(self.a, a), link_target(self.b, b)) {
                    self.add_if(path, x != y, DifferenceKind::Target(x, y));
                }
            }
            _ => {}
        }
        if self.options.xattrs || self.options.posix_acls {
            self.xattrs(path, a, b);
        }
        x.kind == FileKind::Directory
    }

    fn attributes(&mut self, path: &[u8], x: &Attributes, y: &Attributes) {
        let options = self.options;
        self.add_if(path, options.mode && x.mode != y.mode, DifferenceKind::Mode(x.mode, y.mode));
        let owners = ((x.uid, x.gid), (y.uid, y.gid));
        self.add_if(path, options.owner && owners.0 != owners.1, DifferenceKind::Owner(owners.0, owners.1));
        self.add_if(path, x.device != y.device, DifferenceKind::Device(x.device, y.device));
        if x.kind != FileKind::Directory {
            self.add_if(path, options.links && x.links != y.links, DifferenceKind::Links(x.links, y.links));
        }
        if let (FileKind::Regular, Some(slack)) = (x.kind, options.modified_slack_ns) {
            let (x, y) = (x.modified.0, y.modified.0);
            self.add_if(path, x.abs_diff(y) > slack, DifferenceKind::Modified(x, y));
        }
    }

    fn content(&mut self, path: &[u8], x: &Attributes, y: &Attributes) {
        if x.size > self.options.file_bytes_max {
            let why = format!("{} bytes are too many to compare", x.size);
            self.add(path, DifferenceKind::Unreadable(1, ErrorKind::FileTooBig, why));
            return;
        }
        let room = CHUNK.min(usize::try_from(x.size).unwrap_or(CHUNK));
        let (mut in_a, mut in_b) = (vec![0; room], vec![0; room]);
        let mut at = 0;
        while at < x.size {
            let a = self.a.read(x.inode, at, ReadInto::Bytes(&mut in_a));
            let b = self.b.read(y.inode, at, ReadInto::Bytes(&mut in_b));
            let Some((a, b)) = self.both(path, a, b) else { return };
            let count = a.min(b).min(CHUNK);
            // Nearly always equal, so compare the whole buffer first, and bytes only if it differs.
            let same = in_a.get(..count) == in_b.get(..count);
            let end = if same { 0 } else { count };
            if let Some(first) = (0..end).find(|i| in_a.get(*i) != in_b.get(*i)) {
                let byte = |bytes: &[u8]| bytes.get(first).copied().unwrap_or(0);
                let bytes = (byte(&in_a), byte(&in_b));
                self.add(path, DifferenceKind::Content { offset: at + first as u64, bytes });
                return;
            }
            if count == 0 {
                let why = format!("the size is {}, but the content ends at byte {at}", x.size);
                self.add(path, DifferenceKind::Unreadable(if a == 0 { 1 } else { 2 }, ErrorKind::Corrupt, why));
                return;
            }
            at += count as u64;
        }
    }

    fn xattrs(&mut self, path: &[u8], a: InodeNumber, b: InodeNumber) {
        let (Some(in_a), Some(in_b)) = (self.a.xattrs(), self.b.xattrs()) else { return };
        let Some((x, y)) = self.both(path, in_a.xattr_names(a), in_b.xattr_names(b)) else { return };
        let names: BTreeSet<Vec<u8>> = x.into_iter().chain(y).collect();
        let CompareOptions { xattrs, posix_acls, .. } = self.options;
        let counts = |name: &Vec<u8>| if name == acl::ACCESS || name == acl::DEFAULT { posix_acls } else { xattrs };
        for name in names.into_iter().filter(counts) {
            let (x, y) = (present(in_a.xattr(a, &name)), present(in_b.xattr(b, &name)));
            if let Some((x, y)) = self.both(path, x, y) {
                self.add_if(path, x != y, DifferenceKind::Xattr(name, x, y));
            }
        }
    }
}

fn present(value: Result<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == ErrorKind::NoAttribute => Ok(None),
        Err(error) => Err(error),
    }
}

/// Merges two sorted lists; each name comes with the sides that have it.
#[allow(clippy::type_complexity, reason = "a pair of optional inodes needs no name of its own")]
fn merged(a: Vec<OwnedEntry>, b: Vec<OwnedEntry>) -> Vec<(Vec<u8>, (Option<InodeNumber>, Option<InodeNumber>))> {
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return all,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => x.name.cmp(&y.name),
        };
        let x = if order.is_le() { a.next() } else { None };
        let y = if order.is_ge() { b.next() } else { None };
        let inodes = (x.as_ref().map(|entry| entry.inode), y.as_ref().map(|entry| entry.inode));
        all.extend(x.or(y).map(|entry| (entry.name, inodes)));
    }
}
