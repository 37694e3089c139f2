//! How much of the flash is the host's, and what the layer reserves.

use nandkit_block::BlockGeometry;
use nandkit_cleaning::victim::index::UNITS_MAX;
use nandkit_units::FlashGeometry;

use super::options::JournalOptions;
use super::streams::Streams;
use super::superblocks::Superblocks;
use super::{PageMapOptions, Spare, unfit};
use crate::failure::LayerResult;

/// The host's pages, and the reserve that cleaning needs to never get stuck.
pub(crate) struct Room {
    /// The host's logical pages.
    pub user: u64,
    /// Map pages on flash.
    pub map_pages: u64,
    /// The most valid slots of a superblock whose cleaning gains a page.
    pub most_valid: u32,
    /// Superblocks kept free.
    pub free_min: usize,
    /// Slots of all superblocks' blocks and of the journal's.
    pub physical: u64,
    /// The most slots that may be valid at once.
    pub most: u64,
    /// Open superblocks.
    pub open: u64,
}

/// The number of map pages of a device: each entry takes four bytes.
pub(crate) const fn map_pages(user: u64, sector_size: u32) -> u64 {
    user.div_ceil(sector_size as u64 / 4)
}

/// The number of logical pages between two checkpoints.
pub(crate) fn checkpoint_every(options: &JournalOptions, user: u64) -> u64 {
    if options.checkpoint_every == 0 { (user / 8).max(64) } else { options.checkpoint_every }
}

/// The number of pages that may point at content written under another address.
pub(crate) fn aliases_max(options: &JournalOptions, user: u64) -> u32 {
    if options.aliases == 0 { (user / 64).clamp(16, 1 << 20) as u32 } else { options.aliases }
}

/// The most superblocks that may be open at once: one per region, one for map pages, one for cold
/// data.
pub(crate) fn streams(options: &PageMapOptions) -> usize {
    usize::from(options.separation.regions()) + 1 + usize::from(options.leveling_threshold > 0)
}

/// The geometry of the block device, except its length.
pub(crate) fn block_geometry(options: &PageMapOptions, geometry: &FlashGeometry) -> LayerResult<BlockGeometry> {
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

/// The number of blocks per superblock.
pub(crate) fn stripe_of(asked: u32, geometry: &FlashGeometry, slot_shift: u32) -> LayerResult<u32> {
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

/// The reserve that cleaning needs on a device.
pub(crate) fn needed(options: &PageMapOptions, superblocks: &Superblocks, has_journal: bool) -> Room {
    let (count, slots, per_page) = (superblocks.count(), superblocks.slots(), superblocks.slots_per_page());
    let (regions, copied) = (options.separation.regions(), Streams::copy_regions(&options.separation));
    let open = u64::from(regions) + u64::from(has_journal) + u64::from(options.leveling_threshold > 0);
    // One for each region of copies, one in case an erase fails, and one that is held back.
    let free_min = u64::from(copied) + 1 + u64::from(has_journal);
    // The copies of a victim may end each region with a partly empty page.
    let filling = (copied + u32::from(has_journal)) * (per_page - 1);
    let most_valid = slots.saturating_sub(per_page + filling);
    // If every closed superblock had more valid slots than this, cleaning would gain nothing.
    let closed = u64::from(count).saturating_sub(open + free_min);
    let most = ((u64::from(most_valid) + 1) * closed).saturating_sub(1);
    Room { user: 0, map_pages: 0, physical: 0, most_valid, free_min: free_min as usize, most, open }
}

/// The host's pages, checked against the reserve for cleaning. `physical` is the number of slots of
/// all superblocks and of the journal.
pub(crate) fn room(
    options: &PageMapOptions,
    superblocks: &Superblocks,
    sector_size: u32,
    physical: u64,
) -> LayerResult<Room> {
    let user = match options.spare {
        Spare::Capacity(bytes) => bytes / u64::from(sector_size),
        Spare::Ratio(ratio) if ratio.is_finite() && ratio > 0.0 => (physical as f64 / (1.0 + ratio)) as u64,
        Spare::Ratio(ratio) => return unfit(format!("spare {ratio}: expected a ratio above 0, such as 0.07 or 0.28")),
    };
    let has_journal = options.journal.is_some();
    let maps = |user: u64| if has_journal { map_pages(user, sector_size) } else { 0 };
    let room = needed(options, superblocks, has_journal);
    if user == 0 || user.saturating_add(maps(user)) > room.most {
        let map_pages = maps(user);
        return unfit(does_not_fit(user, map_pages, superblocks, &Room { physical, ..room }));
    }
    Ok(Room { user, map_pages: maps(user), physical, ..room })
}

/// The write buffer's size in logical pages. Errors: it holds less than one page, or more than the
/// device.
pub(crate) fn buffered_pages(options: &PageMapOptions, room: &Room, sector_size: u32) -> LayerResult<usize> {
    let (bytes, sector_size) = (options.write_buffer, u64::from(sector_size));
    let most = room.user * sector_size;
    if bytes > 0 && !(sector_size..=most).contains(&bytes) {
        return unfit(format!(
            "a write buffer of {bytes} bytes: expected 0, none, or {sector_size}, a logical page, to {most}, the whole device"
        ));
    }
    Ok((bytes / sector_size) as usize)
}

/// The error message if the host's pages do not fit: what is reserved, and what would fit.
fn does_not_fit(user: u64, map_pages: u64, superblocks: &Superblocks, room: &Room) -> String {
    let (count, slots, stripe) = (superblocks.count(), superblocks.slots(), superblocks.stripe());
    let kept = format!("{} superblocks are open, and {} stay free for cleaning", room.open, room.free_min);
    // Each map page covers this many host pages.
    let host = match map_pages {
        0 => room.most,
        pages => {
            (u128::from(room.most) * u128::from(user.max(1)) / (u128::from(user.max(1)) + u128::from(pages))) as u64
        }
    };
    if host == 0 {
        let least = room.open + room.free_min as u64 + 1;
        let narrower = if stripe > 1 { "a stripe of fewer blocks, " } else { "" };
        return format!(
            "{count} superblocks of {slots} pages in {stripe} blocks each leave nothing for the host; expected at least {least}, by {narrower}a chip of more blocks or fewer regions: {kept}"
        );
    }
    let ratio = room.physical.saturating_sub(host) as f64 / host as f64;
    let journal = room.physical.saturating_sub(u64::from(count) * u64::from(slots));
    let journal = match map_pages {
        0 => String::new(),
        map_pages => format!(", {map_pages} pages are the map's and {journal} the journal's"),
    };
    format!(
        "{user} logical pages for the host of {}, in {count} superblocks of {slots}; expected 1 to {host}, a spare of {ratio:.4} or more: {kept}{journal}",
        room.physical
    )
}
