//! Free and dirty bytes of each LEB of the main area, and the search for LEBs.
//!
//! Source of the rules: Linux `fs/ubifs/find.c`, `fs/ubifs/lprops.c`.

use nandkit_cleaning::victim::{BlockView, Queue};
use nandkit_units::Nanos;

use crate::lpt::{FANOUT, LebProperties};
use crate::sums::{SpaceLimits, SpaceSums};

/// A LEB of the main area.
#[derive(Clone, Copy, Debug)]
struct Leb {
    properties: LebProperties,
    /// It is written by a head, or holds nodes that only the journal knows, or is the collector's:
    /// it is neither collected nor given away.
    is_taken: bool,
    /// Erases since the mount.
    erases: u32,
    /// When it was last written; zero before the mount.
    written: Nanos,
    /// When it was first written since its last erase.
    first_written: Nanos,
}

impl Leb {
    const fn new(properties: LebProperties) -> Self {
        Self { properties, is_taken: false, erases: 0, written: Nanos::ZERO, first_written: Nanos::ZERO }
    }

    /// Whether nothing of it is in use, and it is neither empty nor taken.
    const fn is_freeable(&self, leb_size: u32) -> bool {
        let LebProperties { free, dirty, .. } = self.properties;
        !self.is_taken && free < leb_size && free + dirty == leb_size
    }
}

/// The LEBs of the main area.
#[derive(Debug)]
pub(crate) struct Space {
    first: u32,
    limits: SpaceLimits,
    lebs: Vec<Leb>,
    sums: SpaceSums,
    /// Empty LEBs that are taken.
    taken_empty: u32,
    /// LEBs with nothing in use that are neither empty nor taken.
    freeable: u32,
    /// Leaves of the tree of properties that differ from the flash.
    changed: Vec<bool>,
}

impl Space {
    /// The LEBs from `first` on; `stated` is what the flash says of them.
    pub fn new(first: u32, limits: SpaceLimits, properties: Vec<LebProperties>, stated: &[LebProperties]) -> Self {
        let sums = SpaceSums::of(&properties, limits);
        let leaves = properties.chunks(FANOUT as usize).zip(stated.chunks(FANOUT as usize));
        let changed = leaves.map(|(now, stated)| now != stated).collect();
        let lebs = properties.into_iter().map(Leb::new).collect();
        let mut space = Self { first, limits, lebs, sums, taken_empty: 0, freeable: 0, changed };
        space.freeable = space.all().filter(|(_, leb)| leb.is_freeable(limits.leb_size)).count() as u32;
        space
    }

    /// The sums over all LEBs.
    pub const fn sums(&self) -> &SpaceSums {
        &self.sums
    }

    /// The sizes that decide what space is good for.
    pub const fn limits(&self) -> SpaceLimits {
        self.limits
    }

    /// Bytes of the main area.
    pub fn bytes(&self) -> u64 {
        self.lebs.len() as u64 * u64::from(self.limits.leb_size)
    }

    /// Empty LEBs that can be given away.
    pub const fn empty_left(&self) -> u32 {
        self.sums.empty_lebs.saturating_sub(self.taken_empty)
    }

    fn index(&self, leb: u32) -> Option<usize> {
        leb.checked_sub(self.first).map(|index| index as usize).filter(|index| *index < self.lebs.len())
    }

    /// The properties of a LEB; `None` if it is not of the main area.
    pub fn get(&self, leb: u32) -> Option<LebProperties> {
        self.lebs.get(self.index(leb)?).map(|leb| leb.properties)
    }

    /// Whether a LEB is taken.
    pub fn is_taken(&self, leb: u32) -> bool {
        self.index(leb).and_then(|index| self.lebs.get(index)).is_some_and(|leb| leb.is_taken)
    }

    /// Changes a LEB.
    fn update(&mut self, leb: u32, change: impl FnOnce(&mut Leb)) {
        let Some(index) = self.index(leb) else { return };
        let (limits, full) = (self.limits, self.limits.leb_size);
        let Some(leb) = self.lebs.get_mut(index) else { return };
        let before = *leb;
        change(leb);
        let after = *leb;
        let counts = |leb: Leb| u32::from(leb.is_taken && leb.properties.free == full);
        self.taken_empty = (self.taken_empty + counts(after)).saturating_sub(counts(before));
        let counts = |leb: Leb| u32::from(leb.is_freeable(full));
        self.freeable = (self.freeable + counts(after)).saturating_sub(counts(before));
        if before.properties != after.properties {
            self.sums.remove(&before.properties, limits);
            self.sums.add(&after.properties, limits);
            self.changed.get_mut(index / FANOUT as usize).into_iter().for_each(|changed| *changed = true);
        }
    }

    /// Takes a LEB, or gives it back.
    pub fn take(&mut self, leb: u32, is_taken: bool) {
        self.update(leb, |leb| leb.is_taken = is_taken);
    }

    /// Sets the properties of a LEB.
    pub fn set(&mut self, leb: u32, properties: LebProperties) {
        self.update(leb, |leb| leb.properties = properties);
    }

    /// Makes a LEB empty.
    pub fn set_empty(&mut self, leb: u32) {
        let free = self.limits.leb_size;
        self.update(leb, |leb| {
            leb.erases = leb.erases.saturating_add(u32::from(leb.properties.free < free));
            leb.properties = LebProperties { free, dirty: 0, is_index: false };
        });
    }

    /// Counts bytes that were written to a LEB now.
    pub fn written(&mut self, leb: u32, bytes: u32, now: Nanos) {
        let full = self.limits.leb_size;
        self.update(leb, |leb| {
            leb.written = now;
            if leb.properties.free == full {
                leb.first_written = now;
            }
            leb.properties.free = leb.properties.free.saturating_sub(bytes);
        });
    }

    /// Counts bytes of a LEB that are out of use.
    pub fn dirtied(&mut self, leb: u32, bytes: u32) {
        let full = self.limits.leb_size;
        self.update(leb, |leb| {
            let most = full.saturating_sub(leb.properties.free);
            leb.properties.dirty = leb.properties.dirty.saturating_add(bytes).min(most);
        });
    }

    /// The properties of all LEBs that one leaf of the tree has.
    pub fn leaf(&self, leaf: u32) -> Vec<LebProperties> {
        let lebs = self.lebs.iter().skip((leaf * FANOUT) as usize).take(FANOUT as usize);
        lebs.map(|leb| leb.properties).collect()
    }

    /// The leaves of the tree that differ from the flash; afterwards none does.
    pub fn take_changed(&mut self) -> Vec<u32> {
        let changed = (0..).zip(&self.changed).filter(|(_, changed)| **changed).map(|(leaf, _)| leaf).collect();
        self.changed.fill(false);
        changed
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Leb)> {
        (self.first..).zip(&self.lebs)
    }

    fn free_to_use(&self) -> impl Iterator<Item = (u32, LebProperties)> {
        self.all().filter(|(_, leb)| !leb.is_taken).map(|(number, leb)| (number, leb.properties))
    }

    /// An empty LEB: the one with the lowest number.
    pub fn find_empty(&self) -> Option<u32> {
        self.free_to_use().find(|(_, leb)| leb.free == self.limits.leb_size).map(|(number, _)| number)
    }

    /// A LEB of files, not empty, with most free bytes, of which there are at least `bytes`.
    pub fn find_room(&self, bytes: u32) -> Option<u32> {
        let full = self.limits.leb_size;
        // One with nothing in use may have been unmapped, and is not appended to.
        let fits = |leb: &LebProperties| !leb.is_index && leb.free >= bytes && leb.free + leb.dirty < full;
        let found = self.free_to_use().filter(|(_, leb)| fits(leb));
        found.max_by_key(|(number, leb)| (leb.free, std::cmp::Reverse(*number))).map(|(number, _)| number)
    }

    /// The number of LEBs with nothing in use that are not empty.
    pub const fn freeable_count(&self) -> u32 {
        self.freeable
    }

    /// The LEBs with nothing in use that are not empty, of files or of the index.
    pub fn freeable(&self, is_index: bool) -> Vec<u32> {
        if self.freeable == 0 {
            return Vec::new();
        }
        let full = self.limits.leb_size;
        let found = self.all().filter(|(_, leb)| leb.properties.is_index == is_index && leb.is_freeable(full));
        found.map(|(number, _)| number).collect()
    }

    /// The LEBs that may be collected, in bytes: at least `least` can be had, and some of it is
    /// dirty. A LEB of the index counts if half of it can be had, and `with_index` is set (Linux
    /// `ubifs_find_dirty_leb`).
    pub fn collectable(&self, least: u32, with_index: bool) -> Vec<BlockView> {
        let SpaceLimits { leb_size, dead, .. } = self.limits;
        let is_worth = |leb: &LebProperties| match leb.is_index {
            true => with_index && leb.free + leb.dirty >= (leb_size / 2).max(least),
            false => leb.free + leb.dirty >= least && leb.dirty >= dead,
        };
        let is_offered = |leb: &Leb| !leb.is_taken && leb.properties.free < leb_size && is_worth(&leb.properties);
        let offered = self.all().filter(|(_, leb)| is_offered(leb));
        let views = offered.map(|(number, leb)| {
            let LebProperties { free, dirty, .. } = leb.properties;
            let (valid, invalid) = (u64::from(leb_size.saturating_sub(free + dirty)), u64::from(dirty));
            BlockView {
                block: number,
                valid,
                invalid,
                free: u64::from(free),
                erases: leb.erases,
                written: leb.written,
                first_written: leb.first_written,
                queue: Queue::of(valid, invalid, u64::from(free)),
                ..BlockView::default()
            }
        });
        views.collect()
    }

    /// LEBs of the index that are not taken, those with most dirty bytes first.
    pub fn dirtiest_of_index(&self) -> Vec<(u32, LebProperties)> {
        let mut found: Vec<(u32, LebProperties)> = self.free_to_use().filter(|(_, leb)| leb.is_index).collect();
        found.sort_by_key(|(number, leb)| (std::cmp::Reverse(leb.dirty + leb.free), *number));
        found
    }
}
