//! Attaching to a device: journal, scan, replay. The steps are numbered in
//! `docs/design/06-page-map-on-flash.md`; none of them writes.

mod find;
mod limits;
mod replay;
mod scan;

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Context, Nanos};

use super::journal::layout::Snapshot;
use super::journal::{Journal, JournalOnFlash, JournalSizes};
use super::options::JournalOptions;
use super::superblocks::Superblocks;
use super::user::Room;
use super::{LOST, NOWHERE, PageMapFtl, PageMapOptions, Plan, Spare, user};
use crate::failure::{Failure, LayerResult};
use crate::tag::SEQUENCE_END;

/// Stamps skipped after a start: more than unfinished operations can have used.
const STAMP_GAP: u64 = 1 << 24;

/// The effort of attaching to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMapRecovery {
    /// Pages read: of the journal, of the map, and in search of tags.
    pub pages_read: u64,
    /// Superblocks of which more than one page was read.
    pub superblocks_read: u64,
    /// Tags and lines replayed.
    pub replayed: u64,
    /// Copies of unfinished cleanings that were undone.
    pub taken_back: u64,
    /// The simulated time taken.
    pub took: Nanos,
    /// The time at which attaching completed.
    pub completed: Nanos,
}

impl<F: Flash> PageMapFtl<F> {
    /// Attaches to the device on a chip.
    ///
    /// Capacity, sector size, stripe and the limit of aliases are those chosen at format time,
    /// whatever `options` say; all other options apply.
    ///
    /// Errors: `Unfit` (no such device on the chip, or options that it cannot have), `Unreadable`
    /// (a map page is lost), `PowerLost`, `Io`. Cost: reads the pages of the journal and of the
    /// map, a page of each superblock, and all pages of superblocks opened since the last
    /// checkpoint, in simulated time; nothing is written before the first change.
    pub fn attach(flash: F, options: PageMapOptions) -> nandkit_block::Result<Self> {
        Self::attach_at(flash, options, &Context::default())
    }

    /// Attaches to the device on a chip, at a given time.
    pub fn attach_at(flash: F, options: PageMapOptions, context: &Context) -> nandkit_block::Result<Self> {
        let context = Context { device_cause: Some(Cause::Recovery), ..*context };
        Self::recover(flash, options, &context)
            .map_err(|failure| failure.at(nandkit_block::Operation::Open, nandkit_units::Lba(0)))
    }

    /// Attaches to the device on a chip, or makes one on a completely blank chip. Any other content
    /// stays and causes an error.
    pub fn open_at(flash: F, options: PageMapOptions, context: &Context) -> nandkit_block::Result<Self> {
        let is_blank = find::is_blank(&flash, context);
        let is_blank = is_blank.map_err(|failure| failure.at(nandkit_block::Operation::Open, nandkit_units::Lba(0)))?;
        if is_blank { Self::format_at(flash, options, context) } else { Self::attach_at(flash, options, context) }
    }

    /// Whether a chip holds the complete, sealed journal of a page-mapped device, even if that
    /// cannot be opened. Cost: the pages of both halves of the journal, up to the first invalid
    /// one.
    pub fn has_journal(flash: &F, context: &Context) -> bool {
        find::journal(flash, context, &mut PageMapRecovery::default()).is_ok()
    }

    /// The effort of the last [`PageMapFtl::attach`]; all zero for a new device.
    pub const fn recovery(&self) -> &PageMapRecovery {
        &self.recovery
    }

    fn recover(flash: F, options: PageMapOptions, context: &Context) -> LayerResult<Self> {
        let mut report = PageMapRecovery { completed: context.issued, ..Default::default() };
        let found = find::journal(&flash, context, &mut report)?;
        let members = limits::check(&found, flash.geometry())?;
        let mut device = Self::rebuilt(flash, options, &found, members)?;
        device.recovery = report;
        let lines: Vec<_> = found.snapshot.lines.iter().chain(&found.lines).copied().collect();
        let scanned = device.scan(context, &found.snapshot, &lines)?;
        device.load_maps(context, &found.snapshot, &scanned)?;
        device.replay(&found.snapshot, &lines, scanned)?;
        device.sequence = device.sequence.max(found.snapshot.next).saturating_add(STAMP_GAP);
        if device.sequence > SEQUENCE_END {
            return Err(Failure::unfit("a device whose stamps are used up: what it holds can be copied, not changed"));
        }
        let end = device.recovery.completed;
        device.recovery.took = end.since(context.issued);
        device.last_change = end;
        device.released.fill(end);
        device.adopt_changed(end);
        device.adopt_ages(end);
        Ok(device)
    }

    /// The device of a snapshot, before anything newer was read, except that its blocks are those
    /// after the last line: a block that a line gave to a superblock is no longer spare.
    fn rebuilt(
        flash: F,
        options: PageMapOptions,
        found: &JournalOnFlash,
        members: Vec<BlockIndex>,
    ) -> LayerResult<Self> {
        let snapshot = &found.snapshot;
        let geometry = *flash.geometry();
        let options = PageMapOptions {
            sector_size: snapshot.sector_size,
            stripe: snapshot.stripe,
            spare: Spare::Capacity(u64::from(snapshot.user) * u64::from(snapshot.sector_size)),
            ..options
        };
        let block = user::block_geometry(&options, &geometry)?;
        let slot_shift = (geometry.page_size / block.sector_size).trailing_zeros();
        user::stripe_of(options.stripe, &geometry, slot_shift)?;
        let block_slots = u64::from(geometry.pages_per_block) << slot_shift;
        let blocks = members.iter().filter(|block| **block != super::failing::NO_BLOCK).count() as u64;
        let superblocks = Superblocks::of_members(members, &geometry, options.stripe, slot_shift);
        let map_pages = user::map_pages(snapshot.user.into(), block.sector_size);
        let room = Room {
            user: snapshot.user.into(),
            map_pages,
            physical: blocks * block_slots,
            ..user::needed(&options, &superblocks, true)
        };
        let sizes = JournalSizes {
            streams: user::streams(&options),
            blocks: snapshot.members.len(),
            superblocks: superblocks.count() as usize,
            map_pages: map_pages as usize,
            aliases_max: snapshot.aliases_max,
            slots: superblocks.slots(),
        };
        if snapshot.erases.len() != sizes.superblocks || snapshot.directory.len() != sizes.map_pages {
            return Err(damaged("its lists have other lengths than the device"));
        }
        let asked = options.journal.unwrap_or_default();
        let asked = JournalOptions { checkpoint_every: user::checkpoint_every(&asked, room.user), ..asked };
        let journal = Journal::found(&geometry, found, &asked, &sizes);
        let mut device = Self::build(flash, options, Plan { superblocks, room, block, journal: Some(journal) })?;
        device.erases.clone_from(&snapshot.erases);
        let journal = device.journal.as_ref().map_or(0, |journal| journal.good_blocks(&device.flash));
        device.physical += journal * block_slots;
        Ok(device)
    }

    /// Loads the newest version of each map page that exists. A newer version may be torn; an older
    /// one is equally good to start from, as long as it is not older than the base.
    fn load_maps(&mut self, context: &Context, snapshot: &Snapshot, scanned: &scan::Scanned) -> LayerResult<()> {
        let user = self.block.sectors as u32;
        let mut versions: Vec<Vec<u32>> = snapshot.directory.iter().map(|slot| vec![*slot]).collect();
        for tag in scanned.tags.iter().filter(|tag| tag.page >= user) {
            if let Some(slots) = versions.get_mut((tag.page - user) as usize) {
                slots.push(tag.slot);
            }
        }
        for (map_page, slots) in (0u32..).zip(versions) {
            let mut is_loaded = false;
            for slot in slots.into_iter().rev() {
                is_loaded = slot == NOWHERE || self.load_map(context, map_page, slot)?;
                if is_loaded {
                    break;
                }
            }
            if !is_loaded {
                return Err(Failure::Unreadable);
            }
        }
        // Their positions are replayed like all others.
        let tail = self.map.iter_mut().skip(user as usize);
        tail.zip(&snapshot.directory).for_each(|(entry, slot)| *entry = *slot);
        Ok(())
    }

    /// Loads a map page from a slot; returns whether it is there.
    fn load_map(&mut self, context: &Context, map_page: u32, slot: u32) -> LayerResult<bool> {
        let (user, size) = (self.block.sectors as u32, self.block.sector_size as usize);
        let slots = u64::from(self.superblocks.count()) * u64::from(self.superblocks.slots());
        if u64::from(slot) >= slots {
            return Err(damaged(&format!("map page {map_page} lies in slot {slot}, outside the device")));
        }
        let mut bytes = vec![0; size];
        if !self.read_slot(context, slot, user + map_page, &mut bytes)? {
            return Ok(false);
        }
        let first = map_page as usize * (size / 4);
        // A slice: to skip entries one by one, for each map page, takes seconds on gigabytes.
        let entries = self.map.get_mut(first..user as usize).unwrap_or_default();
        for ((entry, page), bytes) in entries.iter_mut().zip(first as u32..).zip(bytes.as_chunks::<4>().0) {
            *entry = u32::from_le_bytes(*bytes);
            if *entry == LOST {
                *entry = NOWHERE;
                self.failing.lost.insert(page);
            }
            if *entry != NOWHERE && u64::from(*entry) >= slots {
                return Err(damaged(&format!("map page {map_page} names slot {entry}, outside the device")));
            }
        }
        Ok(true)
    }
}

/// The failure of a device whose journal contradicts itself.
#[cold]
pub(super) fn damaged(what: &str) -> Failure {
    Failure::unfit(format!("the journal of the device on this chip is damaged: {what}"))
}
