//! The options of `resize`.

use clap::Args;

use super::ImageArguments;
use super::image::bytes;

/// Arguments of `resize`.
#[derive(Debug, Args)]
#[command(
    after_help = "For F2FS on one device. The volume's tables grow and shrink with it, and blocks move if needed. If the volume fills the whole image, the file gets this length. If the command is \
interrupted, the image holds the volume in its old size or in the new one. A size that is too small is refused; the message names the smallest possible one.

Examples:
  nandkit resize userdata.img 8G
  nandkit resize disk.img 512M --region userdata --json"
)]
pub struct ResizeArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub image: ImageArguments,
    /// New size of the volume in bytes: 8G, 0x20000000.
    #[arg(value_name = "SIZE", value_parser = bytes)]
    pub bytes: u64,
    /// Print the result as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub json: bool,
}
