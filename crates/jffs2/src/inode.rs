//! What is known of an inode.

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
    /// All its nodes that are still on the flash, obsolete ones included: as long as an old one is
    /// there, it could come back.
    pub nodes: Vec<NodeAddress>,
    /// How many names it has; 0: it is dead.
    pub links: u32,
    /// The directory that holds its last name; the way up for directories.
    pub parent: Ino,
    /// The names in it, where it is a directory.
    pub entries: Option<Box<Entries>>,
    /// Attributes and content.
    pub body: OnceLock<Box<Body>>,
    /// How many hold it open.
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
    /// Bytes of a regular file.
    pub size: u32,
    /// Seconds since 1970.
    pub accessed: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// Seconds since 1970.
    pub changed: u32,
    /// Where the bytes of a regular file are.
    pub fragments: Fragments,
    /// The inode node that alone holds the attributes: of directories, symbolic links, devices, and
    /// of files without data.
    pub metadata: Option<NodeAddress>,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// Device number (major << 32 | minor) of a device.
    pub device: u64,
    /// Entries of this directory whose nodes turned out damaged when it was loaded, by address,
    /// with their cookies: they are not shown.
    pub dropped: BTreeMap<NodeAddress, u64>,
    /// What loading found out about the inode's nodes, and the catalogue does not know yet.
    pub states: Vec<(NodeAddress, NodeState)>,
}

impl Body {
    /// The type bits of the mode.
    pub const fn format(&self) -> u32 {
        self.mode & 0o170_000
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode; 0: the name was taken away, and this entry keeps older ones from coming back.
    pub inode: Ino,
    /// `st_mode >> 12` of the inode.
    pub kind: u8,
    /// The node's version.
    pub version: u32,
    /// The node.
    pub node: NodeAddress,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// The names of a directory, deletions included.
///
/// They stand in the order of a hash of the name, as in Linux's lists, and the hash is the cookie:
/// a listing goes on where it was whatever was added or removed. Finding costs a search in a
/// balanced tree, and as many comparisons as names share 48 bits of hash.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    names: BTreeMap<u64, Named>,
}

#[derive(Clone, Debug)]
struct Named {
    name: Box<[u8]>,
    entry: Entry,
}

/// Names with the same hash are told apart by the lowest bits of the cookie.
const COLLISION_BITS: u32 = 15;

/// The first cookie that a name may have; the last one is [`COLLISION_BITS`] of ones more.
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
    /// Many entries at once, with different names. Cheaper in time and memory than one after the
    /// other.
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

    /// Whether a name whose first cookie is `first` may have got `cookie`: only where all between
    /// are taken as well, which the caller's walk sees.
    const fn may_hold(first: u64, cookie: u64) -> bool {
        cookie - first < 1 << COLLISION_BITS
    }

    /// What stands for a name, a deletion included.
    pub fn get(&self, name: &[u8]) -> Option<&Entry> {
        self.names.get(&self.cookie_of(name)?).map(|named| &named.entry)
    }

    /// The inode of that name.
    pub fn inode(&self, name: &[u8]) -> Option<Ino> {
        self.get(name).map(|entry| entry.inode).filter(|inode| *inode != Ino::NONE)
    }

    /// Whether there is no name but deletions.
    pub fn is_empty(&self) -> bool {
        self.names.values().all(|named| named.entry.inode == Ino::NONE)
    }

    /// All, by cookie.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.with_cookies().map(|(_, name, entry)| (name, entry))
    }

    /// Cookie, name and entry of all, by cookie.
    pub fn with_cookies(&self) -> impl Iterator<Item = (u64, &[u8], &Entry)> {
        self.names.iter().inspect(|_| work::steps(1)).map(|(cookie, named)| (*cookie, &*named.name, &named.entry))
    }

    /// The name whose entry is this node. Cost: a pass over all names.
    pub fn by_node(&self, node: NodeAddress) -> Option<(&[u8], &Entry)> {
        self.iter().find(|(_, entry)| entry.node == node)
    }

    /// Cookie, name and entry of those whose cookie is greater than `cookie`, by cookie, without
    /// deletions.
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], &Entry)> {
        self.names
            .range(cookie.saturating_add(1)..)
            .map(|(cookie, named)| (*cookie, &*named.name, &named.entry))
            .filter(|(_, _, entry)| entry.inode != Ino::NONE)
    }

    /// Puts `entry` in the place of what stands for the name, and returns that. A name keeps its
    /// cookie.
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

    /// Forgets a name, its deletion too.
    pub fn forget(&mut self, name: &[u8]) -> Option<Entry> {
        let cookie = self.cookie_of(name)?;
        self.names.remove(&cookie).map(|named| named.entry)
    }

    /// Bytes of memory, as [`crate::Jffs2::memory`] counts.
    pub(crate) fn memory(&self) -> usize {
        let names: usize = self.names.values().map(|named| named.name.len() + 16).sum();
        tree_bytes(&self.names, true) + names + size_of::<Self>() + 16
    }

    /// Forgets the name with this cookie if its entry is this node; returns it.
    pub fn forget_node(&mut self, cookie: u64, node: NodeAddress) -> Option<Box<[u8]>> {
        self.names.get(&cookie).filter(|named| named.entry.node == node)?;
        self.names.remove(&cookie).map(|named| named.name)
    }

    /// A node was copied as it is.
    pub fn moved(&mut self, name: &[u8], to: NodeAddress) {
        if let Some(named) = self.cookie_of(name).and_then(|cookie| self.names.get_mut(&cookie)) {
            named.entry.node = to;
        }
    }
}

/// Bytes that an allocation takes besides its content, at the most.
pub(crate) const ALLOCATION: usize = 16;

/// Bytes of memory of a tree. Its nodes have room for 11 entries and are at least about half full
/// unless they were made at once.
pub(crate) fn tree_bytes<K, V>(map: &BTreeMap<K, V>, at_once: bool) -> usize {
    let leaves = map.len().div_ceil(if at_once { 11 } else { 6 });
    leaves * (11 * (size_of::<K>() + size_of::<V>()) + 16 + ALLOCATION) * 12 / 11
}

/// The inodes of a volume.
pub type Inodes = BTreeMap<Ino, Inode>;

/// An inode that has lost its name, in a volume from which nothing was ever taken away. What is in
/// it is not told by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub(crate) inode: Ino,
    /// The node that tells of it.
    pub(crate) at: NodeAddress,
    /// What its newest node says that it is; `None` of a directory of which names in it alone are
    /// left.
    pub(crate) mode: Option<u32>,
}

/// A kind in words.
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
        // As if all three had the hash of the first.
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
