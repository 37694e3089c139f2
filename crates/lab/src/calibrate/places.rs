//! Where requests go: an area for sequential ones, and a walk over the units of the rest, so that
//! no series finds a unit open that another one left in the middle.

use std::collections::BTreeSet;

use nandkit_units::random::Random;

use super::TargetShape;

/// Places on a device.
pub struct Places {
    capacity: u64,
    sector: u64,
    unit: u64,
    /// Units of the area for sequential requests, at the start.
    sequential_units: u64,
    /// Units of the rest.
    walk_units: u64,
    stride: u64,
    walked: u64,
    sequential: u64,
    random: Random,
    /// Where writes outside of the sequential area have ended: a write that begins there may go on
    /// an open unit.
    ends: BTreeSet<u64>,
}

impl Places {
    pub fn new(shape: &TargetShape, unit: u64, seed: u64) -> Self {
        let units = (shape.capacity / unit).max(2);
        let sequential_units = (units / 4).clamp(1, units - 1);
        let walk_units = units - sequential_units;
        // A stride near the golden section: units that are visited one after the other are far
        // apart on the device.
        let mut stride = (walk_units * 618 / 1000).max(1);
        while !is_coprime(stride, walk_units) {
            stride += 1;
        }
        Self {
            capacity: shape.capacity,
            sector: u64::from(shape.sector_size.max(1)),
            unit,
            sequential_units,
            walk_units,
            stride,
            walked: 0,
            sequential: 0,
            random: Random::new(seed, "calibrate"),
            ends: BTreeSet::new(),
        }
    }

    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many units a walk visits before it comes back.
    pub const fn walk_units(&self) -> u64 {
        self.walk_units
    }

    /// The start of the next unit of the walk.
    pub fn next_unit(&mut self) -> u64 {
        let step = u128::from(self.walked) * u128::from(self.stride) % u128::from(self.walk_units);
        self.walked += 1;
        (self.sequential_units + step as u64) * self.unit
    }

    /// Begins sequential requests at the start of a unit.
    pub fn begin_sequential(&mut self) {
        self.sequential = self.sequential.next_multiple_of(self.unit);
    }

    /// The next sequential place, and whether it goes on from the last one.
    pub fn next_sequential(&mut self, bytes: u64) -> (u64, bool) {
        let goes_on = self.sequential + bytes <= self.sequential_units * self.unit;
        let at = if goes_on { self.sequential } else { 0 };
        self.sequential = at + bytes;
        (at, goes_on)
    }

    /// A place in the unit at `start`, a multiple of `bytes` from its start and other than
    /// `last_end`, where a request would continue the last one.
    pub fn inside(&mut self, start: u64, bytes: u64, last_end: u64) -> u64 {
        let slots = (self.unit / bytes).max(1);
        let slot = self.random.below(slots);
        let places = (0..slots).map(|add| start + (slot + add) % slots * bytes);
        places.into_iter().find(|at| *at != last_end).unwrap_or(start)
    }

    /// A place for a read anywhere, other than `last_end`.
    pub fn anywhere(&mut self, bytes: u64, last_end: u64) -> u64 {
        let slots = (self.capacity / bytes).max(1);
        let slot = self.random.below(slots);
        if slot * bytes == last_end { (slot + slots / 2) % slots * bytes } else { slot * bytes }
    }

    /// A place for a write in the next unit of the walk, not at its start and not where another
    /// write ended. A write of a unit or more begins a little behind the start.
    pub fn in_another_unit(&mut self, bytes: u64) -> u64 {
        let little = self.sector.max(4096);
        let mut at = 0;
        for _ in 0..=self.walk_units {
            let start = self.next_unit();
            let offset = match self.unit / bytes {
                0 | 1 if bytes < self.unit => (self.unit - bytes) / little * little,
                0 | 1 => (1 + self.random.below(7)) * little,
                slots => self.random.between(1, slots - 1) * bytes,
            };
            at = start + offset.max(self.sector);
            if at + bytes <= self.capacity && !self.ends.contains(&at) {
                break;
            }
        }
        let at = at.min(self.capacity.saturating_sub(bytes) / self.sector * self.sector);
        self.ends.insert(at + bytes);
        at
    }
}

const fn is_coprime(a: u64, b: u64) -> bool {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(units: u64) -> Places {
        let shape = TargetShape { capacity: units << 22, sector_size: 512, page_size: 4096, unit: 4 << 20 };
        Places::new(&shape, 4 << 20, 1)
    }

    #[test]
    fn a_walk_visits_each_unit_once_and_none_for_sequential_requests() {
        for units in [8, 9, 16, 100, 947] {
            let mut places = places(units);
            let visited: BTreeSet<u64> = (0..places.walk_units()).map(|_| places.next_unit()).collect();
            assert_eq!(visited.len() as u64, places.walk_units(), "{units}");
            let sequential_end = (units - places.walk_units()) << 22;
            assert!(visited.iter().all(|at| *at >= sequential_end && *at < units << 22), "{units}");
            for _ in 0..1000 {
                assert!(places.next_sequential(1 << 20).0 < sequential_end, "{units}");
            }
        }
    }

    #[test]
    fn random_places_never_follow_the_last_one() {
        let mut places = places(64);
        for bytes in (9..=24).map(|power| 1_u64 << power) {
            let (mut read_end, mut end) = (0, 1 << 21);
            for _ in 0..200 {
                let at = places.anywhere(bytes, read_end);
                assert!(at != read_end && at + bytes <= 64 << 22, "{bytes}: {at}");
                read_end = at + bytes;
                if bytes <= 4 << 20 {
                    let inside = places.inside(1 << 22, bytes, (1 << 22) + end);
                    assert!(inside >= 1 << 22 && inside + bytes <= 2 << 22 && inside != (1 << 22) + end, "{bytes}");
                    end = inside + bytes - (1 << 22);
                }
                let spread = places.in_another_unit(bytes);
                assert!(spread + bytes <= 64 << 22 && !spread.is_multiple_of(4 << 20), "{bytes}: {spread}");
            }
        }
    }
}
