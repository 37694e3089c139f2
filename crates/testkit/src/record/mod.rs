//! Records the requests to a device in order, and makes the device that a cut at any of them
//! leaves, without running again.
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

/// The requests to a device in order. The driver of the run can count them meanwhile.
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
    /// The number of requests so far.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes all requests out of the log.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, asked: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }
}
