//! Inodes, and directory entries.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::catalogue::NodeState;
use crate::fragments::Fragments;
use crate::work;
use crate::{Ino, NodeAddress};
use nandkit_vfs::FileKind;

/// An inode. Its nodes and names are known from the mount on, its body from its first use.
#[derive(Debug, Default)]
pub struct Inode {
    /// All its nodes that are still on the flash, including obsolete ones: an old node could
    /// reappear.
    pub nodes: Vec<NodeAddress>,
    /// The number of its names; 0 means it is dead.
    pub links: u32,
    /// The directory with its last name; for directories the parent.
    pub parent: Ino,
    /// The names in it, if it is a directory.
    pub entries: Option<Box<Entries>>,
    /// Attributes and content.
    pub body: OnceLock<Box<Body>>,
    /// How often it is retained.
    pub retained: u32,
    /// Highest version of its nodes: the next one gets one more.
    pub highest_version: u32,
}

/// Attributes and content of an inode.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Type and permissions as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u16,
    /// Group.
    pub gid: u16,
    /// Size of a regular file in bytes.
    pub size: u32,
    /// Time of the last access in seconds since 1970.
    pub accessed: u32,
    /// Time of the last change of content in seconds since 1970.
    pub modified: u32,
    /// Time of the last change of attributes in seconds since 1970.
    pub changed: u32,
    /// The nodes with the bytes of a regular file.
    pub fragments: Fragments,
    /// The inode node that only holds attributes: of directories, symbolic links, devices, and
    /// files without data.
    pub metadata: Option<NodeAddress>,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// Device number (major << 32 | minor) of a device.
    pub device: u64,
    /// Entries of this directory whose nodes were found damaged at loading, by address, with their
    /// cookies: they are not shown.
    pub dropped: BTreeMap<NodeAddress, u64>,
    /// Node states found at loading that the catalogue does not know yet.
    pub states: Vec<(NodeAddress, NodeState)>,
}

impl Body {
    /// The type bits of the mode.
    pub const fn format(&self) -> u32 {
        self.mode & 0o170_000
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode; 0 for a deleted name, whose entry hides older ones.
    pub inode: Ino,
    /// `st_mode >> 12` of the inode.
    pub kind: u8,
    /// The version of its node.
    pub version: u32,
    /// Its node.
    pub node: NodeAddress,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// The entries of a directory, including deletions.
///
/// They are sorted by a hash of the name, as in Linux's lists, and the hash is the cookie: a
/// listing continues correctly whatever was added or removed. A lookup is a search in a balanced
/// tree, plus a comparison for each name with the same 48 bits of hash.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    names: BTreeMap<u64, Named>,
}

#[derive(Clone, Debug)]
struct Named {
    name: Box<[u8]>,
    entry: Entry,
}

/// Names with the same hash are distinguished by the lowest bits of the cookie.
const COLLISION_BITS: u32 = 15;

/// The first possible cookie of a name; the last one has [`COLLISION_BITS`] ones added.
fn first_cookie(name: &[u8]) -> u64 {
    let mut state = name.len() as u64;
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        state = nandkit_units::random::hash(state, u64::from_le_bytes(word), 0x4A46_4653);
    }
    // Cookies stay below 2^63 (off_t of listings is signed) and above 0 (the start).
    ((state >> 16) << COLLISION_BITS) | 1
}

impl Entries {
    /// Makes many entries with different names at once, which saves time and memory over adding
    /// them one by one.
    pub fn of(entries: impl IntoIterator<Item = (Box<[u8]>, Entry)>) -> Self {
        let mut list: Vec<(u64, Named)> = Vec::new();
        for (name, entry) in entries {
            list.push((first_cookie(&name), Named { name, entry }));
        }
        list.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        let mut last = 0;
        for (cookie, _) in &mut list {
            if *cookie <= last {
                *cookie = last + 1;
            }
            last = *cookie;
        }
        Self { names: list.into_iter().collect() }
    }

    fn cookie_of(&self, name: &[u8]) -> Option<u64> {
        let first = first_cookie(name);
        self.names
            .range(first..)
            .take_while(|(cookie, _)| Self::may_hold(first, **cookie))
            .find(|(_, named)| *named.name == *name)
            .map(|(cookie, _)| *cookie)
    }

    /// Whether a name with the first cookie `first` may have got `cookie`: only if all cookies in
    /// between are taken, which the caller's walk checks.
    const fn may_hold(first: u64, cookie: u64) -> bool {
        cookie - first < 1 << COLLISION_BITS
    }

    /// The entry of a name, which may be a deletion.
    pub fn get(&self, name: &[u8]) -> Option<&Entry> {
        self.names.get(&self.cookie_of(name)?).map(|named| &named.entry)
    }

    /// The inode of a name.
    pub fn inode(&self, name: &[u8]) -> Option<Ino> {
        self.get(name).map(|entry| entry.inode).filter(|inode| *inode != Ino::NONE)
    }

    /// Whether there are no names other than deletions.
    pub fn is_empty(&self) -> bool {
        self.names.values().all(|named| named.entry.inode == Ino::NONE)
    }

    /// All entries, by cookie.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.with_cookies().map(|(_, name, entry)| (name, entry))
    }

    /// Cookie, name and entry of all, in cookie order.
    pub fn with_cookies(&self) -> impl Iterator<Item = (u64, &[u8], &Entry)> {
        self.names.iter().inspect(|_| work::steps(1)).map(|(cookie, named)| (*cookie, &*named.name, &named.entry))
    }

    /// The name whose entry is in this node. Cost: a pass over all names.
    pub fn by_node(&self, node: NodeAddress) -> Option<(&[u8], &Entry)> {
        self.iter().find(|(_, entry)| entry.node == node)
    }

    /// Cookie, name and entry of those after `cookie`, in cookie order, without deletions.
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], &Entry)> {
        self.names
            .range(cookie.saturating_add(1)..)
            .map(|(cookie, named)| (*cookie, &*named.name, &named.entry))
            .filter(|(_, _, entry)| entry.inode != Ino::NONE)
    }

    /// Sets the entry of a name and returns the old one. A name keeps its cookie.
    pub fn put(&mut self, name: &[u8], entry: Entry) -> Option<Entry> {
        if let Some(cookie) = self.cookie_of(name) {
            return self.names.get_mut(&cookie).map(|named| std::mem::replace(&mut named.entry, entry));
        }
        let mut cookie = first_cookie(name);
        while self.names.contains_key(&cookie) {
            cookie += 1;
        }
        self.names.insert(cookie, Named { name: name.into(), entry });
        None
    }

    /// Removes the entry of a name, including a deletion.
    pub fn forget(&mut self, name: &[u8]) -> Option<Entry> {
        let cookie = self.cookie_of(name)?;
        self.names.remove(&cookie).map(|named| named.entry)
    }

    /// Memory in bytes, as counted by [`crate::Jffs2::memory`].
    pub(crate) fn memory(&self) -> usize {
        let names: usize = self.names.values().map(|named| named.name.len() + 16).sum();
        tree_bytes(&self.names, true) + names + size_of::<Self>() + 16
    }

    /// Removes the name with this cookie if its entry is in this node; returns the name.
    pub fn forget_node(&mut self, cookie: u64, node: NodeAddress) -> Option<Box<[u8]>> {
        self.names.get(&cookie).filter(|named| named.entry.node == node)?;
        self.names.remove(&cookie).map(|named| named.name)
    }

    /// Records that an entry's node was copied.
    pub fn moved(&mut self, name: &[u8], to: NodeAddress) {
        if let Some(named) = self.cookie_of(name).and_then(|cookie| self.names.get_mut(&cookie)) {
            named.entry.node = to;
        }
    }
}

/// Most bytes that an allocation takes in addition to its content.
pub(crate) const ALLOCATION: usize = 16;

/// Memory of a tree in bytes. Its nodes have space for 11 entries and are at least about half full,
/// unless they were made at once.
pub(crate) fn tree_bytes<K, V>(map: &BTreeMap<K, V>, at_once: bool) -> usize {
    let leaves = map.len().div_ceil(if at_once { 11 } else { 6 });
    leaves * (11 * (size_of::<K>() + size_of::<V>()) + 16 + ALLOCATION) * 12 / 11
}

/// The inodes of a volume.
pub type Inodes = BTreeMap<Ino, Inode>;

/// An inode that has lost its name, in a volume from which nothing was ever deleted. Its content is
/// not reported separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub(crate) inode: Ino,
    /// The node that proves its existence.
    pub(crate) at: NodeAddress,
    /// The mode in its newest node; `None` for a directory of which only names in it are left.
    pub(crate) mode: Option<u32>,
}

/// The name of a kind for messages.
pub(crate) const fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "a file",
        FileKind::Directory => "a directory",
        FileKind::Symlink => "a link",
        FileKind::CharacterDevice => "a character device",
        FileKind::BlockDevice => "a block device",
        FileKind::Fifo => "a pipe",
        FileKind::Socket => "a socket",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::is_name;

    fn entry(inode: Ino) -> Entry {
        Entry { inode, kind: 8, version: 1, node: NodeAddress(0) }
    }

    #[test]
    fn a_listing_goes_on_after_changes() {
        let mut entries = Entries::default();
        for (name, inode) in [("a", 2), ("b", 3), ("c", 4)] {
            entries.put(name.as_bytes(), entry(Ino(inode)));
        }
        let head = entries.after(0).next().map(|(cookie, name, _)| (name.to_vec(), cookie));
        let first = head.as_ref().unwrap().1;
        let head = head.into_iter();
        entries.put(b"a", entry(Ino(0)));
        entries.put(b"b", entry(Ino(9)));
        entries.put(b"d", entry(Ino(5)));
        let mut seen: Vec<_> = entries.after(first).map(|(_, name, entry)| (name.to_vec(), entry.inode)).collect();
        seen.extend(
            head.filter(|(name, _)| name != b"a").map(|(name, _)| (name.clone(), entries.inode(&name).unwrap())),
        );
        seen.sort();
        seen.retain(|(name, _)| name != b"d");
        assert_eq!(seen, [(b"b".to_vec(), Ino(9)), (b"c".to_vec(), Ino(4))]);
        let found = (entries.inode(b"a"), entries.get(b"a").unwrap().inode, entries.inode(b"d"));
        assert_eq!(found, (None, Ino::NONE, Some(Ino(5))));
        entries.forget(b"a");
        assert!(entries.get(b"a").is_none() && !entries.is_empty());
    }

    #[test]
    fn names_with_one_hash_are_told_apart() {
        // Pretend that all three have the hash of the first.
        let start = first_cookie(b"a");
        let named = |name: &[u8], inode| Named { name: name.into(), entry: entry(inode) };
        let mut entries = Entries::default();
        for (place, name) in [&b"x"[..], b"y", b"a"].iter().enumerate() {
            entries.names.insert(start + place as u64, named(name, Ino(place as u32 + 2)));
        }
        assert_eq!(entries.inode(b"a"), Some(Ino(4)));
        entries.names.remove(&start);
        assert_eq!(entries.put(b"a", entry(Ino(7))).map(|old| old.inode), Some(Ino(4)));
        assert_eq!(entries.forget(b"a").map(|old| old.inode), Some(Ino(7)));
        assert!(entries.put(b"a", entry(Ino(9))).is_none());
        assert_eq!(entries.cookie_of(b"a"), Some(start));
    }

    #[test]
    fn names_that_the_format_cannot_hold() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 255]] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name(&[b'x'; 254]) && is_name(b"...") && is_name(&[0xFF]));
    }
}
