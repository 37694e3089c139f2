//! The commands and their options: help texts, completions and the man page come from here.

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
    /// Without arguments: F2FS and FAT on a drive and on a memory card, and JFFS2 on the bare chip.
    Compare(CompareArguments),
    /// Run an experiment, or a grid of them, from a TOML file.
    Run(RunArguments),
    /// List the device presets, or one with each figure's source.
    Devices(DevicesArguments),
    /// Measure a device's times by request size; make a card file.
    Calibrate(CalibrateArguments),
    /// Measure a paper's claims, and print its figures beside ours.
    Reproduce(ReproduceArguments),
    /// Make a table and a page of records, or of two sets of them.
    Report(ReportArguments),
    /// List the workloads, or one with its parameters.
    Workloads(WorkloadsArguments),
    /// Say what an image is, and show the evidence.
    ///
    /// The image is a dump, a volume, or a chip that runs have kept in a file. The report holds its
    /// layout, its regions and its volume.
    Info(InfoArguments),
    /// List the files of an image.
    Ls(LsArguments),
    /// Write a file of an image to standard output.
    Cat(CatArguments),
    /// Write all files of an image into a directory or a tar archive.
    Extract(ExtractArguments),
    /// Tar that reads many files in few large requests.
    ///
    /// nandkit qtar cf ARCHIVE DIR|IMAGE, xf ARCHIVE DIR, tf ARCHIVE.
    Qtar(QtarArguments),
    /// Check an image, and repair it into a new one.
    ///
    /// The exit status is 1 where something is wrong.
    Check(CheckArguments),
    /// Save the files of an F2FS volume that has lost its tables.
    ///
    /// It reads volumes whose superblocks, checkpoints or tables are lost, and says how sure each
    /// file is.
    Rescue(RescueArguments),
    /// Change the size of a volume in an image.
    ///
    /// The volume has its old size or its new one, whatever happens meanwhile.
    Resize(ResizeArguments),
    /// Make an image, empty or from a directory or a tar archive.
    Mkfs(MkfsArguments),
    /// Serve an emulated disk, or a file, over NBD.
    Serve(ServeArguments),
    /// Run a program on an emulated device, and say what it cost.
    ///
    /// The report has write amplification by cause, erases, latencies and device time.
    Exec(ExecArguments),
    /// Write an image as nandwrite, U-Boot, fastboot etc. take it.
    Export(ExportArguments),
    /// Mount an image as a directory.
    Mount(MountArguments),
    /// Apply, discard or list changes kept beside an image.
    Overlay(OverlayArguments),
    /// Unmount an image, and wait until everything is in it.
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
    /// Say what this machine offers, and what to install.
    ///
    /// It removes mounts that a killed process has left, too (--clean).
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
    /// The command, in its words: mount, or overlay apply.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write the pages of all commands into this directory, which is made where it is not there.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit doctor
  nandkit doctor --clean")]
pub struct DoctorArguments {
    /// Unmount what nandkit mounted and whose process has gone, and remove the directories on which
    /// a killed `exec` had mounted.
    #[arg(long)]
    pub clean: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Format {
    /// Print JSON, and nothing else, on standard output.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print one line of comma-separated values for each run.
    #[arg(long)]
    pub csv: bool,
}

/// A form of a printed comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Printed {
    /// For a terminal.
    Text,
    /// Markdown, for an issue or a page.
    Md,
    /// A line of comma-separated values for each run.
    Csv,
    /// JSON.
    Json,
}

/// More threads than any machine has processors only cost memory.
const THREADS_MAX: usize = 1024;

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= THREADS_MAX);
    number.ok_or_else(|| format!("expected 0 to {THREADS_MAX}, with 0 for one thread for each processor"))
}

/// How runs are made.
#[derive(Clone, Debug, Default, Args)]
pub struct Running {
    /// Threads; without it one for each processor. The results do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = threads)]
    pub jobs: usize,
    /// Keep the records in DIR/runs.jsonl; runs whose records are there already, made by this build
    /// from the same inputs, are not made again. Other records go to DIR/runs-old.jsonl.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const COMPARE_EXAMPLES: &str = "Examples:
  nandkit compare
  nandkit compare --policy merge,macroscopic --workload fax --seeds 5
  nandkit compare --device slc-256m --log-blocks 4 --workload postmark-small
  nandkit compare --workload tree:/usr/share/doc
  nandkit compare --fs none --workload trace:disk.csv
  nandkit compare --device-file card.nand --ftl fast --workload phone     one run on a chip that lives in card.nand
  nandkit compare --csv > figures.csv
  nandkit compare one.json other.json                                     records of exec --json and run --out side by side";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArguments {
    /// Compare these records instead of running anything: files of `exec --json` and of
    /// `run --out`, a record on each line; - for standard input.
    #[arg(value_name = "RECORDS", conflicts_with_all = ["fs", "ftl", "policy", "log_blocks", "device", "device_file", "host", "workloads", "precondition", "seeds", "no_verify", "jobs", "out"])]
    pub records: Vec<PathBuf>,
    /// File systems: f2fs, fat, jffs2, model, or none for workloads on blocks. Without --device and
    /// translation layers each of the first three stands where it belongs: see the guide on
    /// comparing.
    #[arg(long, value_name = "FS,...", value_delimiter = ',')]
    pub fs: Vec<String>,
    /// Translation layers: block-map, fast, page-map, or none on a device in memory or a card;
    /// without it block-map and fast on chips, a drive's own on drives.
    #[arg(long, value_name = "FTL,...", value_delimiter = ',')]
    pub ftl: Vec<String>,
    /// Recycling policies of block-map, all by default: see `nandkit policies`.
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Log blocks of the translation layer.
    #[arg(long, value_name = "N")]
    pub log_blocks: Option<u32>,
    /// The device: a preset (see `nandkit devices`), a chip's spec or a card file (.toml), or ram.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Keep the chip in FILE, from run to run: made if there is none, else it must be the chip
    /// asked for (without --device any). Takes one run at a time.
    #[arg(long, value_name = "FILE")]
    pub device_file: Option<String>,
    /// The host's memory, alike for every file system: none (each has what its own options say),
    /// or cache=4M,dirty=1M,sync_ms=5000,request_ns=0, which is the default.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// A workload, NAME or NAME:key=value,...; see `nandkit workloads`. May be given several times.
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// What happens before the measurement. Of file systems: none, or used (files fill 70 % of the
    /// room, which is overwritten once in them at random; the default where no device is named). Of
    /// blocks: none, fill (every sector is written once), or steady (then the workload runs until
    /// its write amplification has settled and is known).
    #[arg(long, value_name = "HOW")]
    pub precondition: Option<String>,
    /// Metrics as columns, in place of those that people decide by: names and dotted paths, as
    /// `run --metrics` takes them.
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Runs of each combination, with seeds 1, 2, ...; by default 2, and 1 with --device-file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// Do not read everything back at the end of each run.
    #[arg(long)]
    pub no_verify: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub running: Running,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub format: Format,
    /// How the result is printed: text, md (Markdown), csv or json.
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
    /// The experiment.
    #[arg(value_name = "SPEC.toml")]
    pub spec: PathBuf,
    /// Lays a value over the spec's; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Short for --set stack.device.file=FILE: keep the chip in FILE, from run to run. Takes one
    /// run at a time.
    #[arg(long, value_name = "FILE")]
    pub device_file: Option<String>,
    /// Run this seed instead of the spec's.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write the operations of the chip into FILE, for Perfetto (ui.perfetto.dev): tracks of its
    /// dies, its channels, and the layers' causes. Takes one run at a time.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The columns of the table: metrics or dotted paths of a record.
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
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nandkit reproduce P1\n  nandkit reproduce P2\n  nandkit reproduce P4.3 --json\n  nandkit reproduce theory\n  nandkit reproduce --quick"
)]
pub struct ReproduceArguments {
    /// A paper (P1, P2, P3, P4) or one claim of it (P4.3); theory, closed forms and mean fields beside
    /// simulation, or one row of it (theory.fifo-0.07); without it everything.
    #[arg(value_name = "CLAIM")]
    pub what: Option<String>,
    /// Fewer seeds and smaller workloads. Verdicts of such a run do not count: those on record are
    /// shown.
    #[arg(long)]
    pub quick: bool,
    /// Print each claim's figures, tables and causes before the table of all.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print JSON, and nothing else, on standard output.
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
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `policies`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nandkit policies")]
pub struct PoliciesArguments {
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
