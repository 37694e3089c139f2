//! Ctrl-C and SIGTERM: what runs ends with what is finished, and what is written unfinished goes away again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::failure::Failure;

/// Becomes true at the first signal; a second one ends the process with exit status 130.
pub fn on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // Without a handler a signal ends the process at once: no less safe, since what was flushed is there, and results are whole after every record.
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    stop
}

/// Calls `first` at the first signal, in a thread of its own; a second one ends the process with exit status 130.
pub fn at_signal(first: impl FnOnce() + Send + 'static) {
    let mut first = Some(first);
    // Without a handler a signal ends the process at once.
    let _ = ctrlc::set_handler(move || match first.take() {
        Some(first) => drop(std::thread::spawn(first)),
        None => std::process::exit(130),
    });
}

/// Takes away what was made.
pub type Undo = Box<dyn FnOnce() + Send>;

/// Takes an unfinished result away on Ctrl-C, until it is finished.
pub struct Unfinished {
    stopped: Arc<AtomicBool>,
    undo: Arc<Mutex<Option<Undo>>>,
}

impl Unfinished {
    /// Begins with `make`, which says how to take away what it made. From then on Ctrl-C does that, and ends the process with exit status 130.
    pub fn begin<T>(make: impl FnOnce() -> Result<(T, Undo), Failure>) -> Result<(T, Self), Failure> {
        let stopped = Arc::new(AtomicBool::new(false));
        let undo: Arc<Mutex<Option<Undo>>> = Arc::new(Mutex::new(None));
        // Ctrl-C waits for this lock while something is made or finished.
        let mut held = undo.lock().unwrap_or_else(PoisonError::into_inner);
        let (flag, action) = (Arc::clone(&stopped), Arc::clone(&undo));
        // Without a handler Ctrl-C ends the process at once, and leaves what is there: no reason not to begin.
        let _ = ctrlc::set_handler(move || {
            flag.store(true, Ordering::Relaxed);
            let mut action = action.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(undo) = action.take() {
                undo();
                crate::output::message("stopped; nothing was kept");
            }
            std::process::exit(130);
        });
        let (made, action) = make()?;
        *held = Some(action);
        drop(held);
        Ok((made, Self { stopped, undo }))
    }

    /// Called between two steps of the work: where Ctrl-C was pressed, no further step is made.
    pub fn pause_if_stopped(&self) {
        while self.stopped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Does the last step; then the result stays, unless the step failed.
    pub fn finish<T>(self, last: impl FnOnce() -> T) -> T {
        let mut held = self.undo.lock().unwrap_or_else(PoisonError::into_inner);
        let result = last();
        held.take();
        result
    }
}
