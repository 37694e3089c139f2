//! Age-threshold SSR (Linux since 5.10, `fs/f2fs/gc.c`, `atssr_lookup_victim`): chooses the used
//! segment that receives blocks moved by the collector, so that blocks of similar age end up
//! together and no free segment is taken.

/// The parameters of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgedGaps {
    /// How much older than the youngest segment a candidate must be, in seconds.
    pub threshold: u64,
    /// The share of candidates considered on each side of the wanted age, in per cent.
    pub percent: u32,
    /// The least number of candidates considered on each side.
    pub least: u32,
}

impl AgedGaps {
    /// Linux's values: seven days, 20 %, 10 (gc.h, DEF_GC_THREAD_*).
    pub const LINUX: Self = Self { threshold: 7 * 86_400, percent: 20, least: 10 };
}

/// A used segment with gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgedSegment {
    /// Number of the segment.
    pub segment: u32,
    /// The mean time of its changes, in seconds.
    pub modified: u64,
    /// Valid blocks at the last checkpoint.
    pub valid: u32,
}

impl AgedGaps {
    /// Considers the candidates nearest in age to the source, on each side as many as the
    /// parameters say, and takes the one with the most valid blocks, because it would be collected
    /// last; among equals the nearest in age, then the lowest number. Skips segments without a gap.
    /// If none is old enough, ignores the threshold. Cost: `n log n`.
    pub fn choose(&self, segments: &[AgedSegment], capacity: u32, source_modified: u64) -> Option<u32> {
        let youngest = segments.iter().map(|segment| segment.modified).max()?;
        let is_old = |segment: &&AgedSegment| youngest - segment.modified >= self.threshold;
        let mut candidates: Vec<&AgedSegment> = segments.iter().filter(is_old).collect();
        if candidates.is_empty() {
            candidates = segments.iter().collect();
        }
        let share = candidates.len() as u64 * u64::from(self.percent) / 100;
        let window = usize::try_from(share.max(self.least.into())).unwrap_or(usize::MAX);
        candidates.retain(|segment| segment.valid < capacity);
        candidates.sort_unstable_by_key(|segment| (segment.modified, segment.segment));
        let place = candidates.partition_point(|segment| segment.modified < source_modified);
        let around = place.saturating_sub(window)..place.saturating_add(window).min(candidates.len());
        let near = candidates.get(around)?.iter();
        let best = near.min_by_key(|segment| {
            (u32::MAX - segment.valid, segment.modified.abs_diff(source_modified), segment.segment)
        })?;
        Some(best.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(segment: u32, modified: u64, valid: u32) -> AgedSegment {
        AgedSegment { segment, modified, valid }
    }

    #[test]
    fn of_segments_about_as_old_the_fullest_is_filled() {
        let rule = AgedGaps { threshold: 10, percent: 0, least: 1 };
        let segments = [
            segment(1, 100, 300),
            segment(2, 110, 200),
            segment(3, 120, 511),
            segment(4, 125, 512),
            segment(5, 195, 510),
            segment(6, 200, 509),
        ];
        // One older than 112 and one not: the fuller of 2 and 3.
        assert_eq!(rule.choose(&segments, 512, 112), Some(3));
        assert_eq!(rule.choose(&segments, 512, 105), Some(1));
        // 4 has no gap, 5 and 6 are too young.
        assert_eq!(rule.choose(&segments, 512, 190), Some(3));
        assert_eq!(AgedGaps { least: 5, ..rule }.choose(&segments, 512, 105), Some(3));
        // Nothing is seven days old.
        assert_eq!(AgedGaps::LINUX.choose(&segments, 512, 105), Some(3));
        assert_eq!(AgedGaps::LINUX.choose(&segments[3..4], 512, 105), None);
        assert_eq!(AgedGaps::LINUX.choose(&[], 512, 105), None);
    }

    #[test]
    fn equal_ones_go_by_age_and_then_by_number() {
        let segments = [segment(9, 50, 100), segment(7, 60, 100), segment(3, 60, 100), segment(1, 90, 100)];
        assert_eq!(AgedGaps::LINUX.choose(&segments, 512, 62), Some(3));
        assert_eq!(AgedGaps::LINUX.choose(&segments, 512, 51), Some(9));
    }
}
