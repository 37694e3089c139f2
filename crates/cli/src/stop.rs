//! Ctrl-C and SIGTERM: finished results are kept, and unfinished files are removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// The signals that ask a process to end.
const ENDS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Calls `handle` for each of these signals, in a separate thread. A signal that was already
/// ignored when the process started, such as SIGHUP under nohup, stays ignored. If no handler can
/// be set, a signal ends the process at once, which is safe for flushed data.
pub fn at_signals(signals: &[i32], mut handle: impl FnMut(i32) + Send + 'static) {
    let wanted: Vec<i32> = signals.iter().copied().filter(|signal| !is_ignored(*signal)).collect();
    if let Ok(mut arriving) = Signals::new(wanted) {
        std::thread::spawn(move || arriving.forever().for_each(&mut handle));
    }
}

/// Whether a signal was ignored when the process started (proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// A flag that becomes true at the first signal. A second signal ends the process with exit status
/// 130.
pub fn on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    at_signals(&ENDS, move |_| {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    stop
}

/// Calls `first` at the first signal, in a separate thread. A second signal calls `last` and ends
/// the process with exit status 130.
pub fn at_signal(first: impl FnOnce() + Send + 'static, last: impl Fn() + Send + 'static) {
    let mut first = Some(first);
    at_signals(&ENDS, move |_| match first.take() {
        Some(first) => drop(std::thread::spawn(first)),
        None => {
            last();
            std::process::exit(130)
        }
    });
}

/// An action that removes an unfinished result.
pub type Undo = Box<dyn FnOnce() + Send>;

/// Removes an unfinished result on Ctrl-C, until it is finished.
pub struct Unfinished {
    stopped: Arc<AtomicBool>,
    undo: Arc<Mutex<Option<Undo>>>,
}

impl Unfinished {
    /// Calls `make`, which returns a result and the action that removes it. From then on Ctrl-C
    /// runs that action and ends the process with exit status 130.
    pub fn begin<T>(make: impl FnOnce() -> Result<(T, Undo), Failure>) -> Result<(T, Self), Failure> {
        let stopped = Arc::new(AtomicBool::new(false));
        let undo: Arc<Mutex<Option<Undo>>> = Arc::new(Mutex::new(None));
        // Ctrl-C waits for this lock while a result is made or finished.
        let mut held = undo.lock().unwrap_or_else(PoisonError::into_inner);
        let (flag, action) = (Arc::clone(&stopped), Arc::clone(&undo));
        at_signals(&ENDS, move |_| {
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

    /// Call this between two steps of the work: after Ctrl-C it does not return, so that no further
    /// step runs.
    pub fn pause_if_stopped(&self) {
        while self.stopped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs the last step; after that Ctrl-C no longer removes the result.
    pub fn finish<T>(self, last: impl FnOnce() -> T) -> T {
        let mut held = self.undo.lock().unwrap_or_else(PoisonError::into_inner);
        let result = last();
        held.take();
        result
    }
}
