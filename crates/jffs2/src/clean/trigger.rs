//! When the collector runs in the background.

use nandkit_flash::Flash;
use nandkit_vfs::{ErrorKind, Result};

use crate::catalogue::Queue;
use crate::volume::Jffs2;

impl<F: Flash> Jffs2<F> {
    /// Whether the background collector has work (fs/jffs2/nodemgmt.c, `jffs2_thread_should_wake`).
    fn has_background_work(&self) -> bool {
        let Some(writer) = self.writer.as_deref() else { return false };
        let (levels, sums) = (writer.levels(), self.catalogue.sums);
        let pending = self.catalogue.count(Queue::ErasePending);
        if pending > 0 || sums.unchecked > 0 {
            return true;
        }
        let ready = self.catalogue.ready();
        let few = ready < levels.background && sums.dirty > levels.no_space;
        few || self.catalogue.count(Queue::VeryDirty) >= levels.very_dirty
    }

    /// Runs the passes that the background collector had time for since the last call. The time of
    /// the passes counts, as the device does one thing at a time.
    pub(crate) fn background(&mut self) -> Result<()> {
        let now = self.medium.now();
        while let Some(writer) = self.writer.as_deref_mut() {
            let Some(span) = writer.options().background else { return Ok(()) };
            if writer.background_next() > now {
                return Ok(());
            }
            if !self.has_background_work() {
                self.writer()?.set_background_next(now + span);
                return Ok(());
            }
            let writer = self.writer()?;
            writer.set_background_next(writer.background_next() + span);
            writer.counters.background_passes += 1;
            match self.pass() {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NoSpace => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
