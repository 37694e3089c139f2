//! The commands and their options. Help texts, completions and the man pages are made from them.

mod calibrate;
mod change;
mod exec;
mod export;
mod groups;
mod image;
mod mkfs;
mod mount;
mod overlay;
mod qtar;
mod report;
mod rescue;
mod resize;
mod serve;
mod ubi;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub use calibrate::CalibrateArguments;
pub use change::{
    ChangeArguments, ChmodArguments, ChownArguments, GetArguments, LnArguments, MkdirArguments, MvArguments,
    PutArguments, RmArguments, SetfattrArguments,
};
pub use exec::{Cuts, ExecArguments};
pub use export::{ExportArguments, Tool};
pub use groups::command;
pub use image::{
    AndroidOptions, CatArguments, CheckArguments, ExtractArguments, GetfattrArguments, ImageArguments, InfoArguments,
    LsArguments, SegmentsName,
};
pub use mkfs::{Asked, MkfsArguments, TreeOptions};
pub use mount::{MountArguments, UmountArguments};
pub use overlay::{OverlayAction, OverlayArguments};
pub use qtar::{QtarAction, QtarArguments, QtarCreateArguments, QtarExtractArguments};
pub use report::{PageOptions, ReportArguments};
pub use rescue::RescueArguments;
pub use resize::ResizeArguments;
pub use serve::{LatencyName, ServeArguments};
pub use ubi::{UbiAction, UbiArguments, UbiChangeArguments, UbiUpdateArguments, UbinizeArguments};

/// The NAND-flash storage stack in user space: open, make and check flash images; compare file
/// systems, translation layers and cleaning policies on an emulated chip.
#[derive(Debug, Parser)]
#[command(name = "nandkit", version, max_term_width = 110, arg_required_else_help = true)]
#[command(
    after_help = "Exit status: 0 done, 1 a check or claim failed or damage was found, 2 unusable input, 130 stopped by Ctrl-C."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare file systems, layers and policies on workloads.
    ///
    /// Without arguments: F2FS and FAT on a drive and on a memory card, and JFFS2 and UBIFS on the
    /// bare chip.
    Compare(CompareArguments),
    /// Run an experiment, or a grid of them, from a TOML file.
    Run(RunArguments),
    /// List the device presets, or show one with each figure's source.
    Devices(DevicesArguments),
    /// Measure a device's times by request size; make a card file.
    Calibrate(CalibrateArguments),
    /// Measure a paper's claims, and print its figures beside ours.
    Reproduce(ReproduceArguments),
    /// Make a table and a page from records, or compare two sets.
    Report(ReportArguments),
    /// List the workloads, or show one with its parameters.
    Workloads(WorkloadsArguments),
    /// Identify an image, and show the evidence.
    ///
    /// The image is a flash dump, a volume, or an emulated chip that a run saved to a file. The
    /// report shows its layout, its regions and its volume.
    Info(InfoArguments),
    /// List the files of an image.
    Ls(LsArguments),
    /// Write a file of an image to standard output.
    Cat(CatArguments),
    /// Write all files of an image into a directory or a tar archive.
    Extract(ExtractArguments),
    /// A tar that reads many files with few large requests.
    ///
    /// nandkit qtar cf ARCHIVE DIR|IMAGE, xf ARCHIVE DIR, tf ARCHIVE.
    Qtar(QtarArguments),
    /// Check an image; write a repaired copy.
    ///
    /// The exit status is 1 if anything is damaged.
    Check(CheckArguments),
    /// Save the files of an F2FS volume that has lost its tables.
    ///
    /// It reads volumes whose superblocks, checkpoints or tables are lost, and says how certain
    /// each file is.
    Rescue(RescueArguments),
    /// Change the size of a volume in an image.
    ///
    /// If it is interrupted, the volume has its old size or its new one, nothing in between.
    Resize(ResizeArguments),
    /// Show and change the volumes of a UBI device.
    ///
    /// nandkit ubi info|ls|extract|mkvol|rmvol|rsvol|rename|update IMAGE;
    /// nandkit ubi ubinize DESCRIPTION IMAGE.
    Ubi(UbiArguments),
    /// Make an image, empty or from a directory or a tar archive.
    Mkfs(MkfsArguments),
    /// Serve an emulated disk, or a file, over NBD.
    Serve(ServeArguments),
    /// Run a program on an emulated device, and report what it cost.
    ///
    /// The report shows write amplification by cause, erases, latencies and device time.
    Exec(ExecArguments),
    /// Convert an image for nandwrite, U-Boot, fastboot and other tools.
    Export(ExportArguments),
    /// Mount an image as a directory.
    Mount(MountArguments),
    /// Apply, discard or list the changes stored in an overlay file.
    Overlay(OverlayArguments),
    /// Unmount an image, and wait until all changes are written.
    Umount(UmountArguments),
    /// Put a file or a tree into an image.
    Put(PutArguments),
    /// Get a file or a directory out of an image.
    Get(GetArguments),
    /// Remove files or directories from an image.
    Rm(RmArguments),
    /// Rename or move files and directories of an image.
    Mv(MvArguments),
    /// Make directories in an image.
    Mkdir(MkdirArguments),
    /// Make links in an image.
    Ln(LnArguments),
    /// Change permissions of files of an image.
    Chmod(ChmodArguments),
    /// Change owners of files of an image.
    Chown(ChownArguments),
    /// Show extended attributes of files of an image.
    Getfattr(GetfattrArguments),
    /// Set or remove extended attributes of files of an image.
    Setfattr(SetfattrArguments),
    /// List the cleaning policies.
    Policies(PoliciesArguments),
    /// Check which helper programs and devices this machine has.
    ///
    /// With --clean it also removes mounts that a killed process left behind.
    Doctor(DoctorArguments),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  nandkit completions bash > ~/.local/share/bash-completion/completions/nandkit")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the man page of nandkit or of a command, or write all.
    Man(ManArguments),
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit man > nandkit.1 && man ./nandkit.1
  nandkit man overlay apply > page.1 && man ./page.1
  nandkit man --dir ~/.local/share/man/man1            nandkit.1, nandkit-mount.1, nandkit-overlay-apply.1 ...")]
pub struct ManArguments {
    /// The command, such as mount or overlay apply.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write the pages of all commands into this directory; it is created if missing.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit doctor
  nandkit doctor --clean")]
pub struct DoctorArguments {
    /// Unmount images whose nandkit process has ended, and remove the mount directories of killed
    /// `exec` commands.
    #[arg(long)]
    pub clean: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Output options of a result.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Format {
    /// Print only JSON on standard output.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print one line of comma-separated values per run.
    #[arg(long)]
    pub csv: bool,
}

/// Output format of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Printed {
    /// Text for a terminal.
    Text,
    /// Markdown, for an issue or a web page.
    Md,
    /// One line of comma-separated values per run.
    Csv,
    /// JSON.
    Json,
}

/// Largest number of threads accepted: more than any machine has processors, and they would only
/// cost memory.
const THREADS_MAX: usize = 1024;

/// Parses a number of threads; 0 means one per processor.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= THREADS_MAX);
    number.ok_or_else(|| format!("expected 0 to {THREADS_MAX}, with 0 for one thread for each processor"))
}

/// How runs are executed and stored.
#[derive(Clone, Debug, Default, Args)]
pub struct Running {
    /// Number of threads; default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = threads)]
    pub jobs: usize,
    /// Store the records in DIR/runs.jsonl. A run that is already there is skipped if this build
    /// made it from the same inputs; records of other builds or inputs move to DIR/runs-old.jsonl.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const COMPARE_EXAMPLES: &str = "Examples:
  nandkit compare
  nandkit compare --policy merge,macroscopic --workload fax --seeds 5
  nandkit compare --device slc-256m --log-blocks 4 --workload postmark-small
  nandkit compare --workload tree:/usr/share/doc
  nandkit compare --fs none --workload trace:disk.csv
  nandkit compare --device-file card.nand --ftl fast --workload phone     one run on the chip saved in card.nand
  nandkit compare --csv > figures.csv
  nandkit compare one.json other.json                                     compare records of exec --json and run --out";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArguments {
    /// Compare these records instead of running anything: files written by `exec --json` and `run
    /// --out`, one record a line; - for standard input.
    #[arg(value_name = "RECORDS", conflicts_with_all = ["fs", "ftl", "policy", "log_blocks", "device", "device_file", "host", "workloads", "precondition", "seeds", "no_verify", "jobs", "out"])]
    pub records: Vec<PathBuf>,
    /// File systems: f2fs, fat, jffs2, ubifs, model, or none for workloads on blocks. Without
    /// --device and --ftl, each of the first four runs on the device it is made for
    /// (docs/guide/comparing.md).
    #[arg(long, value_name = "FS,...", value_delimiter = ',')]
    pub fs: Vec<String>,
    /// Translation layers: block-map, fast, page-map, or none on a device in memory or a card;
    /// default: block-map and fast on chips, the drive's own on drives.
    #[arg(long, value_name = "FTL,...", value_delimiter = ',')]
    pub ftl: Vec<String>,
    /// Recycling policies of block-map; default: all of them (see `nandkit policies`).
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Number of log blocks of the translation layer.
    #[arg(long, value_name = "N")]
    pub log_blocks: Option<u32>,
    /// The device: a preset (see `nandkit devices`), a chip's spec or a card file (.toml), or ram.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Keep the emulated chip in FILE from run to run. FILE is created if missing; otherwise its
    /// chip must match --device, if given. Allows only one run at a time.
    #[arg(long, value_name = "FILE")]
    pub device_file: Option<String>,
    /// The host's cache, the same for every file system:
    /// cache=4M,dirty=1M,sync_ms=5000,request_ns=0 (the default), or none, which leaves each file
    /// system the cache of its own options.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// A workload, NAME or NAME:key=value,... (see `nandkit workloads`). May be repeated.
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// Preparation before the measurement. For file systems: none, or used (files fill 70 % of the
    /// space and are then overwritten once at random; the default if no device is named). For
    /// blocks: none, fill (every sector is written once), or steady (fill, then the workload runs
    /// until its write amplification has settled).
    #[arg(long, value_name = "HOW")]
    pub precondition: Option<String>,
    /// Metrics to show as columns instead of the default ones: names and dotted paths, as in `run
    /// --metrics`.
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Runs of each combination, with seeds 1, 2, ...; default: 2, or 1 with --device-file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// Skip the read-back of all data at the end of each run.
    #[arg(long)]
    pub no_verify: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub running: Running,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub format: Format,
    /// Output format: text, md (Markdown), csv or json.
    #[arg(long = "format", value_name = "FORMAT", conflicts_with_all = ["json", "csv"])]
    pub printed: Option<Printed>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOptions,
}

const RUN_EXAMPLES: &str = "Examples:
  nandkit run specs/experiments/log-blocks.toml --out results
  nandkit run spec.toml --set stack.ftl.policy=limit --set stack.ftl.limit=32 --seed 7
  nandkit run specs/experiments/wear.toml --set stack.device.failures.enabled=true
  nandkit run spec.toml --device-file card.nand
  nandkit run spec.toml --metrics write_mb_per_s,waf,latency_ns.write.p99,layers.ftl.ftl_full_merges

An experiment:
  seeds = 3
  [stack]
  device = \"k9l8g08u0m\"
  ftl = { kind = \"block-map\", policy = \"macroscopic\" }
  fs = \"fat\"
  [workload]
  kind = \"fax\"
  [grid]
  stack.ftl.log_blocks = [4, 8, 16]";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArguments {
    /// The experiment file.
    #[arg(value_name = "SPEC.toml")]
    pub spec: PathBuf,
    /// Override a value of the spec. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Short for --set stack.device.file=FILE: keep the emulated chip in FILE from run to run.
    /// Allows only one run at a time.
    #[arg(long, value_name = "FILE")]
    pub device_file: Option<String>,
    /// Use this seed instead of the spec's seeds.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write the operations of the chip into FILE, for Perfetto (ui.perfetto.dev): tracks of its
    /// dies, its channels, and the layers' causes. Takes one run at a time.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Columns of the table: metrics or dotted paths of a record.
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',')]
    pub metrics: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub running: Running,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub format: Format,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOptions,
}

/// Arguments of `devices`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nandkit devices\n  nandkit devices k9l8g08u0m")]
pub struct DevicesArguments {
    /// The device to show.
    pub name: Option<String>,
    /// Print only JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nandkit reproduce P1\n  nandkit reproduce P2\n  nandkit reproduce P3.2 --dir /usr/include -v\n  nandkit reproduce P4.3 --json\n  nandkit reproduce theory\n  nandkit reproduce --quick"
)]
pub struct ReproduceArguments {
    /// A paper (P1, P2, P3, P4) or one of its claims (P4.3); theory, which compares simulations
    /// with closed forms and mean-field models, or one of its rows (theory.fifo-0.07). Default:
    /// everything.
    #[arg(value_name = "CLAIM")]
    pub what: Option<String>,
    /// Also pack the files of this directory, by their names and sizes, with tar and with qtar on
    /// the simulated drive: a row in the table of P3.2. May be repeated.
    #[arg(long = "dir", value_name = "DIR")]
    pub directories: Vec<String>,
    /// Use fewer seeds and smaller workloads. The verdicts of such a run do not count; the recorded
    /// ones are shown.
    #[arg(long)]
    pub quick: bool,
    /// Print each claim's figures, tables and causes before the table of all claims.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print only JSON on standard output.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub running: Running,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOptions,
}

/// Arguments of `workloads`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nandkit workloads\n  nandkit workloads postmark")]
pub struct WorkloadsArguments {
    /// The workload to show.
    pub name: Option<String>,
    /// Print only JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `policies`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit policies")]
pub struct PoliciesArguments {
    /// Print only JSON on standard output.
    #[arg(long)]
    pub json: bool,
}
