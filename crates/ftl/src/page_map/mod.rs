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
mod options;
mod statistics;
mod superblocks;
mod valid;
mod write;

use nandkit_block::BlockGeometry;
use nandkit_cleaning::allocation::FreePool;
use nandkit_cleaning::victim::index::{UNITS_MAX, VictimIndex};
use nandkit_codec::page_tag::{TAG_BYTES, TagFormat};
use nandkit_flash::Flash;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Nanos};

use crate::failure::{Failure, Outcome};
use clean::CleaningRun;
use expected::Expected;
use failing::Failing;
use frontier::Frontier;
use superblocks::Superblocks;
use valid::ValidSlots;

pub use options::{Frontiers, PageMapOptions, Spare};
pub use statistics::PageMapCounters;

/// A logical page that lies nowhere.
const NOWHERE: u32 = u32::MAX;
/// Superblocks that stay free: one into which copies can go while the next one is cleaned, and one in case that its erase fails.
const FREE_MIN: usize = 2;

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
    /// Counts the valid pages of each superblock; closed ones are candidates.
    index: VictimIndex,
    free: FreePool,
    /// By superblock: whether anything was programmed since its erase, how often it was erased, and when it was empty of valid pages for good.
    used: Vec<bool>,
    erases: Vec<u32>,
    emptied: Vec<Nanos>,
    host: Frontier,
    copies: Frontier,
    sequence: u64,
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

    fn new(flash: F, options: PageMapOptions) -> Outcome<Self> {
        let geometry = *flash.geometry();
        if (geometry.oob_size as usize) < TAG_BYTES {
            return unfit(format!("pages with {} bytes of OOB; expected at least {TAG_BYTES}", geometry.oob_size));
        }
        let stripe = stripe_of(options.stripe, geometry.dies)?;
        let superblocks = Superblocks::new(&flash, stripe);
        let (count, pages) = (superblocks.count(), superblocks.pages());
        if !(2..=UNITS_MAX).contains(&pages) {
            return unfit(format!(
                "superblocks of {stripe} blocks with {pages} pages together; expected 2 to {UNITS_MAX}: another stripe"
            ));
        }
        let slots = u64::from(count) * u64::from(pages);
        if slots >= u64::from(NOWHERE) {
            return unfit(format!("{slots} pages of flash; expected fewer than 2^32 - 1, which the map can name"));
        }
        let user = user_pages(&options, &geometry, (count, pages))?;
        let Some(index) = VictimIndex::new(&options.victim, count as usize) else {
            let expected = "expected greedy, fifo, random or d-choices: the others are not built for this layer yet";
            return unfit(format!("victims by {:?}; {expected}", options.victim));
        };
        let block = BlockGeometry {
            sector_size: geometry.page_size,
            sectors: user,
            preferred_size: geometry.page_size,
            recycling_size: geometry.block_size() * u64::from(stripe),
        };
        let mut free = FreePool::new(options.allocation, count as usize);
        (0..count).for_each(|superblock| free.push(superblock, 0));
        Ok(Self {
            tag: TagFormat::new(geometry.page_size),
            map: vec![NOWHERE; user as usize],
            valid: ValidSlots::new(slots),
            index,
            free,
            used: vec![true; count as usize],
            erases: vec![0; count as usize],
            emptied: vec![Nanos::ZERO; count as usize],
            host: Frontier::CLOSED,
            copies: Frontier::CLOSED,
            sequence: 0,
            last_change: Nanos::ZERO,
            random: Random::new(options.seed, "page-map victims"),
            fruitless: 0,
            run: CleaningRun::default(),
            expected: Expected::default(),
            failing: Failing::default(),
            counters: PageMapCounters::default(),
            halted: None,
            flash,
            options,
            block,
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

    /// Pages of all superblocks, and those of the host: the over-provisioning is their difference over the latter.
    pub fn physical_and_user_pages(&self) -> (u64, u64) {
        (u64::from(self.superblocks.count()) * u64::from(self.superblocks.pages()), self.map.len() as u64)
    }
}

#[cold]
fn unfit<T>(detail: String) -> Outcome<T> {
    Err(Failure::unfit(detail))
}

/// The blocks of a superblock.
fn stripe_of(asked: u32, dies: u32) -> Outcome<u32> {
    match asked {
        0 => Ok(1 << dies.max(1).ilog2()),
        stripe if stripe.is_power_of_two() && stripe <= dies => Ok(stripe),
        stripe => unfit(format!("stripe {stripe}: expected a power of two up to the {dies} dies of the chip")),
    }
}

/// The pages that the host sees, checked against what cleaning needs.
fn user_pages(
    options: &PageMapOptions,
    geometry: &nandkit_units::FlashGeometry,
    (count, pages): (u32, u32),
) -> Outcome<u64> {
    let physical = u64::from(count) * u64::from(pages);
    let user = match options.spare {
        Spare::Capacity(bytes) => bytes / u64::from(geometry.page_size),
        Spare::Ratio(ratio) if ratio.is_finite() && ratio > 0.0 => (physical as f64 / (1.0 + ratio)) as u64,
        Spare::Ratio(ratio) => return unfit(format!("spare {ratio}: expected a ratio above 0, such as 0.07 or 0.28")),
    };
    // Open ones, one into which the next victim's pages go, and a page more, so that a victim with something to win always exists.
    let open = if options.frontiers == Frontiers::Apart { 2 } else { 1 };
    let reserved = (open + FREE_MIN as u64) * u64::from(pages) + 1;
    let most = physical.saturating_sub(reserved);
    if user == 0 || user > most {
        let ratio = reserved as f64 / most.max(1) as f64;
        return unfit(format!(
            "{user} pages for the host of {physical} in {count} superblocks of {pages}; expected 1 to {most}, a spare of {ratio:.4} or more: {open} superblocks are open, \
             and {FREE_MIN} stay free for cleaning"
        ));
    }
    Ok(user)
}

impl<F> std::fmt::Debug for PageMapFtl<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageMapFtl")
            .field("options", &self.options)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
