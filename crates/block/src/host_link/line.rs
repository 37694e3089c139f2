//! A resource that serves one request at a time: a controller, or a direction of a link.

use nandkit_units::Nanos;

/// Most busy spans: more than the separate requests that can be in flight. Beyond it, the oldest
/// spans are merged.
const SPANS_MAX: usize = 4096;

/// The busy spans of a resource. A request that is ready earlier may use a gap before an earlier
/// request, as a queue returns its answers in the order in which they become ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// Sorted spans from start to end, with gaps between them.
    busy: Vec<(u64, u64)>,
}

impl Line {
    /// Occupies the resource for `span` from the first time at or after `ready` at which it is free
    /// that long; returns the end. An empty span ends at `ready` and occupies nothing.
    pub fn take(&mut self, ready: Nanos, span: u64) -> Nanos {
        if span == 0 {
            return ready;
        }
        let mut start = ready.0;
        // Spans that end at or before `ready` do not matter.
        let mut index = self.busy.partition_point(|(_, end)| *end <= start);
        while let Some((from, to)) = self.busy.get(index) {
            if start.saturating_add(span) <= *from {
                break;
            }
            start = *to;
            index += 1;
        }
        let end = start.saturating_add(span);
        self.insert(index, (start, end));
        Nanos(end)
    }

    /// Inserts a span before the one at `index`, and merges it with adjacent ones.
    fn insert(&mut self, index: usize, (start, end): (u64, u64)) {
        let follows = index.checked_sub(1).and_then(|before| self.busy.get(before)).is_some_and(|span| span.1 == start);
        let precedes = self.busy.get(index).is_some_and(|span| span.0 == end);
        match (follows, precedes) {
            (true, true) => {
                let (_, last) = self.busy.remove(index);
                self.lengthen(index - 1, last);
            }
            (true, false) => self.lengthen(index - 1, end),
            (false, true) => {
                if let Some(span) = self.busy.get_mut(index) {
                    span.0 = start;
                }
            }
            (false, false) => self.busy.insert(index, (start, end)),
        }
        if self.busy.len() > SPANS_MAX {
            self.forget();
        }
    }

    fn lengthen(&mut self, index: usize, end: u64) {
        if let Some(span) = self.busy.get_mut(index) {
            span.1 = end;
        }
    }

    /// Merges the older half into one span: its gaps are lost.
    fn forget(&mut self) {
        let half = self.busy.len() / 2;
        let end = self.busy.get(half - 1).map_or(0, |span| span.1);
        self.busy.drain(1..half);
        self.lengthen(0, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ready_earlier_goes_into_a_gap() {
        let mut line = Line::default();
        assert_eq!(line.take(Nanos(100), 50), Nanos(150));
        assert_eq!(line.take(Nanos(300), 50), Nanos(350));
        // Fits exactly between, then no more.
        assert_eq!(line.take(Nanos(120), 150), Nanos(300));
        assert_eq!(line.busy, [(100, 350)]);
        assert_eq!(line.take(Nanos(0), 101), Nanos(451));
        assert_eq!(line.take(Nanos(0), 100), Nanos(100));
        assert_eq!(line.take(Nanos(40), 0), Nanos(40));
        assert_eq!(line.busy, [(0, 451)]);
    }

    #[test]
    fn a_long_life_takes_no_more_memory_and_no_time_back() {
        let mut line = Line::default();
        for turn in 0..100_000 {
            assert_eq!(line.take(Nanos(turn * 10), 3), Nanos(turn * 10 + 3));
        }
        assert!(line.busy.len() <= SPANS_MAX, "{}", line.busy.len());
        assert!(line.take(Nanos(0), 3).0 > 100_000);
    }
}
