//! A page-mapped layer: each logical page lies anywhere, updates go to open superblocks, and the emptiest superblocks are cleaned.
//!
//! The design, with the rules for what is not built yet, is in `docs/design/05-page-map.md`. In memory so far: what a chip holds is not found again.
//!
//! The layout of the data is made for one thing: 4 KiB overwritten at random on a device whose map is larger than every cache costs one line of the map, and each page
//! moved by cleaning another one, which is asked for beforehand. Everything else that an overwrite touches fits into the cache: a bit that says what is valid, a count of the index of victims.

mod check;
mod clean;
mod collect;
mod device;
mod expected;
mod failing;
mod frontier;
mod gather;
mod options;
mod spread;
mod statistics;
mod streams;
mod superblocks;
mod user;
mod valid;
mod victims;
mod write;

use nandkit_block::BlockGeometry;
use nandkit_cleaning::allocation::FreePool;
use nandkit_cleaning::victim::index::{UNITS_MAX, VictimIndex};
use nandkit_codec::page_tag::{TAG_BYTES, TagFormat};
use nandkit_flash::Flash;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Nanos};

use crate::failure::{Failure, Outcome};
use expected::Expected;
use failing::Failing;
use gather::CleaningRun;
use streams::Streams;
use superblocks::Superblocks;
use valid::ValidSlots;
use victims::Ages;

pub use options::{PageMapOptions, Spare};
pub use statistics::PageMapCounters;

/// A logical page that lies nowhere.
const NOWHERE: u32 = u32::MAX;
/// What a page is for: the low eight bits of its tag.
mod role {
    /// The host wrote it.
    pub const HOST: u64 = 1;
    /// Cleaning moved it.
    pub const COPY: u64 = 2;
}

/// A page-mapped block device over flash. See the [module](self).
pub struct PageMapFtl<F> {
    flash: F,
    options: PageMapOptions,
    block: BlockGeometry,
    tag: TagFormat,
    superblocks: Superblocks,
    /// Where each logical page lies: a slot, or [`NOWHERE`].
    map: Vec<u32>,
    valid: ValidSlots,
    /// Counts the valid slots of each superblock; closed ones are candidates.
    index: VictimIndex,
    ages: Ages,
    /// The most valid slots that a superblock may have so that cleaning it wins a page.
    most_valid: u32,
    /// Superblocks that stay free: one for each region into which the copies of one victim may go, and one in case that an erase fails.
    free_min: usize,
    free: FreePool,
    /// By superblock: whether anything was programmed since its erase, how often it was erased, and when it was empty of valid pages for good.
    used: Vec<bool>,
    erases: Vec<u32>,
    emptied: Vec<Nanos>,
    streams: Streams,
    sequence: u64,
    /// Whether the flash can read described data back.
    keeps_described: bool,
    /// The end of the last change of the flash.
    last_change: Nanos,
    random: Random,
    /// Victims one after the other that had no page to win.
    fruitless: u32,
    run: CleaningRun,
    expected: Expected,
    failing: Failing,
    counters: PageMapCounters,
    /// What stopped the layer.
    halted: Option<crate::failure::Halt>,
}

impl<F: Flash> PageMapFtl<F> {
    /// Erases what the chip holds and makes an empty device of it.
    ///
    /// Errors: `Unfit` (options or chip: the message says what would fit), `PowerLost`, `Io`.
    pub fn format(flash: F, options: PageMapOptions) -> nandkit_block::Result<Self> {
        Self::format_at(flash, options, &Context::default())
    }

    /// The same at an instant.
    pub fn format_at(flash: F, options: PageMapOptions, context: &Context) -> nandkit_block::Result<Self> {
        Self::new(flash, options)
            .and_then(|mut device| device.erase_all(context).map(|()| device))
            .map_err(|failure| failure.at(nandkit_block::Operation::Open, Lba(0)))
    }

    fn new(mut flash: F, options: PageMapOptions) -> Outcome<Self> {
        let keeps_described = flash.relocation().is_none_or(nandkit_flash::Relocation::keeps_described);
        let geometry = *flash.geometry();
        let block = user::block_geometry(&options, &geometry)?;
        let slot_shift = (geometry.page_size / block.sector_size).trailing_zeros();
        if (geometry.oob_size as usize) < TAG_BYTES << slot_shift {
            return unfit(format!(
                "pages with {} bytes of OOB; expected at least {}, {TAG_BYTES} for each logical page of {} bytes",
                geometry.oob_size,
                TAG_BYTES << slot_shift,
                block.sector_size
            ));
        }
        let stripe = user::stripe_of(options.stripe, &geometry, slot_shift)?;
        let superblocks = Superblocks::new(&flash, stripe, slot_shift);
        let (count, slots) = (superblocks.count(), superblocks.slots());
        if !(2..=UNITS_MAX).contains(&slots) {
            return unfit(format!(
                "superblocks of {stripe} blocks with {slots} logical pages together; expected 2 to {UNITS_MAX}: another stripe"
            ));
        }
        let all = u64::from(count) * u64::from(slots);
        if all >= u64::from(NOWHERE) {
            return unfit(format!(
                "{all} logical pages of flash; expected fewer than 2^32 - 1, which the map can name"
            ));
        }
        let room = user::room(&options, &superblocks, &block)?;
        let (index, ages) = victims::index_of(&options.victim, count as usize);
        let recycling_size = geometry.block_size() * u64::from(stripe);
        let mut free = FreePool::new(options.allocation, count as usize);
        (0..count).for_each(|superblock| free.push(superblock, 0));
        Ok(Self {
            tag: TagFormat::new(geometry.page_size),
            map: vec![NOWHERE; room.user as usize],
            valid: ValidSlots::new(all),
            index,
            ages,
            most_valid: room.most_valid,
            free_min: room.free_min,
            free,
            used: vec![true; count as usize],
            erases: vec![0; count as usize],
            emptied: vec![Nanos::ZERO; count as usize],
            streams: Streams::new(options.separation, room.user as usize, count as usize),
            sequence: 0,
            keeps_described,
            last_change: Nanos::ZERO,
            random: Random::new(options.seed, "page-map victims"),
            fruitless: 0,
            run: CleaningRun::default(),
            expected: Expected::default(),
            failing: Failing::default(),
            counters: PageMapCounters::default(),
            halted: None,
            block: BlockGeometry { sectors: room.user, recycling_size, ..block },
            flash,
            options,
            superblocks,
        })
    }

    /// The flash below.
    pub const fn flash(&self) -> &F {
        &self.flash
    }

    /// Gives the flash back.
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// The options.
    pub const fn options(&self) -> &PageMapOptions {
        &self.options
    }

    /// What the layer counted since it was made.
    pub const fn counters(&self) -> &PageMapCounters {
        &self.counters
    }

    /// Logical pages that all superblocks could hold, and those of the host: the over-provisioning is their difference over the latter.
    pub fn physical_and_user_pages(&self) -> (u64, u64) {
        (u64::from(self.superblocks.count()) * u64::from(self.superblocks.slots()), self.map.len() as u64)
    }
}

#[cold]
fn unfit<T>(detail: String) -> Outcome<T> {
    Err(Failure::unfit(detail))
}

impl<F> std::fmt::Debug for PageMapFtl<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageMapFtl")
            .field("options", &self.options)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
