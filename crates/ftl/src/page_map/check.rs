//! A consistency check over the layer's whole state.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_codec::page_tag::{TAG_BYTES, TagRead};
use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_units::{Context, ReadInto};

use super::failing::NO_BLOCK;
use super::{NOWHERE, PageMapFtl};

impl<F: Flash> PageMapFtl<F> {
    /// Compares the map, the valid bits, the counts of superblocks, the free pool, the tags on
    /// flash, the aliases, the unchanged map pages, and the assignment of blocks; the error says
    /// what disagrees. Cost: reads the OOB of every mapped slot and every map page, which takes
    /// simulated time.
    pub fn check(&self) -> Result<(), String> {
        let owners = self.check_tags()?;
        self.check_sharers(&owners)?;
        self.check_counts(&owners)?;
        self.check_superblocks()?;
        self.check_map_pages()
    }

    /// The page in the tag of each referenced slot, or `None` if the chip has lost it.
    fn check_tags(&self) -> Result<BTreeMap<u32, Option<u32>>, String> {
        let mut owners = BTreeMap::new();
        let mut oob = vec![0; TAG_BYTES << self.superblocks.slot_shift()];
        for (page, &slot) in (0u32..).zip(self.map.iter()).filter(|(_, slot)| **slot != NOWHERE) {
            if !self.valid.holds(slot) {
                return Err(format!("page {page} lies in slot {slot}, which is not valid"));
            }
            if self.superblocks.superblock(slot) >= self.superblocks.count() {
                return Err(format!("page {page} lies in slot {slot}, outside the device"));
            }
            let (at, part) = self.superblocks.address(slot);
            match self.flash.read(&Context::default(), at, PageRead::oob(&mut oob)) {
                Ok(_) => {}
                // Content that the chip has lost is detected only when it is read.
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    owners.insert(slot, None);
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            }
            let image = oob.as_chunks::<TAG_BYTES>().0.get(part as usize);
            let Some(TagRead::Valid { payload, .. }) = image.map(|image| self.tag.decode(image)) else {
                return Err(format!("page {page} lies in slot {slot}, which has no tag"));
            };
            let owner = (payload >> 8) as u32;
            let is_alias = self.aliases.get(slot).is_some_and(|sharers| sharers.others.contains(&page));
            // A page that returned to content it once wrote itself is an alias there too.
            if owner != page && !is_alias {
                return Err(format!("page {page} lies in slot {slot} with the tag of {owner}, and is no alias"));
            }
            owners.insert(slot, Some(owner));
        }
        Ok(owners)
    }

    /// Checks that all sharers of a slot point at it, and that its owner is the page in the tag.
    fn check_sharers(&self, owners: &BTreeMap<u32, Option<u32>>) -> Result<(), String> {
        let mut count = 0;
        for (slot, sharers) in self.aliases.iter() {
            count += sharers.others.len();
            if sharers.pages().any(|page| self.map.get(page as usize) != Some(&slot)) || sharers.others.is_empty() {
                return Err(format!("slot {slot} is listed as shared by {sharers:?}, but the map does not agree"));
            }
            let owner = owners.get(&slot).copied().flatten();
            let points =
                owner.filter(|page| self.map.get(*page as usize) == Some(&slot) && !sharers.others.contains(page));
            if owner.is_some() && sharers.owner != points {
                return Err(format!("slot {slot} with the tag of {owner:?} is listed as shared by {sharers:?}"));
            }
        }
        let counted = self.aliases.len();
        if count == counted { Ok(()) } else { Err(format!("{count} aliases, counted {counted}")) }
    }

    fn check_counts(&self, owners: &BTreeMap<u32, Option<u32>>) -> Result<(), String> {
        let mut counts = vec![0u32; self.superblocks.count() as usize];
        for slot in owners.keys() {
            if let Some(count) = counts.get_mut(self.superblocks.superblock(*slot) as usize) {
                *count += 1;
            }
        }
        for (superblock, &count) in (0..).zip(&counts) {
            let (mut bits, first) = (0, self.superblocks.slot(superblock, 0));
            self.valid.for_each(first, self.superblocks.slots(), |_| bits += 1);
            // Every valid bit then belongs to a referenced slot: each referenced slot has a bit,
            // and the sums are equal.
            if bits != count || self.index.valid(superblock) != count {
                let counted = self.index.valid(superblock);
                return Err(format!(
                    "superblock {superblock}: {count} slots in the map, {bits} valid bits, counted {counted}"
                ));
            }
        }
        Ok(())
    }

    fn check_superblocks(&self) -> Result<(), String> {
        let open = self.streams.frontiers.iter().filter(|frontier| !Self::is_closed(frontier)).count();
        let all = self.superblocks.count() as usize - self.failing.gone as usize;
        let closed = (0..self.superblocks.count()).filter(|superblock| self.index.is_candidate(*superblock)).count();
        if closed + open + self.free_count() != all {
            return Err(format!("{closed} closed, {open} open and {} free superblocks of {all}", self.free_count()));
        }
        self.check_blocks()
    }

    /// Checks that no block is in two superblocks, or both in one and among the loose blocks.
    fn check_blocks(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let members = self.superblocks.all_members().iter().filter(|block| **block != NO_BLOCK);
        match members.chain(self.failing.loose.values().flatten()).find(|block| !seen.insert(**block)) {
            Some(block) => Err(format!("{block} has two places: in superblocks, or among the blocks without one")),
            None => Ok(()),
        }
    }

    /// Checks that unchanged map pages on flash agree with the map.
    fn check_map_pages(&self) -> Result<(), String> {
        let (user, entries) = (self.block.sectors as u32, self.block.sector_size as usize / 4);
        let mut bytes = vec![0; self.block.sector_size as usize];
        for (map_page, &slot) in (0u32..).zip(self.map.iter().skip(user as usize)) {
            if self.changed.has(map_page) {
                // A change outside the cache that is not about to be written would need memory that
                // the device does not have.
                if self.mapping.as_ref().is_some_and(|mapping| !mapping.lock().holds(map_page)) {
                    return Err(format!(
                        "map page {map_page} has changed, and is neither in the cache nor about to be written"
                    ));
                }
                continue;
            }
            let image = self.map_image(map_page, entries);
            if slot == NOWHERE {
                if !nandkit_units::is_erased(&image) {
                    return Err(format!("map page {map_page} was never written, and is not marked as changed"));
                }
                continue;
            }
            let (at, part) = self.superblocks.address(slot);
            let column = part * self.block.sector_size;
            let read = PageRead { column, data: ReadInto::Bytes(&mut bytes), oob: &mut [] };
            match self.flash.read(&Context::default(), at, read) {
                Ok(_) if bytes == image => {}
                Err(error) if error.kind == ErrorKind::Uncorrectable => {}
                Ok(_) => return Err(format!("map page {map_page} differs between flash and memory")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}
