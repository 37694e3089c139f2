//! The options of `rescue`.

use std::path::PathBuf;

use clap::Args;

use super::ImageArguments;

/// Arguments of `rescue`.
#[derive(Debug, Args)]
#[command(
    after_help = "For F2FS. All node blocks on the device are collected, and the newest version of each node is used. Names come from the directories that are found, otherwise from the inodes. Files without \
a directory go to lost+found. A file is uncertain if parts of it are lost (they become zeroes), if another file uses its blocks too, if it may be an older version, or \
if its directory does not list it. The image does not change. Exit status 1 if anything is missing or uncertain, 2 if no file is found.

Examples:
  nandkit rescue userdata.img out
  nandkit rescue disk.img out --offset 1M --json"
)]
pub struct RescueArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The target directory. It is created if missing, and must be empty.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Do not set owners; by default root sets them.
    #[arg(long)]
    pub no_owners: bool,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
