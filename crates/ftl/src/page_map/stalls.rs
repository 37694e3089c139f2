//! What the host waits for: a superblock that is being erased, and the cleaning before that; and
//! how long checkpoints take. See `docs/design/09-requests-in-time.md`.

use nandkit_flash::Flash;
use nandkit_units::Nanos;

use super::PageMapFtl;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Requests of the host that waited.
    pub count: u64,
    /// The sum of their waits.
    pub total: Nanos,
    /// The longest of them since the device was made or found.
    pub longest: Nanos,
}

impl Waits {
    pub(super) fn add(&mut self, wait: Nanos) {
        self.count += 1;
        self.total += wait;
        self.longest = self.longest.max(wait);
    }

    /// Those since an earlier look; the longest is that of all. A wait that went on since, and was
    /// counted as another kind when it was looked at, is none less.
    pub const fn since(&self, earlier: &Self) -> Self {
        let total = Nanos(self.total.0.saturating_sub(earlier.total.0));
        Self { count: self.count.saturating_sub(earlier.count), total, longest: self.longest }
    }
}

/// What requests of the host waited for until the superblock was erased that their pages go to: one
/// wait for each request, the longest among its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallCounters {
    /// Waits for an erase alone: the superblock had been released before.
    pub erases: Waits,
    /// Waits for cleaning, and for the erase behind it.
    pub cleaning: Waits,
    /// The time in which at least one request waited.
    pub stalled: Nanos,
    /// Stalls by length: element i counts those of 2^i microseconds and more, but less than twice
    /// as long; shorter ones than two microseconds are in the first.
    pub by_length: [u64; Self::LENGTHS],
    /// Checkpoints that the host's requests made, from the end of what had been asked before to
    /// their last program: no request waits longer for one.
    pub checkpoints: Waits,
}

impl StallCounters {
    /// How many lengths are told apart: the last one begins at 34 seconds.
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

    /// What was counted since an earlier look. A request that waited then, and longer since, is
    /// counted by what it has become: its length and its kind may be others, and nothing is below
    /// zero.
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
    /// The request whose pages are being written: the logical pages that had been asked for with
    /// it, and the flushes.
    request: (u64, u64),
    /// Its longest wait so far, and whether for cleaning; zero where none has waited.
    longest: Nanos,
    by_cleaning: bool,
    /// Up to when the union of all waits is counted.
    until: Nanos,
    /// Flushes so far.
    flushes: u64,
    /// By region, as bits: whether the superblock that is open there had to be cleaned for.
    cleaned_for: u64,
}

impl Stalls {
    /// A flush begins: what waits from now on is another request's.
    pub const fn note_flush(&mut self) {
        self.flushes += 1;
    }

    /// A superblock was opened for a region.
    pub const fn note_opened(&mut self, region: u8, by_cleaning: bool) {
        let bit = 1 << (region & 63);
        self.cleaned_for = if by_cleaning { self.cleaned_for | bit } else { self.cleaned_for & !bit };
    }

    /// A page waited from one instant to another.
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

    /// What was counted, with the request that was the last to wait.
    pub fn counters(&self) -> StallCounters {
        let mut counted = self.counted;
        if self.longest > Nanos::ZERO {
            counted.add(self.longest, self.by_cleaning);
        }
        counted
    }

    /// A checkpoint took so long.
    pub fn note_checkpoint(&mut self, length: Nanos) {
        self.counted.checkpoints.add(length);
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// A page has to wait until the superblock of its region is erased.
    #[cold]
    #[inline(never)]
    pub(super) fn note_wait(&mut self, region: u8, issued: Nanos, ready: Nanos) {
        // Pages of the map wait where nobody waits for them, or in a checkpoint.
        if region != self.streams.map_region() {
            self.stalls.note(self.counters.host_page_writes, region, (issued, ready));
        }
    }
}

impl<F> PageMapFtl<F> {
    /// What requests of the host waited for since the device was made or found. A device with a
    /// write buffer is told of the pages that leave it: its host waits for room there alone
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
        // Three pages of a request, two of the next one, and the request after that overlaps with
        // both.
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
        // A flush that drives pages out of the write buffer is a request of its own, and a region's
        // next superblock may come without cleaning.
        stalls.note_flush();
        stalls.note_opened(1, false);
        stalls.note(6, 1, between(100, 101));
        let later = stalls.counters().since(&counted);
        assert_eq!((later.erases.count, later.cleaning.count, later.stalled), (1, 0, Nanos(1000)));
        assert_eq!(stalls.counters(), stalls.counters());
    }

    /// The first page of a request waits for an erase, a later one longer, and for cleaning:
    /// between the two somebody looks.
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
