//! Arguments of `calibrate`.

use std::path::PathBuf;

use clap::Args;

use super::image::bytes;

const EXAMPLES: &str = "Examples:
  nandkit calibrate sd-lexar-16                              an emulated card, in simulated time
  nandkit calibrate card-parts-fast -o parts.toml            a card file of a card that has no curve
  nandkit calibrate /dev/mmcblk0                             the reads of a real card; nothing is written
  nandkit calibrate /dev/mmcblk0 --write -o card.toml        all of it; what the card holds is lost
  nandkit calibrate disk.img --quick --json
  nandkit calibrate sd-lexar-16 --html curves.html           the curves as a page
  nandkit compare --device card.toml                         what calibrate wrote is a device";

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArguments {
    /// What is measured: a preset (see `nandkit devices`) or a spec in a .toml file, emulated; else
    /// a file or a block device, in real time, past the host's cache.
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Write the times as a card file, which --device takes; its name ends in .toml.
    #[arg(short, long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// Write the result as a page, too: one file with plots and tables that needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace FILE.toml, and FILE of --html.
    #[arg(long)]
    pub force: bool,
    /// The card's name; without it that of FILE.toml.
    #[arg(long, value_name = "NAME", requires = "out")]
    pub name: Option<String>,
    /// Write to a file or block device, too. What it holds is lost. Emulated devices are always
    /// written.
    #[arg(long)]
    pub write: bool,
    /// Do not ask before a file or block device is written.
    #[arg(long, requires = "write")]
    pub yes: bool,
    /// Fewer sizes and fewer requests of each.
    #[arg(long)]
    pub quick: bool,
    /// Bytes of a unit in which the device recycles, as 4M; without it as the device tells, else 4
    /// MiB.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub unit: Option<u64>,
    /// The translation layer on an emulated chip: block-map, fast or page-map.
    #[arg(long, value_name = "FTL")]
    pub ftl: Option<String>,
    /// Lays a value over an emulated stack's spec, as stack.device.open_units.count=2; may be given
    /// several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Decides the places of the requests, and an emulated device's faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
