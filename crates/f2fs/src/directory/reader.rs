//! Lookups and listings in the directories of a volume.

use std::ops::ControlFlow;

use nandkit_vfs::{FileKind, Result};

use super::{DirectoryPages, Position, casefold, find_hashed, find_in, hash, no_key};
use crate::blocks::Blocks;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::DentryArea;
use crate::layout::dentry::{Entry, Slot, kind_of, slots_of};
use crate::node::tree::{Leaf, leaf};
use crate::volume::{Access, MountedVolume};

/// A directory of a volume.
#[derive(Debug)]
pub(crate) struct Directory<'a, B, W> {
    pub volume: &'a MountedVolume<B, W>,
    pub inode: &'a Inode,
}

/// An entry in a listing.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub name: &'a [u8],
    pub ino: NodeId,
    /// The kind of file; `None` if the entry's type is invalid.
    pub kind: Option<FileKind>,
    pub cookie: u64,
}

impl<B: Blocks + Send, W: Access<B>> DirectoryPages for Directory<'_, B, W> {
    fn page(&self, page: u32) -> Result<Option<Block>> {
        let address = match leaf(self.volume, self.inode, u64::from(page))? {
            Leaf::Hole { .. } => return Ok(None),
            Leaf::Addresses(addresses) => addresses.get(0),
        };
        self.block_at(page, address)
    }
}

impl<B: Blocks + Send, W: Access<B>> Directory<'_, B, W> {
    fn block_at(&self, page: u32, address: DataAddress) -> Result<Option<Block>> {
        if let Some(block) = self.volume.writer.directory_page(self.inode.nid, page) {
            return Ok(Some(block));
        }
        match address {
            DataAddress::Hole | DataAddress::Reserved => Ok(None),
            DataAddress::At(at) if self.volume.geometry().main(at).is_some() => {
                W::directory_block(self.volume, self.inode.nid, page, at).map(Some)
            }
            other => {
                let detail = format!("page {page} of a directory has the address {:#x}", other.field());
                Err(Defect::new(FindingKind::Address, detail).of(self.inode.nid).into_error())
            }
        }
    }

    /// Finds the entry with a name. Errors: `Corrupt`, `Device`.
    pub fn find(&self, name: &[u8]) -> Result<Option<Position>> {
        if self.inode.is_encrypted() {
            return self.find_shown(name);
        }
        if !self.inode.is_casefolded() {
            return self.find_by(hash(name), &|found| found == name);
        }
        let wanted = casefold::key(name);
        let is_it = |found: &[u8]| found == name || casefold::key(found) == wanted;
        match self.find_by(hash(&wanted), &is_it)? {
            Some(found) => Ok(Some(found)),
            // As in Linux since 6.1.192 (dir.c, `__f2fs_find_entry`): folding changed between
            // versions, and hashes with it.
            None => self.find_among_all(&mut |entry| is_it(entry.name)),
        }
    }

    fn find_by(&self, hash: u32, is_it: &dyn Fn(&[u8]) -> bool) -> Result<Option<Position>> {
        match self.inode.inline_entries() {
            Some(area) => Ok(find_in(DentryArea::new(area), 0, hash, is_it)),
            None => {
                let head = &self.inode.head;
                find_hashed(self, hash, is_it, head.depth.get(), head.directory_level)
            }
        }
    }

    /// Finds the entry of an encrypted directory that is listed under this name.
    fn find_shown(&self, name: &[u8]) -> Result<Option<Position>> {
        self.find_among_all(&mut |entry| no_key::shown_name(entry.dentry.hash.get(), entry.name) == name)
    }

    fn find_among_all(&self, is_it: &mut dyn FnMut(&Entry<'_>) -> bool) -> Result<Option<Position>> {
        let mut found = None;
        self.for_each(0, &mut |page, entry| {
            if entry.is_dots() || !is_it(entry) {
                return ControlFlow::Continue(());
            }
            found = Some(Position { page, slot: entry.slot as u16, entry: entry.dentry });
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Lists the entries after a cookie. Leaves out names that no file system may show (empty, with
    /// `/` or NUL, dots); a check reports them.
    pub fn list(&self, cookie: u64, sink: &mut dyn FnMut(Shown<'_>) -> ControlFlow<()>) -> Result<()> {
        let slots = self.slots();
        let encrypted = self.inode.is_encrypted();
        self.for_each(cookie, &mut |page, entry| {
            let shown = if encrypted && !entry.is_dots() {
                Some(no_key::shown_name(entry.dentry.hash.get(), entry.name))
            } else {
                None
            };
            let name = shown.as_deref().unwrap_or(entry.name);
            if entry.is_dots() || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
                return ControlFlow::Continue(());
            }
            let behind = entry.slot + slots_of(entry.name.len());
            sink(Shown {
                name,
                ino: entry.ino(),
                kind: kind_of(entry.dentry.file_type),
                cookie: u64::from(page) * slots + behind as u64,
            })
        })
    }

    /// Whether the directory has no entries except dots. Errors: `Corrupt`, `Device`. Cost: reads
    /// pages up to the first entry.
    pub fn is_empty(&self) -> Result<bool> {
        let mut empty = true;
        self.for_each(0, &mut |_, entry| {
            empty = entry.is_dots();
            if empty { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(empty)
    }

    fn slots(&self) -> u64 {
        self.volume.geometry().dentries() as u64
    }

    /// Visits each entry from a cookie on; a cookie is the number of slots before it, over all
    /// pages.
    fn for_each(&self, cookie: u64, sink: &mut dyn FnMut(u32, &Entry<'_>) -> ControlFlow<()>) -> Result<()> {
        if let Some(area) = self.inode.inline_entries() {
            let from = usize::try_from(cookie).unwrap_or(usize::MAX);
            let _ = each_in(DentryArea::new(area), from, &mut |entry| sink(0, entry));
            return Ok(());
        }
        let (slots, size) = (self.slots(), self.volume.geometry().block_size() as u64);
        let pages = self.inode.head.size.get().div_ceil(size).min(u64::from(u32::MAX));
        let (mut page, mut from) = (cookie / slots, (cookie % slots) as usize);
        while page < pages {
            let addresses = match leaf(self.volume, self.inode, page)? {
                Leaf::Hole { pages } => {
                    page = page.saturating_add(pages);
                    from = 0;
                    continue;
                }
                Leaf::Addresses(addresses) => addresses,
            };
            for number in 0..u64::from(addresses.count).min(pages - page) {
                let here = (page + number) as u32;
                if let Some(block) = self.block_at(here, addresses.get(number))?
                    && each_in(DentryArea::new(&block), from, &mut |entry| sink(here, entry)).is_break()
                {
                    return Ok(());
                }
                from = 0;
            }
            page += u64::from(addresses.count);
        }
        Ok(())
    }
}

fn each_in(area: DentryArea<'_>, from: usize, sink: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    for slot in area.slots_from(from) {
        if let Slot::Entry(entry) = slot {
            sink(&entry)?;
        }
    }
    ControlFlow::Continue(())
}
