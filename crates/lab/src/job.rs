//! Jobs: runs that are ready to be executed, and what they get from outside.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_record::RunRecord;
use nandkit_stack::FlashTap;
use nandkit_workload::tree::source::TreeSource;
use nandkit_workload::{Inputs, NoInputs, Outside};

use crate::{HostMeter, LabError, Progress, Unmeasured};

/// What a run gets from outside: inputs, a progress sink and a tap.
pub(crate) struct Inside<'a> {
    /// Where directories and traces are read from.
    pub inputs: &'a dyn Inputs,
    /// Hears the share of the run that is done, and answers whether to go on.
    pub progress: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    /// Hears of every operation of the chip.
    pub tap: Option<FlashTap>,
}

/// How to run an experiment. No option changes a record, except its `host_*` fields.
pub struct Options<'a> {
    /// Threads; 0 stands for one for each processor.
    pub jobs: usize,
    /// The directory of the results file, where records are to be kept; runs whose records are
    /// there already are not run again.
    pub directory: Option<PathBuf>,
    /// A word for the running program that differs from build to build. Records of another program
    /// are not reused; without the word no record is.
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

/// The stop flag of [`Options::default`], which is never set.
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

/// A run that is ready to be executed.
pub(crate) trait Job: Sync {
    /// The key of the job's record.
    fn key(&self) -> String;
    /// Whether a record of the job may be reused instead of running it again.
    fn is_repeatable(&self) -> bool {
        true
    }
    /// The input that the job reads besides its spec, if any.
    fn outside(&self) -> Option<Outside<'_>> {
        None
    }
    /// The job's title, for messages.
    fn title(&self) -> String;
    /// A text that is equal for all jobs that are built alike, of which [`Job::try_out`] tries one;
    /// `None` if a trial would touch files outside.
    fn built_as(&self) -> Option<String> {
        None
    }
    /// Builds what the job runs on, without running it, so that an impossible point of a grid is
    /// found before the others have run for hours.
    fn try_out(&self, _inputs: &dyn Inputs) -> Result<(), LabError> {
        Ok(())
    }
    /// Runs the job.
    fn run(&self, inside: Inside<'_>) -> Result<RunRecord, LabError>;
}
