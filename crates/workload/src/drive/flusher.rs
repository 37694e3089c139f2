//! The host's flusher: it syncs the volume a given time after a change.

use nandkit_units::{Clock, Nanos};
use nandkit_vfs::{FileSystem, Result};

use crate::operation::FileOperation;

/// Syncs the volume for a driver. It does not run by itself: the driver calls it after each
/// operation, and before the clock passes an idle time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flusher {
    /// Time between a change and its sync; `None` for never.
    pub after: Option<Nanos>,
    /// When the first change was made that is not durable yet.
    changed: Option<Nanos>,
}

impl Flusher {
    /// Notes an operation that has just ended.
    pub fn saw(&mut self, operation: &FileOperation, now: Nanos) {
        match operation {
            FileOperation::Sync { slot: None } => self.changed = None,
            FileOperation::Sync { .. }
            | FileOperation::Read { .. }
            | FileOperation::Open { .. }
            | FileOperation::Arrive { .. } => {}
            _ => {
                self.changed.get_or_insert(now);
            }
        }
    }

    /// Everything is durable: a phase ends in a sync of its own.
    pub const fn settle(&mut self) {
        self.changed = None;
    }

    /// When the next sync is due, where nothing more is changed; `None` for never.
    pub fn due(&self) -> Option<Nanos> {
        Some(Nanos(self.changed?.0.saturating_add(self.after?.0)))
    }

    /// Syncs where that is due by `until`, and says whether it was; the clock goes to the instant
    /// at which it was due, if it is not there yet. Errors: those of the sync.
    pub fn flush(&mut self, until: Nanos, clock: &Clock, fs: &mut dyn FileSystem) -> Result<bool> {
        let Some(due) = self.due().filter(|due| *due <= until) else { return Ok(false) };
        clock.advance_to(due);
        self.changed = None;
        fs.changes().map_or(Ok(()), |changes| changes.sync(None)).map(|()| true)
    }
}
