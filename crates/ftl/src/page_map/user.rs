//! What of the flash is the host's, and what the layer keeps for itself.

use nandkit_block::BlockGeometry;
use nandkit_cleaning::victim::index::UNITS_MAX;
use nandkit_units::FlashGeometry;

use super::streams::Streams;
use super::superblocks::Superblocks;
use super::{PageMapOptions, Spare, unfit};
use crate::failure::Outcome;

/// The host's pages, and what cleaning needs so that it never stops.
pub(crate) struct Room {
    /// Logical pages of the host.
    pub user: u64,
    /// The most valid slots of a superblock whose cleaning wins a page.
    pub most_valid: u32,
    /// Superblocks that stay free.
    pub free_min: usize,
}

/// The shape of the block device but for its length.
pub(crate) fn block_geometry(options: &PageMapOptions, geometry: &FlashGeometry) -> Outcome<BlockGeometry> {
    let page = geometry.page_size;
    let sector_size = match options.sector_size {
        0 => page,
        size if size.is_power_of_two() && (512..=page).contains(&size) && page.is_multiple_of(size) => size,
        size => {
            return unfit(format!("sector size {size}: expected a power of two from 512 to the chip's page of {page}"));
        }
    };
    Ok(BlockGeometry { sector_size, sectors: 0, preferred_size: page, recycling_size: 0 })
}

/// The blocks of a superblock.
pub(crate) fn stripe_of(asked: u32, geometry: &FlashGeometry, slot_shift: u32) -> Outcome<u32> {
    let dies = geometry.dies.max(1);
    match asked {
        0 => {
            let slots = u64::from(geometry.pages_per_block) << slot_shift;
            let most = (u64::from(UNITS_MAX) / slots.max(1)).clamp(1, dies.into()) as u32;
            Ok(1 << most.ilog2())
        }
        stripe if stripe.is_power_of_two() && stripe <= dies => Ok(stripe),
        stripe => unfit(format!("stripe {stripe}: expected a power of two up to the {dies} dies of the chip")),
    }
}

/// The pages that the host sees, checked against what cleaning needs.
pub(crate) fn room(options: &PageMapOptions, superblocks: &Superblocks, block: &BlockGeometry) -> Outcome<Room> {
    let (count, slots, per_page) = (superblocks.count(), superblocks.slots(), superblocks.slots_per_page());
    let physical = u64::from(count) * u64::from(slots);
    let user = match options.spare {
        Spare::Capacity(bytes) => bytes / u64::from(block.sector_size),
        Spare::Ratio(ratio) if ratio.is_finite() && ratio > 0.0 => (physical as f64 / (1.0 + ratio)) as u64,
        Spare::Ratio(ratio) => return unfit(format!("spare {ratio}: expected a ratio above 0, such as 0.07 or 0.28")),
    };
    let (open, copied) = (u64::from(options.separation.regions()), Streams::copy_regions(&options.separation));
    let free_min = u64::from(copied) + 1;
    // The copies of a victim end each region with a page that may be filled up with nothing.
    let filling = copied * (per_page - 1);
    let most_valid = slots.saturating_sub(per_page + filling);
    // Where every closed superblock had more valid slots than that, nothing could be won.
    let closed = u64::from(count).saturating_sub(open + free_min);
    let most = ((u64::from(most_valid) + 1) * closed).saturating_sub(1);
    if user == 0 || user > most {
        let ratio = (physical - most) as f64 / most.max(1) as f64;
        return unfit(format!(
            "{user} logical pages for the host of {physical} in {count} superblocks of {slots}; expected 1 to {most}, a spare of {ratio:.4} or more: {open} superblocks are open, and \
             {free_min} stay free for cleaning"
        ));
    }
    Ok(Room { user, most_valid, free_min: free_min as usize })
}
