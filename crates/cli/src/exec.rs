//! `nandkit exec`: a command on a fresh stack, and what it cost.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_fuse::{Ended, Observer, Operation, Options, Session, Timing, Volume, check_device, check_mount_point};
use nandkit_lab::{HostMeter, ProgramRun, Seen};
use nandkit_record::RunRecord;
use nandkit_stack::{DEFAULT_DEVICE, FsSpec, Mounted, MountedFileSystem, Stack};
use nandkit_units::{Nanos, format_bytes};
use nandkit_vfs::{Changes, FileSystem, VolumeStatus};

use crate::args::ExecArguments;
use crate::failure::Failure;
use crate::host::Host;
use crate::stacks::Single;
use crate::{output, stacks, stop};

/// Causes and kinds of requests that the summary tells.
const TOLD_MAX: usize = 6;

/// The file system on top of the stack.
struct Top(Box<dyn MountedFileSystem>);

impl Volume for Top {
    fn fs(&self) -> &dyn FileSystem {
        &*self.0
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        self.0.changes()
    }
}

/// Counts what passes the door.
#[derive(Default)]
struct Counter(Mutex<Seen>);

impl Observer for Counter {
    fn done(&self, operation: Operation, bytes: u64, latency: Nanos) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match operation {
            Operation::Write => seen.bytes_written = seen.bytes_written.saturating_add(bytes),
            Operation::Read => seen.bytes_read = seen.bytes_read.saturating_add(bytes),
            _ => {}
        }
        seen.latencies.entry(operation.name()).or_default().record(latency);
    }
}

/// Runs the command, and tells what it cost.
pub fn exec(arguments: &ExecArguments) -> Result<(), Failure> {
    let refused = |error: nandkit_fuse::MountError| Failure::Input(error.to_string());
    check_device().map_err(refused)?;
    let fs = FsSpec::kind(&arguments.fs).map_err(|error| Failure::Input(format!("--fs: {error}")))?;
    if fs == FsSpec::None {
        return Err(Failure::Input("--fs: none cannot be mounted; expected fat, jffs2 or model".to_owned()));
    }
    let device = stacks::named_device(arguments.device.as_deref().unwrap_or(DEFAULT_DEVICE))?;
    let (ftl, settings) = (arguments.ftl.as_deref(), &arguments.settings[..]);
    let spec = stacks::single(&Single { fs, device, ftl, settings })?;
    if !spec.keeps_content() {
        let detail = "stack.device.store: a shadow store keeps no content; expected content or described";
        return Err(Failure::Input(detail.to_owned()));
    }
    let host = Host::start();
    let stack = Stack::build(&spec, arguments.seed).map_err(|error| Failure::Input(error.to_string()))?;
    let words = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (mounted, below) = stack.lift();
    let Mounted::Files(fs) = mounted else {
        return Err(Failure::Input("stack.fs: expected a file system".to_owned()));
    };
    let run = ProgramRun::begin(&below, &spec, arguments.seed, words);
    let counter = Arc::new(Counter::default());
    let options = Options {
        timing: Timing::Arrivals { clock: below.clock.clone(), from: below.clock.now() },
        observer: Some(Arc::clone(&counter) as Arc<dyn Observer>),
        ..Options::default()
    };
    let failed = |error: std::io::Error| Failure::Input(format!("cannot make a directory to mount on: {error}"));
    let directory = tempfile::Builder::new().prefix("nandkit-").tempdir().map_err(failed)?;
    let point = check_mount_point(directory.path()).map_err(refused)?;
    let session = Session::mount(Top(fs), &point, options).map_err(refused)?;
    let unmounter = session.unmounter();
    let serving = std::thread::spawn(move || session.run());
    let ended = run_command(arguments, &point);
    if matches!(unmounter.unmount(), Ok(false)) {
        output::message("the volume is in use still: waiting until its last user has gone");
    }
    let Ok(Ended { volume: Some(Top(mut fs)), trouble }) = serving.join() else {
        return Err(Failure::Check("a request did not end; nothing is known of what it cost".to_owned()));
    };
    let trouble = trouble.or_else(|| fs.unmount().err().map(|error| error.to_string()));
    let space = fs.volume().ok();
    let seen = counter.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let record =
        RunRecord { host_time_ns: host.now_ns(), host_peak_bytes: host.peak_bytes(), ..run.end(&below, &seen) };
    let closed = below.close(Mounted::Files(fs)).err().map(|error| error.to_string());
    if arguments.json {
        output::text(&format!("{}\n", record.to_line()))?;
    } else if ended.is_ok() {
        summary(&record, space.as_ref()).iter().for_each(|line| output::message(line));
    }
    verdict(ended, trouble.or(closed))
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

/// As shells have it.
fn status_of(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| signal.saturating_add(128));
    u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1)
}

/// Runs the command in the root of the volume. Errors: it cannot be started.
fn run_command(arguments: &ExecArguments, point: &Path) -> Result<ExitStatus, Failure> {
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::Input("expected a command".to_owned()));
    };
    let here = std::env::current_dir().unwrap_or_default();
    let mut command = Command::new(resolved(program, &here));
    command.args(rest).current_dir(point).env("PWD", point).env("OLDPWD", &here);
    if arguments.json {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let mut child = command.spawn().map_err(|error| {
        output::message(&format!("cannot start {}: {error}", program.display()));
        Failure::Told(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
    })?;
    // Whoever ends this process means the command; what it wrote is flushed and told all the same.
    let (id, ended) = (child.id(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&ended);
    stop::at_signal(move || {
        if !flag.load(Ordering::Acquire) {
            nandkit_fuse::terminate(id);
        }
    });
    let waited = child.wait();
    ended.store(true, Ordering::Release);
    waited.map_err(|error| Failure::Input(format!("cannot wait for the command: {error}")))
}

/// A command with a path is meant from where nandkit was called.
fn resolved(program: &OsString, here: &Path) -> OsString {
    let path = Path::new(program);
    if path.components().count() > 1 { here.join(path).into_os_string() } else { program.clone() }
}

/// What it cost, for people.
fn summary(record: &RunRecord, space: Option<&VolumeStatus>) -> Vec<String> {
    let figures = &record.figures;
    let time = |ns: u64| Nanos(ns).to_string();
    let mut lines = vec![
        record.stack.clone(),
        format!("device time {}, elapsed {} (simulated)", time(figures.device_time_ns), time(figures.elapsed_ns)),
        format!(
            "{} written, {} read (what passed the kernel's cache), {} programmed, {} erases{}",
            format_bytes(figures.user_bytes_written),
            format_bytes(figures.user_bytes_read),
            format_bytes(figures.bytes_programmed),
            figures.erases,
            figures.waf.map_or_else(String::new, |waf| format!(", WAF {waf:.2}")),
        ),
    ];
    let causes = &figures.bytes_programmed_by_cause.0;
    let mut causes: Vec<_> = causes.iter().filter(|(_, bytes)| **bytes > 0).collect();
    causes.sort_by_key(|(name, bytes)| (std::cmp::Reverse(**bytes), (*name).clone()));
    let share = |bytes: u64| bytes as f64 / figures.user_bytes_written.max(1) as f64;
    let causes: Vec<String> =
        causes.into_iter().take(TOLD_MAX).map(|(name, bytes)| format!("{name} {:.2}", share(*bytes))).collect();
    if figures.waf.is_some() {
        lines.push(format!("WAF by cause: {}", causes.join(", ")));
    }
    let mut kinds: Vec<_> = figures.latency_ns.iter().filter(|(_, latency)| latency.max > 0).collect();
    kinds.sort_by_key(|(name, latency)| (std::cmp::Reverse(latency.count), (*name).clone()));
    for (name, latency) in kinds.into_iter().take(TOLD_MAX) {
        let (p50, p99, max) = (time(latency.p50), time(latency.p99), time(latency.max));
        lines.push(format!("{name}: {} requests, p50 {p50}, p99 {p99}, longest {max}", latency.count));
    }
    if let Some(space) = space {
        let bytes = |blocks: u64| format_bytes(blocks.saturating_mul(space.block_size.into()));
        lines.push(format!("{} free of {}", bytes(space.blocks_free), bytes(space.blocks)));
    }
    lines.push("pages that programs map and what the kernel reads ahead arrive when it likes".to_owned());
    lines
}
