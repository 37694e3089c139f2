//! Dirty and prefree segments (segment.c, `locate_dirty_segment`): candidates for SSR and the
//! collector, and segments that the next checkpoint frees.

use super::bitmap::Bitmap;
use super::sit::{BLOCKS, Sit};
use crate::ids::{Log, SegmentIndex};

/// The lists. Segments of logs and prepared segments are in none.
#[derive(Clone, Debug)]
pub struct DirtySegments {
    by_kind: [Bitmap; Log::COUNT],
    all: Bitmap,
    prefree: Bitmap,
    /// Sections with valid and invalid blocks; maintained if a section has several segments.
    sections: Bitmap,
    chosen: Bitmap,
    per_section: u32,
}

impl DirtySegments {
    /// Empty lists of a volume.
    pub fn new(segments: u32, per_section: u32) -> Self {
        let per_section = per_section.max(1);
        Self {
            by_kind: std::array::from_fn(|_| Bitmap::new(segments)),
            all: Bitmap::new(segments),
            prefree: Bitmap::new(segments),
            sections: Bitmap::new(segments / per_section),
            chosen: Bitmap::new(segments / per_section),
            per_section,
        }
    }

    /// Dirty segments of a type.
    pub fn of(&self, kind: Log) -> &Bitmap {
        &self.by_kind[kind.index()]
    }

    /// Dirty segments of all types, which have valid and invalid blocks.
    pub fn all(&self) -> &Bitmap {
        &self.all
    }

    /// What the collector chooses from: segments if each section has one, else sections.
    pub fn units(&self) -> &Bitmap {
        if self.per_section == 1 { &self.all } else { &self.sections }
    }

    /// Segments without valid blocks, which the next checkpoint frees.
    pub fn prefree(&self) -> &Bitmap {
        &self.prefree
    }

    /// Sections that background collection chose and that are not yet empty.
    pub fn chosen(&self) -> &Bitmap {
        &self.chosen
    }

    /// Notes that background collection chose a section.
    pub fn choose(&mut self, section: u32) {
        self.chosen.insert(section);
    }

    /// Forgets a chosen section because the foreground takes it.
    pub fn forget_choice(&mut self, section: u32) {
        self.chosen.remove(section);
    }

    /// Puts a segment into the list for its valid blocks; it must be neither a log's nor prepared.
    #[inline]
    pub fn locate(&mut self, sit: &Sit, segment: SegmentIndex) {
        match sit.valid(segment) {
            0 => {
                self.prefree.insert(segment.0);
                self.remove(sit, segment);
            }
            BLOCKS.. => self.remove(sit, segment),
            _ => {
                self.all.insert(segment.0);
                self.by_kind[sit.kind(segment).index()].insert(segment.0);
                self.locate_section(sit, segment);
            }
        }
    }

    /// Removes a segment from the dirty lists because a log took it or it is full or empty. Its
    /// type must be unchanged since it was added.
    pub fn remove(&mut self, sit: &Sit, segment: SegmentIndex) {
        if self.all.remove(segment.0) {
            self.by_kind[sit.kind(segment).index()].remove(segment.0);
        }
        let section = segment.0 / self.per_section;
        if sit.section_valid(section) == 0 {
            self.chosen.remove(section);
        }
        self.locate_section(sit, segment);
    }

    /// Removes a segment that a log takes from the dirty and prefree lists.
    pub fn take(&mut self, sit: &Sit, segment: SegmentIndex) {
        self.prefree.remove(segment.0);
        self.remove(sit, segment);
    }

    fn locate_section(&mut self, sit: &Sit, segment: SegmentIndex) {
        if self.per_section == 1 {
            return;
        }
        let section = segment.0 / self.per_section;
        let valid = sit.section_valid(section);
        if valid == 0 || valid == self.per_section * u32::from(BLOCKS) {
            self.sections.remove(section);
        } else {
            self.sections.insert(section);
        }
    }

    /// Takes the prefree segments after the checkpoint that frees them.
    pub fn take_prefree(&mut self) -> Bitmap {
        let empty = Bitmap::new(self.prefree.length());
        std::mem::replace(&mut self.prefree, empty)
    }
}
