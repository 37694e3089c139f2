//! Signals that reach `exec`: whoever ends it means the command, and what the command wrote is
//! flushed and told all the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_fuse::{Unmounter, send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::{output, stop};

/// How far the run is.
enum Phase {
    /// Nothing runs yet; the signal that has arrived, if any.
    Before(Option<i32>),
    /// The command runs, with this process id.
    Running(u32),
    /// The command has ended.
    After,
}

struct State {
    phase: Phase,
    mount: Option<Unmounter>,
}

/// Handles signals during a run with a mount, depending on how far the run is.
pub struct Signals(Arc<Mutex<State>>);

impl Signals {
    /// From here on no signal ends this process while something is mounted.
    pub fn watch() -> Self {
        let state = Arc::new(Mutex::new(State { phase: Phase::Before(None), mount: None }));
        let watched = Arc::clone(&state);
        stop::at_signals(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP], move |signal| {
            let mut state = held(&watched);
            match state.phase {
                Phase::Before(_) => state.phase = Phase::Before(Some(signal)),
                // The terminal gives its signals to the command as well.
                Phase::Running(_) if signal == SIGINT || signal == SIGQUIT => {}
                Phase::Running(id) => send_signal(id, signal),
                Phase::After => {
                    // No mount is left behind that nobody answers.
                    if let Some(mount) = &state.mount {
                        let _ = mount.detach();
                        let _ = std::fs::remove_dir(mount.point());
                    }
                    output::message("stopped; nothing is known of what it cost");
                    std::process::exit(130);
                }
            }
        });
        Self(state)
    }

    /// Sets the mount that must be unmounted before this process may end.
    pub fn mounted(&self, mount: Unmounter) {
        held(&self.0).mount = Some(mount);
    }

    /// The command has begun.
    pub fn running(&self, id: u32) {
        let mut state = held(&self.0);
        if let Phase::Before(Some(signal)) = state.phase {
            send_signal(id, signal);
        }
        state.phase = Phase::Running(id);
    }

    /// The command has ended, and its process id may be another's.
    pub fn ended(&self) {
        held(&self.0).phase = Phase::After;
    }
}

fn held(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
