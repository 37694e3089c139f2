//! `nandkit exec`: a command on a fresh stack, or on one with an image, and what it cost.

mod crash;
mod recording;
mod served;
mod signals;

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_fuse::{Observer, Operation, Options, Timing, check_device};
use nandkit_lab::{HostMeter, ProgramRun, Seen};
use nandkit_record::RunRecord;
use nandkit_report::page::page;
use nandkit_stack::crash::{CrashChip, Existing};
use nandkit_stack::image::{EmulatedImage, OpenOptions};
use nandkit_stack::{Below, DEFAULT_DEVICE, FsSpec, HostSpec, Mounted, Stack, StackError, StackSpec};
use nandkit_units::Nanos;
use nandkit_vfs::FileSystem;
use nandkit_vfs::wrap::Wrapped;
use nandkit_workload::calls::CallRecorder;

use self::recording::Recording;
use self::served::{Back, Served, Top, command_in};
use self::signals::Signals;
use crate::args::ExecArguments;
use crate::failure::Failure;
use crate::host::Host;
use crate::stacks::Single;
use crate::tracing::Tracing;
use crate::{image as images, output, report, stacks, summary};

/// Counts what passes the door.
#[derive(Default)]
struct Counter {
    seen: Mutex<Seen>,
    recorder: Option<Arc<CallRecorder>>,
}

impl Counter {
    fn held(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Counter {
    fn arrived(&self, instant: Nanos) {
        if let Some(recorder) = &self.recorder {
            recorder.arrived(instant);
        }
    }

    fn done(&self, operation: Operation, bytes: u64, latency: Nanos) {
        self.held().count(operation.name(), bytes, latency);
    }
}

/// The stack that is asked for, and the chip with the image that is to be on it.
fn asked_for(arguments: &ExecArguments) -> Result<(StackSpec, Option<CrashChip>), Failure> {
    let mut image = arguments.image.as_deref().map(|path| open_image(path, arguments)).transpose()?;
    let found = image.as_ref().map_or_else(|| FsSpec::default().name(), EmulatedImage::format);
    let name = arguments.fs.as_deref().unwrap_or(found);
    let fs = FsSpec::kind(name).map_err(|error| Failure::Input(format!("--fs: {error}")))?;
    if fs == FsSpec::None {
        let detail = format!("--fs: none cannot be mounted; expected model or {}", FsSpec::on_devices());
        return Err(Failure::Input(detail));
    }
    if image.is_some() && name != found {
        return Err(Failure::Input(format!("--fs: the image holds {found}; expected this, or no --fs")));
    }
    let device = arguments.device.as_deref().map(stacks::named_device).transpose()?;
    let input = |error: StackError| Failure::Input(error.to_string());
    let device = match &mut image {
        Some(image) => image.device(device).map_err(input)?,
        None => device.map_or_else(|| stacks::named_device(DEFAULT_DEVICE), Ok)?,
    };
    let (ftl, settings) = (arguments.ftl.as_deref(), &arguments.settings[..]);
    let mut spec = stacks::single(&Single { fs, device, ftl, settings })?;
    if spec.host.is_none() && spec.fs != FsSpec::Model {
        spec.host = host_of(arguments)?;
    }
    if !spec.keeps_content() {
        let detail = "stack.device.store: the stores shadow and address keep no content; expected content or described";
        return Err(Failure::Input(detail.to_owned()));
    }
    let Some(image) = image else { return Ok((spec, None)) };
    for note in &image.notes {
        output::message(&images::with_flags(note));
    }
    image.settle(&mut spec);
    let chip = image.load(&spec, arguments.seed).map_err(input)?;
    Ok((spec, Some(chip)))
}

/// The host's memory. Nobody syncs by time: the command has the clock.
fn host_of(arguments: &ExecArguments) -> Result<Option<HostSpec>, Failure> {
    match arguments.host.as_deref() {
        Some("none") => Ok(None),
        None => Ok(Some(HostSpec { sync_ms: 0, ..HostSpec::default() })),
        Some(text) => {
            let host = HostSpec::parse(text).map_err(|error| Failure::Input(format!("--host: {error}")))?;
            Ok(Some(HostSpec { sync_ms: 0, ..host }))
        }
    }
}

fn open_image(path: &Path, arguments: &ExecArguments) -> Result<EmulatedImage, Failure> {
    let (region, erase_size) = (arguments.region.clone(), arguments.erase_size);
    let options = OpenOptions { region, erase_size, ..OpenOptions::default() };
    EmulatedImage::open(path, &options).map_err(images::input)
}

/// Requests are issued when they arrive, counted from now.
fn arrivals(below: &Below) -> Options {
    let timing = Timing::Arrivals { clock: below.clock.clone(), from: below.clock.now() };
    Options { timing, ..Options::default() }
}

/// Runs the command, and tells what it cost.
pub fn exec(arguments: &ExecArguments) -> Result<(), Failure> {
    check_device().map_err(|error| Failure::Input(error.to_string()))?;
    report::check(&arguments.page)?;
    let (spec, chip) = asked_for(arguments)?;
    if let Some(cuts) = &arguments.cut_at {
        return crash::test(arguments, *cuts, &spec, chip);
    }
    let host = Host::start();
    let tracing = arguments.trace.as_deref().map(|path| Tracing::begin(path, &spec)).transpose()?;
    let stack = match (chip, &tracing) {
        (Some(chip), _) => Stack::build_on(&spec, arguments.seed, chip, Existing::Volume),
        (None, Some(tracing)) => Stack::build_tapped(&spec, arguments.seed, tracing.tap()),
        (None, None) => Stack::build(&spec, arguments.seed),
    };
    let words = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (mounted, below) = stack.map_err(|error| Failure::Input(error.to_string()))?.lift();
    let Mounted::Files(fs) = mounted else {
        return Err(Failure::Input("stack.fs: expected a file system".to_owned()));
    };
    let recording = arguments.record.as_deref().map(|path| Recording::begin(path, &below, fs.root())).transpose()?;
    let mut run = ProgramRun::begin(&below, &spec, arguments.seed, words);
    run.image = arguments.image.as_ref().map(|path| path.to_string_lossy().into_owned());
    let recorder = recording.as_ref().map(Recording::recorder);
    let counter = Arc::new(Counter { recorder: recorder.clone(), ..Counter::default() });
    let options = Options { observer: Some(Arc::clone(&counter) as Arc<dyn Observer>), ..arrivals(&below) };
    let signals = Signals::watch();
    let top = match recorder {
        Some(recorder) => Top::Recorded(Wrapped::new(fs, recorder)),
        None => Top::Plain(fs),
    };
    let served = Served::begin_with(top, options)?;
    signals.mounted(served.unmounter());
    let ended = run_command(arguments, served.point(), &signals);
    let Back { mut fs, trouble, broken } = served.end()?;
    // All is synced; the unmount is not counted, as in no run, so that a recording replays to the
    // same figures.
    let seen = counter.held().clone();
    let record =
        RunRecord { host_time_ns: host.now_ns(), host_peak_bytes: host.peak_bytes(), ..run.end(&below, &seen) };
    // What a panic left half changed is not brought to the device.
    let unmounted = if broken { None } else { fs.unmount().err().map(|error| error.to_string()) };
    let trouble = trouble.or(unmounted);
    let space = fs.volume().ok();
    // Dropped without its end, a chip in a file is as it was.
    let closed = if broken { None } else { below.close(Mounted::Files(fs)).err().map(|error| error.to_string()) };
    let mut printed = Ok(());
    if arguments.json {
        printed = output::text(&format!("{}\n", record.to_line()));
    } else if ended.is_ok() {
        let passed = "what passed the kernel's cache";
        summary::lines(&record, passed, space.as_ref()).iter().for_each(|line| output::message(line));
        spec.host.iter().for_each(|host| output::message(&host.told()));
        output::message("pages that programs map and what the kernel reads ahead arrive when it likes");
    }
    let recorded = recording.map_or(Ok(()), Recording::finish);
    let page = report::write(&arguments.page, || page("What a command cost", std::slice::from_ref(&record), &[]));
    let traced = tracing.map_or(Ok(()), Tracing::finish);
    first_of([verdict(ended, trouble.or(closed)), recorded, printed, page, traced])
}

/// The first failure, most important first; the others are told.
fn first_of(results: [Result<(), Failure>; 5]) -> Result<(), Failure> {
    let mut failures = results.into_iter().filter_map(Result::err);
    let first = failures.next();
    failures.for_each(|failure| failure.message().into_iter().for_each(output::message));
    first.map_or(Ok(()), Err)
}

/// The command's own exit status, or why there is none.
fn verdict(ended: Result<ExitStatus, Failure>, trouble: Option<String>) -> Result<(), Failure> {
    if let Some(trouble) = &trouble {
        output::message(trouble);
    }
    match status_of(ended?) {
        0 if trouble.is_some() => Err(Failure::Told(1)),
        0 => Ok(()),
        status => Err(Failure::Told(status)),
    }
}

/// The exit status as shells give it: for a signal 128 and its number.
fn status_of(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| signal.saturating_add(128));
    u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1)
}

/// Runs the command in the root of the volume. Errors: it cannot be started.
fn run_command(arguments: &ExecArguments, point: &Path, signals: &Signals) -> Result<ExitStatus, Failure> {
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::Input("expected a command".to_owned()));
    };
    let mut command = command_in(point, program, rest);
    if arguments.json {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let mut child = command.spawn().map_err(|error| {
        output::message(&format!("cannot start {}: {error}", program.display()));
        Failure::Told(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
    })?;
    signals.running(child.id());
    let waited = child.wait();
    signals.ended();
    waited.map_err(|error| Failure::Input(format!("cannot wait for the command: {error}")))
}
