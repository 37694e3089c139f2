//! What is known of an inode.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::NodeAddress;
use crate::fragments::Fragments;
use crate::layout;

/// An inode. Its nodes and names are known from the mount on, its body from its first use.
#[derive(Debug, Default)]
pub struct Inode {
    /// All its nodes that are still on the flash, obsolete ones included: as long as an old one is there, it could come back.
    pub nodes: Vec<NodeAddress>,
    /// How many names it has; 0: it is dead.
    pub links: u32,
    /// The directory that holds its last name; the way up for directories.
    pub parent: u32,
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
    /// The inode node that alone holds the attributes: of directories, symbolic links, devices, and of files without data.
    pub metadata: Option<NodeAddress>,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// Device number (major << 32 | minor) of a device.
    pub device: u64,
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
    pub inode: u32,
    /// `st_mode >> 12` of the inode.
    pub kind: u8,
    /// The node's version.
    pub version: u32,
    /// The node.
    pub node: NodeAddress,
    /// Its place in listings: never given twice in one mount.
    pub cookie: u64,
}

/// The names of a directory, deletions included.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    names: BTreeMap<Box<[u8]>, Entry>,
    cookies: BTreeMap<u64, Box<[u8]>>,
    last_cookie: u64,
}

impl Entries {
    /// What stands for a name, a deletion included.
    pub fn get(&self, name: &[u8]) -> Option<&Entry> {
        self.names.get(name)
    }

    /// The inode of that name.
    pub fn inode(&self, name: &[u8]) -> Option<u32> {
        self.get(name).map(|entry| entry.inode).filter(|inode| *inode != 0)
    }

    /// Whether there is no name but deletions.
    pub fn is_empty(&self) -> bool {
        self.names.values().all(|entry| entry.inode == 0)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.names.iter().map(|(name, entry)| (&**name, entry))
    }

    /// The names whose cookie is greater than `cookie`, by cookie, without deletions.
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.cookies
            .range(cookie.saturating_add(1)..)
            .filter_map(|(_, name)| self.names.get_key_value(name).map(|(name, entry)| (&**name, entry)))
            .filter(|(_, entry)| entry.inode != 0)
    }

    /// Puts `entry` in the place of what stands for the name, and returns that. A name that goes on keeps its cookie.
    pub fn put(&mut self, name: &[u8], mut entry: Entry) -> Option<Entry> {
        let old = self.names.get(name);
        entry.cookie = match old {
            Some(old) if (old.inode != 0) == (entry.inode != 0) => old.cookie,
            _ => {
                self.last_cookie += 1;
                self.last_cookie
            }
        };
        if let Some(old) = old {
            self.cookies.remove(&old.cookie);
        }
        self.cookies.insert(entry.cookie, name.into());
        self.names.insert(name.into(), entry)
    }

    /// Forgets a name, its deletion too.
    pub fn forget(&mut self, name: &[u8]) -> Option<Entry> {
        let old = self.names.remove(name)?;
        self.cookies.remove(&old.cookie);
        Some(old)
    }

    /// The name whose entry is this node.
    pub fn by_node(&self, node: NodeAddress) -> Option<(&[u8], &Entry)> {
        self.iter().find(|(_, entry)| entry.node == node)
    }

    /// A node was copied as it is.
    pub fn moved(&mut self, name: &[u8], to: NodeAddress) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.node = to;
        }
    }
}

/// The inodes of a volume.
pub type Inodes = BTreeMap<u32, Inode>;

/// Whether a name can stand in a directory of this format.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= layout::NAME_MAX
        && name != b"."
        && name != b".."
        && !name.contains(&b'/')
        && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(inode: u32) -> Entry {
        Entry { inode, kind: 8, version: 1, node: NodeAddress(0), cookie: 0 }
    }

    #[test]
    fn a_listing_goes_on_after_changes() {
        let mut entries = Entries::default();
        for (name, inode) in [("a", 2), ("b", 3), ("c", 4)] {
            entries.put(name.as_bytes(), entry(inode));
        }
        let first = entries.after(0).next().map(|(_, entry)| entry.cookie).unwrap();
        entries.put(b"a", entry(0));
        entries.put(b"b", entry(9));
        entries.put(b"d", entry(5));
        let rest: Vec<_> = entries.after(first).map(|(name, entry)| (name.to_vec(), entry.inode)).collect();
        assert_eq!(rest, [(b"b".to_vec(), 9), (b"c".to_vec(), 4), (b"d".to_vec(), 5)]);
        assert_eq!((entries.inode(b"a"), entries.get(b"a").unwrap().inode), (None, 0));
        entries.forget(b"a");
        assert!(entries.get(b"a").is_none() && !entries.is_empty());
    }

    #[test]
    fn names_that_the_format_cannot_hold() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 255]] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name(&[b'x'; 254]) && is_name(b"...") && is_name(&[0xFF]));
    }
}
