//! `nandkit serve`: serves a block device over NBD.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nandkit_block::{Access, BlockDevice, FileDevice};
use nandkit_lab::{HostMeter, ProgramRun, Seen};
use nandkit_nbd::{Ended, Endpoint, Export, Latency, Observer, RequestKind, Server, ServerOptions};
use nandkit_record::RunRecord;
use nandkit_stack::image::{ChipOwner, chip_owner, unpacked_device};
use nandkit_stack::{Below, DEFAULT_DEVICE, DeviceSpec, FsSpec, Keep, Mounted, Stack};
use nandkit_units::{Nanos, format_bytes};
use serde_json::json;

use crate::args::{LatencyName, ServeArguments};
use crate::failure::Failure;
use crate::host::Host;
use crate::stacks::{Single, named_device};
use crate::{output, stacks, stop, summary};

/// Sector size of a served file, in bytes.
const FILE_SECTOR: u32 = 512;

/// The served device, and what is needed to close it.
struct Served {
    device: Box<dyn BlockDevice>,
    title: String,
    stack: Option<Emulated>,
    started: Nanos,
}

/// The stack below an emulated device, with its counters from before it was served.
struct Emulated {
    mounted: Mounted,
    below: Below,
    run: ProgramRun,
}

/// Counts the requests of clients.
#[derive(Default)]
struct Counter(Mutex<Seen>);

impl Observer for Counter {
    fn done(&self, kind: RequestKind, bytes: u64, latency: Nanos) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(kind.name(), bytes, latency);
    }
}

/// Counts of clients.
#[derive(Default)]
struct Clients {
    all: AtomicU64,
    dropped: AtomicU64,
    turned_away: AtomicU64,
}

impl Clients {
    fn ended(&self, ended: &Ended) {
        if *ended == Ended::TurnedAway {
            if self.turned_away.fetch_add(1, Ordering::Relaxed) == 0 {
                output::message("too many clients: new ones are refused (--clients)");
            }
            return;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        if let Ended::Dropped(why) = ended {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            output::message(&format!("a client was disconnected: {why}"));
        }
    }
}

/// Serves until Ctrl-C or SIGTERM, or with `--once` until the last client disconnects.
pub fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let Served { device, title, stack, started } = match &arguments.image {
        Some(path) => file(path, arguments)?,
        None => emulated(arguments)?,
    };
    let host = Host::start();
    let capacity = device.geometry().capacity();
    let latency = if arguments.latency == LatencyName::Real { Latency::Real } else { Latency::None };
    let counter = Arc::new(Counter::default());
    let export = Export::new(device, &arguments.name, &title).from_time(started, latency);
    let export = export.observed(Arc::clone(&counter) as Arc<dyn Observer>);
    let is_read_only = arguments.read_only || (arguments.image.is_some() && !arguments.rw);
    let export = if is_read_only { export.read_only() } else { export };
    let server = bind(arguments, latency)?;
    let stop = stop::on_signal();
    let shown = server.endpoint().map_err(|error| Failure::Input(error.to_string()))?.to_string();
    ready(arguments.json, &shown, &title, capacity)?;
    let clients = Clients::default();
    let flushed = server.run(&export, &stop, &|ended| clients.ended(ended));
    let now = export.now();
    drop(export.into_device());
    flushed.map_err(|error| Failure::Check(format!("cannot flush the device: {error}")))?;
    let seen = counter.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let record = match stack {
        Some(stack) => Some(stack.end(now, &seen, &host)?),
        None => None,
    };
    finish(arguments, &clients, &seen, (now.since(started), record.as_ref()))
}

fn bind(arguments: &ServeArguments, latency: Latency) -> Result<Server, Failure> {
    let options = ServerOptions {
        clients_max: usize::from(arguments.clients),
        patience: Duration::from_secs(30),
        latency,
        once: arguments.once,
    };
    let endpoint = match (&arguments.socket, arguments.port) {
        (Some(path), _) => Endpoint::Unix(path.clone()),
        (None, port) => Endpoint::Tcp(arguments.address, port.unwrap_or(0)),
    };
    Server::bind(&endpoint, options).map_err(|error| {
        Failure::Input(format!("cannot listen on {endpoint}: {error}; expected a free address of this machine"))
    })
}

impl Emulated {
    /// Closes the stack, saves a chip in a file, and returns the record. Error: the written data
    /// could not be saved.
    fn end(self, now: Nanos, seen: &Seen, host: &Host) -> Result<RunRecord, Failure> {
        let Self { mounted, below, run } = self;
        below.clock.advance_to(now);
        let record = run.end(&below, seen);
        below.close(mounted).map_err(|error| Failure::Check(error.to_string()))?;
        Ok(RunRecord { host_time_ns: host.now_ns(), host_peak_bytes: host.peak_bytes(), ..record })
    }
}

/// Prints the statistics.
fn finish(
    arguments: &ServeArguments,
    clients: &Clients,
    seen: &Seen,
    (simulated, record): (Nanos, Option<&RunRecord>),
) -> Result<(), Failure> {
    let [all, dropped, turned_away] =
        [&clients.all, &clients.dropped, &clients.turned_away].map(|count| count.load(Ordering::Relaxed));
    if arguments.json {
        let told = json!({
            "clients": all, "clients_dropped": dropped, "clients_turned_away": turned_away, "simulated_ns": simulated.0,
            "bytes_written": seen.bytes_written, "bytes_read": seen.bytes_read, "record": record,
        });
        return output::text(&format!("{told}\n"));
    }
    let turned_away = if turned_away > 0 { format!("; {turned_away} more refused") } else { String::new() };
    output::message(&format!("clients: {all}, {dropped} of them disconnected by the server{turned_away}"));
    match record {
        Some(record) => {
            summary::lines(record, "by clients", None).iter().for_each(|line| output::message(line));
        }
        None => {
            let (written, read) = (format_bytes(seen.bytes_written), format_bytes(seen.bytes_read));
            output::message(&format!("{written} written, {read} read"));
        }
    }
    Ok(())
}

/// Prints that clients can connect.
fn ready(json: bool, shown: &str, title: &str, capacity: u64) -> Result<(), Failure> {
    if json {
        return output::text(&format!("{}\n", json!({"listening": shown, "device": title, "bytes": capacity})));
    }
    output::text(&format!("{title}, {}, at {shown}\n", format_bytes(capacity)))
}

fn file(path: &Path, arguments: &ServeArguments) -> Result<Served, Failure> {
    let unpacked = unpacked_device(path).map_err(|error| Failure::Input(format!("--image: {}", error.detail)))?;
    if let Some(device) = unpacked {
        if arguments.rw {
            let detail =
                format!("--rw: {} is packed in a format that nandkit can only read; expected no --rw", path.display());
            return Err(Failure::Input(detail));
        }
        return Ok(Served { device, title: path.display().to_string(), stack: None, started: Nanos::ZERO });
    }
    let access = if arguments.rw { Access::ReadWrite } else { Access::ReadOnly };
    let device = FileDevice::open_padded(path, FILE_SECTOR, access)
        .map_err(|error| Failure::Input(format!("--image: {error}")))?;
    if let Some(part) =
        std::fs::metadata(path).map(|file| file.len() % u64::from(FILE_SECTOR)).ok().filter(|part| *part > 0)
    {
        output::message(&format!(
            "--image: the last sector of {} has {part} bytes: clients read zeroes after them, and nothing is written after the end of the file",
            path.display()
        ));
    }
    let title = path.display().to_string();
    let device: Box<dyn BlockDevice> =
        if arguments.rw { Box::new(device) } else { Box::new(nandkit_block::wrap::ReadOnlyDevice::new(device)) };
    Ok(Served { device, title, stack: None, started: Nanos::ZERO })
}

fn emulated(arguments: &ServeArguments) -> Result<Served, Failure> {
    let found = layer_in_file(arguments)?;
    let spec = stacks::single(&Single {
        fs: FsSpec::None,
        device: device(arguments)?,
        ftl: arguments.ftl.as_deref().or(found),
        settings: &arguments.settings,
    })?;
    let stack =
        Stack::build_keeping(&spec, arguments.seed, Keep::AtSync).map_err(|error| Failure::Input(error.to_string()))?;
    let (mounted, below) = stack.lift();
    // The time to find out what is on the chip does not count for any request.
    let started = below.clock.now();
    let Mounted::Blocks(blocks) = &mounted else {
        return Err(Failure::Input(
            "stack.fs: a file system cannot be served as a block device; expected none".to_string(),
        ));
    };
    let device = Box::new(blocks.clone());
    let run = ProgramRun::begin(&below, &spec, arguments.seed, vec!["serve".to_owned()]);
    Ok(Served { device, title: spec.title(), stack: Some(Emulated { mounted, below, run }), started })
}

/// The translation layer that wrote the chip in `--state`; it continues unless `--ftl` names one.
/// Error: a file system on the bare flash, which every layer would erase.
fn layer_in_file(arguments: &ServeArguments) -> Result<Option<&'static str>, Failure> {
    let Some(state) = arguments.state.as_deref().map(Path::new).filter(|path| path.exists()) else { return Ok(None) };
    match chip_owner(state).map_err(|error| Failure::Input(format!("--state: {}", error.detail)))? {
        ChipOwner::Layer(kind) => Ok(Some(kind)),
        ChipOwner::Nobody => Ok(None),
        ChipOwner::Volume(name) => Err(Failure::Input(format!(
            "--state: the chip in {} holds {name} on the bare flash, which a translation layer would erase; expected a chip that was served before, or a new file (nandkit ls and mount can open this one)",
            state.display()
        ))),
    }
}

/// The device. With `--state` alone it is the chip in the file, or the default chip if there is no
/// file.
fn device(arguments: &ServeArguments) -> Result<DeviceSpec, Failure> {
    let Some(state) = &arguments.state else {
        return named_device(arguments.device.as_deref().unwrap_or(DEFAULT_DEVICE));
    };
    if arguments.device.is_none() && Path::new(state).exists() {
        return Ok(DeviceSpec::Kept { file: state.clone() });
    }
    match named_device(arguments.device.as_deref().unwrap_or(DEFAULT_DEVICE))? {
        DeviceSpec::Chip { preset, store, chip, interface, .. } => {
            Ok(DeviceSpec::Chip { preset, store, chip, file: Some(state.clone()), interface })
        }
        _ => Err(Failure::Input(
            "--state: a device in memory cannot be kept in a file; expected a chip as --device, or --image FILE --rw"
                .to_string(),
        )),
    }
}
