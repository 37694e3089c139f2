//! Free segments and sections, and the search for the next one (segment.c, `get_new_segment`;
//! f2fs-writing.md, "Allocation").

use super::bitmap::Bitmap;
use crate::ids::{Log, SegmentIndex};

/// Free segments and sections. A segment is free if the last checkpoint uses none of its blocks and
/// no log writes it; a section is free if all its segments are.
#[derive(Clone, Debug)]
pub struct FreeMap {
    used: Bitmap,
    used_sections: Bitmap,
    per_section: u32,
    sections_per_zone: u32,
}

impl FreeMap {
    /// A map in which everything is free.
    pub fn new(segments: u32, per_section: u32, sections_per_zone: u32) -> Self {
        let (per_section, sections_per_zone) = (per_section.max(1), sections_per_zone.max(1));
        let used_sections = Bitmap::new(segments / per_section);
        Self { used: Bitmap::new(segments), used_sections, per_section, sections_per_zone }
    }

    /// The number of free segments. Cost: a subtraction.
    #[inline]
    pub const fn segments(&self) -> u32 {
        self.used.length() - self.used.count()
    }

    /// The number of free sections.
    #[inline]
    pub const fn sections(&self) -> u32 {
        self.used_sections.length() - self.used_sections.count()
    }

    /// Whether a segment is free.
    #[inline]
    pub fn is_free(&self, segment: SegmentIndex) -> bool {
        segment.0 < self.used.length() && !self.used.has(segment.0)
    }

    /// The section of a segment.
    #[inline]
    pub const fn section(&self, segment: SegmentIndex) -> u32 {
        segment.0 / self.per_section
    }

    /// The zone of a segment.
    pub const fn zone(&self, segment: SegmentIndex) -> u32 {
        segment.0 / self.per_section / self.sections_per_zone
    }

    /// Marks a segment as used; returns whether it was free.
    pub fn take(&mut self, segment: SegmentIndex) -> bool {
        self.used_sections.insert(self.section(segment));
        self.used.insert(segment.0)
    }

    /// Marks a segment as free. `current`: a log writes in its section, which therefore is not
    /// free.
    pub fn give(&mut self, segment: SegmentIndex, current: bool) {
        self.used.remove(segment.0);
        let section = self.section(segment);
        let start = section * self.per_section;
        if !current && self.used.next(start, start + self.per_section).is_none() {
            self.used_sections.remove(section);
        }
    }

    /// The next segment of the section, if it exists and is free; a log always continues there.
    pub fn following(&self, segment: SegmentIndex) -> Option<SegmentIndex> {
        let next = SegmentIndex(segment.0.checked_add(1)?);
        (!next.0.is_multiple_of(self.per_section) && self.is_free(next)).then_some(next)
    }

    /// The next free segment for a log, searching from `hint`: the rest of the hint's section, else
    /// the first free section from the hint's on, wrapping around. With zones of several sections,
    /// if that section is in another zone than the hint's and a log (`zones`) is in that zone,
    /// takes the first free section from the next zone on, whatever its zone. `None` if no section
    /// is free.
    pub fn find(&self, hint: SegmentIndex, zones: &[u32; Log::COUNT]) -> Option<SegmentIndex> {
        let section = self.section(hint);
        let rest = (section + 1).saturating_mul(self.per_section);
        if let Some(segment) = self.used.next_absent(hint.0.saturating_add(1), rest) {
            return Some(SegmentIndex(segment));
        }
        let found = self.free_section(section)?;
        let first = SegmentIndex(found * self.per_section);
        let zone = self.zone(first);
        if self.sections_per_zone == 1 || zone == self.zone(hint) || !zones.contains(&zone) {
            return Some(first);
        }
        let next_zone = (zone + 1) * self.sections_per_zone;
        let from = if next_zone >= self.used_sections.length() { 0 } else { next_zone };
        Some(SegmentIndex(self.free_section(from)? * self.per_section))
    }

    fn free_section(&self, from: u32) -> Option<u32> {
        let all = self.used_sections.length();
        self.used_sections.next_absent(from, all).or_else(|| self.used_sections.next_absent(0, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ZONES: [u32; Log::COUNT] = [u32::MAX; Log::COUNT];

    #[test]
    fn a_section_goes_on_before_another_begins() {
        let mut free = FreeMap::new(12, 3, 1);
        for segment in [0, 3, 4] {
            free.take(SegmentIndex(segment));
        }
        assert_eq!((free.segments(), free.sections()), (9, 2));
        assert_eq!(free.find(SegmentIndex(3), &NO_ZONES), Some(SegmentIndex(5)));
        assert_eq!(free.find(SegmentIndex(5), &NO_ZONES), Some(SegmentIndex(6)));
        assert_eq!((free.following(SegmentIndex(0)), free.following(SegmentIndex(2))), (Some(SegmentIndex(1)), None));
        for segment in 6..12 {
            free.take(SegmentIndex(segment));
        }
        // Section 0 has free segments but is not free.
        assert_eq!(free.find(SegmentIndex(11), &NO_ZONES), None);
        free.give(SegmentIndex(0), true);
        assert_eq!(free.sections(), 0);
        free.take(SegmentIndex(0));
        free.give(SegmentIndex(0), false);
        assert_eq!(free.find(SegmentIndex(11), &NO_ZONES), Some(SegmentIndex(0)));
    }

    #[test]
    fn zones_of_other_logs_are_avoided_once() {
        let mut free = FreeMap::new(8, 1, 2);
        free.take(SegmentIndex(0));
        free.take(SegmentIndex(1));
        let mut zones = NO_ZONES;
        zones[1] = 1;
        assert_eq!(free.find(SegmentIndex(1), &zones), Some(SegmentIndex(4)));
        zones[2] = 2;
        // The second choice is final.
        assert_eq!(free.find(SegmentIndex(1), &zones), Some(SegmentIndex(4)));
    }
}
