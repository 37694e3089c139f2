//! What was asked of a device, noted in order, and what a cut at any of it leaves, made from the
//! notes without the run.
//!
//! [`RecordingDevice`] and [`RequestReplay`] are for block devices, [`RecordingFlash`] and
//! [`ChangeReplay`] for flash. A run on one of them takes as long as it takes; each cut of it then
//! costs a copy of the device and a few requests. For a device whose copies are cheap see
//! [`MemoryDisk`].

mod disk;
mod flash;
mod requests;

use std::sync::{Arc, Mutex, PoisonError};

pub use disk::MemoryDisk;
pub use flash::{Change, ChangeReplay, NotedChange, RecordingFlash};
pub use requests::{Action, RecordingDevice, Request, RequestReplay};

/// What was asked of a device in order, which whoever drives the run may count meanwhile.
#[derive(Debug)]
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Log<T> {
    /// How much was asked.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All of it; nothing is left.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, asked: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }
}
