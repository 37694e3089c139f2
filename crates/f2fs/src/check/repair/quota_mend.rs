//! Repairs quota files: usage as counted, limits as before.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;

use crate::check::quota::QuotaPages;
use crate::check::{Check, batch};
use crate::encode::put;
use crate::ids::BlockAddress;
use crate::inode::Inode;
use crate::layout::Superblock;
use crate::quota::file::{self, QuotaBytes};
use crate::quota::tree::QuotaTree;
use crate::quota::{QuotaKind, Record, Usages};

impl Check<'_> {
    /// Writes the counted usage into each quota file. An inconsistent file is made anew, with its
    /// limits if its tree is intact. Only runs if everything could be counted.
    pub fn mend_quotas(&mut self, superblock: &Superblock) {
        if !self.whole {
            return;
        }
        for pages in std::mem::take(&mut self.quotas.files) {
            let kind = pages.kind(superblock);
            let counted = self.quotas.usages.get_mut(kind.index()).map(std::mem::take).unwrap_or_default();
            let Ok(bytes) = self.quota_bytes(&pages) else { continue };
            let mut changed = QuotaBytes(bytes.clone());
            if put_right(&mut changed, kind, &counted).is_err() {
                self.drop_of(pages.nid, || format!("the limits of {}s: the file cannot be read", kind.name()));
                changed = QuotaBytes(file::of_usages(kind, &counted));
            }
            if changed.0 != bytes {
                self.mend_quota_file(&pages, &bytes, &changed.0);
            }
        }
    }

    /// Writes the pages that differ and allocates blocks for pages past the last one. Without room
    /// for all of them the file stays as it is.
    fn mend_quota_file(&mut self, pages: &QuotaPages, old: &[u8], new: &[u8]) {
        let Some(entry) = self.nat.entry(pages.nid) else { return };
        let at = BlockAddress(entry.address.get());
        let block = batch::one(self.blocks, Cause::Metadata, at);
        let inode = block.ok().and_then(|block| Inode::decode(self.geometry, pages.nid, block, &mut |_| {}));
        let Some(inode) = inode else { return };
        let size = self.geometry.block_size();
        let mut places: BTreeMap<u32, BlockAddress> = pages.pages.iter().copied().collect();
        let mut missing = Vec::new();
        for page in (0..new.len().div_ceil(size) as u32).filter(|page| !places.contains_key(page)) {
            let Some(new) = self.free_block().filter(|_| page < u32::from(inode.shape.count)) else { return };
            missing.push((page, new));
        }
        for &(page, new) in &missing {
            self.mend_word(at, inode.shape.addresses.start + page as usize * 4, true, new.0);
        }
        for (page, content) in (0_u32..).zip(new.chunks(size)) {
            let before = old.get(page as usize * size..).unwrap_or_default();
            if before.get(..content.len()) == Some(content) && places.contains_key(&page) {
                continue;
            }
            let new = missing.iter().find(|(missing, _)| *missing == page).map(|(_, new)| *new);
            let Some(place) = new.or_else(|| places.remove(&page)) else { continue };
            self.mend(place, |block| {
                block.fill(0);
                put(block, 0, content);
            });
        }
        self.mend_head(at, |head| head.size = (new.len() as u64).into());
    }
}

fn put_right(bytes: &mut QuotaBytes, kind: QuotaKind, counted: &Usages) -> nandkit_vfs::Result<()> {
    let mut tree = QuotaTree::open(bytes, kind)?;
    let said = tree.records()?;
    if tree.stray()?.is_some() {
        *bytes = QuotaBytes(file::of_records(kind, tree.header().graces(), said.into_values()));
        return put_right(bytes, kind, counted);
    }
    let owners: BTreeSet<u32> = said.keys().chain(counted.keys()).copied().collect();
    for id in owners {
        let usage = counted.get(&id).copied().unwrap_or_default();
        let old = said.get(&id).copied();
        let record = Record { usage, ..old.unwrap_or(Record { id, ..Record::default() }) };
        match tree.find(id)? {
            Some(_) if old == Some(record) => {}
            Some(_) if record.is_needless() => tree.remove(id)?,
            Some((at, _)) => tree.update(at, &record)?,
            None => drop(tree.insert(&record)?),
        }
    }
    Ok(())
}
