//! `nandkit serve`: a block device over NBD.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nandkit_block::{Access, BlockDevice, FileDevice};
use nandkit_nbd::{Ended, Endpoint, Export, Latency, Server, ServerOptions};
use nandkit_stack::{DEFAULT_DEVICE, DeviceSpec, FsSpec, Keep, Mounted, Stack};
use nandkit_units::{Nanos, format_bytes};
use serde_json::json;

use crate::args::{LatencyName, ServeArguments};
use crate::failure::Failure;
use crate::stacks::{Single, named_device};
use crate::{output, stacks, stop};

/// Bytes of the sectors of a file that is served.
const FILE_SECTOR: u32 = 512;

/// What is served, and what is left to do with it afterwards.
struct Served {
    device: Box<dyn BlockDevice>,
    title: String,
    stack: Option<Stack>,
    started: Nanos,
}

/// Serves until Ctrl-C or SIGTERM, or with `--once` until the last client went.
pub fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let Served { device, title, stack, started } = match &arguments.image {
        Some(path) => file(path, arguments)?,
        None => emulated(arguments)?,
    };
    let capacity = device.geometry().capacity();
    let latency = if arguments.latency == LatencyName::Real { Latency::Real } else { Latency::None };
    let export = Export::new(device, &arguments.name, &title).from_time(started, latency);
    let export = if arguments.read_only { export.read_only() } else { export };
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
    let refused = |error| {
        Failure::Input(format!(
            "cannot listen on {endpoint}: {error}; expected an address of this machine that is free"
        ))
    };
    let server = Server::bind(&endpoint, options).map_err(refused)?;
    let shown = server.endpoint().map_err(refused)?.to_string();
    let stop = stop::on_signal();
    ready(arguments.json, &shown, &title, capacity)?;
    let dropped = AtomicU64::new(0);
    let clients = AtomicU64::new(0);
    let told = |ended: &Ended| {
        clients.fetch_add(1, Ordering::Relaxed);
        if let Ended::Dropped(why) = ended {
            dropped.fetch_add(1, Ordering::Relaxed);
            output::message(&format!("a client was dropped: {why}"));
        }
    };
    let flushed = server.run(&export, &stop, &told);
    let simulated = export.now().since(started);
    drop(export.into_device());
    flushed.map_err(|error| Failure::Check(format!("cannot flush the device: {error}")))?;
    if let Some(stack) = stack {
        stack.close().map_err(|error| Failure::Check(error.to_string()))?;
    }
    if arguments.json {
        let told = json!({
            "clients": clients.load(Ordering::Relaxed), "clients_dropped": dropped.load(Ordering::Relaxed),
            "simulated_ns": simulated.0,
        });
        output::text(&format!("{told}\n"))?;
    }
    Ok(())
}

/// Says that clients can connect.
fn ready(json: bool, shown: &str, title: &str, capacity: u64) -> Result<(), Failure> {
    if json {
        return output::text(&format!("{}\n", json!({"listening": shown, "device": title, "bytes": capacity})));
    }
    output::text(&format!("{title}, {}, at {shown}\n", format_bytes(capacity)))
}

fn file(path: &Path, arguments: &ServeArguments) -> Result<Served, Failure> {
    let access = if arguments.rw { Access::ReadWrite } else { Access::ReadOnly };
    let device =
        FileDevice::open(path, FILE_SECTOR, access).map_err(|error| Failure::Input(format!("--image: {error}")))?;
    let title = path.display().to_string();
    let device: Box<dyn BlockDevice> =
        if arguments.rw { Box::new(device) } else { Box::new(nandkit_block::wrap::ReadOnlyDevice::new(device)) };
    Ok(Served { device, title, stack: None, started: Nanos::ZERO })
}

fn emulated(arguments: &ServeArguments) -> Result<Served, Failure> {
    let spec = stacks::single(&Single {
        fs: FsSpec::None,
        device: device(arguments)?,
        ftl: arguments.ftl.as_deref(),
        settings: &arguments.settings,
    })?;
    let stack =
        Stack::build_keeping(&spec, arguments.seed, Keep::AtSync).map_err(|error| Failure::Input(error.to_string()))?;
    let Mounted::Blocks(blocks) = &stack.mounted else {
        return Err(Failure::Input("stack.fs: a file system is no block device; expected none".to_string()));
    };
    let (device, started) = (blocks.handle(), stack.started);
    Ok(Served { device, title: spec.title(), stack: Some(stack), started })
}

/// The device: with `--state` alone whatever chip is in the file, or the usual one where there is no file.
fn device(arguments: &ServeArguments) -> Result<DeviceSpec, Failure> {
    let Some(state) = &arguments.state else {
        return named_device(arguments.device.as_deref().unwrap_or(DEFAULT_DEVICE));
    };
    if arguments.device.is_none() && Path::new(state).exists() {
        return Ok(DeviceSpec::Kept { file: state.clone() });
    }
    match named_device(arguments.device.as_deref().unwrap_or(DEFAULT_DEVICE))? {
        DeviceSpec::Chip { preset, store, chip, .. } => {
            Ok(DeviceSpec::Chip { preset, store, chip, file: Some(state.clone()) })
        }
        _ => Err(Failure::Input(
            "--state: a device in memory has no state to keep; expected a chip as --device, or --image FILE --rw"
                .to_string(),
        )),
    }
}
