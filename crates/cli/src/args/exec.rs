//! Arguments of `exec`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use nandkit_stack::crash::{Cut, CutPlan};

use super::PageOptions;

const EXAMPLES: &str = "The command runs in the root of the fresh volume; OLDPWD is where nandkit was called. Its requests reach the stack when it makes them, or later where the device is busy still; what the
kernel's cache answers does not reach it, and reading ahead and mapped pages come when the kernel likes. Exit status: the command's, 128 + N where signal N ended it, 1 where it ended
well and not all could be kept, 126 or 127 where it could not be started.

Examples:
  nandkit exec --fs jffs2 --device nandsim-32m-128k -- sh -c 'cp -a /usr/share/doc/b* .'
  nandkit exec --fs fat --ftl fast -- tar xf ~/tree.tar
  nandkit exec --fs jffs2 --json -- sqlite3 test.db 'create table t(a); insert into t values(1)' > record.json
  nandkit exec --image router.nand -- sh -c 'rm -r www; cp -a ~/www .'    what an update costs the flash
  nandkit exec --fs jffs2 --record cp.calls -- cp -a /etc/ssl .    and on another stack: nandkit compare --fs fat --workload trace:cp.calls
  nandkit exec --fs jffs2 --device nandsim-32m-128k --cut-at random:100 --check '$OLDPWD/verify.sh' -- $PWD/load.sh
  nandkit exec --fs fat -- sh                                      look around, until exit";

/// Where the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// At this step, counted from the mount.
    At(Cut),
    /// At this number of steps, drawn at random.
    Random(u32),
}

impl FromStr for Cuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected the number of a step, as in 17 or 17@before, or random:100";
        if let Some(count) = text.strip_prefix("random:") {
            let count = count.parse().ok().filter(|count| (1..=CUTS_MAX).contains(count));
            return count.map(Self::Random).ok_or_else(|| format!("expected random:1 to random:{CUTS_MAX}"));
        }
        let text = if text.contains('@') { text.to_owned() } else { format!("{text}@{MOMENT}") };
        match format!("at:{text}").parse() {
            Ok(CutPlan::At(cut)) if cut.step > 0 => Ok(Self::At(cut)),
            _ => Err(EXPECTED.to_owned()),
        }
    }
}

/// What a cut leaves where nothing else is asked for: half of a page, or of an erase.
const MOMENT: &str = "prefix-half";
/// More cuts are several calls.
const CUTS_MAX: u32 = 100_000;

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExecArguments {
    /// The file system: f2fs, fat, jffs2, ubifs or model; without it the image's, or fat.
    #[arg(long, value_name = "FS")]
    pub fs: Option<String>,
    /// The device: a preset (see `nandkit devices`), a chip's spec or a card file (.toml), or ram;
    /// without it P4's, or for an image of JFFS2 a chip of its shape.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Bring this image of JFFS2, FAT or F2FS onto the chip, and run the command in its volume. The
    /// image stays as it is.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// A region of the image, by name or number; `nandkit info` lists them.
    #[arg(long, value_name = "NAME|N", requires = "image")]
    pub region: Option<String>,
    /// Bytes of the image's erase blocks, OOB not counted, where it does not show them.
    #[arg(long, value_name = "BYTES", value_parser = super::image::bytes32, requires = "image")]
    pub erase_size: Option<u32>,
    /// The translation layer below F2FS or FAT: block-map, fast or page-map.
    #[arg(long, value_name = "FTL")]
    pub ftl: Option<String>,
    /// The host's memory: none, or cache=4M,dirty=1M,request_ns=0, which is the default. What waits
    /// there is lost in a power cut; nothing but a sync of the command's, and room, sends it on.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Lays a value over the stack's spec, as stack.ftl.log_blocks=16; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Decides the device's faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the record of the run as JSON on standard output; what the command prints there goes
    /// to standard error.
    #[arg(long)]
    pub json: bool,
    /// Cut the power at the N-th program, copy or erase that the command causes, or at K random
    /// ones, each time from the start: the command dies, the volume is mounted again, and --check
    /// judges it. N@MOMENT says when: before, after, or what is left, as in prefix-half.
    #[arg(long, value_name = "N|random:K", conflicts_with = "html")]
    pub cut_at: Option<Cuts>,
    /// What judges a volume after a cut: a shell command in its root, whose exit status 0 says that
    /// all is well. Without it all files are read.
    #[arg(long, value_name = "COMMAND", requires = "cut_at")]
    pub check: Option<String>,
    /// Keep what the command asks of the file system, with the instants and the bytes, in a file
    /// that `--workload trace:FILE` replays, on this stack or on another one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cut_at", "image"])]
    pub record: Option<PathBuf>,
    /// Write the operations of the chip into FILE, for Perfetto (ui.perfetto.dev): tracks of its
    /// dies, its channels, and the layers' causes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cut_at", "image"])]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOptions,
    /// The command and its arguments.
    #[arg(value_name = "COMMAND", required = true, last = true, num_args = 1..)]
    pub command: Vec<OsString>,
}
