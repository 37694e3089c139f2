//! Idle work: write-back of old data, a checkpoint now and then, background collection
//! (f2fs-writing.md, "Checkpoint", "Collection"; gc.c, `gc_thread_func`).
//!
//! Nothing runs by itself: the volume's owner asks when work is due and runs it.

use nandkit_block::BlockDevice;
use nandkit_units::Nanos;
use nandkit_vfs::Result;

use super::WritableVolume;
use crate::clean::Collection;
use crate::clean::balance::Background;
use crate::counters::Reason;

/// The age at which dirty data is written back (Linux's dirty_expire_centisecs).
const OLD: Nanos = Nanos::from_secs(30);
/// The volume counts as idle after this long without an operation (f2fs.h, DEF_IDLE_INTERVAL).
const IDLE: Nanos = Nanos::from_secs(5);
/// The interval of idle checkpoints (f2fs.h, DEF_CP_INTERVAL).
const CHECKPOINT: Nanos = Nanos::from_secs(60);

/// State of the idle work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    /// When an operation last changed something.
    pub operation: Nanos,
    /// When the last checkpoint completed.
    pub checkpoint: Nanos,
    background: Background,
    collection_due: Nanos,
}

impl Idle {
    /// The state right after a mount.
    pub fn new(now: Nanos) -> Self {
        let background = Background::new();
        let collection_due = later(now, Nanos(background.sleep_ms().saturating_mul(1_000_000)));
        Self { operation: now, checkpoint: now, background, collection_due }
    }

    fn sleep(&mut self, now: Nanos) {
        self.collection_due = later(now, Nanos(self.background.sleep_ms().saturating_mul(1_000_000)));
    }
}

fn later(instant: Nanos, span: Nanos) -> Nanos {
    Nanos(instant.0.saturating_add(span.0))
}

impl<D: BlockDevice> WritableVolume<D> {
    /// When [`WritableVolume::work_when_idle`] next has work, if no operation happens until then.
    /// Cost: reads counters.
    pub fn next_due(&mut self) -> Nanos {
        let idle = later(self.writer.idle.operation, IDLE);
        let mut due = self.writer.idle.collection_due;
        if self.writer.pages().counts().1 > 0 {
            due = due.min(later(self.writer.idle.operation, OLD));
        }
        if self.is_changed() || !self.writer.lazy_times.is_empty() {
            due = due.min(later(self.writer.idle.checkpoint, CHECKPOINT).max(idle));
        }
        due
    }

    /// Does the work that is due; returns whether there was any. Errors: `NoSpace`, `Device`,
    /// `Corrupt`, `ReadOnly`. Cost: write-backs, a checkpoint, the collection of one section.
    pub fn work_when_idle(&mut self) -> Result<bool> {
        self.expect_running()?;
        let now = self.device.now();
        let is_idle = now >= later(self.writer.idle.operation, IDLE);
        let mut did = false;
        if self.writer.pages().counts().1 > 0 && now >= later(self.writer.idle.operation, OLD) {
            // Refused data is reported by its file's fsync.
            let refused = self.write_back_what_goes()?;
            did = refused.is_none();
        }
        let asks = self.is_changed() || !self.writer.lazy_times.is_empty();
        if asks && is_idle && now >= later(self.writer.idle.checkpoint, CHECKPOINT) {
            self.settle_all_times()?;
            self.checkpoint(Reason::Sync)?;
            did = true;
        }
        if now >= self.writer.idle.collection_due {
            did |= self.collect_when_idle(is_idle)?;
            if is_idle {
                did |= self.gather_files()?.windows > 0;
            }
            self.writer.idle.sleep(now);
        }
        Ok(did)
    }

    fn collect_when_idle(&mut self, is_idle: bool) -> Result<bool> {
        if !is_idle {
            self.writer.idle.background.was_busy();
            return Ok(false);
        }
        self.writer.idle.background.will_work(&self.writer.segments);
        if self.collect_one(Collection::Background)?.is_none() {
            self.writer.idle.background.found_nothing();
            return Ok(false);
        }
        Ok(true)
    }
}
