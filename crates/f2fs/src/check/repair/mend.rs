//! Changes to nodes and directories that a repair makes during the walk. [`super::rebuild`] makes
//! the tables afterwards.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;
use nandkit_vfs::Result;
use nandkit_vfs::check::LISTED_MAX;
use zerocopy::{FromBytes, IntoBytes};

use crate::bits::lsb_first;
use crate::blocks::Blocks;
use crate::check::{Check, batch};
use crate::encode::directory::put_dots;
use crate::encode::put;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::slots_of;
use crate::layout::inode::{WORDS_OFFSET, advise, computed_checksum};
use crate::layout::xattr::index::VERITY;
use crate::layout::{DentryRoom, ExtraAttributes, Geometry, InodeHead, inode_shape, set_word};

/// A volume with some of its blocks changed.
pub(in crate::check) struct Overlay<'a> {
    pub inner: &'a dyn Blocks,
    pub blocks: BTreeMap<BlockAddress, Block>,
}

impl Blocks for Overlay<'_> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn reaches(&self, at: BlockAddress) -> bool {
        self.blocks.contains_key(&at) || self.inner.reaches(at)
    }

    /// Reads blocks; past the end of the devices it returns zeroes, since a repaired volume has its
    /// full length again. Changed blocks are not read from the devices, where they may be
    /// unreadable.
    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        let size = self.geometry().block_size();
        let blocks = (into.len() / size) as u32;
        let end = BlockAddress(at.0.saturating_add(blocks));
        let last = BlockAddress(end.0.saturating_sub(1).max(at.0));
        if self.blocks.range(at..end).count() < blocks as usize {
            if self.inner.reaches(last) && self.inner.reaches(at) {
                self.inner.read(cause, at, into)?;
            } else {
                for (number, block) in into.chunks_exact_mut(size).enumerate() {
                    match at.checked_add(number as u32).filter(|here| self.inner.reaches(*here)) {
                        Some(here) => self.inner.read(cause, here, block)?,
                        None => block.fill(0),
                    }
                }
            }
        }
        for (changed, block) in self.blocks.range(at..end) {
            put(into, (changed.0 - at.0) as usize * size, block);
        }
        Ok(())
    }
}

/// The changes of one pass.
#[derive(Debug, Default)]
pub(in crate::check) struct Mender {
    edits: BTreeMap<BlockAddress, Vec<u8>>,
    /// Changed blocks that are inodes and need a new checksum.
    inodes: BTreeSet<BlockAddress>,
    /// Inodes that nothing refers to.
    pub lost: Vec<NodeId>,
    /// Whether the root is new: its former entries get their names back.
    pub names: bool,
    /// Inodes that cannot be used, including those of earlier passes; no name refers to them any
    /// more.
    pub hopeless: BTreeSet<NodeId>,
    /// Lost inodes for which an earlier pass found no name; what is below them counts as lost
    /// itself.
    pub left_out: BTreeSet<NodeId>,
    /// Inodes of this pass for which no name was found.
    pub nameless: Vec<NodeId>,
    /// Inodes that were deleted but open when the checkpoint was written, ascending: those without
    /// links are dropped.
    pub deleted: Vec<NodeId>,
    /// The directory `lost+found` of the root, once its name was seen.
    pub home: Option<NodeId>,
    /// Directories without their first page: the directory, the inode's block, the byte offset of
    /// the page's address, and the parent.
    pub pageless: Vec<(NodeId, BlockAddress, usize, NodeId)>,
    /// Where the search for free blocks continues.
    pub next_free: Option<BlockAddress>,
    /// What the repair leaves out.
    pub dropped: Vec<Defect>,
    /// Pages of the root and of `home`.
    pub pages: BTreeMap<NodeId, Vec<(u32, BlockAddress)>>,
}

/// The location of a directory's entries: a block, and whether they are the inline part of an
/// inode.
#[derive(Clone, Copy, Debug)]
pub(in crate::check) struct AreaPlace {
    pub at: BlockAddress,
    pub inline: bool,
}

impl Mender {
    /// Starts a pass; the arguments are described at the fields of the same name.
    pub fn new(names: bool, deleted: &[NodeId], (hopeless, left_out): (BTreeSet<NodeId>, BTreeSet<NodeId>)) -> Self {
        Self { names, deleted: deleted.to_vec(), hopeless, left_out, ..Self::default() }
    }

    /// A block as changed by this pass, if it was.
    pub fn changed(&self, at: BlockAddress) -> Option<&[u8]> {
        self.edits.get(&at).map(Vec::as_slice)
    }

    pub fn is_idle(&self) -> bool {
        self.edits.is_empty()
    }

    /// The changed blocks, with the checksums of inodes updated.
    pub fn into_blocks(self, geometry: &Geometry, seed: u32) -> impl Iterator<Item = (BlockAddress, Block)> {
        let (inodes, features) = (self.inodes, geometry.features);
        self.edits.into_iter().map(move |(at, mut block)| {
            let has_checksum = ExtraAttributes::of_block(&block).and_then(|extra| extra.checksum(features)).is_some();
            if inodes.contains(&at)
                && has_checksum
                && let Some(checksum) = computed_checksum(seed, &block)
            {
                set_word(&mut block, WORDS_OFFSET + 8, checksum);
            }
            (at, block.into())
        })
    }
}

impl Check<'_> {
    /// Reports a part of an inode that the repair leaves out.
    pub fn drop_of(&mut self, nid: NodeId, detail: impl FnOnce() -> String) {
        if let Some(mender) = &mut self.mender
            && (mender.dropped.len() as u64) < LISTED_MAX
        {
            mender.dropped.push(Defect::new(FindingKind::Address, detail()).of(nid));
        }
    }

    /// Changes a block; does nothing in a plain check.
    pub fn mend(&mut self, at: BlockAddress, change: impl FnOnce(&mut [u8])) {
        let Some(mender) = &mut self.mender else { return };
        match mender.edits.entry(at) {
            Entry::Occupied(mut block) => change(block.get_mut()),
            Entry::Vacant(free) => {
                let Ok(block) = batch::one(self.blocks, Cause::Metadata, at) else { return };
                change(free.insert(block.to_vec()));
            }
        }
    }

    /// Sets the content of a formerly unused block without reading it: the block may be free
    /// because it is unreadable.
    pub fn mend_anew(&mut self, at: BlockAddress, block: Vec<u8>) {
        if let Some(mender) = &mut self.mender {
            mender.edits.insert(at, block);
        }
    }

    /// Changes an inode and marks its checksum for update.
    pub fn mend_inode(&mut self, at: BlockAddress, change: impl FnOnce(&mut [u8])) {
        if let Some(mender) = &mut self.mender {
            mender.inodes.insert(at);
        }
        self.mend(at, change);
    }

    /// Changes the fixed part of an inode.
    pub fn mend_head(&mut self, at: BlockAddress, change: impl FnOnce(&mut InodeHead)) {
        self.mend_inode(at, |block| {
            if let Ok((mut head, _)) = InodeHead::read_from_prefix(block) {
                change(&mut head);
                put(block, 0, head.as_bytes());
            }
        });
    }

    /// Writes a word into a node: a nid or an address.
    pub fn mend_word(&mut self, at: BlockAddress, byte: usize, is_inode: bool, value: u32) {
        let change = |block: &mut [u8]| _ = set_word(block, byte, value);
        if is_inode { self.mend_inode(at, change) } else { self.mend(at, change) }
    }

    /// Changes a directory's entries.
    pub fn mend_area(&mut self, place: AreaPlace, change: impl FnOnce(&mut [u8])) {
        if !place.inline {
            return self.mend(place.at, change);
        }
        let geometry = self.geometry;
        self.mend_inode(place.at, |block| {
            if let Ok(shape) = inode_shape(geometry, geometry.features, block)
                && let Some(area) = block.get_mut(shape.inline)
            {
                change(area);
            }
        });
    }

    /// Removes an entry: clears the bits of its slots; for an entry without a name, that of its
    /// first slot.
    pub fn mend_remove(&mut self, place: AreaPlace, slot: usize, name_length: usize) {
        self.mend_area(place, |area| {
            let room = DentryRoom::of(area.len());
            if let Some(bitmap) = area.get_mut(..room.bitmap) {
                let end = (slot + slots_of(name_length).max(1)).min(room.slots);
                (slot..end).for_each(|slot| lsb_first::set(bitmap, slot, false));
            }
        });
    }

    /// Removes the entry of an inode's first name.
    pub fn mend_nameless(&mut self, nid: NodeId) {
        let known = self.inodes.get(nid);
        if known.names == 0 {
            return;
        }
        self.mender.iter_mut().for_each(|mender| _ = mender.hopeless.insert(nid));
        self.drop_of(nid, || "the inode, which cannot be decoded".into());
        let place = AreaPlace {
            at: BlockAddress(known.name_block),
            inline: known.has(crate::check::inodes::state::NAME_INLINE),
        };
        self.mend_remove(place, known.name_slot.into(), usize::from(known.name_length));
    }

    /// Repairs a field of an entry.
    pub fn mend_entry(&mut self, place: AreaPlace, slot: usize, byte: usize, value: &[u8]) {
        self.mend_area(place, |area| put(area, DentryRoom::of(area.len()).entries + slot * 11 + byte, value));
    }

    /// Puts `.` and `..` into their slots, replacing what is there.
    pub fn mend_dots(&mut self, place: AreaPlace, nid: NodeId, parent: NodeId) {
        self.mend_area(place, |area| put_dots(area, nid, parent));
    }

    /// Clears the encryption or verity flags that lack their attributes (`without`: the missing
    /// kinds). Content cannot be read with the flag alone, and inline content is never encrypted or
    /// sealed.
    pub fn mend_marks(&mut self, inode: &Inode, without: &[u8]) {
        let Some(at) = self.nat.entry(inode.nid).map(|entry| BlockAddress(entry.address.get())) else { return };
        self.drop_of(inode.nid, || "the flag of encryption or verity, whose attribute is missing".into());
        let bits = without.iter().fold(0, |bits, index| {
            bits | if *index == VERITY { advise::VERITY } else { advise::ENCRYPTED | advise::ENCRYPTED_NAME }
        });
        self.mend_head(at, |head| head.advise &= !bits);
    }

    /// Removes all attributes of an inode, since damaged ones cannot be told from sound ones. Keeps
    /// those of encrypted and verity inodes, whose content depends on them.
    pub fn mend_xattrs(&mut self, inode: &Inode) {
        let Some(at) = self.nat.entry(inode.nid).map(|entry| BlockAddress(entry.address.get())) else { return };
        if inode.is_encrypted() || inode.head.has_advise(advise::VERITY) {
            return;
        }
        self.drop_of(inode.nid, || "its extended attributes".into());
        let words = inode.shape.xattrs.clone();
        self.mend_inode(at, |block| {
            if let Some(words) = block.get_mut(words) {
                words.fill(0);
            }
        });
        self.mend_head(at, |head| head.xattr_nid = 0.into());
    }
}
