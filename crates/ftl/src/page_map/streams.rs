//! Streams: which open superblock a page goes to. The scheme is one of `cleaning`; here is what it
//! needs to remember of pages and superblocks.

use nandkit_cleaning::separation::{Datum, DatumKey, Separation, Separator, Stamp};
use nandkit_units::Nanos;

use super::frontier::Frontier;

/// Open superblocks by region, and the scheme that names the region; behind its regions that of map
/// pages, and that of data that rest.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub frontiers: Vec<Frontier>,
    /// The regions of host writes and of copies, where the scheme has one for each whatever the
    /// page.
    fixed: Option<(u8, u8)>,
    map_region: u8,
    /// The region of data that rest, where there is static wear levelling; and whether that is what
    /// is moved now.
    cold_region: Option<u8>,
    moves_cold: bool,
    separator: Separator,
    /// By logical page: what the scheme is shown with its next question. Empty where it asks
    /// nothing.
    data: Vec<PageDatum>,
    /// By superblock: its region, and when it was opened on the scheme's scale.
    regions: Vec<u8>,
    opened: Vec<Stamp>,
}

/// A [`Datum`] in eight bytes: the stamp, and the region in the lowest four bits. All ones: nothing
/// is known.
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
    /// Nothing is open.
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

    /// Where a page goes that the host writes now.
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

    /// The region of everything that cleaning moves, where the scheme has one for all.
    #[inline]
    pub fn of_all_copies(&self) -> Option<u8> {
        match self.moves_cold {
            true => self.cold_region,
            false => self.fixed.map(|(_, copies)| copies),
        }
    }

    /// Where a page goes that is moved now.
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

    /// The region of data that rest.
    pub const fn cold_region(&self) -> Option<u8> {
        self.cold_region
    }

    /// Whether what is moved from now on are data that rest.
    pub const fn move_as_cold(&mut self, moves_cold: bool) {
        self.moves_cold = moves_cold;
    }

    /// A page holds what another one holds.
    pub fn share(&mut self, source: u32, target: u32) {
        let datum = self.data.get(source as usize).copied();
        if let (Some(datum), Some(into)) = (datum, self.data.get_mut(target as usize)) {
            *into = datum;
        }
    }

    /// A page holds nothing any more.
    #[inline]
    pub fn forget(&mut self, page: u32) {
        if let Some(entry) = self.data.get_mut(page as usize) {
            *entry = PageDatum::UNKNOWN;
        }
    }

    /// A superblock was opened for a region.
    pub fn note_opened(&mut self, superblock: u32, region: u8, now: Nanos) {
        let stamp = self.separator.stamp(now);
        if let (Some(its), Some(opened)) =
            (self.regions.get_mut(superblock as usize), self.opened.get_mut(superblock as usize))
        {
            (*its, *opened) = (region, stamp);
        }
    }

    /// A superblock is about to be cleaned.
    pub fn note_victim(&mut self, superblock: u32, now: Nanos) {
        if self.fixed.is_none() {
            let opened = self.opened.get(superblock as usize).copied().unwrap_or_default();
            self.separator.on_victim(self.region(superblock), opened, now);
        }
    }

    /// The region that a superblock was opened for last.
    pub fn region(&self, superblock: u32) -> u8 {
        self.regions.get(superblock as usize).copied().unwrap_or(0)
    }

    /// How many regions cleaning may open a superblock for.
    pub fn copy_regions(scheme: &Separation) -> u32 {
        let regions = u32::from(scheme.regions());
        match scheme {
            Separation::None => 1,
            // The host alone writes to the first one, or the first two.
            Separation::UserMoved | Separation::Chain { .. } => regions.max(2) - 1,
            Separation::SepBit => 4,
            Separation::Known { .. }
            | Separation::Dac { .. }
            | Separation::Interval { .. }
            | Separation::Frequency(_) => regions,
        }
    }
}
