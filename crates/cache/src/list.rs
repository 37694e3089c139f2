//! A doubly linked list whose links are in an array beside the pages: unlinking costs a few index
//! accesses and no allocation.

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// The neighbours of each slot in the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    neighbours: Vec<Neighbours>,
}

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    before: u32,
    after: u32,
}

/// The ends of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Ends {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };
}

impl Links {
    fn at(&mut self, slot: u32) -> &mut Neighbours {
        let index = slot as usize;
        if index >= self.neighbours.len() {
            self.neighbours.resize(index + 1, Neighbours { before: NONE, after: NONE });
        }
        &mut self.neighbours[index]
    }

    /// Adds a slot, which is in no list of these links, at the front.
    pub(crate) fn push_first(&mut self, ends: &mut Ends, slot: u32) {
        *self.at(slot) = Neighbours { before: NONE, after: ends.first };
        if ends.first == NONE {
            ends.last = slot;
        } else {
            self.at(ends.first).before = slot;
        }
        ends.first = slot;
    }

    /// Removes a slot from its list.
    pub(crate) fn remove(&mut self, ends: &mut Ends, slot: u32) {
        let Neighbours { before, after } = *self.at(slot);
        if before == NONE {
            ends.first = after;
        } else {
            self.at(before).after = after;
        }
        if after == NONE {
            ends.last = before;
        } else {
            self.at(after).before = before;
        }
        *self.at(slot) = Neighbours { before: NONE, after: NONE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_leave_and_enter_anywhere() {
        let (mut links, mut ends) = (Links::default(), Ends::EMPTY);
        for slot in [7, 0, 3, 5] {
            links.push_first(&mut ends, slot);
        }
        links.remove(&mut ends, 0);
        let (mut forward, mut slot) = (Vec::new(), ends.first);
        while slot != NONE {
            forward.push(slot);
            slot = links.at(slot).after;
        }
        assert_eq!(forward, [5, 3, 7]);
        let (mut backward, mut slot) = (Vec::new(), ends.last);
        while slot != NONE {
            backward.push(slot);
            slot = links.at(slot).before;
        }
        assert_eq!(backward, [7, 3, 5]);
        for slot in [7, 5, 3] {
            links.remove(&mut ends, slot);
        }
        assert_eq!(ends, Ends::EMPTY);
    }
}
