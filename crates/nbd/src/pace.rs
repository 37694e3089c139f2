//! Replies that take the simulated time: each goes out when its request would have completed on the device, so that they overtake one another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Whether requests take the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// As fast as the host can.
    #[default]
    None,
    /// As long as the device would take; the host's timer is good to about 0.1 ms.
    Real,
}

/// Requests of a client that wait for their time; more are not read from it.
const IN_FLIGHT: usize = 64;

/// Replies that wait for their time.
#[derive(Debug, Default)]
pub struct Pacer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    next: u64,
    closed: bool,
}

impl Pacer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a reply over, to be sent at `due`. Waits while too many wait. False where the client went meanwhile.
    pub fn put(&self, due: Instant, reply: Vec<u8>) -> bool {
        let mut state = self.state();
        while state.waiting.len() >= IN_FLIGHT && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return false;
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push(Reverse((due, number, reply)));
        drop(state);
        self.changed.notify_all();
        true
    }

    /// No more replies will come.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Sends replies as they fall due, until it is closed and nothing waits, or sending fails.
    pub fn run(&self, mut to: impl Write) {
        loop {
            let mut state = self.state();
            let now = Instant::now();
            let due = state.waiting.peek().map(|Reverse((due, ..))| *due);
            match due {
                Some(due) if due <= now => {
                    let reply = state.waiting.pop().map(|Reverse((.., reply))| reply).unwrap_or_default();
                    drop(state);
                    self.changed.notify_all();
                    if to.write_all(&reply).is_err() {
                        self.close();
                        self.state().waiting.clear();
                        return;
                    }
                }
                Some(due) => drop(self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner)),
                None if state.closed => return,
                None => drop(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)),
            }
        }
    }
}
