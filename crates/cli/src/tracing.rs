//! `--trace FILE`: the operations of a run's chip, for a viewer of traces.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_lab::trace_events::{EVENTS_MAX, TraceEnd, TraceEvents};
use nandkit_stack::{DeviceSpec, FlashTap, StackSpec};

use crate::failure::Failure;
use crate::image::new_file::NewFile;
use crate::output;

type Events = Mutex<Option<TraceEvents<BufWriter<File>>>>;

/// A trace that has not got its name yet.
pub struct Tracing {
    file: NewFile,
    path: std::path::PathBuf,
    events: Arc<Events>,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("--trace: {}: cannot write: {error}", path.display()))
}

impl Tracing {
    /// Begins the trace of a stack on a chip. Errors: the stack stands on another device, whose
    /// flash nobody sees; the file exists, or cannot be written.
    pub fn begin(path: &Path, spec: &StackSpec) -> Result<Self, Failure> {
        let DeviceSpec::Chip { chip, .. } = &spec.device else {
            let detail = "--trace: nobody sees the flash of this device; expected a chip or a drive";
            return Err(Failure::Input(detail.to_string()));
        };
        NewFile::check(path, false, None)?;
        let mut file = NewFile::begin(path)?;
        let out = file.file().try_clone().map_err(|error| failed(path, error))?;
        let geometry = chip.geometry.build();
        let events = TraceEvents::begin(BufWriter::new(out), geometry, chip.timing.bus_ps_per_byte);
        let events = events.map_err(|error| failed(path, error))?;
        Ok(Self { file, path: path.to_path_buf(), events: Arc::new(Mutex::new(Some(events))) })
    }

    /// The tap that hears of the operations.
    pub fn tap(&self) -> FlashTap {
        let events = Arc::clone(&self.events);
        Arc::new(move |event| {
            if let Some(events) = &mut *events.lock().unwrap_or_else(PoisonError::into_inner) {
                events.add(&event);
            }
        })
    }

    /// Gives the file its name. Errors: not all could be written; then there is no file.
    pub fn finish(self) -> Result<(), Failure> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(events) = events else { return Ok(()) };
        let TraceEnd { written, left_out } = events.finish().map_err(|error| failed(&self.path, error))?;
        self.file.keep(false)?;
        let path = self.path.display();
        let rest = match left_out {
            0 => String::new(),
            more => format!(", and {more} more are left out: a file holds {EVENTS_MAX}"),
        };
        output::message(&format!("{path}: {written} operations of the chip; https://ui.perfetto.dev opens it{rest}"));
        Ok(())
    }
}
