//! A walk over the whole state: that its parts say the same.

use nandkit_codec::page_tag::{TAG_BYTES, TagRead};
use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_units::Context;

use super::{NOWHERE, PageMapFtl};

impl<F: Flash> PageMapFtl<F> {
    /// Compares the map, the bits of valid slots, the counts of superblocks, the free pool and the tags on flash; in words where two of them disagree. Cost: a read of the OOB of every mapped page, which
    /// takes simulated time.
    pub fn check(&self) -> Result<(), String> {
        let mut counts = vec![0u32; self.superblocks.count() as usize];
        for (page, &slot) in self.map.iter().enumerate().filter(|(_, slot)| **slot != NOWHERE) {
            let superblock = self.superblocks.superblock(slot);
            if !self.valid.holds(slot) {
                return Err(format!("page {page} lies in slot {slot}, which is not valid"));
            }
            let Some(count) = counts.get_mut(superblock as usize) else {
                return Err(format!("page {page} lies in slot {slot}, outside the device"));
            };
            *count += 1;
            let mut oob = vec![0; TAG_BYTES << self.superblocks.slot_shift()];
            let (at, part) = self.superblocks.address(slot);
            match self.flash.read(&Context::default(), at, PageRead::oob(&mut oob)) {
                Ok(_) => {}
                // What the part has lost, the layer finds out when somebody asks for it.
                Err(error) if error.kind == ErrorKind::Uncorrectable => continue,
                Err(error) => return Err(error.to_string()),
            }
            match oob.as_chunks::<TAG_BYTES>().0.get(part as usize).map(|image| self.tag.decode(image)) {
                Some(TagRead::Valid { payload, .. }) if payload >> 8 == page as u64 => {}
                other => return Err(format!("page {page} lies in slot {slot}, whose tag is {other:?}")),
            }
        }
        for (superblock, &count) in (0..).zip(&counts) {
            let (mut bits, first) = (0, self.superblocks.slot(superblock, 0));
            self.valid.for_each(first, self.superblocks.slots(), |_| bits += 1);
            // Every valid bit is a page of the map, since each of those has a bit and the sums are the same.
            if bits != count || self.index.valid(superblock) != count {
                let counted = self.index.valid(superblock);
                return Err(format!(
                    "superblock {superblock}: {count} pages in the map, {bits} valid bits, counted {counted}"
                ));
            }
        }
        let open = self.streams.frontiers.iter().filter(|frontier| !Self::is_closed(frontier)).count();
        let candidates =
            (0..self.superblocks.count()).filter(|superblock| self.index.is_candidate(*superblock)).count();
        let gone = self.failing.gone as usize;
        if candidates + open + self.free.len() + gone != counts.len() {
            let (free, all) = (self.free.len(), counts.len() - gone);
            return Err(format!("{candidates} closed, {open} open and {free} free superblocks of {all}"));
        }
        Ok(())
    }
}
