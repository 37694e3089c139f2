//! Inodes, names and data by their keys.

use nandkit_codec::compression::{Compression, decompress, inflate_raw};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::{
    BLOCK_SIZE, Data, Dentry, INLINE_MAX, INODE_ENCRYPTED, Inode, Key, NAME_MAX, compression, name_hash, node_type,
};
use crate::mount::Ubifs;
use crate::node::{self, Place};

/// A directory entry, or an entry of an extended attribute.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: Vec<u8>,
    pub inode: u32,
    pub file_type: u8,
}

fn corrupt(detail: String) -> FsError {
    FsError::new(ErrorKind::Corrupt, detail)
}

/// Refuses a node of another key than that by which the index leads to it.
fn verify_key(found: Key, expected: Key) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(corrupt(format!("the index has it as {expected}, the node is {found}")))
}

impl Ubifs {
    /// An inode and its inline data. Errors: `NotFound`, `Corrupt`, `Device`.
    pub(crate) fn inode(&self, number: u32) -> Result<(Inode, Vec<u8>)> {
        if let Some(pending) = self.pending.get(&number) {
            return Ok(pending.clone());
        }
        let Some(place) = self.tree.first(Key::inode(number)) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no inode {number}")));
        };
        self.inode_at(number, place)
    }

    /// The inode at a place.
    pub(crate) fn inode_at(&self, number: u32, place: Place) -> Result<(Inode, Vec<u8>)> {
        let node = node::read(&self.lebs, place, node_type::INODE)?;
        let short = || corrupt(format!("inode {number}: its node is too short"));
        let (inode, rest) = node.body::<Inode>().ok_or_else(short)?;
        verify_key(inode.key.key(), Key::inode(number))?;
        let size = inode.data_size.get() as usize;
        let data = rest.get(..size).filter(|_| size <= INLINE_MAX).ok_or_else(short)?.to_vec();
        Ok((inode, data))
    }

    /// The entry at a place. Errors: `Corrupt`, `Device`.
    pub(crate) fn entry(&self, key: Key, place: Place, is_xattr: bool) -> Result<Entry> {
        let wanted = if is_xattr { node_type::XENTRY } else { node_type::DENTRY };
        let node = node::read(&self.lebs, place, wanted)?;
        let wrong = || corrupt(format!("an entry of inode {}: its name is not in its node", key.inode));
        let (dentry, rest) = node.body::<Dentry>().ok_or_else(wrong)?;
        verify_key(dentry.key.key(), key)?;
        let size = usize::from(dentry.name_size.get());
        let name = rest.get(..size).filter(|_| (1..=NAME_MAX).contains(&size)).ok_or_else(wrong)?.to_vec();
        let inode = u32::try_from(dentry.inode.get()).map_err(|_| wrong())?;
        Ok(Entry { name, inode, file_type: dentry.file_type })
    }

    /// The entry of this name; `None` if there is none. Errors: `Corrupt`, `Device`.
    pub(crate) fn entry_named(&self, parent: u32, name: &[u8], is_xattr: bool) -> Result<Option<Entry>> {
        let key = Key::name(parent, name_hash(self.superblock.key_hash, name), is_xattr);
        for (key, place) in self.tree.range(key..=key) {
            let entry = self.entry(key, place, is_xattr)?;
            if entry.name == name {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Refuses an inode whose content is encrypted.
    pub(crate) fn refuse_encrypted(&self, number: u32, inode: &Inode) -> Result<()> {
        if inode.flags.get() & INODE_ENCRYPTED == 0 {
            return Ok(());
        }
        let detail = format!("inode {number} is encrypted, and its key is not here");
        Err(FsError::new(ErrorKind::NotSupported, detail))
    }

    /// The data node at a place, and what follows it. Errors: `Corrupt`, `Device`.
    pub(crate) fn data_at(&self, key: Key, place: Place) -> Result<(Data, Vec<u8>)> {
        let node = node::read(&self.lebs, place, node_type::DATA)?;
        let short = || corrupt(format!("block {} of inode {}: its node is too short", key.low(), key.inode));
        let (data, packed) = node.body::<Data>().ok_or_else(short)?;
        verify_key(data.key.key(), key)?;
        Ok((data, packed.to_vec()))
    }

    /// Reads a block of a file; a hole reads as zeroes. Errors: `Corrupt`, `Device`.
    pub(crate) fn block(&self, inode: u32, block: u64, into: &mut [u8; BLOCK_SIZE as usize]) -> Result<()> {
        if let Some(page) = self.pages.get(inode, block) {
            *into = *page;
            return Ok(());
        }
        into.fill(0);
        let Some(key) = Key::data(inode, block) else { return Ok(()) };
        let Some(place) = self.tree.first(key) else { return Ok(()) };
        let (data, packed) = self.data_at(key, place)?;
        unpack(&data, &packed, into).map_err(|what| corrupt(format!("block {block} of inode {inode}: {what}")))
    }
}

/// Decompresses the data of a node; what is wrong with them else.
pub(crate) fn unpack(
    data: &Data,
    packed: &[u8],
    into: &mut [u8; BLOCK_SIZE as usize],
) -> std::result::Result<(), String> {
    let size = data.size.get() as usize;
    let Some(out) = into.get_mut(..size).filter(|_| size > 0) else {
        return Err(format!("{size} bytes; expected 1 to {BLOCK_SIZE}"));
    };
    let is_right = match data.compression.get() {
        compression::NONE => decompress(Compression::None, packed.get(..size).unwrap_or(packed), out).is_ok(),
        compression::LZO => decompress(Compression::Lzo, packed, out).is_ok(),
        compression::ZLIB => inflate_raw(packed, out),
        compression::ZSTD => decompress(Compression::Zstd, packed, out).is_ok(),
        other => return Err(format!("compression {other}; known are 0 to 3")),
    };
    is_right.then_some(()).ok_or_else(|| "its data cannot be decompressed".to_owned())
}
