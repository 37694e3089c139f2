//! Gives lost inodes a name: their number, in `lost+found`, or in the root if there is no such
//! directory. In a new root (`root`) they get the names that they record themselves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;
use nandkit_vfs::{FileKind, Result};

use super::mend::AreaPlace;
use crate::blocks::Blocks;
use crate::check::{Check, batch};
use crate::directory::{DirectoryPages, casefold, find_hashed, find_in, hash, place};
use crate::encode::directory::{put_dots, put_entry};
use crate::ids::{Block, BlockAddress, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::{kind_of, slots_of, type_of};
use crate::layout::inode::advise;
use crate::layout::{DentryArea, InodeHead, inode_shape};

/// The pages of a directory: their locations, and the content of new ones.
struct Pages<'a> {
    blocks: &'a dyn Blocks,
    places: BTreeMap<u32, BlockAddress>,
    changed: RefCell<BTreeMap<u32, Vec<u8>>>,
}

impl DirectoryPages for Pages<'_> {
    fn page(&self, page: u32) -> Result<Option<Block>> {
        if let Some(bytes) = self.changed.borrow().get(&page) {
            return Ok(Some(bytes.as_slice().into()));
        }
        self.places.get(&page).map(|at| batch::one(self.blocks, Cause::Metadata, *at)).transpose()
    }
}

/// A directory counts as full after this many lost inodes in a row found no place.
const WITHOUT_PLACE_MAX: u32 = 1000;

/// Candidate names for an inode: its number, then the number with a second number appended.
fn numbers(nid: NodeId) -> impl Iterator<Item = Vec<u8>> {
    let others = (1..100).map(move |other| format!("{}.{other}", nid.0).into_bytes());
    std::iter::once(nid.0.to_string().into_bytes()).chain(others)
}

impl Check<'_> {
    /// Names lost inodes as far as there is room. Returns the inodes that got a name.
    pub fn attach_lost(&mut self) -> Vec<NodeId> {
        let Some(mender) = &mut self.mender else { return Vec::new() };
        let lost = std::mem::take(&mut mender.lost);
        if lost.is_empty() {
            return Vec::new();
        }
        let home = mender.home.filter(|home| mender.pages.contains_key(home));
        let lost = self.without_those_below_others(lost);
        let mut attached = home.map_or_else(Vec::new, |home| self.attach_in(home, &lost));
        // Inodes for which this directory has no room go into the root.
        let rest: Vec<NodeId> = lost.into_iter().filter(|nid| attached.binary_search(nid).is_err()).collect();
        if !rest.is_empty() {
            let in_root = self.attach_in(NodeId::ROOT, &rest);
            let nameless = rest.into_iter().filter(|nid| in_root.binary_search(nid).is_err());
            // A dropped directory would take everything below it along.
            let nameless = nameless.filter(|nid| self.inodes.get(*nid).inode_type == type_of(FileKind::Directory));
            let nameless: Vec<NodeId> = nameless.collect();
            self.mender.iter_mut().for_each(|mender| mender.nameless.extend_from_slice(&nameless));
            attached.extend(in_root);
        }
        attached
    }

    /// Filters out inodes below another lost inode: they keep their names there. Of a cycle of
    /// directories the first remains.
    fn without_those_below_others(&self, lost: Vec<NodeId>) -> Vec<NodeId> {
        let (mut tops, mut below) = (BTreeSet::new(), BTreeSet::new());
        let all: BTreeSet<NodeId> = lost.iter().copied().collect();
        for nid in &lost {
            let (mut at, mut way) = (*nid, BTreeSet::new());
            while self.inodes.get(at).names > 0 && !tops.contains(&at) && !below.contains(&at) && way.insert(at) {
                at = NodeId(self.inodes.get(at).parent);
            }
            // It has no name, or the path up leads back to it.
            if at == *nid && !below.contains(nid) {
                tops.insert(*nid);
                continue;
            }
            let mut known = *nid;
            while known != at && below.insert(known) {
                known = NodeId(self.inodes.get(known).parent);
            }
            // The path leads into a cycle that was not handled yet; the cycle itself will be
            // handled once.
            if way.contains(&at) && at != *nid {
                let mut ring = BTreeSet::from([at]);
                let mut next = NodeId(self.inodes.get(at).parent);
                while ring.insert(next) {
                    next = NodeId(self.inodes.get(next).parent);
                }
                let first = ring.iter().find(|member| all.contains(member)).copied();
                below.extend(ring.into_iter().filter(|member| Some(*member) != first));
                tops.extend(first);
            }
        }
        lost.into_iter().filter(|nid| tops.contains(nid)).collect()
    }

    /// Names inodes in one directory as far as there is room; returns those that got a name,
    /// ascending.
    fn attach_in(&mut self, home: NodeId, lost: &[NodeId]) -> Vec<NodeId> {
        let Some(mender) = &self.mender else { return Vec::new() };
        let names = mender.names;
        let places = mender.pages.get(&home).cloned().unwrap_or_default().into_iter().collect();
        let mut lost = lost.to_vec();
        if names {
            // First those whose recorded names are certainly current.
            lost.sort_by_cached_key(|nid| self.knows_an_older_name(*nid));
        }
        let Some(entry) = self.nat.entry(home) else { return Vec::new() };
        let at = BlockAddress(entry.address.get());
        let block = batch::one(self.blocks, Cause::Metadata, at);
        let inode = block.ok().and_then(|block| Inode::decode(self.geometry, home, block, &mut |_| {}));
        let mut attached = match inode {
            // Names in an encrypted directory need its key; an inline directory may have little
            // room.
            Some(inode) if !inode.is_encrypted() && inode.inline_entries().is_some() => {
                lost.iter().copied().filter(|nid| self.attach_inline(at, *nid)).collect()
            }
            Some(inode) if !inode.is_encrypted() => self.attach_in_pages(&inode, at, places, &lost),
            _ => Vec::new(),
        };
        attached.sort_unstable();
        attached
    }

    fn attach_inline(&mut self, at: BlockAddress, nid: NodeId) -> bool {
        let Some(kind) = kind_of(self.inodes.get(nid).inode_type) else { return false };
        let changed = self.mender.as_ref().and_then(|mender| mender.changed(at)).map(<[u8]>::to_vec);
        let block = changed.or_else(|| batch::one(self.blocks, Cause::Metadata, at).ok().map(|block| block.to_vec()));
        let Some(block) = block else { return false };
        let shape = inode_shape(self.geometry, self.geometry.features, &block).ok();
        let Some(area) = shape.and_then(|shape| block.get(shape.inline)).map(DentryArea::new) else { return false };
        let is_free = |name: &[u8]| find_in(area, 0, hash(name), &|found| found == name).is_none();
        let Some(name) = numbers(nid).find(|name| is_free(name)) else { return false };
        let Some(slot) = area.free_run(slots_of(name.len())) else { return false };
        self.mend_area(AreaPlace { at, inline: true }, |area| put_entry(area, slot, hash(&name), &name, nid, kind));
        true
    }

    fn attach_in_pages(
        &mut self,
        home: &Inode,
        at: BlockAddress,
        places: BTreeMap<u32, BlockAddress>,
        lost: &[NodeId],
    ) -> Vec<NodeId> {
        let size = self.geometry.block_size();
        let mut pages = Pages { blocks: self.blocks, places, changed: RefCell::default() };
        let mut attached = Vec::new();
        let mut depth = home.head.depth.get();
        let mut taken = BTreeSet::new();
        let folded = home.is_casefolded();
        let same = |one: &[u8], other: &[u8]| one == other || folded && casefold::key(one) == casefold::key(other);
        let hash_of = |name: &[u8]| if folded { hash(&casefold::key(name)) } else { hash(name) };
        // Give up after this many in a row without a place: each one tried a hundred names.
        let mut without_place = 0;
        for nid in lost {
            let is_free = |name: &[u8]| {
                let is_it = |found: &[u8]| same(found, name);
                let found = find_hashed(&pages, hash_of(name), &is_it, depth, home.head.directory_level);
                found.is_ok_and(|found| found.is_none())
            };
            if without_place == WITHOUT_PLACE_MAX {
                break;
            }
            let Some(kind) = kind_of(self.inodes.get(*nid).inode_type) else { continue };
            let room = u32::from(home.shape.count);
            // A name's hash may lead to a page beyond the inode's addresses; try other names.
            let place_of = |name: &[u8]| {
                let slots = slots_of(name.len()) as u8;
                let found = place(&pages, hash_of(name), slots, depth, home.head.directory_level).ok()?;
                (found.page < room || pages.places.contains_key(&found.page)).then_some(found)
            };
            let wanted = self.name_for(*nid, &mut taken).into_iter().chain(numbers(*nid));
            let named =
                { wanted }.find_map(|name| place_of(&name).filter(|_| is_free(&name)).map(|found| (name, found)));
            let Some((name, found)) = named else {
                without_place += 1;
                continue;
            };
            without_place = 0;
            let hash = hash_of(&name);
            let mut bytes = match pages.page(found.page) {
                Ok(Some(block)) => block.to_vec(),
                Ok(None) => {
                    // Without a free segment the logs have no place either, and the repair fails.
                    let Some(new) = self.free_block() else { continue };
                    let byte = home.shape.addresses.start + found.page as usize * 4;
                    self.mend_word(at, byte, true, new.0);
                    pages.places.insert(found.page, new);
                    vec![0; size]
                }
                Err(_) => continue,
            };
            put_entry(&mut bytes, found.slot.into(), hash, &name, *nid, kind);
            pages.changed.get_mut().insert(found.page, bytes);
            depth = depth.max(found.depth);
            attached.push(*nid);
            if taken.contains(&name) && self.knows_an_older_name(*nid) {
                self.drop_of(*nid, || "its name: the new one is the recorded one, and may be an older one".into());
            }
        }
        if attached.is_empty() {
            return attached;
        }
        let Pages { places, changed, .. } = pages;
        let end = places.last_key_value().map_or(0, |(page, _)| u64::from(*page) + 1) * size as u64;
        for (page, bytes) in changed.into_inner() {
            if let Some(place) = places.get(&page) {
                self.mend_anew(*place, bytes);
            }
        }
        self.mend_head(at, |head| {
            head.depth = depth.into();
            head.size = head.size.get().max(end).into();
        });
        attached
    }

    fn head_of(&self, nid: NodeId) -> Option<InodeHead> {
        let entry = self.nat.entry(nid)?;
        InodeHead::of_block(&batch::one(self.blocks, Cause::Metadata, BlockAddress(entry.address.get())).ok()?)
    }

    /// Whether an inode may have been renamed over another, exchanged or linked: then its recorded
    /// name may be outdated (f2fs.md, "What is easy to get wrong"). Directories have no flag for
    /// it.
    fn knows_an_older_name(&self, nid: NodeId) -> bool {
        let is_directory = self.inodes.get(nid).inode_type == type_of(FileKind::Directory);
        is_directory || self.head_of(nid).is_some_and(|head| head.has_advise(advise::LOST_PARENT))
    }

    /// The name that a lost inode records itself, if it was in the root and the root is new.
    fn name_for(&self, nid: NodeId, taken: &mut BTreeSet<Vec<u8>>) -> Option<Vec<u8>> {
        if !self.mender.as_ref().is_some_and(|mender| mender.names) {
            return None;
        }
        let head = self.head_of(nid).filter(|head| head.parent.get() == NodeId::ROOT.0);
        let readable = head.as_ref().filter(|head| !head.has_advise(advise::ENCRYPTED_NAME));
        let own = readable.and_then(InodeHead::name).filter(|name| {
            let is_name = !name.is_empty() && !name.iter().any(|byte| [0, b'/'].contains(byte));
            // A number could be the new name of another inode.
            is_name && ![&b"."[..], b".."].contains(name) && !name.iter().all(u8::is_ascii_digit)
        });
        own.filter(|own| taken.insert(own.to_vec())).map(<[u8]>::to_vec)
    }

    /// Gives directories a new first page, as far as there is room. If there is none, they keep
    /// their other pages, which are worth more than a clean check. Runs after a whole walk.
    pub fn give_first_pages(&mut self) {
        let pageless = self.mender.as_ref().map(|mender| mender.pageless.clone()).unwrap_or_default();
        for (nid, at, byte, parent) in pageless {
            let Some(page) = self.free_block() else { break };
            self.drop_of(nid, || "the first page of the directory".into());
            self.mend_word(at, byte, true, page.0);
            let mut block = vec![0; self.geometry.block_size()];
            put_dots(&mut block, nid, parent);
            self.mend_anew(page, block);
        }
    }

    /// An unclaimed block in a segment without claimed blocks.
    pub(super) fn free_block(&mut self) -> Option<BlockAddress> {
        let mender = self.mender.as_mut()?;
        let next = match mender.next_free {
            Some(next) if !(next.0 - self.geometry.main_address().0).is_multiple_of(512) => next,
            _ => self.segments.free_segment(self.geometry, self.state, mender.next_free)?,
        };
        mender.next_free = next.checked_add(1);
        Some(next)
    }
}
