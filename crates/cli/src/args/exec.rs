//! Arguments of `exec`.

use std::ffi::OsString;

use clap::Args;

const EXAMPLES: &str = "The command runs in the root of the fresh volume; OLDPWD is where nandkit was called. Its requests reach the stack when it makes them, or later where the device is busy still; what the
kernel's cache answers does not reach it, and reading ahead and mapped pages come when the kernel likes. Exit status: the command's, 128 + N where signal N ended it, 1 where it ended
well and not all could be kept, 126 or 127 where it could not be started.

Examples:
  nandkit exec --fs jffs2 --device nandsim-32m-128k -- sh -c 'cp -a /usr/share/doc/b* .'
  nandkit exec --fs fat --ftl fast -- tar xf ~/tree.tar
  nandkit exec --fs jffs2 --json -- sqlite3 test.db 'create table t(a); insert into t values(1)' > record.json
  nandkit exec --fs fat -- sh                                      look around, until exit";

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExecArguments {
    /// The file system: fat, jffs2 or model.
    #[arg(long, value_name = "FS", default_value = "fat")]
    pub fs: String,
    /// The device: a preset (see `nandkit devices`), a chip's spec in a .toml file, or ram; without it P4's.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The translation layer below FAT: block-map or fast.
    #[arg(long, value_name = "FTL")]
    pub ftl: Option<String>,
    /// Lays a value over the stack's spec, as stack.ftl.log_blocks=16; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Decides the device's faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the record of the run as JSON on standard output; what the command prints there goes to standard error.
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments.
    #[arg(value_name = "COMMAND", required = true, last = true, num_args = 1..)]
    pub command: Vec<OsString>,
}
