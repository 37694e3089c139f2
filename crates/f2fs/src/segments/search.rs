//! The search over dirty segments or sections that SSR and the collector share (gc.c, `get_victim_by_default`; f2fs-writing.md, "Allocation", "Collection").

use super::bitmap::Bitmap;

/// Most candidates that a search looks at, except those of the foreground collector (gc.h, DEF_MAX_VICTIM_SEARCH).
pub const MOST_LOOKED_AT: u32 = 4096;

/// Where a kind of search goes on next time, as a segment. Greedy ones (SSR, foreground collection) share one, cost-benefit has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u32);

/// One search.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// What is looked at: segments, or sections where `unit` is more than 1.
    pub candidates: &'a Bitmap,
    /// Segments of a candidate.
    pub unit: u32,
    /// The first segment to look at; the cursor's place if `None`.
    pub start: Option<u32>,
    /// How many candidates are looked at.
    pub most: u32,
    /// Costs from this on are not taken.
    pub limit: u64,
}

impl Search<'_> {
    /// The candidate of the least cost, the first one among equals; `None` as a cost passes one over, which counts as looked at nevertheless.
    ///
    /// From the start up to the end, and if that is not enough, from 0 up to where the cursor stood. The cursor then stands behind the last candidate looked at; if that
    /// was on the second leg, not behind where it stood, it moves on by one unit. A search that finds its candidates at an end leaves it at 0.
    /// Cost: the candidates looked at, and a word for each 64 units between.
    pub fn run(&self, cursor: &mut Cursor, mut cost: impl FnMut(u32) -> Option<u64>) -> Option<u32> {
        if self.most == 0 || self.unit == 0 {
            return None;
        }
        let stood = cursor.0;
        let mut best = None;
        let mut least = self.limit;
        let mut left = self.most;
        let legs = [(self.start.unwrap_or(stood) / self.unit, self.candidates.length()), (0, stood / self.unit)];
        for (leg, (mut from, end)) in legs.into_iter().enumerate() {
            if leg == 1 {
                if stood == 0 {
                    break;
                }
                cursor.0 = 0;
            }
            while let Some(candidate) = self.candidates.next(from, end) {
                from = candidate + 1;
                if let Some(cost) = cost(candidate).filter(|&cost| cost < least) {
                    (least, best) = (cost, Some(candidate));
                }
                left -= 1;
                if left == 0 {
                    self.remember(cursor, stood, candidate * self.unit);
                    return best;
                }
            }
        }
        best
    }

    fn remember(&self, cursor: &mut Cursor, stood: u32, last: u32) {
        let segments = u64::from(self.candidates.length()) * u64::from(self.unit);
        let behind = if cursor.0 == 0 && last <= stood { stood } else { last };
        cursor.0 = ((u64::from(behind) + u64::from(self.unit)) % segments.max(1)) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirty(segments: &[u32]) -> Bitmap {
        let mut bitmap = Bitmap::new(100);
        for &segment in segments {
            bitmap.insert(segment);
        }
        bitmap
    }

    #[test]
    fn the_first_of_equals_wins_and_the_cursor_goes_behind_the_last_looked_at() {
        let candidates = dirty(&[3, 10, 20, 30]);
        let search = Search { candidates: &candidates, unit: 1, start: Some(0), most: 4, limit: 512 };
        let mut cursor = Cursor(0);
        let costs = |segment| Some(if segment == 3 { 9 } else { 7 });
        assert_eq!((search.run(&mut cursor, costs), cursor), (Some(10), Cursor(31)));
        // From the cursor: nothing behind it, so from 0 again, up to it.
        let search = Search { start: None, most: 2, ..search };
        assert_eq!(search.run(&mut cursor, costs), Some(10));
        // The last one, 10, was before the place where the cursor stood.
        assert_eq!(cursor, Cursor(32));
    }

    #[test]
    fn the_limit_is_not_taken_and_no_candidate_leaves_the_cursor() {
        let candidates = dirty(&[3, 10]);
        let search = Search { candidates: &candidates, unit: 1, start: None, most: 2, limit: 512 };
        let mut cursor = Cursor(7);
        assert_eq!(search.run(&mut cursor, |_| Some(512)), None);
        assert_eq!(Search { most: 0, ..search }.run(&mut cursor, |_| Some(1)), None);
        assert_eq!(search.run(&mut Cursor(7), |segment| (segment != 3).then_some(1)), Some(10));
    }

    #[test]
    fn sections_are_counted_in_segments() {
        let candidates = dirty(&[3, 10]);
        let search = Search { candidates: &candidates, unit: 4, start: None, most: 1, limit: 512 };
        let mut cursor = Cursor(16);
        assert_eq!((search.run(&mut cursor, |_| Some(1)), cursor), (Some(10), Cursor(44)));
    }
}
