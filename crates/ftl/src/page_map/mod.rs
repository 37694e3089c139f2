//! A page-mapped layer: each logical page may lie anywhere, updates go to open superblocks, and the
//! emptiest superblocks are cleaned.
//!
//! The design is in `docs/design/05-page-map.md`; the layout on flash and the rules of recovery are
//! in `docs/design/06-page-map-on-flash.md`.
//!
//! The data layout serves one goal: a random 4 KiB overwrite on a device whose map exceeds every
//! cache costs one cache line of the map, and each page that cleaning moves costs another one,
//! which is prefetched. Everything else that an overwrite touches fits into the cache: a valid bit,
//! and a count in the index of victims.

mod aliases;
mod buffer;
mod changed;
mod check;
mod checkpoint;
mod clean;
mod collect;
mod demand;
mod device;
mod expected;
mod failing;
mod frontier;
mod gather;
mod idle;
mod journal;
mod leveling;
mod map_table;
mod mapping_cache;
mod options;
mod recover;
mod refresh;
mod remap;
mod spread;
mod stalls;
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
use nandkit_units::{BlockIndex, Context, Done, Lba, Nanos};

use crate::failure::{Failure, LayerResult};
use aliases::Aliases;
use buffer::WriteBuffer;
use changed::ChangedMaps;
use expected::Expected;
use failing::Failing;
use gather::CleaningRun;
use idle::Idle;
use journal::{Journal, JournalSizes};
use leveling::Leveling;
use map_table::MapTable;
use mapping_cache::MappingCache;
use refresh::{Refresh, RefreshCounters};
use stalls::Stalls;
use streams::Streams;
use superblocks::Superblocks;
use valid::ValidSlots;
use victims::Ages;

pub use collect::ReservedPages;
pub use idle::IdleCounters;
pub use mapping_cache::MappingCounters;
pub use options::{JournalOptions, PageMapOptions, Spare};
pub use recover::PageMapRecovery;
pub use stalls::{StallCounters, Waits};
pub use statistics::PageMapCounters;

/// The entry of a logical page without content.
const NOWHERE: u32 = u32::MAX;
/// Entry in a map page on flash: the logical page's content was lost before it could be moved.
const LOST: u32 = u32::MAX - 1;
/// The purpose of a page: the low eight bits of its tag.
mod role {
    /// Written by the host.
    pub const HOST: u64 = 1;
    /// Copied by cleaning.
    pub const COPY: u64 = 2;
    /// A page of the map.
    pub const MAP: u64 = 3;
    /// The bits of the purpose. The bits above hold a number of the cleaning, which distinguishes
    /// its copies from those of the next one.
    pub const MASK: u64 = 3;
    /// Number of different cleaning numbers above the bits of [`MASK`].
    pub const CLEANINGS: u64 = 64;

    /// The low bits of the tags of a cleaning's copies.
    pub const fn of_copy(cleaning: u64) -> u64 {
        COPY | (cleaning % CLEANINGS) << 2
    }
}

/// The parts of a device under construction.
struct Plan {
    superblocks: Superblocks,
    room: user::Room,
    block: BlockGeometry,
    journal: Option<Journal>,
}

/// A page-mapped block device over flash. See the [module](self).
pub struct PageMapFtl<F> {
    flash: F,
    options: PageMapOptions,
    block: BlockGeometry,
    tag: TagFormat,
    superblocks: Superblocks,
    physical: u64,
    /// The slot of each logical page, or [`NOWHERE`]; the host's pages are followed by the map's.
    map: MapTable,
    /// Map pages that differ from their copies on flash.
    changed: ChangedMaps,
    /// The part of the map that the device would have in memory, if not all of it.
    mapping: Option<Box<MappingCache>>,
    buffer: WriteBuffer,
    valid: ValidSlots,
    aliases: Aliases,
    /// Counts the valid slots of each superblock; closed ones are candidates.
    index: VictimIndex,
    ages: Ages,
    /// The most valid slots of a superblock whose cleaning still gains a page.
    most_valid: u32,
    /// Superblocks kept free: one for each region that may receive copies of a victim, and one in
    /// case an erase fails.
    free_min: usize,
    free: FreePool,
    /// For each superblock: whether anything was programmed since its erase; and its erase count.
    used: Vec<bool>,
    erases: Vec<u32>,
    /// An emptied victim, with the program count at that time: it is erased only after something
    /// else was programmed, so that a start can tell whether its cleaning was the last operation.
    held_back: Option<(u32, u64)>,
    /// For each superblock: when everything that emptied it had completed. It is not erased before.
    released: Vec<Nanos>,
    stalls: Stalls,
    streams: Streams,
    sequence: u64,
    /// Whether the flash can read described data back.
    keeps_described: bool,
    /// The end of the last change of the flash.
    last_change: Nanos,
    random: Random,
    /// Consecutive victims without a page to gain.
    fruitless: u32,
    run: CleaningRun,
    refresh: Option<Box<Refresh>>,
    refreshed: RefreshCounters,
    leveling: Option<Box<Leveling>>,
    idle: Option<Box<Idle>>,
    /// Whether work may be due before a host change: idle work, refresh, levelling.
    cares: bool,
    expected: Expected,
    failing: Failing,
    journal: Option<Journal>,
    recovery: PageMapRecovery,
    counters: PageMapCounters,
    /// The failure that stopped the layer.
    halted: Option<crate::failure::Halt>,
}

impl<F: Flash> PageMapFtl<F> {
    /// Erases the chip and makes an empty device on it.
    ///
    /// Errors: `Unfit` (options or chip: the message says what would fit), `PowerLost`, `Io`.
    pub fn format(flash: F, options: PageMapOptions) -> nandkit_block::Result<Self> {
        Self::format_at(flash, options, &Context::default())
    }

    /// Erases the chip and makes an empty device on it, at a given time.
    pub fn format_at(flash: F, options: PageMapOptions, context: &Context) -> nandkit_block::Result<Self> {
        Self::new(flash, options)
            .and_then(|mut device| device.make(context).map(|()| device))
            .map_err(|failure| failure.at(nandkit_block::Operation::Open, Lba(0)))
    }

    fn new(flash: F, options: PageMapOptions) -> LayerResult<Self> {
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
        let good = (0..geometry.blocks).filter(|block| !flash.is_bad(BlockIndex(*block))).count() as u64;
        let block_slots = u64::from(geometry.pages_per_block) << slot_shift;
        let journal = Self::planned_journal(&flash, &options, &block, (stripe, good * block_slots))?;
        let rows = journal.as_ref().map_or(0, |journal| journal.rows);
        let superblocks = Superblocks::new(&flash, stripe, slot_shift, rows);
        let slots = superblocks.slots();
        if !(2..=UNITS_MAX).contains(&slots) {
            return unfit(format!(
                "superblocks of {stripe} blocks with {slots} logical pages together; expected 2 to {UNITS_MAX}: another stripe"
            ));
        }
        let all = u64::from(superblocks.count()) * u64::from(slots);
        if all >= u64::from(LOST) {
            return unfit(format!(
                "{all} logical pages of flash; expected fewer than 2^32 - 2, which the map can name"
            ));
        }
        let physical = all + journal.as_ref().map_or(0, |journal| journal.good_blocks(&flash)) * block_slots;
        let room = user::room(&options, &superblocks, block.sector_size, physical)?;
        Self::build(flash, options, Plan { superblocks, room, block, journal })
    }

    /// Plans the journal of a device with this many slots, whatever part of them will be the
    /// host's.
    fn planned_journal(
        flash: &F,
        options: &PageMapOptions,
        block: &BlockGeometry,
        (stripe, physical): (u32, u64),
    ) -> LayerResult<Option<Journal>> {
        let Some(asked) = options.journal else {
            return match options.mapping_cache {
                0 => Ok(None),
                bytes => unfit(format!(
                    "a mapping cache of {bytes} bytes without a journal; expected a journal, which keeps the map's pages on flash, or 0: the whole map in memory"
                )),
            };
        };
        let geometry = *flash.geometry();
        let user = match options.spare {
            Spare::Capacity(bytes) => (bytes / u64::from(block.sector_size)).min(physical),
            Spare::Ratio(ratio) => (physical as f64 / (1.0 + ratio.max(0.0))) as u64,
        };
        let slots =
            u64::from(geometry.pages_per_block) * u64::from(stripe) * u64::from(geometry.page_size / block.sector_size);
        let sizes = JournalSizes {
            streams: user::streams(options),
            blocks: geometry.blocks as usize,
            superblocks: (geometry.blocks / stripe) as usize,
            map_pages: user::map_pages(user, block.sector_size) as usize,
            aliases_max: user::aliases_max(&asked, user),
            slots: slots as u32,
        };
        let asked = JournalOptions { checkpoint_every: user::checkpoint_every(&asked, user), ..asked };
        Journal::new(flash, &asked, sizes).map(Some)
    }

    /// Builds an empty device.
    fn build(mut flash: F, options: PageMapOptions, plan: Plan) -> LayerResult<Self> {
        let Plan { superblocks, room, block, journal } = plan;
        let keeps_described = flash.relocation().is_none_or(nandkit_flash::Relocation::keeps_described);
        let geometry = *flash.geometry();
        let count = superblocks.count();
        let all = u64::from(count) * u64::from(superblocks.slots());
        let refresh = Refresh::new(options.read_refresh, options.retention_refresh, geometry.blocks, count);
        let idle = Idle::new(&options, &room, (count, superblocks.slots()))?;
        let (index, ages) = victims::index_of(&options.victim, count as usize);
        let mapping = match options.mapping_cache {
            0 => None,
            bytes => Some(Box::new(MappingCache::new(bytes, room.map_pages, block.sector_size)?)),
        };
        let recycling_size = geometry.block_size() * u64::from(superblocks.stripe());
        let mut free = FreePool::new(options.allocation, count as usize);
        (0..count).for_each(|superblock| free.push(superblock, 0));
        let mut device = Self {
            tag: TagFormat::new(geometry.page_size),
            map: MapTable::new((room.user + room.map_pages) as usize),
            changed: ChangedMaps::new(room.map_pages as usize, block.sector_size / 4, room.user as u32),
            mapping,
            buffer: WriteBuffer::new(
                user::buffered_pages(&options, &room, block.sector_size)?,
                usize::from(options.separation.regions()),
            ),
            valid: ValidSlots::new(all),
            aliases: Aliases::default(),
            index,
            ages,
            most_valid: room.most_valid,
            free_min: room.free_min,
            free,
            used: vec![true; count as usize],
            erases: vec![0; count as usize],
            held_back: None,
            released: vec![Nanos::ZERO; count as usize],
            stalls: Stalls::default(),
            streams: Streams::new(
                options.separation,
                room.user as usize,
                count as usize,
                options.leveling_threshold > 0,
            ),
            // Stamps start above the base of the first snapshot, which is 0.
            sequence: 1,
            keeps_described,
            last_change: Nanos::ZERO,
            random: Random::new(options.seed, "page-map victims"),
            fruitless: 0,
            run: CleaningRun::default(),
            cares: refresh.is_some() || options.leveling_threshold > 0 || idle.is_some(),
            refresh: refresh.map(Box::new),
            idle: idle.map(Box::new),
            refreshed: RefreshCounters::default(),
            leveling: Leveling::new(options.leveling_threshold, count).map(Box::new),
            expected: Expected::default(),
            failing: Failing::default(),
            journal,
            recovery: PageMapRecovery::default(),
            counters: PageMapCounters::default(),
            halted: None,
            block: BlockGeometry { sectors: room.user, recycling_size, ..block },
            flash,
            options,
            physical: room.physical,
            superblocks,
        };
        device.find_loose_blocks();
        Ok(device)
    }

    /// The flash below.
    pub const fn flash(&self) -> &F {
        &self.flash
    }

    /// Writes everything that is only in memory to flash: the content of the write buffer, and with
    /// a journal a checkpoint, so that the next start reads little. Returns the flash, and the time
    /// taken.
    ///
    /// Errors: those of a flush.
    pub fn close(mut self, context: &Context) -> nandkit_block::Result<(F, Done)> {
        let closed = self.check_running().and_then(|()| self.drain(context, 0)).and_then(|()| self.checkpoint(context));
        closed.map_err(|failure| failure.at(nandkit_block::Operation::Flush, Lba(0)))?;
        let mut done = Done::immediately(context);
        done.completed = done.completed.max(self.last_change);
        Ok((self.flash, done))
    }

    /// Does what the capacitors of a device with power-loss protection do when power fails: saves
    /// written data and trims, and nothing else. Does nothing without protection.
    ///
    /// Errors: those of a write.
    pub fn on_last_power(&mut self, context: &Context) -> nandkit_block::Result<()> {
        if !self.options.power_loss_protection {
            return Ok(());
        }
        let saved = self.check_running().and_then(|()| self.save(context));
        saved.map_err(|failure| failure.at(nandkit_block::Operation::Flush, Lba(0)))
    }

    /// Saves the host's writes and trims to flash.
    fn save(&mut self, context: &Context) -> LayerResult<()> {
        self.drain(context, 0)?;
        self.write_waiting(context)
    }

    /// Saves at a flush under power-loss protection, if the chip may outlive the layer without a
    /// call of `on_last_power`. No request waits for it.
    fn save_at_flush(&mut self, context: &Context) -> LayerResult<()> {
        if !self.options.saved_at_flush {
            return Ok(());
        }
        let context = Context { ticket: nandkit_units::Ticket::NONE, ..*context };
        self.save(&context)?;
        self.flash.sync(&Context { issued: context.issued.max(self.last_change), ..context })?;
        Ok(())
    }

    /// Returns the flash as it is; everything that is only in memory is lost, as in a power cut.
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// The time at which the device's making or attaching, and every change since, has completed.
    pub fn opened(&self) -> Nanos {
        self.last_change.max(self.recovery.completed)
    }

    /// The options.
    pub const fn options(&self) -> &PageMapOptions {
        &self.options
    }

    /// The counters since the device was made.
    pub const fn counters(&self) -> &PageMapCounters {
        &self.counters
    }

    /// The number of logical pages that fit into all superblocks and the journal, as of making or
    /// attaching, and the number of the host's pages: over-provisioning is their difference divided
    /// by the latter.
    pub const fn physical_and_user_pages(&self) -> (u64, u64) {
        (self.physical, self.block.sectors)
    }
}

#[cold]
fn unfit<T>(detail: String) -> LayerResult<T> {
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

/// The code of the guide page, which `cargo test` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/victim-policy.md")]
struct GuideToVictimPolicies;
