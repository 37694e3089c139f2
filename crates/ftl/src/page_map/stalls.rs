//! What the host waits for: the erase of a superblock, and the cleaning before it; and the duration
//! of checkpoints. See `docs/design/09-requests-in-time.md`.

use nandkit_flash::Flash;
use nandkit_units::Nanos;

use super::PageMapFtl;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The number of host requests that waited.
    pub count: u64,
    /// The sum of their waits.
    pub total: Nanos,
    /// The longest wait since the device was made or attached.
    pub longest: Nanos,
}

impl Waits {
    pub(super) fn add(&mut self, wait: Nanos) {
        self.count += 1;
        self.total += wait;
        self.longest = self.longest.max(wait);
    }

    /// The difference from an earlier snapshot; the longest wait is that of the whole time. A wait
    /// that was in progress at the snapshot and has changed its kind since does not make the
    /// difference negative.
    pub const fn since(&self, earlier: &Self) -> Self {
        let total = Nanos(self.total.0.saturating_sub(earlier.total.0));
        Self { count: self.count.saturating_sub(earlier.count), total, longest: self.longest }
    }
}

/// Waits of host requests for the erase of the superblock that their pages go to: one wait per
/// request, the longest among its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallCounters {
    /// Waits for an erase alone: the superblock had been released before.
    pub erases: Waits,
    /// Waits for cleaning, and for the erase after it.
    pub cleaning: Waits,
    /// The time in which at least one request waited.
    pub stalled: Nanos,
    /// Stalls by length: element i counts stalls of at least 2^i but less than 2^(i + 1)
    /// microseconds; shorter ones are in the first element.
    pub by_length: [u64; Self::LENGTHS],
    /// Checkpoints made by host requests, from the end of earlier work to their last program: no
    /// request waits longer for one.
    pub checkpoints: Waits,
}

impl StallCounters {
    /// The number of length classes; the last one begins at 34 seconds.
    pub const LENGTHS: usize = 26;

    fn add(&mut self, wait: Nanos, by_cleaning: bool) {
        if by_cleaning {
            self.cleaning.add(wait)
        } else {
            self.erases.add(wait)
        }
        let place = ((wait.0 / 1000).max(1).ilog2() as usize).min(Self::LENGTHS - 1);
        if let Some(count) = self.by_length.get_mut(place) {
            *count += 1;
        }
    }

    /// The difference from an earlier snapshot. A request that was waiting then and has waited
    /// longer since may have changed its length and kind; no count becomes negative.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut by_length = self.by_length;
        by_length.iter_mut().zip(&earlier.by_length).for_each(|(now, earlier)| *now = now.saturating_sub(*earlier));
        Self {
            erases: self.erases.since(&earlier.erases),
            cleaning: self.cleaning.since(&earlier.cleaning),
            stalled: self.stalled.since(earlier.stalled),
            by_length,
            checkpoints: self.checkpoints.since(&earlier.checkpoints),
        }
    }
}

/// The stalls so far, and the request that waits now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stalls {
    counted: StallCounters,
    /// The current request, identified by the logical pages requested so far including its own, and
    /// the number of flushes.
    request: (u64, u64),
    /// Its longest wait so far, and whether that was for cleaning; zero if it has not waited.
    longest: Nanos,
    by_cleaning: bool,
    /// The time up to which the union of all waits is counted.
    until: Nanos,
    /// The number of flushes so far.
    flushes: u64,
    /// For each region, as bits: whether cleaning was needed to open its superblock.
    cleaned_for: u64,
}

impl Stalls {
    /// Records the start of a flush: later waits belong to another request.
    pub const fn note_flush(&mut self) {
        self.flushes += 1;
    }

    /// Records that a superblock was opened for a region.
    pub const fn note_opened(&mut self, region: u8, by_cleaning: bool) {
        let bit = 1 << (region & 63);
        self.cleaned_for = if by_cleaning { self.cleaned_for | bit } else { self.cleaned_for & !bit };
    }

    /// Records that a page waited from one time to another.
    fn note(&mut self, pages: u64, region: u8, (from, to): (Nanos, Nanos)) {
        let request = (pages, self.flushes);
        if request != self.request {
            *self = Self { counted: self.counters(), request, longest: Nanos::ZERO, by_cleaning: false, ..*self };
        }
        let wait = to.since(from);
        if wait > self.longest {
            (self.longest, self.by_cleaning) = (wait, self.cleaned_for >> (region & 63) & 1 == 1);
        }
        self.counted.stalled += to.since(from.max(self.until));
        self.until = self.until.max(to);
    }

    /// The counters, including the request that waited last.
    pub fn counters(&self) -> StallCounters {
        let mut counted = self.counted;
        if self.longest > Nanos::ZERO {
            counted.add(self.longest, self.by_cleaning);
        }
        counted
    }

    /// Records the duration of a checkpoint.
    pub fn note_checkpoint(&mut self, length: Nanos) {
        self.counted.checkpoints.add(length);
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Records that a page must wait for the erase of its region's superblock.
    #[cold]
    #[inline(never)]
    pub(super) fn note_wait(&mut self, region: u8, issued: Nanos, ready: Nanos) {
        // Map pages are written when no request waits for them, or in a checkpoint.
        if region != self.streams.map_region() {
            self.stalls.note(self.counters.host_page_writes, region, (issued, ready));
        }
    }
}

impl<F> PageMapFtl<F> {
    /// The waits of host requests since the device was made or attached. A device with a write
    /// buffer counts the pages that leave the buffer: its host waits only for room there
    /// ([`PageMapCounters::buffer_wait`](super::PageMapCounters::buffer_wait)).
    pub fn stalls(&self) -> StallCounters {
        self.stalls.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_once_as_long_as_its_longest_page_and_times_that_overlap_count_once() {
        let mut stalls = Stalls::default();
        let between = |from: u64, to: u64| (Nanos(from * 1000), Nanos(to * 1000));
        stalls.note_opened(1, true);
        // Three pages of a request, two of the next one; the third request overlaps with both.
        stalls.note(3, 0, between(0, 10));
        stalls.note(3, 1, between(0, 30));
        stalls.note(3, 0, between(0, 10));
        stalls.note(5, 0, between(20, 40));
        stalls.note(5, 0, between(20, 40));
        stalls.note(6, 0, between(39, 45));
        let counted = stalls.counters();
        let waits = |count, total, longest| Waits { count, total: Nanos(total), longest: Nanos(longest) };
        assert_eq!(counted.cleaning, waits(1, 30_000, 30_000));
        assert_eq!(counted.erases, waits(2, 26_000, 20_000));
        assert_eq!(counted.stalled, Nanos(45_000));
        assert_eq!((counted.by_length[2], counted.by_length[4], counted.by_length.iter().sum::<u64>()), (1, 2, 3));
        // A flush that drains the write buffer is a request of its own, and a region's next
        // superblock may be available without cleaning.
        stalls.note_flush();
        stalls.note_opened(1, false);
        stalls.note(6, 1, between(100, 101));
        let later = stalls.counters().since(&counted);
        assert_eq!((later.erases.count, later.cleaning.count, later.stalled), (1, 0, Nanos(1000)));
        assert_eq!(stalls.counters(), stalls.counters());
    }

    /// The first page of a request waits for an erase, a later one waits longer, and for cleaning:
    /// a snapshot is taken between the two.
    #[test]
    fn a_request_that_waits_on_between_two_looks_takes_nothing_below_zero() {
        let mut stalls = Stalls::default();
        stalls.note(4, 0, (Nanos(0), Nanos(5_000)));
        let look = stalls.counters();
        stalls.note_opened(1, true);
        stalls.note(4, 1, (Nanos(0), Nanos(90_000)));
        let since = stalls.counters().since(&look);
        assert_eq!((since.erases.count, since.cleaning.count, since.stalled), (0, 1, Nanos(85_000)));
        assert_eq!((since.by_length[2], since.by_length[6]), (0, 1));
    }
}
