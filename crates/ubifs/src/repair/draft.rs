//! The nodes that count, read and sorted by what they are; those that Linux would refuse are left
//! out.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_vfs::check::{Finding, Findings};
use nandkit_vfs::{FileKind, InodeNumber, Result};
use zerocopy::FromZeros;

use super::choose::{Leaf, Leaves, Lost};
use crate::damage::{self, DamageKind};
use crate::encode::{INODE_SIZE, raw};
use crate::files::is_name;
use crate::layout::{
    BLOCK_SIZE, Data, Dentry, INLINE_MAX, INODE_ENCRYPTED, INODE_XATTR, Inode, Key, KeyType, NAME_MAX, ROOT, name_hash,
    node_type,
};
use crate::lebs::Lebs;
use crate::node::{self, Node, Place};
use crate::read::unpack;
use crate::write::InodeAndData;

/// An inode of the new volume.
#[derive(Clone, Debug)]
pub(super) struct DraftInode {
    pub inode: Inode,
    pub data: Vec<u8>,
    /// Its sequence number in the old volume.
    pub sequence: u64,
    /// Whether only the scan found it.
    pub is_found: bool,
}

impl DraftInode {
    /// Its kind.
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::of_mode(self.inode.mode.get())
    }

    pub fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory) && !self.is_xattr()
    }

    /// Whether it holds the value of an attribute.
    pub fn is_xattr(&self) -> bool {
        self.inode.flags.get() & INODE_XATTR != 0
    }

    pub fn is_encrypted(&self) -> bool {
        self.inode.flags.get() & INODE_ENCRYPTED != 0
    }

    /// An empty directory.
    pub fn directory(number: u32) -> Self {
        let mut inode = Inode::new_zeroed();
        inode.key = raw(Key::inode(number));
        inode.mode.set(FileKind::Directory.mode() | 0o755);
        inode.size.set(INODE_SIZE);
        inode.links.set(2);
        Self { inode, data: Vec::new(), sequence: 0, is_found: false }
    }
}

/// A name, or the entry of an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct DraftName {
    pub inode: u32,
    pub file_type: u8,
    /// Where its node stands; `None` if it is made anew.
    pub place: Option<Place>,
    pub sequence: u64,
    /// Whether only the scan found it.
    pub is_found: bool,
}

/// The new volume.
pub(super) struct Draft {
    pub key_hash: u8,
    pub inodes: BTreeMap<u32, DraftInode>,
    /// Blocks of files, and where each ends in its file, in bytes.
    pub data: BTreeMap<Key, (Leaf, u64)>,
    pub names: BTreeMap<(Key, Vec<u8>), DraftName>,
    pub xattrs: BTreeMap<(Key, Vec<u8>), DraftName>,
    /// Inodes that lost a name and are to get another one.
    pub unnamed: BTreeSet<u32>,
    /// The highest number of an inode.
    pub highest: u32,
    /// What was put right.
    pub mended: Findings,
    /// What is left out.
    pub dropped: Findings,
}

impl Draft {
    /// Reads the leaves; `pending` are inodes as a recovery has them. Errors: `Device`.
    pub fn read(
        lebs: &dyn Lebs,
        leaves: &Leaves,
        pending: &BTreeMap<u32, InodeAndData>,
        (key_hash, highest): (u8, u32),
        dropped: Findings,
    ) -> Result<Self> {
        let mut draft = Self {
            key_hash,
            inodes: BTreeMap::new(),
            data: BTreeMap::new(),
            names: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            highest,
            mended: Findings::default(),
            dropped,
        };
        // An inode comes in front of all that it owns.
        for ((key, name), leaf) in leaves {
            let Some(key_type) = key.key_type() else { continue };
            let node = node::read(lebs, leaf.place, type_of(key_type))?;
            let taken = match key_type {
                KeyType::Inode => draft.take_inode(key.inode, &node, leaf, pending.get(&key.inode)),
                KeyType::Data => draft.take_data(*key, &node, *leaf),
                KeyType::Dentry | KeyType::Xentry => draft.take_name(*key, name, &node, *leaf),
            };
            if let Err(why) = taken {
                let finding = damage::at(DamageKind::Leaf, lebs, leaf.place, &format!("{key}: {why}"));
                draft.dropped.add(finding.of(InodeNumber(key.inode.into())));
            }
        }
        Ok(draft)
    }

    fn take_inode(
        &mut self,
        number: u32,
        node: &Node,
        leaf: &Leaf,
        pending: Option<&InodeAndData>,
    ) -> std::result::Result<(), &'static str> {
        let (mut inode, rest) = node.body::<Inode>().ok_or("its node is too short")?;
        let kind = FileKind::of_mode(inode.mode.get());
        let is_xattr = inode.flags.get() & INODE_XATTR != 0;
        let has_none = matches!(kind, Some(FileKind::Regular | FileKind::Directory)) && !is_xattr;
        if has_none && inode.data_size.get() > 0 {
            inode.data_size.set(0);
            self.mend(DamageKind::Leaf, number, format!("inode {number}: data in its node, which its kind has not"));
        }
        let size = inode.data_size.get() as usize;
        let data = rest.get(..size).filter(|_| size <= INLINE_MAX).ok_or("its data are not in its node")?.to_vec();
        let (inode, data) = pending.cloned().unwrap_or((inode, data));
        let inode = DraftInode { inode, data, sequence: leaf.sequence, is_found: leaf.is_found };
        wrong_with(&inode).map_or(Ok(()), Err)?;
        self.highest = self.highest.max(number);
        self.inodes.insert(number, inode);
        Ok(())
    }

    fn take_data(&mut self, key: Key, node: &Node, leaf: Leaf) -> std::result::Result<(), &'static str> {
        let (data, packed) = node.body::<Data>().ok_or("its node is too short")?;
        let owner = self.inodes.get(&key.inode);
        if owner.is_some_and(|owner| owner.kind() != Some(FileKind::Regular) || owner.is_xattr()) {
            return Err("data of an inode that is no regular file");
        }
        let is_encrypted = owner.is_some_and(DraftInode::is_encrypted);
        if !is_encrypted && unpack(&data, packed, &mut [0; BLOCK_SIZE as usize]).is_err() {
            return Err("its data cannot be decompressed");
        }
        let end = u64::from(key.low()) * u64::from(BLOCK_SIZE) + u64::from(data.size.get());
        self.data.insert(key, (leaf, end));
        Ok(())
    }

    fn take_name(&mut self, key: Key, name: &[u8], node: &Node, leaf: Leaf) -> std::result::Result<(), &'static str> {
        let (entry, _) = node.body::<Dentry>().ok_or("its node is too short")?;
        let is_xattr = key.key_type() == Some(KeyType::Xentry);
        let is_encrypted = self.inodes.get(&key.inode).is_some_and(DraftInode::is_encrypted);
        let is_good = (1..=NAME_MAX).contains(&name.len()) && (is_xattr || is_encrypted || is_name(name));
        if !is_good {
            return Err("a name that no file can have");
        }
        if key != Key::name(key.inode, name_hash(self.key_hash, name), is_xattr) {
            return Err("its hash is not that of its name");
        }
        let inode = u32::try_from(entry.inode.get()).map_err(|_| "its inode has a number that is too large")?;
        let found = DraftName {
            inode,
            file_type: entry.file_type,
            place: Some(leaf.place),
            sequence: leaf.sequence,
            is_found: leaf.is_found,
        };
        let names = if is_xattr { &mut self.xattrs } else { &mut self.names };
        names.insert((key, name.to_vec()), found);
        Ok(())
    }

    /// Tells what is put right about an inode.
    pub fn mend(&mut self, kind: DamageKind, inode: u32, detail: String) {
        self.mended.add(Finding::new(kind, detail).of(InodeNumber(inode.into())));
    }

    /// Tells what of an inode is left out.
    pub fn drop(&mut self, kind: DamageKind, inode: u32, detail: String) {
        self.dropped.add(Finding::new(kind, detail).of(InodeNumber(inode.into())));
    }

    /// Tells the files of which blocks may be missing: the index did not tell what they have.
    pub fn tell_gaps(&mut self, lost: &Lost) {
        let mut told = Vec::new();
        for (number, inode) in &self.inodes {
            let blocks = inode.inode.size.get().div_ceil(BLOCK_SIZE.into());
            let is_file = inode.kind() == Some(FileKind::Regular) && !inode.is_xattr();
            let Some((first, last)) = Key::data(*number, 0).zip(Key::data(*number, (1 << 29) - 1)) else { continue };
            if is_file && lost.meets(first, last) {
                let there = self.data.range(first..=last).count() as u64;
                told.extend((there < blocks).then_some((*number, blocks - there, blocks)));
            }
        }
        for (number, missing, blocks) in told {
            let detail = format!("{missing} of {blocks} blocks of inode {number} are not there: holes, or lost");
            let finding = Finding::new(DamageKind::Leaf, detail).of(InodeNumber(number.into()));
            self.dropped.add(finding.harmless());
        }
    }

    /// The names in a directory.
    pub fn names_in(&self, directory: u32) -> impl Iterator<Item = (&(Key, Vec<u8>), &DraftName)> {
        let first = (Key::name(directory, 0, false), Vec::new());
        self.names.range(first..).take_while(move |((key, _), _)| key.inode == directory)
    }

    /// What is left out, with the paths of the files that it belonged to.
    pub fn dropped_with_paths(&self) -> Vec<Finding> {
        let mut names: BTreeMap<u32, Vec<&(Key, Vec<u8>)>> = BTreeMap::new();
        self.names.iter().for_each(|(slot, entry)| names.entry(entry.inode).or_default().push(slot));
        let with_paths = |finding: Finding| {
            let inode = finding.inode.and_then(|inode| u32::try_from(inode.0).ok());
            let slots = inode.and_then(|inode| names.get(&inode)).map(Vec::as_slice).unwrap_or_default();
            let paths = slots.iter().take(PATHS_MAX).filter_map(|slot| path(&names, slot));
            paths.fold(finding, |finding, path| finding.in_file(&path))
        };
        self.dropped.clone().into_list().into_iter().map(with_paths).collect()
    }
}

/// Most paths that are shown of an inode.
const PATHS_MAX: usize = 8;

/// Most names of a path that are shown.
const DEPTH_MAX: usize = 64;

/// The path of a name, by the names of inodes; `None` if it is too deep.
fn path(names: &BTreeMap<u32, Vec<&(Key, Vec<u8>)>>, (key, name): &(Key, Vec<u8>)) -> Option<Vec<u8>> {
    let (mut path, mut directory) = (name.clone(), key.inode);
    for _ in 0..DEPTH_MAX {
        if directory == ROOT {
            return Some(path);
        }
        let (key, name) = names.get(&directory)?.first()?;
        path = [name.as_slice(), b"/", path.as_slice()].concat();
        directory = key.inode;
    }
    None
}

/// The node type of a key's leaves.
const fn type_of(key_type: KeyType) -> u8 {
    match key_type {
        KeyType::Inode => node_type::INODE,
        KeyType::Data => node_type::DATA,
        KeyType::Dentry => node_type::DENTRY,
        KeyType::Xentry => node_type::XENTRY,
    }
}

/// Why Linux would refuse an inode (`fs/ubifs/super.c`, `validate_inode` and `ubifs_iget`).
fn wrong_with(inode: &DraftInode) -> Option<&'static str> {
    let Some(kind) = inode.kind() else { return Some("its mode is of no kind") };
    let length = inode.data.len();
    if inode.is_xattr() {
        let is_right = kind == FileKind::Regular && inode.inode.size.get() == length as u64;
        return (!is_right).then_some("the value of an attribute that is no file of its length");
    }
    let is_right = match kind {
        FileKind::Symlink => length > 0 && length as u64 == inode.inode.size.get(),
        FileKind::BlockDevice | FileKind::CharacterDevice => length == 4 || length == 8,
        _ => length == 0,
    };
    let code = inode.inode.compression.get();
    match (is_right, code) {
        (false, _) => Some("its inline data are not those of its kind"),
        (true, 4..) => Some("a compression that is not known"),
        _ => None,
    }
}
