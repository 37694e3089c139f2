//! What does not fit together is put right: names, links, attributes, sizes. The rules are those of
//! Linux's own check (`fs/ubifs/debug.c`, `dbg_check_filesystem`).

use std::collections::{BTreeMap, BTreeSet};

use nandkit_vfs::FileKind;
use nandkit_vfs::check::Finding;

use super::draft::{Draft, DraftInode, DraftName};
use crate::damage::DamageKind;
use crate::encode::{INODE_SIZE, entry_bytes, type_of, value_bytes};
use crate::layout::{BLOCK_SIZE, Key, ROOT, name_hash};

/// The directory for what has no name.
const LOST_AND_FOUND: &[u8] = b"lost+found";

impl Draft {
    /// Puts right what does not fit together.
    pub fn settle(&mut self) {
        self.drop_returned();
        let lost_names = self.lost_names();
        self.make_root();
        self.drop_ownerless();
        self.drop_truncated();
        self.drop_dangling();
        self.settle_directories();
        self.attach_lost(lost_names);
        // Behind the removal of what was removed long ago, whose attributes are no loss.
        self.settle_attributes();
        self.recount();
    }

    /// The sum over the names of each directory, as it counts for its size.
    fn sizes(&self) -> BTreeMap<u32, u64> {
        let mut sizes = BTreeMap::new();
        for (key, name) in self.names.keys() {
            *sizes.entry(key.inode).or_insert(INODE_SIZE) += entry_bytes(name.len());
        }
        sizes
    }

    /// Whether the size of a directory tells what is in it: each change of a name writes the
    /// directory behind it, so that one that is older than a name is out of date.
    fn knows_its_names(&self, number: u32) -> bool {
        let newest = self.names_in(number).map(|(_, entry)| entry.sequence).max().unwrap_or(0);
        self.inodes.get(&number).is_some_and(|inode| inode.is_directory() && inode.sequence >= newest)
    }

    /// Drops names that only the scan found, of directories that have fewer: they were removed.
    /// Those that lead nowhere go first, then the oldest. An inode that loses its name so gets
    /// another one: this may be an error.
    fn drop_returned(&mut self) {
        for (number, mut sum) in self.sizes() {
            let Some(size) = self.inodes.get(&number).map(|inode| inode.inode.size.get()) else { continue };
            if sum <= size || !self.knows_its_names(number) {
                continue;
            }
            let found = self.names_in(number).filter(|(_, entry)| entry.is_found);
            let mut found: Vec<_> = found
                .map(|(slot, entry)| {
                    (self.inodes.contains_key(&entry.inode), entry.sequence, entry.inode, slot.clone())
                })
                .collect();
            found.sort_unstable();
            for (is_there, _, inode, slot) in found {
                let bytes = entry_bytes(slot.1.len());
                if sum < size + bytes {
                    continue;
                }
                sum -= bytes;
                self.names.remove(&slot);
                self.unnamed.extend(is_there.then_some(inode));
                let detail = format!("'{}', which directory {number} had before", slot.1.escape_ascii());
                self.dropped.add(Finding::new(DamageKind::Name, detail).harmless());
            }
        }
    }

    /// Whether names are lost: a directory is gone, out of date, or larger than its names.
    fn lost_names(&self) -> bool {
        let sizes = self.sizes();
        let is_short = |number: &u32, inode: &DraftInode| {
            inode.inode.size.get() > sizes.get(number).copied().unwrap_or(INODE_SIZE)
        };
        let mut directories = self.inodes.iter().filter(|(_, inode)| inode.is_directory());
        let is_gone = |number: &u32| !self.inodes.contains_key(number);
        !self.inodes.contains_key(&ROOT)
            || sizes.keys().any(is_gone)
            || directories.any(|(number, inode)| is_short(number, inode) || !self.knows_its_names(*number))
    }

    fn make_root(&mut self) {
        if self.inodes.get(&ROOT).is_some_and(DraftInode::is_directory) {
            return;
        }
        self.inodes.insert(ROOT, DraftInode::directory(ROOT));
        self.mend(DamageKind::Leaf, ROOT, "the root directory is gone: it is made anew".to_owned());
    }

    /// Drops data, names and attributes of inodes that are not there, or cannot have them.
    fn drop_ownerless(&mut self) {
        let directories: BTreeSet<u32> =
            self.inodes.iter().filter(|(_, inode)| inode.is_directory()).map(|(number, _)| *number).collect();
        let mut gone: BTreeMap<u32, u64> = BTreeMap::new();
        let inodes = &self.inodes;
        let mut stays = |number: u32, is_right: bool| {
            *gone.entry(number).or_default() += u64::from(!is_right);
            is_right
        };
        self.data.retain(|key, _| stays(key.inode, inodes.contains_key(&key.inode)));
        self.xattrs.retain(|(key, _), _| stays(key.inode, inodes.contains_key(&key.inode)));
        self.names.retain(|(key, _), _| stays(key.inode, directories.contains(&key.inode)));
        for (inode, count) in gone.into_iter().filter(|(_, count)| *count > 0) {
            let detail = format!("{count} data, names or attributes of inode {inode}, which is not there");
            self.drop(DamageKind::Ownerless, inode, detail);
        }
    }

    /// Drops data behind the end of a file that only the scan found, if they are older than its
    /// inode: they were cut off, and the mark of that was collected.
    fn drop_truncated(&mut self) {
        let inodes = &self.inodes;
        self.data.retain(|key, (leaf, _)| {
            let is_behind = |inode: &DraftInode| {
                let start = u64::from(key.low()) * u64::from(BLOCK_SIZE);
                inode.is_found && start >= inode.inode.size.get() && leaf.sequence < inode.sequence
            };
            !inodes.get(&key.inode).is_some_and(is_behind)
        });
    }

    /// Drops names that lead nowhere; gives others the type of their inode.
    fn drop_dangling(&mut self) {
        for ((key, name), entry) in std::mem::take(&mut self.names) {
            let kind = self.inodes.get(&entry.inode).filter(|inode| !inode.is_xattr()).and_then(DraftInode::kind);
            let shown = name.escape_ascii().to_string();
            let Some(kind) = kind.filter(|_| entry.inode != ROOT) else {
                let detail = format!("'{shown}' in directory {} leads to no file", key.inode);
                self.drop(DamageKind::Dangling, key.inode, detail);
                continue;
            };
            let file_type = type_of(kind);
            let place = entry.place.filter(|_| entry.file_type == file_type);
            if place.is_none() {
                let detail = format!("'{shown}' in directory {} gets the type of its inode, {kind}", key.inode);
                self.mend(DamageKind::Name, entry.inode, detail);
            }
            self.names.insert((key, name), DraftName { file_type, place, ..entry });
        }
    }

    /// Drops entries of attributes without their value, and values without their entry.
    fn settle_attributes(&mut self) {
        let mut used = BTreeSet::new();
        for ((key, name), entry) in std::mem::take(&mut self.xattrs) {
            let is_value = self.inodes.get(&entry.inode).is_some_and(DraftInode::is_xattr);
            let is_host = self.inodes.get(&key.inode).is_some_and(|host| !host.is_xattr());
            if is_value && is_host && used.insert(entry.inode) {
                let file_type = type_of(FileKind::Regular);
                let place = entry.place.filter(|_| entry.file_type == file_type);
                if place.is_none() {
                    let detail = format!("attribute '{}' gets the type of a file", name.escape_ascii());
                    self.mend(DamageKind::Name, key.inode, detail);
                }
                self.xattrs.insert((key, name), DraftName { file_type, place, ..entry });
                continue;
            }
            let detail = format!("attribute '{}' of inode {}, whose value is lost", name.escape_ascii(), key.inode);
            self.drop(DamageKind::Leaf, key.inode, detail);
        }
        let unused = self.inodes.iter().filter(|(number, inode)| inode.is_xattr() && !used.contains(number));
        for number in unused.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.remove(number);
            let detail = format!("inode {number} holds the value of an attribute that no file has");
            self.drop(DamageKind::UnusedAttribute, number, detail);
        }
    }

    /// Leaves each directory one name: of those that knew what it leads to the newest.
    fn settle_directories(&mut self) {
        let rank = |entry: &DraftName| (entry.place.is_some(), entry.sequence);
        let mut best: BTreeMap<u32, (bool, u64)> = BTreeMap::new();
        for entry in self.names.values() {
            let known = best.entry(entry.inode).or_default();
            *known = rank(entry).max(*known);
        }
        for (slot, entry) in std::mem::take(&mut self.names) {
            let is_directory = self.inodes.get(&entry.inode).is_some_and(DraftInode::is_directory);
            // Of two that are alike one stays.
            if !is_directory || best.get(&entry.inode) == Some(&rank(&entry)) {
                if is_directory {
                    best.remove(&entry.inode);
                }
                self.names.insert(slot, entry);
                continue;
            }
            let detail = format!("'{}', a second name of directory {}", slot.1.escape_ascii(), entry.inode);
            self.drop(DamageKind::Links, entry.inode, detail);
        }
    }

    /// Removes files that were deleted while they were open, and gives names to what lost its own.
    fn attach_lost(&mut self, lost_names: bool) {
        let mut reached = BTreeSet::new();
        self.reach(ROOT, &mut reached);
        let lost: Vec<u32> = self.inodes.iter().filter(|(_, inode)| !inode.is_xattr()).map(|(n, _)| *n).collect();
        let mut named: BTreeSet<u32> = self.names.values().map(|entry| entry.inode).collect();
        // First what nothing leads to, so that directories keep what is in them; then circles.
        for is_circle in [false, true] {
            let mut pending: Vec<u32> = lost.iter().rev().copied().collect();
            let slots: BTreeMap<u32, (Key, Vec<u8>)> = match is_circle {
                true => self.names.iter().map(|(slot, entry)| (entry.inode, slot.clone())).collect(),
                false => BTreeMap::new(),
            };
            while let Some(number) = pending.pop() {
                let Some(inode) = self.inodes.get(&number) else { continue };
                let is_other = if is_circle { !inode.is_directory() } else { named.contains(&number) };
                if reached.contains(&number) || is_other {
                    continue;
                }
                let is_deleted = inode.inode.links.get() == 0;
                let is_old = inode.is_found && !lost_names && !self.unnamed.contains(&number);
                if is_deleted || is_old {
                    // What was in a directory has no name then.
                    let inside: Vec<u32> = self.names_in(number).map(|(_, entry)| entry.inode).collect();
                    for inode in &inside {
                        named.remove(inode);
                    }
                    pending.extend(inside);
                    self.remove_lost(number, is_deleted);
                    continue;
                }
                slots.get(&number).and_then(|slot| self.names.remove(slot));
                self.attach(number, &mut reached);
                named.insert(number);
            }
        }
    }

    /// Removes an inode without a name: a file that was deleted while it was open, or that was
    /// removed long ago.
    fn remove_lost(&mut self, number: u32, is_deleted: bool) {
        self.remove(number);
        if is_deleted {
            self.mend(DamageKind::Orphan, number, format!("inode {number}, deleted while it was open, is removed"));
        } else {
            let detail = format!("inode {number}, of which no name was lost: it was removed long ago");
            self.dropped.add(Finding::new(DamageKind::Orphan, detail).harmless());
        }
    }

    fn reach(&self, from: u32, reached: &mut BTreeSet<u32>) {
        let mut pending = vec![from];
        while let Some(number) = pending.pop() {
            if reached.insert(number) && self.inodes.get(&number).is_some_and(DraftInode::is_directory) {
                pending.extend(self.names_in(number).map(|(_, entry)| entry.inode));
            }
        }
    }

    /// Removes an inode with all that it has.
    fn remove(&mut self, number: u32) {
        self.inodes.remove(&number);
        let keys = Key::new(number, 0)..=Key::new(number, u32::MAX);
        let blocks: Vec<Key> = self.data.range(keys).map(|(key, _)| *key).collect();
        for key in &blocks {
            self.data.remove(key);
        }
        let of_inode = |slot: &(Key, Vec<u8>)| slot.0.inode == number;
        let first = (Key::new(number, 0), Vec::new());
        let names = self.names.range(first.clone()..).map(|(slot, _)| slot).take_while(|slot| of_inode(slot));
        for slot in names.cloned().collect::<Vec<_>>() {
            self.names.remove(&slot);
        }
        let xattrs = self.xattrs.range(first..).map(|(slot, _)| slot).take_while(|slot| of_inode(slot));
        for slot in xattrs.cloned().collect::<Vec<_>>() {
            let value = self.xattrs.remove(&slot).map(|entry| entry.inode);
            value.map(|value| self.inodes.remove(&value));
        }
    }

    /// Gives an inode a name in `lost+found`.
    fn attach(&mut self, number: u32, reached: &mut BTreeSet<u32>) {
        let Some(directory) = self.lost_and_found(reached) else {
            self.remove(number);
            let detail = format!("inode {number} has no name, and the encrypted root takes none");
            return self.drop(DamageKind::Orphan, number, detail);
        };
        let name = (0_u32..).map(|index| format!("INO_{number}_{index}").into_bytes());
        let name = name.take(1 << 16).find(|name| !self.names.contains_key(&self.slot(directory, name)));
        let name = name.unwrap_or_default();
        let detail = format!("inode {number} has no name: it is lost+found/{}", name.escape_ascii());
        self.mend(DamageKind::Orphan, number, detail);
        self.link(directory, &name, number);
        self.reach(number, reached);
    }

    fn slot(&self, directory: u32, name: &[u8]) -> (Key, Vec<u8>) {
        (Key::name(directory, name_hash(self.key_hash, name), false), name.to_vec())
    }

    fn link(&mut self, directory: u32, name: &[u8], inode: u32) {
        let kind = self.inodes.get(&inode).and_then(DraftInode::kind).unwrap_or(FileKind::Regular);
        let slot = self.slot(directory, name);
        self.names
            .insert(slot, DraftName { inode, file_type: type_of(kind), place: None, sequence: 0, is_found: false });
    }

    /// The directory for what has no name; made where there is none, beside a file of its name.
    /// `None` if the root's names are encrypted.
    fn lost_and_found(&mut self, reached: &mut BTreeSet<u32>) -> Option<u32> {
        if self.inodes.get(&ROOT).is_none_or(DraftInode::is_encrypted) {
            return None;
        }
        let names = (0_u32..1 << 16).map(|index| match index {
            0 => LOST_AND_FOUND.to_vec(),
            _ => [LOST_AND_FOUND, format!("_{index}").as_bytes()].concat(),
        });
        for name in names {
            let Some(entry) = self.names.get(&self.slot(ROOT, &name)) else {
                let number = self.highest.checked_add(1)?;
                self.highest = number;
                self.inodes.insert(number, DraftInode::directory(number));
                self.link(ROOT, &name, number);
                reached.insert(number);
                return Some(number);
            };
            if self.inodes.get(&entry.inode).is_some_and(|inode| inode.is_directory() && !inode.is_encrypted()) {
                return Some(entry.inode);
            }
        }
        None
    }

    /// Counts links, sizes of directories and attributes anew; files reach to the end of their
    /// data.
    fn recount(&mut self) {
        let (mut links, sizes): (BTreeMap<u32, u32>, _) = (BTreeMap::new(), self.sizes());
        for ((key, _), entry) in &self.names {
            *links.entry(entry.inode).or_default() += 1;
            if self.inodes.get(&entry.inode).is_some_and(DraftInode::is_directory) {
                *links.entry(key.inode).or_default() += 1;
            }
        }
        let mut attributes: BTreeMap<u32, (u32, u32, u32)> = BTreeMap::new();
        for ((key, name), entry) in &self.xattrs {
            let value = self.inodes.get(&entry.inode).map_or(0, |inode| inode.data.len());
            let counted = attributes.entry(key.inode).or_default();
            let bytes = (entry_bytes(name.len()) + value_bytes(value)) as u32;
            *counted = (counted.0 + 1, counted.1.saturating_add(bytes), counted.2 + name.len() as u32);
        }
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for (key, (_, end)) in &self.data {
            let reached = ends.entry(key.inode).or_default();
            *reached = (*end).max(*reached);
        }
        let counts = Counts { links, sizes, attributes, ends };
        let mut told = Vec::new();
        for (number, inode) in &mut self.inodes {
            counts.enter(*number, inode, &mut told);
        }
        for (number, what, old, new) in told {
            self.mend(DamageKind::Links, number, format!("inode {number}: {what} {old}; it is {new}"));
        }
    }
}

/// What the inodes of a volume count, by its names, attributes and data.
struct Counts {
    links: BTreeMap<u32, u32>,
    /// Sizes of directories.
    sizes: BTreeMap<u32, u64>,
    /// Number, bytes and bytes of the names of attributes.
    attributes: BTreeMap<u32, (u32, u32, u32)>,
    /// Ends of the data of files.
    ends: BTreeMap<u32, u64>,
}

impl Counts {
    /// Enters the counts in an inode; tells the number, what it is, and its old and new value.
    fn enter(&self, number: u32, inode: &mut DraftInode, told: &mut Vec<(u32, &'static str, u64, u64)>) {
        let (is_directory, is_xattr) = (inode.is_directory(), inode.is_xattr());
        let node = &mut inode.inode;
        let counted = self.links.get(&number).copied().unwrap_or(0);
        let links = match (is_directory, is_xattr) {
            (true, _) => 2 + counted - u32::from(number != ROOT && counted > 0),
            (_, true) => 1,
            _ => counted,
        };
        let (xattrs, bytes, name_bytes) = self.attributes.get(&number).copied().unwrap_or_default();
        let size = match is_directory {
            true => self.sizes.get(&number).copied().unwrap_or(INODE_SIZE),
            false => self.ends.get(&number).copied().unwrap_or(0).max(node.size.get()),
        };
        let mut see = |what: &'static str, old: u64, new: u64| {
            if old != new {
                told.push((number, what, old, new));
            }
        };
        see("links", node.links.get().into(), links.into());
        see("size", node.size.get(), size);
        see("attributes", node.xattrs.get().into(), xattrs.into());
        see("bytes of attributes", node.xattr_bytes.get().into(), bytes.into());
        see("bytes of names of attributes", node.xattr_name_bytes.get().into(), name_bytes.into());
        node.links.set(links);
        node.size.set(size);
        (node.xattrs, node.xattr_bytes) = (xattrs.into(), bytes.into());
        node.xattr_name_bytes.set(name_bytes);
    }
}
