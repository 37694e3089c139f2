//! Arguments of `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

const EXAMPLES: &str = "Examples:
  nandkit serve --socket disk.sock                                 an emulated 1 GiB memory card, until Ctrl-C
  nandkit serve --device slc-256m --ftl fast --port 10809          on TCP port 10809 of this machine
  nandkit serve --device ram --socket disk.sock                    a disk in memory
  nandkit serve --state card.nand --socket disk.sock               a card that is kept in a file and survives a killed server
  nandkit serve --image card.img --rw --socket disk.sock           an image of sectors
  nandkit serve --latency real --socket disk.sock                  requests take the simulated time

  qemu-img info 'nbd+unix:///?socket=disk.sock'
  nbdcopy image.raw 'nbd+unix:///?socket=disk.sock'
  nbd-client -unix disk.sock /dev/nbd0                             as root, on Linux";

/// How long a request takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LatencyName {
    /// As short as the host can make it.
    #[default]
    None,
    /// The simulated time of the device.
    Real,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("listening").args(["socket", "port"]).required(true)))]
pub struct ServeArguments {
    /// The device: a preset (see `nandkit devices`), a chip's spec or a card file (.toml), or ram;
    /// default: the device of paper P4.
    #[arg(long, value_name = "DEVICE", conflicts_with = "image")]
    pub device: Option<String>,
    /// The translation layer on a chip: block-map, fast or page-map.
    #[arg(long, value_name = "FTL", conflicts_with = "image")]
    pub ftl: Option<String>,
    /// Override a value of the stack's spec, such as stack.ftl.log_blocks=16. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "image")]
    pub settings: Vec<String>,
    /// Seed of the device's faults.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "image")]
    pub seed: u64,
    /// Keep the emulated chip in this file. It is created if missing, or continues with its last
    /// state. A flushed write survives a killed server; a write that was not flushed may be lost.
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    pub state: Option<String>,
    /// Serve this file or block device instead of an emulated device. It does not change unless
    /// --rw is given.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Allow clients to change the file of --image.
    #[arg(long, requires = "image")]
    pub rw: bool,
    /// Refuse every change.
    #[arg(long, conflicts_with = "rw")]
    pub read_only: bool,
    /// Listen on this socket file.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen on this TCP port; 0 chooses a free one.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Address to listen on with --port. Anyone who can reach it can read and change the device.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Name of the export; clients need not give it.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub name: String,
    /// Whether a request takes as long as on the device.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub latency: LatencyName,
    /// Exit when the last client disconnects.
    #[arg(long)]
    pub once: bool,
    /// Largest number of clients at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub clients: u16,
    /// Print the address, and the statistics at the end, as JSON.
    #[arg(long)]
    pub json: bool,
}
