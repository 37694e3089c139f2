//! The open units of a card, and the cost of writes that opens and closes them.

use nandkit_units::Nanos;

use super::spec::{CardSpec, Pattern};

/// A unit being written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenUnit {
    number: u64,
    /// Offset just past the last written byte.
    next: u64,
    /// Bytes written since the unit was opened; each counts once if nothing was written below
    /// `next`.
    written: u64,
    /// Whether anything was written below the highest written byte.
    rewritten: bool,
}

/// The effect of a write on the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitChanges {
    /// The pattern of the write's start.
    pub pattern: Pattern,
    /// Number of units opened.
    pub opened: u64,
    /// Units closed without cost, because they were written completely and in order.
    pub closed_whole: u64,
    /// Units closed by copying the part that had not been written.
    pub merged_in_part: u64,
    /// Units closed by copying the whole unit.
    pub merged_whole: u64,
    /// The time of all merges.
    pub merge_time: Nanos,
}

/// The open units of a card, least recently written first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenUnits {
    units: Vec<OpenUnit>,
}

impl OpenUnits {
    /// Accounts for a write of `bytes` bytes at byte address `at`. Cost: proportional to the number
    /// of open units for each touched unit.
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

    /// Drops the units that lie inside a trimmed range: nothing of them needs copying.
    pub fn trim(&mut self, spec: &CardSpec, at: u64, bytes: u64) {
        let size = spec.open_units.size.max(1);
        let end = at.saturating_add(bytes);
        self.units.retain(|unit| {
            let start = unit.number.saturating_mul(size);
            start < at || start.saturating_add(size) > end
        });
    }

    /// The number of open units.
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
