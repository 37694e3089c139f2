//! The host's rule of time: so long after a change everything is made durable.

use nandkit_units::{Clock, Nanos};
use nandkit_vfs::{FileSystem, Result};

use crate::operation::FileOperation;

/// Who syncs, where a driver has one. Nothing runs by itself: it is asked behind each operation,
/// and before the clock goes over an idle time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flusher {
    /// How long after a change; `None` for never.
    pub after: Option<Nanos>,
    /// When the first change was made that is not durable yet.
    changed: Option<Nanos>,
}

impl Flusher {
    /// An operation was done, and has ended now.
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
