//! What is executed: one run, ready to go, and what it is given from outside.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_record::RunRecord;
use nandkit_stack::FlashTap;
use nandkit_workload::tree::source::TreeSource;
use nandkit_workload::{Inputs, NoInputs, Outside};

use crate::{HostMeter, LabError, Progress, Unmeasured};

/// What a run is given from outside.
pub(crate) struct Inside<'a> {
    /// Where directories and traces are read from.
    pub inputs: &'a dyn Inputs,
    /// Hears the share of the run that is done, and answers whether to go on.
    pub progress: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    /// Hears of every operation of the chip.
    pub tap: Option<FlashTap>,
}

/// How to run an experiment. Nothing of it changes a record but for its `host_*` fields.
pub struct Options<'a> {
    /// Threads; 0 stands for one for each processor.
    pub jobs: usize,
    /// The directory of the results file, where records are to be kept; runs whose records are
    /// there already are not run again.
    pub directory: Option<PathBuf>,
    /// A word for the running program, which is another for every build of it: records of another
    /// program are not reused. Without it none are.
    pub program: Option<&'a str>,
    /// Hears, before anything runs, what happens to records that are there and are not reused.
    pub notice: &'a (dyn Fn(&str) + Sync),
    /// Where directories and traces are read from.
    pub inputs: &'a (dyn Inputs + Sync),
    /// The host's clock and memory.
    pub host: &'a dyn HostMeter,
    /// Hears how far the experiment is, from any thread.
    pub progress: &'a (dyn Fn(&Progress) + Sync),
    /// Set from outside to stop: finished runs are kept.
    pub stop: &'a AtomicBool,
    /// Hears of every operation of the chips, from any thread; it makes runs slower.
    pub tap: Option<FlashTap>,
}

/// What [`Options::default`] looks at: never set.
static NEVER_STOPPED: AtomicBool = AtomicBool::new(false);

impl Default for Options<'_> {
    /// A thread for each processor. Nothing is kept, measured on the host, told or stopped, and no
    /// directory or trace can be read.
    fn default() -> Self {
        Self {
            jobs: 0,
            directory: None,
            program: None,
            notice: &|_| (),
            inputs: &NoInputs,
            host: &Unmeasured,
            progress: &|_| (),
            stop: &NEVER_STOPPED,
            tap: None,
        }
    }
}

/// The inputs, until somebody stops the experiment.
pub(crate) struct Stoppable<'a> {
    inputs: &'a (dyn Inputs + Sync),
    stop: &'a AtomicBool,
    failed: &'a AtomicBool,
}

impl<'a> Stoppable<'a> {
    pub(crate) fn new(options: &Options<'a>, failed: &'a AtomicBool) -> Self {
        Self { inputs: options.inputs, stop: options.stop, failed }
    }
}

impl Inputs for Stoppable<'_> {
    fn open(&self, path: &str) -> io::Result<Box<dyn io::Read + Send>> {
        self.inputs.open(path)
    }

    fn tree(&self, path: &str) -> nandkit_workload::Result<Box<dyn TreeSource>> {
        self.inputs.tree(path)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) || self.inputs.is_stopped()
    }
}

/// One run, ready to go.
pub(crate) trait Job: Sync {
    /// The key of its record.
    fn key(&self) -> String;
    /// Whether a record of it may stand for another run of it.
    fn is_repeatable(&self) -> bool {
        true
    }
    /// What it takes from outside its spec.
    fn outside(&self) -> Option<Outside<'_>> {
        None
    }
    /// What it is, for messages.
    fn title(&self) -> String;
    /// What of it stands for all runs that are built alike, for [`Job::try_out`]; `None` where
    /// trying would touch the world outside.
    fn built_as(&self) -> Option<String> {
        None
    }
    /// Builds what it runs on, and runs nothing: a point of a grid that cannot be is told before
    /// the hours that others take.
    fn try_out(&self, _inputs: &dyn Inputs) -> Result<(), LabError> {
        Ok(())
    }
    /// Runs.
    fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError>;
}
