//! Arguments of `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

const EXAMPLES: &str = "Examples:
  nandkit serve --socket disk.sock                                 an emulated 1 GiB card until Ctrl-C
  nandkit serve --device slc-256m --ftl fast --port 10809          on TCP port 10809 of this machine
  nandkit serve --device ram --socket disk.sock                    a disk in memory
  nandkit serve --state card.nand --socket disk.sock               a card that outlives the server, and its being killed
  nandkit serve --image card.img --rw --socket disk.sock           a file of sectors
  nandkit serve --latency real --socket disk.sock                  requests take the simulated time

  qemu-img info 'nbd+unix:///?socket=disk.sock'
  nbdcopy image.raw 'nbd+unix:///?socket=disk.sock'
  nbd-client -unix disk.sock /dev/nbd0                             as root, on Linux";

/// Whether requests take the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LatencyName {
    /// As fast as the host can.
    #[default]
    None,
    /// As long as the device would take.
    Real,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("listening").args(["socket", "port"]).required(true)))]
pub struct ServeArguments {
    /// The device: a preset (see `nandkit devices`), a chip's spec or a card file (.toml), or ram;
    /// without it P4's.
    #[arg(long, value_name = "DEVICE", conflicts_with = "image")]
    pub device: Option<String>,
    /// The translation layer on a chip: block-map, fast or page-map.
    #[arg(long, value_name = "FTL", conflicts_with = "image")]
    pub ftl: Option<String>,
    /// Lays a value over the stack's spec, as stack.ftl.log_blocks=16; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "image")]
    pub settings: Vec<String>,
    /// Decides the device's faults.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "image")]
    pub seed: u64,
    /// Keep the chip in this file: it is made, or goes on as it was left. A client's flush is
    /// durable; what was not flushed may be lost if the server is killed.
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    pub state: Option<String>,
    /// Serve this file, or block device, instead of an emulated one; unchanged, unless --rw is
    /// given.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Let clients change the file of --image.
    #[arg(long, requires = "image")]
    pub rw: bool,
    /// Refuse every change.
    #[arg(long, conflicts_with = "rw")]
    pub read_only: bool,
    /// Listen on this socket file.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen on this TCP port; 0 takes a free one.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// The address to listen on with --port. Whoever reaches it can read and change the device.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// The export's name; clients may leave it out.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub name: String,
    /// Whether requests take the simulated time.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub latency: LatencyName,
    /// End when the last client has gone.
    #[arg(long)]
    pub once: bool,
    /// Clients at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub clients: u16,
    /// Print where it listens, and at the end what was done, as JSON.
    #[arg(long)]
    pub json: bool,
}
