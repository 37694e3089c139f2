//! Replies delayed by the simulated time: each is sent when its request would have completed on the
//! device, so that they overtake one another.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wire;

/// Whether requests are delayed by the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// No delay.
    #[default]
    None,
    /// The device's time; the precision of the host's timer is about 0.1 ms.
    Real,
}

/// Largest number of delayed replies per client; with more of them, or of their bytes, no further
/// request is read.
const IN_FLIGHT: usize = 64;
const BYTES_IN_FLIGHT: usize = 4 << 20;

/// The delayed replies of a client.
#[derive(Debug, Default)]
pub struct Pacer {
    state: Mutex<State>,
    changed: Condvar,
}

/// A reply that is not completely sent.
#[derive(Debug, Default)]
struct Reply {
    parts: VecDeque<(Instant, Vec<u8>)>,
    /// Whether more parts will be added.
    is_open: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The replies in the order of their requests.
    replies: BTreeMap<u64, Reply>,
    bytes: usize,
    /// The reply to which parts are being added.
    open: Option<u64>,
    /// The partly sent reply: nothing may be sent between its parts.
    sending: Option<u64>,
    next: u64,
    /// Whether no more replies will be added.
    closed: bool,
    /// Whether sending has stopped.
    broken: bool,
}

/// The next step of the sender.
enum Step {
    Send(Vec<u8>),
    Wait(Option<Duration>),
    End,
}

impl State {
    fn is_full(&self) -> bool {
        match self.open {
            // Once a reply has begun, only its own parts can follow.
            Some(open) => {
                let parts =
                    self.replies.get(&open).map_or(0, |reply| reply.parts.iter().map(|part| part.1.len()).sum());
                parts >= BYTES_IN_FLIGHT
            }
            None => self.replies.len() >= IN_FLIGHT || self.bytes >= BYTES_IN_FLIGHT,
        }
    }

    /// The next reply to send, and when.
    fn due(&self) -> Option<(u64, Instant)> {
        let first = |(number, reply): (&u64, &Reply)| reply.parts.front().map(|(due, _)| (*number, *due));
        match self.sending {
            Some(number) => self.replies.get_key_value(&number).and_then(first),
            None => self.replies.iter().filter_map(first).min_by_key(|(number, due)| (*due, *number)),
        }
    }

    fn step(&mut self) -> Step {
        if self.broken {
            return Step::End;
        }
        let Some((number, due)) = self.due() else {
            return if self.closed { Step::End } else { Step::Wait(None) };
        };
        let now = Instant::now();
        if due > now {
            return Step::Wait(Some(due - now));
        }
        let Some(reply) = self.replies.get_mut(&number) else { return Step::Wait(None) };
        let part = reply.parts.pop_front().map(|(_, part)| part).unwrap_or_default();
        if reply.parts.is_empty() && !reply.is_open {
            self.replies.remove(&number);
            self.sending = None;
        } else {
            self.sending = Some(number);
        }
        self.bytes -= part.len();
        Step::Send(part)
    }
}

impl Pacer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reply, or a part of one if `more` follows, to be sent at `due`. Blocks while too many
    /// replies wait. Returns false if nothing can be sent any more.
    pub fn put(&self, due: Instant, part: Vec<u8>, more: bool) -> bool {
        let mut state = self.state();
        while state.is_full() && !state.broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.broken || state.closed {
            return false;
        }
        let number = state.open.unwrap_or(state.next);
        state.next = number + 1;
        state.open = more.then_some(number);
        state.bytes += part.len();
        let reply = state.replies.entry(number).or_default();
        // Parts are sent in order.
        let due = reply.parts.back().map_or(due, |(before, _)| due.max(*before));
        reply.parts.push_back((due, part));
        reply.is_open = more;
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Ends adding; waiting replies are still sent at their time.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Stops sending.
    pub fn break_off(&self) {
        let mut state = self.state();
        (state.broken, state.bytes) = (true, 0);
        state.replies.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Sends replies when they are due, until the pacer is closed and empty, or the client does not
    /// accept them.
    pub fn run(&self, mut to: impl Write, patience: Duration) {
        let mut state = self.state();
        loop {
            match state.step() {
                Step::End => return,
                Step::Wait(None) => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Step::Wait(Some(time)) => {
                    state = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
                }
                Step::Send(part) => {
                    drop(state);
                    self.changed.notify_all();
                    if wire::write_all(&mut to, &part, patience).is_err() {
                        self.break_off();
                    }
                    state = self.state();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// What was sent.
    #[derive(Clone, Default)]
    struct Sent(Arc<Mutex<Vec<u8>>>);

    impl Write for Sent {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn replies_overtake_one_another_and_parts_of_one_stay_together() {
        let (pacer, sent) = (Pacer::default(), Sent::default());
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        assert!(pacer.put(at(60), b"last".to_vec(), false));
        assert!(pacer.put(at(20), b"long ".to_vec(), true));
        // A part cannot be sent before the one in front of it.
        assert!(pacer.put(at(0), b"reply ".to_vec(), true));
        assert!(pacer.put(at(40), b"ends ".to_vec(), false));
        assert!(pacer.put(at(0), b"first ".to_vec(), false));
        assert!(pacer.put(at(30), b"between ".to_vec(), false));
        pacer.close();
        pacer.run(sent.clone(), Duration::ZERO);
        assert_eq!(String::from_utf8(sent.0.lock().unwrap().clone()).unwrap(), "first long reply ends between last");
    }

    #[test]
    fn what_waits_is_bounded_and_ends_when_it_is_broken_off() {
        let pacer = Pacer::default();
        let never = Instant::now() + Duration::from_secs(3600);
        let put = |more| pacer.put(never, vec![0; 1 << 20], more);
        std::thread::scope(|scope| {
            let putting = scope.spawn(|| (0..200).take_while(|number| put(number % 8 != 7)).count());
            let sending = scope.spawn(|| pacer.run(Sent::default(), Duration::ZERO));
            while pacer.state().bytes < BYTES_IN_FLIGHT {
                std::thread::yield_now();
            }
            assert!(pacer.state().bytes <= BYTES_IN_FLIGHT + (8 << 20));
            pacer.break_off();
            assert!(putting.join().unwrap() < 20);
            sending.join().unwrap();
        });
        assert!(!put(false));
    }
}
