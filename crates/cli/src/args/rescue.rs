//! The options of `rescue`.

use std::path::PathBuf;

use clap::Args;

use super::ImageArguments;

/// Arguments of `rescue`.
#[derive(Debug, Args)]
#[command(
    after_help = "For F2FS. Every block that says that it is a node counts, the newest of each; names come from the directories that are found, else from the files themselves. What has no \
directory any more is in lost+found. A file is unsure where parts of it are lost (they become zeroes), where something else uses its blocks too, where it may be an older state, or \
where its directory does not list it. The image is only read. Exit status 1 where anything is missing or unsure, 2 where no file is found.

Examples:
  nandkit rescue userdata.img out
  nandkit rescue disk.img out --offset 1M --json"
)]
pub struct RescueArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// The directory; made where it is missing, and else empty.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Leave owners as they come; by default they are set if the user is root.
    #[arg(long)]
    pub no_owners: bool,
    /// Leave out extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    /// Print the report as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
