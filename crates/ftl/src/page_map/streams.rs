//! Streams: which open superblock a page goes to. The scheme comes from `cleaning`; this module
//! keeps what it needs to know of pages and superblocks.

use nandkit_cleaning::separation::{Datum, DatumKey, Separation, Separator, Stamp};
use nandkit_units::Nanos;

use super::frontier::Frontier;

/// The region of each open superblock, and the scheme that chooses regions; the scheme's regions
/// are followed by those of map pages and of cold data.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub frontiers: Vec<Frontier>,
    /// The regions of host writes and of copies, if the scheme chooses them independently of the
    /// page.
    fixed: Option<(u8, u8)>,
    map_region: u8,
    /// The region of cold data if there is static wear levelling, and whether cold data are being
    /// moved now.
    cold_region: Option<u8>,
    moves_cold: bool,
    separator: Separator,
    /// For each logical page: the datum passed to the scheme at its next decision. Empty if the
    /// scheme needs none.
    data: Vec<PageDatum>,
    /// For each superblock: its region, and when it was opened, in the scheme's time.
    regions: Vec<u8>,
    opened: Vec<Stamp>,
}

/// A [`Datum`] in eight bytes: the stamp, and the region in the lowest four bits. All ones mean
/// unknown.
#[derive(Clone, Copy, Debug)]
struct PageDatum(u64);

impl PageDatum {
    const UNKNOWN: Self = Self(u64::MAX);

    const fn new(datum: Datum) -> Self {
        Self((datum.stamp.0 << 4) | (datum.region & 15) as u64)
    }

    fn get(self) -> Option<Datum> {
        (self.0 != u64::MAX).then_some(Datum { region: (self.0 & 15) as u8, stamp: Stamp(self.0 >> 4) })
    }
}

impl Streams {
    /// Streams of a device without open superblocks.
    pub fn new(scheme: Separation, pages: usize, superblocks: usize, has_cold: bool) -> Self {
        let regions = scheme.regions();
        let fixed = match scheme {
            Separation::None => Some((0, 0)),
            Separation::UserMoved => Some((0, 1)),
            _ => None,
        };
        Self {
            frontiers: vec![Frontier::CLOSED; usize::from(regions) + 1 + usize::from(has_cold)],
            map_region: regions,
            cold_region: has_cold.then_some(regions + 1),
            moves_cold: false,
            fixed,
            separator: Separator::new(scheme),
            data: vec![PageDatum::UNKNOWN; if fixed.is_some() { 0 } else { pages }],
            regions: vec![0; superblocks],
            opened: vec![Stamp(0); superblocks],
        }
    }

    /// The region for a page that the host writes now.
    #[inline(always)]
    pub fn of_write(&mut self, page: u32, now: Nanos) -> u8 {
        match self.fixed {
            Some((host, _)) => host,
            None => self.ask_for_write(page, now),
        }
    }

    #[inline(never)]
    fn ask_for_write(&mut self, page: u32, now: Nanos) -> u8 {
        let Some(entry) = self.data.get_mut(page as usize) else { return 0 };
        let datum = self.separator.on_write(DatumKey(page.into()), entry.get(), now);
        *entry = PageDatum::new(datum);
        datum.region
    }

    /// The region of everything that cleaning moves, if the scheme has a single one.
    #[inline]
    pub fn of_all_copies(&self) -> Option<u8> {
        match self.moves_cold {
            true => self.cold_region,
            false => self.fixed.map(|(_, copies)| copies),
        }
    }

    /// The region for a page that is moved now.
    pub fn of_copy(&mut self, page: u32, now: Nanos) -> u8 {
        if let Some(copies) = self.of_all_copies() {
            return copies;
        }
        let Some(entry) = self.data.get_mut(page as usize) else { return 0 };
        let datum = self.separator.on_clean(DatumKey(page.into()), entry.get().unwrap_or_default(), now);
        *entry = PageDatum::new(datum);
        datum.region
    }

    /// The region of map pages.
    pub const fn map_region(&self) -> u8 {
        self.map_region
    }

    /// The region of cold data.
    pub const fn cold_region(&self) -> Option<u8> {
        self.cold_region
    }

    /// Sets whether the pages moved from now on are cold data.
    pub const fn move_as_cold(&mut self, moves_cold: bool) {
        self.moves_cold = moves_cold;
    }

    /// Records that `target` now shares the content of `source`.
    pub fn share(&mut self, source: u32, target: u32) {
        let datum = self.data.get(source as usize).copied();
        if let (Some(datum), Some(into)) = (datum, self.data.get_mut(target as usize)) {
            *into = datum;
        }
    }

    /// Records that a page has no content any more.
    #[inline]
    pub fn forget(&mut self, page: u32) {
        if let Some(entry) = self.data.get_mut(page as usize) {
            *entry = PageDatum::UNKNOWN;
        }
    }

    /// Records that a superblock was opened for a region.
    pub fn note_opened(&mut self, superblock: u32, region: u8, now: Nanos) {
        let stamp = self.separator.stamp(now);
        if let (Some(its), Some(opened)) =
            (self.regions.get_mut(superblock as usize), self.opened.get_mut(superblock as usize))
        {
            (*its, *opened) = (region, stamp);
        }
    }

    /// Records that a superblock is about to be cleaned.
    pub fn note_victim(&mut self, superblock: u32, now: Nanos) {
        if self.fixed.is_none() {
            let opened = self.opened.get(superblock as usize).copied().unwrap_or_default();
            self.separator.on_victim(self.region(superblock), opened, now);
        }
    }

    /// The region for which a superblock was last opened.
    pub fn region(&self, superblock: u32) -> u8 {
        self.regions.get(superblock as usize).copied().unwrap_or(0)
    }

    /// The number of regions for which cleaning may open a superblock.
    pub fn copy_regions(scheme: &Separation) -> u32 {
        let regions = u32::from(scheme.regions());
        match scheme {
            Separation::None => 1,
            // Only the host writes to the first one or two regions.
            Separation::UserMoved | Separation::Chain { .. } => regions.max(2) - 1,
            Separation::SepBit => 4,
            Separation::Known { .. }
            | Separation::Dac { .. }
            | Separation::Interval { .. }
            | Separation::Frequency(_) => regions,
        }
    }
}
