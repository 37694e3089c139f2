//! Which units a card has open, and what a write costs because of it.

use nandkit_units::Nanos;

use super::spec::{CardSpec, Pattern};

/// A unit that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenUnit {
    number: u64,
    /// Offset behind the last byte that was written.
    next: u64,
    /// Bytes written since it was opened, each once as long as nothing was written below `next`.
    written: u64,
    /// Whether something was written below what had been written before.
    rewritten: bool,
}

/// What a write did to the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitChanges {
    /// How the write began.
    pub pattern: Pattern,
    /// Units opened.
    pub opened: u64,
    /// Units closed for nothing, as they had been written whole and in order.
    pub closed_whole: u64,
    /// Units closed by copying what had not been written.
    pub merged_in_part: u64,
    /// Units closed by copying all of them.
    pub merged_whole: u64,
    /// The time of all merges.
    pub merge_time: Nanos,
}

/// The open units of a card, the one written longest ago first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenUnits {
    units: Vec<OpenUnit>,
}

impl OpenUnits {
    /// Books a write of `bytes` bytes at the byte address `at`. Cost: of the order of the open
    /// units, for each unit that the write touches.
    pub fn write(&mut self, spec: &CardSpec, at: u64, bytes: u64) -> UnitChanges {
        let size = spec.open_units.size.max(1);
        let mut changes = UnitChanges {
            pattern: Pattern::Random,
            opened: 0,
            closed_whole: 0,
            merged_in_part: 0,
            merged_whole: 0,
            merge_time: Nanos::ZERO,
        };
        let end = at.saturating_add(bytes);
        let mut from = at;
        while from < end {
            let (number, offset) = (from / size, from % size);
            let part = (size - offset).min(end - from);
            let mut unit = match self.units.iter().position(|unit| unit.number == number) {
                Some(open) => self.units.remove(open),
                None => {
                    self.make_room(spec, &mut changes);
                    changes.opened += 1;
                    OpenUnit { number, next: offset, written: 0, rewritten: false }
                }
            };
            let continues = offset == unit.next && (unit.written > 0 || offset == 0);
            if from == at && continues {
                changes.pattern = Pattern::Sequential;
            }
            unit.rewritten |= offset < unit.next;
            unit.next = offset + part;
            unit.written = unit.written.saturating_add(part);
            if unit.written == size && unit.next == size && !unit.rewritten {
                changes.closed_whole += 1;
            } else {
                self.units.push(unit);
            }
            from += part;
        }
        changes
    }

    /// Forgets the units that lie inside a trimmed range: nothing of them is left to be copied.
    pub fn trim(&mut self, spec: &CardSpec, at: u64, bytes: u64) {
        let size = spec.open_units.size.max(1);
        let end = at.saturating_add(bytes);
        self.units.retain(|unit| {
            let start = unit.number.saturating_mul(size);
            start < at || start.saturating_add(size) > end
        });
    }

    /// How many are open.
    pub const fn count(&self) -> usize {
        self.units.len()
    }

    fn make_room(&mut self, spec: &CardSpec, changes: &mut UnitChanges) {
        if self.units.len() < spec.open_units.count as usize || self.units.is_empty() {
            return;
        }
        let unit = self.units.remove(0);
        if unit.rewritten {
            changes.merged_whole += 1;
            changes.merge_time += spec.merge_time(0);
        } else {
            changes.merged_in_part += 1;
            changes.merge_time += spec.merge_time(unit.written);
        }
    }
}
