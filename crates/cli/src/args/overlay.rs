//! Arguments of `overlay`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "An overlay is made by nandkit mount IMAGE DIR --overlay FILE, and by put and its sisters with --overlay FILE. It is sparse: du tells its room. Every command that reads images takes --overlay FILE, too.

Examples:
  nandkit mount dump.bin mnt --overlay changes && vi mnt/etc/passwd && nandkit umount mnt
  nandkit overlay diff dump.bin changes
  nandkit overlay apply dump.bin changes
  nandkit overlay discard changes";

/// Arguments of `overlay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OverlayArguments {
    /// What becomes of it.
    #[command(subcommand)]
    pub action: OverlayAction,
}

/// What is done with an overlay.
#[derive(Debug, Subcommand)]
pub enum OverlayAction {
    /// Bring the changes into the image, all or none, and remove the overlay.
    #[command(after_help = "Example:\n  nandkit overlay apply dump.bin changes")]
    Apply {
        /// The image for which the overlay was made.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// The overlay.
        #[arg(value_name = "FILE")]
        overlay: PathBuf,
    },
    /// Forget the changes: remove the overlay.
    #[command(after_help = "Example:\n  nandkit overlay discard changes")]
    Discard {
        /// The overlay.
        #[arg(value_name = "FILE")]
        overlay: PathBuf,
    },
    /// List the files that the changes concern: A added, D deleted, M changed, T of another type;
    /// exit status 1 where there are any.
    #[command(
        after_help = "Example:\n  nandkit overlay diff dump.bin changes --region rootfs\n  nandkit overlay diff dump.bin changes --json"
    )]
    Diff {
        /// The image for which the overlay was made, and where in it.
        #[command(flatten)]
        image: Box<super::image::ImageArguments>,
        /// The overlay.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print the changes as JSON, a path and a letter for each, and nothing else, on standard
        /// output.
        #[arg(long)]
        json: bool,
    },
}
