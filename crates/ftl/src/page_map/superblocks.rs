//! Superblocks: groups of blocks on several dies that are written and erased together, page by page
//! across the dies.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, FlashGeometry, PageAddress};

/// The layout of all superblocks. A *slot* holds one logical page, and a chip page has one or more
/// slots. Slots are numbered superblock by superblock, within each in writing order.
#[derive(Clone, Debug)]
pub(crate) struct Superblocks {
    /// The blocks, `stripe` for each superblock.
    members: Vec<BlockIndex>,
    stripe: u32,
    /// Base-2 logarithm of `stripe`.
    shift: u32,
    /// Pages per superblock.
    pages: u32,
    /// Base-2 logarithm of the slots per page.
    slot_shift: u32,
    /// Slots per superblock.
    slots: u32,
    /// 2^64 / `slots`, rounded up: multiplying by it divides any 32-bit slot number by `slots`.
    reciprocal: u64,
}

impl Superblocks {
    /// Groups the good blocks of `stripe` dies at a time, so that all superblocks have the same
    /// length. `stripe` is a power of two, at most the number of dies; `slot_shift` is the
    /// logarithm of the slots per page. The first `rows` blocks of each die are left out.
    pub fn new<F: Flash>(flash: &F, stripe: u32, slot_shift: u32, rows: u32) -> Self {
        let geometry = *flash.geometry();
        let mut members = Vec::new();
        let dies: Vec<u32> = (0..geometry.dies).collect();
        for group in dies.chunks_exact(stripe as usize) {
            let good: Vec<Vec<BlockIndex>> =
                group.iter().map(|die| good_blocks(flash, &geometry, *die, rows)).collect();
            let rows = good.iter().map(Vec::len).min().unwrap_or(0);
            members.extend((0..rows).flat_map(|row| good.iter().filter_map(move |blocks| blocks.get(row).copied())));
        }
        Self::of_members(members, &geometry, stripe, slot_shift)
    }

    /// The superblocks with these member blocks, `stripe` for each.
    pub fn of_members(members: Vec<BlockIndex>, geometry: &FlashGeometry, stripe: u32, slot_shift: u32) -> Self {
        let pages = stripe * geometry.pages_per_block;
        let slots = pages << slot_shift;
        let reciprocal = (u64::MAX / u64::from(slots.max(1))).saturating_add(1);
        Self { members, stripe, shift: stripe.trailing_zeros(), pages, slot_shift, slots, reciprocal }
    }

    /// The number of superblocks.
    pub fn count(&self) -> u32 {
        self.members.len() as u32 / self.stripe
    }

    /// Pages per superblock.
    #[inline]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Slots per superblock.
    #[inline]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots per page.
    #[inline(always)]
    pub const fn slots_per_page(&self) -> u32 {
        1 << self.slot_shift
    }

    #[inline(always)]
    pub const fn slot_shift(&self) -> u32 {
        self.slot_shift
    }

    /// The blocks of a superblock.
    pub fn members(&self, superblock: u32) -> &[BlockIndex] {
        let start = (superblock << self.shift) as usize;
        self.members.get(start..start + self.stripe as usize).unwrap_or(&[])
    }

    /// The blocks of all superblocks, in order.
    pub fn all_members(&self) -> &[BlockIndex] {
        &self.members
    }

    /// Blocks per superblock.
    pub const fn stripe(&self) -> u32 {
        self.stripe
    }

    /// Replaces the block of one lane.
    pub fn set_member(&mut self, superblock: u32, lane: u32, block: BlockIndex) {
        if let Some(member) = self.members.get_mut(((superblock << self.shift) + lane) as usize) {
            *member = block;
        }
    }

    /// The address of a page of a superblock.
    #[inline(always)]
    pub fn at(&self, superblock: u32, page: u32) -> PageAddress {
        let member = (superblock << self.shift) + (page & (self.stripe - 1));
        let block = self.members.get(member as usize).copied().unwrap_or(BlockIndex(u32::MAX));
        block.page(page >> self.shift)
    }

    /// The first slot of a page.
    #[inline(always)]
    pub const fn slot(&self, superblock: u32, page: u32) -> u32 {
        superblock * self.slots + (page << self.slot_shift)
    }

    /// The superblock of a slot.
    #[inline(always)]
    pub const fn superblock(&self, slot: u32) -> u32 {
        // Exact for every slot: the error of the reciprocal is below 2^-32 of a page.
        ((slot as u128 * self.reciprocal as u128) >> 64) as u32
    }

    /// The chip page of a slot, and the slot's index in it.
    #[inline]
    pub fn address(&self, slot: u32) -> (PageAddress, u32) {
        let superblock = self.superblock(slot);
        let inside = slot - superblock * self.slots;
        (self.at(superblock, inside >> self.slot_shift), inside & (self.slots_per_page() - 1))
    }
}

/// The good blocks of a die after its first `rows` ones, in order.
fn good_blocks<F: Flash>(flash: &F, geometry: &FlashGeometry, die: u32, rows: u32) -> Vec<BlockIndex> {
    let blocks = (0..geometry.blocks).map(BlockIndex).filter(|block| geometry.die_of(*block) == die);
    blocks.skip(rows as usize).filter(|block| !flash.is_bad(*block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_exactly() {
        for pages in [1u32, 2, 3, 7, 64, 100, 768, 1025, 49_153, 65_535] {
            let reciprocal = (u64::MAX / u64::from(pages)).saturating_add(1);
            let superblocks = Superblocks {
                members: Vec::new(),
                stripe: 1,
                shift: 0,
                pages,
                slot_shift: 0,
                slots: pages,
                reciprocal,
            };
            let multiples = (1..=3).chain([u32::MAX / pages - 1]).map(|n| n * pages);
            for slot in multiples.flat_map(|slot| [slot - 1, slot, slot + 1]).chain([0, u32::MAX - 1, u32::MAX]) {
                // A reciprocal of 2^64 does not fit: one page per superblock is the only case that
                // would be wrong, and it is refused.
                if pages > 1 {
                    assert_eq!(superblocks.superblock(slot), slot / pages, "{slot} / {pages}");
                }
            }
        }
    }
}
