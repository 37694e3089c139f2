//! Bookings of a channel: transfers in time order, each in the first sufficiently long gap.

use std::collections::VecDeque;

/// The booked transfers of a channel, without overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channel {
    /// Start and end of each transfer, in order.
    taken: VecDeque<(u64, u64)>,
}

impl Channel {
    /// Removes all bookings.
    pub fn clear(&mut self) {
        self.taken.clear();
    }

    /// Removes the transfers that ended by `horizon`.
    pub fn forget(&mut self, horizon: u64) {
        while self.taken.front().is_some_and(|(_, until)| *until <= horizon) {
            self.taken.pop_front();
        }
    }

    /// Books the channel for `time`, at `ready` or in the first gap after it; returns the start.
    pub fn book(&mut self, ready: u64, time: u64) -> u64 {
        let mut at = self.taken.partition_point(|(_, until)| *until <= ready);
        let mut from = ready;
        while let Some(&(next, until)) = self.taken.get(at) {
            if from.saturating_add(time) <= next {
                break;
            }
            from = from.max(until);
            at += 1;
        }
        self.taken.insert(at, (from, from.saturating_add(time)));
        from
    }

    /// Cancels a booked transfer.
    pub fn release(&mut self, from: u64, time: u64) {
        if time > 0
            && let Ok(at) = self.taken.binary_search(&(from, from.saturating_add(time)))
        {
            self.taken.remove(at);
        }
    }
}

#[cfg(test)]
impl Channel {
    pub fn holds(&self, from: u64, time: u64) -> bool {
        self.taken.contains(&(from, from + time))
    }

    pub fn len(&self) -> usize {
        self.taken.len()
    }

    pub fn check(&self) {
        let pairs = self.taken.iter().zip(self.taken.iter().skip(1));
        pairs.for_each(|((_, until), (from, _))| assert!(until <= from, "{:?}", self.taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_take_the_first_gap_and_can_be_given_back() {
        let mut channel = Channel::default();
        assert_eq!([channel.book(10, 5), channel.book(30, 5), channel.book(0, 10)], [10, 30, 0]);
        assert_eq!(channel.book(0, 15), 15, "the gap from 15 to 30 fits exactly");
        assert_eq!(channel.book(0, 1), 35);
        channel.release(10, 5);
        assert_eq!(channel.book(0, 5), 10);
        channel.forget(15);
        assert_eq!(channel.taken.len(), 3);
        channel.release(7, 7);
        assert_eq!(channel.taken.len(), 3);
    }
}
