//! Records calls as they are made.

use std::io::{self, BufWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_units::{Clock, Nanos};
use nandkit_vfs::wrap::{Call, CallOutput, Hook};
use nandkit_vfs::{ErrorKind, InodeNumber};

use super::request::{CameTo, Header, Recorded, Request, VERSION};

/// zstd's own default: 3.
const LEVEL: i32 = 0;

/// Records every call: a hook for `vfs::wrap::Wrapped`, one call at a time.
pub struct CallRecorder {
    clock: Clock,
    from: Nanos,
    state: Mutex<State>,
}

struct State {
    /// The compressed output; `None` after the end of the recording, or after a write has failed.
    out: Option<zstd::stream::write::Encoder<'static, BufWriter<Box<dyn Write + Send>>>>,
    failed: Option<io::Error>,
    calls: u64,
    /// The arrival of the calls that follow.
    arrived: Nanos,
    /// Calendar time at which the call was issued that is under way.
    unix_ns: u64,
}

impl CallRecorder {
    /// Begins. `from`: the instant from which arrivals are counted; `root`: the root of the file
    /// system that is to be recorded. Errors: those of writing.
    pub fn begin(out: Box<dyn Write + Send>, clock: Clock, from: Nanos, root: InodeNumber) -> io::Result<Self> {
        let mut out = zstd::stream::write::Encoder::new(BufWriter::new(out), LEVEL)?;
        let header = Header { nandkit_calls: VERSION, root: root.0 };
        line(&mut out, &header)?;
        let state = State { out: Some(out), failed: None, calls: 0, arrived: from, unix_ns: 0 };
        Ok(Self { clock, from, state: Mutex::new(state) })
    }

    fn held(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the arrival of the calls that follow; without it calls arrive when they are issued.
    pub fn arrived(&self, instant: Nanos) {
        self.held().arrived = instant;
    }

    /// The end: what was recorded is complete, but for what the receiver keeps to itself. Returns
    /// how many calls there were. Errors: the first write that failed.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.held();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if let Some(out) = state.out.take() {
            out.finish()?.flush()?;
        }
        Ok(state.calls)
    }
}

fn line(out: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, what)?;
    out.write_all(b"\n")
}

impl Hook for CallRecorder {
    fn before(&self, _: &Call<'_>) -> nandkit_vfs::Result<()> {
        self.held().unix_ns = self.clock.unix_ns();
        Ok(())
    }

    fn after(&self, call: &Call<'_>, outcome: Result<CallOutput, ErrorKind>) {
        let mut state = self.held();
        let Some(request) = Request::of(call) else { return };
        let (at, unix) = (state.arrived.since(self.from).0, state.unix_ns);
        let recorded = Recorded { at, unix, request, came_to: CameTo::of(call.method, outcome) };
        let Some(out) = &mut state.out else { return };
        match line(out, &recorded) {
            Ok(()) => state.calls += 1,
            // The programs go on; the error is returned at the end of the recording.
            Err(error) => {
                state.failed = Some(error);
                state.out = None;
            }
        }
    }
}
